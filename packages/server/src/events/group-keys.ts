import type { CapturedEvent } from "@hedgerow/core/events/event";
import type { GroupType } from "@hedgerow/core/flags/flag";
import { isJsonObject, ownValue } from "@hedgerow/core/json";
import { groupKeyText } from "@hedgerow/core/persons/person-update";

type Indexes = ReadonlyMap<string, number>;
export type GroupKeys = readonly (string | null)[];

/**
 * Tells the groups of a run of events: keys by index of the group type. Types are remembered per
 * project, and read again, once per run at most, when an event names one that is not known yet.
 */
export function createGroupKeys(
  groupTypes: (projectId: number) => Promise<readonly GroupType[]>,
): (events: readonly CapturedEvent[]) => Promise<readonly GroupKeys[]> {
  const known = new Map<number, Indexes>();

  return async (events) => {
    const readNow = new Set<number>();
    const keys: GroupKeys[] = [];
    for (const event of events) {
      const groups = groupsOf(event);
      if (groups.length === 0) {
        keys.push([]);
        continue;
      }
      const { projectId } = event;
      let indexes = known.get(projectId);
      if (!readNow.has(projectId) && !groups.every(([name]) => indexes?.has(name))) {
        readNow.add(projectId);
        const types = await groupTypes(projectId);
        indexes = new Map(types.map(({ name, index }) => [name, index]));
        known.set(projectId, indexes);
      }
      keys.push(byIndex(groups, indexes ?? new Map()));
    }
    return keys;
  };
}

/** The groups that an event names: type and key of each. */
export function groupsOf({
  properties,
}: Pick<CapturedEvent, "properties">): readonly (readonly [type: string, key: string])[] {
  const groups = ownValue(properties, "$groups");
  if (!isJsonObject(groups)) return [];
  return Object.entries(groups).flatMap(([name, value]) => {
    const key = groupKeyText(value);
    return key === null || key === "" ? [] : [[name, key] as const];
  });
}

function byIndex(groups: readonly (readonly [string, string])[], indexes: Indexes): GroupKeys {
  const keys: (string | null)[] = [];
  for (const [name, key] of groups) {
    const index = indexes.get(name);
    if (index === undefined) continue;
    while (keys.length <= index) keys.push(null);
    keys[index] = key;
  }
  return keys;
}
