import { alternativesOf, type MeasureSource } from "@hedgerow/core/experiments/metric";
import {
  identify,
  type Matching,
  type PropertyTexts,
  UNREADABLE,
  withoutQuotes,
} from "./matching.ts";
import {
  commonConditions,
  declaredArms,
  exposedJoin,
  type Parameters,
  type Reading,
  shifted,
} from "./reading.ts";

/** A number of each unit. */
export interface Value {
  readonly source: MeasureSource;
  readonly windowMs: number | null;
  /** Whether it is of the time before the exposure. */
  readonly isCovariate: boolean;
}

/** What scans of the events have in common. */
export interface Scan {
  readonly lookbackMs: number;
  readonly matching: Matching;
  readonly texts: PropertyTexts;
}

/** The names of the events that count for any value; `null` where all do. */
export function namesOf(values: readonly Value[]): readonly string[] | null {
  const all = values.flatMap(({ source }) => alternativesOf(source.events));
  const names = new Set<string>();
  for (const { event } of all) {
    if (event === null) return null;
    names.add(event);
  }
  return [...names].sort();
}

export function propertyOf({ source }: Value): string | undefined {
  return "property" in source.measure ? source.measure.property : undefined;
}

export function propertiesOf(values: readonly Value[]): readonly string[] {
  return [...new Set(values.flatMap((value) => propertyOf(value) ?? []))];
}

/** Whether an event `e` of an exposed unit `x` counts for a value. */
export function conditionOf(
  { source, windowMs, isCovariate }: Value,
  { matching, lookbackMs }: Pick<Scan, "matching" | "lookbackMs">,
  parameters: Parameters,
): string {
  const parts = [`(${matching.conditionOf(source.events)(parameters)})`];
  if (isCovariate) parts.push("e.timestamp < x.exposed_at");
  else if (lookbackMs > 0) parts.push("e.timestamp >= x.exposed_at");
  if (windowMs !== null) parts.push(`e.timestamp < ${shifted("x.exposed_at", windowMs)}`);
  return `(${parts.join(" and ")})`;
}

/** Events that count for some values: a statement, and how its columns are named. */
export interface CountedEvents {
  /** Gives `number`, `timestamp`, `position`, `session_id` and what is named below. */
  readonly statement: string;
  /** Where the property of a value stands, as JSON and as a number; `null` where it has none. */
  placeOf(value: Value): { readonly text: string | null; readonly number: string | null };
  /** Whether an event counts for a value. */
  isCounted(value: Value): string;
  /** Keeps to the events that count for a value, and meet a condition. */
  filterOf(value: Value, condition?: string): string;
}

export function countEvents(
  { query }: Reading,
  values: readonly Value[],
  scan: Scan,
  parameters: Parameters,
): CountedEvents {
  const { lookbackMs, matching, texts } = scan;
  const where = [
    ...commonConditions(query, parameters, lookbackMs),
    declaredArms(query, parameters),
  ];
  const names = namesOf(values);
  if (names !== null) {
    const listed = names.map((name) => parameters.bind(name));
    where.push(`e.event in (${listed.join()})`);
  }
  // Values of the same events share a condition; a single one need not be told of each event.
  const kindOf = ({ source, ...rest }: Value) =>
    identify([source.events, rest.windowMs, rest.isCovariate]);
  const kinds = [...new Set(values.map(kindOf))];
  const conditions = kinds.map((kind) => {
    const value = values.find((one) => kindOf(one) === kind);
    return value ? conditionOf(value, scan, parameters) : "false";
  });
  const isOne = conditions.length === 1;
  if (isOne) where.push(...conditions);
  const flags = isOne
    ? []
    : conditions.map((condition, kind) => `, ${condition} as counts_${kind}`);
  const countsFor = (value: Value) => (isOne ? null : `counts_${kinds.indexOf(kindOf(value))}`);
  const properties = propertiesOf(values);
  const isRead = (property: string) => {
    const owners = values.filter((value) => propertyOf(value) === property).map(countsFor);
    return owners.includes(null) ? "true" : `(${[...new Set(owners)].join(" or ")})`;
  };
  const read = properties.map((property, place) => {
    const text = texts.textOf(property)(parameters);
    return `, case when ${isRead(property)} then ${text} end as text_${place}`;
  });
  if (properties.length > 0) {
    const any = properties.map(isRead).join(" or ");
    read.push(`, (${any}) and ${UNREADABLE} as is_unread`);
  }
  // Texts like `inf` are numbers to DuckDB, and none that anything can be computed from.
  const numbers = properties.map(
    (_, place) => `, try_cast(${withoutQuotes(`text_${place}`)} as double) as number_${place}`,
  );
  const any = isOne ? "true" : conditions.map((_, kind) => `counts_${kind}`).join(" or ");
  const statement = `select *${numbers.join("")} from (
    select e.* exclude (properties)${read.join("")} from (
      select x.number, e.timestamp, e.position, e.session_id, e.properties${flags.join("")}
        from events e ${exposedJoin(query, lookbackMs)} ${matching.join}
        where ${where.join(" and ")}) e ${texts.join}
      where ${any})`;
  return {
    statement,
    placeOf(value) {
      const property = propertyOf(value);
      if (property === undefined) return { text: null, number: null };
      const place = properties.indexOf(property);
      return { text: `text_${place}`, number: `number_${place}` };
    },
    isCounted: (value) => countsFor(value) ?? "true",
    filterOf(value, condition) {
      const parts = [countsFor(value), condition].filter((part) => typeof part === "string");
      return parts.length === 0 ? "" : `filter (${parts.join(" and ")})`;
    },
  };
}
