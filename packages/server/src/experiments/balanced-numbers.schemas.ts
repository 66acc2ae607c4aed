import type { Metric } from "@hedgerow/core/experiments/metric";
import type { ArmSums } from "@hedgerow/core/statistics/arm";
import { wireNames } from "../http/wire-field-name.ts";
import {
  type BalancedEffect,
  type BalancedNumbers,
  type BalancedSettings,
  WHY_NUMBERS_DIFFER,
} from "./balanced-numbers.ts";
import type { ArmMeasure } from "./experiment-measures.ts";

/** How the numbers were asked for. */
interface Asked extends BalancedSettings {
  readonly level: number;
  readonly goal: "increase" | "decrease";
  readonly kind: Metric["kind"];
  readonly sequentialTuning: number;
}

/** Our own numbers of one treatment, as they stand under `extended` of its result (statistics 4.4). */
export function wireEffect(
  effect: BalancedEffect,
  control: ArmMeasure,
  asked: Asked,
  tests: number,
) {
  const { comparison, arm } = effect.result;
  const { absolute, relative, bayes, sequential, nonInferiority } = comparison;
  const { report, corrected, rank } = effect;
  const two = `at ${percent(1 - asked.level)}`;
  const test = `Welch's test${asked.kind === "quantile" ? ", by order statistics," : ""}`;
  const named = (method: string, part: object | null) =>
    part && { method, ...(wireNames(part) as object) };
  return {
    status: comparison.status,
    decision: report.decision,
    warnings: effect.remarks,
    inputs: {
      control: wireSums(control.sums),
      treatment: wireSums(arm.sums),
      level: asked.level,
      goal: asked.goal,
    },
    control: wireNames(comparison.control),
    treatment: wireNames(comparison.treatment),
    absolute: named(`${test} of the difference of values, two-sided ${two}`, absolute),
    one_sided: named(
      `${test} in the direction of the goal, with a one-sided bound`,
      report.oneSided,
    ),
    relative: named("Fieller's set of lifts, from the same test", relative),
    bayes: named(bayesMethod(effect, asked), bayes),
    sequential: named(
      `asymptotic confidence sequence of the difference, tuned to ${asked.sequentialTuning} units`,
      sequential,
    ),
    non_inferiority: named(
      `one-sided test that at least ${percent(1 - (asked.margin ?? 0))} of the control's value is kept`,
      nonInferiority && {
        margin: asked.margin,
        ...nonInferiority,
        holds: nonInferiority.pValue < 1 - asked.level,
      },
    ),
    planned_look: named("group-sequential bounds by error spending", report.planned),
    mid_experiment: named(
      `power ${percent(asked.power)} of the two-sided test of the difference ${two}`,
      report.midExperiment && { target: asked.target, ...report.midExperiment },
    ),
    corrected_p_values: named("over the treatments of this metric", { tests, ...corrected }),
    best_of_all: named("posterior of every arm against all others", rank),
  };
}

/** What is told once of a metric. */
export function wireBalanced(numbers: BalancedNumbers, asked: Asked) {
  return {
    explanation: WHY_NUMBERS_DIFFER,
    level: asked.level,
    goal: asked.goal,
    tests: numbers.tests,
    best_of_all: Object.fromEntries(
      numbers.effects.map(({ result, rank }) => [result.arm.variant, wireNames(rank)]),
    ),
    control: wireNames(numbers.controlRank),
  };
}

function bayesMethod({ result }: BalancedEffect, { prior }: Asked): string {
  const { bayes } = result.comparison;
  if (bayes?.isExact) return "exact beta posteriors from a uniform prior";
  if (!bayes?.isLift) return "normal posterior of the difference, flat prior";
  const law = "normal posterior of the logarithm of the ratio";
  return prior === null
    ? `${law}, flat prior; chances are those of the difference`
    : `${law}, prior N(${prior.mean}, ${prior.variance})`;
}

/** Sums as they are named in PostHog's fields. */
export function wireSums({ n, sum, sumSquares, denominator, covariates }: ArmSums) {
  return {
    number_of_samples: n,
    sum,
    sum_squares: sumSquares ?? sum,
    ...(denominator && {
      denominator_sum: denominator.sum,
      denominator_sum_squares: denominator.sumSquares,
      numerator_denominator_sum_product: denominator.withMain,
    }),
    ...(covariates && {
      covariate_sum: covariates.sums[0] ?? 0,
      covariate_sum_squares: covariates.products[0]?.[0] ?? 0,
      main_covariate_sum_product: covariates.withMain[0] ?? 0,
      covariates: wireNames(covariates),
    }),
  };
}

function percent(share: number): string {
  return `${Number((100 * share).toPrecision(6))} %`;
}
