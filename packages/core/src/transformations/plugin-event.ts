import { cleanJson, cleanText } from "../events/clean-json.ts";
import { cutName } from "../events/cut-name.ts";
import type { AddedProperties, CapturedEvent } from "../events/event.ts";
import { MAX_AHEAD_MS, readMoment } from "../events/event-time.ts";
import { encodeJson } from "../exact-json.ts";
import { isJsonObject, type Json, type JsonObject, ownValue } from "../json.ts";

/**
 * How deep an event was captured by transformations: 0 for what came from outside, else one more
 * than that of the event during which `posthog.capture` was called. Nobody else may say it.
 */
export const HOPS_PROPERTY = "$transformation_hops";
/** Events this deep may not capture further ones. */
export const MAX_HOPS = 3;

/** Names of the transformations an event has passed and failed in, as PostHog writes them. */
export const SUCCEEDED_PROPERTY = "$plugins_succeeded";
export const FAILED_PROPERTY = "$plugins_failed";

/** What the service says itself of transformations, and none of them changes. */
export const OWN_PROPERTIES = [HOPS_PROPERTY, SUCCEEDED_PROPERTY, FAILED_PROPERTY] as const;

/** Answers nested deeper than this are refused; events as captured are not. */
const MAX_DEPTH = 202;

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;

/** The fields of an event that a transformation may see and change (posthog-api 6.9). */
export type PluginEvent = JsonObject;

/**
 * An event as a transformation sees it. `$set`, `$set_once` and `$unset` stand at the top as well as
 * among the properties, since plugins look for them in both places.
 */
export function pluginEventOf(
  { uuid, projectId, event, distinctId, properties, timestamp, receivedAt }: CapturedEvent,
  siteUrl: string,
): PluginEvent {
  const address = ownValue(properties, "$ip");
  const plain: Record<string, Json> = {
    uuid,
    event,
    distinct_id: distinctId,
    team_id: projectId,
    ip: typeof address === "string" ? address : null,
    site_url: siteUrl,
    now: receivedAt.toISOString(),
    timestamp: timestamp.toISOString(),
    properties,
  };
  for (const field of PERSON_FIELDS) {
    const given = ownValue(properties, field);
    if (given !== undefined) plain[field] = given;
  }
  return plain;
}

const PERSON_FIELDS = ["$set", "$set_once", "$unset"] as const;

/**
 * JSON of {@link pluginEventOf} as `encodeJson` writes it, without `properties` and the last bracket:
 * the same without making the event.
 * @param isoOf a time as `toISOString` writes it
 */
export function headTextOf(
  { uuid, projectId, event, distinctId, properties, timestamp, receivedAt }: CapturedEvent,
  siteUrl: string,
  isoOf: (time: Date) => string,
): string {
  const address = ownValue(properties, "$ip");
  const ip = typeof address === "string" ? JSON.stringify(address) : "null";
  const names = `"event":${JSON.stringify(event)},"distinct_id":${JSON.stringify(distinctId)}`;
  const where = `"team_id":${projectId},"ip":${ip},"site_url":${JSON.stringify(siteUrl)}`;
  const when = `"now":"${isoOf(receivedAt)}","timestamp":"${isoOf(timestamp)}"`;
  let text = `{"uuid":"${uuid}",${names},${where},${when}`;
  for (const field of PERSON_FIELDS) {
    const given = ownValue(properties, field);
    if (given !== undefined) text += `,"${field}":${encodeJson(given)}`;
  }
  return text;
}

/**
 * How what a transformation answered differs from the event that it was given: `fields` are those
 * beside the properties that changed, as they are now.
 * - `parts`: properties that were set and removed; `propertiesText` is the JSON that all of them have
 *   now, without {@link SUCCEEDED_PROPERTY} and {@link FAILED_PROPERTY}, where it is known; `addedText`
 *   the JSON of those that were set, where nothing else happened and they stand behind all others.
 * - `properties`: all properties as they are now, or whatever stands in their place.
 * - `whole`: another object altogether.
 */
