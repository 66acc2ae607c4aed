import { detectPropertyType, type PropertyType } from "@hedgerow/core/events/property-type";
import { isJsonObject, type Json, type JsonObject, ownValue } from "@hedgerow/core/json";
import type { PlacedEvent } from "../events/event-store.ts";
import { MAX_DEFINITION_NAME_LENGTH, type RefusedSightings } from "./sighting-store.ts";

/** A sighting of an event that has not been written yet, or was the last one written. */
interface EventTimes {
  firstMs: number;
  lastMs: number;
  isTaken: boolean;
}

/** A property seen; groups are named by their type, whose index is not known here. */
export interface UnwrittenProperty {
  readonly kind: "event" | "person" | "group";
  /** `""` where there is no group. */
  readonly groupType: string;
  readonly name: string;
  type: PropertyType | null;
  readonly seenMs: number;
}

/** What a project's events showed and nobody has written yet. */
export interface UnwrittenSightings {
  readonly projectId: number;
  readonly events: Map<string, EventTimes>;
  /** By kind, group type and name. */
  readonly properties: Map<string, UnwrittenProperty>;
  /** Event properties by the name of the event they came with. */
  readonly pairs: Map<string, Set<string>>;
}

/** Names of which nothing more is to be learned, and those whose values had no type so far. */
interface KnownNames {
  readonly settled: Set<string>;
  readonly untyped: Set<string>;
}

interface KnownEvent extends KnownNames {
  times: EventTimes;
}

interface KnownProject {
  readonly id: number;
  readonly events: Map<string, KnownEvent>;
  readonly ofEvents: KnownNames;
  readonly ofPersons: KnownNames;
  readonly ofGroups: Map<string, KnownNames>;
  /** Until when new names of a kind are not even noted, since the project has no room for them. */
  readonly fullUntilMs: Record<keyof RefusedSightings, number>;
}

/** What events have shown so far: what is written already, and what is still to be. */
export interface SightingMemory {
  /**
   * Learns from an event; about a microsecond where it shows nothing new. False when nothing was
   * learned for want of room: what is unwritten has to be taken first.
   */
  note(seen: Pick<PlacedEvent, "event" | "added">, nowMs: number): boolean;
  /** True once so much is unwritten that it should be taken. */
  isFull(): boolean;
  /** What is to be written, by project. It counts as written unless it is put back. */
  take(): readonly UnwrittenSightings[];
  /** Returns what could not be written. */
  putBack(sightings: UnwrittenSightings): void;
  /** Learns what a store had no room for: new names of those kinds are left alone for a while. */
  refused(projectId: number, refused: RefusedSightings, nowMs: number): void;
  /** Forgets what a project's events have shown, so that they show it again. */
  forget(projectId: number): void;
}

/** Sightings of an event closer to each other than this are one. */
const COARSE_MS = 5 * 60_000;
/** Most sightings that wait to be written. */
const MAX_UNWRITTEN = 30_000;
/** Most names remembered (some 20 MB); beyond, all are forgotten and learned anew. */
const MAX_REMEMBERED = 400_000;
/** How long new names are left alone once a project has as many as it may. */
const FULL_MS = 10 * 60_000;

/** Properties that are no facts of an event: they speak of persons and groups. */
const NOT_OF_EVENTS = [
  "$set",
  "$set_once",
  "$unset",
  "$groups",
  "$group_0",
  "$group_1",
  "$group_2",
  "$group_3",
  "$group_4",
];

