import { setImmediate as nextTurn } from "node:timers/promises";
import type { DuckDBConnection, DuckDBValue } from "@duckdb/node-api";
import { parseExactJson } from "@hedgerow/core/exact-json";
import type { JsonObject } from "@hedgerow/core/json";
import type { PropertyCondition } from "../../events/event-store.ts";
import type { Moment, Performer, PerformersQuery } from "../../events/performers.ts";
import { createSlices } from "../../platform/slices.ts";
import { timestampOf } from "./duckdb-values.ts";
import { readLongTexts } from "./long-texts.ts";
import { MERGES, PERSON } from "./person-merges.ts";

/** Positions counted by one query. */
const COUNTED_POSITIONS = 200_000;
/** Positions of which properties are looked at by one query. */
const SEARCHED_POSITIONS = 20_000;
/** Doings told one by one that are read by one query, and of which properties are looked at. */
const READ_MOMENTS = 50_000;
const SEARCHED_MOMENTS = 20_000;
/** Persons told at a time: whoever takes them in needs some milliseconds. */
const RUN_PERSONS = 2_000;
/** Texts held at a time. */
const RUN_EVENTS = 5000;
const RUN_CHARS = 4 * 1024 * 1024;

/** Runs queries on a connection of their own; `timeUp` throws when they have taken too long. */
type Read = <Result>(
  use: (connection: DuckDBConnection, timeUp: () => void) => Promise<Result>,
) => Promise<Result>;

/**
 * Persons who did something, with how often: see `PerformerSource`. The events are taken in stretches
 * of positions, as they lie in the file, so that each query reads a small part of it.
 */
export async function* findPerformers(
  read: Read,
  query: PerformersQuery,
): AsyncGenerator<readonly Performer[]> {
  const { properties } = query;
  const bounds = await read((connection) => readBounds(connection, query));
  if (bounds === undefined) return;
  const step = properties ? SEARCHED_POSITIONS : COUNTED_POSITIONS;
  for (let from = bounds.first; from <= bounds.last; from += step) {
    const stretch = { from, to: from + step - 1 };
    const found = await read((connection, timeUp) =>
      properties
        ? searchStretch(connection, query, { ...stretch, properties, timeUp })
        : countStretch(connection, query, { ...stretch, timeUp }),
    );
    for (let at = 0; at < found.length; at += RUN_PERSONS) {
      yield found.slice(at, at + RUN_PERSONS);
    }
  }
}

/**
 * Doings from the earliest on: see `PerformerSource`. They are taken in stretches of time of about as
 * many events each; whatever has one and the same time is in one stretch.
 */
export async function* findMoments(
  read: Read,
  query: PerformersQuery,
): AsyncGenerator<readonly Moment[]> {
  const { properties } = query;
  const bounds = await read((connection) => readTimes(connection, query));
  let after: number | null = null;
  for (const upTo of bounds) {
    const stretch: TimeStretch = { after, upTo };
    const found: readonly Moment[] = await read((connection, timeUp) =>
      properties
        ? searchMoments(connection, query, { ...stretch, properties, timeUp })
        : readMoments(connection, query, { ...stretch, timeUp }),
    );
    for (let at = 0; at < found.length; at += RUN_PERSONS) {
      yield found.slice(at, at + RUN_PERSONS);
    }
    after = upTo;
  }
}

/** Microseconds since the epoch, as events have them; `after` is exclusive. */
interface TimeStretch {
  readonly after: number | null;
  readonly upTo: number;
}

/** Where the stretches of time end; none where there are no events. */
async function readTimes(
  connection: DuckDBConnection,
  query: PerformersQuery,
): Promise<readonly number[]> {
  const values: DuckDBValue[] = [];
  const from = `from events e where ${conditionsOf(query, values).join(" and ")}`;
  const counted = await connection.runAndReadAll(
    `select count(*)::double, max(epoch_us(e.timestamp))::double ${from}`,
    values,
  );
  const [count, last] = counted.getRows()[0] as [number, number | null];
  if (last === null) return [];
  const stretches = Math.ceil(count / (query.properties ? SEARCHED_MOMENTS : READ_MOMENTS));
  if (stretches === 1) return [last];
  const parts = Array.from({ length: stretches - 1 }, (_, at) => (at + 1) / stretches);
  const split = await connection.runAndReadAll(
    `select unnest(approx_quantile(epoch_us(e.timestamp), [${parts.join()}]))::double ${from}`,
    values,
  );
  // About where they should be: in order, each once, and the last where the last event is.
  const ends = new Set((split.getRows() as [number][]).map(([end]) => Math.min(end, last)));
  return [...ends.add(last)].sort((a, b) => a - b);
}

