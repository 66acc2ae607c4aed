import { readCohortId } from "../cohorts/read-cohort-filters.ts";
import { findUncomputableCohort } from "../cohorts/uncomputable-cohort.ts";
import { countMembers, encodeJson } from "../exact-json.ts";
import { isJsonObject, type Json, type JsonObject, ownValue } from "../json.ts";
import { createFindFlag, dependencyNames, findCycle } from "./dependency-cycle.ts";
import type { CohortDefinition, FlagDefinition, ProjectDefinitions } from "./flag.ts";
import { KEYS, SpellingCheck } from "./misspelt-key.ts";
import { StoredPatterns, validateComparison } from "./validate-comparison.ts";

/** What is wrong with a body: the field, a stable code, and a text for its author. */
export interface DefinitionProblem {
  readonly attr: string;
  readonly code: string;
  readonly detail: string;
}

/** What the filters of a flag are checked against. */
export interface FilterContext {
  readonly definitions: Pick<ProjectDefinitions, "flags" | "cohorts" | "timeZone">;
  /** The flag being changed; `null` for one being created. */
  readonly id: number | null;
  readonly key: string;
}

const MAX_LIST_VALUES = 1_000;
/** A flag is compiled whole and each of its filters may run in every request: larger ones hurt everyone. */
const MAX_CONDITIONS = 1_000;
const MAX_FILTERS = 5_000;
const MAX_VARIANTS = 1_000;
/** Members of objects and lists in the payloads of a flag, which are read whenever they are checked. */
const MAX_PAYLOAD_MEMBERS = 100_000;
/** Problems that are told: finding more of them takes time. */
const MAX_PROBLEMS = 20;
const MAX_GROUP_TYPE_INDEX = 4;

/** Sums of shares may be off by binary noise, not by a thousandth. */
const SUM_TOLERANCE = 1e-9;

const PERSON_TYPES = new Set<Json>(["person", "person_metadata", "cohort", "flag"]);
const MIXED_TYPES = new Set<Json>([...PERSON_TYPES, "group"]);

/**
 * Checks the `filters` of a flag before they are stored (posthog-api 4.3): whatever passes can be
 * evaluated. Lists every problem found, the one to report first; the texts are PostHog's where it
 * has the same check.
 */
export function validateFilters(
  filters: Json,
  context: FilterContext,
): readonly DefinitionProblem[] {
  if (!isJsonObject(filters)) return [problem("invalid_input", "filters must be an object")];
  const check = new FilterCheck(context);
  check.all(filters);
  return check.problems;
}

/** What may be wrong with filters that are not stored, since they name no conditions (`groups`). */
export function validateSpelling(filters: JsonObject): readonly DefinitionProblem[] {
  const found = new SpellingCheck().problemIn(filters, KEYS.filters, "filters");
  return found === null ? [] : [problem("invalid_input", found)];
}

function problem(code: string, detail: string): DefinitionProblem {
  return { attr: "filters", code, detail };
}

/** One pass over the filters of one flag. */
class FilterCheck {
  readonly problems: DefinitionProblem[] = [];
  readonly #context: FilterContext;
  readonly #spellingCheck = new SpellingCheck();
  /** Of the project, by id; read with the first filter that names one. */
  #cohorts: ReadonlyMap<number, CohortDefinition> | undefined;
  readonly #uncomputable = new Map<number, CohortDefinition | null>();

  constructor(context: FilterContext) {
    this.#context = context;
  }

