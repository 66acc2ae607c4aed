import {
  type ArmComparison,
  type EffectStatus,
  MIN_OUTCOMES,
  type SampleSummary,
} from "./compare-arms.ts";
import { type Interval, type OneSidedTest, testOneSided } from "./difference.ts";
import { bestOf, betaPosterior, normalPosterior } from "./exact-posterior.ts";
import { groupSequentialBounds, type Spending } from "./group-sequential.ts";
import { adjustPValues } from "./multiplicity.ts";
import { growthToFind, powerAtError } from "./plan-experiment.ts";
import { minimumEffect } from "./power.ts";

/** What is asked beyond the comparison of two arms. */
export interface ReportSettings {
  /** Of intervals, for instance 0.95; tests are at 1 - level. */
  readonly level: number;
  readonly goal: "increase" | "decrease";
  /** The relative effect that is to be found, 0.05 for 5 %; `null` where nobody said. */
  readonly target: number | null;
  /** The chance with which it is to be found. */
  readonly power: number;
  readonly plan: LookPlan | null;
}

/** Looks agreed on before the start. */
export interface LookPlan {
  readonly spending: Spending;
  /** What share of the final units there is at each look, growing, up to 1. */
  readonly fractions: readonly number[];
  /** Units of all arms together at the last look. */
  readonly finalUnits: number;
}

/** A remark for whoever reads the numbers. */
export interface Remark {
  readonly code: string;
  readonly detail: string;
}

/** Where a plan of looks stands. */
export interface PlannedLook {
  readonly status: "before-first-look" | "between-looks" | "at-look" | "beyond-plan";
  /** Counted from 1; of the last one passed. 0 before the first. */
  readonly look: number;
  readonly looks: number;
  /** Units now by the final units. */
  readonly fraction: number;
  /** In standard errors; `null` where no look is due. */
  readonly z: number | null;
  readonly bound: number | null;
  /** What of alpha is spent up to this look. */
  readonly spentAlpha: number | null;
  /** Whether the effect is beyond the bound; `null` where no look is due. */
  readonly stops: boolean | null;
  readonly nextLookAtUnits: number | null;
}

/** What is told of a treatment beside its comparison with the control. */
export interface EffectReport {
  /** What the numbers say with the error agreed on; `null` where they say nothing yet. */
  readonly decision: "winning" | "losing" | "undecided" | null;
  /** In the direction of the goal; `null` where there is no p-value. */
  readonly oneSided: {
    readonly pBetter: number;
    readonly pWorse: number;
    /** With the confidence of `level` the effect is no worse than this. */
    readonly bound: number;
  } | null;
  readonly planned: PlannedLook | null;
  /** What a test with these units can find. */
  readonly midExperiment: {
    /** The smallest difference of values that is found with the power as things stand. */
    readonly minimumEffect: number;
    /** The same by the control's value; `null` where that is zero. */
    readonly minimumLift: number | null;
    /** Of the target; `null` where there is none. */
    readonly power: number | null;
    /** Units of all arms that are still needed for the target; `null` as well beyond all reach. */
    readonly moreUnits: number | null;
  } | null;
  readonly remarks: readonly Remark[];
}

/** Reports on every treatment of one metric, in order. */
export function reportEffects(
  comparisons: readonly ArmComparison[],
  settings: ReportSettings,
): readonly EffectReport[] {
  const control = comparisons.find((one) => one.control !== null)?.control?.n ?? 0;
  const units = comparisons.reduce((sum, one) => sum + (one.treatment?.n ?? 0), control);
  const standing = settings.plan && standingOf(settings.plan, units, 1 - settings.level);
  return comparisons.map((comparison): EffectReport => {
    const { absolute } = comparison;
    const isTested = absolute !== null && absolute.pValue !== null;
    return {
      decision: decide(comparison, settings),
      oneSided: isTested ? oneSidedOf(absolute, settings) : null,
      planned: standing && plannedLookOf(standing, comparison),
      midExperiment: isTested ? standingPower(comparison, settings, units) : null,
      remarks: remarksOn(comparison, settings),
    };
  });
}

function decide(
  { status, bayes }: ArmComparison,
  { level, goal }: ReportSettings,
): EffectReport["decision"] {
  if (bayes === null || (status !== "ok" && status !== "zero-baseline")) return null;
  // So that the word, the interval and a two-sided test agree (statistics 5.4).
  const bar = 1 - (1 - level) / 2;
  const [better, worse] =
    goal === "increase"
      ? [bayes.chanceToWin, bayes.chanceToLose]
      : [bayes.chanceToLose, bayes.chanceToWin];
  if (better >= bar) return "winning";
  return worse >= bar ? "losing" : "undecided";
}

type Absolute = NonNullable<ArmComparison["absolute"]>;