function timeConditions({ after, upTo }: TimeStretch): readonly string[] {
  const conditions = [`e.timestamp <= make_timestamp(${upTo}::bigint)`];
  if (after !== null) conditions.push(`e.timestamp > make_timestamp(${after}::bigint)`);
  return conditions;
}

async function readMoments(
  connection: DuckDBConnection,
  query: PerformersQuery,
  { timeUp, ...stretch }: TimeStretch & { readonly timeUp: () => void },
): Promise<readonly Moment[]> {
  const values: DuckDBValue[] = [];
  const conditions = [...conditionsOf(query, values), ...timeConditions(stretch)];
  const found: Moment[] = [];
  const rows = readRows<readonly [string, number]>(
    connection,
    `select ${PERSON}::varchar, epoch_us(e.timestamp)::double
      from events e ${MERGES} where ${conditions.join(" and ")}
      order by e.timestamp, e.position`,
    values,
    timeUp,
  );
  for await (const some of rows) {
    for (const [personId, atUs] of some) found.push({ personId, atMs: atUs / 1000 });
  }
  return found;
}

async function searchMoments(
  connection: DuckDBConnection,
  query: PerformersQuery,
  {
    properties,
    timeUp,
    ...stretch
  }: TimeStretch & { readonly properties: PropertyCondition; readonly timeUp: () => void },
): Promise<readonly Moment[]> {
  const values: DuckDBValue[] = [];
  const conditions = [
    ...conditionsOf(query, values),
    ...timeConditions(stretch),
    ...nameConditions(properties, binding(values)),
  ];
  const candidates: (readonly [...candidate: Candidate, atUs: number])[] = [];
  const rows = readRows<(typeof candidates)[number]>(
    connection,
    `select e.position::double, ${PERSON}::varchar, e.properties_length,
        epoch_us(e.timestamp)::double
      from events e ${MERGES} where ${conditions.join(" and ")}
      order by e.timestamp, e.position`,
    values,
    timeUp,
  );
  for await (const some of rows) candidates.push(...some);
  const found: Moment[] = [];
  for await (const [, personId, , atUs] of matching(connection, candidates, {
    properties,
    timeUp,
  })) {
    found.push({ personId, atMs: atUs / 1000 });
  }
  return found;
}

interface Stretch {
  readonly from: number;
  readonly to: number;
}

async function readBounds(connection: DuckDBConnection, query: PerformersQuery) {
  const values: DuckDBValue[] = [];
  const result = await connection.runAndReadAll(
    `select min(e.position)::double, max(e.position)::double from events e
      where ${conditionsOf(query, values).join(" and ")}`,
    values,
  );
  const [first, last] = result.getRows()[0] as [number | null, number | null];
  return first === null || last === null ? undefined : { first, last };
}

async function countStretch(
  connection: DuckDBConnection,
  query: PerformersQuery,
  { from, to, timeUp }: Stretch & { readonly timeUp: () => void },
): Promise<readonly Performer[]> {
  const values: DuckDBValue[] = [];
  const conditions = conditionsOf(query, values);
  const found: Performer[] = [];
  const rows = readRows<readonly [string, number]>(
    connection,
    `select person::varchar, times::double from (
      select ${PERSON} as person, count(*) as times
        from events e ${MERGES}
        where e.position between ${from} and ${to} and ${conditions.join(" and ")}
        group by 1)`,
    values,
    timeUp,
  );
  for await (const some of rows) {
    for (const [personId, times] of some) found.push({ personId, times });
  }
  return found;
}

/** Rows as they come, some thousand at a time, with room for other work between them. */
async function* readRows<Row>(
  connection: DuckDBConnection,
  text: string,
  values: DuckDBValue[],
  timeUp: () => void,
): AsyncGenerator<readonly Row[]> {
  const result = await connection.stream(text, values);
  for await (const rows of result.yieldRows()) {
    yield rows as unknown as readonly Row[];
    await nextTurn();
    timeUp();
  }
}

