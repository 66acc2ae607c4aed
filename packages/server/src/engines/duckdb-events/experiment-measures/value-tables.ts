import {
  type CountedEvents,
  conditionOf,
  countEvents,
  namesOf,
  propertiesOf,
  propertyOf,
  type Scan,
  type Value,
} from "./counted-events.ts";
import {
  identify,
  matchEvents,
  READABLE_TEXTS,
  readUnreadable,
  withoutQuotes,
} from "./matching.ts";
import { declaredArms, exposedJoin, Parameters, type Part, type Reading } from "./reading.ts";

/** A value and the number of its column. */
interface Column extends Value {
  readonly index: number;
}

/** The scans when they are done: tables of numbers of units, and what was found odd, by column. */
export interface DoneScan extends Scan {
  readonly tables: readonly { readonly name: string; readonly columns: readonly number[] }[];
  readonly notNumbers: readonly number[];
  readonly textNumbers: readonly number[];
}

/**
 * Makes tables with the numbers of each exposed unit that has any events, one for each kind of event:
 * what is read of one kind is not read of the others.
 */
export async function scanEvents(
  reading: Reading,
  values: readonly Value[],
  lookbackMs: number,
): Promise<DoneScan> {
  const join = exposedJoin(reading.query, lookbackMs);
  const matching = await matchEvents(
    reading,
    values.map(({ source }) => source.events),
    { name: "measured", join, lookbackMs },
  );
  const groups = new Map<string, Column[]>();
  for (const [index, value] of values.entries()) {
    const kind = identify(namesOf([value]));
    groups.set(kind, [...(groups.get(kind) ?? []), { ...value, index }]);
  }
  const tables: { name: string; columns: number[] }[] = [];
  const notNumbers = values.map(() => 0);
  const textNumbers = values.map(() => 0);
  let texts = READABLE_TEXTS;
  for (const columns of groups.values()) {
    const name = `unit_values_${tables.length}`;
    const scan = { lookbackMs, matching };
    let odd = await createUnitValues(reading, name, columns, { ...scan, texts });
    if (odd.unread > 0 && texts === READABLE_TEXTS) {
      const measuring = values.filter((value) => propertyOf(value) !== undefined);
      const isMeasured: Part = (parameters) =>
        measuring.map((value) => conditionOf(value, scan, parameters)).join(" or ");
      texts = await readUnreadable(reading, propertiesOf(values), {
        name: "measured_texts",
        join: `${join} ${matching.join}`,
        lookbackMs,
        conditions: [isMeasured],
      });
      await reading.connection.run(`drop table ${name}`);
      odd = await createUnitValues(reading, name, columns, { ...scan, texts });
    }
    for (const { index } of columns) {
      notNumbers[index] = odd.notNumbers.get(index) ?? 0;
      textNumbers[index] = odd.textNumbers.get(index) ?? 0;
    }
    tables.push({ name, columns: columns.map(({ index }) => index) });
  }
  return { lookbackMs, matching, texts, tables, notNumbers, textNumbers };
}

/** Makes a table of numbers of units; tells what was odd, by column. */
async function createUnitValues(
  reading: Reading,
  table: string,
  columns: readonly Column[],
  scan: Scan,
) {
  const parameters = new Parameters();
  const counted = countEvents(reading, columns, scan, parameters);
  const aggregates = columns.map(
    (column) => `${aggregateOf(column, counted)} as value_${column.index}`,
  );
  const oddities = new Map<string, string>();
  const oddOf = (column: Column): { notNumber: string; textNumber: string } | null => {
    const { text, number } = counted.placeOf(column);
    if (text === null || column.source.measure.kind === "unique-values") return null;
    const isNumber = `coalesce(isfinite(${number}), false)`;
    const count = (condition: string) => {
      const aggregate = `count(*) ${counted.filterOf(column, condition)}`;
      const name = oddities.get(aggregate) ?? `odd_${oddities.size}`;
      oddities.set(aggregate, name);
      return name;
    };
    return {
      notNumber: count(`${text} is not null and not ${isNumber}`),
      textNumber: count(`starts_with(${text}, '"') and ${isNumber}`),
    };
  };
  const odd = columns.map((column) => ({ index: column.index, names: oddOf(column) }));
  const hasTexts = propertiesOf(columns).length > 0 && scan.texts === READABLE_TEXTS;
  if (hasTexts) oddities.set("count(*) filter (is_unread)", "unread");
  for (const [aggregate, name] of oddities) aggregates.push(`${aggregate} as ${name}`);
  await reading.connection.run(
    `create temp table ${table} as
      select number, ${aggregates.join(", ")} from (${counted.statement}) group by number`,
    parameters.values,
  );
  const names = [...oddities.values()];
  const totals = new Map<string, number>();
  if (names.length > 0) {
    const result = await reading.connection.runAndReadAll(
      `select ${names.map((name) => `coalesce(sum(${name}), 0)::double`).join()} from ${table}`,
    );
    const row = (result.getRows()[0] ?? []) as readonly number[];
    for (const [place, name] of names.entries()) totals.set(name, row[place] ?? 0);
  }
  const told = (which: "notNumber" | "textNumber") =>
    new Map(odd.map(({ index, names: own }) => [index, own ? (totals.get(own[which]) ?? 0) : 0]));
  return {
    unread: totals.get("unread") ?? 0,
    notNumbers: told("notNumber"),
    textNumbers: told("textNumber"),
  };
}

function aggregateOf(value: Value, counted: CountedEvents): string {
  const { text, number } = counted.placeOf(value);
  const all = counted.filterOf(value);
  const finite = counted.filterOf(value, `isfinite(${number})`);
  const { kind } = value.source.measure;
  switch (kind) {
    case "total":
      return `(count(*) ${all})::double`;
    case "active":
      return `least(count(*) ${all}, 1)::double`;
    case "unique-sessions":
      return `(count(distinct session_id) ${all})::double`;
    case "unique-values":
      return `(count(distinct ${withoutQuotes(text ?? "null")}) ${all})::double`;
    case "sum":
      return `fsum(${number}) ${finite}`;
    case "avg":
      return `favg(${number}) ${finite}`;
    case "min":
    case "max":
      return `${kind}(${number}) ${finite}`;
  }
}

/** The units of declared variants with their values, zero for those without events. */
export function unitsWith(
  { query }: Reading,
  { tables }: DoneScan,
  columns: readonly number[],
  parameters: Parameters,
): string {
  const needed = new Set(columns);
  const joins: string[] = [];
  const values: string[] = [];
  for (const { name, columns: own } of tables) {
    const wanted = own.filter((column) => needed.has(column));
    if (wanted.length === 0) continue;
    joins.push(`left join ${name} on ${name}.number = x.number`);
    for (const column of wanted)
      values.push(`, coalesce(${name}.value_${column}, 0) as value_${column}`);
  }
  return `select x.number, x.variant, x.cell, x.exposed_at${values.join("")}
    from exposed x ${joins.join(" ")} where ${declaredArms(query, parameters)}`;
}
