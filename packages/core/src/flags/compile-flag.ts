import type { CompiledCohort } from "../cohorts/cohort.ts";
import { readCohortId } from "../cohorts/read-cohort-filters.ts";
import { isJsonObject, type Json, type JsonObject, ownValue } from "../json.ts";
import { accumulateShares, type Bucketing } from "./bucketing.ts";
import type { FlagDefinition, FlagEvaluation, FlagIdentity } from "./flag.ts";
import type {
  Aggregation,
  CompiledCondition,
  CompiledFilter,
  CompiledFlag,
  CompiledHoldout,
  FlagNeeds,
  PersonFilter,
} from "./flag-set.ts";
import { compileComparison, isOperator, type MatchTools, type Operator } from "./match-property.ts";
import { groupProperty, type PropertyName, personProperty } from "./person-property.ts";
import { describeReason } from "./reason.ts";

/** What reading one flag looks up in its project. */
export interface Surroundings {
  readonly tools: MatchTools;
  readonly bucketing: Bucketing;
  readonly cohorts: ReadonlyMap<number, CompiledCohort>;
  readonly groupNames: ReadonlyMap<number, string>;
  /** Finds or makes the one filter that says something. */
  readonly personFilter: (key: string, operator: Operator, value: Json | undefined) => PersonFilter;
}

/** Thrown while reading a stored flag that cannot be read; caught at that flag's boundary. */
class MalformedFlag extends Error {}

/** Parses and prepares one flag. Never throws for what is stored: a flag that cannot be read fails. */
export function compileFlag(definition: FlagDefinition, surroundings: Surroundings): CompiledFlag {
  try {
    return readFlag(definition, surroundings);
  } catch (error) {
    if (!(error instanceof MalformedFlag)) throw error;
    return { ...blankFlag(definition, surroundings), failure: "flag_data_parsing_error" };
  }
}

function blankFlag(definition: FlagDefinition, surroundings: Surroundings): CompiledFlag {
  return {
    identity: identityOf(definition),
    definition,
    failure: null,
    isPlain: false,
    dependencies: [],
    cohortIds: [],
    enrollmentProperty: null,
    superCondition: null,
    holdout: null,
    conditions: [],
    exitsEarly: false,
    variantKeys: [],
    variantBounds: new Float64Array(0),
    payloads: new Map(),
    hashPrefix: surroundings.bucketing.encode(`${definition.key}.`),
    aggregation: null,
    isDeviceBucketed: definition.bucketingIdentifier === "device_id",
    isContinuous: false,
    hashesDistinctId: false,
    needs: NO_NEEDS,
    answers: { matches: [], noMatches: [], outOfBounds: [], others: new Map() },
  };
}

function identityOf(definition: FlagDefinition): FlagIdentity {
  const { id, key, name, version, hasExperiment } = definition;
  return { id, key, name, version, hasExperiment };
}

function readFlag(definition: FlagDefinition, surroundings: Surroundings): CompiledFlag {
  const { filters } = definition;
  const format = ownValue(filters, "version") ?? 1;
  if (format !== 1) throw new MalformedFlag();
  const blank = blankFlag(definition, surroundings);
  const variants = readVariants(filters);
  const payloads = readPayloads(filters);
  const aggregation = readAggregation(
    ownValue(filters, "aggregation_group_type_index"),
    surroundings,
  );
  const reader = new ConditionReader(surroundings, variants, aggregation);
  const conditions = readGroups(filters).map((group, at) => reader.readCondition(group, at));
  const enrolls = ownValue(filters, "feature_enrollment") === true;
  const superGroup = enrolls ? null : firstOf(filters, "super_groups");
  const superCondition = superGroup === null ? null : reader.readCondition(superGroup, 0);
  const isContinuous =
    definition.ensureExperienceContinuity && aggregation === null && !blank.isDeviceBucketed;
  const enrollmentProperty = enrolls
    ? personProperty(`$feature_enrollment/${definition.key}`)
    : null;
  const holdout = readHoldout(filters, blank.identity, payloads);
  return {
    ...blank,
    isPlain:
      reader.dependencies.size === 0 &&
      enrollmentProperty === null &&
      superCondition === null &&
      holdout === null,
    dependencies: [...reader.dependencies],
    cohortIds: [...reader.cohortIds],
    enrollmentProperty,
    superCondition,
    holdout,
    conditions,
    exitsEarly: ownValue(filters, "early_exit") === true,
    variantKeys: variants.keys,
    variantBounds: variants.bounds,
    payloads,
    aggregation,
    isContinuous,
    hashesDistinctId: !isContinuous && !blank.isDeviceBucketed,
    needs: collectNeeds(
      superCondition === null ? conditions : [superCondition, ...conditions],
      enrollmentProperty,
      isContinuous,
    ),
  };
}

