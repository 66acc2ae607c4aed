import {
  type CohortNode,
  readCohortFilters,
  readCohortId,
} from "../cohorts/read-cohort-filters.ts";
import { isJsonObject, type Json, type JsonObject, ownValue } from "../json.ts";
import type { CohortDefinition, FlagDefinition, ProjectDefinitions } from "./flag.ts";

/** Definitions as SDKs evaluate them on their own (posthog-api 4.6, flag-evaluation 10.9, 11.1). */
export interface LocalDefinitions {
  /** One per flag, in order, inactive ones included. */
  readonly flags: readonly LocalFlag[];
  /** Dynamic cohorts as bare property groups by id; a cohort left out means "ask the server". */
  readonly cohorts: JsonObject;
}

export interface LocalFlag {
  readonly definition: FlagDefinition;
  /** `filters` with dependencies by key and chain, and with cohorts inlined where asked for. */
  readonly filters: JsonObject;
  /**
   * False for flags whose answer SDKs get wrong on their own: they know neither early-access
   * enrolment nor holdouts, and under a group they read person and cohort filters from the group.
   * Such a flag is best marked so that SDKs ask the server.
   */
  readonly isDecidableLocally: boolean;
  /**
   * True for flags that SDKs before 2025 get wrong without noticing: they put conditions with a
   * variant first, and know neither `early_exit`, nor buckets by device, nor a condition's own
   * group type (flag-evaluation 17).
   */
  readonly needsNewerSdk: boolean;
}

/** Inlining a cohort stops at this many conditions: its filter then stays a cohort filter. */
const MAX_INLINED_CONDITIONS = 20;

/** A conjunction of property filters; a rule is a list of these, any of which suffices. */
type Conjunction = readonly JsonObject[];

/** Operators whose exact opposite is an operator too, errors included. */
const OPPOSITES: Readonly<Record<string, string>> = {
  exact: "is_not",
  is_not: "exact",
  is_set: "is_not_set",
  is_not_set: "is_set",
  icontains: "not_icontains",
  not_icontains: "icontains",
  starts_with: "not_starts_with",
  not_starts_with: "starts_with",
  ends_with: "not_ends_with",
  not_ends_with: "ends_with",
  icontains_multi: "not_icontains_multi",
  not_icontains_multi: "icontains_multi",
};

/**
 * Restates definitions for SDKs' local evaluation. With `sendCohorts` cohort filters stay and the
 * cohorts come along; without, filters on simple cohorts become plain property conditions that
 * mean the same, and `cohorts` is empty.
 */
export function describeForLocalEvaluation(
  definitions: ProjectDefinitions,
  { sendCohorts }: { readonly sendCohorts: boolean },
): LocalDefinitions {
  const cohorts = new CohortBook(definitions.cohorts);
  const chains = new DependencyBook(definitions.flags);
  const sent = new Map<string, JsonObject>();
  const flags = definitions.flags.map((definition): LocalFlag => {
    const filters = mapConditions(definition.filters, (condition) => {
      const restated = mapFilters(condition, (filter) => chains.restate(filter));
      // Under a group SDKs would look up a cohort's properties in the group.
      const isPersonal = !isGrouped(definition.filters, condition);
      return sendCohorts || !isPersonal ? [restated] : cohorts.inline(restated);
    });
    if (sendCohorts) {
      for (const id of cohortIdsOf(filters)) cohorts.collect(id, sent);
    }
    return {
      definition,
      filters: sendCohorts ? withoutNotIn(filters, sent) : filters,
      isDecidableLocally: isDecidableLocally(definition.filters),
      needsNewerSdk: needsNewerSdk(definition),
    };
  });
  return { flags, cohorts: Object.fromEntries(sent) };
}

function isDecidableLocally(filters: JsonObject): boolean {
  const isPresent = (key: string): boolean => {
    const value = ownValue(filters, key) ?? null;
    return Array.isArray(value) ? value.length > 0 : value !== null && value !== false;
  };
  if (["feature_enrollment", "super_groups", "holdout", "holdout_groups"].some(isPresent)) {
    return false;
  }
  return !conditionsOf(filters).some(
    (condition) =>
      isGrouped(filters, condition) &&
      filtersOf(condition).some((filter) => {
        const type = ownValue(filter, "type") ?? "person";
        return type !== "group" && type !== "flag";
      }),
  );
}

