import {
  type ExperimentPlan,
  growthToFind,
  plannedPower,
  powerAtError,
  smallestEffect,
  unitsToFind,
} from "@hedgerow/core/statistics/plan-experiment";
import { type CalculatorMetric, recommendedSampleSize } from "@hedgerow/core/statistics/power";

/** How long an experiment takes, or what a sample of it finds. */
export interface RunningTimeQuestion extends Omit<ExperimentPlan, "variance"> {
  /** What PostHog's calculator calls the metric; `null` for what it does not know. */
  readonly calculator: CalculatorMetric | null;
  /** `null` where PostHog's calculator is to tell. */
  readonly variance: number | null;
  /** Relative, 0.05 for 5 %. */
  readonly effect: number | null;
  /** Units of all arms together that are there. */
  readonly units: number | null;
  readonly unitsPerDay: number | null;
  readonly current: {
    readonly controlUnits: number;
    readonly treatmentUnits: number;
    readonly standardError: number | null;
  } | null;
}

/** PostHog's recommendation, and what the test of the difference needs. */
export interface RunningTime {
  /** Units of all arms together (statistics 1.10). */
  readonly recommendedSampleSize: number | null;
  /** Days. */
  readonly recommendedRunningTime: number | null;
  readonly status: "ok" | "not-reachable" | "invalid-input";
  readonly method: string;
  readonly inputs: Readonly<Record<string, unknown>>;
  readonly sample: {
    readonly total: number;
    readonly perVariant: readonly number[];
    readonly achievedPower: number;
    readonly runningTimeDays: number | null;
  } | null;
  /** What the given sample finds. */
  readonly sampleSize: {
    readonly total: number;
    readonly power: number | null;
    /** Percent. */
    readonly minimumDetectableEffect: number | null;
  } | null;
  /** Of a running experiment: the chance to find the effect as things stand, and what it lacks. */
  readonly current: {
    readonly power: number | null;
    /** By how much the sample must still grow: 0.5 is half as much again. */
    readonly growth: number | null;
    readonly moreUnits: number | null;
    readonly moreDays: number | null;
  } | null;
  readonly warnings: readonly { readonly code: string; readonly detail: string }[];
}

/** Days beyond which an experiment is no plan. */
const LONG_DAYS = 90;

/** Plans an experiment. Pure. */
export function planRunningTime(question: RunningTimeQuestion): RunningTime {
  const { calculator, baseline, effect, unitsPerDay, shares } = question;
  const warnings: { code: string; detail: string }[] = [];
  const warn = (code: string, detail: string) => void warnings.push({ code, detail });
  const recommended =
    calculator === null || effect === null
      ? null
      : countable(recommendedSampleSize(calculator, baseline, Math.abs(effect), shares.length));
  const variance = question.variance ?? guessedVariance(question);
  if (question.kind !== "proportion" && question.variance === null)
    warn(
      "variance-assumed",
      "No variance was given: the one that PostHog's calculator assumes was taken.",
    );
  const plan: ExperimentPlan = { ...question, variance };
  const days = (units: number) => daysOf(units, unitsPerDay);

  const total = effect === null ? null : unitsToFind(plan, effect);
  const sample =
    typeof total === "number" && effect !== null
      ? {
          total,
          perVariant: unitsOf(shares, total),
          achievedPower: plannedPower(plan, effect, total),
          runningTimeDays: days(total),
        }
      : null;
  if (total === "not-reachable")
    warn(
      "effect-not-reachable",
      "No sample that anybody has finds this effect, or a rate cannot change so far.",
    );
  if (sample?.runningTimeDays && sample.runningTimeDays > LONG_DAYS)
    warn(
      "long-running-time",
      `At this rate it takes more than ${LONG_DAYS} days. Look for a larger effect or a metric that varies less.`,
    );
  const found = question.units === null ? null : smallestEffect(plan, question.units);
  if (found === "not-reachable")
    warn("sample-too-small", "Such a sample finds no effect with this power.");
  return {
    recommendedSampleSize: recommended,
    recommendedRunningTime: recommended === null ? null : days(recommended),
    status: [total, found].find((one) => typeof one === "string") ?? "ok",
    method: methodOf(plan),
    inputs: {
      kind: plan.kind,
      baseline,
      variance: plan.kind === "proportion" ? baseline * (1 - baseline) : variance,
      effect,
      shares,
      alpha: plan.alpha,
      power: plan.power,
      sides: plan.sides,
      sequentialTuning: plan.sequentialTuning,
      varianceLeft: plan.varianceLeft,
      unitsPerDay,
    },
    sample,
    sampleSize:
      question.units === null
        ? null
        : {
            total: question.units,
            power: effect === null ? null : plannedPower(plan, effect, question.units),
            minimumDetectableEffect: typeof found === "number" ? found * 100 : null,
          },
    current: currentOf(plan, question),
    warnings,
  };
}

/** `null` for what is beyond all counting. */
function countable(count: number): number | null {
  return Number.isSafeInteger(count) ? count : null;
}

function daysOf(units: number | null, unitsPerDay: number | null): number | null {
  return units === null || unitsPerDay === null ? null : countable(Math.ceil(units / unitsPerDay));
}

/** What PostHog's calculator assumes of means (statistics 1.10). */
function guessedVariance({ calculator, baseline }: RunningTimeQuestion): number | null {
  if (calculator === "count") return 2 * baseline;
  return calculator === "sum" ? 0.25 * baseline * baseline : null;
}

/** Whole units of each arm, at least as many as the total's share. */
function unitsOf(shares: readonly number[], total: number): number[] {
  const sum = shares.reduce((all, share) => all + share, 0);
  return shares.map((share) => Math.ceil((total * share) / sum));
}

function methodOf({ sides, sequentialTuning }: ExperimentPlan): string {
  const test = `${sides === 1 ? "one" : "two"}-sided test of the absolute difference`;
  return sequentialTuning === null
    ? `${test}, one look at the end`
    : `${test}, looked at at any time (always-valid bound at that sample)`;
}

/** The standing of a running experiment: by its measured error where given, by the plan's otherwise. */
function currentOf(plan: ExperimentPlan, question: RunningTimeQuestion): RunningTime["current"] {
  const { current, effect, unitsPerDay } = question;
  if (current === null || effect === null) return null;
  const { controlUnits, treatmentUnits } = current;
  const units = controlUnits + treatmentUnits;
  const pair: ExperimentPlan = { ...plan, shares: [controlUnits, treatmentUnits] };
  const power = plannedPower(pair, effect, units);
  if (current.standardError === null) {
    const total = unitsToFind(pair, effect);
    const isFound = typeof total === "number";
    const more = isFound ? Math.max(0, total - units) : null;
    return {
      power,
      growth: more === null ? null : more / units,
      moreUnits: more,
      moreDays: daysOf(more, unitsPerDay),
    };
  }
  const target = Math.abs(effect * plan.baseline);
  const { standardError } = current;
  const growth = growthToFind(plan, target, { standardError, units });
  const more = growth === null ? null : Math.ceil(units * growth);
  return {
    power: powerAtError(plan, target, standardError, units),
    growth,
    moreUnits: more,
    moreDays: daysOf(more, unitsPerDay),
  };
}
