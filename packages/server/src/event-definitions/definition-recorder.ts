import { setTimeout as delay } from "node:timers/promises";
import type { EventStore, PlacedEvent } from "../events/event-store.ts";
import type { IngestionWarnings } from "../events/ingestion-warnings.ts";
import type { PersonStore } from "../persons/person-store.ts";
import {
  createSightingMemory,
  type UnwrittenProperty,
  type UnwrittenSightings,
} from "./sighting-memory.ts";
import {
  MAX_EVENT_DEFINITIONS,
  MAX_EVENT_PROPERTIES,
  MAX_PROPERTY_DEFINITIONS,
  type PropertySighting,
  type PropertySubject,
  type RefusedSightings,
  type SightingStore,
} from "./sighting-store.ts";

/** Makes definitions from stored events, some seconds after them, in few writes. */
export interface DefinitionRecorder {
  /**
   * To be told of events, in order, once they are sure to be stored, if they are not by then. Never
   * fails, never waits.
   */
  note(rows: readonly PlacedEvent[]): void;

  /**
   * Writes what is known, runs a change of definitions, and forgets what the project's events have
   * shown: what was deleted comes back with the next event, and not with an earlier one.
   */
  around<Result>(projectId: number, change: () => Promise<Result>): Promise<Result>;

  /** Writes what is known. */
  flush(): Promise<void>;

  /** Stops, after a last writing. What could not be written is learned again at the next start. */
  close(): Promise<void>;
}

export interface DefinitionRecorderDeps {
  readonly sightings: SightingStore;
  readonly events: Pick<EventStore, "position" | "eventsAfter">;
  readonly persons: Pick<PersonStore, "groupTypes">;
  readonly warnings: Pick<IngestionWarnings, "note">;
  readonly clock: () => Date;
  readonly reportFault: (error: unknown, context: string) => void;
  readonly flushEveryMs?: number;
}

const FLUSH_EVERY_MS = 5000;
/** Events read at a time where some were missed. */
const REPLAY_EVENTS = 500;
/** Between two of those: live events go first. */
const REPLAY_PAUSE_MS = 20;

/**
 * Starts the recorder. Events that were stored and not recorded (before a crash, or while there was
 * no room for what they showed) are read again from the store, in the background.
 */
