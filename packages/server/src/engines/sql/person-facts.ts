import { cleanText } from "@hedgerow/core/events/clean-json";
import type { StoredPersonFacts } from "@hedgerow/core/flags/evaluation-request";
import type { JsonObject } from "@hedgerow/core/json";
import { type Kysely, type RawBuilder, sql } from "kysely";
import type { FactsQuery } from "../../persons/person-store.ts";
import { decodeInstant, decodeJson } from "./codec.ts";
import { type Bind, prepareQuery } from "./prepared-query.ts";
import type { Schema } from "./schema.ts";

/** Reads the stored facts of flag requests: one statement for each request. */
export function createFactsReader(
  reads: Kysely<Schema>,
): (query: FactsQuery) => Promise<FoundFacts> {
  // One prepared statement for each combination of parts that was ever asked for.
  const prepared = new Map<string, ReturnType<typeof prepareQuery<FactRow>>>();

  return async (query) => {
    const parts = partsOf(query);
    if (!parts.wantsPerson && parts.groupNames.length === 0) return NOTHING;
    let run = prepared.get(parts.name);
    if (!run) {
      run = prepareQuery(reads, (bind) => factsQuery(parts, bind));
      if (parts.groupNames.length <= MAX_PREPARED_GROUPS) prepared.set(parts.name, run);
    }
    const values: Record<string, string | number> = {
      project: query.projectId,
      id: cleanText(query.distinctId),
      anonymousId: cleanText(query.anonDistinctId ?? ""),
    };
    for (const [index, name] of parts.groupNames.entries()) {
      values[`groupType${index}`] = cleanText(name);
      values[`groupKey${index}`] = cleanText(query.groups[name] ?? "");
    }
    return decodeFacts(await run(values), query);
  };
}

/** True when a query asks for anything about its person. */
export function asksForPerson(query: FactsQuery): boolean {
  return query.person || query.staticCohorts || query.hashKeyOverrides;
}

/** What a query found. */
export interface FoundFacts {
  readonly person: FoundPerson | null;
  /** Overrides of the anonymous id's person where that is another one; `null` where there is none. */
  readonly anonymousHashKeyOverrides: ReadonlyMap<string, string> | null;
  readonly groups: Readonly<Record<string, JsonObject>>;
}

export interface FoundPerson extends StoredPersonFacts {
  readonly id: number;
  /** Length of the properties' JSON text. */
  readonly textLength: number;
  readonly hashKeyOverrides: ReadonlyMap<string, string>;
}

const NOTHING: FoundFacts = { person: null, anonymousHashKeyOverrides: null, groups: {} };
const MAX_PREPARED_GROUPS = 5;

interface Parts {
  /** Tells combinations apart. */
  readonly name: string;
  readonly wantsPerson: boolean;
  readonly properties: boolean;
  readonly cohorts: boolean;
  readonly overrides: "none" | "of-id" | "of-both-ids";
  readonly groupNames: readonly string[];
}

function partsOf(query: FactsQuery): Parts {
  const groupNames = Object.keys(query.groups);
  const overrides = !query.hashKeyOverrides
    ? "none"
    : query.anonDistinctId === null
      ? "of-id"
      : "of-both-ids";
  return {
    name: `${query.person} ${query.staticCohorts} ${overrides} ${groupNames.length}`,
    wantsPerson: asksForPerson(query),
    properties: query.person,
    cohorts: query.staticCohorts,
    overrides,
    groupNames,
  };
}

/** What a row is about; the other columns depend on it. */
const PERSON = 0;
const COHORT = 1;
const OVERRIDE = 2;
const ANONYMOUS_OVERRIDE = 3;
const GROUP = 4;

interface FactRow {
  readonly kind: number;
  readonly number: number | null;
  readonly key: string | null;
  readonly value: string | null;
}

