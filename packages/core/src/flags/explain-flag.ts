import { isJsonObject, type Json, type JsonObject, ownValue } from "../json.ts";
import { isHeldOut, NO_SALT, VARIANT_SALT } from "./bucketing.ts";
import { createFindFlag, type FindFlag } from "./dependency-cycle.ts";
import { type ConditionStep, Evaluation } from "./evaluate-flags.ts";
import type { EvaluationRequest } from "./evaluation-request.ts";
import type {
  FailureCode,
  FlagDefinition,
  FlagEvaluation,
  FlagIdentity,
  ProjectDefinitions,
} from "./flag.ts";
import type { CompiledCondition, CompiledFilter, CompiledFlag, FlagSet } from "./flag-set.ts";
import type { PropertyName } from "./person-property.ts";
import { read, UNAVAILABLE } from "./person-view.ts";
import { describeReason, type Ending } from "./reason.ts";

/** Why one flag has its value for one request, step by step. */
export interface FlagExplanation {
  readonly flag: FlagIdentity;
  readonly active: boolean;
  readonly value: boolean | string;
  readonly payload: Json;
  readonly reason: FlagEvaluation["reason"];
  readonly failed: boolean;
  /** Early-access enrolment; `null` for flags without. */
  readonly enrollment: EnrollmentExplanation | null;
  readonly holdout: BoundExplanation | null;
  readonly conditions: readonly ConditionExplanation[];
  /** How the variant was chosen; `null` where none had to be. */
  readonly variant: VariantExplanation | null;
  /** The flags that its conditions name, each explained in turn. */
  readonly dependencies: readonly FlagExplanation[];
}

/**
 * Where a value came from; `derived` is the result of another flag or of a cohort, `hidden` a stored
 * value that the reader may not see.
 */
export type ValueSource =
  | "request"
  | "override"
  | "geo"
  | "stored"
  | "hidden"
  | "derived"
  | "missing"
  | "unavailable";

/** A value as a filter saw it; `null` and `missing` where there was none. */
export interface SeenValue {
  readonly value: Json;
  readonly source: ValueSource;
}

export interface EnrollmentExplanation extends SeenValue {
  /** The property that enrols; `null` for the older form, a condition of its own. */
  readonly property: string | null;
  readonly decides: boolean;
}

/** A hash against the bound it must not exceed. */
export interface BoundExplanation {
  readonly percentage: number;
  /** What was hashed; `null` where it is not known. */
  readonly identifier: string | null;
  /** From 0 to 1; `null` where nothing was hashed since no hash could change the answer. */
  readonly hash: number | null;
  readonly bound: number;
  readonly isInside: boolean;
}

export interface ConditionExplanation {
  /** Position in the flag's conditions, from 0. */
  readonly index: number;
  /** False for conditions after the one that decided: their outcome is told, but changed nothing. */
  readonly isReached: boolean;
  readonly outcome: ConditionStep;
  /** The group that the condition is about; `null` for the person. */
  readonly group: { readonly type: string | null; readonly key: string | null } | null;
  readonly filters: readonly FilterExplanation[];
  readonly rollout: BoundExplanation;
  /** The variant that the condition pins, if it exists. */
  readonly variantOverride: string | null;
}

export interface FilterExplanation extends SeenValue {
  readonly kind: CompiledFilter["kind"];
  readonly key: string;
  readonly operator: string;
  /** What the filter compares with. */
  readonly expected: Json;
  readonly outcome: "match" | "no_condition_match" | FailureCode;
}

export interface VariantExplanation {
  readonly identifier: string | null;
  readonly hash: number | null;
  /** Each variant's part of 0 to 1: from (included) and to (excluded). */
  readonly shares: readonly { readonly key: string; readonly from: number; readonly to: number }[];
  readonly chosen: string | null;
}

/** Whose flags, for whom. */
export interface ExplainInput {
  readonly set: FlagSet;
  readonly definitions: Pick<ProjectDefinitions, "flags">;
  readonly request: EvaluationRequest;
}

