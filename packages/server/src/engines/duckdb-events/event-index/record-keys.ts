import { createHash } from "node:crypto";
import type { EventIdentity } from "../../../events/event-store.ts";
import { KEY_WORDS } from "./key-records.ts";

/** Makes the 128-bit keys of one index. Whoever does not know its salt cannot choose them. */
export interface RecordKeys {
  /**
   * Writes the key of a uuid (with dashes), as four words from `at` on. Two uuids of a project never
   * share a key; uuids of two projects do by accident only.
   */
  ofUuid(to: Uint32Array, at: number, projectId: number, uuid: string): void;
  /**
   * Writes the key of what makes two events with a client's `$insert_id` one. Whoever may send events
   * to a project can make two of its keys the same, as by sending the same ids; across projects
   * nobody can.
   */
  ofInsertId(to: Uint32Array, at: number, event: InsertIdentity, insertId: string): void;
}

export interface InsertIdentity {
  readonly projectId: number;
  readonly event: string;
  readonly distinctId: string;
}

const ROUNDS = 8;
/** Projects whose constants are remembered. */
const MOST_PROJECTS = 10_000;

/** @param salt secret, of any length */
export function createRecordKeys(salt: string): RecordKeys {
  const roundKeys = Uint32Array.from({ length: 2 * ROUNDS }, (_, index) => {
    return createHash("sha256").update(`${salt} round ${index}`).digest().readUInt32LE(0);
  });
  const projects = new Map<number, Uint32Array>();

  function constantsOf(projectId: number): Uint32Array {
    const known = projects.get(projectId);
    if (known) return known;
    if (projects.size >= MOST_PROJECTS) projects.clear();
    const digest = createHash("sha256").update(`${salt} project ${projectId}`).digest();
    const constants = Uint32Array.from({ length: KEY_WORDS }, (_, word) =>
      digest.readUInt32LE(4 * word),
    );
    projects.set(projectId, constants);
    return constants;
  }

  /**
   * Writes four words as a key of a project. A Feistel network: what is done to one word depends on
   * another one that stays, so that it could be undone, and no two become one.
   */
  function mix(to: Uint32Array, at: number, projectId: number, words: Words): void {
    const constants = constantsOf(projectId);
    let a = (constants[0] as number) ^ words[0];
    let b = (constants[1] as number) ^ words[1];
    let c = (constants[2] as number) ^ words[2];
    let d = (constants[3] as number) ^ words[3];
    for (let round = 0; round < 2 * ROUNDS; round += 2) {
      a ^= scramble(b ^ (roundKeys[round] as number));
      c ^= scramble(d ^ (roundKeys[round + 1] as number));
      const first = a;
      a = b;
      b = c;
      c = d;
      d = first;
    }
    to[at] = a;
    to[at + 1] = b;
    to[at + 2] = c;
    to[at + 3] = d;
  }

  return {
    ofUuid(to, at, projectId, uuid) {
      mix(to, at, projectId, [
        hexWord(uuid, 0, 4),
        hexWord(uuid, 9, 14),
        hexWord(uuid, 19, 24),
        hexWord(uuid, 28, 32),
      ]);
    },
    ofInsertId(to, at, { projectId, event, distinctId }, insertId) {
      // With their lengths, texts cannot pass into one another.
      const state: Words = [event.length, distinctId.length, insertId.length, 1];
      hashText(state, event);
      hashText(state, distinctId);
      hashText(state, insertId);
      mix(to, at, projectId, state);
    },
  };
}

type Words = [number, number, number, number];

/** Adds text to four words, each character to all of them. */
function hashText(state: Words, text: string): void {
  let [a, b, c, d] = state;
  for (let at = 0; at < text.length; at++) {
    const unit = text.charCodeAt(at);
    const first = a;
    a = b ^ Math.imul(a ^ unit, 0x239b961b);
    b = c ^ Math.imul(b ^ unit, 0xab0e9789);
    c = d ^ Math.imul(c ^ unit, 0x38b34ae5);
    d = first ^ Math.imul(d ^ unit, 0xa1e38b93);
  }
  state[0] = a;
  state[1] = b;
  state[2] = c;
  state[3] = d;
}

/** Two runs of four hexadecimal digits as one word. */
function hexWord(text: string, first: number, second: number): number {
  return (hexHalf(text, first) << 16) | hexHalf(text, second);
}

function hexHalf(text: string, at: number): number {
  return (
    (hexDigit(text, at) << 12) |
    (hexDigit(text, at + 1) << 8) |
    (hexDigit(text, at + 2) << 4) |
    hexDigit(text, at + 3)
  );
}

function hexDigit(text: string, at: number): number {
  const code = text.charCodeAt(at);
  return (code & 0xf) + (code >> 6) * 9;
}

/** Every bit of the result depends on every bit of the word (the finalizer of MurmurHash3). */
function scramble(word: number): number {
  let mixed = Math.imul(word ^ (word >>> 16), 0x85ebca6b);
  mixed = Math.imul(mixed ^ (mixed >>> 13), 0xc2b2ae35);
  return mixed ^ (mixed >>> 16);
}

/**
 * Equal for two sendings of one event (CA-60): by name, distinct id and the client's time. Never 0.
 * Two different events are taken for the same once in four thousand million.
 */
export function fingerprintOf({
  event,
  distinctId,
  clientTimestamp,
}: Pick<EventIdentity, "event" | "distinctId" | "clientTimestamp">): number {
  const ms = clientTimestamp?.getTime() ?? Number.NaN;
  // A time that is none, and one in 1970, differ in the first word.
  let state = Number.isNaN(ms) ? 1 : 2;
  if (state === 2) {
    state = scramble(state ^ (ms | 0));
    state = scramble(state ^ Math.floor(ms / 2 ** 32));
  }
  state = addText(scramble(state ^ event.length), event);
  state = addText(state, distinctId);
  return scramble(state) >>> 0 || 1;
}

function addText(state: number, text: string): number {
  let sum = state;
  for (let at = 0; at < text.length; at++) {
    sum = Math.imul(sum ^ text.charCodeAt(at), 0x01000193);
    sum ^= sum >>> 15;
  }
  return sum;
}