export type EventChange =
  | {
      readonly kind: "parts";
      readonly fields: JsonObject;
      readonly removedFields: readonly string[];
      readonly set: JsonObject;
      readonly removed: readonly string[];
      readonly propertiesText?: string;
      readonly addedText?: string;
    }
  | {
      readonly kind: "properties";
      readonly fields: JsonObject;
      readonly removedFields: readonly string[];
      readonly properties: Json;
    }
  | { readonly kind: "whole"; readonly event: JsonObject };

/** The event that a change makes of another one. */
export function eventAfter(before: PluginEvent, change: EventChange): PluginEvent {
  if (change.kind === "whole") return change.event;
  const after = withChanges(before, change.fields, change.removedFields);
  if (change.kind === "properties") put(after, "properties", change.properties);
  else if (hasKeys(change.set) || change.removed.length > 0) {
    put(after, "properties", withChanges(propertiesOf(before), change.set, change.removed));
  }
  return after;
}

function propertiesOf(event: PluginEvent): JsonObject {
  const properties = ownValue(event, "properties");
  return isJsonObject(properties) ? properties : {};
}

/** A copy of an object with some keys set and some left out. */
function withChanges(
  object: JsonObject,
  set: JsonObject,
  removed: readonly string[],
): Record<string, Json> {
  const copy: Record<string, Json> =
    removed.length === 0
      ? { ...object }
      : Object.fromEntries(Object.entries(object).filter(([key]) => !removed.includes(key)));
  for (const key of Object.keys(set)) put(copy, key, set[key] as Json);
  return copy;
}

/** Sets a key of an object, `__proto__` as any other. */
export function put(object: Record<string, Json>, key: string, value: Json): void {
  if (key !== "__proto__") object[key] = value;
  else {
    Object.defineProperty(object, key, {
      value,
      writable: true,
      enumerable: true,
      configurable: true,
    });
  }
}

/** Whether an object has a key that can be listed. */
export function hasKeys(object: object | undefined): boolean {
  for (const _key in object) return true;
  return false;
}

/** Properties that the event says besides, or that no transformation changes. */
const TIED_PROPERTIES = [...PERSON_FIELDS, "$ip", ...OWN_PROPERTIES];

/** What a transformation made of an event, checked: or why that cannot be. */
export type AnswerOutcome =
  | { readonly kind: "changed"; readonly event: PluginEvent }
  | { readonly kind: "refused"; readonly reason: string };

/**
 * Checks what a transformation answered for an event, and folds what it says twice: person fields of
 * the top level into the properties, and a changed `ip` into `$ip`. What the service says itself of
 * the event stays as it was. A changed field that means nothing refuses the whole answer; an invalid
 * `uuid` alone is ignored (the event keeps its own).
 */
export function takeAnswer(before: PluginEvent, answer: Json): AnswerOutcome {
  if (!isJsonObject(answer)) return refuse("it answered no event");
  const looks = lookThrough(answer, MAX_DEPTH);
  if (looks === "too-deep") return refuse("its event is nested too deep");
  const projectId = ownValue(answer, "team_id");
  if (projectId !== undefined && projectId !== ownValue(before, "team_id")) {
    return refuse("it tried to change team_id");
  }
  const name = ownValue(answer, "event");
  if (typeof name !== "string" || name.trim() === "") return refuse("its event has no name");
  const id = ownValue(answer, "distinct_id");
  const distinctId = typeof id === "number" || typeof id === "bigint" ? String(id) : id;
  if (typeof distinctId !== "string" || distinctId.trim() === "") {
    return refuse("its event has no distinct_id");
  }
  const timestamp = ownValue(answer, "timestamp") ?? ownValue(before, "timestamp");
  const moment = typeof timestamp === "string" ? readMoment(timestamp) : null;
  if (!moment || isOutOfCalendar(moment, String(timestamp))) {
    return refuse("the timestamp of its event is no time");
  }
  if (timestamp !== ownValue(before, "timestamp") && isTooFarAhead(moment, before)) {
    return refuse("the timestamp of its event lies too far ahead");
  }
  const given = ownValue(answer, "properties") ?? {};
  if (!isJsonObject(given)) return refuse("the properties of its event are no object");
  const properties = foldProperties(
    before,
    answer,
    looks === "clean" ? { ...given } : cleanJson(given),
  );
  if ("kind" in properties) return properties;
  const uuid = ownValue(answer, "uuid");
  const lower = typeof uuid === "string" ? uuid.toLowerCase() : "";
  const folded: Record<string, Json> = {
    ...before,
    uuid: UUID.test(lower) ? lower : (ownValue(before, "uuid") ?? ""),
    event: cutName(cleanText(name)),
    distinct_id: cutName(cleanText(distinctId)),
    timestamp: moment.toISOString(),
    properties: properties.folded,
  };
  const address = ownValue(properties.folded, "$ip");
  folded.ip = typeof address === "string" ? address : null;
  for (const field of PERSON_FIELDS) {
    const value = ownValue(properties.folded, field);
    if (value === undefined) delete folded[field];
    else folded[field] = value;
  }
  return { kind: "changed", event: folded };
}

