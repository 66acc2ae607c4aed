import { encodeJson } from "../exact-json.ts";
import { extendJson } from "../extend-json.ts";
import { isJsonObject, type Json, type JsonObject, ownValue } from "../json.ts";
import { cutName } from "./cut-name.ts";
import type { CapturedEvent } from "./event.ts";
import { type EventTimes, eventTimes, readMoment } from "./event-time.ts";
import { isTidyUuid } from "./tidy-uuid.ts";

/** Largest event as JSON text, in bytes of UTF-8 (posthog-api 9.5). */
export const MAX_EVENT_BYTES = 2 * 1024 * 1024;

/** Why an event cannot be taken. */
export type RejectionCode =
  | "not_an_object"
  | "missing_event"
  | "invalid_event"
  | "missing_distinct_id"
  | "blank_distinct_id"
  | "invalid_uuid"
  | "invalid_timestamp"
  | "invalid_properties"
  | "event_too_large";

export interface Rejection {
  readonly kind: "rejected";
  readonly code: RejectionCode;
  /** The field at fault as sent; `null` when it is the event as a whole. */
  readonly field: string | null;
  readonly detail: string;
}

/** Something its sender should know about an event that was taken all the same. */
export type CaptureWarning =
  | "distinct_id_truncated"
  | "event_name_truncated"
  | "clock_skew_corrected"
  | "timestamp_in_future";

export interface Acceptance {
  readonly kind: "accepted";
  readonly event: CapturedEvent;
  /** Whether its uuid was made here, so that no other event can have it. */
  readonly hasNewUuid: boolean;
  readonly warnings: readonly CaptureWarning[];
}

/** Understood, and not stored: recordings and measurements, which Hedgerow does not keep. */
export interface Discard {
  readonly kind: "discarded";
}

/** What surrounds the events of one request. */
export interface EventSurroundings {
  readonly projectId: number;
  readonly receivedAt: Date;
  readonly sentAt: Date | null;
  /** Set as `$ip` where the event names no address itself; `null`: nothing is set. */
  readonly clientAddress: string | null;
  /** True removes addresses, those that the events carry included. */
  readonly anonymizeIps: boolean;
  /** Name of events that have none: `$identify` on `/engage`, `null` elsewhere. */
  readonly nameForUnnamed: string | null;
  readonly newUuid: () => string;
}

const DISCARDED: ReadonlySet<string> = new Set(["$performance_event", "$snapshot"]);

/**
 * Checks and completes one event as sent (posthog-api 9.4, 9.6, 9.8, 9.9, decisions 17 and 18). Pure
 * but for `newUuid`, which is asked at most once. The value must have been decoded with bounds: its
 * nesting is limited and its text clean.
 */
export function normalizeEvent(
  sent: Json,
  surroundings: EventSurroundings,
): Acceptance | Discard | Rejection {
  if (!isJsonObject(sent)) {
    return reject(
      "not_an_object",
      null,
      `An event must be a JSON object, received ${typeName(sent)}!`,
    );
  }
  const warnings: CaptureWarning[] = [];
  const name = eventName(sent, surroundings.nameForUnnamed);
  if (typeof name !== "string") return name;
  if (DISCARDED.has(name)) return { kind: "discarded" };
  const properties = propertiesOf(sent);
  if ("kind" in properties) return properties;
  const distinctId = distinctIdOf(sent, properties.sent);
  if (typeof distinctId !== "string") return distinctId;
  const uuid = uuidOf(sent);
  if (typeof uuid !== "string" && uuid !== null) return uuid;
  const times = timesOf(sent, properties.sent, surroundings);
  if ("kind" in times) return times;
  if (times.correction === "clock-skew") warnings.push("clock_skew_corrected");
  if (times.correction === "too-far-ahead") warnings.push("timestamp_in_future");
  return {
    kind: "accepted",
    event: {
      uuid: uuid ?? surroundings.newUuid(),
      projectId: surroundings.projectId,
      event: cut(name, "event_name_truncated", warnings),
      distinctId: cut(distinctId, "distinct_id_truncated", warnings),
      properties: withAddress(properties.folded, surroundings),
      timestamp: times.timestamp,
      clientTimestamp: times.clientTimestamp,
      receivedAt: surroundings.receivedAt,
    },
    hasNewUuid: uuid === null,
    warnings,
  };
}

/** The uuid an event claims, also where the event is refused; `undefined` without a readable one. */
export function claimedUuid(sent: Json): string | undefined {
  const uuid = isJsonObject(sent) ? uuidOf(sent) : null;
  return typeof uuid === "string" ? uuid : undefined;
}

function eventName(sent: JsonObject, nameForUnnamed: string | null): string | Rejection {
  const name = ownValue(sent, "event") ?? nameForUnnamed;
  if (name === null) {
    return reject("missing_event", "event", 'All events must have the event field "event"!');
  }
  if (typeof name !== "string") {
    const detail = `Event field "event" must be a string, received ${typeName(name)}!`;
    return reject("invalid_event", "event", detail);
  }
  if (name.trim() === "") {
    return reject("invalid_event", "event", 'Event field "event" should not be blank!');
  }
  return name;
}

