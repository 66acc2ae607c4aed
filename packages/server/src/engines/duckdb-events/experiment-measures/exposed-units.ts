import { alternativesOf, type MeasuredEvent } from "@hedgerow/core/experiments/metric";
import { HOLDOUT_PREFIX } from "@hedgerow/core/flags/bucketing";
import { MAX_CELLS, MULTIPLE_VARIANTS } from "../../../experiments/experiment-measures.ts";
import { FLAG_CALLED } from "../../../flags/flag-calls.ts";
import {
  matchEvents,
  type PropertyTexts,
  READABLE_TEXTS,
  readUnreadable,
  withoutQuotes,
} from "./matching.ts";
import { commonConditions, Parameters, type Part, type Reading, unitOf } from "./reading.ts";

/** The events that expose, and with which variant, as parts of statements over `events e`. */
export interface Marker {
  readonly join: string;
  readonly condition: Part;
  readonly variant: Part;
}

/** Cells are numbered by how many units they hold; this is the number of all that are too many. */
export const REST_CELL = -1;

/** The units of an answer. */
export interface Exposed {
  readonly marker: Marker;
  /** Values of the breakdown by the number of the cell; empty without one. */
  readonly cells: readonly (string | null)[];
}

/**
 * Makes the table `exposed`: a row per unit with its number, exposure, variant and the number of its
 * cell, 0 without a breakdown.
 */
export async function createExposed(reading: Reading, breakdown: string | null): Promise<Exposed> {
  const { connection, query } = reading;
  const { marker, texts } = await prepareMarker(reading, breakdown);
  const { unit, merges } = unitOf(query);
  const parameters = new Parameters();
  const variant = marker.variant(parameters);
  const cell =
    breakdown === null
      ? ""
      : `, ${withoutQuotes(texts.textOf(breakdown)(parameters))} as cell_value`;
  const conditions = [
    ...commonConditions(query, parameters),
    `(${marker.condition(parameters)})`,
    `${unit} is not null`,
  ];
  const declared = query.variants.map((key) => parameters.bind(key));
  const holdout = parameters.bind(HOLDOUT_PREFIX);
  const isArm = `variant in (${declared.join() || "null"}) or starts_with(variant, ${holdout})`;
  // The variant that came first; of two at one time the one that was stored first.
  const first = (column: string) => `arg_min(${column}, row(timestamp, position))`;
  const arm =
    query.severalVariants === "exclude"
      ? `case when min(variant) = max(variant) then min(variant) else '${MULTIPLE_VARIANTS}' end`
      : first("variant");
  await connection.run(
    `create temp table exposed as
      select *, row_number() over ()::integer as number, 0::integer as cell
        from (
          select unit, min(timestamp) as exposed_at, ${arm} as variant
              ${breakdown === null ? "" : `, ${first("row(cell_value)")}[1] as cell_value`}
            from (
              select ${unit} as unit, ${variant} as variant, e.timestamp, e.position${cell}
                from events e ${merges} ${marker.join}
                where ${conditions.join(" and ")})
            where ${isArm}
            group by unit)`,
    parameters.values,
  );
  return { marker, cells: breakdown === null ? [] : await numberCells(reading) };
}

async function prepareMarker(
  reading: Reading,
  breakdown: string | null,
): Promise<{ marker: Marker; texts: PropertyTexts }> {
  const { flagKey, marker } = reading.query;
  const events: MeasuredEvent = marker ?? { event: FLAG_CALLED, filters: [] };
  const place = { name: "marker", join: "", lookbackMs: 0 };
  const matching = await matchEvents(reading, [events], place);
  const isMarker = matching.conditionOf(events);
  const isCalled = alternativesOf(events).every(({ event }) => event === FLAG_CALLED);
  const condition: Part = isCalled
    ? (parameters) => `(${isMarker(parameters)}) and e.feature_flag = ${parameters.bind(flagKey)}`
    : isMarker;
  const carried = `$feature/${flagKey}`;
  const properties = [...(isCalled ? [] : [carried]), ...(breakdown === null ? [] : [breakdown])];
  const texts =
    properties.length === 0
      ? READABLE_TEXTS
      : await readUnreadable(reading, properties, {
          ...place,
          name: "marker_texts",
          join: matching.join,
          conditions: [condition],
        });
  const variant: Part = isCalled
    ? () => "e.feature_flag_response"
    : (parameters) => withoutQuotes(texts.textOf(carried)(parameters));
  return {
    marker: { join: `${matching.join} ${texts.join}`, condition, variant },
    texts,
  };
}

/** Gives the units of the most frequent values of the breakdown the number of their cell. */
async function numberCells({ connection, query }: Reading): Promise<readonly (string | null)[]> {
  const parameters = new Parameters();
  const declared = query.variants.map((key) => parameters.bind(key)).join() || "null";
  const result = await connection.runAndReadAll(
    `select cell_value from exposed where variant in (${declared})
      group by cell_value order by count(*) desc, cell_value nulls first limit ${MAX_CELLS}`,
    parameters.values,
  );
  const cells = result.getRows().map(([value]) => value as string | null);
  const values = new Parameters();
  const cases = cells.map((value, index) =>
    value === null
      ? `when cell_value is null then ${index}`
      : `when cell_value = ${values.bind(value)} then ${index}`,
  );
  if (cases.length > 0)
    await connection.run(
      `update exposed set cell = case ${cases.join(" ")} else ${REST_CELL} end`,
      values.values,
    );
  return cells;
}
