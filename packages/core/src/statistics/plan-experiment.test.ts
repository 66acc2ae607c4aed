import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  type ExperimentPlan,
  growthToFind,
  plannedPower,
  powerAtError,
  smallestEffect,
  unitsToFind,
} from "./plan-experiment.ts";
import { sampleSizeForMeans, sampleSizeForProportions } from "./power.ts";

const plan: ExperimentPlan = {
  kind: "proportion",
  baseline: 0.1,
  variance: null,
  shares: [50, 50],
  alpha: 0.05,
  power: 0.8,
  sides: 2,
  sequentialTuning: null,
  varianceLeft: 1,
};

describe("[ST-16] planning an experiment", () => {
  it("of two equal arms needs what the sample sizes of means and of rates say", () => {
    const rates = sampleSizeForProportions({
      control: 0.1,
      treatment: 0.11,
      ratio: 1,
      alpha: 0.05,
      power: 0.8,
      pooled: false,
    });
    const units = unitsToFind(plan, 0.1);
    expect(units).toBeLessThanOrEqual(2 * rates.control);
    expect(units).toBeGreaterThan(2 * (rates.control - 1));
    const means = sampleSizeForMeans({
      controlVariance: 9,
      treatmentVariance: 9,
      effect: 0.5,
      ratio: 1,
      alpha: 0.01,
      power: 0.9,
    });
    const forMean = unitsToFind(
      { ...plan, kind: "mean", baseline: 10, variance: 9, alpha: 0.01, power: 0.9 },
      0.05,
    );
    expect(forMean).toBeLessThanOrEqual(2 * means.control);
    expect(forMean).toBeGreaterThan(2 * (means.control - 1));
  });

  it("reaches the power with these units and not with one less, and the smallest effect comes back", () => {
    fc.assert(
      fc.property(
        fc.record({
          baseline: fc.double({ min: 0.02, max: 0.6, noNaN: true }),
          effect: fc.double({ min: 0.02, max: 0.5, noNaN: true }),
          share: fc.integer({ min: 5, max: 95 }),
          alpha: fc.double({ min: 0.001, max: 0.2, noNaN: true }),
          power: fc.double({ min: 0.5, max: 0.99, noNaN: true }),
          sides: fc.constantFrom(1 as const, 2 as const),
          tuning: fc.constantFrom(null, 5000),
          varianceLeft: fc.double({ min: 0.1, max: 1, noNaN: true }),
        }),
        ({ baseline, effect, share, tuning, ...rest }) => {
          const asked: ExperimentPlan = {
            ...plan,
            ...rest,
            baseline,
            shares: [share, 100 - share],
            sequentialTuning: tuning,
          };
          const units = unitsToFind(asked, effect);
          if (typeof units === "string") throw new Error(units);
          expect(plannedPower(asked, effect, units)).toBeGreaterThanOrEqual(asked.power);
          expect(plannedPower(asked, effect, units - 1)).toBeLessThan(asked.power);
          const found = smallestEffect(asked, units);
          expect(found).toBeLessThanOrEqual(effect * (1 + 1e-9));
          expect(found).toBeGreaterThan(effect * 0.8);
        },
      ),
      { numRuns: 200 },
    );
  });

  it("needs more with more arms, at any look, and less with covariates", () => {
    const two = Number(unitsToFind(plan, 0.1));
    expect(Number(unitsToFind({ ...plan, shares: [1, 1, 1] }, 0.1))).toBeGreaterThan(1.4 * two);
    expect(Number(unitsToFind({ ...plan, sequentialTuning: 5000 }, 0.1))).toBeGreaterThan(two);
    expect(Number(unitsToFind({ ...plan, varianceLeft: 0.5 }, 0.1))).toBeCloseTo(two / 2, -2);
    expect(Number(unitsToFind({ ...plan, sides: 1 }, 0.1))).toBeLessThan(two);
  });

  it("grows a sample until the same test has the power that told what it lacks", () => {
    for (const sides of [1, 2] as const)
      for (const sequentialTuning of [null, 5000]) {
        const test = { ...plan, sides, sequentialTuning };
        const standing = { standardError: 0.09, units: 8000 };
        const growth = growthToFind(test, 0.2, standing);
        if (growth === null) throw new Error("there is no growth");
        expect(growth).toBeGreaterThan(0);
        const grown = powerAtError(test, 0.2, 0.09 / Math.sqrt(1 + growth), 8000 * (1 + growth));
        expect(grown).toBeCloseTo(plan.power, 9);
      }
    expect(growthToFind(plan, 1, { standardError: 0.09, units: 8000 })).toBe(0);
    expect(growthToFind(plan, 0, { standardError: 0.09, units: 8000 })).toBeNull();
    expect(growthToFind(plan, 1e-9, { standardError: 1e9, units: 8000 })).toBeNull();
  });

  it("names what cannot be planned", () => {
    expect(unitsToFind({ ...plan, baseline: 0 }, 0.1)).toBe("invalid-input");
    expect(unitsToFind({ ...plan, baseline: 1.2 }, 0.1)).toBe("invalid-input");
    expect(unitsToFind({ ...plan, shares: [1] }, 0.1)).toBe("invalid-input");
    expect(unitsToFind({ ...plan, shares: [1, 0] }, 0.1)).toBe("invalid-input");
    expect(unitsToFind({ ...plan, kind: "mean" }, 0.1)).toBe("invalid-input");
    expect(unitsToFind(plan, 0)).toBe("invalid-input");
    const huge = { ...plan, kind: "mean" as const, baseline: 1e308, variance: 1 };
    expect(unitsToFind(huge, 1e9)).toBe("invalid-input");
    expect(unitsToFind({ ...huge, baseline: 1, variance: Number.POSITIVE_INFINITY }, 1)).toBe(
      "invalid-input",
    );
    expect(unitsToFind({ ...plan, baseline: 0.6 }, 1)).toBe("not-reachable");
    expect(unitsToFind(plan, 1e-9)).toBe("not-reachable");
    expect(smallestEffect({ ...plan, baseline: 0.9 }, 4)).toBe("not-reachable");
    expect(smallestEffect(plan, 0)).toBe("invalid-input");
  });
});
