import type { JsonObject } from "@hedgerow/core/json";
import type { PropertyChanges } from "@hedgerow/core/persons/property-changes";
import type { WriteByHand } from "./person-records.ts";

/** A kind of group; a project has at most five. */
export interface GroupTypeRecord {
  readonly index: number;
  readonly name: string;
  /** How people call one group of the type, and several; `null` where nobody said. */
  readonly nameSingular: string | null;
  readonly namePlural: string | null;
}

export interface Group {
  readonly typeIndex: number;
  readonly key: string;
  readonly properties: JsonObject;
  readonly createdAt: Date;
}

/** What a change by hand does to a group; `null` before it is there and after it is gone. */
export interface GroupChange {
  readonly before: Group | null;
  readonly after: Group | null;
}

/** A condition that only code can decide, with what lets a store skip groups without reading them. */
export interface GroupCondition {
  /** Properties without which no group can match. */
  readonly requiredNames: readonly string[];
  /** May throw to end a search that takes too long. */
  matches(group: Pick<Group, "key" | "properties">): boolean;
}

/** A place in the list of groups, newest first: that of the last one seen. */
export interface GroupMark {
  readonly createdAtMs: number;
  readonly key: string;
}

export interface GroupQuery {
  readonly projectId: number;
  readonly typeIndex: number;
  /** Part of the key or of the property `name`, whatever the case. */
  readonly search?: string;
  /** Part of the key, whatever the case. */
  readonly keyContains?: string;
  readonly condition?: GroupCondition;
  readonly limit: number;
  readonly offset: number;
  /** Only groups after this place; `offset` counts from there. */
  readonly after?: GroupMark;
}

export interface GroupPage {
  readonly groups: readonly Group[];
  /** Where to go on; `null` at the end. A page may end before its limit, where searching takes long. */
  readonly next: GroupMark | null;
}

/** Groups as people look at them and change them by hand. Changes are seen by the next flag request. */
export interface GroupRecords {
  types(projectId: number): Promise<readonly GroupTypeRecord[]>;

  /** Changes how types are called; unknown indexes are left out. */
  renameTypes(
    projectId: number,
    changes: readonly (Pick<GroupTypeRecord, "index"> &
      Partial<Pick<GroupTypeRecord, "nameSingular" | "namePlural">>)[],
  ): Promise<void>;

  list(query: GroupQuery): Promise<GroupPage>;
  count(projectId: number, typeIndex: number): Promise<number>;
  group(projectId: number, typeIndex: number, key: string): Promise<Group | undefined>;

  /** Properties of groups of a type, newest first, in runs; of fewer than `maxGroups` where they are large. */
  properties(
    projectId: number,
    options: {
      readonly typeIndex: number;
      readonly name?: string;
      readonly maxGroups: number;
    },
  ): AsyncIterable<readonly JsonObject[]>;

  /** A group as of a time, with properties set at that time. */
  create(
    projectId: number,
    group: Pick<Group, "typeIndex" | "key" | "properties">,
    write: WriteByHand<GroupChange>,
  ): Promise<Group | "exists" | "too-long">;

  /** Changes properties as an event of that time would; `undefined` for no group. */
  changeProperties(
    projectId: number,
    group: Pick<Group, "typeIndex" | "key">,
    changes: PropertyChanges,
    write: WriteByHand<GroupChange>,
  ): Promise<Group | "too-long" | undefined>;

  /** Whether there was one. */
  delete(
    projectId: number,
    group: Pick<Group, "typeIndex" | "key">,
    write: WriteByHand<GroupChange>,
  ): Promise<boolean>;
}
