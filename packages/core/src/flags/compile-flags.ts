import type { CompiledCohort } from "../cohorts/cohort.ts";
import { compileCohorts } from "../cohorts/compile-cohorts.ts";
import { readCohortId } from "../cohorts/read-cohort-filters.ts";
import { encodeJson } from "../exact-json.ts";
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
  FlagDependencies,
  FlagNeeds,
  FlagSet,
  PersonFilter,
  ResolvedDependencies,
} from "./flag-set.ts";
import { compileComparison, isOperator, type MatchTools, type Operator } from "./match-property.ts";
import {
  type BacktrackingPatterns,
  type CompilePattern,
  keepPatterns,
  NO_BACKTRACKING,
} from "./pattern.ts";
import { groupProperty, type PropertyName, personProperty } from "./person-property.ts";
import { describeReason } from "./reason.ts";
import { uniteNeeds } from "./select-flags.ts";
import { createTimeZone } from "./zoned-date.ts";

/** What compiling takes from outside; the defaults are whole but for backtracking patterns. */
export interface CompileTools {
  readonly bucketing?: Bucketing;
  readonly backtracking?: BacktrackingPatterns;
  /** Takes the place of `backtracking`: compiles patterns, or knows them from an earlier set. */
  readonly compilePattern?: CompilePattern;
}

/** What reading one flag looks up in its project. */
interface Surroundings {
  readonly tools: MatchTools;
  readonly bucketing: Bucketing;
  readonly cohorts: ReadonlyMap<number, CompiledCohort>;
  readonly groupNames: ReadonlyMap<number, string>;
  /** Finds or makes the one filter that says something. */
  readonly personFilter: (key: string, operator: Operator, value: Json | undefined) => PersonFilter;
}

/** Thrown while reading a stored flag that cannot be read; caught at that flag's boundary. */
class MalformedFlag extends Error {}

/**
 * Parses and prepares a project's flags once. Never throws for what is stored: a flag that cannot
 * be read stays in the set as one that fails (`flag_data_parsing_error`).
 * @param earlier the project's set from before a change, made with the same tools: of it is kept
 * what a definition is still the same object for
 */
export function compileFlags(
  definitions: ProjectDefinitions,
  tools: CompileTools = {},
  earlier?: FlagSet,
): FlagSet {
  const bucketing = earlier?.bucketing ?? tools.bucketing ?? createSha1Bucketing();
  const kept = keep(definitions, earlier);
  const matchTools: MatchTools = {
    timeZone: createTimeZone(definitions.timeZone),
    backtracking: tools.backtracking ?? NO_BACKTRACKING,
    compilePattern: tools.compilePattern ?? keepPatterns(tools.backtracking ?? NO_BACKTRACKING),
  };
  const cohorts = compileCohorts(definitions.cohorts, matchTools, kept.cohorts);
  const surroundings: Surroundings = {
    tools: matchTools,
    bucketing,
    cohorts,
    groupNames: new Map(definitions.groupTypes.map(({ index, name }) => [index, name])),
    personFilter(key, operator, value) {
      const text = textToShare(key, operator, value);
      const known = text === null ? undefined : (shared.get(text) ?? kept.personFilters.get(text));
      return known ?? compilePersonFilter(key, operator, { value, text, tools: matchTools });
    },
  };
  const shared = new Map<string, PersonFilter>();
  const byPosition: CompiledFlag[] = [];
  const byKey = new Map<string, CompiledFlag>();
  const continuityKeys: string[] = [];
  const limits = { runtime: false, contexts: false };
  for (const definition of definitions.flags) {
    if (!definition.active) continue;
    const flag = kept.flag(definition, cohorts) ?? compileFlag(definition, surroundings);
    byPosition.push(flag);
    noteFilters(shared, flag);
    byKey.set(definition.key, flag);
    if (flag.isContinuous) continuityKeys.push(definition.key);
    if (definition.evaluationRuntime !== "all") limits.runtime = true;
    if (definition.evaluationContexts.length > 0) limits.contexts = true;
  }
  const dependencies = resolveDependencies(definitions.flags, byPosition, byKey);
  const { ordered, cyclic } = orderByDependency(byPosition, dependencies);
  return {
    flags: ordered,
    cyclic,
    needs: uniteNeeds(ordered),
    byPosition,
    byKey,
    dependencies,
    limits,
    definitions,
    cohorts: surroundings.cohorts,
    continuityKeys,
    bucketing,
    holdoutPrefix: bucketing.encode(HOLDOUT_PREFIX),
    personFilters: shared,
    turns: earlier?.turns ?? { last: 0 },
  };
}

/** Longer texts are not kept for the sake of sharing a filter. */
const MAX_SHARED_TEXT = 200;

/** What a filter says, as text; `null` when that is long. */
function textToShare(key: string, operator: Operator, value: Json | undefined): string | null {
  if (Array.isArray(value) && value.length > MAX_SHARED_TEXT / 2) return null;
  if (typeof value === "string" && value.length > MAX_SHARED_TEXT) return null;
  const text = encodeJson([key, operator, value ?? null]);
  return text.length > MAX_SHARED_TEXT ? null : text;
}

