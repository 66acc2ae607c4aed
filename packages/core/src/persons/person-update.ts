import { cleanText } from "../events/clean-json.ts";
import { cutName } from "../events/cut-name.ts";
import type { CapturedEvent } from "../events/event.ts";
import { encodeJson } from "../exact-json.ts";
import { NOTHING } from "../extend-json.ts";
import { isJsonObject, type Json, type JsonObject, ownValue } from "../json.ts";
import { createAutomaticReader, type ReadAutomatic } from "./automatic-properties.ts";
import type { PropertyChanges } from "./property-changes.ts";
import { isRefusedForMerging } from "./refused-ids.ts";

/** Something about an event's person or group that its sender should know; the event is kept. */
export type PersonWarning =
  /** A merge by an id that stands for nobody in particular (`isRefusedForMerging`). */
  | "cannot_merge_with_illegal_distinct_id"
  /** A merge that would take an identified person away; only `$merge_dangerously` may. */
  | "cannot_merge_already_identified"
  /** `$identify` and the like together with `$process_person_profile: false`. */
  | "invalid_event_when_process_person_profile_is_false"
  /** The changes would make a person's properties too long; they were left out. */
  | "person_properties_size_violation"
  /** The same of a group. */
  | "group_properties_size_violation"
  /** A project has its five group types already. */
  | "group_type_limit_reached"
  /** A group type or key that is empty or longer than {@link MAX_GROUP_TEXT_LENGTH}. */
  | "invalid_group"
  /** The event's project does not exist any more. */
  | "unknown_project";

/** What an event does to persons and groups. */
export interface PersonUpdate {
  /** The event's distinct id, as stores can hold it. */
  readonly distinctId: string;
  /** False for personless events: no person is created or changed, nor any group type. */
  readonly keepsPerson: boolean;
  readonly changes: PropertyChanges;
  readonly link: PersonLink | null;
  /** Names of the group types that the event mentions, in order. */
  readonly groupTypes: readonly string[];
  readonly group: GroupUpdate | null;
  readonly warnings: readonly PersonWarning[];
}

/** Two ids that are one person: `otherId`'s person joins the person of the event's distinct id. */
export interface PersonLink {
  readonly otherId: string;
  /** True for `$merge_dangerously`: also takes a person who is identified already. */
  readonly evenIfIdentified: boolean;
  /** True for `$identify`: `otherId` is the id before identification, whose flags must be kept. */
  readonly isIdentification: boolean;
}

/** What `$groupidentify` says of a group. */
export interface GroupUpdate {
  readonly type: string;
  readonly key: string;
  readonly changes: PropertyChanges;
}

/** The persons and groups that an event may create or change. */
export interface TouchedIds {
  /** At most two; two are one person afterwards. */
  readonly distinctIds: readonly string[];
  readonly group: { readonly type: string; readonly key: string } | null;
}

/** Longest name of a group type and longest group key, in UTF-16 units. */
const MAX_GROUP_TEXT_LENGTH = 400;

const LINKING_EVENTS: ReadonlySet<string> = new Set([
  "$identify",
  "$create_alias",
  "$merge_dangerously",
]);
const NO_VALUES: ReadonlyMap<string, Json> = new Map();
const NO_NAMES: readonly string[] = Object.freeze([]);
const NO_CHANGES: PropertyChanges = { setOnce: NO_VALUES, set: NO_VALUES, unset: NO_NAMES };

/**
 * What the event does to persons and groups, by its name and properties (posthog-api 9.10).
 * @param added properties that it has got beside its own: facts about the person, as some of those are
 * @param readAutomatic one for many events, where there are many
 */
export function personUpdateOf(
  event: CapturedEvent,
  added: JsonObject = NOTHING,
  readAutomatic: ReadAutomatic = createAutomaticReader(),
): PersonUpdate {
  const { properties } = event;
  const distinctId = cleanText(event.distinctId);
  const group = event.event === "$groupidentify" ? groupUpdateOf(properties) : null;
  const isPersonless = ownValue(properties, "$process_person_profile") === false;
  if (isPersonless) {
    const needsPerson = LINKING_EVENTS.has(event.event) || event.event === "$groupidentify";
    return {
      distinctId,
      keepsPerson: false,
      changes: NO_CHANGES,
      link: null,
      groupTypes: [],
      group: null,
      warnings: needsPerson ? ["invalid_event_when_process_person_profile_is_false"] : [],
    };
  }
  const warnings: PersonWarning[] = [];
  if (group === "invalid") warnings.push("invalid_group");
  const groupUpdate = group === "invalid" ? null : group;
  const groupTypes = mentionedGroupTypes(properties, warnings);
  if (groupUpdate && !groupTypes.includes(groupUpdate.type)) groupTypes.push(groupUpdate.type);
  const hasNoPerson = speaksOfGroupAlone(distinctId, groupUpdate);
  return {
    distinctId,
    keepsPerson: !hasNoPerson,
    changes: hasNoPerson ? NO_CHANGES : personChanges(event, added, readAutomatic),
    link: linkOf(event, distinctId, warnings),
    groupTypes,
    group: groupUpdate,
    warnings,
  };
}