/**
 * {@link takeAnswer} for an answer of which only the differences are told. Where nothing but plain
 * properties changed, the rest is not looked at again, and the text of the properties stays known.
 */
export function takeChange(
  before: PluginEvent,
  change: EventChange,
): AnswerOutcome & { readonly propertiesText?: string } {
  if (change.kind !== "parts" || !areOnlyPlain(change)) {
    return takeAnswer(before, eventAfter(before, change));
  }
  const looks = lookThrough(change.set, MAX_DEPTH - 1);
  if (looks === "too-deep") return refuse("its event is nested too deep");
  if (looks === "unclean") return takeAnswer(before, eventAfter(before, change));
  const { propertiesText } = change;
  return {
    kind: "changed",
    event: eventAfter(before, change),
    ...(propertiesText !== undefined && { propertiesText }),
  };
}

/**
 * What a change adds to an event that has no property of the same name; `undefined` where it does
 * anything else, or has to be looked at as {@link takeChange} does. Nothing that the service itself
 * reads of an event is an addition: it has to be where that is looked for.
 */
export function additionOf(change: EventChange): AddedProperties | undefined {
  if (change.kind !== "parts" || change.addedText === undefined || !areOnlyPlain(change)) {
    return undefined;
  }
  const { set, addedText } = change;
  for (const name in set) if (isRead(name)) return undefined;
  if (lookThrough(set, MAX_DEPTH - 1) !== "clean") return undefined;
  return { properties: set, text: addedText };
}

/** Whether a name may mean something: those of PostHog's own begin alike, but for that of `$create_alias`. */
function isRead(name: string): boolean {
  return name.startsWith("$") || name === "alias";
}

/** Whether properties changed of which nothing is said elsewhere in the event. */
function areOnlyPlain({
  fields,
  removedFields,
  set,
  removed,
}: Extract<EventChange, { kind: "parts" }>): boolean {
  if (hasKeys(fields) || removedFields.length > 0) return false;
  return !TIED_PROPERTIES.some((name) => Object.hasOwn(set, name) || removed.includes(name));
}

/** The captured event that a checked answer stands for; what plugins do not see stays as it was. */
export function capturedEventOf(before: CapturedEvent, after: PluginEvent): CapturedEvent {
  const text = (field: string) => ownValue(after, field) as string;
  const timestamp = new Date(text("timestamp"));
  const isSameTime = timestamp.getTime() === before.timestamp.getTime();
  return {
    ...before,
    uuid: text("uuid"),
    event: text("event"),
    distinctId: text("distinct_id"),
    timestamp: isSameTime ? before.timestamp : timestamp,
    properties: ownValue(after, "properties") as JsonObject,
  };
}

/** What the service says of the transformations that an event has passed so far. */
export function passedProperties(
  succeeded: readonly string[],
  failed: readonly string[],
): AddedProperties {
  const properties = { [SUCCEEDED_PROPERTY]: [...succeeded], [FAILED_PROPERTY]: [...failed] };
  return { properties, text: JSON.stringify(properties) };
}

/** How deep an event was captured by transformations. */
export function hopsOf(properties: JsonObject): number {
  const hops = ownValue(properties, HOPS_PROPERTY);
  return typeof hops === "number" && hops >= 0 ? hops : 0;
}