/** All parts as one statement, so that they are read at one moment and in one round trip. */
function factsQuery(parts: Parts, bind: Bind): RawBuilder<FactRow> {
  const personOf = (name: string) => sql`
    from person_distinct_ids d
    join persons p on p.id = d.person_id
    where d.project_id = ${bind("project")} and d.distinct_id = ${bind(name)}`;
  const selects: RawBuilder<unknown>[] = [];
  if (parts.wantsPerson) {
    selects.push(sql`
      select ${sql.lit(PERSON)} as "kind", p.created_at as "number", cast(p.id as text) as "key",
        ${parts.properties ? sql`p.properties` : sql`cast(null as text)`} as "value"
      ${personOf("id")}`);
  }
  if (parts.cohorts) {
    selects.push(sql`
      select ${sql.lit(COHORT)} as "kind", cast(m.cohort_id as bigint) as "number",
        cast(null as text) as "key", cast(null as text) as "value"
      from person_distinct_ids d
      join cohort_members m on m.person_id = d.person_id
      where d.project_id = ${bind("project")} and d.distinct_id = ${bind("id")}`);
  }
  // One row at least for a person: without any override it is known to exist.
  const overridesOf = (kind: number, name: string) => sql`
    select ${sql.lit(kind)} as "kind", cast(d.person_id as bigint) as "number",
      o.flag_key as "key", o.hash_key as "value"
    from person_distinct_ids d
    left join flag_hash_key_overrides o on o.person_id = d.person_id
    where d.project_id = ${bind("project")} and d.distinct_id = ${bind(name)}`;
  if (parts.overrides !== "none") selects.push(overridesOf(OVERRIDE, "id"));
  if (parts.overrides === "of-both-ids") {
    selects.push(overridesOf(ANONYMOUS_OVERRIDE, "anonymousId"));
  }
  for (const index of parts.groupNames.keys()) {
    selects.push(sql`
      select ${sql.lit(GROUP)} as "kind", cast(null as bigint) as "number",
        t.name as "key", g.properties as "value"
      from group_types t
      join "groups" g on g.project_id = t.project_id and g.group_type_index = t."index"
      where t.project_id = ${bind("project")} and t.name = ${bind(`groupType${index}`)}
        and g.group_key = ${bind(`groupKey${index}`)}`);
  }
  return sql<FactRow>`${sql.join(selects, sql` union all `)}`;
}

function decodeFacts(rows: readonly FactRow[], query: FactsQuery): FoundFacts {
  let person: Pick<FoundPerson, "id" | "textLength" | "createdAt" | "properties"> | undefined;
  const staticCohortIds = new Set<number>();
  const overrides = new Map<string, string>();
  let anonymous: { readonly id: number; readonly overrides: Map<string, string> } | undefined;
  const groups: [string, JsonObject][] = [];
  for (const { kind, number, key, value } of rows) {
    switch (kind) {
      case PERSON:
        person = {
          id: Number(key),
          createdAt: decodeInstant(number ?? 0),
          properties: value === null ? {} : decodeJson(value),
          textLength: value?.length ?? 0,
        };
        break;
      case COHORT:
        if (number !== null) staticCohortIds.add(number);
        break;
      case OVERRIDE:
        if (key !== null) overrides.set(key, value ?? "");
        break;
      case ANONYMOUS_OVERRIDE:
        anonymous ??= { id: number ?? 0, overrides: new Map() };
        if (key !== null) anonymous.overrides.set(key, value ?? "");
        break;
      default:
        groups.push([key ?? "", decodeJson(value ?? "{}")]);
    }
  }
  const isAnother = anonymous !== undefined && anonymous.id !== person?.id;
  return {
    person: person ? { ...person, staticCohortIds, hashKeyOverrides: overrides } : null,
    anonymousHashKeyOverrides: isAnother ? (anonymous?.overrides ?? null) : null,
    groups: groupsByAskedName(query, groups),
  };
}

/** Under the names as they were asked for, which may hold what is stored as a replacement. */
function groupsByAskedName(
  query: FactsQuery,
  found: readonly (readonly [string, JsonObject])[],
): Readonly<Record<string, JsonObject>> {
  const byName = new Map(found);
  return Object.fromEntries(
    Object.keys(query.groups).flatMap((name) => {
      const properties = byName.get(cleanText(name));
      return properties ? [[name, properties] as const] : [];
    }),
  );
}
