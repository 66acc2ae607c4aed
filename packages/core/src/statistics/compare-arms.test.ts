import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { ArmSums } from "./arm.ts";
import { type ComparisonSpec, compareArms } from "./compare-arms.ts";

const SPEC: ComparisonSpec = {
  level: 0.95,
  goal: "increase",
  prior: null,
  sequentialTuning: 5000,
  covariates: null,
  margin: null,
};

function compare(control: ArmSums, treatment: ArmSums, spec: Partial<ComparisonSpec> = {}) {
  const [result] = compareArms(control, [treatment], { ...SPEC, ...spec });
  if (result === undefined) throw new Error("one treatment");
  return result;
}

/** Every number in a structure. */
function numbersIn(value: unknown): number[] {
  if (typeof value === "number") return [value];
  if (value === null || typeof value !== "object") return [];
  return Object.values(value).flatMap(numbersIn);
}

describe("comparing an arm with the control", () => {
  it("[ST-14] finds a doubling of 5 % at 200 units an arm that the delta method misses", () => {
    const result = compare({ n: 200, sum: 10 }, { n: 200, sum: 23 });
    expect(result.status).toBe("ok");
    expect(result.absolute?.pValue).toBeLessThan(0.05);
    expect(result.relative?.set).toMatchObject({ kind: "bounded" });
    expect(result.relative?.set.kind === "bounded" && result.relative.set.lower).toBeGreaterThan(0);
  });

  it("[ST-14] says why there are no statistics, and invents none", () => {
    expect(compare({ n: 0, sum: 0 }, { n: 10, sum: 1 })).toMatchObject({
      status: "not-enough-data",
      absolute: null,
      bayes: null,
      control: null,
      treatment: { n: 10, mean: 0.1 },
    });
    expect(compare({ n: 10, sum: 0 }, { n: 10, sum: 0 }).status).toBe("zero-variance");
    expect(compare({ n: 10, sum: 11 }, { n: 10, sum: 0 }).status).toBe("invalid-input");
    expect(compare({ n: 9, sum: 0, sumSquares: 8 }, { n: 9, sum: 3, sumSquares: 8 })).toMatchObject(
      { status: "zero-baseline", relative: null },
    );
  });

  it("[ST-14] gives the exact posterior and no p-value below five of either outcome", () => {
    const result = compare({ n: 50, sum: 1 }, { n: 50, sum: 4 });
    expect(result.status).toBe("not-enough-data");
    expect(result.absolute?.pValue).toBeNull();
    expect(result.sequential).toBeNull();
    expect(result.bayes).toMatchObject({ isExact: true, isLift: true });
    expect(result.bayes?.chanceToWin).toBeGreaterThan(0.8);
  });

  it("[ST-14] does not move the control's row from one treatment to the next under covariates", () => {
    const arm = (sum: number, covariate: number, product: number): ArmSums => ({
      n: 100,
      sum,
      sumSquares: sum * 12,
      covariates: {
        sums: [covariate],
        products: [[covariate * 11]],
        withMain: [product],
      },
    });
    const results = compareArms(
      arm(1000, 900, 9900),
      [arm(1100, 950, 11200), arm(1050, 870, 9950)],
      { ...SPEC, covariates: "means" },
    );
    expect(results).toHaveLength(2);
    expect(results[1]?.control).toEqual(results[0]?.control);
    expect(results[0]?.control?.varianceReduction).toBeGreaterThan(0);
  });

  it("[ST-14] shows a guardrail kept only when the data exclude a loss of the margin", () => {
    const control = { n: 10_000, sum: 3000 };
    const kept = compare(control, { n: 10_000, sum: 3000 }, { margin: 0.1 });
    const close = compare(control, { n: 10_000, sum: 2720 }, { margin: 0.1 });
    expect(kept.nonInferiority?.pValue).toBeLessThan(0.001);
    expect(close.nonInferiority?.pValue).toBeGreaterThan(0.2);
    const cost = compare(control, { n: 10_000, sum: 3000 }, { margin: 0.1, goal: "decrease" });
    expect(cost.nonInferiority?.pValue).toBeLessThan(0.001);
  });

  it("[ST-14] never gives NaN, whatever the sums", () => {
    const number = fc.oneof(
      fc.double(),
      fc.integer({ min: -5, max: 1000 }),
      fc.constantFrom(0, 1e-300, 1e300, Number.MAX_SAFE_INTEGER),
    );
    const sums = fc.record(
      { n: fc.oneof(fc.integer({ min: -1, max: 50 }), number), sum: number, sumSquares: number },
      { requiredKeys: ["n", "sum"] },
    );
    fc.assert(
      fc.property(sums, sums, fc.constantFrom(null, 0.1), (control, treatment, margin) => {
        const result = compare(control, treatment, { margin });
        expect(numbersIn(result).every(Number.isFinite)).toBe(true);
      }),
      { numRuns: 500 },
    );
  });
});
