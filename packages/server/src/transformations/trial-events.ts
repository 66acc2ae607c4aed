import type { CapturedEvent } from "@hedgerow/core/events/event";
import type { EventSurroundings, Rejection } from "@hedgerow/core/events/normalize-event";
import { extendJson } from "@hedgerow/core/extend-json";
import { isJsonObject, type Json, ownValue } from "@hedgerow/core/json";
import {
  HOPS_PROPERTY,
  type PluginEvent,
  pluginEventOf,
} from "@hedgerow/core/transformations/plugin-event";
import { normalizeAlone } from "../events/capture.ts";
import { placeOf } from "../events/steps/add-geo-properties.ts";
import { Refusal } from "../http/errors.ts";
import type { GeoIp } from "../persons/geo-ip.ts";
import { withoutClaims } from "./event-under-way.ts";

/** Most events of one trial. */
export const MAX_TRIAL_EVENTS = 100;
/** Whose events are that name nobody. */
const NOBODY = "trial";

/** What is known of events beside themselves. */
export interface TrialSurroundings {
  readonly project: Pick<EventSurroundings, "projectId" | "anonymizeIps">;
  readonly now: Date;
  readonly newUuid: () => string;
  readonly siteUrl: string;
  readonly geoIp: GeoIp;
}

/**
 * Events as somebody pasted them, as they would come to the first transformation had they been
 * captured. One may be without `distinct_id`; `ip` is where it comes from. Throws a {@link Refusal}
 * for what capture would not take.
 */
export async function readTrialEvents(
  events: readonly unknown[],
  { project, now, newUuid, siteUrl, geoIp }: TrialSurroundings,
): Promise<readonly PluginEvent[]> {
  if (events.length > MAX_TRIAL_EVENTS) {
    throw new Refusal(
      "invalid_input",
      `Ensure this list has no more than ${MAX_TRIAL_EVENTS} events.`,
      { attr: "events" },
    );
  }
  const captured = events.map((event, index) => {
    const sent = event as Json;
    const address = isJsonObject(sent) ? ownValue(sent, "ip") : undefined;
    const result = normalizeAlone(withPerson(sent), {
      ...project,
      receivedAt: now,
      sentAt: null,
      clientAddress: typeof address === "string" ? address : null,
      nameForUnnamed: null,
      newUuid,
    });
    const attr = `events__${index}`;
    if (result.kind === "rejected") throw refusalOf(result, sent, attr);
    if (result.kind === "accepted") return result.event;
    throw new Refusal("invalid_input", "Events of this name are not kept.", {
      attr: `${attr}__event`,
    });
  });
  return Promise.all(
    captured.map(async (event) => {
      const place = await placeOf(event, geoIp);
      const properties = extendJson(event.properties, place);
      return trialEventOf({ ...event, properties }, siteUrl);
    }),
  );
}

/** A captured or stored event as it comes to the first transformation of its project. */
export function trialEventOf(event: CapturedEvent, siteUrl: string): PluginEvent {
  const honest = withoutClaims(event);
  const { [HOPS_PROPERTY]: _, ...properties } = honest.properties;
  return pluginEventOf({ ...honest, properties }, siteUrl);
}

/** An event that names nobody is of somebody, which capture would ask for. */
function withPerson(sent: Json): Json {
  if (!isJsonObject(sent)) return sent;
  const properties = ownValue(sent, "properties");
  const isNamed = [sent, ...(isJsonObject(properties) ? [properties] : [])].some((one) =>
    ["distinct_id", "$distinct_id"].some((name) => (ownValue(one, name) ?? null) !== null),
  );
  return isNamed ? sent : { ...sent, distinct_id: NOBODY };
}

/** Why capture would not take an event, as the management API says such things. */
function refusalOf({ code, field, detail }: Rejection, sent: Json, where: string): Refusal {
  const attr = field === null ? where : `${where}__${field}`;
  const given = isJsonObject(sent) && field !== null ? ownValue(sent, field) : undefined;
  if (given === null) return new Refusal("null", "This field may not be null.", { attr });
  if (code === "missing_event") return new Refusal("required", "This field is required.", { attr });
  const isBlank = typeof given === "string" && given.trim() === "";
  if (isBlank && (code === "invalid_event" || code === "blank_distinct_id")) {
    return new Refusal("blank", "This field may not be blank.", { attr });
  }
  const isNoText = code === "invalid_event";
  return new Refusal("invalid_input", isNoText ? "Not a valid string." : detail, { attr });
}
