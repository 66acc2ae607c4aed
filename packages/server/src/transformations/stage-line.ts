import { withResolvers } from "../platform/with-resolvers.ts";

/** The order in which a stage is given chunks of events. */
export interface StageLine {
  /**
   * Does work for the next chunk: once `ready` is, the chunk before has been given to the stage, and
   * there is room. The work tells when its chunk has been given.
   */
  next(ready: Promise<unknown>, work: (given: () => void) => Promise<void>): Promise<void>;
  /** Resolves once another chunk would have room. */
  room(): Promise<unknown>;
  /** When the stage was done with a chunk last, by `performance.now()`. */
  doneAtMs: number;
}

/** A line in which so many chunks are under way at a time. */
export function createStageLine(atATime: number): StageLine {
  let lastGiven: Promise<void> = Promise.resolve();
  /** When the last chunks are done, as many as may be under way. */
  let ends: readonly Promise<void>[] = [];
  const room = () => (ends.length < atATime ? Promise.resolve() : (ends[0] as Promise<void>));
  return {
    doneAtMs: 0,
    room,
    next(ready, work) {
      const before = Promise.all([ready, lastGiven, room()]);
      const { promise, resolve } = withResolvers();
      const end = before.then(() => work(resolve)).finally(resolve);
      lastGiven = promise;
      ends = [...ends, end.catch(() => {})].slice(-atATime);
      return end;
    },
  };
}