/**
 * Explains a flag. Value and reason are those of the very evaluation that answers flag requests;
 * the steps are taken one by one by the same code. Dependencies are explained as far as they go.
 */
export function explainFlag(definition: FlagDefinition, input: ExplainInput): FlagExplanation {
  return new Explainer(input).explain(definition, []);
}

/** Flags that the explained one depends on, near and far, with their conditions and filters; more are left out. */
const MAX_BELOW = 20_000;

class Explainer {
  readonly #input: ExplainInput;
  readonly #findFlag: FindFlag;
  readonly #evaluation: Evaluation;
  readonly #answers = new Map<number, FlagEvaluation>();
  readonly #flags = new Map<number, CompiledFlag>();
  readonly #explained = new Set<number>();
  #left = MAX_BELOW;
  /** Flags that a bug of ours keeps from being evaluated. */
  readonly #faulty = new Set<number>();

  constructor(input: ExplainInput) {
    this.#input = input;
    const { set, request, definitions } = input;
    this.#findFlag = createFindFlag(definitions.flags);
    const evaluation = new Evaluation(set, request);
    // Dependencies come first in the set, so that this is the order of a request for all flags.
    for (const flag of set.flags) {
      this.#flags.set(flag.identity.id, flag);
      try {
        const answer = evaluation.evaluate(flag);
        evaluation.remember(flag, answer);
        this.#answers.set(flag.identity.id, answer);
      } catch {
        this.#faulty.add(flag.identity.id);
      }
    }
    this.#evaluation = evaluation;
  }

  explain(definition: FlagDefinition, path: readonly number[]): FlagExplanation {
    const compiled = this.#flags.get(definition.id);
    const answer = this.#answers.get(definition.id);
    // Told once: flags that depend on the same ones in turn would double the answer again and again.
    const isFirst = !this.#explained.has(definition.id);
    this.#explained.add(definition.id);
    const dependencies = isFirst ? this.#dependencies(definition, [...path, definition.id]) : [];
    if (compiled === undefined || answer === undefined) {
      const ending = this.#faulty.has(definition.id)
        ? "evaluation_fault"
        : definition.active
          ? "dependency_cycle_flag"
          : "flag_disabled";
      return { ...unevaluated(definition, ending), dependencies };
    }
    const { flag, value, payload, reason, failed } = answer;
    const decided = reason.code === "condition_match" || isEarlyExit(compiled, answer);
    const last = decided ? reason.conditionIndex : null;
    return {
      flag,
      active: true,
      value,
      payload,
      reason,
      failed,
      enrollment: this.#enrollment(compiled),
      holdout: this.#holdout(compiled),
      conditions: compiled.conditions.map((condition) => ({
        ...this.#condition(compiled, condition),
        isReached: this.#reachesConditions(answer) && (last === null || condition.index <= last),
      })),
      variant: this.#variant(compiled, answer),
      dependencies,
    };
  }

