import { readEpochMs, readMoment } from "@hedgerow/core/events/event-time";
import { type Json, ownValue } from "@hedgerow/core/json";
import { type Static, Type } from "typebox";
import { Refusal } from "../http/errors.ts";
import { type Page, PageQuery } from "../http/pagination.ts";
import { presentFields } from "../http/present-fields.ts";
import { queryText } from "../http/query-text.ts";
import { notAnInstant, wireInstant } from "../http/wire-instant.ts";
import { AnyObject } from "../http/wire-schemas.ts";
import { isUuid } from "../http/wire-uuid.ts";
import type { ListedPerson } from "../persons/person-records.ts";
import type { EventQuery } from "./event-store.ts";
import type { EventOfPerson } from "./events.ts";
import {
  badFilter,
  propertyFilterOf,
  readJsonParameter,
  sentFiltersOf,
} from "./property-filters.schemas.ts";
import { compilePropertySearch, type PropertyFilter, type SearchTools } from "./property-search.ts";

const EventPerson = Type.Object({
  id: Type.Integer(),
  uuid: Type.String(),
  distinct_ids: Type.Array(Type.String(), {
    description: "The id of the event and up to nine others.",
  }),
  properties: AnyObject,
  created_at: Type.String(),
  is_identified: Type.Boolean(),
});

/** A stored event on the wire: PostHog's fields, and when it was received. */
export const Event = Type.Object({
  id: Type.String(),
  uuid: Type.String(),
  distinct_id: Type.String(),
  properties: AnyObject,
  event: Type.String(),
  timestamp: Type.String(),
  received_at: Type.String(),
  person: Type.Union([EventPerson, Type.Null()]),
  elements: Type.Array(Type.Unknown()),
  elements_chain: Type.String(),
});

/** Distinct ids shown with an event: some persons have thousands. */
const MAX_DISTINCT_IDS = 10;

/** The wire form of a stored event. */
export function wireEvent({ event, person }: EventOfPerson): Static<typeof Event> {
  return {
    id: event.uuid,
    uuid: event.uuid,
    distinct_id: event.distinctId,
    properties: event.properties,
    event: event.event,
    timestamp: wireInstant(event.timestamp),
    received_at: wireInstant(event.receivedAt),
    person: person && wirePerson(person, event.distinctId),
    elements: [],
    elements_chain: "",
  };
}

function wirePerson(person: ListedPerson, distinctId: string): Static<typeof EventPerson> {
  const others = person.distinctIds.filter((id) => id !== distinctId);
  return {
    id: person.id,
    uuid: person.uuid,
    distinct_ids: [distinctId, ...others.slice(0, MAX_DISTINCT_IDS - 1)],
    properties: person.properties,
    created_at: wireInstant(person.createdAt),
    is_identified: person.isIdentified,
  };
}

const instant = (which: string) =>
  Type.Optional(Type.String({ description: `Only events ${which} this time (ISO 8601).` }));

/** Query parameters of the list of events. */
export const EventListParameters = Type.Object({
  ...PageQuery,
  event: Type.Optional(Type.String({ description: "Name of the event." })),
  distinct_id: Type.Optional(Type.String({ description: "Only events of this distinct id." })),
  person_id: Type.Optional(
    Type.String({ description: "Only events of the person with this UUID." }),
  ),
  after: instant("after"),
  before: instant("before"),
  properties: Type.Optional(
    Type.String({
      description:
        'JSON list of conditions that must all hold, such as `[{"key":"plan","operator":"exact","value":"pro"}]`; operators are those of flags.',
    }),
  ),
  orderBy: Type.Optional(
    Type.String({
      description: '`["-timestamp"]` (newest first, the default) or `["timestamp"]`.',
    }),
  ),
});

/** Reads the parameters of a list; whatever cannot be understood is refused by name. */
export function eventQueryOf(
  parameters: unknown,
  { projectId, page, tools }: { projectId: number; page: Page; tools: SearchTools },
): EventQuery {
  /** An empty parameter is none. */
  const text = (name: string) => queryText(parameters, name) || undefined;
  const personId = uuidOf(text("person_id"), "person_id");
  const filters = eventFiltersOf(text("properties"), tools.timeZone);
  return presentFields({
    projectId,
    event: text("event"),
    distinctId: text("distinct_id"),
    personId,
    after: instantOf(text("after"), "after"),
    before: instantOf(text("before"), "before"),
    properties: filters.length === 0 ? undefined : compilePropertySearch(filters, tools),
    limit: page.limit,
    offset: page.offset,
    order: orderOf(text("orderBy"), "orderBy") ?? orderOf(text("order"), "order") ?? "newest-first",
  });
}

/** The uuid in a path; whatever cannot be one is an unknown event (404). */
export function pathUuidOf(parameters: unknown): string {
  const { uuid } = parameters as { uuid?: string };
  if (uuid === undefined || !isUuid(uuid)) throw new Refusal("not_found", "Not found.");
  return uuid.toLowerCase();
}

function uuidOf(text: string | undefined, attr: string): string | undefined {
  if (text === undefined) return undefined;
  if (!isUuid(text)) throw new Refusal("invalid_input", "Must be a valid UUID.", { attr });
  return text.toLowerCase();
}

/** An instant in a query parameter; refused by name where it cannot be read. */
export function instantOf(text: string | undefined, attr: string): Date | undefined {
  if (text === undefined) return undefined;
  // A plus sign that was not escaped arrives as a blank.
  const written = text.replace(/(:\d{2}(?:\.\d+)?) (\d{2}:?\d{2})$/, "$1+$2");
  const moment = readMoment(written) ?? readEpochMs(text);
  if (moment) return moment;
  throw notAnInstant(attr);
}

function orderOf(text: string | undefined, attr: string): EventQuery["order"] | undefined {
  if (text === undefined) return undefined;
  const value = text.trimStart().startsWith("[") ? readJsonParameter(text, attr) : text;
  const written = Array.isArray(value) && value.length === 1 ? (value[0] as Json) : value;
  if (Array.isArray(value) && value.length === 0) return undefined;
  switch (typeof written === "string" ? written.trim().toLowerCase() : "") {
    case "timestamp":
    case "timestamp asc":
      return "oldest-first";
    case "-timestamp":
    case "timestamp desc":
      return "newest-first";
    default:
      throw new Refusal("invalid_input", "Events can be ordered by timestamp and by -timestamp.", {
        attr,
      });
  }
}

/** `feature` is how PostHog's interface calls the `$feature/…` properties of events. */
const EVENT_TYPES: readonly unknown[] = [undefined, null, "event", "feature"];

function eventFiltersOf(text: string | undefined, timeZone: string): readonly PropertyFilter[] {
  return sentFiltersOf(text).map((sent) => {
    if (!EVENT_TYPES.includes(ownValue(sent.filter, "type"))) {
      throw badFilter(`${sent.where}only properties of events can be filtered by.`);
    }
    return propertyFilterOf(sent, timeZone);
  });
}
