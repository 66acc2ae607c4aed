import { describe, expect, it } from "vitest";
import { compareQuantiles } from "../experiments/compare-quantiles.ts";
import type { ArmSums } from "./arm.ts";
import { type ComparisonSpec, compareArms } from "./compare-arms.ts";
import { compareBinomials } from "./exact-posterior.ts";
import { posthogNumbers } from "./posthog-analysis.ts";
import { type QuantileArm, quantileRanks } from "./quantile-metric.ts";
import { correctPValues, reportEffects } from "./report-effects.ts";
import { createDraws, slack } from "./simulation.setup.ts";

/*
 * Experiments without an effect, 2,000 for each kind of metric and each method: none calls more often than
 * it says. Draws are seeded; bounds leave four standard errors for the number of runs.
 */

const RUNS = 2000;
const spec: ComparisonSpec = {
  level: 0.95,
  goal: "increase",
  prior: null,
  sequentialTuning: 5000,
  covariates: null,
  margin: null,
};

/** Skewed as money is: an exponential number, zero for half of the units. */
function drawRevenue(draw: () => number): number {
  return draw() < 0.5 ? 0 : -Math.log(1 - draw());
}

const draws: Readonly<Record<string, (draw: () => number) => ArmSums>> = {
  mean: (draw) => sumsOf(500, () => drawRevenue(draw)),
  // With squares it is a mean like others: exact posteriors, which take their time, are looked at below.
  "conversion rate": (draw) => sumsOf(500, () => (draw() < 0.15 ? 1 : 0)),
  ratio: (draw) =>
    ratioSums(500, () => {
      const orders = 1 + Math.floor(draw() * 4);
      return [orders * (1 + draw()), orders];
    }),
  retention: (draw) =>
    ratioSums(500, () => {
      const starts = draw() < 0.6 ? 1 : 0;
      return [starts === 1 && draw() < 0.3 ? 1 : 0, starts];
    }),
  "mean corrected by covariates": (draw) => {
    const total = { y: 0, yy: 0, x: 0, xx: 0, xy: 0 };
    for (let unit = 0; unit < 500; unit += 1) {
      const x = drawRevenue(draw);
      const y = 0.7 * x + 0.5 * drawRevenue(draw);
      total.y += y;
      total.yy += y * y;
      total.x += x;
      total.xx += x * x;
      total.xy += x * y;
    }
    return {
      n: 500,
      sum: total.y,
      sumSquares: total.yy,
      covariates: { sums: [total.x], products: [[total.xx]], withMain: [total.xy] },
    };
  },
};

function sumsOf(n: number, value: () => number): ArmSums & { sumSquares: number } {
  let sum = 0;
  let sumSquares = 0;
  for (let unit = 0; unit < n; unit += 1) {
    const y = value();
    sum += y;
    sumSquares += y * y;
  }
  return { n, sum, sumSquares };
}

function ratioSums(n: number, values: () => readonly [number, number]): ArmSums {
  const total = { y: 0, yy: 0, d: 0, dd: 0, yd: 0 };
  for (let unit = 0; unit < n; unit += 1) {
    const [y, d] = values();
    total.y += y;
    total.yy += y * y;
    total.d += d;
    total.dd += d * d;
    total.yd += y * d;
  }
  return {
    n,
    sum: total.y,
    sumSquares: total.yy,
    denominator: { sum: total.d, sumSquares: total.dd, withMain: total.yd },
  };
}

