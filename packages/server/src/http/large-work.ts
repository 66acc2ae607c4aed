import { createGate } from "../platform/gate.ts";
import { tooMuchArrives } from "./arriving-bodies.ts";

/** Lets the work on what requests send in large pieces in, a little of it at a time. */
export interface LargeWork {
  /**
   * The work's result. Rejects with a refusal with 503 where too much waits already.
   * @param bytes that are held while the work waits and goes on
   */
  through<Result>(bytes: number, work: () => Promise<Result>): Promise<Result>;
}

/** Of work that may wait. */
const MAX_WAITING = 30;
/** Bytes that wait and are worked on. */
const MAX_HELD_BYTES = 64 * 1024 * 1024;

/**
 * @param maxRunning pieces of work at a time; each may take many times the memory of its bytes
 * @param maxHeldBytes together, unless there is but one; 64 MiB unless given
 */
export function createLargeWork({
  maxRunning,
  maxHeldBytes = MAX_HELD_BYTES,
}: {
  maxRunning: number;
  maxHeldBytes?: number | undefined;
}): LargeWork {
  const gate = createGate({ maxRunning, maxWaiting: MAX_WAITING });
  let heldBytes = 0;
  return {
    async through(bytes, work) {
      if (heldBytes > 0 && heldBytes + bytes > maxHeldBytes) throw tooMuchArrives();
      heldBytes += bytes;
      try {
        const done = await gate.through(work);
        if (done === "full") throw tooMuchArrives();
        return done;
      } finally {
        heldBytes -= bytes;
      }
    },
  };
}