/** {@link SightingMemory} that knows nothing yet. */
export function createSightingMemory(): SightingMemory {
  const projects = new Map<number, KnownProject>();
  let unwritten = new Map<number, UnwrittenSightings>();
  let unwrittenCount = 0;
  let rememberedCount = 0;

  function unwrittenOf(projectId: number): UnwrittenSightings {
    let found = unwritten.get(projectId);
    if (!found) {
      found = { projectId, events: new Map(), properties: new Map(), pairs: new Map() };
      unwritten.set(projectId, found);
    }
    return found;
  }

  function remember(names: Set<string>, name: string): void {
    names.add(name);
    rememberedCount++;
  }

  function sighted(projectId: number, name: string, atMs: number): EventTimes {
    const { events } = unwrittenOf(projectId);
    let times = events.get(name);
    if (times) {
      stretch(times, atMs, atMs);
    } else {
      times = { firstMs: atMs, lastMs: atMs, isTaken: false };
      events.set(name, times);
      unwrittenCount++;
    }
    return times;
  }

  /** `undefined` for a name that gets no definition. */
  function eventOf(
    project: KnownProject,
    { event }: PlacedEvent["event"],
    atMs: number,
    nowMs: number,
  ): KnownEvent | undefined {
    const known = project.events.get(event);
    if (known) {
      const { times } = known;
      if (!times.isTaken) stretch(times, atMs, atMs);
      else if (atMs >= times.lastMs + COARSE_MS) known.times = sighted(project.id, event, atMs);
      return known;
    }
    if (!isNameable(event) || nowMs < project.fullUntilMs.events) return undefined;
    const times = sighted(project.id, event, atMs);
    const added = { settled: new Set(NOT_OF_EVENTS), untyped: new Set<string>(), times };
    project.events.set(event, added);
    rememberedCount += NOT_OF_EVENTS.length;
    return added;
  }

  /** Learns of a property; answers whether nothing more is to be learned of it. */
  function learn(
    project: KnownProject,
    known: KnownNames,
    property: Pick<UnwrittenProperty, "kind" | "groupType" | "name">,
    { value, atMs, nowMs }: { value: Json | undefined; atMs: number; nowMs: number },
  ): "settled" | "untyped" | "unknown" {
    const { kind, groupType, name } = property;
    if (known.settled.has(name)) return "settled";
    const type = detectPropertyType(name, value);
    const wasSeen = known.untyped.has(name);
    if (wasSeen && type === null) return "untyped";
    if (!wasSeen && (!isNameable(name) || nowMs < project.fullUntilMs.properties)) return "unknown";
    const { properties } = unwrittenOf(project.id);
    const key = `${kind} ${JSON.stringify(groupType)} ${name}`;
    const waiting = properties.get(key);
    if (waiting) {
      waiting.type ??= type;
    } else {
      properties.set(key, { kind, groupType, name, type, seenMs: atMs });
      unwrittenCount++;
    }
    remember(type === null ? known.untyped : known.settled, name);
    return type === null ? "untyped" : "settled";
  }

  function learnEventProperty(
    project: KnownProject,
    event: KnownEvent,
    names: { event: string; property: string },
    seen: { value: Json | undefined; atMs: number; nowMs: number },
  ): void {
    const { property: name } = names;
    const kind = { kind: "event", groupType: "", name } as const;
    const state = learn(project, project.ofEvents, kind, seen);
    if (state === "unknown") return;
    if (!event.untyped.has(name) && seen.nowMs >= project.fullUntilMs.pairs) {
      const { pairs } = unwrittenOf(project.id);
      const waiting = pairs.get(names.event) ?? new Set();
      if (!waiting.has(name)) unwrittenCount++;
      pairs.set(names.event, waiting.add(name));
    }
    remember(event[state], name);
  }

  function learnEventProperties(
    project: KnownProject,
    event: KnownEvent,
    { name, properties }: { name: string; properties: JsonObject },
    times: { atMs: number; nowMs: number },
  ): void {
    for (const property in properties) {
      if (event.settled.has(property)) continue;
      const value = ownValue(properties, property);
      if (event.untyped.has(property) && typeof value === "object") continue;
      learnEventProperty(project, event, { event: name, property }, { value, ...times });
    }
  }

  function learnAll(
    project: KnownProject,
    known: KnownNames,
    about: Pick<UnwrittenProperty, "kind" | "groupType">,
    { values, ...times }: { values: JsonObject; atMs: number; nowMs: number },
  ): void {
    for (const name in values) {
      if (known.settled.has(name)) continue;
      learn(project, known, { ...about, name }, { value: ownValue(values, name), ...times });
    }
  }

  function learnGroup(
    project: KnownProject,
    properties: JsonObject,
    times: { atMs: number; nowMs: number },
  ): void {
    const groupType = ownValue(properties, "$group_type");
    const values = ownValue(properties, "$group_set");
    if (typeof groupType !== "string" || !isJsonObject(values)) return;
    let known = project.ofGroups.get(groupType);
    if (!known) {
      known = newNames();
      project.ofGroups.set(groupType, known);
      rememberedCount++;
    }
    learnAll(project, known, { kind: "group", groupType }, { values, ...times });
  }

  return {
    note({ event: seen, added }, nowMs) {
      if (unwrittenCount >= MAX_UNWRITTEN) return false;
      if (rememberedCount >= MAX_REMEMBERED) {
        projects.clear();
        rememberedCount = 0;
      }
      let project = projects.get(seen.projectId);
      if (!project) {
        project = newProject(seen.projectId);
        projects.set(seen.projectId, project);
      }
      const { properties } = seen;
      const atMs = seen.receivedAt.getTime();
      const event = eventOf(project, seen, atMs, nowMs);
      if (!event) return true;
      if (seen.event === "$groupidentify") {
        learnGroup(project, properties, { atMs, nowMs });
        return true;
      }
      const name = seen.event;
      learnEventProperties(project, event, { name, properties }, { atMs, nowMs });
      if (added) {
        learnEventProperties(
          project,
          event,
          { name, properties: added.properties },
          { atMs, nowMs },
        );
      }
      for (const set of ["$set", "$set_once"]) {
        const values = ownValue(properties, set);
        if (!isJsonObject(values)) continue;
        const about = { kind: "person", groupType: "" } as const;
        learnAll(project, project.ofPersons, about, { values, atMs, nowMs });
      }
      return true;
    },

    isFull: () => unwrittenCount >= MAX_UNWRITTEN,

    take() {
      const taken = [...unwritten.values()];
      unwritten = new Map();
      unwrittenCount = 0;
      for (const { events } of taken) for (const times of events.values()) times.isTaken = true;
      return taken;
    },

    putBack({ projectId, events, properties, pairs }) {
      const into = unwrittenOf(projectId);
      for (const [name, times] of events) {
        const later = into.events.get(name);
        if (later) {
          stretch(later, times.firstMs, times.lastMs);
          continue;
        }
        times.isTaken = false;
        into.events.set(name, times);
        unwrittenCount++;
      }
      for (const [key, property] of properties) {
        const later = into.properties.get(key);
        property.type ??= later?.type ?? null;
        into.properties.set(key, property);
        if (!later) unwrittenCount++;
      }
      for (const [event, names] of pairs) {
        const waiting = into.pairs.get(event) ?? new Set();
        const before = waiting.size;
        for (const name of names) waiting.add(name);
        into.pairs.set(event, waiting);
        unwrittenCount += waiting.size - before;
      }
    },

    refused(projectId, refused, nowMs) {
      const project = projects.get(projectId);
      if (!project) return;
      for (const kind of ["events", "properties", "pairs"] as const) {
        if (refused[kind] > 0) project.fullUntilMs[kind] = nowMs + FULL_MS;
      }
    },

    forget(projectId) {
      projects.delete(projectId);
    },
  };
}

function newNames(): KnownNames {
  return { settled: new Set(), untyped: new Set() };
}

function newProject(id: number): KnownProject {
  return {
    id,
    events: new Map(),
    ofEvents: newNames(),
    ofPersons: newNames(),
    ofGroups: new Map(),
    fullUntilMs: { events: 0, properties: 0, pairs: 0 },
  };
}

function stretch(times: EventTimes, firstMs: number, lastMs: number): void {
  if (firstMs < times.firstMs) times.firstMs = firstMs;
  if (lastMs > times.lastMs) times.lastMs = lastMs;
}

function isNameable(name: string): boolean {
  return name !== "" && name.length <= MAX_DEFINITION_NAME_LENGTH;
}