  #isTooLarge(lists: Readonly<Record<string, readonly JsonObject[]>>): boolean {
    let filters = 0;
    for (const [name, conditions] of Object.entries(lists)) {
      if (conditions.length > MAX_CONDITIONS) {
        this.#add(`filters.${name} cannot have more than ${MAX_CONDITIONS} conditions.`);
        return true;
      }
      for (const condition of conditions) {
        const properties = ownValue(condition, "properties");
        if (Array.isArray(properties)) filters += properties.length;
      }
    }
    if (filters <= MAX_FILTERS) return false;
    this.#add(`A flag cannot have more than ${MAX_FILTERS} filters.`);
    return true;
  }

  /** All patterns are weighed before any is compiled. */
  #isOverweight(lists: Readonly<Record<string, readonly JsonObject[]>>): boolean {
    const patterns = new StoredPatterns("flag");
    for (const [name, conditions] of Object.entries(lists)) {
      for (const [group, condition] of conditions.entries()) {
        const properties = ownValue(condition, "properties");
        if (!Array.isArray(properties)) continue;
        for (const [at, filter] of (properties as readonly Json[]).entries()) {
          if (!isJsonObject(filter)) continue;
          const found = patterns.add(
            ownValue(filter, "operator") ?? null,
            ownValue(filter, "value"),
          );
          if (found === null) continue;
          this.#add(`filters.${name}[${group}].properties[${at}]: ${found}`);
          return true;
        }
      }
    }
    return false;
  }

  all(filters: JsonObject): void {
    this.#spelling(filters, KEYS.filters, "filters");
    const version = ownValue(filters, "version") ?? null;
    if (version !== null && version !== 1)
      this.#add(`filters.version must be 1, not ${show(version)}`);
    const aggregation = this.#groupTypeIndex(filters, "filters");
    this.#flag(filters, "feature_enrollment");
    this.#flag(filters, "early_exit");
    const conditions = this.#objects(filters, "groups", "filters");
    const superConditions = this.#objects(filters, "super_groups", "filters");
    const lists = {
      groups: conditions,
      super_groups: superConditions,
      holdout_groups: this.#objects(filters, "holdout_groups", "filters"),
    };
    if (this.#isTooLarge(lists) || this.#isOverweight(lists)) return;
    for (const [at, condition] of conditions.entries()) {
      if (this.#isFull) return;
      this.#condition(condition, `filters.groups[${at}]`, aggregation);
    }
    for (const [at, condition] of superConditions.entries()) {
      if (this.#isFull) return;
      this.#condition(condition, `filters.super_groups[${at}]`, null);
    }
    const variantKeys = this.#variants(filters);
    for (const condition of conditions) {
      const variant = ownValue(condition, "variant") ?? "";
      if (variant !== "" && typeof variant === "string" && !variantKeys.has(variant)) {
        this.#add("Filters are not valid (variant override does not exist)");
      }
    }
    this.#dependencies(filters);
    this.#holdouts(filters, lists.holdout_groups);
    this.#payloads(filters, variantKeys);
  }

  /** Whether so much is wrong that it is not worth the time to find more. */
  get #isFull(): boolean {
    return this.problems.length >= MAX_PROBLEMS;
  }

  #add(detail: string, code = "invalid_input"): void {
    this.problems.push(problem(code, detail));
  }

  /** Unknown keys are ignored, but for those that can only be slips: ignoring them changes who gets a flag. */
  #spelling(object: JsonObject, known: readonly string[], path: string): void {
    const found = this.#spellingCheck.problemIn(object, known, path);
    if (found !== null) this.#add(found);
  }

  /** The objects of a list; an absent or null list is empty, anything else a problem. */
  #objects(parent: JsonObject, key: string, path: string): readonly JsonObject[] {
    const list = ownValue(parent, key) ?? null;
    if (list === null) return [];
    if (!Array.isArray(list)) {
      this.#add(`${path}.${key} must be a list`);
      return [];
    }
    const objects: JsonObject[] = [];
    for (const [at, entry] of (list as readonly Json[]).entries()) {
      if (this.#isFull) break;
      if (isJsonObject(entry)) objects.push(entry);
      else this.#add(`${path}.${key}[${at}] must be an object`);
    }
    return objects;
  }

  #flag(parent: JsonObject, key: string): void {
    const value = ownValue(parent, key) ?? false;
    if (typeof value !== "boolean") this.#add(`filters.${key} must be true or false`);
  }

  /** A group type index; `null` for the person, `undefined` where nothing is said. */
  #groupTypeIndex(parent: JsonObject, path: string): number | null | undefined {
    const index = ownValue(parent, "aggregation_group_type_index");
    if (index === undefined || index === null) return index;
    if (isGroupTypeIndex(index)) return index;
    this.#add(
      `${path}.aggregation_group_type_index must be an integer from 0 to ${MAX_GROUP_TYPE_INDEX}`,
    );
    return null;
  }

  #percentage(parent: JsonObject, key: string, path: string): void {
    const value = ownValue(parent, key) ?? null;
    if (value !== null && !isPercentage(value)) {
      this.#add(`${path}.${key} must be a number from 0 to 100, not ${show(value)}`);
    }
  }

  #condition(
    condition: JsonObject,
    path: string,
    flagAggregation: number | null | undefined,
  ): void {
    this.#spelling(condition, KEYS.condition, path);
    if (isOfUnknownKeys(condition)) {
      this.#add(`${path} has none of the fields ${KEYS.condition.join(", ")}`);
    }
    this.#percentage(condition, "rollout_percentage", path);
    const variant = ownValue(condition, "variant") ?? null;
    if (variant !== null && typeof variant !== "string") {
      this.#add(`${path}.variant must be the key of a variant`);
    }
    const own = this.#groupTypeIndex(condition, path);
    const filters = this.#objects(condition, "properties", path);
    for (const [at, filter] of filters.entries()) {
      this.#spelling(filter, KEYS.filter, `${path}.properties[${at}]`);
    }
    if (this.#hasAllowedTypes(filters, own, flagAggregation)) {
      for (const [at, filter] of filters.entries()) {
        if (this.#isFull) return;
        this.#filter(filter, `${path}.properties[${at}]`);
      }
    }
  }

  /** Which kinds of filters a condition may use depends on whom it aggregates by. */
  #hasAllowedTypes(
    filters: readonly JsonObject[],
    own: number | null | undefined,
    flagAggregation: number | null | undefined,
  ): boolean {
    const aggregation = own === undefined ? flagAggregation : own;
    const typeOf = (filter: JsonObject): Json => ownValue(filter, "type") ?? "person";
    if (typeof aggregation !== "number") {
      if (filters.every((filter) => PERSON_TYPES.has(typeOf(filter)))) return true;
      this.#add("Filters are not valid (can only use person, cohort, and flag properties)");
      return false;
    }
    // A condition with an aggregation of its own may mix: the server reads each filter by its type.
    const isAllowed = (filter: JsonObject): boolean => {
      if (own !== undefined) return MIXED_TYPES.has(typeOf(filter));
      const index = ownValue(filter, "group_type_index") ?? aggregation;
      return typeOf(filter) === "flag" || (typeOf(filter) === "group" && index === aggregation);
    };
    if (filters.every(isAllowed)) return true;
    this.#add("Filters are not valid (can only use group properties)");
    return false;
  }

  #filter(filter: JsonObject, path: string): void {
    const type = ownValue(filter, "type") ?? "person";
    const value = ownValue(filter, "value");
    const operator = ownValue(filter, "operator") ?? null;
    const key = ownValue(filter, "key");
    if (type === "cohort") {
      this.#cohort(value, operator, path);
      return;
    }
    if (typeof key !== "string" && !(type === "flag" && Number.isSafeInteger(key))) {
      this.#add(`${path}.key must be text`);
      return;
    }
    if (key === "") this.#add(`${path}.key may not be blank`);
    if (Array.isArray(value) && value.length > MAX_LIST_VALUES) {
      this.#add(
        `Property group expressions of type ${key} cannot contain more than ${MAX_LIST_VALUES} values.`,
      );
      return;
    }
    if (type === "flag") {
      if (operator !== "flag_evaluates_to") {
        this.#add(`Invalid operator: ${show(operator)}`, "invalid_operator");
      } else if (typeof value !== "boolean" && typeof value !== "string") {
        this.#add(
          `Invalid value for operator flag_evaluates_to: ${show(value ?? null)}`,
          "invalid_value",
        );
      }
      return;
    }
    if (type === "person_metadata" && key !== "created_at") {
      this.#add(`${path}.key: a person has no metadata but created_at`);
    }
    const index = ownValue(filter, "group_type_index") ?? null;
    if (index !== null && !isGroupTypeIndex(index)) {
      this.#add(`${path}.group_type_index must be an integer from 0 to ${MAX_GROUP_TYPE_INDEX}`);
    }
    const { timeZone } = this.#context.definitions;
    const found = validateComparison(operator, value, timeZone);
    if (found !== null) this.#add(found.detail, found.code);
  }

  #cohort(value: Json | undefined, operator: Json, path: string): void {
    const id = readCohortId(value);
    if (id === null) {
      this.#add(`${path}.value must be the id of a cohort`);
      return;
    }
    const { definitions } = this.#context;
    this.#cohorts ??= new Map(definitions.cohorts.map((cohort) => [cohort.id, cohort]));
    const cohort = this.#cohorts.get(id);
    if (cohort === undefined) {
      this.#add(`Cohort with id ${id} does not exist`, "cohort_does_not_exist");
      return;
    }
    let behavioral = this.#uncomputable.get(id);
    if (behavioral === undefined) {
      behavioral = findUncomputableCohort(cohort, this.#cohorts, definitions.timeZone);
      this.#uncomputable.set(id, behavioral);
    }
    if (behavioral !== null) {
      this.#add(
        `Cohort '${behavioral.name}' with filters on events cannot be used in feature flags.`,
        "behavioral_cohort_found",
      );
    }
    if (operator !== null && operator !== "in" && operator !== "not_in") {
      this.#add(`Invalid operator: ${show(operator)}`, "invalid_operator");
    }
  }

  #variants(filters: JsonObject): ReadonlySet<string> {
    const keys = new Set<string>();
    const multivariate = ownValue(filters, "multivariate") ?? null;
    if (multivariate === null) return keys;
    if (!isJsonObject(multivariate)) {
      this.#add("filters.multivariate must be an object");
      return keys;
    }
    const path = "filters.multivariate";
    this.#spelling(multivariate, KEYS.multivariate, path);
    const variants = this.#objects(multivariate, "variants", path);
    if (variants.length > MAX_VARIANTS) {
      this.#add(`A flag cannot have more than ${MAX_VARIANTS} variants.`);
      return keys;
    }
    const before = this.problems.length;
    let sum = 0;
    for (const [at, variant] of variants.entries()) {
      if (this.#isFull) return keys;
      this.#spelling(variant, KEYS.variant, `${path}.variants[${at}]`);
      const key = ownValue(variant, "key");
      const share = ownValue(variant, "rollout_percentage") ?? null;
      if (typeof key !== "string" || key === "") {
        this.#add(`${path}.variants[${at}].key must be text and may not be blank`);
      } else if (keys.has(key)) {
        this.#add(`${path}.variants[${at}].key: '${key}' is used twice`);
      } else {
        keys.add(key);
      }
      if (isPercentage(share)) sum += share;
      else {
        this.#add(
          `${path}.variants[${at}].rollout_percentage must be a number from 0 to 100, not ${show(share)}`,
        );
      }
    }
    const areReadable = this.problems.length === before;
    if (areReadable && variants.length > 0 && !(Math.abs(sum - 100) <= SUM_TOLERANCE)) {
      this.#add("Invalid variant definitions: Variant rollout percentages must sum to 100.");
    }
    return keys;
  }

  #dependencies(filters: JsonObject): void {
    const { definitions, id, key } = this.#context;
    const findFlag = createFindFlag(definitions.flags.filter((flag) => flag.id !== id));
    const own = dependencyNames(filters);
    if (own.some((name) => name === key || name === String(id))) {
      this.#add(`Feature flag '${key}' cannot depend on itself`);
      return;
    }
    const targets: FlagDefinition[] = [];
    for (const name of own) {
      if (this.#isFull) return;
      const target = findFlag(name);
      if (target !== undefined) targets.push(target);
      else if (/^[0-9]+$/.test(name)) {
        this.#add(`Flag dependency references non-existent flag with ID ${name}`);
      } else {
        this.#add(
          `Flag dependencies must reference flag IDs (integers), not flag keys. Invalid reference: '${name}'`,
        );
      }
    }
    const cycle = findCycle({ id, key }, targets, findFlag);
    if (cycle !== null) this.#add(`Circular dependency detected: ${cycle.join(" → ")}`);
  }

  #holdouts(filters: JsonObject, groups: readonly JsonObject[]): void {
    const holdout = ownValue(filters, "holdout") ?? null;
    if (holdout !== null) {
      if (!isJsonObject(holdout)) this.#add("filters.holdout must be an object");
      else {
        if (!Number.isSafeInteger(ownValue(holdout, "id"))) {
          this.#add("filters.holdout.id must be an integer");
        }
        if (!isPercentage(ownValue(holdout, "exclusion_percentage") ?? null)) {
          this.#add("filters.holdout.exclusion_percentage must be a number from 0 to 100");
        }
      }
    }
    for (const [at, group] of groups.entries()) {
      if (this.#isFull) return;
      this.#spelling(group, KEYS.condition, `filters.holdout_groups[${at}]`);
      this.#percentage(group, "rollout_percentage", `filters.holdout_groups[${at}]`);
    }
  }

  #payloads(filters: JsonObject, variantKeys: ReadonlySet<string>): void {
    const payloads = ownValue(filters, "payloads") ?? null;
    if (payloads === null) return;
    if (!isJsonObject(payloads)) {
      this.#add("Payloads must be passed as a dictionary");
      return;
    }
    let members = 0;
    for (const [key, payload] of Object.entries(payloads)) {
      if (typeof payload === "string") members += countMembers(payload);
      if (members > MAX_PAYLOAD_MEMBERS) {
        this.#add(
          `Payloads cannot have more than ${MAX_PAYLOAD_MEMBERS} values in sum: see '${key}'`,
        );
        return;
      }
      // An empty text stands for no payload; anything but text is JSON already.
      if (typeof payload === "string" && payload !== "" && !isJsonText(payload)) {
        this.#add(`Payload value is not valid JSON: see '${key}'`);
      }
    }
    const keys = Object.keys(payloads);
    const isExtra = extraPayloadKeys(filters);
    if ((ownValue(filters, "multivariate") ?? null) === null) {
      if (!keys.every((key) => key === "true" || isExtra(key))) {
        this.#add("Payload keys must be 'true' for boolean flags");
      }
    } else if (!keys.every((key) => variantKeys.has(key) || isExtra(key))) {
      this.#add("Payload keys must match a variant key for multivariate flags");
    }
  }
}

