import type { BacktrackingPatterns } from "@hedgerow/core/flags/pattern";
import { type Json, type JsonObject, ownValue } from "@hedgerow/core/json";
import type { ActivityDraft } from "../activity/activity-log.ts";
import { type EventStore, QueryTooLong } from "../events/event-store.ts";
import { compilePropertySearch, type PropertyFilter } from "../events/property-search.ts";
import { type ReachNowDeps, reachNow } from "../events/reach-now.ts";
import { Refusal } from "../http/errors.ts";
import { presentFields } from "../http/present-fields.ts";
import { type CountedName, type CountedValue, countNames, countValues } from "./count-values.ts";
import type {
  Group,
  GroupChange,
  GroupCondition,
  GroupMark,
  GroupPage,
  GroupRecords,
  GroupTypeRecord,
} from "./group-records.ts";
import type { PersonRecords, WriteByHand } from "./person-records.ts";
import type { ProjectPlace } from "./persons.ts";
import { findRelatedActors, type RelatedActors } from "./related-actors.ts";

/** Which groups a list has; all that is given must hold. */
export interface GroupSelection {
  readonly typeIndex: number;
  readonly search?: string;
  readonly keyContains?: string;
  /** `$group_key` stands for the key. */
  readonly properties: readonly PropertyFilter[];
}

/** Names one group. */
export interface GroupName {
  readonly typeIndex: number;
  readonly key: string;
}

/** How a type is to be called; what is absent stays. */
export type GroupTypeNames = Pick<GroupTypeRecord, "index"> &
  Partial<Pick<GroupTypeRecord, "nameSingular" | "namePlural">>;

/** Groups as people look at them and change them. Everything acknowledged before a call is seen by it. */
export interface Groups {
  types(projectId: number): Promise<readonly GroupTypeRecord[]>;

  /** Throws `not_found` for an index without a type, and changes none then. */
  renameTypes(projectId: number, names: readonly GroupTypeNames[]): Promise<void>;

  find(
    project: ProjectPlace,
    selection: GroupSelection,
    page: { readonly limit: number; readonly offset: number; readonly after?: GroupMark },
  ): Promise<GroupPage & { readonly count: number | null }>;

  /** Throws `not_found`. */
  group(projectId: number, name: GroupName): Promise<Group>;

  /** Refuses a type that is not there and a key that is. */
  create(
    projectId: number,
    group: GroupName & { readonly properties: JsonObject },
    authorId: number,
  ): Promise<Group>;

  /** Sets and removes a property as of now. Throws `not_found`. */
  changeProperty(
    projectId: number,
    name: GroupName,
    change: { readonly name: string; readonly value: Json | undefined },
    authorId: number,
  ): Promise<Group>;

  /** Throws `not_found`. */
  delete(projectId: number, name: GroupName, authorId: number): Promise<void>;

  /** Properties of the groups of each type, by its index. */
  propertyNames(projectId: number): Promise<ReadonlyMap<number, readonly CountedName[]>>;

  /** Values that groups of a type have of a property. */
  values(
    projectId: number,
    property: { readonly typeIndex: number; readonly name: string; readonly part?: string },
  ): Promise<readonly CountedValue[]>;

  /** Whoever shares events with a group, or with a person where no type is given. */
  related(
    projectId: number,
    actor: { readonly typeIndex: number | null; readonly id: string },
  ): Promise<RelatedActors>;
}

export interface GroupsDeps {
  readonly records: GroupRecords;
  readonly persons: Pick<PersonRecords, "byUuids">;
  /** Waits, for a while, until what was captured before is applied to groups. */
  readonly caughtUp: (projectId: number) => Promise<unknown>;
  readonly log: ReachNowDeps["log"];
  readonly events: Pick<EventStore, "events" | "reached">;
  readonly backtracking: BacktrackingPatterns;
  readonly clock: () => Date;
}

const MAX_SCANNED = 20_000;
/** Reads answer with what is there after this long, should storing lag behind. */
const MAX_WAIT_MS = 2000;

const NOT_FOUND = () => new Refusal("not_found", "Not found.");
const TOO_LONG = (attr: string) =>
  new Refusal("invalid_input", "The properties of a group may have 640 KiB as JSON.", { attr });