function oneSidedOf(absolute: Absolute, { level, goal }: ReportSettings): EffectReport["oneSided"] {
  const test: OneSidedTest = testOneSided(absolute, 0, 1 - level);
  return goal === "increase"
    ? { pBetter: test.pGreater, pWorse: test.pLess, bound: test.lowerBound }
    : { pBetter: test.pLess, pWorse: test.pGreater, bound: test.upperBound };
}

/** How near to a planned share of the units a look must be to count as that look, at most. */
const LOOK_SLACK = 0.02;

/** Where all treatments stand in the plan; the bounds are the same for all of them. */
interface LookStanding {
  readonly look: Omit<PlannedLook, "z" | "bound" | "spentAlpha" | "stops">;
  readonly bound: { readonly z: number; readonly spentAlpha: number } | null;
}

/**
 * A look counts with the share of units that there really is, which spends the error as planned; away
 * from the planned looks nothing is decided.
 */
function standingOf(
  { fractions, finalUnits, spending }: LookPlan,
  units: number,
  alpha: number,
): LookStanding {
  const fraction = units / finalUnits;
  const gaps = fractions.map((planned, index) => planned - (fractions[index - 1] ?? 0));
  const slack = Math.min(LOOK_SLACK, Math.min(...gaps) / 3);
  const at = fractions.findIndex((planned) => Math.abs(fraction - planned) <= slack);
  const passed = fractions.filter((planned) => planned <= fraction).length;
  const next = fractions.find((planned) => planned > fraction + slack);
  const rest = {
    looks: fractions.length,
    fraction,
    nextLookAtUnits: next === undefined ? null : Math.ceil(next * finalUnits),
  };
  if (at < 0) {
    const before = passed === 0 ? "before-first-look" : "between-looks";
    const status = fraction > 1 + slack ? "beyond-plan" : before;
    return { look: { status, look: passed, ...rest }, bound: null };
  }
  const isLast = at === fractions.length - 1;
  const { zBounds, cumulativeAlpha } = groupSequentialBounds({
    alpha,
    informationFractions: isLast ? fractions : fractions.with(at, fraction),
    spending,
  });
  return {
    look: { status: "at-look", look: at + 1, ...rest },
    bound: {
      z: zBounds[at] ?? Number.POSITIVE_INFINITY,
      spentAlpha: cumulativeAlpha[at] ?? alpha,
    },
  };
}

function plannedLookOf({ look, bound }: LookStanding, { absolute }: ArmComparison): PlannedLook {
  if (bound === null) return { ...look, z: null, bound: null, spentAlpha: null, stops: null };
  const known = { bound: Number.isFinite(bound.z) ? bound.z : null, spentAlpha: bound.spentAlpha };
  if (absolute === null || absolute.pValue === null)
    return { ...look, ...known, z: null, stops: null };
  const z = absolute.estimate / absolute.standardError;
  return { ...look, ...known, z, stops: Math.abs(z) >= bound.z };
}

function standingPower(
  { absolute, control }: ArmComparison,
  { level, target, power }: ReportSettings,
  units: number,
): EffectReport["midExperiment"] {
  if (absolute === null) return null;
  const alpha = 1 - level;
  const base = Math.abs(control?.mean ?? 0);
  const { effect } = minimumEffect(absolute.standardError, { alpha, power });
  const difference = target === null ? 0 : Math.abs(target) * base;
  const test = { alpha, power, sides: 2 as const, sequentialTuning: null };
  const { standardError } = absolute;
  const growth = difference === 0 ? null : growthToFind(test, difference, { standardError, units });
  return {
    minimumEffect: effect,
    minimumLift: base === 0 ? null : effect / base,
    power: difference === 0 ? null : powerAtError(test, difference, standardError, units),
    moreUnits: growth === null ? null : Math.ceil(units * growth),
  };
}

const STATUS_WORDS: {
  readonly [status in Exclude<EffectStatus, "ok" | "not-enough-data">]: string;
} = {
  "zero-variance": "All units of both arms have the same value: there is nothing to compare.",
  "zero-baseline": "The control's value is zero: there is a difference and no lift.",
  "invalid-input": "The sums are such as no data can have, or too large to be computed with.",
};

/** What there is too little of for a test. */
function lackOf({ absolute, control, treatment }: ArmComparison): string {
  // Arms that could be compared but for a test are rates, of which some outcome is too rare.
  const lacking =
    absolute === null
      ? []
      : [...rareOutcomes("control", control), ...rareOutcomes("treatment", treatment)];
  return lacking.length === 0
    ? "There are too few units for a test: what needs none is told, and nothing else."
    : `A test needs ${MIN_OUTCOMES} units with success and ${MIN_OUTCOMES} without in each arm, and ${lacking.join(", ")}. What needs no test is told, and nothing else.`;
}

