import type { LoggedEvent } from "@hedgerow/core/events/event";
import { type TouchedIds, touchedIds } from "@hedgerow/core/persons/person-update";

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
  /** Everything up to a position is applied now. */
  applied(upTo: number): void;
  /**
   * `undefined` when nothing is pending for any of the ids (the usual case: nothing to await), else
   * a promise that resolves once it is applied, or after a while: a store that is down must not
   * hold up flag requests for ever.
   */
  settled(projectId: number, ids: AskedIds): Promise<void> | undefined;
}

interface Waiter {
  readonly position: number;
  readonly resolve: () => void;
}

export interface PendingPersonsOptions {
  /** What an event changes; events that touch nothing never make anyone wait. */
  readonly touches?: (event: LoggedEvent["event"]) => TouchedIds;
  /** Longest wait of one request; 2,000 unless given. */
  readonly maxWaitMs?: number;
}

export function createPendingPersons(options: PendingPersonsOptions = {}): PendingPersons {
  const { touches = touchedIds, maxWaitMs = 2000 } = options;
  /** Position of the last pending event of each id. */
  const positions = new Map<string, number>();
  /** The same as a queue, oldest first: what `applied` takes off. */
  let queue: { readonly key: string; readonly position: number }[] = [];
  /** How many of the queue are taken off already; they are cut off now and then. */
  let taken = 0;
  let waiters: Waiter[] = [];
  let done = 0;
  let unknownUpTo = 0;

  function note(key: string, position: number): void {
    positions.set(key, position);
    queue.push({ key, position });
  }

  return {
    add(entries) {
      for (const { position, event } of entries) {
        if (position <= done) continue;
        const { distinctIds, group } = touches(event);
        for (const id of distinctIds) note(personKey(event.projectId, id), position);
        if (group) note(groupKey(event.projectId, group.type, group.key), position);
      }
    },

    catchUpTo(position) {
      unknownUpTo = Math.max(unknownUpTo, position);
    },

    applied(upTo) {
      if (upTo <= done) return;
      done = upTo;
      for (let next = queue[taken]; next && next.position <= upTo; next = queue[taken]) {
        if (positions.get(next.key) === next.position) positions.delete(next.key);
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

    settled(projectId, { distinctIds, groups }) {
      if (positions.size === 0 && unknownUpTo <= done) return undefined;
      let position = unknownUpTo;
      for (const id of distinctIds) {
        position = Math.max(position, positions.get(personKey(projectId, id)) ?? 0);
      }
      for (const [type, key] of Object.entries(groups ?? {})) {
        position = Math.max(position, positions.get(groupKey(projectId, type, key)) ?? 0);
      }
      if (position <= done) return undefined;
      return new Promise((resolve) => {
        const timer = setTimeout(() => {
          waiters = waiters.filter((waiter) => waiter !== waiting);
          resolve();
        }, maxWaitMs);
        const waiting: Waiter = {
          position,
          resolve: () => {
            clearTimeout(timer);
            resolve();
          },
        };
        waiters.push(waiting);
      });
    },
  };
}

const personKey = (projectId: number, distinctId: string) => `${projectId} ${distinctId}`;
// A line break keeps the two kinds of keys and their parts apart: no number holds one.
const groupKey = (projectId: number, type: string, key: string) =>
  `${projectId}\n${type.length}\n${type}${key}`;