function compilePersonFilter(
  key: string,
  operator: Operator,
  { value, text, tools }: { value: Json | undefined; text: string | null; tools: MatchTools },
): PersonFilter {
  return {
    kind: "person",
    property: personProperty(key),
    comparison: compileComparison(operator, value, tools),
    text,
    turn: 0,
    step: "no_condition_match",
  };
}

/** Notes the filters of a flag that others may share. */
function noteFilters(shared: Map<string, PersonFilter>, flag: CompiledFlag): void {
  for (const { filters } of flag.conditions) {
    for (const filter of filters) {
      if (filter.kind === "person" && filter.text !== null) shared.set(filter.text, filter);
    }
  }
}

const NO_FILTERS: ReadonlyMap<string, PersonFilter> = new Map();

/** What of an earlier set holds still. */
interface Kept {
  readonly personFilters: ReadonlyMap<string, PersonFilter>;
  readonly cohorts: ReadonlyMap<number, CompiledCohort> | undefined;
  flag(
    definition: FlagDefinition,
    cohorts: ReadonlyMap<number, CompiledCohort>,
  ): CompiledFlag | undefined;
}

function keep(now: ProjectDefinitions, earlier: FlagSet | undefined): Kept {
  const before = earlier?.definitions;
  if (!earlier || !before || before.timeZone !== now.timeZone || !haveSameGroups(before, now)) {
    return { personFilters: NO_FILTERS, cohorts: undefined, flag: () => undefined };
  }
  return {
    personFilters: earlier.personFilters,
    cohorts: earlier.cohorts,
    flag(definition, cohorts) {
      const flag = earlier.byKey.get(definition.key);
      if (flag?.definition !== definition) return undefined;
      const isSame = flag.cohortIds.every((id) => cohorts.get(id) === earlier.cohorts.get(id));
      return isSame ? flag : undefined;
    },
  };
}

function haveSameGroups(before: ProjectDefinitions, now: ProjectDefinitions): boolean {
  return (
    before.groupTypes.length === now.groupTypes.length &&
    before.groupTypes.every(({ index, name }, at) => {
      const other = now.groupTypes[at];
      return other?.index === index && other.name === name;
    })
  );
}

function compileFlag(definition: FlagDefinition, surroundings: Surroundings): CompiledFlag {
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

const NO_DEPENDENCIES: FlagDependencies = Object.freeze({
  targets: new Map(),
  ofFlags: new Map(),
  answered: new Set<never>(),
});

/** Finds what dependency filters refer to: by id first, then by key. */
function resolveDependencies(
  definitions: readonly FlagDefinition[],
  flags: readonly CompiledFlag[],
  byKey: ReadonlyMap<string, CompiledFlag>,
): FlagDependencies {
  const referring = flags.filter((flag) => flag.dependencies.length > 0);
  if (referring.length === 0) return NO_DEPENDENCIES;
  const byId = new Map(flags.map((flag) => [String(flag.identity.id), flag]));
  const off = new Set<string>();
  for (const { id, key, active } of definitions) if (!active) off.add(String(id)).add(key);
  const targets = new Map<string, CompiledFlag | null>();
  const ofFlags = new Map<CompiledFlag, ResolvedDependencies>();
  for (const flag of referring) {
    const found = new Set<CompiledFlag>();
    let isMissingOne = false;
    for (const name of flag.dependencies) {
      const target = byId.get(name) ?? byKey.get(name) ?? (off.has(name) ? null : undefined);
      if (target === undefined) isMissingOne = true;
      else targets.set(name, target);
      if (target) found.add(target);
    }
    ofFlags.set(flag, { flags: [...found], isMissingOne, rank: -1 });
  }
  const answered = new Set([...ofFlags.values()].flatMap((resolved) => resolved.flags));
  return { targets, ofFlags, answered };
}

/** Orders flags after those they depend on; what is left over lies on or behind a cycle. */
function orderByDependency(
  flags: readonly CompiledFlag[],
  { ofFlags }: FlagDependencies,
): { ordered: readonly CompiledFlag[]; cyclic: readonly CompiledFlag[] } {
  if (ofFlags.size === 0) return { ordered: flags, cyclic: [] };
  const waitingFor = new Map<CompiledFlag, number>();
  const dependants = new Map<CompiledFlag, CompiledFlag[]>();
  for (const [flag, { flags: targets }] of ofFlags) {
    if (targets.length > 0) waitingFor.set(flag, targets.length);
    for (const target of targets) {
      const known = dependants.get(target);
      if (known) known.push(flag);
      else dependants.set(target, [flag]);
    }
  }
  const ordered = flags.filter((flag) => !waitingFor.has(flag));
  for (let at = 0; at < ordered.length; at += 1) {
    const flag = ordered[at] as CompiledFlag;
    const resolved = ofFlags.get(flag);
    if (resolved) resolved.rank = at;
    for (const dependant of dependants.get(flag) ?? []) {
      const left = (waitingFor.get(dependant) ?? 0) - 1;
      waitingFor.set(dependant, left);
      if (left === 0) ordered.push(dependant);
    }
  }
  const done = new Set(ordered);
  return { ordered, cyclic: flags.filter((flag) => !done.has(flag)) };
}
