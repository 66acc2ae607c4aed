import type { DuckDBConnection } from "@duckdb/node-api";
import { encodeJson, parseExactJson } from "@hedgerow/core/exact-json";
import { alternativesOf, type MeasuredEvent } from "@hedgerow/core/experiments/metric";
import { type JsonObject, ownValue } from "@hedgerow/core/json";
import { createSlices } from "../../../platform/slices.ts";
import { type Candidate, nameConditions, readTexts, runsOf } from "../performers.ts";
import { commonConditions, Parameters, type Part, type Reading } from "./reading.ts";

/** Candidates for matching fetched by one query. */
const CANDIDATES_PER_PAGE = 50_000;
/** Conditions told by one number. */
export const BITS = 30;

/** Where events are looked for: what is joined to them, and how long before the start they count. */
export interface Place {
  readonly name: string;
  readonly join: string;
  readonly lookbackMs: number;
}

/** Events that were looked for, as parts of statements over `events e`. */
export interface Matching {
  /** Joined to the events. */
  readonly join: string;
  /** Whether an event is one of these, which were among those looked for. */
  conditionOf(events: MeasuredEvent): Part;
}

/**
 * Looks for events of several kinds at once. Where properties decide, the events that come into
 * question are read in short runs and matched here, each once for all kinds, and what each of them is
 * becomes a table.
 */
export async function matchEvents(
  { connection, timeUp, query }: Reading,
  kinds: readonly MeasuredEvent[],
  { name, join, lookbackMs }: Place,
): Promise<Matching> {
  const filtersOf = ({ filters }: MeasuredEvent) => [...filters, ...query.everyEvent];
  const filtered = new Map<string, MeasuredEvent>();
  for (const kind of kinds.flatMap(alternativesOf))
    if (filtersOf(kind).length > 0) filtered.set(identify(kind), kind);
  const conditions = [...filtered.values()].map((kind, index) => ({
    kind,
    column: Math.floor(index / BITS),
    bit: 1 << (index % BITS),
    condition: query.conditionOf(filtersOf(kind)),
  }));
  const conditionOfOne = (kind: MeasuredEvent, parameters: Parameters): string => {
    const filter = conditions[[...filtered.keys()].indexOf(identify(kind))];
    const parts = [...namedBy(kind, parameters)];
    if (filter) parts.push(`(coalesce(${name}.is_${filter.column}, 0) & ${filter.bit}) <> 0`);
    return parts.join(" and ") || "true";
  };
  const conditionOf = (kind: MeasuredEvent): Part => {
    const kindsOfIt = alternativesOf(kind);
    return (parameters) =>
      kindsOfIt.map((one) => `(${conditionOfOne(one, parameters)})`).join(" or ");
  };
  if (conditions.length === 0) return { join: "", conditionOf };

  const columns = Array.from({ length: Math.ceil(conditions.length / BITS) }, (_, index) => index);
  const parameters = new Parameters();
  const common = commonConditions(query, parameters, lookbackMs);
  const wanted = columns.map((column) => {
    const bits = conditions
      .filter((one) => one.column === column)
      .map(({ kind, condition, bit }) => {
        const parts = namedBy(kind, parameters);
        parts.push(...nameConditions(condition, (text) => parameters.bind(text)));
        return `case when ${parts.join(" and ") || "true"} then ${bit} else 0 end`;
      });
    return `(${bits.join(" + ")})::integer as wanted_${column}`;
  });
  const isWanted = columns.map((column) => `wanted_${column} <> 0`).join(" or ");
  await connection.run(
    `create temp table ${name}_candidates as select * from (
      select e.position, e.properties_length, ${wanted.join()} from events e ${join}
        where ${common.join(" and ")}) where ${isWanted}`,
    parameters.values,
  );
  const integers = columns.map((column) => `is_${column} integer not null`);
  await connection.run(`create temp table ${name} (position bigint not null, ${integers.join()})`);
  const wantedColumns = columns.map((column) => `wanted_${column}`);
  const appender = await connection.createAppender(name, "main", "temp");
  try {
    for await (const { position, text, more } of textsOf(
      { connection, timeUp },
      `${name}_candidates`,
      wantedColumns,
    )) {
      const properties = parseExactJson(text) as JsonObject;
      const found = columns.map(() => 0);
      for (const { column, bit, condition } of conditions)
        if (((more[column] ?? 0) & bit) !== 0 && condition.matches(properties))
          found[column] = (found[column] ?? 0) | bit;
      if (found.every((bits) => bits === 0)) continue;
      appender.appendBigInt(BigInt(position));
      for (const bits of found) appender.appendInteger(bits);
      appender.endRow();
    }
    appender.flushSync();
  } finally {
    appender.closeSync();
  }
  await connection.run(`drop table ${name}_candidates`);
  return { join: `left join ${name} on ${name}.position = e.position`, conditionOf };
}

/** Tells kinds of events apart. */
export function identify(value: unknown): string {
  return JSON.stringify(value, (_, one: unknown) =>
    typeof one === "bigint" ? { digits: String(one) } : one,
  );
}

