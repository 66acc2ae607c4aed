import type { EventIdentity } from "./event-store.ts";

/** What is remembered of an event: where it is in the log, and what makes it this one. */
interface RecentEvent {
  readonly position: number;
  readonly sameness: string;
}

/** Events taken a moment ago: durable in the log, perhaps not stored yet. */
export interface RecentEvents {
  add(projectId: number, event: EventIdentity, position: number): void;
  /** How an event relates to a remembered one with its uuid; `undefined` where there is none. */
  compare(projectId: number, event: EventIdentity): "duplicate" | "conflict" | undefined;
  positionOf(projectId: number, uuid: string): number | undefined;
}

/** Events in each of two generations: some megabytes in all. */
const GENERATION_SIZE = 16_384;

/** Remembers the last sixteen to thirty-two thousand events. */
export function createRecentEvents(): RecentEvents {
  let young = new Map<string, RecentEvent>();
  let old = new Map<string, RecentEvent>();

  const find = (projectId: number, uuid: string): RecentEvent | undefined => {
    const key = `${projectId} ${uuid}`;
    return young.get(key) ?? old.get(key);
  };

  return {
    add(projectId, event, position) {
      if (find(projectId, event.uuid)) return;
      if (young.size >= GENERATION_SIZE) {
        old = young;
        young = new Map();
      }
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
