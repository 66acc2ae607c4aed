import { describe, expect, it } from "vitest";
import { type ArmSums, estimateOf, momentsOf } from "./arm.ts";
import { compareArms } from "./compare-arms.ts";
import { differenceOf, testByStudent } from "./difference.ts";
import { groupSequentialBounds } from "./group-sequential.ts";
import { fiellerLift, liftParts } from "./lift.ts";
import { believe } from "./posterior.ts";
import { posthogNumbers } from "./posthog-analysis.ts";
import { testSampleRatio, watchSampleRatio } from "./sample-ratio.ts";
import { confidenceSequence } from "./sequential.ts";
import { createDraws, slack } from "./simulation.setup.ts";

/*
 * What the methods promise over many experiments, seen in simulated ones. Draws are seeded, so that a run
 * gives the same counts every time; bounds leave four standard errors for the number of runs.
 */

const RUNS = 2000;

function drawNormal(draw: () => number): number {
  return Math.sqrt(-2 * Math.log(1 - draw())) * Math.cos(2 * Math.PI * draw());
}

function drawConversions(draw: () => number, n: number, rate: number): number {
  let conversions = 0;
  for (let unit = 0; unit < n; unit += 1) if (draw() < rate) conversions += 1;
  return conversions;
}

function arm(sums: ArmSums) {
  const moments = momentsOf(sums);
  if (typeof moments === "string") throw new Error(moments);
  return estimateOf(moments);
}

/** How often something happened in the runs. */
function shareOf(runs: number, happens: (run: number) => boolean): number {
  let count = 0;
  for (let run = 0; run < runs; run += 1) if (happens(run)) count += 1;
  return count / runs;
}

describe("[ST-15] without an effect", () => {
  it("the test of the difference errs in 5 %, on both sides alike", () => {
    const draw = createDraws(1);
    let up = 0;
    let down = 0;
    for (let run = 0; run < RUNS; run += 1) {
      const control = arm({ n: 1000, sum: drawConversions(draw, 1000, 0.1) });
      const treatment = arm({ n: 1000, sum: drawConversions(draw, 1000, 0.1) });
      const { pValue, statistic } = testByStudent(differenceOf(control, treatment), 0.05);
      if (pValue < 0.05 && statistic > 0) up += 1;
      if (pValue < 0.05 && statistic < 0) down += 1;
    }
    expect(Math.abs((up + down) / RUNS - 0.05)).toBeLessThan(slack(0.05, RUNS));
    expect(Math.abs(up - down) / RUNS).toBeLessThan(slack(0.05, RUNS));
  });

  it("a chance to win beyond 97.5 % or 2.5 % is as rare, and PostHog's rule calls twice as often", () => {
    const draw = createDraws(2);
    let ours = 0;
    let theirs = 0;
    for (let run = 0; run < RUNS; run += 1) {
      const control = { n: 1000, sum: drawConversions(draw, 1000, 0.1) };
      const treatment = { n: 1000, sum: drawConversions(draw, 1000, 0.1) };
      const { estimate, standardError } = differenceOf(arm(control), arm(treatment));
      const { chanceToWin } = believe({ mean: estimate, sd: standardError }, 0.95);
      if (chanceToWin > 0.975 || chanceToWin < 0.025) ours += 1;
      const numbers = posthogNumbers(control, treatment, "funnel", {
        method: "bayesian",
        level: 0.95,
        difference: "relative",
      });
      if (numbers?.significant === true) theirs += 1;
    }
    expect(Math.abs(ours / RUNS - 0.05)).toBeLessThan(slack(0.05, RUNS));
    expect(theirs / RUNS).toBeGreaterThan(0.07);
  });

  it("looking every day for 30 days, the interval for all times errs in at most 5 %, a fixed one in far more", () => {
    const draw = createDraws(3);
    let watched = 0;
    let naive = 0;
    for (let run = 0; run < RUNS; run += 1) {
      let n = 0;
      let c = 0;
      let t = 0;
      let isWatched = false;
      let isNaive = false;
      for (let day = 0; day < 30; day += 1) {
        n += 100;
        c += drawConversions(draw, 100, 0.1);
        t += drawConversions(draw, 100, 0.1);
        const effect = differenceOf(arm({ n, sum: c }), arm({ n, sum: t }));
        const sequence = confidenceSequence(
          effect.estimate,
          effect.standardError,
          2 * n,
          0.05,
          5000,
        );
        isWatched ||= sequence.pValue < 0.05;
        isNaive ||= testByStudent(effect, 0.05).pValue < 0.05;
      }
      if (isWatched) watched += 1;
      if (isNaive) naive += 1;
    }
    expect(watched / RUNS).toBeLessThan(0.05);
    expect(naive / RUNS).toBeGreaterThan(0.15);
  });

  it("a plan of five looks spends its 5 % and no more", () => {
    const draw = createDraws(4);
    const { zBounds } = groupSequentialBounds({
      alpha: 0.05,
      informationFractions: [0.2, 0.4, 0.6, 0.8, 1],
      spending: { kind: "obf" },
    });
    const errs = shareOf(10 * RUNS, () => {
      let sum = 0;
      return zBounds.some((bound, look) => {
        sum += drawNormal(draw);
        return Math.abs(sum) / Math.sqrt(look + 1) >= bound;
      });
    });
    expect(Math.abs(errs - 0.05)).toBeLessThan(slack(0.05, 10 * RUNS));
  });

  it("p-values of the sample ratio are uniform, and the sequential one crosses rarely at any look", () => {
    const draw = createDraws(5);
    const pValues: number[] = [];
    let crossed = 0;
    for (let run = 0; run < RUNS; run += 1) {
      let first = 0;
      let total = 0;
      let isCrossed = false;
      for (let look = 0; look < 20; look += 1) {
        total += 100;
        first += drawConversions(draw, 100, 0.5);
        const result = watchSampleRatio([first, total - first], [1, 1], 1);
        isCrossed ||= (result?.pValue ?? 1) < 0.05;
      }
      pValues.push(testSampleRatio([first, total - first], [1, 1])?.pValue ?? 0);
      if (isCrossed) crossed += 1;
    }
    for (const share of [0.01, 0.05, 0.2, 0.5, 0.8])
      expect(
        Math.abs(pValues.filter((p) => p <= share).length / RUNS - share),
        `p-values up to ${share}`,
      ).toBeLessThan(slack(share, RUNS) + 0.02);
    expect(crossed / RUNS).toBeLessThan(0.05);
  });
});