function needsNewerSdk({ filters, bucketingIdentifier }: FlagDefinition): boolean {
  if (bucketingIdentifier === "device_id" || ownValue(filters, "early_exit") === true) return true;
  const aggregation = ownValue(filters, "aggregation_group_type_index") ?? null;
  let hasPlainBefore = false;
  for (const condition of conditionsOf(filters)) {
    const own = ownValue(condition, "aggregation_group_type_index");
    if (own !== undefined && own !== aggregation) return true;
    const hasVariant = Boolean(ownValue(condition, "variant"));
    if (hasVariant && hasPlainBefore) return true;
    hasPlainBefore ||= !hasVariant;
  }
  return false;
}

/**
 * Restates "not in a cohort" as "in the counter-cohort", whose only rule is that cohort negated and
 * whose id is the cohort's below zero: several SDKs read `not_in` as `in`, but all know negation.
 * A cohort that is not sent stays as it is: every SDK then asks the server.
 */
function withoutNotIn(filters: JsonObject, sent: Map<string, JsonObject>): JsonObject {
  return mapConditions(filters, (condition) => [
    mapFilters(condition, (filter) => {
      if (ownValue(filter, "type") !== "cohort" || ownValue(filter, "operator") !== "not_in") {
        return filter;
      }
      const id = readCohortId(ownValue(filter, "value"));
      if (id === null || !sent.has(String(id))) return filter;
      sent.set(String(-id), {
        type: "AND",
        values: [{ key: "id", type: "cohort", value: id, operator: "in", negation: true }],
      });
      return { ...filter, value: -id, operator: "in" };
    }),
  ]);
}

/** Whether a condition aggregates by a group: by its own word, else by the flag's. */
function isGrouped(filters: JsonObject, condition: JsonObject): boolean {
  const own = ownValue(condition, "aggregation_group_type_index");
  const aggregation = own === undefined ? ownValue(filters, "aggregation_group_type_index") : own;
  return typeof aggregation === "number";
}

function conditionsOf(filters: JsonObject): readonly JsonObject[] {
  const groups = ownValue(filters, "groups");
  return Array.isArray(groups) ? (groups as readonly Json[]).filter(isJsonObject) : [];
}

/** Maps each readable condition of `filters.groups`; whatever cannot be read stays as it is. */
function mapConditions(
  filters: JsonObject,
  map: (condition: JsonObject) => readonly JsonObject[],
): JsonObject {
  const groups = ownValue(filters, "groups");
  if (!Array.isArray(groups)) return filters;
  const mapped = (groups as readonly Json[]).flatMap((group): readonly Json[] =>
    isJsonObject(group) ? map(group) : [group],
  );
  return { ...filters, groups: mapped };
}

function mapFilters(condition: JsonObject, map: (filter: JsonObject) => JsonObject): JsonObject {
  const properties = ownValue(condition, "properties");
  if (!Array.isArray(properties)) return condition;
  const mapped = (properties as readonly Json[]).map((filter) =>
    isJsonObject(filter) ? map(filter) : filter,
  );
  return { ...condition, properties: mapped };
}

function filtersOf(condition: JsonObject): readonly JsonObject[] {
  const properties = ownValue(condition, "properties");
  return Array.isArray(properties) ? (properties as readonly Json[]).filter(isJsonObject) : [];
}

function cohortIdsOf(filters: JsonObject): readonly number[] {
  return conditionsOf(filters)
    .flatMap(filtersOf)
    .filter((filter) => ownValue(filter, "type") === "cohort")
    .map((filter) => readCohortId(ownValue(filter, "value")))
    .filter((id) => id !== null);
}

/** Cohorts as SDKs may have them. */
class CohortBook {
  readonly #definitions: ReadonlyMap<number, CohortDefinition>;
  readonly #nodes = new Map<number, CohortNode | null>();

  constructor(definitions: readonly CohortDefinition[]) {
    this.#definitions = new Map(definitions.map((cohort) => [cohort.id, cohort]));
  }

