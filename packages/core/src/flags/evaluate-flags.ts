import { matchCohort } from "../cohorts/match-cohort.ts";
import { type Json, ownValue } from "../json.ts";
import {
  chooseVariant,
  type EncodedText,
  isHeldOut,
  isInsideRollout,
  NO_SALT,
  VARIANT_SALT,
} from "./bucketing.ts";
import type { EvaluationRequest } from "./evaluation-request.ts";
import type { FailureCode, FlagEvaluation } from "./flag.ts";
import type {
  CompiledCondition,
  CompiledFilter,
  CompiledFlag,
  FilterStep,
  FlagSet,
  PersonFilter,
  SelectedFlags,
} from "./flag-set.ts";
import { compare } from "./match-property.ts";
import { PersonView, read, UNAVAILABLE } from "./person-view.ts";
import { describeReason, type Ending, isFailure, rankOf, reasonCode } from "./reason.ts";
import { selectFlags } from "./select-flags.ts";

/** What a request's flags came to. */
export interface EvaluationResult {
  /**
   * One per flag evaluated, failed ones included; flags on a dependency cycle are left out (11.5).
   * Equal outcomes of a flag are the same frozen-by-contract object from one call to the next; a
   * caller may keep what it derives from one (its JSON, say) in its `derived`.
   */
  readonly evaluations: readonly FlagEvaluation[];
  /** Keys that could not be computed, those left out included. */
  readonly failedKeys: readonly string[];
  readonly errorsWhileComputing: boolean;
  /** Bugs of ours, for the caller's log: each made its flag fail with `evaluation_fault`. */
  readonly faults: readonly { readonly key: string; readonly error: unknown }[];
}

/** What one condition came to (flag-evaluation 4). */
export type ConditionStep =
  | "match"
  | "no_condition_match"
  | "out_of_rollout_bound"
  | "no_group_type"
  | FailureCode;

const NO_KEYS: readonly string[] = [];
const NO_FAULTS: EvaluationResult["faults"] = [];

/**
 * Evaluates the flags a request selects (flag-evaluation 4 to 12, 14, 15). Never throws.
 * @param selected the flags the request selects, where the caller has them already
 */
export function evaluateFlags(
  set: FlagSet,
  request: EvaluationRequest,
  selected: SelectedFlags = selectFlags(set, request.selection),
): EvaluationResult {
  const { flags, cyclic } = selected;
  const evaluation = new Evaluation(set, request);
  const isReferredTo = set.dependencies.answered.size > 0;
  const evaluations = new Array<FlagEvaluation>(flags.length);
  let failedKeys: string[] | null = null;
  let faults: { key: string; error: unknown }[] | null = null;
  for (let at = 0; at < flags.length; at += 1) {
    const flag = flags[at] as CompiledFlag;
    let answer: FlagEvaluation;
    try {
      answer = evaluation.evaluate(flag);
    } catch (error) {
      answer = answerOf(flag, "evaluation_fault", null);
      faults ??= [];
      faults.push({ key: flag.identity.key, error });
    }
    if (isReferredTo) evaluation.remember(flag, answer);
    evaluations[at] = answer;
    if (answer.failed) {
      failedKeys ??= [];
      failedKeys.push(flag.identity.key);
    }
  }
  if (cyclic.length > 0) {
    failedKeys = [...(failedKeys ?? NO_KEYS), ...cyclic.map((flag) => flag.identity.key)];
  }
  return {
    evaluations,
    failedKeys: failedKeys ?? NO_KEYS,
    errorsWhileComputing: failedKeys !== null,
    faults: faults ?? NO_FAULTS,
  };
}

/**
 * One evaluation: the request seen through a compiled set. Its steps are public so that an
 * explanation walks the very same path, one step at a time.
 */
export class Evaluation extends PersonView {
  declare private readonly set: FlagSet;
  declare private readonly request: EvaluationRequest;
  declare private readonly answers: Map<CompiledFlag, FlagEvaluation> | null;
  declare private readonly turn: number;

  constructor(set: FlagSet, request: EvaluationRequest) {
    super(request);
    this.set = set;
    this.request = request;
    this.answers = set.dependencies.ofFlags.size > 0 ? new Map() : null;
    set.turns.last += 1;
    this.turn = set.turns.last;
  }

  /** Keeps an answer for the flags that depend on it. */
  remember(flag: CompiledFlag, answer: FlagEvaluation): void {
    if (this.answers === null || !this.set.dependencies.answered.has(flag)) return;
    this.answers.set(flag, answer);
  }

