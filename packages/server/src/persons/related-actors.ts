import type { EventStore, PropertyCondition } from "../events/event-store.ts";
import { groupsOf } from "../events/group-keys.ts";
import type { Group, GroupRecords, GroupTypeRecord } from "./group-records.ts";
import type { ListedPerson, PersonRecords } from "./person-records.ts";

/** Whoever shares events with a person or a group. */
export interface RelatedActors {
  readonly persons: readonly ListedPerson[];
  readonly groups: readonly Group[];
}

/** Of whom: a person by uuid, or a group. */
export type Actor = { readonly personId: string } | { readonly type: string; readonly key: string };

/** Events further back say nothing of who belongs together now (as PostHog has it). */
const RELATED_DAYS = 90;
const MAX_EVENTS = 10_000;
const PAGE_EVENTS = 1000;
/** Whoever shares events with more is told of the first ones found. */
const MAX_ACTORS = 500;

/**
 * Persons and groups that share events with an actor, by the newest 10,000 events of the last 90
 * days. Rejects with `QueryTooLong` when too many events have to be looked at for them.
 */
export async function findRelatedActors(
  {
    projectId,
    actor,
    types,
    now,
  }: {
    readonly projectId: number;
    readonly actor: Actor;
    readonly types: readonly GroupTypeRecord[];
    readonly now: Date;
  },
  stores: {
    readonly events: Pick<EventStore, "events">;
    readonly persons: Pick<PersonRecords, "byUuids">;
    readonly groups: Pick<GroupRecords, "group">;
  },
): Promise<RelatedActors> {
  const after = new Date(now.getTime() - RELATED_DAYS * 86_400_000);
  const which = "personId" in actor ? actor : { properties: withGroup(actor) };
  const personIds = new Set<string>();
  const groupKeys = new Map<string, { readonly type: string; readonly key: string }>();
  for (let offset = 0; offset < MAX_EVENTS; ) {
    const page = await stores.events.events({
      projectId,
      after,
      ...which,
      limit: PAGE_EVENTS,
      offset,
      order: "newest-first",
    });
    for (const event of page.events) {
      if (!("personId" in actor) && personIds.size < MAX_ACTORS) personIds.add(event.personId);
      for (const [type, key] of groupsOf(event)) {
        if ("type" in actor && actor.type === type) continue;
        if (groupKeys.size < MAX_ACTORS) groupKeys.set(JSON.stringify([type, key]), { type, key });
      }
    }
    offset += page.events.length;
    if (!page.hasMore) break;
  }
  const indexOf = new Map(types.map(({ name, index }) => [name, index]));
  const groups: Group[] = [];
  for (const { type, key } of groupKeys.values()) {
    const index = indexOf.get(type);
    const group = index !== undefined && (await stores.groups.group(projectId, index, key));
    if (group) groups.push(group);
  }
  const persons = await stores.persons.byUuids(projectId, [...personIds]);
  return { persons: [...persons.values()], groups };
}

function withGroup({ type, key }: { type: string; key: string }): PropertyCondition {
  return {
    requiredNames: ["$groups"],
    matches: (properties) =>
      groupsOf({ properties }).some(([name, value]) => name === type && value === key),
  };
}