  /** Adds a cohort and those nested in it, unless an SDK could not decide it or would go round. */
  collect(id: number, sent: Map<string, JsonObject>): void {
    if (sent.has(String(id))) return;
    const node = this.#node(id);
    if (node === null || this.#leadsToCycle(id)) return;
    sent.set(String(id), groupOf(node));
    for (const nested of nestedIds(node)) this.collect(nested, sent);
  }

  /**
   * A condition with its cohort filters replaced: each by the property filters of a simple cohort.
   * A cohort that is one of several alternatives splits the condition into several with the same
   * rollout and variant, which decide alike. A condition that cannot be restated stays.
   */
  inline(condition: JsonObject): readonly JsonObject[] {
    const filters = filtersOf(condition);
    if (!filters.some((filter) => ownValue(filter, "type") === "cohort")) return [condition];
    let alternatives: readonly Conjunction[] | null = [[]];
    for (const filter of filters) {
      const next =
        ownValue(filter, "type") === "cohort" ? this.#alternativesOf(filter) : [[filter]];
      alternatives = combine(alternatives, next);
      if (alternatives === null) return [condition];
    }
    return alternatives.map((properties) => ({ ...condition, properties }));
  }

  #alternativesOf(filter: JsonObject): readonly Conjunction[] | null {
    const id = readCohortId(ownValue(filter, "value"));
    const operator = ownValue(filter, "operator") ?? "in";
    if (id === null || (operator !== "in" && operator !== "not_in")) return null;
    return this.#expandCohort(id, operator === "in", new Set());
  }

  #expandCohort(
    id: number,
    wanted: boolean,
    open: ReadonlySet<number>,
  ): readonly Conjunction[] | null {
    const node = this.#node(id);
    return node === null || open.has(id)
      ? null
      : this.#expand(node, wanted, new Set([...open, id]));
  }

  #expand(
    node: CohortNode,
    wanted: boolean,
    open: ReadonlySet<number>,
  ): readonly Conjunction[] | null {
    switch (node.kind) {
      case "behavior":
        return null;
      case "cohort":
        return this.#expandCohort(node.id, node.wanted === wanted, open);
      case "property": {
        const filter = filterOf(node, wanted !== node.isNegated);
        return filter === null ? null : [[filter]];
      }
      case "group": {
        // "Not all of" is "any not": negation swaps the two kinds of group.
        const isConjunction = (node.type === "AND") === wanted;
        let result: readonly Conjunction[] | null = isConjunction ? [[]] : [];
        for (const child of node.nodes) {
          const expanded = this.#expand(child, wanted, open);
          if (expanded === null) return null;
          result = isConjunction ? combine(result, expanded) : [...result, ...expanded];
          if (result === null || result.length > MAX_INLINED_CONDITIONS) return null;
        }
        return result;
      }
    }
  }

  /** The rule of a dynamic cohort that SDKs can decide; `null` for all others. */
  #node(id: number): CohortNode | null {
    const known = this.#nodes.get(id);
    if (known !== undefined) return known;
    const cohort = this.#definitions.get(id);
    const filters =
      cohort === undefined || cohort.isStatic ? null : readCohortFilters(cohort.filters);
    const node = filters?.kind === "rule" && isDecidable(filters.node) ? filters.node : null;
    this.#nodes.set(id, node);
    return node;
  }

  #leadsToCycle(id: number): boolean {
    const open = new Set<number>();
    const finished = new Set<number>();
    const visit = (current: number): boolean => {
      if (open.has(current)) return true;
      if (finished.has(current)) return false;
      open.add(current);
      const node = this.#node(current);
      const isCyclic = node !== null && nestedIds(node).some(visit);
      open.delete(current);
      finished.add(current);
      return isCyclic;
    };
    return visit(id);
  }
}

/** False where an SDK would answer wrongly: an empty group is true to it, behavior a property. */
function isDecidable(node: CohortNode): boolean {
  if (node.kind === "behavior") return false;
  if (node.kind === "property") return node.source === "person";
  return node.kind === "cohort" || (node.nodes.length > 0 && node.nodes.every(isDecidable));
}

