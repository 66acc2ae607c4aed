import type { CompiledCohort } from "../cohorts/cohort.ts";
import { compileCohorts } from "../cohorts/compile-cohorts.ts";
import { readCohortId } from "../cohorts/read-cohort-filters.ts";
import { isJsonObject, type Json, type JsonObject, ownValue } from "../json.ts";
import {
  accumulateShares,
  type Bucketing,
  createSha1Bucketing,
  HOLDOUT_PREFIX,
} from "./bucketing.ts";
import type { FlagDefinition, FlagEvaluation, FlagIdentity, ProjectDefinitions } from "./flag.ts";
import type {
  Aggregation,
  CompiledCondition,
  CompiledFilter,
  CompiledFlag,
  CompiledHoldout,
  FlagNeeds,
  FlagSet,
} from "./flag-set.ts";
import { compileComparison, isOperator, type MatchTools } from "./match-property.ts";
import { type BacktrackingPatterns, type CompilePattern, NO_BACKTRACKING } from "./pattern.ts";
import { groupProperty, type PropertyName, personProperty } from "./person-property.ts";
import { describeReason } from "./reason.ts";
import { createTimeZone } from "./zoned-date.ts";

/** What compiling takes from outside; the defaults are whole but for backtracking patterns. */
export interface CompileTools {
  readonly bucketing?: Bucketing;
  readonly backtracking?: BacktrackingPatterns;
  /** Takes the place of `backtracking`: compiles patterns, or knows them from an earlier set. */
  readonly compilePattern?: CompilePattern;
}

/** What reading one flag looks up in its project. */
interface Project {
  readonly tools: MatchTools;
  readonly bucketing: Bucketing;
  readonly cohorts: ReadonlyMap<number, CompiledCohort>;
  readonly groupNames: ReadonlyMap<number, string>;
  /** Active flags' positions by id as text, and by key. */
  readonly positionsById: ReadonlyMap<string, number>;
  readonly positionsByKey: ReadonlyMap<string, number>;
  /** Ids and keys of flags that are switched off: they count as false. */
  readonly inactive: ReadonlySet<string>;
}

/** Thrown while reading a stored flag that cannot be read; caught at that flag's boundary. */
class MalformedFlag extends Error {}

/**
 * Parses and prepares a project's flags once. Never throws for what is stored: a flag that cannot
 * be read stays in the set as one that fails (`flag_data_parsing_error`).
 */
export function compileFlags(definitions: ProjectDefinitions, tools: CompileTools = {}): FlagSet {
  const bucketing = tools.bucketing ?? createSha1Bucketing();
  const matchTools: MatchTools = {
    timeZone: createTimeZone(definitions.timeZone),
    backtracking: tools.backtracking ?? NO_BACKTRACKING,
    ...(tools.compilePattern && { compilePattern: tools.compilePattern }),
  };
  const active = definitions.flags.filter((flag) => flag.active);
  const off = definitions.flags.filter((flag) => !flag.active);
  const project: Project = {
    tools: matchTools,
    bucketing,
    cohorts: compileCohorts(definitions.cohorts, matchTools),
    groupNames: new Map(definitions.groupTypes.map(({ index, name }) => [index, name])),
    positionsById: new Map(active.map((flag, index) => [String(flag.id), index])),
    positionsByKey: new Map(active.map((flag, index) => [flag.key, index])),
    inactive: new Set(off.flatMap((flag) => [String(flag.id), flag.key])),
  };
  const flags = active.map((definition, index) => compileFlag(definition, index, project));
  const { ordered, cyclic } = orderByDependency(flags);
  return {
    flags: ordered,
    cyclic,
    byPosition: flags,
    byKey: new Map(flags.map((flag) => [flag.identity.key, flag])),
    hasDependencies: flags.some((flag) => flag.dependencies.length > 0),
    cohorts: project.cohorts,
    continuityKeys: flags
      .filter((flag) => flag.isContinuous && flag.failure === null)
      .map((flag) => flag.identity.key),
    bucketing,
    holdoutPrefix: bucketing.encode(HOLDOUT_PREFIX),
  };
}

function compileFlag(definition: FlagDefinition, index: number, project: Project): CompiledFlag {
  try {
    return readFlag(definition, index, project);
  } catch (error) {
    if (!(error instanceof MalformedFlag)) throw error;
    return {
      ...blankFlag(definition, index, project),
      failure: "flag_data_parsing_error",
    };
  }
}

function blankFlag(definition: FlagDefinition, index: number, project: Project): CompiledFlag {
  return {
    index,
    identity: identityOf(definition),
    definition,
    failure: null,
    hasMissingDependency: false,
    dependencies: [],
    enrollmentProperty: null,
    superCondition: null,
    holdout: null,
    conditions: [],
    exitsEarly: false,
    variantKeys: [],
    variantBounds: new Float64Array(0),
    payloads: new Map(),
    hashPrefix: project.bucketing.encode(`${definition.key}.`),
    aggregation: null,
    isDeviceBucketed: definition.bucketingIdentifier === "device_id",
    isContinuous: false,
    needs: {
      any: false,
      personProperties: [],
      createdAt: false,
      staticCohorts: false,
      groupProperties: [],
      hashKeyOverride: false,
    },
    answers: { matches: [], others: new Map() },
  };
}

function identityOf(definition: FlagDefinition): FlagIdentity {
  const { id, key, name, version, hasExperiment } = definition;
  return { id, key, name, version, hasExperiment };
}