/** Top level first, then properties (posthog-api 9.6); everything but text is taken as its JSON. */
function distinctIdOf(sent: JsonObject, properties: JsonObject): string | Rejection {
  const id =
    ownValue(sent, "distinct_id") ??
    ownValue(sent, "$distinct_id") ??
    ownValue(properties, "distinct_id") ??
    ownValue(properties, "$distinct_id") ??
    null;
  if (id === null) {
    const detail = 'All events must have the event field "distinct_id"!';
    return reject("missing_distinct_id", "distinct_id", detail);
  }
  const text = typeof id === "string" ? id : encodeJson(id);
  if (text.trim() === "") {
    const detail = 'Event field "distinct_id" should not be blank!';
    return reject("blank_distinct_id", "distinct_id", detail);
  }
  return text;
}

const UUID = /^[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}$/;

/** Lower case with dashes; `null` when the event leaves it to us (posthog-api 9.9). */
function uuidOf(sent: JsonObject): string | null | Rejection {
  const uuid = ownValue(sent, "uuid") ?? "";
  if (uuid === "") return null;
  if (typeof uuid === "string" && isTidyUuid(uuid)) return uuid;
  const lower = typeof uuid === "string" ? uuid.toLowerCase() : "";
  if (!UUID.test(lower)) {
    return reject("invalid_uuid", "uuid", 'Event field "uuid" is not a valid UUID!');
  }
  const digits = lower.replaceAll("-", "");
  return [
    digits.slice(0, 8),
    digits.slice(8, 12),
    digits.slice(12, 16),
    digits.slice(16, 20),
    digits.slice(20),
  ].join("-");
}

const NO_PROPERTIES: JsonObject = Object.freeze({});

/** Instructions about the person that older clients put beside the properties instead of into them. */
const PERSON_FIELDS = ["$set", "$set_once", "$unset"] as const;

/** The properties as sent, and with the person fields of the top level folded in, which win. */
function propertiesOf(sent: JsonObject): { sent: JsonObject; folded: JsonObject } | Rejection {
  const given = ownValue(sent, "properties") ?? NO_PROPERTIES;
  const properties = isEmptyList(given) ? NO_PROPERTIES : given;
  if (!isJsonObject(properties)) {
    const detail = `Properties must be a JSON object, received ${typeName(properties)}!`;
    return reject("invalid_properties", "properties", detail);
  }
  let folded = properties;
  for (const field of PERSON_FIELDS) {
    const beside = ownValue(sent, field) ?? null;
    const inside = ownValue(properties, field) ?? null;
    for (const value of [beside, inside]) {
      if (value === null || isJsonObject(value) || isEmptyList(value)) continue;
      if (field === "$unset" && Array.isArray(value)) continue;
      const expected = field === "$unset" ? "a JSON object or a list" : "a JSON object";
      const detail = `Event field "${field}" must be ${expected}, received ${typeName(value)}!`;
      return reject("invalid_properties", field, detail);
    }
    if (beside !== null) folded = { ...folded, [field]: joined(inside, beside) };
  }
  return { sent: properties, folded };
}

function joined(inside: Json, beside: Json): Json {
  if (inside === null) return beside;
  if (isJsonObject(inside) && isJsonObject(beside)) return { ...inside, ...beside };
  return [...namesIn(inside), ...namesIn(beside)];
}

function namesIn(value: Json): readonly Json[] {
  if (Array.isArray(value)) return value;
  return isJsonObject(value) ? Object.keys(value) : [];
}

function timesOf(
  sent: JsonObject,
  properties: JsonObject,
  { sentAt, receivedAt }: EventSurroundings,
): EventTimes | Rejection {
  const given = ownValue(sent, "timestamp") ?? "";
  const clientTimestamp = typeof given === "string" && given !== "" ? readMoment(given) : null;
  if (given !== "" && clientTimestamp === null) {
    const detail = 'Event field "timestamp" is not an ISO 8601 date and time!';
    return reject("invalid_timestamp", "timestamp", detail);
  }
  const offset = ownValue(sent, "offset") ?? null;
  const offsetMs = offset === null || offset === "" ? null : Number(offset);
  if (clientTimestamp === null && offsetMs !== null && !isOffset(offset, offsetMs)) {
    const detail = 'Event field "offset" must be a number of milliseconds!';
    return reject("invalid_timestamp", "offset", detail);
  }
  const ignoresSentAt = ownValue(properties, "$ignore_sent_at") === true;
  return eventTimes({
    clientTimestamp,
    offsetMs,
    sentAt: ignoresSentAt ? null : sentAt,
    receivedAt,
  });
}

function isOffset(given: Json, offsetMs: number): boolean {
  return (typeof given === "number" || typeof given === "string") && Math.abs(offsetMs) < 1e15;
}

function withAddress(properties: JsonObject, surroundings: EventSurroundings): JsonObject {
  const { anonymizeIps, clientAddress } = surroundings;
  if (anonymizeIps) {
    if (!Object.hasOwn(properties, "$ip")) return properties;
    return Object.fromEntries(Object.entries(properties).filter(([name]) => name !== "$ip"));
  }
  if (clientAddress === null || Object.hasOwn(properties, "$ip")) return properties;
  return extendJson(properties, { $ip: clientAddress });
}

function cut(text: string, warning: CaptureWarning, warnings: CaptureWarning[]): string {
  const name = cutName(text);
  if (name !== text) warnings.push(warning);
  return name;
}

/** Languages without an empty object of their own send an empty list in its place. */
function isEmptyList(value: Json): boolean {
  return Array.isArray(value) && value.length === 0;
}

function reject(code: RejectionCode, field: string | null, detail: string): Rejection {
  return { kind: "rejected", code, field, detail };
}

function typeName(value: Json): string {
  if (value === null) return "null";
  return Array.isArray(value) ? "a list" : `a ${typeof value}`;
}