function nestedIds(node: CohortNode): readonly number[] {
  if (node.kind === "cohort") return [node.id];
  return node.kind === "group" ? node.nodes.flatMap(nestedIds) : [];
}

/**
 * A rule in the feed's form. A nested cohort is written with `negation` alone and operator `in`:
 * some SDKs read only the one, some both, and all read this alike.
 */
function groupOf(node: CohortNode): JsonObject {
  switch (node.kind) {
    case "group":
      return { type: node.type, values: node.nodes.map(groupOf) };
    case "cohort":
      return { key: "id", type: "cohort", value: node.id, operator: "in", negation: !node.wanted };
    case "property":
      return { ...propertyOf(node, node.operator), negation: node.isNegated };
    case "behavior":
      return { type: "behavioral" };
  }
}

function filterOf(
  node: Extract<CohortNode, { kind: "property" }>,
  wanted: boolean,
): JsonObject | null {
  if (wanted) return propertyOf(node, node.operator);
  const operator = node.operator ?? "exact";
  if (typeof operator !== "string" || !Object.hasOwn(OPPOSITES, operator)) return null;
  // Without a value both an operator and its opposite are false.
  const hasValue = (node.value ?? null) !== null;
  if (!hasValue && operator !== "is_set" && operator !== "is_not_set") return null;
  return propertyOf(node, OPPOSITES[operator] ?? null);
}

function propertyOf(node: Extract<CohortNode, { kind: "property" }>, operator: Json): JsonObject {
  return {
    key: node.key,
    type: node.source,
    ...(operator === null ? {} : { operator }),
    ...(node.value === undefined ? {} : { value: node.value }),
  };
}

/** Every pairing of one conjunction of each side; `null` when unknown or too many. */
function combine(
  left: readonly Conjunction[],
  right: readonly Conjunction[] | null,
): readonly Conjunction[] | null {
  if (right === null || left.length * right.length > MAX_INLINED_CONDITIONS) return null;
  return left.flatMap((first) => right.map((second) => [...first, ...second]));
}

/** Flag dependencies as SDKs read them. */
class DependencyBook {
  readonly #flags: ReadonlyMap<string, FlagDefinition>;

  constructor(flags: readonly FlagDefinition[]) {
    this.#flags = new Map([
      ...flags.map((flag) => [flag.key, flag] as const),
      ...flags.map((flag) => [String(flag.id), flag] as const),
    ]);
  }

  /**
   * A dependency with the target's key, and `dependency_chain`: keys in evaluation order ending
   * with the target; empty when the target is unknown or leads round (SDKs then ask the server).
   */
  restate(filter: JsonObject): JsonObject {
    if (ownValue(filter, "type") !== "flag") return filter;
    const target = this.#target(filter);
    if (target === undefined) return { ...filter, dependency_chain: [] };
    const chain: string[] = [];
    const isComplete = this.#walk(target, new Set(), new Set(), chain);
    return { ...filter, key: target.key, dependency_chain: isComplete ? chain : [] };
  }

  #target(filter: JsonObject): FlagDefinition | undefined {
    const key = ownValue(filter, "key");
    return typeof key === "string" || typeof key === "number"
      ? this.#flags.get(String(key))
      : undefined;
  }

  /** Appends the flag after all it depends on; false on a cycle or an unknown flag. */
  #walk(flag: FlagDefinition, open: Set<string>, done: Set<string>, chain: string[]): boolean {
    if (open.has(flag.key)) return false;
    if (done.has(flag.key)) return true;
    open.add(flag.key);
    for (const filter of dependenciesOf(flag)) {
      const target = this.#target(filter);
      if (target === undefined || !this.#walk(target, open, done, chain)) return false;
    }
    open.delete(flag.key);
    done.add(flag.key);
    chain.push(flag.key);
    return true;
  }
}

/** A flag that is switched off is false whatever it depends on (flag-evaluation 11.3). */
function dependenciesOf(flag: FlagDefinition): readonly JsonObject[] {
  if (!flag.active) return [];
  return conditionsOf(flag.filters)
    .flatMap(filtersOf)
    .filter((filter) => ownValue(filter, "type") === "flag");
}