function readFlag(definition: FlagDefinition, index: number, project: Project): CompiledFlag {
  const { filters } = definition;
  const format = ownValue(filters, "version") ?? 1;
  if (format !== 1) throw new MalformedFlag();
  const blank = blankFlag(definition, index, project);
  const variants = readVariants(filters);
  const payloads = readPayloads(filters);
  const aggregation = readAggregation(ownValue(filters, "aggregation_group_type_index"), project);
  const reader = new ConditionReader(project, variants, aggregation);
  const conditions = readGroups(filters).map((group, at) => reader.readCondition(group, at));
  const enrolls = ownValue(filters, "feature_enrollment") === true;
  const superGroup = enrolls ? null : firstOf(filters, "super_groups");
  const superCondition = superGroup === null ? null : reader.readCondition(superGroup, 0);
  const isContinuous =
    definition.ensureExperienceContinuity && aggregation === null && !blank.isDeviceBucketed;
  const enrollmentProperty = enrolls
    ? personProperty(`$feature_enrollment/${definition.key}`)
    : null;
  return {
    ...blank,
    hasMissingDependency: reader.hasMissingDependency,
    dependencies: [...reader.dependencies],
    enrollmentProperty,
    superCondition,
    holdout: readHoldout(filters, blank.identity, payloads),
    conditions,
    exitsEarly: ownValue(filters, "early_exit") === true,
    variantKeys: variants.keys,
    variantBounds: variants.bounds,
    payloads,
    aggregation,
    isContinuous,
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

function readAggregation(json: Json | undefined, project: Project): Aggregation | null {
  if (json === undefined || json === null) return null;
  if (typeof json !== "number" || !Number.isInteger(json)) throw new MalformedFlag();
  return { groupName: project.groupNames.get(json) ?? null };
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
  readonly dependencies = new Set<number>();
  hasMissingDependency = false;
  readonly #project: Project;
  readonly #variants: Variants;
  readonly #aggregation: Aggregation | null;

  constructor(project: Project, variants: Variants, aggregation: Aggregation | null) {
    this.#project = project;
    this.#variants = variants;
    this.#aggregation = aggregation;
  }

  readCondition(group: JsonObject, index: number): CompiledCondition {
    // Absent means the flag's aggregation, an explicit null means the person (5.1).
    const own = ownValue(group, "aggregation_group_type_index");
    const aggregation = own === undefined ? this.#aggregation : readAggregation(own, this.#project);
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
      const wanted =
        operator === null || operator === "in" ? true : operator === "not_in" ? false : null;
      return { kind: "cohort", cohort: this.#project.cohorts.get(id) ?? null, wanted };
    }
    const written = ownValue(filter, "key");
    const key = typeof written === "number" ? String(written) : written;
    if (typeof key !== "string") throw new MalformedFlag();
    if (type === "flag") return this.#readDependency(key, operator, value);
    const comparison = compileComparison(operator ?? "exact", value, this.#project.tools);
    switch (type) {
      case "person":
        return { kind: "person", property: personProperty(key), comparison };
      case "person_metadata":
        return { kind: "person_metadata", isCreatedAt: key === "created_at", comparison };
      case "group": {
        const index = ownValue(filter, "group_type_index") ?? null;
        const group = index === null ? aggregation : readAggregation(index, this.#project);
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
    const { positionsById, positionsByKey, inactive } = this.#project;
    const target = positionsById.get(key) ?? positionsByKey.get(key);
    if (target === undefined) {
      if (!inactive.has(key)) this.hasMissingDependency = true;
      return { kind: "flag", target: -1, expected };
    }
    this.dependencies.add(target);
    return { kind: "flag", target, expected };
  }
}

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
  for (const filter of conditions.flatMap((condition) => condition.filters)) {
    if (filter.kind === "person") person.set(filter.property.text, filter.property);
    else if (filter.kind === "person_metadata") createdAt ||= filter.isCreatedAt;
    else if (filter.kind === "group" && filter.groupName !== null) {
      const { groupName, property } = filter;
      group.set(JSON.stringify([groupName, property.text]), { groupName, property });
    } else if (filter.kind === "cohort" && filter.cohort !== null) {
      const { needs } = filter.cohort;
      for (const property of needs.personProperties) person.set(property.text, property);
      createdAt ||= needs.createdAt;
      staticCohorts ||= needs.staticCohorts;
    }
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

/** Orders flags after those they depend on; what is left over lies on or behind a cycle. */
function orderByDependency(flags: readonly CompiledFlag[]): {
  ordered: CompiledFlag[];
  cyclic: CompiledFlag[];
} {
  const waitingFor = flags.map((flag) => flag.dependencies.length);
  const dependants: number[][] = flags.map(() => []);
  for (const flag of flags) {
    for (const target of flag.dependencies) dependants[target]?.push(flag.index);
  }
  const ordered = flags.filter((flag) => flag.dependencies.length === 0);
  for (let at = 0; at < ordered.length; at += 1) {
    for (const index of dependants[(ordered[at] as CompiledFlag).index] ?? []) {
      const left = (waitingFor[index] as number) - 1;
      waitingFor[index] = left;
      if (left === 0) ordered.push(flags[index] as CompiledFlag);
    }
  }
  const done = new Set(ordered);
  return { ordered, cyclic: flags.filter((flag) => !done.has(flag)) };
}