export async function startDefinitionRecorder(
  deps: DefinitionRecorderDeps,
): Promise<DefinitionRecorder> {
  const { sightings, events, persons, warnings, clock, reportFault } = deps;
  const flushEveryMs = deps.flushEveryMs ?? FLUSH_EVERY_MS;
  const memory = createSightingMemory();
  const stop = new AbortController();

  let writtenUpTo = await sightings.position();
  let seenUpTo = Math.max(writtenUpTo, await events.position());
  /** Stored events that were missed; they are read again. */
  let missed: { after: number; upTo: number } | undefined =
    writtenUpTo < seenUpTo ? { after: writtenUpTo, upTo: seenUpTo } : undefined;
  let replaying: Promise<void> | undefined;
  let turn: Promise<unknown> = Promise.resolve();
  let isFlushDue = false;
  /** Not sooner after a fault, however much there is to write. */
  let nextTryMs = 0;

  /** Runs work on the stores, one at a time. */
  function inTurn<Result>(work: () => Promise<Result>): Promise<Result> {
    const run = turn.then(work);
    turn = run.catch(() => {});
    return run;
  }

  async function write(): Promise<void> {
    isFlushDue = false;
    const position = missed?.after ?? seenUpTo;
    const faults: unknown[] = [];
    for (const unwritten of memory.take()) {
      try {
        await writeProject(unwritten);
      } catch (error) {
        memory.putBack(unwritten);
        faults.push(error);
      }
    }
    if (faults.length > 0) {
      nextTryMs = clock().getTime() + flushEveryMs;
      throw faults[0];
    }
    if (position > writtenUpTo) await sightings.moveTo(position);
    writtenUpTo = Math.max(writtenUpTo, position);
    replayMissed();
  }

  async function writeProject(unwritten: UnwrittenSightings): Promise<void> {
    const { projectId, pairs } = unwritten;
    const properties = [...unwritten.properties.values()];
    const isOfGroup = properties.some(({ kind }) => kind === "group");
    const types = isOfGroup ? await persons.groupTypes(projectId) : [];
    const indexes = new Map(types.map(({ name, index }) => [name, index]));
    const refused = await sightings.record({
      projectId,
      events: [...unwritten.events].map(([name, { firstMs, lastMs }]) => ({
        name,
        firstSeenAt: new Date(firstMs),
        lastSeenAt: new Date(lastMs),
      })),
      properties: properties.flatMap((property) => sightingOf(property, indexes) ?? []),
      pairs,
    });
    tellRefused(projectId, refused);
  }

  function tellRefused(projectId: number, refused: RefusedSightings): void {
    memory.refused(projectId, refused, clock().getTime());
    for (const [kind, most] of LIMITS) {
      if (refused[kind] === 0) continue;
      warnings.note(projectId, {
        type: `too_many_${NAMES[kind]}`,
        sdk: { name: "", version: "" },
        sample: {
          detail: `A project has at most ${most} ${NAMES[kind].replaceAll("_", " ")}: new ones are left out.`,
        },
      });
    }
  }

  const writeOrReport = () =>
    write().catch((error: unknown) => reportFault(error, "definitions could not be recorded"));

  function flushSoon(): void {
    if (isFlushDue || clock().getTime() < nextTryMs) return;
    isFlushDue = true;
    void inTurn(writeOrReport);
  }

  function replayMissed(): void {
    if (!missed || replaying || stop.signal.aborted) return;
    replaying = replay()
      .catch((error: unknown) => reportFault(error, "stored events could not be read again"))
      .finally(() => {
        replaying = undefined;
      });
  }

  async function replay(): Promise<void> {
    while (missed && !stop.signal.aborted) {
      const { after, upTo } = missed;
      const stored = await events.position();
      const rows = (await events.eventsAfter(after, REPLAY_EVENTS)).filter(
        ({ position }) => position <= upTo,
      );
      const nowMs = clock().getTime();
      for (const row of rows) {
        // What is unwritten is on its way; the rest comes after it.
        if (!memory.note(row, nowMs)) return flushSoon();
        missed.after = row.position;
      }
      // What is not stored yet is read once it is.
      if (rows.length === 0) pass(Math.max(after, Math.min(upTo, stored)));
      await delay(REPLAY_PAUSE_MS, undefined, { signal: stop.signal }).catch(() => {});
    }
  }

  /** Everything up to a position was read again. */
  function pass(upTo: number): void {
    if (!missed) return;
    missed.after = upTo;
    if (missed.upTo > upTo) return;
    seenUpTo = Math.max(seenUpTo, upTo);
    missed = undefined;
  }

  const flushing = setInterval(flushSoon, flushEveryMs);
  flushing.unref();
  replayMissed();

  return {
    note(rows) {
      const nowMs = clock().getTime();
      for (const row of rows) {
        const { position } = row;
        if (memory.note(row, nowMs)) {
          seenUpTo = position;
          continue;
        }
        if (missed) missed.upTo = position;
        else missed = { after: position - 1, upTo: position };
      }
      if (memory.isFull()) flushSoon();
    },

    around: (projectId, change) =>
      inTurn(async () => {
        await writeOrReport();
        try {
          return await change();
        } finally {
          memory.forget(projectId);
        }
      }),

    flush: () => inTurn(write),

    async close() {
      clearInterval(flushing);
      stop.abort();
      await replaying;
      await inTurn(writeOrReport);
    },
  };
}

const NAMES = {
  events: "event_definitions",
  properties: "property_definitions",
  pairs: "properties_of_events",
} as const;

const LIMITS = [
  ["events", MAX_EVENT_DEFINITIONS],
  ["properties", MAX_PROPERTY_DEFINITIONS],
  ["pairs", MAX_EVENT_PROPERTIES],
] as const;

/** `undefined` for a group type that the project has no room for. */
function sightingOf(
  { kind, groupType, name, type, seenMs }: UnwrittenProperty,
  indexes: ReadonlyMap<string, number>,
): PropertySighting | undefined {
  const groupTypeIndex = kind === "group" ? indexes.get(groupType) : undefined;
  if (kind === "group" && groupTypeIndex === undefined) return undefined;
  const subject: PropertySubject =
    groupTypeIndex === undefined
      ? { kind: kind === "person" ? "person" : "event" }
      : { kind: "group", groupTypeIndex };
  return { subject, name, type, seenAt: new Date(seenMs) };
}
