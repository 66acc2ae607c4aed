import { createHash, hash } from "node:crypto";
import type { EventIdentity } from "../../../events/event-store.ts";
import { KEY_WORDS } from "./key-records.ts";

/** Makes the 128-bit keys of one index. Whoever does not know its salt cannot choose them. */
export interface RecordKeys {
  /**
   * Writes the key of a uuid (with dashes). Two uuids of a project never share a key; uuids of two
   * projects do by accident only.
   */
  ofUuid(key: Uint32Array, projectId: number, uuid: string): void;
  /** Writes the key of what makes two events with a client's `$insert_id` one. */
  ofInsertId(key: Uint32Array, event: InsertIdentity): void;
}

export interface InsertIdentity {
  readonly projectId: number;
  readonly event: string;
  readonly distinctId: string;
  readonly insertId: string;
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
    const constants = new Uint32Array(KEY_WORDS);
    writeDigest(constants, `${salt} project ${projectId}`);
    projects.set(projectId, constants);
    return constants;
  }

  return {
    ofUuid(key, projectId, uuid) {
      const constants = constantsOf(projectId);
      let a = (constants[0] as number) ^ hexWord(uuid, 0, 4, 4);
      let b = (constants[1] as number) ^ hexWord(uuid, 9, 14, 4);
      let c = (constants[2] as number) ^ hexWord(uuid, 19, 24, 4);
      let d = (constants[3] as number) ^ hexWord(uuid, 28, 32, 4);
      // A Feistel network: what is done to one word depends on another one that stays, so that it
      // could be undone, and no two uuids become one.
      for (let round = 0; round < 2 * ROUNDS; round += 2) {
        a ^= scramble(b ^ (roundKeys[round] as number));
        c ^= scramble(d ^ (roundKeys[round + 1] as number));
        const first = a;
        a = b;
        b = c;
        c = d;
        d = first;
      }
      key[0] = a;
      key[1] = b;
      key[2] = c;
      key[3] = d;
    },
    ofInsertId(key, { projectId, event, distinctId, insertId }) {
      const lengths = `${projectId} ${event.length} ${distinctId.length}`;
      writeDigest(key, `${salt} insert id ${lengths} ${event}${distinctId}${insertId}`);
    },
  };
}

function writeDigest(key: Uint32Array, text: string): void {
  const digest = hash("sha256", text, "buffer");
  for (let word = 0; word < KEY_WORDS; word++) key[word] = digest.readUInt32LE(4 * word);
}

/** Two runs of hexadecimal digits as one word. */
function hexWord(text: string, first: number, second: number, digits: number): number {
  let word = 0;
  for (let at = first; at < first + digits; at++) word = (word << 4) | hexDigit(text, at);
  for (let at = second; at < second + digits; at++) word = (word << 4) | hexDigit(text, at);
  return word;
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