/** The same where properties decide: these are read in short runs, and matched here. */
async function searchStretch(
  connection: DuckDBConnection,
  query: PerformersQuery,
  {
    from,
    to,
    properties,
    timeUp,
  }: Stretch & { readonly properties: PropertyCondition; readonly timeUp: () => void },
): Promise<readonly Performer[]> {
  const values: DuckDBValue[] = [];
  const conditions = [
    ...conditionsOf(query, values),
    ...nameConditions(properties, binding(values)),
  ];
  const candidates: Candidate[] = [];
  const rows = readRows<Candidate>(
    connection,
    `select e.position::double, ${PERSON}::varchar, e.properties_length
      from events e ${MERGES}
      where e.position between ${from} and ${to} and ${conditions.join(" and ")}`,
    values,
    timeUp,
  );
  for await (const some of rows) candidates.push(...some);
  const timesOf = new Map<string, number>();
  for await (const [, personId] of matching(connection, candidates, { properties, timeUp })) {
    timesOf.set(personId, (timesOf.get(personId) ?? 0) + 1);
  }
  return [...timesOf].map(([personId, times]) => ({ personId, times }));
}

/** Of texts that lack a name that is asked for nothing has to be read. */
export function nameConditions(
  { requiredNames }: PropertyCondition,
  bind: (value: string) => string,
): readonly string[] {
  return requiredNames.map(
    // Texts are written by JSON.stringify; long ones are kept elsewhere, and all looked at.
    (name) =>
      `(e.properties is null or contains(e.properties, ${bind(`${JSON.stringify(name)}:`)}))`,
  );
}

/** Those of some candidates whose properties match, in their order. */
async function* matching<Some extends readonly [...candidate: Candidate, ...more: unknown[]]>(
  connection: DuckDBConnection,
  candidates: readonly Some[],
  { properties, timeUp }: { readonly properties: PropertyCondition; readonly timeUp: () => void },
): AsyncGenerator<Some> {
  const slices = createSlices();
  for (const run of runsOf(candidates)) {
    const texts = await readTexts(
      connection,
      run.map(([position]) => position),
    );
    for (const candidate of run) {
      if (slices.isOver()) {
        await slices.next();
        timeUp();
      }
      const text = texts.get(candidate[0]);
      // What is gone was deleted a moment ago.
      if (text === undefined || !properties.matches(parseExactJson(text) as JsonObject)) continue;
      yield candidate;
    }
  }
}

/** An event to look at: its person, and the length of its properties in UTF-16 units. */
export type Candidate = readonly [position: number, personId: string, length: number];

/** Candidates in runs of bounded size. */
export function* runsOf<Some extends readonly [...candidate: Candidate, ...more: unknown[]]>(
  candidates: readonly Some[],
) {
  let run: Some[] = [];
  let chars = 0;
  for (const candidate of candidates) {
    const length = candidate[2];
    if (run.length > 0 && (run.length === RUN_EVENTS || chars + length > RUN_CHARS)) {
      yield run;
      run = [];
      chars = 0;
    }
    run.push(candidate);
    chars += length;
  }
  if (run.length > 0) yield run;
}

/** Properties of the events at some positions, as texts. */
export async function readTexts(
  connection: DuckDBConnection,
  positions: readonly number[],
): Promise<ReadonlyMap<number, string>> {
  const result = await connection.runAndReadAll(
    `select position::double, properties from events
      where position between ${Math.min(...positions)} and ${Math.max(...positions)}
        and position in (${positions.join()})`,
  );
  const rows = result.getRows() as [number, string | null][];
  const long = await readLongTexts(
    connection,
    "event_texts",
    rows.flatMap(([position, text]) => (text === null ? [position] : [])),
  );
  return new Map(rows.map(([position, text]) => [position, text ?? long.get(position) ?? "{}"]));
}

function conditionsOf(query: PerformersQuery, values: DuckDBValue[]): string[] {
  const bind = binding(values);
  const conditions = [`e.project_id = ${bind(query.projectId)}`, `e.event = ${bind(query.event)}`];
  if (query.after) conditions.push(`e.timestamp > ${bind(timestampOf(query.after))}`);
  if (query.before) conditions.push(`e.timestamp < ${bind(timestampOf(query.before))}`);
  return conditions;
}

/** Adds values to the parameters of a statement. */
function binding(values: DuckDBValue[]): (value: DuckDBValue) => string {
  return (value) => `$${values.push(value)}`;
}