/** Whether a moment stands for a time outside of the years that can be kept: those are read as the epoch. */
export function isOutOfCalendar(moment: Date, text: string): boolean {
  return moment.getTime() === 0 && !/(?<![\d+-])19(?:69|70)/.test(text);
}

/** Whether a moment is later than events may be when they arrive (decision 18). */
function isTooFarAhead(moment: Date, before: PluginEvent): boolean {
  const arrival = readMoment(String(ownValue(before, "now")));
  return arrival !== null && moment.getTime() > arrival.getTime() + MAX_AHEAD_MS;
}

function foldProperties(
  before: PluginEvent,
  answer: JsonObject,
  clean: Json,
): { readonly folded: JsonObject } | Extract<AnswerOutcome, { kind: "refused" }> {
  const earlier = ownValue(before, "properties") as JsonObject;
  const folded = clean as Record<string, Json>;
  for (const field of PERSON_FIELDS) {
    const value = foldPersonField(
      ownValue(earlier, field),
      ownValue(folded, field),
      ownValue(answer, field) ?? undefined,
    );
    if (value === undefined || value === null) delete folded[field];
    else if (isJsonObject(value) || (field === "$unset" && Array.isArray(value))) {
      folded[field] = cleanJson(value);
    } else return refuse(`${field} of its event is no object`);
  }
  const address = ownValue(answer, "ip") ?? null;
  const isSameInside = sameJson(ownValue(earlier, "$ip"), ownValue(folded, "$ip"));
  if (Object.hasOwn(answer, "ip") && address !== ownValue(before, "ip") && isSameInside) {
    if (typeof address === "string") folded.$ip = cleanText(address);
    else delete folded.$ip;
  }
  for (const name of OWN_PROPERTIES) {
    const value = ownValue(earlier, name);
    if (value === undefined) delete folded[name];
    else folded[name] = value;
  }
  return { folded };
}

/**
 * One of the two places counts where the plugin changed it; where it changed both, the top level
 * wins key by key, as PostHog joins them.
 */
function foldPersonField(
  earlier: Json | undefined,
  inside: Json | undefined,
  beside: Json | undefined,
): Json | undefined {
  if (beside === undefined || sameJson(earlier, beside)) return inside;
  if (sameJson(earlier, inside)) return beside;
  return isJsonObject(inside) && isJsonObject(beside) ? { ...inside, ...beside } : beside;
}

function sameJson(one: Json | undefined, other: Json | undefined): boolean {
  if (one === other) return true;
  if (Array.isArray(one)) {
    return (
      Array.isArray(other) &&
      one.length === other.length &&
      one.every((item, index) => sameJson(item, other[index]))
    );
  }
  if (!isJsonObject(one) || !isJsonObject(other)) return false;
  const keys = Object.keys(one);
  return (
    keys.length === Object.keys(other).length &&
    keys.every((key) => Object.hasOwn(other, key) && sameJson(one[key], other[key]))
  );
}

/** Whether a value nests too deep, or holds text that stores refuse; makes nothing on its way. */
function lookThrough(value: Json, depth: number): "clean" | "unclean" | "too-deep" {
  if (typeof value === "string") return cleanText(value) === value ? "clean" : "unclean";
  if (typeof value !== "object" || value === null) return "clean";
  if (depth === 0) return "too-deep";
  let looks: "clean" | "unclean" = "clean";
  if (Array.isArray(value)) {
    for (const item of value as readonly Json[]) {
      const one = lookThrough(item, depth - 1);
      if (one === "too-deep") return one;
      if (one === "unclean") looks = one;
    }
    return looks;
  }
  const object = value as JsonObject;
  for (const key in object) {
    const one = lookThrough(object[key] ?? null, depth - 1);
    if (one === "too-deep") return one;
    if (one === "unclean" || cleanText(key) !== key) looks = "unclean";
  }
  return looks;
}

function refuse(reason: string): Extract<AnswerOutcome, { kind: "refused" }> {
  return { kind: "refused", reason };
}
