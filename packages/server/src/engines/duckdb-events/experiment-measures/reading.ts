import type { DuckDBConnection, DuckDBValue } from "@duckdb/node-api";
import type { ExposureQuery } from "../../../experiments/experiment-measures.ts";
import { timestampOf, uuidValueOf } from "../duckdb-values.ts";
import { MERGES, PERSON } from "../person-merges.ts";

/** A connection whose temporary tables are an answer's, and what is asked of it. */
export interface Reading {
  readonly connection: DuckDBConnection;
  /** Throws when the answer has taken too long. */
  readonly timeUp: () => void;
  readonly query: ExposureQuery;
}

/** The parameters of one statement. */
export class Parameters {
  readonly values: DuckDBValue[] = [];

  bind(value: DuckDBValue): string {
    return `$${this.values.push(value)}`;
  }
}

/** Gives its part of a statement, whose values it adds to the parameters. */
export type Part = (parameters: Parameters) => string;

/** The unit of an event, and what is joined to tell it. */
export function unitOf({ groupTypeIndex }: ExposureQuery): { unit: string; merges: string } {
  if (groupTypeIndex !== null) return { unit: `e.group_${groupTypeIndex}`, merges: "" };
  return { unit: PERSON, merges: MERGES };
}

/** All that events of an answer have in common; those before the start by `lookbackMs` as well. */
export function commonConditions(
  { projectId, from, to, exceptPersons }: ExposureQuery,
  parameters: Parameters,
  lookbackMs = 0,
): string[] {
  const earliest = new Date(from.getTime() - lookbackMs);
  return [
    `e.project_id = ${parameters.bind(projectId)}`,
    `e.timestamp >= ${parameters.bind(timestampOf(earliest))}`,
    `e.timestamp < ${parameters.bind(timestampOf(to))}`,
    ...(exceptPersons.length === 0
      ? []
      : ["e.person_id not in (select person_id from excepted_persons)"]),
  ];
}

/** Makes the table of persons whose events do not count, with those that were merged into them. */
export async function createExceptedPersons({ connection, query }: Reading): Promise<void> {
  if (query.exceptPersons.length === 0) return;
  await connection.run("create temp table excepted_persons (person_id uuid not null)");
  const appender = await connection.createAppender("excepted_persons", "main", "temp");
  for (const uuid of query.exceptPersons) {
    appender.appendUUID(uuidValueOf(uuid));
    appender.endRow();
  }
  appender.closeSync();
  // Whoever was merged into another person is that one now.
  await connection.run(
    `delete from excepted_persons
      where person_id in (select from_id from person_merges where project_id = $1)`,
    [query.projectId],
  );
  await connection.run(
    `insert into excepted_persons select from_id from person_merges
      where project_id = $1 and into_id in (select person_id from excepted_persons)`,
    [query.projectId],
  );
}

/** Joins the unit's exposure to events, of which those earlier by more than `lookbackMs` do not count. */
export function exposedJoin(query: ExposureQuery, lookbackMs = 0): string {
  const { unit, merges } = unitOf(query);
  return `${merges} join exposed x
    on x.unit = ${unit} and e.timestamp >= ${shifted("x.exposed_at", -lookbackMs)}`;
}

/** A timestamp some milliseconds later. */
export function shifted(timestamp: string, byMs: number): string {
  return byMs === 0 ? timestamp : `(${timestamp} + to_microseconds(${BigInt(byMs) * 1000n}))`;
}

/** Whether a unit is of a declared variant. */
export function declaredArms({ variants }: ExposureQuery, parameters: Parameters): string {
  const declared = variants.map((variant) => parameters.bind(variant));
  return `x.variant in (${declared.join() || "null"})`;
}

/** Makes the table `calendar` of the query's days, by number, where it is not there. */
export async function createCalendar({ connection, query }: Reading): Promise<void> {
  await connection.run(
    "create temp table if not exists calendar (begins timestamp not null, day integer not null)",
  );
  const known = await connection.runAndReadAll("select count(*)::double from calendar");
  if (known.getRows()[0]?.[0] !== 0) return;
  const appender = await connection.createAppender("calendar", "main", "temp");
  for (const [day, { from }] of query.days.entries()) {
    appender.appendTimestamp(timestampOf(from));
    appender.appendInteger(day);
    appender.endRow();
  }
  appender.closeSync();
}
