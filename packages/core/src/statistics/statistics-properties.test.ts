import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { type ArmSums, estimateOf, type Moments, momentsOf } from "./arm.ts";
import { betaQuantile, betaTails, unitPoint } from "./beta-distribution.ts";
import { adjustArms, withinArmSlopes } from "./covariates.ts";
import { differenceOf, testByStudent } from "./difference.ts";
import { compareBinomials } from "./exact-posterior.ts";
import { gammaQuantile, gammaTails } from "./gamma-distribution.ts";
import { fiellerLift, liftParts } from "./lift.ts";
import { normalCdf, normalQuantile, normalSf } from "./normal-distribution.ts";
import { believe } from "./posterior.ts";
import { confidenceSequence } from "./sequential.ts";
import { studentCdf, studentQuantile, studentSf } from "./student-distribution.ts";

const shape = fc.double({ min: -2, max: 6, noNaN: true }).map((power) => 10 ** power);
const probability = fc.double({ min: 1e-12, max: 1 - 1e-9, noNaN: true });
const values = fc.array(fc.double({ min: -100, max: 100, noNaN: true, noDefaultInfinity: true }), {
  minLength: 3,
  maxLength: 40,
});

function sumsOf(ys: readonly number[], scale = 1): ArmSums {
  return {
    n: ys.length,
    sum: ys.reduce((sum, y) => sum + scale * y, 0),
    sumSquares: ys.reduce((sum, y) => sum + (scale * y) ** 2, 0),
  };
}

function moments(sums: ArmSums): Moments {
  const result = momentsOf(sums);
  if (typeof result === "string") throw new Error(result);
  return result;
}

function arm(ys: readonly number[], scale = 1) {
  return estimateOf(moments(sumsOf(ys, scale)));
}

function isClose(got: number, want: number, relative: number): boolean {
  return Math.abs(got - want) <= relative * Math.max(Math.abs(got), Math.abs(want), 1e-280);
}

describe("[ST-13] distributions agree with themselves", () => {
  it("gives two tails that make one", () => {
    fc.assert(
      fc.property(shape, shape, probability, (a, b, x) => {
        const beta = betaTails(a, b, unitPoint(x));
        expect(beta.lower + beta.upper).toBeCloseTo(1, 14);
        const gamma = gammaTails(a, a * 2 * x);
        expect(gamma.lower + gamma.upper).toBeCloseTo(1, 14);
        expect(studentCdf(10 * x, a) + studentSf(10 * x, a)).toBeCloseTo(1, 14);
        expect(normalCdf(10 * x) + normalSf(10 * x)).toBeCloseTo(1, 14);
      }),
    );
  });

  it("finds with each quantile the probability it was asked for", () => {
    fc.assert(
      fc.property(shape, shape, probability, (a, b, p) => {
        expect(isClose(normalCdf(normalQuantile(p)), p, 1e-12)).toBe(true);
        expect(
          isClose(gammaTails(a, gammaQuantile(p, a)).lower, p, 1e-8) ||
            gammaQuantile(p, a) < 1e-290,
        ).toBe(true);
        const t = studentQuantile(p, Math.max(0.3, a));
        expect(isClose(studentCdf(t, Math.max(0.3, a)), p, 1e-9)).toBe(true);
        const x = betaQuantile(p, a, b);
        if (x > 1e-290 && x < 1 - 1e-9)
          expect(isClose(betaTails(a, b, unitPoint(x)).lower, p, 1e-6)).toBe(true);
      }),
    );
  });
});

