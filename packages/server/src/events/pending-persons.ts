import { cleanText } from "@hedgerow/core/events/clean-json";
import type { LoggedEvent } from "@hedgerow/core/events/event";
import { type TouchedIds, touchedIds } from "@hedgerow/core/persons/person-update";
import type { PersonStore } from "../persons/person-store.ts";

/** Whom a flag request asks about. */
export interface AskedIds {
  readonly distinctIds: readonly string[];
  /** Group keys by group type name. */
  readonly groups?: Readonly<Record<string, string>>;
}

/**
 * Knows which ids have captured events whose person or group changes are not applied yet, so that a
 * flag request that follows an acknowledged capture sees its properties, and no other request waits.
 */
export interface PendingPersons {
  /** Notes appended events; call before their capture is answered. */
  add(entries: readonly LoggedEvent[]): void;
  /**
   * Everything up to a position may be pending, for any id: what a start finds unapplied in the log.
   */
  catchUpTo(position: number): void;
  /**
   * For whoever captured events up to a position, before answering: `undefined`, or a promise that
   * resolves once the changes before them are nearly all applied, or after a short while. So those
   * who send wait for each other, and flag requests for nobody long.
   */
  keptUp(position: number): Promise<void> | undefined;
  /**
   * Resolves once everything up to a position is applied, or after a while (then `false`);
   * `undefined` for now.
   */
  caughtUp(position: number): Promise<boolean> | undefined;
  /** Everything up to a position is applied now. */
  applied(upTo: number): void;
  /**
   * `undefined` when nothing is pending in the project (nothing to await), else a promise that
   * resolves once everything noted by now is applied for the groups, for the persons of the ids,
   * and for whoever becomes one person with them by pending events. It also resolves after a while:
   * a store that is down must not hold up flag requests for ever. Rejects when the store cannot be
   * read.
   */
  settled(projectId: number, ids: AskedIds): Promise<void> | undefined;
  /** Of how many events it is remembered whom they change. */
  noted(): number;
  /** Gives that up: whom anything noted by now changes is no longer known. */
  forgetWhom(): void;
}

interface Waiter {
  readonly position: number;
  readonly resolve: () => void;
}

export interface PendingPersonsOptions {
  /** Who else a person is; asked only while something is pending in the project. */
  readonly distinctIdsOf: PersonStore["distinctIdsOf"];
  /** What an event changes; events that touch nothing never make anyone wait. */
  readonly touches?: (event: LoggedEvent["event"]) => TouchedIds;
  /** Longest wait of one request; 2,000 unless given. */
  readonly maxWaitMs?: number;
  /** How far changes may be behind before captures wait, and for how long they do. */
  readonly maxLag?: number;
  readonly maxKeepUpMs?: number;
  /** Events beyond which it is no longer known whom they change: then everybody waits for them. */
  readonly maxNoted?: number;
  /**
   * Whether requests wait for what changes nobody knows whom, and for all of a project where it is
   * not known who somebody is; true unless given.
   */
  readonly waitsForUnknown?: boolean;
}

/** A request that would have to look up more ids one by one waits for the whole project instead. */
const MAX_LOOK_UPS = 20;
/** How often a look-up starts again because events were applied meanwhile. */
const MAX_ATTEMPTS = 3;