/**
 * The ids whose stored facts the event may change. Other ids of the same persons are affected too:
 * which those are only the store knows.
 */
export function touchedIds(event: CapturedEvent): TouchedIds {
  const { properties } = event;
  const distinctId = cleanText(event.distinctId);
  if (ownValue(properties, "$process_person_profile") === false) {
    return { distinctIds: [], group: null };
  }
  if (!LINKING_EVENTS.has(event.event) && event.event !== "$groupidentify") {
    return { distinctIds: [distinctId], group: null };
  }
  const link = linkOf(event, distinctId, []);
  const update = event.event === "$groupidentify" ? groupUpdateOf(properties) : null;
  const group = update === "invalid" || update === null ? null : update;
  const keepsPerson = !speaksOfGroupAlone(distinctId, group);
  return {
    distinctIds: [...(keepsPerson || link ? [distinctId] : []), ...(link ? [link.otherId] : [])],
    group: group && { type: group.type, key: group.key },
  };
}

/**
 * When the event counts as having happened: its own time, but no later than its arrival, so that a
 * clock running ahead cannot hold back what comes after. Milliseconds since the epoch.
 */
export function effectiveTimeMs(event: CapturedEvent): number {
  return Math.min(event.timestamp.getTime(), event.receivedAt.getTime());
}

/** A group key as text: strings as they are, numbers in decimal; `null` for anything else. */
export function groupKeyText(value: Json | undefined): string | null {
  if (typeof value === "string") return cleanText(value);
  return typeof value === "number" || typeof value === "bigint" ? String(value) : null;
}

/** SDKs make up an id for events that speak of a group alone: there is no such person. */
function speaksOfGroupAlone(distinctId: string, group: GroupUpdate | null): boolean {
  return group !== null && distinctId === `$${group.type}_${group.key}`;
}

function personChanges(
  { event, properties }: CapturedEvent,
  added: JsonObject,
  readAutomatic: ReadAutomatic,
): PropertyChanges {
  return {
    automatic: readAutomatic(event, properties, added),
    set: mapOf(properties, "$set"),
    setOnce: mapOf(properties, "$set_once"),
    unset: namesToUnset(ownValue(properties, "$unset")),
  };
}

function mapOf(properties: JsonObject, name: string): ReadonlyMap<string, Json> {
  const value = ownValue(properties, name);
  return isJsonObject(value) ? new Map(Object.entries(value)) : NO_VALUES;
}

function namesToUnset(value: Json | undefined): readonly string[] {
  if (value === undefined) return NO_NAMES;
  if (Array.isArray(value)) return value.filter((name) => typeof name === "string");
  return isJsonObject(value) ? Object.keys(value) : NO_NAMES;
}

function linkOf(
  event: CapturedEvent,
  distinctId: string,
  warnings: PersonWarning[],
): PersonLink | null {
  if (!LINKING_EVENTS.has(event.event)) return null;
  const isIdentification = event.event === "$identify";
  const name = isIdentification ? "$anon_distinct_id" : "alias";
  const otherId = distinctIdText(ownValue(event.properties, name));
  if (otherId === null || otherId === distinctId) return null;
  if (isRefusedForMerging(otherId) || isRefusedForMerging(distinctId)) {
    warnings.push("cannot_merge_with_illegal_distinct_id");
    return null;
  }
  return { otherId, isIdentification, evenIfIdentified: event.event === "$merge_dangerously" };
}

/** An id as capture would have taken it as an event's distinct id; `null` where there is none. */
function distinctIdText(value: Json | undefined): string | null {
  if (value === undefined || value === null) return null;
  return cutName(cleanText(typeof value === "string" ? value : encodeJson(value)));
}

function mentionedGroupTypes(properties: JsonObject, warnings: PersonWarning[]): string[] {
  const groups = ownValue(properties, "$groups");
  if (!isJsonObject(groups)) return [];
  const names: string[] = [];
  for (const [name, value] of Object.entries(groups)) {
    const key = groupKeyText(value);
    if (key === null || key === "") continue;
    if (isGroupText(name)) names.push(cleanText(name));
    else if (!warnings.includes("invalid_group")) warnings.push("invalid_group");
  }
  return names;
}

function groupUpdateOf(properties: JsonObject): GroupUpdate | "invalid" {
  const type = ownValue(properties, "$group_type");
  const key = groupKeyText(ownValue(properties, "$group_key"));
  if (typeof type !== "string" || !isGroupText(type)) return "invalid";
  if (key === null || !isGroupText(key)) return "invalid";
  const set = mapOf(properties, "$group_set");
  return { type: cleanText(type), key, changes: { ...NO_CHANGES, set } };
}

function isGroupText(text: string): boolean {
  return text !== "" && text.length <= MAX_GROUP_TEXT_LENGTH;
}