describe("[ST-13] comparisons agree with themselves", () => {
  it("does not depend on the unit of the values, and turns with the arms", () => {
    fc.assert(
      fc.property(
        values,
        values,
        fc.double({ min: 0.01, max: 100, noNaN: true }),
        (c, t, scale) => {
          const plain = differenceOf(arm(c), arm(t));
          fc.pre(plain.standardError > 1e-6);
          const scaled = testByStudent(differenceOf(arm(c, scale), arm(t, scale)), 0.05);
          const test = testByStudent(plain, 0.05);
          expect(isClose(scaled.pValue, test.pValue, 1e-6)).toBe(true);
          const turned = testByStudent(differenceOf(arm(t), arm(c)), 0.05);
          expect(turned.statistic).toBeCloseTo(-test.statistic, 9);
          const belief = believe({ mean: plain.estimate, sd: plain.standardError }, 0.95);
          const other = believe({ mean: -plain.estimate, sd: plain.standardError }, 0.95);
          expect(other.chanceToWin).toBe(belief.chanceToLose);
          expect(other.lossIfKept).toBe(belief.lossIfShipped);
        },
      ),
    );
  });

  it("leaves 0 out of the lift exactly when the test of the difference is significant", () => {
    fc.assert(
      fc.property(values, values, (c, t) => {
        const control = arm(c);
        const treatment = arm(t);
        const difference = differenceOf(control, treatment);
        fc.pre(difference.standardError > 1e-6 && Math.abs(control.mean) > 1e-6);
        const test = testByStudent(difference, 0.05);
        fc.pre(Math.abs(test.pValue - 0.05) > 1e-6);
        const set = fiellerLift(liftParts(control, treatment), test.critical);
        const holdsZero =
          set.kind === "unbounded" ||
          (set.kind === "bounded" && set.lower <= 0 && set.upper >= 0) ||
          (set.kind === "exclusive" && !(set.excludedLower < 0 && set.excludedUpper > 0));
        expect(holdsZero).toBe(test.pValue > 0.05);
      }),
    );
  });

  it("gives an always-valid interval that is wider than the fixed one", () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 10, max: 1e8 }),
        fc.integer({ min: 100, max: 1e6 }),
        (n, tuning) => {
          const { halfWidth } = confidenceSequence(0.1, 1, n, 0.05, tuning);
          expect(halfWidth).toBeGreaterThan(1.96);
        },
      ),
    );
  });

  it("finds the same chance exactly and by the normal approximation where samples are large", () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1000, max: 20_000 }),
        fc.integer({ min: 1000, max: 20_000 }),
        (c, t) => {
          const control = { successes: c, failures: 40_000 - c };
          const treatment = { successes: t, failures: 40_000 - t };
          const exact = compareBinomials(control, treatment);
          const difference = differenceOf(
            estimateOf(moments({ n: 40_000, sum: c })),
            estimateOf(moments({ n: 40_000, sum: t })),
          );
          const { chanceToWin } = believe(
            { mean: difference.estimate, sd: difference.standardError },
            0.95,
          );
          expect(Math.abs(exact.chanceToWin - chanceToWin)).toBeLessThan(1e-3);
        },
      ),
      { numRuns: 30 },
    );
  });

  it("reduces the variance by the squared correlation with a covariate, and leaves the mean centred", () => {
    fc.assert(
      fc.property(values, fc.double({ min: -5, max: 5, noNaN: true }), (xs, slope) => {
        const ys = xs.map((x, index) => slope * x + (index % 3));
        const spread = xs.reduce((sum, x) => sum + (x - (xs[0] ?? 0)) ** 2, 0);
        fc.pre(spread > 1e-3);
        const sums: ArmSums = {
          ...sumsOf(ys),
          covariates: {
            sums: [xs.reduce((sum, x) => sum + x, 0)],
            products: [[xs.reduce((sum, x) => sum + x * x, 0)]],
            withMain: [xs.reduce((sum, x, index) => sum + x * (ys[index] ?? 0), 0)],
          },
        };
        const own = moments(sums);
        const [covariance = 0, variance = 0] = [own.covariances[0]?.[1], own.covariances[0]?.[0]];
        fc.pre(variance > 1e-9);
        const correlation = covariance ** 2 / (variance * (own.covariances[1]?.[1] ?? 1));
        const slopes = withinArmSlopes([own, own], "means");
        const [adjusted] = adjustArms([own, own], slopes, "means");
        expect(adjusted?.varianceReduction).toBeCloseTo(correlation, 5);
        expect(adjusted?.adjusted.mean).toBeCloseTo(own.means[0] ?? 0, 6);
      }),
    );
  });
});