  #reachesConditions({ reason }: FlagEvaluation): boolean {
    return (
      reason.code !== "super_condition_value" &&
      reason.code !== "holdout_condition_value" &&
      reason.code !== "missing_dependency" &&
      reason.code !== "flag_data_parsing_error"
    );
  }

  #dependencies(definition: FlagDefinition, path: readonly number[]): readonly FlagExplanation[] {
    const names = new Set(
      rawConditionsOf(definition)
        .flatMap(rawFiltersOf)
        .filter((filter) => ownValue(filter, "type") === "flag")
        .map((filter) => String(ownValue(filter, "key"))),
    );
    const targets = [...names].flatMap((name) => this.#findFlag(name) ?? []);
    return targets
      .filter(({ id }) => !path.includes(id))
      .flatMap((target) => {
        const conditions = rawConditionsOf(target);
        this.#left -= 1 + conditions.length + conditions.flatMap(rawFiltersOf).length;
        return this.#left < 0 ? [] : this.explain(target, path);
      });
  }

  #enrollment(flag: CompiledFlag): EnrollmentExplanation | null {
    const decides = this.#evaluation.enrollment(flag) !== null;
    if (flag.enrollmentProperty !== null) {
      const property = flag.enrollmentProperty.text;
      return { property, ...this.#seen(flag.enrollmentProperty), decides };
    }
    if (flag.superCondition === null) return null;
    return { property: null, value: decides, source: "derived", decides };
  }

  #holdout(flag: CompiledFlag): BoundExplanation | null {
    if (flag.holdout === null) return null;
    const percentage = flag.holdout.exclusionPercentage;
    const { bucketing, holdoutPrefix } = this.#input.set;
    const identifier = this.#evaluation.holdoutIdentifier(flag);
    const hash =
      percentage >= 100 || identifier === null
        ? null
        : bucketing.hash(holdoutPrefix, identifier, NO_SALT);
    const isInside = percentage >= 100 || (hash !== null && isHeldOut(hash, percentage));
    return { percentage, identifier, hash, bound: boundOf(percentage), isInside };
  }

  #condition(
    flag: CompiledFlag,
    condition: CompiledCondition,
  ): Omit<ConditionExplanation, "isReached"> {
    const { aggregation, index } = condition;
    const raw = rawFiltersOf(rawConditionsOf(flag.definition)[index] ?? {});
    // Compiled conditions have their cohort filters last, otherwise in stored order.
    const isCohort = (filter: JsonObject) => ownValue(filter, "type") === "cohort";
    const ordered = [...raw.filter((filter) => !isCohort(filter)), ...raw.filter(isCohort)];
    const outcome = this.#evaluation.condition(flag, condition);
    return {
      index,
      outcome,
      group: aggregation && {
        type: aggregation.groupName,
        key: this.#evaluation.groupKey(aggregation.groupName),
      },
      filters: condition.filters.map((filter, at) => this.#filter(filter, ordered[at] ?? {})),
      rollout: this.#rollout(flag, condition, outcome),
      variantOverride: flag.variantKeys[condition.variantIndex] ?? null,
    };
  }

  #rollout(
    flag: CompiledFlag,
    condition: CompiledCondition,
    outcome: ConditionStep,
  ): BoundExplanation {
    const percentage = condition.rolloutPercentage;
    const identifier = this.#evaluation.conditionIdentifier(flag, condition);
    const isKnown = identifier !== null && !this.#evaluation.isWithheld(flag, condition);
    const hash =
      percentage === 100 || !isKnown ? null : this.#evaluation.hash(flag, identifier, NO_SALT);
    const bound = boundOf(percentage);
    const isInside = outcome === "match" || percentage === 100 || (hash !== null && hash <= bound);
    return { percentage, identifier, hash, bound, isInside };
  }

  #filter(filter: CompiledFilter, raw: JsonObject): FilterExplanation {
    const outcome = this.#evaluation.filter(filter);
    const told = {
      kind: filter.kind,
      key: String(ownValue(raw, "key") ?? ""),
      operator: String(ownValue(raw, "operator") ?? (filter.kind === "cohort" ? "in" : "exact")),
      expected: ownValue(raw, "value") ?? null,
      outcome,
    };
    switch (filter.kind) {
      case "person":
        return { ...told, ...this.#seen(filter.property) };
      case "person_metadata": {
        const value = filter.isCreatedAt ? this.#evaluation.createdAt() : undefined;
        return { ...told, ...seenValue(value, "stored") };
      }
      case "group": {
        const value = this.#evaluation.groupValue(filter);
        return { ...told, ...seenValue(value, this.#groupSource(filter)) };
      }
      case "flag": {
        const target = this.#findFlag(told.key);
        const value = target && (this.#answers.get(target.id)?.value ?? false);
        return { ...told, key: target?.key ?? told.key, ...seenValue(value, "derived") };
      }
      case "cohort": {
        const isFailure = outcome !== "match" && outcome !== "no_condition_match";
        const isMember =
          isFailure || filter.wanted === null ? undefined : (outcome === "match") === filter.wanted;
        return { ...told, ...seenValue(isMember, "derived") };
      }
    }
  }

  #seen(property: PropertyName): SeenValue {
    return seenValue(this.#evaluation.value(property), this.#personSource(property));
  }

  /** Where the property's value stands first, in the order in which evaluation looks. */
  #personSource(property: PropertyName): ValueSource {
    const own = this.#ownSource(property);
    return own === "missing" && property.standIn !== null ? this.#ownSource(property.standIn) : own;
  }

  #ownSource(property: PropertyName): ValueSource {
    const { personProperties, geoProperties, stored } = this.#input.request;
    const sent = read(personProperties, property);
    if (sent !== undefined && sent !== null) return "override";
    if (read(geoProperties, property) !== undefined) return "geo";
    if (sent === null) return "override";
    if (property.text === "distinct_id") return "request";
    if (stored.person === "unavailable") return "unavailable";
    const known = stored.person === null ? undefined : read(stored.person.properties, property);
    return known === undefined ? "missing" : "stored";
  }

  #groupSource({ groupName, property }: Extract<CompiledFilter, { kind: "group" }>): ValueSource {
    if (property.text === "$group_key") return "request";
    const { groupProperties } = this.#input.request;
    const sent =
      groupName !== null && Object.hasOwn(groupProperties, groupName)
        ? groupProperties[groupName]
        : undefined;
    return sent !== undefined && read(sent, property) !== undefined ? "override" : "stored";
  }

  #variant(flag: CompiledFlag, { reason, value }: FlagEvaluation): VariantExplanation | null {
    if (reason.code !== "condition_match" || flag.variantKeys.length === 0) return null;
    const condition = flag.conditions.find(({ index }) => index === reason.conditionIndex);
    if (condition === undefined || condition.variantIndex !== -1) return null;
    const identifier = this.#evaluation.conditionIdentifier(flag, condition);
    const hash = identifier === null ? null : this.#evaluation.hash(flag, identifier, VARIANT_SALT);
    const shares = flag.variantKeys.map((key, at) => ({
      key,
      from: at === 0 ? 0 : (flag.variantBounds[at - 1] ?? 0),
      to: flag.variantBounds[at] ?? 0,
    }));
    return { identifier, hash, shares, chosen: typeof value === "string" ? value : null };
  }
}

