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
  /** Resolves once everything up to a position is applied, or after a while; `undefined` for now. */
  caughtUp(position: number): Promise<void> | undefined;
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
}

/** A request that would have to look up more ids one by one waits for the whole project instead. */
const MAX_LOOK_UPS = 20;
/** How often a look-up starts again because events were applied meanwhile. */
const MAX_ATTEMPTS = 3;

/** Keeps what is pending in memory, for the ids of one process. */
export function createPendingPersons(options: PendingPersonsOptions): PendingPersons {
  const { distinctIdsOf, touches = touchedIds, maxWaitMs = 2000 } = options;
  const { maxLag = 400, maxKeepUpMs = 250, maxNoted = 50_000 } = options;
  /** Position of the last pending event of each id. */
  const positions = new Map<string, number>();
  /** The ids that pending events make one person with an id, and the last such event of each. */
  const links = new Map<string, Map<string, number>>();
  /** Both as a queue, oldest first: what `applied` takes off. */
  let queue: Noted[] = [];
  /** Position of the last noted event of each project. */
  const lastPositions = new Map<number, number>();
  /** How many of the queue are taken off already; they are cut off now and then. */
  let taken = 0;
  let waiters: Waiter[] = [];
  let done = 0;
  let unknownUpTo = 0;

  function note({ key, linkedId, position }: Noted): void {
    queue.push({ key, linkedId, position });
    positions.set(key, Math.max(positions.get(key) ?? 0, position));
    if (linkedId === null) return;
    const linked = links.get(key) ?? new Map<string, number>();
    links.set(key, linked);
    linked.set(linkedId, Math.max(linked.get(linkedId) ?? 0, position));
  }

  function drop({ key, linkedId, position }: Noted): void {
    if (positions.get(key) === position) positions.delete(key);
    if (linkedId === null) return;
    const linked = links.get(key);
    if (linked?.get(linkedId) !== position) return;
    linked.delete(linkedId);
    if (linked.size === 0) links.delete(key);
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
          for (const linked of links.get(personKey(projectId, one))?.keys() ?? []) open.add(linked);
        }
      }
      for (const id of ids) open.delete(id);
    }
    return ids;
  }

  /** Position of the last pending event that changes the person of some ids; 0 when there is none. */
  async function lastChangeOf(projectId: number, distinctIds: readonly string[]): Promise<number> {
    // What is captured from now on is none of the request's business.
    const last = lastPositions.get(projectId) ?? 0;
    for (let attempt = 0; attempt < MAX_ATTEMPTS && last > done; attempt++) {
      const doneBefore = done;
      const ids = await idsOfOnePerson(projectId, distinctIds);
      if (ids === "too-many") break;
      // Links applied meanwhile may be missing both in what the store said and in what is pending.
      if (done !== doneBefore) continue;
      let position = 0;
      for (const id of ids) {
        position = Math.max(position, positions.get(personKey(projectId, id)) ?? 0);
      }
      return Math.min(position, last);
    }
    return last;
  }

  /** Gives up knowing whom pending events change: the stages that apply them are far behind. */
  function forgetWhom(): void {
    unknownUpTo = Math.max(unknownUpTo, queue.at(-1)?.position ?? 0);
    queue = [];
    taken = 0;
    positions.clear();
    links.clear();
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
        if (position <= done) continue;
        const { projectId } = event;
        const { distinctIds, group } = touches(event);
        const [first, second] = distinctIds;
        if (first !== undefined) {
          note({ key: personKey(projectId, first), linkedId: second ?? null, position });
        }
        if (second !== undefined) {
          note({ key: personKey(projectId, second), linkedId: first ?? null, position });
        }
        if (group) {
          note({ key: groupKey(projectId, group.type, group.key), linkedId: null, position });
        }
        if (first === undefined && !group) continue;
        lastPositions.set(projectId, Math.max(lastPositions.get(projectId) ?? 0, position));
      }
      if (queue.length - taken > maxNoted) forgetWhom();
    },

    keptUp: (position) => reached(position - maxLag, maxKeepUpMs),

    caughtUp: (position) => reached(position),

    catchUpTo(position) {
      unknownUpTo = Math.max(unknownUpTo, position);
    },

    applied(upTo) {
      if (upTo <= done) return;
      done = upTo;
      for (let next = queue[taken]; next && next.position <= upTo; next = queue[taken]) {
        drop(next);
        taken++;
      }
      if (taken > 1000 && taken * 2 > queue.length) {
        queue = queue.slice(taken);
        taken = 0;
      }
      if (waiters.length === 0) return;
      const ready = waiters.filter(({ position }) => position <= upTo);
      waiters = waiters.filter(({ position }) => position > upTo);
      for (const { resolve } of ready) resolve();
    },

    settled(projectId, { distinctIds, groups = {} }) {
      if ((lastPositions.get(projectId) ?? 0) <= done) return reached(unknownUpTo);
      let position = unknownUpTo;
      for (const [type, key] of Object.entries(groups)) {
        const group = groupKey(projectId, cleanText(type), cleanText(key));
        position = Math.max(position, positions.get(group) ?? 0);
      }
      if (distinctIds.length === 0) return reached(position);
      return lastChangeOf(projectId, distinctIds.map(cleanText)).then((lastChange) =>
        reached(Math.max(position, lastChange)),
      );
    },
  };
}

/** That an event, at its position in the log, changes what a key stands for. */
interface Noted {
  readonly key: string;
  /** The other id of an event that makes two ids one person. */
  readonly linkedId: string | null;
  readonly position: number;
}

const personKey = (projectId: number, distinctId: string) => `${projectId} ${distinctId}`;
// A line break keeps the two kinds of keys and their parts apart: no number holds one.
const groupKey = (projectId: number, type: string, key: string) =>
  `${projectId}\n${type.length}\n${type}${key}`;