/** The conditions; the oldest stored form is one bare condition (posthog-api 4.2). */
function readGroups(filters: JsonObject): readonly JsonObject[] {
  const groups = ownValue(filters, "groups") ?? null;
  if (groups === null) {
    const isBare =
      Object.hasOwn(filters, "properties") || Object.hasOwn(filters, "rollout_percentage");
    return isBare ? [filters] : [];
  }
  return readList(groups);
}

function readList(json: Json): readonly JsonObject[] {
  if (!Array.isArray(json)) throw new MalformedFlag();
  return (json as readonly Json[]).map((entry) => {
    if (!isJsonObject(entry)) throw new MalformedFlag();
    return entry;
  });
}

function firstOf(filters: JsonObject, key: string): JsonObject | null {
  const list = ownValue(filters, key) ?? null;
  return list === null ? null : (readList(list)[0] ?? null);
}

interface Variants {
  readonly keys: readonly string[];
  readonly bounds: Float64Array;
  /** True when the variants really divide people (flag-evaluation 5.4). */
  readonly split: boolean;
}

function readVariants(filters: JsonObject): Variants {
  const multivariate = ownValue(filters, "multivariate") ?? null;
  if (multivariate === null) return { keys: [], bounds: new Float64Array(0), split: false };
  if (!isJsonObject(multivariate)) throw new MalformedFlag();
  const keys: string[] = [];
  const shares: number[] = [];
  for (const variant of readList(ownValue(multivariate, "variants") ?? [])) {
    const key = ownValue(variant, "key");
    const share = ownValue(variant, "rollout_percentage");
    if (typeof key !== "string" || typeof share !== "number") throw new MalformedFlag();
    keys.push(key);
    shares.push(share);
  }
  const firstShare = shares.find((share) => share !== 0);
  return {
    keys,
    bounds: accumulateShares(shares),
    split: firstShare !== undefined && firstShare < 100,
  };
}

/** Payloads by value; an empty text is none. */
function readPayloads(filters: JsonObject): ReadonlyMap<string, Json> {
  const stored = ownValue(filters, "payloads") ?? null;
  if (stored === null) return new Map();
  if (!isJsonObject(stored)) throw new MalformedFlag();
  return new Map(Object.entries(stored).filter(([, payload]) => payload !== ""));
}

function readAggregation(json: Json | undefined, surroundings: Surroundings): Aggregation | null {
  if (json === undefined || json === null) return null;
  if (typeof json !== "number" || !Number.isInteger(json)) throw new MalformedFlag();
  return { groupName: surroundings.groupNames.get(json) ?? null };
}

function readHoldout(
  filters: JsonObject,
  flag: FlagIdentity,
  payloads: ReadonlyMap<string, Json>,
): CompiledHoldout | null {
  const holdout = ownValue(filters, "holdout") ?? null;
  if (holdout !== null) {
    if (!isJsonObject(holdout)) throw new MalformedFlag();
    const id = ownValue(holdout, "id");
    const percentage = ownValue(holdout, "exclusion_percentage");
    if (typeof id !== "number" || typeof percentage !== "number") throw new MalformedFlag();
    return holdoutOf(flag, `holdout-${id}`, percentage, payloads);
  }
  const legacy = firstOf(filters, "holdout_groups");
  if (legacy === null) return null;
  const variant = ownValue(legacy, "variant");
  if (typeof variant !== "string") return null;
  return holdoutOf(flag, variant, readPercentage(legacy), payloads);
}

function holdoutOf(
  flag: FlagIdentity,
  variant: string,
  exclusionPercentage: number,
  payloads: ReadonlyMap<string, Json>,
): CompiledHoldout {
  const answer: FlagEvaluation = {
    flag,
    value: variant,
    payload: payloads.get(variant) ?? null,
    reason: {
      code: "holdout_condition_value",
      conditionIndex: null,
      description: describeReason("holdout_condition_value", null),
    },
    failed: false,
    derived: { text: null },
  };
  return { exclusionPercentage, answer };
}

function readPercentage(condition: JsonObject): number {
  const percentage = ownValue(condition, "rollout_percentage") ?? 100;
  if (typeof percentage !== "number") throw new MalformedFlag();
  return percentage;
}

/** Reads the conditions of one flag, gathering what they depend on. */
class ConditionReader {
  readonly dependencies = new Set<string>();
  readonly cohortIds = new Set<number>();
  readonly #surroundings: Surroundings;
  readonly #variants: Variants;
  readonly #aggregation: Aggregation | null;

  constructor(surroundings: Surroundings, variants: Variants, aggregation: Aggregation | null) {
    this.#surroundings = surroundings;
    this.#variants = variants;
    this.#aggregation = aggregation;
  }

