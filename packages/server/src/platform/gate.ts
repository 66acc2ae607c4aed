/** Lets some work in at a time. */
export interface Gate {
  /** The work's result; `"full"` when too much waits already. */
  through<Result>(work: () => Promise<Result>): Promise<Result | "full">;
}

/**
 * A gate for work that takes memory: `maxRunning` at a time, the rest waits in its order.
 * @param maxWaiting more are turned away
 */
export function createGate({
  maxRunning,
  maxWaiting,
}: {
  maxRunning: number;
  maxWaiting: number;
}): Gate {
  let running = 0;
  const waiting: (() => void)[] = [];
  return {
    async through(work) {
      if (running >= maxRunning) {
        if (waiting.length >= maxWaiting) return "full";
        // Whoever leaves hands its place on.
        await new Promise<void>((enter) => waiting.push(enter));
      } else {
        running++;
      }
      try {
        return await work();
      } finally {
        const next = waiting.shift();
        if (next) next();
        else running--;
      }
    },
  };
}

/** A {@link Gate} for each of many things, there for as long as work is in it. */
export function createGates(bounds: Parameters<typeof createGate>[0]) {
  const gates = new Map<number, { readonly gate: Gate; users: number }>();
  return {
    /** As {@link Gate.through}, by the gate of one thing. */
    async through<Result>(id: number, work: () => Promise<Result>): Promise<Result | "full"> {
      const entry = gates.get(id) ?? { gate: createGate(bounds), users: 0 };
      gates.set(id, entry);
      entry.users += 1;
      try {
        return await entry.gate.through(work);
      } finally {
        entry.users -= 1;
        if (entry.users === 0) gates.delete(id);
      }
    },
  };
}