  /** One flag, its dependencies having been evaluated before (flag-evaluation 4). */
  evaluate(flag: CompiledFlag): FlagEvaluation {
    if (flag.isPlain) return this.conditions(flag);
    if (flag.failure !== null) return answerOf(flag, flag.failure, null);
    if (flag.dependencies.length > 0 && this.missesDependency(flag)) {
      return answerOf(flag, "missing_dependency", null);
    }
    return this.enrollment(flag) ?? this.holdout(flag) ?? this.conditions(flag);
  }

  private missesDependency(flag: CompiledFlag): boolean {
    const resolved = this.set.dependencies.ofFlags.get(flag);
    if (resolved === undefined || resolved.isMissingOne) return true;
    return resolved.flags.some(
      (target) => this.answers?.get(target)?.reason.code === "missing_dependency",
    );
  }

  /** Early-access enrolment; `null` when it does not decide (flag-evaluation 8). */
  enrollment(flag: CompiledFlag): FlagEvaluation | null {
    if (flag.enrollmentProperty !== null) {
      const value = this.value(flag.enrollmentProperty);
      if (value === UNAVAILABLE) return answerOf(flag, "database_error", null);
      if (value === undefined) return null;
      return enrolled(flag, value === true || value === "true");
    }
    const { superCondition } = flag;
    if (superCondition === null) return null;
    const isConcerned = this.hasAnyProperty(superCondition);
    if (isConcerned === UNAVAILABLE) return answerOf(flag, "database_error", null);
    if (!isConcerned) return null;
    const step = this.condition(flag, superCondition);
    return step === "match" || !isFailureStep(step)
      ? enrolled(flag, step === "match")
      : answerOf(flag, step, null);
  }

  private hasAnyProperty(condition: CompiledCondition): boolean | typeof UNAVAILABLE {
    let isUnavailable = false;
    for (const filter of condition.filters) {
      if (filter.kind !== "person") continue;
      const value = this.value(filter.property);
      if (value === UNAVAILABLE) isUnavailable = true;
      else if (value !== undefined) return true;
    }
    return isUnavailable ? UNAVAILABLE : false;
  }

  /** The holdout's answer; `null` outside it (flag-evaluation 9). */
  holdout(flag: CompiledFlag): FlagEvaluation | null {
    const { holdout } = flag;
    if (holdout === null) return null;
    if (holdout.exclusionPercentage >= 100) return holdout.answer;
    const identifier = this.holdoutIdentifier(flag);
    if (identifier === null) return null;
    const hash = this.set.bucketing.hash(this.set.holdoutPrefix, identifier, NO_SALT);
    return isHeldOut(hash, holdout.exclusionPercentage) ? holdout.answer : null;
  }

  /** Stored overrides do not count here, the request's anonymous id does (9.3). */
  holdoutIdentifier(flag: CompiledFlag): string | null {
    if (flag.aggregation !== null) {
      return this.groupKey(flag.aggregation.groupName);
    }
    if (flag.isDeviceBucketed) return this.deviceId() ?? this.request.distinctId;
    const anonymous = flag.isContinuous ? this.request.anonDistinctId : null;
    return anonymous || this.request.distinctId;
  }

  private conditions(flag: CompiledFlag): FlagEvaluation {
    let best: Ending = "no_group_type";
    let bestRank = 0;
    let bestIndex: number | null = null;
    let skippedGroups = false;
    const { conditions } = flag;
    for (let at = 0; at < conditions.length; at += 1) {
      const condition = conditions[at] as CompiledCondition;
      const step = this.condition(flag, condition);
      if (step === "match") return this.matched(flag, condition);
      if (isFailureStep(step)) return answerOf(flag, step, condition.index);
      const rank = rankOf(step);
      if (rank >= bestRank) {
        best = step;
        bestRank = rank;
        bestIndex = condition.index;
      }
      if (step === "no_group_type") skippedGroups = true;
      // A condition withheld for want of a device id was never asked about its filters.
      if (step === "out_of_rollout_bound" && flag.exitsEarly && !this.isWithheld(flag, condition)) {
        return answerOf(flag, step, condition.index);
      }
    }
    if (best === "no_condition_match" && skippedGroups) best = "no_condition_match_groups_skipped";
    return answerOf(flag, best, bestIndex);
  }

  /** One condition: aggregation, filters, rollout, in this order. */
  condition(flag: CompiledFlag, condition: CompiledCondition): ConditionStep {
    const { aggregation, filters } = condition;
    if (aggregation !== null) {
      if (this.groupKey(aggregation.groupName) === null) return "no_group_type";
    } else if (flag.isDeviceBucketed && this.isWithheld(flag, condition)) {
      return "out_of_rollout_bound";
    }
    for (let at = 0; at < filters.length; at += 1) {
      const filter = filters[at] as CompiledFilter;
      const step = filter.kind === "person" ? this.personFilter(filter) : this.filter(filter);
      if (step !== "match") return step;
    }
    return condition.rolloutPercentage === 100 ? "match" : this.rollout(flag, condition);
  }