  readCondition(group: JsonObject, index: number): CompiledCondition {
    // Absent means the flag's aggregation, an explicit null means the person (5.1).
    const own = ownValue(group, "aggregation_group_type_index");
    const aggregation =
      own === undefined ? this.#aggregation : readAggregation(own, this.#surroundings);
    const rolloutPercentage = readPercentage(group);
    const variant = ownValue(group, "variant") ?? null;
    if (variant !== null && typeof variant !== "string") throw new MalformedFlag();
    const variantIndex = variant === null ? -1 : this.#variants.keys.indexOf(variant);
    const filters = readList(ownValue(group, "properties") ?? []).map((filter) =>
      this.#readFilter(filter, aggregation),
    );
    return {
      index,
      aggregation,
      filters: [
        ...filters.filter((filter) => filter.kind !== "cohort"),
        ...filters.filter((filter) => filter.kind === "cohort"),
      ],
      rolloutPercentage,
      variantIndex,
      hashDecides: rolloutPercentage !== 100 || (variantIndex === -1 && this.#variants.split),
    };
  }

  #readFilter(filter: JsonObject, aggregation: Aggregation | null): CompiledFilter {
    const operator = ownValue(filter, "operator") ?? null;
    if (operator !== null && !isOperator(operator)) throw new MalformedFlag();
    const value = ownValue(filter, "value");
    const type = ownValue(filter, "type") ?? "person";
    if (type === "cohort") {
      const id = readCohortId(value);
      if (id === null) throw new MalformedFlag();
      this.cohortIds.add(id);
      const wanted =
        operator === null || operator === "in" ? true : operator === "not_in" ? false : null;
      return { kind: "cohort", cohort: this.#surroundings.cohorts.get(id) ?? null, wanted };
    }
    const written = ownValue(filter, "key");
    const key = typeof written === "number" ? String(written) : written;
    if (typeof key !== "string") throw new MalformedFlag();
    if (type === "flag") return this.#readDependency(key, operator, value);
    if (type === "person") {
      return this.#surroundings.personFilter(key, operator ?? "exact", value);
    }
    const comparison = compileComparison(operator ?? "exact", value, this.#surroundings.tools);
    switch (type) {
      case "person_metadata":
        return { kind: "person_metadata", isCreatedAt: key === "created_at", comparison };
      case "group": {
        const index = ownValue(filter, "group_type_index") ?? null;
        const group = index === null ? aggregation : readAggregation(index, this.#surroundings);
        const groupName = group?.groupName ?? null;
        return { kind: "group", groupName, property: groupProperty(key), comparison };
      }
      default:
        throw new MalformedFlag();
    }
  }

  #readDependency(key: string, operator: string | null, value: Json | undefined): CompiledFilter {
    const isReadable =
      operator === "flag_evaluates_to" && (typeof value === "boolean" || typeof value === "string");
    const expected = isReadable ? value : null;
    this.dependencies.add(key);
    return { kind: "flag", target: key, expected };
  }
}

const NO_NEEDS: FlagNeeds = Object.freeze({
  any: false,
  personProperties: [],
  createdAt: false,
  staticCohorts: false,
  groupProperties: [],
  hashKeyOverride: false,
});

function collectNeeds(
  conditions: readonly CompiledCondition[],
  enrollmentProperty: PropertyName | null,
  isContinuous: boolean,
): FlagNeeds {
  const person = new Map<string, PropertyName>();
  const group = new Map<string, { groupName: string; property: PropertyName }>();
  let createdAt = false;
  let staticCohorts = false;
  if (enrollmentProperty !== null) person.set(enrollmentProperty.text, enrollmentProperty);
  const cohorts = new Set<CompiledCohort>();
  for (const filter of conditions.flatMap((condition) => condition.filters)) {
    if (filter.kind === "person") person.set(filter.property.text, filter.property);
    else if (filter.kind === "person_metadata") createdAt ||= filter.isCreatedAt;
    else if (filter.kind === "group" && filter.groupName !== null) {
      const { groupName, property } = filter;
      group.set(JSON.stringify([groupName, property.text]), { groupName, property });
    } else if (filter.kind === "cohort" && filter.cohort !== null) cohorts.add(filter.cohort);
  }
  // Thousands of filters may name one cohort that asks for thousands of properties.
  for (const { needs } of cohorts) {
    for (const property of needs.personProperties) person.set(property.text, property);
    createdAt ||= needs.createdAt;
    staticCohorts ||= needs.staticCohorts;
  }
  const hashKeyOverride =
    isContinuous &&
    conditions.some((condition) => condition.aggregation === null && condition.hashDecides);
  return {
    any: person.size > 0 || group.size > 0 || createdAt || staticCohorts || hashKeyOverride,
    personProperties: [...person.values()],
    createdAt,
    staticCohorts,
    groupProperties: [...group.values()],
    hashKeyOverride,
  };
}
