import type { EventIdentity } from "./event-store.ts";

/** What is remembered of an event: where it is in the log, and what makes it this one. */
interface RecentEvent {
  readonly position: number;
  readonly sameness: string;
}

/** Events taken a moment ago: durable in the log, perhaps not stored yet. */
export interface RecentEvents {
  /**
   * False where no event with that uuid was taken since `seenSinceMs`; true where one was, or by
   * accident. Goes back much further than what is remembered whole.
   */
  mayHaveSeen(uuid: string): boolean;
  /** By the clock of this process. */
  readonly seenSinceMs: number;
  add(projectId: number, event: EventIdentity, position: number): void;
  /** How an event relates to a remembered one with its uuid; `undefined` where there is none. */
  compare(projectId: number, event: EventIdentity): "duplicate" | "conflict" | undefined;
  positionOf(projectId: number, uuid: string): number | undefined;
}

/** Events in each of two generations: some megabytes in all. */
const GENERATION_SIZE = 16_384;

/** Uuids in each of two filters, and their bits: about one uuid in five hundred is taken for a known one. */
const FILTER_UUIDS = 2_000_000;
const FILTER_BITS = 2 ** 25;
const PROBES = 4;

/** Remembers the last sixteen to thirty-two thousand events, and having seen some millions. */
export function createRecentEvents(
  nowMs: () => number,
  { filterUuids = FILTER_UUIDS }: { filterUuids?: number } = {},
): RecentEvents {
  let young = new Map<string, RecentEvent>();
  let old = new Map<string, RecentEvent>();
  let youngFilter = new Uint8Array(FILTER_BITS / 8);
  let oldFilter = new Uint8Array(FILTER_BITS / 8);
  let filtered = 0;
  let youngFilterSinceMs = nowMs();
  let seenSinceMs = youngFilterSinceMs;

  const find = (projectId: number, uuid: string): RecentEvent | undefined => {
    const key = `${projectId} ${uuid}`;
    return young.get(key) ?? old.get(key);
  };

  return {
    get seenSinceMs() {
      return seenSinceMs;
    },
    mayHaveSeen: (uuid) => isIn(youngFilter, uuid) || isIn(oldFilter, uuid),
    add(projectId, event, position) {
      if (find(projectId, event.uuid)) return;
      if (young.size >= GENERATION_SIZE) {
        old = young;
        young = new Map();
      }
      if (filtered >= filterUuids) {
        [oldFilter, youngFilter] = [youngFilter, oldFilter.fill(0)];
        seenSinceMs = youngFilterSinceMs;
        youngFilterSinceMs = nowMs();
        filtered = 0;
      }
      putIn(youngFilter, event.uuid);
      filtered++;
      young.set(`${projectId} ${event.uuid}`, { position, sameness: samenessOf(event) });
    },
    compare(projectId, event) {
      const known = find(projectId, event.uuid);
      return known && (known.sameness === samenessOf(event) ? "duplicate" : "conflict");
    },
    positionOf: (projectId, uuid) => find(projectId, uuid)?.position,
  };
}

/**
 * Equal for two sendings of one event. Of its time only what the client said counts: what was derived
 * from the arrival differs each time.
 */
export function samenessOf({ event, distinctId, clientTimestamp }: EventIdentity): string {
  return `${clientTimestamp?.getTime() ?? ""} ${event.length} ${event}${distinctId}`;
}

function putIn(filter: Uint8Array, uuid: string): void {
  let bit = firstBitOf(uuid);
  const step = stepOf(uuid);
  for (let probe = 0; probe < PROBES; probe++) {
    filter[bit >> 3] = (filter[bit >> 3] ?? 0) | (1 << (bit & 7));
    bit = (bit + step) % FILTER_BITS;
  }
}

function isIn(filter: Uint8Array, uuid: string): boolean {
  let bit = firstBitOf(uuid);
  const step = stepOf(uuid);
  for (let probe = 0; probe < PROBES; probe++) {
    if ((((filter[bit >> 3] ?? 0) >> (bit & 7)) & 1) === 0) return false;
    bit = (bit + step) % FILTER_BITS;
  }
  return true;
}

// From the random digits of a uuid: one that is made up can only be taken for a known one.

function firstBitOf(uuid: string): number {
  return Number.parseInt(uuid.slice(28), 16) % FILTER_BITS;
}

function stepOf(uuid: string): number {
  return Number.parseInt(uuid.slice(20, 23) + uuid.slice(24, 28), 16) | 1;
}
