import { encodeJson } from "../exact-json.ts";
import type { Json } from "../json.ts";
import type {
  BoundExplanation,
  ConditionExplanation,
  FilterExplanation,
  FlagExplanation,
  ValueSource,
} from "./explain-flag.ts";

/** Longest text of one value. */
const MAX_VALUE_LENGTH = 200;

/** An explanation as one paragraph that a person can read; dependencies are named, not told again. */
export function explainInWords(explanation: FlagExplanation, distinctId: string): string {
  const { flag, value, reason, failed } = explanation;
  const why = isWithoutConditions(explanation) ? "It has no conditions" : reason.description;
  const sentences = [
    failed
      ? `"${flag.key}" could not be computed for ${show(distinctId)}: ${why}.`
      : `"${flag.key}" is ${show(value)} for ${show(distinctId)}: ${why}.`,
  ];
  if (explanation.enrollment?.decides) {
    const { property } = explanation.enrollment;
    sentences.push(
      property === null
        ? "Its early-access condition decides before all others."
        : `The enrolment property ${property} decides before all conditions: ${seenText(explanation.enrollment.value, explanation.enrollment.source)}.`,
    );
  } else if (explanation.holdout !== null) {
    const { isInside } = explanation.holdout;
    sentences.push(`${isInside ? "Held out" : "Not held out"}: ${boundText(explanation.holdout)}.`);
  }
  const reached = explanation.conditions.filter(({ isReached }) => isReached);
  for (const condition of reached) sentences.push(conditionText(condition));
  const rest = explanation.conditions.length - reached.length;
  if (rest > 0) sentences.push(`${rest} further condition(s) did not come to bear.`);
  const { variant } = explanation;
  if (variant !== null) {
    const share = variant.shares.find(({ key }) => key === variant.chosen);
    const where = share
      ? `in the part of "${share.key}", from ${share.from} to ${share.to}`
      : "in no variant's part";
    sentences.push(variant.hash === null ? "" : `The variant hash ${variant.hash} is ${where}.`);
  }
  const others = explanation.dependencies.map(
    (dependency) => `"${dependency.flag.key}" is ${show(dependency.value)}`,
  );
  if (others.length > 0) sentences.push(`It depends on other flags: ${others.join(", ")}.`);
  return sentences.filter((sentence) => sentence !== "").join(" ");
}

/** A flag without conditions has the reason of one whose groups are not named (flag-evaluation 14). */
function isWithoutConditions({ conditions, reason }: FlagExplanation): boolean {
  return conditions.length === 0 && reason.code === "no_group_type";
}

function conditionText(condition: ConditionExplanation): string {
  const { index, outcome, group } = condition;
  const name = `Condition ${index + 1}`;
  const about =
    group === null ? "" : ` on ${group.type ?? "an unknown group type"} ${show(group.key)}`;
  const failing = condition.filters.find((filter) => filter.outcome !== "match");
  switch (outcome) {
    case "match": {
      const seen = condition.filters.map(filterText);
      return `${name}${about} matched: ${[...seen, boundText(condition.rollout)].join("; ")}.`;
    }
    case "no_group_type":
      return `${name} is about a group that the request does not name.`;
    case "out_of_rollout_bound":
      return `${name}${about} passed its filters but not its rollout: ${boundText(condition.rollout)}.`;
    case "no_condition_match":
      return `${name}${about} did not match: ${failing ? filterText(failing) : "no filter passed"}.`;
    default:
      return `${name}${about} failed with ${outcome}.`;
  }
}

function filterText({ kind, key, operator, expected, value, source }: FilterExplanation): string {
  const subject = kind === "cohort" ? "cohort" : kind === "flag" ? `flag ${key}` : key;
  const seen = seenText(value, source);
  return `${subject} ${operator} ${show(expected)}, ${seen}`;
}

function seenText(value: Json, source: ValueSource): string {
  if (source === "missing") return "there was no value";
  return source === "hidden" ? "saw a stored value" : `saw ${show(value)} (${source})`;
}

function boundText({ percentage, hash, bound, isInside }: BoundExplanation): string {
  if (hash === null) {
    return isInside ? `${percentage} % needs no hash` : `${percentage} %, without an id to hash`;
  }
  return `hash ${hash} is ${isInside ? "within" : "beyond"} ${bound} (${percentage} %)`;
}

function show(value: Json): string {
  const text = encodeJson(value);
  return text.length > MAX_VALUE_LENGTH ? `${text.slice(0, MAX_VALUE_LENGTH)}…` : text;
}
