import type { RefusalStore, RefusedSendings } from "./refusal-store.ts";

/** Which events capture did not take, gathered in memory and written in batches. */
export interface Refusals {
  /** Costs a look into a map; never fails. */
  note(refusal: Pick<RefusedSendings, "projectId" | "uuid" | "code" | "detail">): void;
  /** Writes what was noted. What cannot be written is forgotten, and reported. */
  flush(): Promise<void>;
  /** What was noted of a uuid until now, the latest first. */
  find(projectId: number, uuid: string): Promise<readonly RefusedSendings[]>;
}

/** Most that waits to be written; what comes beyond leaves no receipt. */
const MAX_WAITING = 10_000;

/** {@link Refusals} over a store. */
export function createRefusals({
  store,
  clock,
  reportFault,
}: {
  store: Pick<RefusalStore, "add" | "find">;
  clock: () => Date;
  reportFault: (error: unknown, context: string) => void;
}): Refusals {
  let waiting = new Map<string, RefusedSendings>();
  let writing: Promise<void> = Promise.resolve();

  function flush(): Promise<void> {
    const due = waiting;
    waiting = new Map();
    if (due.size > 0) {
      writing = writing
        .then(() => store.add([...due.values()]))
        .catch((error: unknown) => reportFault(error, "refusals could not be written"));
    }
    return writing;
  }

  return {
    note({ projectId, uuid, code, detail }) {
      const key = `${projectId} ${uuid} ${code}`;
      const before = waiting.get(key);
      if (!before && waiting.size >= MAX_WAITING) return;
      const lastAt = clock();
      const { firstAt, times } = before ?? { firstAt: lastAt, times: 0 };
      const refused = { projectId, uuid, code, detail, firstAt, lastAt, times: times + 1 };
      waiting.set(key, refused);
    },
    flush,
    async find(projectId, uuid) {
      await flush();
      return store.find(projectId, uuid);
    },
  };
}