  /** A person condition whose hash would need a device id that was not sent (5.4). */
  isWithheld(flag: CompiledFlag, condition: CompiledCondition): boolean {
    return (
      flag.isDeviceBucketed &&
      condition.aggregation === null &&
      condition.hashDecides &&
      this.deviceId() === null
    );
  }

  /** One filter. */
  filter(filter: CompiledFilter): FilterStep {
    switch (filter.kind) {
      case "person":
        return this.personFilter(filter);
      case "group": {
        const value = this.groupValue(filter);
        if (value === UNAVAILABLE) return "database_error";
        return compare(filter.comparison, value, this) === true ? "match" : "no_condition_match";
      }
      case "person_metadata": {
        const value = filter.isCreatedAt ? this.createdAt() : undefined;
        if (value === UNAVAILABLE) return "database_error";
        return compare(filter.comparison, value, this) === true ? "match" : "no_condition_match";
      }
      case "flag":
        return this.dependsOn(filter.target, filter.expected) ? "match" : "no_condition_match";
      case "cohort": {
        if (filter.cohort === null) return "dependency_not_found_cohort";
        if (filter.wanted === null) return "no_condition_match";
        if (filter.cohort.failure !== null) return filter.cohort.failure;
        const isMember = matchCohort(filter.cohort, this.set.cohorts, this);
        if (isMember === UNAVAILABLE) return "database_error";
        return isMember === filter.wanted ? "match" : "no_condition_match";
      }
    }
  }

  private personFilter(filter: PersonFilter): FilterStep {
    if (filter.turn === this.turn) return filter.step;
    const value = this.value(filter.property);
    const step =
      value === UNAVAILABLE
        ? "database_error"
        : compare(filter.comparison, value, this) === true
          ? "match"
          : "no_condition_match";
    filter.turn = this.turn;
    filter.step = step;
    return step;
  }

  /** What an expectation on another flag gives (flag-evaluation 11.2, 11.3). */
  private dependsOn(name: string, expected: boolean | string | null): boolean {
    const target = this.set.dependencies.targets.get(name);
    const answer = target ? this.answers?.get(target) : undefined;
    if (answer?.failed === true || expected === null) return false;
    const value = answer?.value ?? false;
    return expected === true ? value !== false : value === expected;
  }

  /** The group's key sent with the request; `null` when it is missing or empty (5.3). */
  groupKey(groupName: string | null): string | null {
    if (groupName === null || !Object.hasOwn(this.request.groups, groupName)) return null;
    return this.request.groups[groupName] || null;
  }

  /** A property of a group: its key, then what was sent, then what is stored (6.4). */
  groupValue(
    filter: Extract<CompiledFilter, { kind: "group" }>,
  ): Json | undefined | typeof UNAVAILABLE {
    const { groupName, property } = filter;
    const key = this.groupKey(groupName);
    if (groupName === null || key === null) return undefined;
    if (property.text === "$group_key") return key;
    const { groupProperties, stored } = this.request;
    const sent = Object.hasOwn(groupProperties, groupName) ? groupProperties[groupName] : undefined;
    const value = sent === undefined ? undefined : read(sent, property);
    if (value !== undefined) return value;
    if (stored.groups === "unavailable") return UNAVAILABLE;
    const known = Object.hasOwn(stored.groups, groupName) ? stored.groups[groupName] : undefined;
    return known === undefined ? undefined : read(known, property);
  }

  /** The device id sent with the request, else one among the person properties (5.4). */
  deviceId(): string | null {
    const { deviceId, personProperties } = this.request;
    if (deviceId !== null && deviceId !== "") return deviceId;
    const property = ownValue(personProperties, "$device_id");
    return typeof property === "string" && property !== "" ? property : null;
  }

  private rollout(flag: CompiledFlag, condition: CompiledCondition): ConditionStep {
    const identifier = this.conditionIdentifier(flag, condition);
    if (identifier === null) return "hash_key_override_error";
    const hash = this.hash(flag, identifier, NO_SALT);
    return isInsideRollout(hash, condition.rolloutPercentage) ? "match" : "out_of_rollout_bound";
  }