/** Keeps what is pending in memory, for the ids of one process. */
export function createPendingPersons(options: PendingPersonsOptions): PendingPersons {
  const { distinctIdsOf, touches = touchedIds, maxWaitMs = 2000 } = options;
  const { maxLag = 400, maxKeepUpMs = 250, maxNoted = 50_000, waitsForUnknown = true } = options;
  // What is noted goes into the young generation. The old one is forgotten as a whole once all of it
  // is applied: nothing is taken off one by one. What is applied already means nothing in either.
  let young = newGeneration();
  let old = newGeneration();
  let waiters: Waiter[] = [];
  let done = 0;
  let unknownUpTo = 0;

  /** Forgets what is applied, as far as that is a generation. */
  function forgetDone(): void {
    if (old.last > done || young.count === 0) return;
    old = young.last > done ? young : newGeneration();
    young = newGeneration();
  }

  function note(
    projectId: number,
    { distinctIds, group, position }: TouchedIds & { readonly position: number },
  ): void {
    let notes = young.projects.get(projectId);
    if (!notes) {
      notes = newNotes();
      young.projects.set(projectId, notes);
    }
    const [first, second] = distinctIds;
    for (const id of distinctIds)
      notes.persons.set(id, Math.max(notes.persons.get(id) ?? 0, position));
    if (first !== undefined && second !== undefined) {
      noteLink(notes, first, second, position);
      noteLink(notes, second, first, position);
    }
    if (group) {
      const key = groupKey(group.type, group.key);
      notes.groups.set(key, Math.max(notes.groups.get(key) ?? 0, position));
    }
    notes.last = Math.max(notes.last, position);
    young.last = Math.max(young.last, position);
    young.count++;
  }

  /** Position of the last noted event of a project. */
  const lastOfProject = (projectId: number) =>
    Math.max(young.projects.get(projectId)?.last ?? 0, old.projects.get(projectId)?.last ?? 0);

  const lastOf = (kind: "persons" | "groups", projectId: number, key: string) =>
    Math.max(
      young.projects.get(projectId)?.[kind].get(key) ?? 0,
      old.projects.get(projectId)?.[kind].get(key) ?? 0,
    );

  /** The ids that pending events make one person with an id. */
  function* linkedTo(projectId: number, distinctId: string): Generator<string> {
    for (const { projects } of [young, old]) {
      const linked = projects.get(projectId)?.links.get(distinctId);
      for (const [id, position] of linked ?? []) if (position > done) yield id;
    }
  }

  /** All ids of the persons of some ids, once everything pending is applied. */
  async function idsOfOnePerson(
    projectId: number,
    distinctIds: readonly string[],
  ): Promise<ReadonlySet<string> | "too-many"> {
    const ids = new Set<string>();
    let open = new Set(distinctIds);
    for (let lookUps = open.size; open.size > 0; lookUps += open.size) {
      if (lookUps > MAX_LOOK_UPS) return "too-many";
      const found = await Promise.all(
        [...open].map(async (id) => ({ id, others: await distinctIdsOf(projectId, id) })),
      );
      open = new Set();
      for (const { id, others } of found) {
        if (others === "too-many") return "too-many";
        for (const one of [id, ...others]) {
          ids.add(one);
          for (const linked of linkedTo(projectId, one)) open.add(linked);
        }
      }
      for (const id of ids) open.delete(id);
    }
    return ids;
  }

  /** Position of the last pending event that changes the person of some ids; 0 when there is none. */
  async function lastChangeOf(projectId: number, distinctIds: readonly string[]): Promise<number> {
    // What is captured from now on is none of the request's business.
    const end = lastOfProject(projectId);
    for (let attempt = 0; attempt < MAX_ATTEMPTS && end > done; attempt++) {
      const doneBefore = done;
      const found = await idsOfOnePerson(projectId, distinctIds);
      if (found === "too-many" && waitsForUnknown) break;
      const ids = found === "too-many" ? distinctIds : found;
      // Links applied meanwhile may be missing both in what the store said and in what is pending.
      if (done !== doneBefore) continue;
      let position = 0;
      for (const id of ids) position = Math.max(position, lastOf("persons", projectId, id));
      return Math.min(position, end);
    }
    return end;
  }

  /** Gives up knowing whom pending events change: the stages that apply them are far behind. */
  function forgetWhom(): void {
    becomeUnknown(Math.max(young.last, old.last));
    young = newGeneration();
    old = newGeneration();
  }

  function becomeUnknown(upTo: number): void {
    if (waitsForUnknown) unknownUpTo = Math.max(unknownUpTo, upTo);
  }

  function reached(position: number, waitMs = maxWaitMs): Promise<void> | undefined {
    if (position <= done) return undefined;
    return new Promise((resolve) => {
      const timer = setTimeout(() => {
        waiters = waiters.filter((waiter) => waiter !== waiting);
        resolve();
      }, waitMs);
      const waiting: Waiter = {
        position,
        resolve: () => {
          clearTimeout(timer);
          resolve();
        },
      };
      waiters.push(waiting);
    });
  }

  return {
    add(entries) {
      for (const { position, event } of entries) {
        if (!(position > done)) continue;
        const { distinctIds, group } = touches(event);
        if (distinctIds.length > 0 || group)
          note(event.projectId, { distinctIds, group, position });
      }
      if (young.count + old.count <= maxNoted) return;
      forgetDone();
      if (young.count + old.count > maxNoted) forgetWhom();
    },

    keptUp: (position) => reached(position - maxLag, maxKeepUpMs),

    caughtUp: (position) => reached(position)?.then(() => position <= done),

    catchUpTo: becomeUnknown,

    noted: () => young.count + old.count,

    forgetWhom,

    applied(upTo) {
      if (upTo <= done) return;
      done = upTo;
      forgetDone();
      if (waiters.length === 0) return;
      const ready = waiters.filter(({ position }) => position <= upTo);
      waiters = waiters.filter(({ position }) => position > upTo);
      for (const { resolve } of ready) resolve();
    },

    settled(projectId, { distinctIds, groups = {} }) {
      if (lastOfProject(projectId) <= done) return reached(unknownUpTo);
      let position = unknownUpTo;
      for (const [type, key] of Object.entries(groups)) {
        const group = groupKey(cleanText(type), cleanText(key));
        position = Math.max(position, lastOf("groups", projectId, group));
      }
      if (distinctIds.length === 0) return reached(position);
      return lastChangeOf(projectId, distinctIds.map(cleanText)).then((lastChange) =>
        reached(Math.max(position, lastChange)),
      );
    },
  };
}

/** Position of the last event of each kind that is noted. */
interface Generation {
  readonly projects: Map<number, ProjectNotes>;
  last: number;
  count: number;
}

interface ProjectNotes {
  /** By distinct id. */
  readonly persons: Map<string, number>;
  /** By `groupKey`. */
  readonly groups: Map<string, number>;
  /** By distinct id, then by the other id that events make one person with it. */
  readonly links: Map<string, Map<string, number>>;
  last: number;
}

function newGeneration(): Generation {
  return { projects: new Map(), last: 0, count: 0 };
}

function newNotes(): ProjectNotes {
  return { persons: new Map(), groups: new Map(), links: new Map(), last: 0 };
}

function noteLink({ links }: ProjectNotes, from: string, to: string, position: number): void {
  const linked = links.get(from) ?? new Map<string, number>();
  links.set(from, linked.set(to, Math.max(linked.get(to) ?? 0, position)));
}

// The length keeps the two apart, whatever is in them.
const groupKey = (type: string, key: string) => `${type.length}\n${type}${key}`;