describe("[ST-15] with an effect", () => {
  it("intervals of the lift cover it at their level, with both misses alike", () => {
    const draw = createDraws(6);
    let below = 0;
    let above = 0;
    let exactMisses = 0;
    for (let run = 0; run < RUNS; run += 1) {
      const c = { n: 600, sum: drawConversions(draw, 600, 0.1) };
      const t = { n: 600, sum: drawConversions(draw, 600, 0.12) };
      const control = arm(c);
      const treatment = arm(t);
      const test = testByStudent(differenceOf(control, treatment), 0.05);
      const set = fiellerLift(liftParts(control, treatment), test.critical);
      if (set.kind === "bounded" && set.lower > 0.2) above += 1;
      if (set.kind === "bounded" && set.upper < 0.2) below += 1;
      if (run % 40 !== 0) continue;
      const [result] = compareArms(c, [t], {
        level: 0.95,
        goal: "increase",
        prior: null,
        sequentialTuning: 5000,
        covariates: null,
        margin: null,
      });
      const [low = 0, high = 0] = result?.bayes?.interval ?? [];
      if (low > 0.2 || high < 0.2) exactMisses += 1;
    }
    expect(Math.abs((below + above) / RUNS - 0.05)).toBeLessThan(slack(0.05, RUNS));
    expect(Math.abs(below - above) / RUNS).toBeLessThan(slack(0.05, RUNS));
    expect(exactMisses / (RUNS / 40)).toBeLessThan(0.05 + slack(0.05, RUNS / 40));
  });

  it("a covariate with correlation 0.8 takes 64 % of the variance away and keeps the coverage", () => {
    const draw = createDraws(7);
    const runs = RUNS / 2;
    let reduction = 0;
    const misses = shareOf(runs, () => {
      const sums = [0, 0.2].map((effect): ArmSums => {
        const total = { y: 0, yy: 0, x: 0, xx: 0, xy: 0 };
        for (let unit = 0; unit < 300; unit += 1) {
          const x = drawNormal(draw);
          const y = 0.8 * x + 0.6 * drawNormal(draw) + effect;
          total.y += y;
          total.yy += y * y;
          total.x += x;
          total.xx += x * x;
          total.xy += x * y;
        }
        return {
          n: 300,
          sum: total.y,
          sumSquares: total.yy,
          covariates: { sums: [total.x], products: [[total.xx]], withMain: [total.xy] },
        };
      });
      const [control = { n: 0, sum: 0 }, treatment = { n: 0, sum: 0 }] = sums;
      const [result] = compareArms(control, [treatment], {
        level: 0.95,
        goal: "increase",
        prior: null,
        sequentialTuning: 5000,
        covariates: "means",
        margin: null,
      });
      reduction += result?.treatment?.varianceReduction ?? 0;
      const [low = 0, high = 0] = result?.absolute?.interval ?? [];
      return low > 0.2 || high < 0.2;
    });
    expect(reduction / runs).toBeCloseTo(0.64, 1);
    expect(Math.abs(misses - 0.05)).toBeLessThan(slack(0.05, runs));
  });
});