describe("[ST-18] over 2,000 experiments without an effect", () => {
  it.each(Object.entries(draws))("a %s is called as often as each method says", (kind, drawArm) => {
    const draw = createDraws(kind.length);
    const calls = { test: 0, up: 0, beliefs: 0, anytime: 0, lift: 0, frequentist: 0 };
    const covariates = kind.endsWith("covariates") ? ("means" as const) : null;
    for (let run = 0; run < RUNS; run += 1) {
      const control = drawArm(draw);
      const treatment = drawArm(draw);
      const comparisons = compareArms(control, [treatment], { ...spec, covariates });
      const [comparison] = comparisons;
      const [report] = reportEffects(comparisons, {
        level: 0.95,
        goal: "increase",
        target: null,
        power: 0.8,
        plan: null,
      });
      const { absolute, relative, sequential } = comparison ?? {};
      if ((absolute?.pValue ?? 1) < 0.05) calls.test += 1;
      if ((report?.oneSided?.pBetter ?? 1) < 0.05) calls.up += 1;
      if (report?.decision === "winning" || report?.decision === "losing") calls.beliefs += 1;
      if ((sequential?.pValue ?? 1) < 0.05) calls.anytime += 1;
      const set = relative?.set;
      if (set?.kind === "bounded" && (set.lower > 0 || set.upper < 0)) calls.lift += 1;
      if (covariates === null && kind !== "retention") {
        const name = kind === "conversion rate" ? "funnel" : kind === "ratio" ? "ratio" : "mean";
        const method = { method: "frequentist", level: 0.95, difference: "absolute" } as const;
        if (posthogNumbers(control, treatment, name, method)?.significant) calls.frequentist += 1;
      }
    }
    for (const method of ["test", "up", "beliefs", "lift"] as const)
      expect(Math.abs(calls[method] / RUNS - 0.05), method).toBeLessThan(slack(0.05, RUNS));
    expect(calls.lift).toBe(calls.test);
    expect(calls.anytime / RUNS).toBeLessThan(0.02);
    expect(calls.frequentist / RUNS).toBeLessThan(0.05 + slack(0.05, RUNS));
  });

  it("a quantile is called at most as often as its test says", () => {
    const draw = createDraws(31);
    const n = 400;
    const drawArm = (): QuantileArm => {
      const values = Float64Array.from({ length: n }, () => -Math.log(1 - draw())).sort();
      const ranks = quantileRanks(n, 0.9, 0.05);
      const at = (rank: number) => values[rank - 1] ?? Number.NaN;
      return {
        n,
        sampled: n,
        nu: 0.9,
        value: at(ranks.rank),
        lower: at(ranks.lower),
        upper: at(ranks.upper),
      };
    };
    let calls = 0;
    for (let run = 0; run < RUNS; run += 1) {
      const { absolute } = compareQuantiles(drawArm(), drawArm(), {
        level: 0.95,
        sequentialTuning: 5000,
      });
      if ((absolute?.pValue ?? 1) < 0.05) calls += 1;
    }
    expect(calls / RUNS).toBeLessThan(0.05 + slack(0.05, RUNS));
    expect(calls / RUNS).toBeGreaterThan(0.03);
  });

  it("the exact posterior of a rate calls as rarely as it says", () => {
    const draw = createDraws(34);
    const runs = RUNS / 4;
    let calls = 0;
    for (let run = 0; run < runs; run += 1) {
      const arm = () => {
        const { sum } = sumsOf(300, () => (draw() < 0.1 ? 1 : 0));
        return { successes: sum, failures: 300 - sum };
      };
      const { chanceToWin } = compareBinomials(arm(), arm());
      if (chanceToWin > 0.975 || chanceToWin < 0.025) calls += 1;
    }
    expect(Math.abs(calls / runs - 0.05)).toBeLessThan(slack(0.05, runs));
  });

  it("a guardrail that loses all of its margin is held in 5 %", () => {
    const draw = createDraws(32);
    let held = 0;
    for (let run = 0; run < RUNS; run += 1) {
      const control = sumsOf(800, () => (draw() < 0.2 ? 1 : 0));
      const treatment = sumsOf(800, () => (draw() < 0.18 ? 1 : 0));
      const [comparison] = compareArms(control, [treatment], { ...spec, margin: 0.1 });
      if ((comparison?.nonInferiority?.pValue ?? 1) < 0.05) held += 1;
    }
    expect(Math.abs(held / RUNS - 0.05)).toBeLessThan(slack(0.05, RUNS));
  });

  it("of four treatments and two metrics none is called in 95 % once corrected, and one in many otherwise", () => {
    const draw = createDraws(33);
    const any = { plain: 0, holm: 0, benjaminiHochberg: 0, bonferroni: 0 };
    for (let run = 0; run < RUNS; run += 1) {
      const pValues = [0.1, 0.3].flatMap((rate) => {
        const arm = () => sumsOf(400, () => (draw() < rate ? 1 : 0));
        return compareArms(arm(), [arm(), arm(), arm(), arm()], spec).map(
          ({ absolute }) => absolute?.pValue ?? null,
        );
      });
      const { corrected } = correctPValues(pValues);
      if (pValues.some((p) => p !== null && p < 0.05)) any.plain += 1;
      for (const method of ["holm", "benjaminiHochberg", "bonferroni"] as const)
        if (corrected.some((one) => (one[method] ?? 1) < 0.05)) any[method] += 1;
    }
    expect(any.plain / RUNS).toBeGreaterThan(0.15);
    for (const method of ["holm", "benjaminiHochberg", "bonferroni"] as const)
      expect(any[method] / RUNS, method).toBeLessThan(0.05 + slack(0.05, RUNS));
  });
});