  private matched(flag: CompiledFlag, condition: CompiledCondition): FlagEvaluation {
    let { variantIndex } = condition;
    if (variantIndex === -1 && flag.variantKeys.length > 0) {
      const identifier = this.conditionIdentifier(flag, condition);
      if (identifier === null && condition.hashDecides) {
        return answerOf(flag, "hash_key_override_error", condition.index);
      }
      // Without a split every identifier gets the same variant.
      const hash = identifier === null ? 0 : this.hash(flag, identifier, VARIANT_SALT);
      variantIndex = chooseVariant(hash, flag.variantBounds);
    }
    return matchOf(flag, condition.index, variantIndex);
  }

  /** The empty identifier counts as hash 0, without hashing (2.7). */
  hash(flag: CompiledFlag, identifier: string, salt: EncodedText): number {
    return identifier === "" ? 0 : this.set.bucketing.hash(flag.hashPrefix, identifier, salt);
  }

  /** Whom a condition hashes (flag-evaluation 5); `null` when the stored hash key is unknown. */
  conditionIdentifier(flag: CompiledFlag, condition: CompiledCondition): string | null {
    if (condition.aggregation !== null) {
      return this.groupKey(condition.aggregation.groupName) ?? "";
    }
    if (flag.hashesDistinctId) return this.distinctId;
    const { distinctId, anonDistinctId } = this.request;
    if (flag.isDeviceBucketed) return this.deviceId() ?? distinctId;
    const { person } = this;
    const { anonymousHashKeyOverrides: others } = this.request.stored;
    if (person === "unavailable" || person?.hashKeyOverrides === "unavailable") return null;
    if (others === "unavailable") return null;
    const { key } = flag.identity;
    return person?.hashKeyOverrides.get(key) || others?.get(key) || anonDistinctId || distinctId;
  }
}

function isFailureStep(step: ConditionStep): step is FailureCode {
  return (
    step !== "match" &&
    step !== "no_condition_match" &&
    step !== "out_of_rollout_bound" &&
    step !== "no_group_type"
  );
}

/** On or off by enrolment; the payload under "true" comes with both (8.3). */
function enrolled(flag: CompiledFlag, isOn: boolean): FlagEvaluation {
  return answerOf(flag, isOn ? "enrolled" : "super_condition_value", 0);
}

/** The flag's one answer object for a match; the variant's position, or -1 for none. */
function matchOf(flag: CompiledFlag, conditionIndex: number, variantIndex: number): FlagEvaluation {
  const { matches } = flag.answers;
  const position = conditionIndex * (flag.variantKeys.length + 1) + variantIndex + 1;
  const known = matches[position];
  if (known !== undefined) return known;
  const variant = flag.variantKeys[variantIndex];
  const answer = createAnswer(flag, "condition_match", conditionIndex, variant ?? true, variant);
  matches[position] = answer;
  return answer;
}

/** The flag's one answer object for any other ending. */
function answerOf(
  flag: CompiledFlag,
  ending: Exclude<Ending, "condition_match"> | "enrolled",
  conditionIndex: number | null,
): FlagEvaluation {
  const answers = answersOf(flag, ending);
  const position = conditionIndex === null ? 0 : conditionIndex + 1;
  const known = answers[position];
  if (known !== undefined) return known;
  const answer =
    ending === "enrolled"
      ? createAnswer(flag, "super_condition_value", conditionIndex, true, "true")
      : createAnswer(flag, ending, conditionIndex, false, payloadKeyOf(flag, ending));
  answers[position] = answer;
  return answer;
}

function answersOf(
  { answers: { noMatches, outOfBounds, others } }: CompiledFlag,
  ending: Ending | "enrolled",
): (FlagEvaluation | undefined)[] {
  if (ending === "no_condition_match") return noMatches;
  if (ending === "out_of_rollout_bound") return outOfBounds;
  const known = others.get(ending);
  if (known !== undefined) return known;
  const made: (FlagEvaluation | undefined)[] = [];
  others.set(ending, made);
  return made;
}

/** The newer enrolment attaches the payload to its off answer too (8.3). */
function payloadKeyOf(flag: CompiledFlag, ending: Ending): string | null {
  return ending === "super_condition_value" && flag.enrollmentProperty !== null ? "true" : null;
}

function createAnswer(
  flag: CompiledFlag,
  ending: Ending,
  conditionIndex: number | null,
  value: boolean | string,
  payloadKey: string | null = "true",
): FlagEvaluation {
  const description = describeReason(ending, conditionIndex);
  return {
    flag: flag.identity,
    value,
    payload: payloadKey === null ? null : (flag.payloads.get(payloadKey) ?? null),
    reason: { code: reasonCode(ending), conditionIndex, description },
    failed: isFailure(ending),
    derived: { text: null },
  };
}