function namedBy({ event }: MeasuredEvent, parameters: Parameters): string[] {
  return event === null ? [] : [`e.event = ${parameters.bind(event)}`];
}

/** Whether DuckDB does not read an event's text as JSON: long ones, kept elsewhere, and halves of characters. */
export const UNREADABLE = "(e.properties is null or contains(e.properties, '\\ud'))";

/** Properties of events as JSON; `null` for none. */
export interface PropertyTexts {
  /** Joined to the events. */
  readonly join: string;
  textOf(property: string): Part;
}

/** Properties of events as DuckDB reads them: `null` where it cannot. */
export const READABLE_TEXTS: PropertyTexts = {
  join: "",
  textOf: (property) => (parameters) => {
    const pointer = pointerTo(property, parameters);
    return `case when ${UNREADABLE} then null else ${readText(pointer)} end`;
  },
};

/** Reads what DuckDB does not read, of the events that `conditions` tell. */
export async function readUnreadable(
  { connection, timeUp, query }: Reading,
  properties: readonly string[],
  { name, join, lookbackMs, conditions }: Place & { readonly conditions: readonly Part[] },
): Promise<PropertyTexts> {
  const parameters = new Parameters();
  const all = [
    ...commonConditions(query, parameters, lookbackMs),
    UNREADABLE,
    ...conditions.map((condition) => `(${condition(parameters)})`),
  ];
  await connection.run(
    `create temp table ${name}_unread as select e.position, e.properties_length
      from events e ${join} where ${all.join(" and ")}`,
    parameters.values,
  );
  const columns = properties.map((_, index) => `text_${index} varchar`);
  await connection.run(`create temp table ${name} (position bigint not null, ${columns.join()})`);
  const appender = await connection.createAppender(name, "main", "temp");
  try {
    for await (const { position, text } of textsOf({ connection, timeUp }, `${name}_unread`, [])) {
      const values = parseExactJson(text) as JsonObject;
      const found = properties.map((property) => ownValue(values, property));
      if (found.every((value) => value === undefined || value === null)) continue;
      appender.appendBigInt(BigInt(position));
      for (const value of found) {
        if (value === undefined || value === null) appender.appendNull();
        else appender.appendVarchar(encodeJson(typeof value === "string" ? whole(value) : value));
      }
      appender.endRow();
    }
    appender.flushSync();
  } finally {
    appender.closeSync();
  }
  return {
    join: `left join ${name} on ${name}.position = e.position`,
    textOf: (property) => (statement) => {
      const pointer = pointerTo(property, statement);
      const read = `${name}.text_${properties.indexOf(property)}`;
      return `case when ${UNREADABLE} then ${read} else ${readText(pointer)} end`;
    },
  };
}

/** A text without halves of characters, which DuckDB does not read. */
function whole(text: string): string {
  return Buffer.from(text).toString();
}

function pointerTo(property: string, parameters: Parameters): string {
  return parameters.bind(`/${property.replaceAll("~", "~0").replaceAll("/", "~1")}`);
}

function readText(pointer: string): string {
  return `nullif(json_extract(e.properties, ${pointer})::varchar, 'null')`;
}

/** A value as text: texts as they are, other values as JSON. */
export function withoutQuotes(json: string): string {
  return `(case when starts_with(${json}, '"') then json_extract_string(${json}, '$') else ${json} end)`;
}

/** An event to look at. */
interface Look {
  readonly position: number;
  readonly text: string;
  /** Of the further columns that were asked for. */
  readonly more: readonly number[];
}

/** Properties of the events in a table, as texts, with room for other work in between. */
async function* textsOf(
  { connection, timeUp }: Pick<Reading, "connection" | "timeUp">,
  table: string,
  columns: readonly string[],
): AsyncGenerator<Look> {
  let last = -1;
  const slices = createSlices();
  for (;;) {
    const page = await readPage(connection, table, columns, last);
    if (page.length === 0) return;
    const more = new Map(page.map(([position, , , ...values]) => [position, values]));
    for (const run of runsOf(page as unknown as readonly Candidate[])) {
      const texts = await readTexts(
        connection,
        run.map(([position]) => position),
      );
      for (const [position] of run) {
        if (slices.isOver()) {
          await slices.next();
          timeUp();
        }
        last = position;
        const text = texts.get(position);
        if (text !== undefined) yield { position, text, more: more.get(position) ?? [] };
      }
    }
  }
}

type PageRow = readonly [position: number, name: string, length: number, ...more: number[]];

async function readPage(
  connection: DuckDBConnection,
  table: string,
  columns: readonly string[],
  after: number,
): Promise<readonly PageRow[]> {
  const result = await connection.runAndReadAll(
    `select ${["position::double", "''", "properties_length", ...columns].join()} from ${table}
      where position > ${after} order by position limit ${CANDIDATES_PER_PAGE}`,
  );
  return result.getRows() as unknown as readonly PageRow[];
}
