import { encodeJson, parseExactJson } from "@hedgerow/core/exact-json";
import { extendedLength, extendJsonText } from "@hedgerow/core/extend-json";
import { isJsonObject, type Json, type JsonObject, ownValue } from "@hedgerow/core/json";
import type { EventRow } from "../../events/event-store.ts";
import { isLongText, mayBeLong } from "./long-texts.ts";
import { HEX_MARK, NO_MEMBERS, type PackedRows } from "./packed-rows.ts";

const GROUP_COLUMNS = 5;
/** Longer values name no flag, variant, session or group; they are in the properties all the same. */
const MAX_COLUMN_CHARS = 1000;

/** JSON texts of an event's own properties and of those that were added. */
export interface PropertiesTexts {
  readonly own: string;
  readonly more: string;
  /** Of the text that both are together. */
  readonly length: number;
  /** That text, where it is too long to be a field. */
  readonly long: string | undefined;
}

/** How a value comes into a column: from a row and the texts of its properties. */
type Field = { readonly column: string } & (
  | {
      readonly type: "integer" | "bigint";
      readonly of: (row: EventRow, texts: PropertiesTexts) => number;
    }
  | { readonly type: "uuid"; readonly of: (row: EventRow) => string }
  | { readonly type: "timestamp"; readonly of: (row: EventRow) => Date | null }
  | { readonly type: "varchar"; readonly of: (row: EventRow) => string | null }
  | { readonly type: "properties" }
);

const property = (column: string, name: string): Field => ({
  column,
  type: "varchar",
  of: ({ event }) => columnText(ownValue(event.properties, name)),
});

/** What of a row is packed, in this order. */
export const FIELDS: readonly Field[] = [
  { column: "project_id", type: "integer", of: ({ event }) => event.projectId },
  { column: "position", type: "bigint", of: ({ position }) => position },
  { column: "uuid", type: "uuid", of: ({ event }) => event.uuid },
  { column: "event", type: "varchar", of: ({ event }) => event.event },
  { column: "distinct_id", type: "varchar", of: ({ event }) => event.distinctId },
  { column: "person_id", type: "uuid", of: ({ personId }) => personId },
  { column: "timestamp", type: "timestamp", of: ({ event }) => event.timestamp },
  { column: "client_timestamp", type: "timestamp", of: ({ event }) => event.clientTimestamp },
  { column: "received_at", type: "timestamp", of: ({ event }) => event.receivedAt },
  { column: "properties", type: "properties" },
  { column: "properties_length", type: "integer", of: (_, { length }) => length },
  property("feature_flag", "$feature_flag"),
  property("feature_flag_response", "$feature_flag_response"),
  property("session_id", "$session_id"),
  ...Array.from(
    { length: GROUP_COLUMNS },
    (_, group): Field => ({
      column: `group_${group}`,
      type: "varchar",
      of: ({ groupKeys }) => columnText(groupKeys[group]),
    }),
  ),
  { column: "insert_id", type: "varchar", of: ({ event }) => insertIdOf(event.properties) },
  {
    column: "changed_by",
    type: "varchar",
    of: ({ changedBy }) => (changedBy.length === 0 ? null : JSON.stringify(changedBy)),
  },
];

/** The texts of a row's properties; those at hand are believed. */
export function propertiesTextsOf({ event, propertiesText, added }: EventRow): PropertiesTexts {
  const own = propertiesText ?? encodeJson(event.properties);
  const more = added?.text ?? NO_MEMBERS;
  const length = extendedLength(own, more);
  // As a rule the length alone tells, and nobody puts the two together.
  const text = mayBeLong(length) ? extendJsonText(own, more) : "";
  return { own, more, length, long: isLongText(text) ? text : undefined };
}

/**
 * Packs a row; what of it DuckDB could not take, throws here or there.
 * @returns whether any of its fields is written in hexadecimal digits
 */
export function packRow(packed: PackedRows, row: EventRow, texts: PropertiesTexts): boolean {
  for (const field of FIELDS) packField(packed, field, row, texts);
  return packed.endRow();
}

function packField(packed: PackedRows, field: Field, row: EventRow, texts: PropertiesTexts): void {
  switch (field.type) {
    case "integer":
    case "bigint":
      packed.whole(field.of(row, texts));
      return;
    case "uuid":
      packed.text(readUuid(field.of(row)));
      return;
    case "timestamp": {
      const time = field.of(row);
      if (time === null) packed.absent();
      else packed.whole(time.getTime());
      return;
    }
    case "properties":
      if (texts.long !== undefined) packed.absent();
      else packed.json(texts.own, texts.more);
      return;
    default: {
      const value = field.of(row);
      if (value === null) packed.absent();
      else packed.text(value);
    }
  }
}

const UUID_CHARS = 36;

/** DuckDB reads other forms as well, and says itself where it cannot read one. */
function readUuid(uuid: string): string {
  if (uuid.length !== UUID_CHARS) throw new Error(`not a UUID: ${uuid}`);
  return uuid;
}

/**
 * The row that fields were packed from, each a text as it was written.
 * @param longText the text of its properties, where it is too long to be among them
 */
export function unpackRow(fields: readonly string[], longText: string | undefined): EventRow {
  const text = (column: string) => textOf(fields[PLACES.get(column) ?? -1] ?? "");
  const instant = (column: string) => {
    const ms = text(column);
    return ms === null ? null : new Date(Number(ms));
  };
  const propertiesText = longText ?? text("properties") ?? "{}";
  const properties = parseExactJson(propertiesText);
  const groupKeys = Array.from({ length: GROUP_COLUMNS }, (_, group) => text(`group_${group}`));
  const changedBy = text("changed_by");
  return {
    position: Number(text("position")),
    event: {
      uuid: text("uuid") ?? "",
      projectId: Number(text("project_id")),
      event: text("event") ?? "",
      distinctId: text("distinct_id") ?? "",
      properties: isJsonObject(properties) ? properties : {},
      timestamp: instant("timestamp") ?? new Date(Number.NaN),
      clientTimestamp: instant("client_timestamp"),
      receivedAt: instant("received_at") ?? new Date(Number.NaN),
    },
    personId: text("person_id") ?? "",
    groupKeys: groupKeys.slice(0, 1 + groupKeys.findLastIndex((key) => key !== null)),
    changedBy: changedBy === null ? [] : (JSON.parse(changedBy) as string[]),
    propertiesText,
  };
}

const PLACES = new Map(FIELDS.map(({ column }, index) => [column, index]));

/** Undoes what {@link PackedRows.text} does. */
function textOf(field: string): string | null {
  if (field === "") return null;
  if (field.charCodeAt(0) !== HEX_MARK) return field;
  return Buffer.from(field.slice(1), "hex").toString();
}

/** Longer ids identify nothing. */
const MAX_INSERT_ID_CHARS = 200;

/** An event's `$insert_id`, which two sendings of one event have in common. */
export function insertIdOf(properties: JsonObject): string | null {
  const id = ownValue(properties, "$insert_id");
  if (typeof id === "number" || typeof id === "bigint") return String(id);
  if (typeof id !== "string" || id === "" || id.length > MAX_INSERT_ID_CHARS) return null;
  return id;
}

/** Text as it is, everything else as JSON (a flag's answer may be `true`). */
function columnText(value: Json | undefined): string | null {
  if (value === undefined || value === null) return null;
  const text = typeof value === "string" ? value : encodeJson(value);
  return text.length > MAX_COLUMN_CHARS ? null : text;
}
