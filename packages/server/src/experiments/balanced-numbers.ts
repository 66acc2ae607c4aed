import type { ArmComparison } from "@hedgerow/core/statistics/compare-arms";
import type { Prior } from "@hedgerow/core/statistics/posterior";
import {
  type CorrectedPValues,
  correctPValues,
  type EffectReport,
  type LookPlan,
  type Rank,
  type Remark,
  rankArms,
  reportEffects,
} from "@hedgerow/core/statistics/report-effects";
import { watchSampleRatio } from "@hedgerow/core/statistics/sample-ratio";
import type { Analysis, Exposures } from "./analyse-experiment.ts";
import type { VariantResult } from "./analyse-measured.ts";

/** What an experiment says of its own numbers, beside PostHog's settings. */
export interface BalancedSettings {
  /** On ln(treatment / control); `null` is flat. */
  readonly prior: Prior | null;
  /** The share of the control's value that the metric may lose as a guardrail; `null` for none. */
  readonly margin: number | null;
  /** The relative effect that is to be found, 0.05 for 5 %. */
  readonly target: number | null;
  /** The chance with which it is to be found. */
  readonly power: number;
  readonly plan: LookPlan | null;
}

/** A treatment of one metric, in our own numbers. */
export interface BalancedEffect {
  readonly result: VariantResult;
  readonly report: EffectReport;
  /** Of the treatments of this metric. */
  readonly corrected: CorrectedPValues;
  readonly rank: Rank | null;
  readonly remarks: readonly Remark[];
}

/** A metric in our own numbers. */
export interface BalancedNumbers {
  readonly effects: readonly BalancedEffect[];
  /** Tests among the treatments of this metric. */
  readonly tests: number;
  readonly controlRank: Rank | null;
}

/** One sentence for whoever compares the two sets of numbers. */
export const WHY_NUMBERS_DIFFER =
  "PostHog's fields judge the lift by an error that contains the treatment's own mean, so that a rise widens its own error, while these numbers test the absolute difference and take the lift's interval from that test: both agree on large samples and may differ on small ones.";

/** Our own numbers of an analysed metric. Pure. */
export function balancedNumbersOf(
  analysis: Pick<Analysis, "variants">,
  metric: { readonly kind: string; readonly goal: "increase" | "decrease" },
  settings: BalancedSettings & { readonly level: number },
): BalancedNumbers {
  const { variants } = analysis;
  const comparisons = variants.map(({ comparison }) => comparison);
  const { goal } = metric;
  const reports = reportEffects(comparisons, { ...settings, goal });
  const { tests, corrected } = correctPValues(comparisons.map(pValueOf));
  const control = comparisons.find((one) => one.control !== null)?.control ?? null;
  const ranks = rankArms([control, ...comparisons.map(({ treatment }) => treatment)], {
    goal,
    isRate: metric.kind === "funnel",
  });
  return {
    tests,
    controlRank: ranks?.[0] ?? null,
    effects: variants.flatMap((result, index): BalancedEffect[] => {
      const report = reports[index];
      const own = corrected[index];
      if (!report || !own) return [];
      return [
        {
          result,
          report,
          corrected: own,
          rank: ranks?.[index + 1] ?? null,
          remarks: [...report.remarks, ...remarksOn(result, report)],
        },
      ];
    }),
  };
}

/** The p-value of a treatment, which is that of the difference. */
export function pValueOf({ absolute }: ArmComparison): number | null {
  return absolute?.pValue ?? null;
}

function remarksOn({ failures, numbers }: VariantResult, { decision }: EffectReport): Remark[] {
  const remarks: Remark[] = [];
  if (failures.includes("not-enough-exposures"))
    remarks.push({
      code: "few-units",
      detail: "There are fewer than 50 units: the normal law may not hold yet.",
    });
  const isCalled = decision === "winning" || decision === "losing";
  if (numbers !== null && decision !== null && numbers.significant !== isCalled)
    remarks.push({ code: "differs-from-posthog", detail: WHY_NUMBERS_DIFFER });
  return remarks;
}

/** The shares of units, watched day by day: valid however often it is looked at. */
export interface WatchedRatio {
  /** The smallest up to the last day: what was found once stays found. */
  readonly pValue: number;
  readonly logBayesFactor: number;
  readonly mismatch: boolean;
  /** The first day by whose end the shares had drifted. */
  readonly driftedOn: string | null;
}

/** Below this a mismatch is called (statistics 5.11). */
const WATCH_ALPHA = 0.001;

/** The sequential test of the shares after every day, without holdouts and variants of 0 %. */
export function watchedRatioOf({ sampleRatio, series, days }: Exposures): WatchedRatio | null {
  if (sampleRatio === null) return null;
  const weights = sampleRatio.test.expectedCounts;
  const counted = sampleRatio.variants.map(
    (variant) => series.find((one) => one.variant === variant)?.counts ?? [],
  );
  let pValue = 1;
  let logBayesFactor = 0;
  let driftedOn: string | null = null;
  for (const [index, day] of days.entries()) {
    const counts = counted.map((one) => one[index] ?? 0);
    const watched = watchSampleRatio(counts, weights, 1);
    if (watched === null) return null;
    logBayesFactor = watched.logBayesFactor;
    pValue = Math.min(pValue, watched.pValue);
    if (driftedOn === null && watched.pValue < WATCH_ALPHA) driftedOn = day;
  }
  return { pValue, logBayesFactor, mismatch: driftedOn !== null, driftedOn };
}
