import { ownValue } from "@hedgerow/core/json";
import type { PlacedEvent } from "../events/event-store.ts";
import type { CompiledFlags } from "./compiled-flags.ts";
import { FLAG_CALLED, type FlagCalls } from "./flag-calls.ts";
import type { FlagStore } from "./flag-store.ts";

/** Keeps `lastCalledAt` of flags, some seconds after their calls, in few writes. */
export interface LastCalls {
  /** To be told of events on their way to the store, also more than once. Never fails, never waits. */
  note(rows: readonly (PlacedEvent & { readonly event: { readonly timestamp?: Date } })[]): void;
  flush(): Promise<void>;
  /** Stops, after a last writing. What is lost is found in the event store at the next start. */
  close(): Promise<void>;
}

const FLUSH_EVERY_MS = 10_000;
/** What was stored in this time before a start is looked through for calls that were not written. */
const LOOK_BACK_MS = 7 * 86_400_000;
/** Keys of a project that wait at a time: most of more are of no flag. */
const MAX_KEYS = 20_000;

/** Starts keeping; calls that an earlier process did not write are looked up in the background. */
export function startLastCalls({
  flagStore,
  flagCalls,
  compiledFlags,
  clock,
  reportFault,
  flushEveryMs = FLUSH_EVERY_MS,
}: {
  flagStore: Pick<FlagStore, "recordCalls">;
  flagCalls: Pick<FlagCalls, "lastCalls">;
  compiledFlags: Pick<CompiledFlags, "get">;
  clock: () => Date;
  reportFault: (error: unknown, context: string) => void;
  flushEveryMs?: number;
}): LastCalls {
  /** Newest calls by project and key, as milliseconds. */
  let waiting = new Map<number, Map<string, number>>();

  function add(projectId: number, key: string, atMs: number): void {
    let calls = waiting.get(projectId);
    if (!calls) {
      calls = new Map();
      waiting.set(projectId, calls);
    }
    const known = calls.get(key);
    if (known === undefined ? calls.size < MAX_KEYS : known < atMs) calls.set(key, atMs);
  }

  async function write(): Promise<void> {
    const taken = waiting;
    waiting = new Map();
    const nowMs = clock().getTime();
    for (const [projectId, calls] of taken) {
      try {
        const { definitions } = await compiledFlags.get(projectId);
        // A clock that is ahead must not keep a flag in use for years.
        const known = definitions.flags.flatMap(({ key }) => {
          const atMs = calls.get(key);
          return atMs === undefined ? [] : [[key, new Date(Math.min(atMs, nowMs))] as const];
        });
        if (known.length > 0) await flagStore.recordCalls(projectId, new Map(known));
      } catch (error) {
        for (const [key, atMs] of calls) add(projectId, key, atMs);
        reportFault(error, `calls of flags of project ${projectId} could not be written`);
      }
    }
  }

  let turn: Promise<void> = flagCalls.lastCalls(new Date(clock().getTime() - LOOK_BACK_MS)).then(
    (calls) => {
      for (const { projectId, flagKey, at } of calls) add(projectId, flagKey, at.getTime());
    },
    (error: unknown) => reportFault(error, "calls of flags could not be looked up"),
  );
  const flush = () => {
    turn = turn.then(write);
    return turn;
  };
  const flushing = setInterval(() => void flush(), flushEveryMs).unref();

  return {
    note(rows) {
      for (const { event } of rows) {
        if (event.event !== FLAG_CALLED) continue;
        const key = ownValue(event.properties, "$feature_flag");
        const at = event.timestamp ?? event.receivedAt;
        if (typeof key === "string") add(event.projectId, key, at.getTime());
      }
    },

    flush,

    async close() {
      clearInterval(flushing);
      await flush();
    },
  };
}