function rareOutcomes(arm: string, sample: SampleSummary | null): readonly string[] {
  if (sample === null) return [];
  const successes = Math.round(sample.mean * sample.n);
  return [
    { count: successes, outcome: "with" },
    { count: sample.n - successes, outcome: "without" },
  ]
    .filter(({ count }) => count < MIN_OUTCOMES)
    .map(({ count, outcome }) => `the ${arm} has ${count} ${outcome} success`);
}

function remarksOn(comparison: ArmComparison, { goal }: ReportSettings): Remark[] {
  const { status, relative, control, treatment, sequential, absolute } = comparison;
  const remarks: Remark[] = [];
  const add = (code: string, detail: string) => void remarks.push({ code, detail });
  if (status === "not-enough-data") add(status, lackOf(comparison));
  else if (status !== "ok") add(status, STATUS_WORDS[status]);
  if (relative !== null && relative.set.kind !== "bounded")
    add(
      "lift-unbounded",
      "The control's value is not told from zero, so that the lift has no bounds: read the difference.",
    );
  if (
    absolute !== null &&
    sequential !== null &&
    absolute.pValue !== null &&
    isOutside(absolute.interval) &&
    !isOutside(sequential.interval)
  )
    add(
      "only-at-one-look",
      "The difference is significant for a single look that was planned, not for one that is chosen when it looks good.",
    );
  if ([control, treatment].some((arm) => arm !== null && isDelicate(arm)))
    add(
      "large-offset",
      "The values are large against their spread: few digits of the difference are certain.",
    );
  if (control !== null && control.mean < 0 && relative !== null)
    add("negative-baseline", "The control's value is negative: lifts are measured by its size.");
  if (goal === "decrease")
    add(
      "goal-decrease",
      "Less is better here: chances to win and intervals are of a rise all the same.",
    );
  return remarks;
}

function isOutside([low, high]: Interval): boolean {
  return low > 0 || high < 0;
}

function isDelicate({ mean, variance }: SampleSummary): boolean {
  return variance > 0 && (mean * mean) / variance > 1e10;
}

/** One arm among all. */
export interface Rank {
  readonly chanceToBeBest: number;
  /** What is lost on average by whoever takes this arm rather than the best, in the metric's units. */
  readonly lossAgainstBest: number;
}

/** Fewer of either outcome than this in an arm, and rates have exact posteriors (statistics 5.5). */
const LARGE_OUTCOMES = 1000;

/**
 * The chance of every arm, the control's first, to be the best of all by the goal, and its expected loss
 * (statistics 5.16); `null` where an arm has no value that varies.
 */
export function rankArms(
  arms: readonly (SampleSummary | null)[],
  { goal, isRate }: { readonly goal: ReportSettings["goal"]; readonly isRate: boolean },
): readonly Rank[] | null {
  const known = arms.filter((arm) => arm !== null);
  if (known.length < arms.length || known.length < 2) return null;
  const sign = goal === "increase" ? 1 : -1;
  const outcomes = known.map(({ n, mean }) => {
    const successes = Math.round(mean * n);
    return sign > 0 ? [successes, n - successes] : [n - successes, successes];
  });
  const isSmall = outcomes.some((counts) => counts.some((count) => count < LARGE_OUTCOMES));
  const isCorrected = known.some((arm) => arm.adjustedMean !== undefined);
  if (isRate && isSmall && !isCorrected)
    return bestOf(outcomes.map(([good = 0, bad = 0]) => betaPosterior(good + 1, bad + 1)));
  if (known.some(({ variance }) => !(variance > 0))) return null;
  return bestOf(
    known.map(({ n, mean, variance, adjustedMean = mean, varianceReduction = 0 }) =>
      normalPosterior(sign * adjustedMean, Math.sqrt((variance * (1 - varianceReduction)) / n)),
    ),
  );
}

/** P-values of several tests, corrected for their number (statistics 5.12). */
export interface CorrectedPValues {
  readonly holm: number | null;
  readonly benjaminiHochberg: number | null;
  readonly bonferroni: number | null;
}

/** Corrects the p-values of a family of tests; those without one do not count. */
export function correctPValues(pValues: readonly (number | null)[]): {
  readonly tests: number;
  readonly corrected: readonly CorrectedPValues[];
} {
  const [holm, bh, bonferroni] = (["holm", "bh", "bonferroni"] as const).map((method) =>
    adjustPValues(pValues, method),
  );
  return {
    tests: pValues.filter((p) => p !== null).length,
    corrected: pValues.map((_, index) => ({
      holm: holm?.[index] ?? null,
      benjaminiHochberg: bh?.[index] ?? null,
      bonferroni: bonferroni?.[index] ?? null,
    })),
  };
}