function boundOf(percentage: number): number {
  return Math.min(Math.max(percentage, 0), 100) / 100;
}

function seenValue(value: Json | undefined | typeof UNAVAILABLE, source: ValueSource): SeenValue {
  if (value === UNAVAILABLE) return { value: null, source: "unavailable" };
  return value === undefined ? { value: null, source: "missing" } : { value, source };
}

/** A condition that passes its filters but not its rollout ends the evaluation of such a flag. */
function isEarlyExit(flag: CompiledFlag, { reason }: FlagEvaluation): boolean {
  return flag.exitsEarly && reason.code === "out_of_rollout_bound";
}

function unevaluated(
  definition: FlagDefinition,
  ending: Extract<Ending, "flag_disabled" | "dependency_cycle_flag" | "evaluation_fault">,
): Omit<FlagExplanation, "dependencies"> {
  const { id, key, name, version, hasExperiment, active } = definition;
  return {
    flag: { id, key, name, version, hasExperiment },
    active,
    value: false,
    payload: null,
    reason: { code: ending, conditionIndex: null, description: describeReason(ending, null) },
    failed: ending !== "flag_disabled",
    enrollment: null,
    holdout: null,
    conditions: [],
    variant: null,
  };
}

function rawConditionsOf({ filters }: FlagDefinition): readonly JsonObject[] {
  const groups = ownValue(filters, "groups") ?? null;
  if (groups === null) return [filters];
  return Array.isArray(groups) ? (groups as readonly Json[]).filter(isJsonObject) : [];
}

function rawFiltersOf(condition: JsonObject): readonly JsonObject[] {
  const properties = ownValue(condition, "properties");
  return Array.isArray(properties) ? (properties as readonly Json[]).filter(isJsonObject) : [];
}
