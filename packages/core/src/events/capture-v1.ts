import { isJsonObject, type Json, type JsonObject, ownValue } from "../json.ts";

/** Fields of an event of capture v1 that older protocols have as properties (posthog-api 9.11). */
const EVENT_FIELDS: readonly (readonly [field: string, property: string])[] = [
  ["session_id", "$session_id"],
  ["window_id", "$window_id"],
];
const OPTIONS: readonly (readonly [option: string, property: string])[] = [
  ["cookieless_mode", "$cookieless_mode"],
  ["disable_skew_correction", "$ignore_sent_at"],
  ["process_person_profile", "$process_person_profile"],
  ["product_tour_id", "$product_tour_id"],
];

/** The SDK that a request names. */
export interface V1Library {
  readonly name: string;
  readonly version: string;
}

/**
 * An event of capture v1 as older protocols write it: session, window and options become properties,
 * and win over properties of the same names (posthog-api 9.11); so does the library, which the SDK
 * names once for all events, where the event names none. What is no such event stays as it is.
 */
export function readV1Event(sent: Json, library: V1Library | null): Json {
  if (!isJsonObject(sent)) return sent;
  const options = ownValue(sent, "options") ?? null;
  const moved = [
    ...movedFields(sent, EVENT_FIELDS),
    ...(isJsonObject(options) ? movedFields(options, OPTIONS) : []),
  ];
  const given = ownValue(sent, "properties") ?? {};
  if (!isJsonObject(given)) return sent;
  const named =
    library === null || Object.hasOwn(given, "$lib")
      ? {}
      : { $lib: library.name, $lib_version: library.version };
  if (moved.length === 0 && library === null) return sent;
  return { ...sent, properties: { ...named, ...given, ...Object.fromEntries(moved) } };
}

function movedFields(
  from: JsonObject,
  names: readonly (readonly [field: string, property: string])[],
): (readonly [string, Json])[] {
  return names.flatMap(([field, property]) => {
    const value = ownValue(from, field) ?? null;
    return value === null ? [] : [[property, value] as const];
  });
}
