import { getRandomValues } from "node:crypto";
import type { EventIdentity } from "./event-store.ts";

/** Events taken a moment ago, or just now: durable in the log, or about to be, perhaps not stored yet. */
export interface RecentEvents {
  /** Remembers an event; where its uuid is remembered already, answers how the two relate instead. */
  add(projectId: number, event: EventIdentity): "duplicate" | "conflict" | undefined;
  /** Events that were added are durable once the promise resolves, and forgotten when it rejects. */
  addedWith(taking: Promise<unknown>, projectId: number, events: readonly EventIdentity[]): void;
  /**
   * Of a project's events that are about to become durable now: the uuids of those that do not, once
   * it is known of all. `undefined` where none are about to.
   */
  underWay(projectId: number): Promise<ReadonlySet<string>> | undefined;
  /** Whether an event was forgotten because it did not become durable, and did not come again since. */
  isForgotten(projectId: number, event: EventIdentity): boolean;
  /** How an event relates to a remembered one with its uuid; `undefined` where there is none. */
  compare(projectId: number, event: EventIdentity): "duplicate" | "conflict" | undefined;
}

/** Events in each of two generations: a megabyte and a half in all. */
const GENERATION_SIZE = 16_384;
/** Most events that are remembered. */
export const MOST_RECENT = 2 * GENERATION_SIZE;

/**
 * Remembers the last sixteen to thirty-two thousand events, as numbers: texts that stay for just so
 * long are what costs the collector of garbage most.
 */
export function createRecentEvents(): RecentEvents {
  let young = createGeneration();
  let old = createGeneration();
  const key = new Uint32Array(KEY_WORDS);

  const taking = new Set<{
    readonly projectId: number;
    readonly lost: Promise<readonly string[]>;
  }>();

  const find = (projectId: number, uuid: string): number | undefined => {
    writeKey(key, projectId, uuid);
    return young.find(key) ?? old.find(key);
  };
  const compare: RecentEvents["compare"] = (projectId, event) => {
    const known = find(projectId, event.uuid);
    if (known === undefined || known === FORGOTTEN) return undefined;
    return known === samenessOf(event) ? "duplicate" : "conflict";
  };
  /** Of the key that was looked for last. */
  const replace = (known: number, sameness: number) =>
    (young.find(key) === known ? young : old).set(key, sameness);

  return {
    add(projectId, event) {
      const known = find(projectId, event.uuid);
      const sameness = samenessOf(event);
      if (known === FORGOTTEN) replace(known, sameness);
      else if (known !== undefined) return known === sameness ? "duplicate" : "conflict";
      else {
        if (young.isFull()) {
          [young, old] = [old, young];
          young.clear();
        }
        young.add(key, sameness);
      }
      return undefined;
    },
    addedWith(promise, projectId, events) {
      const forget = () => {
        for (const { uuid } of events) {
          const known = find(projectId, uuid);
          if (known !== undefined) replace(known, FORGOTTEN);
        }
        return events.map(({ uuid }) => uuid);
      };
      const one = { projectId, lost: promise.then(() => [], forget) };
      taking.add(one);
      void one.lost.then(() => taking.delete(one));
    },
    underWay(projectId) {
      const own = [...taking].filter((one) => one.projectId === projectId);
      if (own.length === 0) return undefined;
      return Promise.all(own.map(({ lost }) => lost)).then((all) => new Set(all.flat()));
    },
    isForgotten: (projectId, { uuid }) => find(projectId, uuid) === FORGOTTEN,
    compare,
  };
}

/** In the place of what has to be the same: the uuid is free. */
const FORGOTTEN = 1;

/**
 * True for two sendings of one event. Of its time only what the client said counts: what was derived
 * from the arrival differs each time.
 */
export function isSameEvent(one: EventIdentity, other: EventIdentity): boolean {
  return (
    one.event === other.event &&
    one.distinctId === other.distinctId &&
    one.clientTimestamp?.getTime() === other.clientTimestamp?.getTime()
  );
}

/** A project and the 128 bits of a uuid. */
const KEY_WORDS = 5;
/** What of an event has to be the same follows its key. */
const SLOT_WORDS = KEY_WORDS + 1;
const SLOTS = 2 * GENERATION_SIZE;

/** A table of open slots, half of which are filled at most; 0 stands for a free one. */
function createGeneration() {
  const words = new Uint32Array(SLOTS * SLOT_WORDS);
  // Where a key belongs nobody can choose who sends uuids.
  const secrets = getRandomValues(new Uint32Array(KEY_WORDS));
  let size = 0;

  /** Where the slot of a key begins, or the free one where it belongs. */
  function slotOf(key: Uint32Array): number {
    let hash = 0;
    for (let word = 0; word < KEY_WORDS; word++) {
      hash = Math.imul(hash ^ (key[word] as number) ^ (secrets[word] as number), 0x85ebca6b);
      hash ^= hash >>> 15;
    }
    for (let slot = hash & (SLOTS - 1); ; slot = (slot + 1) & (SLOTS - 1)) {
      const at = slot * SLOT_WORDS;
      if (words[at + KEY_WORDS] === 0 || isKeyAt(at, key)) return at;
    }
  }

  function isKeyAt(at: number, key: Uint32Array): boolean {
    for (let word = 0; word < KEY_WORDS; word++) {
      if (words[at + word] !== key[word]) return false;
    }
    return true;
  }

  return {
    isFull: () => size >= GENERATION_SIZE,
    find(key: Uint32Array): number | undefined {
      const sameness = words[slotOf(key) + KEY_WORDS] as number;
      return sameness === 0 ? undefined : sameness;
    },
    add(key: Uint32Array, sameness: number): void {
      const at = slotOf(key);
      words.set(key, at);
      words[at + KEY_WORDS] = sameness;
      size++;
    },
    /** Of a key that is there. */
    set(key: Uint32Array, sameness: number): void {
      words[slotOf(key) + KEY_WORDS] = sameness;
    },
    clear(): void {
      words.fill(0);
      size = 0;
    },
  };
}

/** The digits of a uuid, with its dashes, as words behind that of the project. */
function writeKey(key: Uint32Array, projectId: number, uuid: string): void {
  key[0] = projectId;
  let word = 1;
  let digits = 0;
  let value = 0;
  for (let at = 0; at < uuid.length && word < KEY_WORDS; at++) {
    const code = uuid.charCodeAt(at);
    if (code === 0x2d) continue;
    value = (value << 4) | ((code & 0xf) + (code >> 6) * 9);
    if (++digits % 8 === 0) key[word++] = value;
  }
}

/**
 * What {@link isSameEvent} compares as a number that is neither 0 nor {@link FORGOTTEN}. Of two other
 * events one in four thousand million is taken for a sending of the first, and told as one: it is not
 * taken either way.
 */
function samenessOf({ event, distinctId, clientTimestamp }: EventIdentity): number {
  const ms = clientTimestamp?.getTime();
  let sum = ms === undefined ? 1 : added(added(2, ms | 0), Math.floor(ms / 2 ** 32));
  sum = added(sum, event.length);
  for (let at = 0; at < event.length; at++) sum = added(sum, event.charCodeAt(at));
  for (let at = 0; at < distinctId.length; at++) sum = added(sum, distinctId.charCodeAt(at));
  return Math.max(sum >>> 0, FORGOTTEN + 1);
}

function added(sum: number, word: number): number {
  const mixed = Math.imul(sum ^ word, 0x85ebca6b);
  return mixed ^ (mixed >>> 15);
}
