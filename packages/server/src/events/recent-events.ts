import type { EventIdentity } from "./event-store.ts";

/** Events taken a moment ago: durable in the log, perhaps not stored yet. */
export interface RecentEvents {
  add(projectId: number, event: EventIdentity): void;
  /** How an event relates to a remembered one with its uuid; `undefined` where there is none. */
  compare(projectId: number, event: EventIdentity): "duplicate" | "conflict" | undefined;
}

/** Events in each of two generations: some megabytes in all. */
const GENERATION_SIZE = 16_384;

/** Remembers the last sixteen to thirty-two thousand events. */
export function createRecentEvents(): RecentEvents {
  /** What makes an event this one, by project and uuid. */
  let young = new Map<number, Map<string, string>>();
  let old = young;
  let youngSize = 0;

  const find = (projectId: number, uuid: string): string | undefined =>
    young.get(projectId)?.get(uuid) ?? old.get(projectId)?.get(uuid);

  return {
    add(projectId, event) {
      if (find(projectId, event.uuid) !== undefined) return;
      if (youngSize >= GENERATION_SIZE) {
        old = young;
        young = new Map();
        youngSize = 0;
      }
      const sameProject = young.get(projectId) ?? new Map<string, string>();
      young.set(projectId, sameProject);
      sameProject.set(event.uuid, samenessOf(event));
      youngSize++;
    },
    compare(projectId, event) {
      const known = find(projectId, event.uuid);
      if (known === undefined) return undefined;
      return known === samenessOf(event) ? "duplicate" : "conflict";
    },
  };
}

/**
 * Equal for two sendings of one event. Of its time only what the client said counts: what was derived
 * from the arrival differs each time.
 */
export function samenessOf({ event, distinctId, clientTimestamp }: EventIdentity): string {
  return `${clientTimestamp?.getTime() ?? ""} ${event.length} ${event}${distinctId}`;
}