/** {@link Groups} over their records. */
export function createGroups({
  records,
  persons,
  caughtUp,
  log,
  events,
  backtracking,
  clock,
}: GroupsDeps): Groups {
  async function existing(projectId: number, { typeIndex, key }: GroupName): Promise<Group> {
    await caughtUp(projectId);
    const group = await records.group(projectId, typeIndex, key);
    if (!group) throw NOT_FOUND();
    return group;
  }

  function condition(
    { timeZone }: ProjectPlace,
    filters: readonly PropertyFilter[],
  ): GroupCondition | undefined {
    if (filters.length === 0) return undefined;
    const tools = { now: clock(), timeZone, backtracking };
    const { requiredNames, matches } = compilePropertySearch(filters, tools);
    return {
      requiredNames: requiredNames.filter((name) => name !== KEY),
      matches: ({ key, properties }) => matches({ ...properties, [KEY]: key }),
    };
  }

  const described = (
    authorId: number,
    activity: ActivityDraft["activity"],
  ): WriteByHand<GroupChange> => ({
    now: clock(),
    authorId,
    describe: ({ before, after }) => {
      const group = after ?? before;
      if (!group) return null;
      return {
        scope: "Group",
        itemId: groupItemId(group),
        itemVersion: null,
        activity,
        name: group.key,
        changes: changesBetween(before?.properties ?? {}, after?.properties ?? {}),
      };
    },
  });

  return {
    async types(projectId) {
      await caughtUp(projectId);
      return records.types(projectId);
    },

    async renameTypes(projectId, names) {
      await caughtUp(projectId);
      const known = new Set((await records.types(projectId)).map(({ index }) => index));
      if (!names.every(({ index }) => known.has(index))) throw NOT_FOUND();
      await records.renameTypes(projectId, names);
    },

    async find(project, { properties, ...selection }, { limit, offset, after }) {
      await caughtUp(project.id);
      const query = presentFields({
        projectId: project.id,
        ...selection,
        condition: condition(project, properties),
        after,
        limit,
        offset: after ? 0 : offset,
      });
      try {
        const page = await records.list(query);
        const isSelection =
          query.condition ?? selection.search ?? selection.keyContains ?? undefined;
        const isOnlyPage = !page.next && after === undefined && offset === 0;
        const count =
          isSelection === undefined
            ? await records.count(project.id, selection.typeIndex)
            : isOnlyPage
              ? page.groups.length
              : null;
        return { ...page, count };
      } catch (error) {
        throw refuseTooLong(error, "properties");
      }
    },

    group: existing,

    async create(projectId, group, authorId) {
      await caughtUp(projectId);
      const types = await records.types(projectId);
      if (!types.some(({ index }) => index === group.typeIndex)) {
        const detail = "There is no group type with this index: events bring types into being.";
        throw new Refusal("invalid_input", detail, { attr: "group_type_index" });
      }
      const created = await records.create(projectId, group, described(authorId, "create_group"));
      if (created === "too-long") throw TOO_LONG("group_properties");
      if (created === "exists") {
        const detail = "A group with this key already exists";
        throw new Refusal("unique", detail, { attr: "group_key" });
      }
      return created;
    },

    async changeProperty(projectId, name, { name: property, value }, authorId) {
      await caughtUp(projectId);
      const changed = await records.changeProperties(
        projectId,
        name,
        {
          set: new Map(value === undefined ? [] : [[property, value]]),
          setOnce: new Map(),
          unset: value === undefined ? [property] : [],
        },
        described(authorId, "update_property"),
      );
      if (!changed) throw NOT_FOUND();
      if (changed === "too-long") throw TOO_LONG("value");
      return changed;
    },

    async delete(projectId, name, authorId) {
      await caughtUp(projectId);
      if (!(await records.delete(projectId, name, described(authorId, "deleted")))) {
        throw NOT_FOUND();
      }
    },

    async propertyNames(projectId) {
      await caughtUp(projectId);
      const names = new Map<number, readonly CountedName[]>();
      for (const { index } of await records.types(projectId)) {
        const options = { typeIndex: index, maxGroups: MAX_SCANNED };
        const counted = await countNames(records.properties(projectId, options));
        if (counted.length > 0) names.set(index, counted);
      }
      return names;
    },

    async values(projectId, { typeIndex, name, part }) {
      await caughtUp(projectId);
      const options = { typeIndex, name, maxGroups: MAX_SCANNED };
      return countValues(records.properties(projectId, options), { name, part });
    },

    async related(projectId, { typeIndex, id }) {
      await reachNow({ events, log }, projectId, MAX_WAIT_MS);
      const types = await records.types(projectId);
      const type = types.find(({ index }) => index === typeIndex);
      if (typeIndex !== null && !type) return { persons: [], groups: [] };
      const actor = type ? { type: type.name, key: id } : { personId: id };
      try {
        return await findRelatedActors(
          { projectId, actor, types, now: clock() },
          { events, persons, groups: records },
        );
      } catch (error) {
        throw refuseTooLong(error, null);
      }
    },
  };
}

/** The property by which filters name a group itself. */
const KEY = "$group_key";

/** What activities call a group. */
export function groupItemId({ typeIndex, key }: GroupName): string {
  return `${typeIndex}:${key}`;
}

function changesBetween(before: JsonObject, after: JsonObject): ActivityDraft["changes"] {
  const names = new Set([...Object.keys(before), ...Object.keys(after)]);
  return [...names].flatMap((field) => {
    const [old, now] = [ownValue(before, field), ownValue(after, field)];
    return old === now ? [] : [{ field, before: old ?? null, after: now ?? null }];
  });
}

function refuseTooLong(error: unknown, attr: string | null): unknown {
  if (!(error instanceof QueryTooLong)) return error;
  return new Refusal("invalid_input", "The search takes too long. Ask for less.", { attr });
}