/** Holdouts answer a variant of their own, enrolment answers true whatever the variants. */
function extraPayloadKeys(filters: JsonObject): (key: string) => boolean {
  const holdout = ownValue(filters, "holdout") ?? null;
  const holdoutKey = isJsonObject(holdout) ? `holdout-${String(ownValue(holdout, "id"))}` : null;
  const legacy = ownValue(filters, "holdout_groups") ?? null;
  const hasLegacyHoldout = Array.isArray(legacy) && legacy.length > 0;
  const enrolls =
    ownValue(filters, "feature_enrollment") === true ||
    (ownValue(filters, "super_groups") ?? null) !== null;
  return (key) =>
    key === holdoutKey ||
    (hasLegacyHoldout && key.startsWith("holdout-")) ||
    (enrolls && key === "true");
}

/** A condition that says something, but nothing that counts, would be for everyone. */
function isOfUnknownKeys(condition: JsonObject): boolean {
  const keys = Object.keys(condition);
  return keys.length > 0 && !KEYS.condition.some((key) => Object.hasOwn(condition, key));
}

function isGroupTypeIndex(value: Json): value is number {
  return (
    typeof value === "number" &&
    Number.isInteger(value) &&
    value >= 0 &&
    value <= MAX_GROUP_TYPE_INDEX
  );
}

function isPercentage(value: Json): value is number {
  return typeof value === "number" && value >= 0 && value <= 100;
}

function isJsonText(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

/** A value as an error text shows it, cut where it is long. */
function show(value: Json): string {
  const text = typeof value === "string" ? value : encodeJson(value);
  return text.length > 100 ? `${text.slice(0, 100)}…` : text;
}
