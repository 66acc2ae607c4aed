import { describe, expect, it } from "vitest";
import { chiSquareSf } from "../statistics/gamma-distribution.ts";
import { compareQuantiles } from "./compare-quantiles.ts";
import { testInteraction } from "./effect-interaction.ts";

const SPEC = { level: 0.95, sequentialTuning: 5000 };
const arm = (value: number, reach: number, n = 1000) => ({
  n,
  sampled: n,
  nu: 0.9,
  value,
  lower: value - reach,
  upper: value + reach,
});

describe("comparing quantiles", () => {
  it("[XM-4] tells the difference with an error from the order statistics around each", () => {
    const { status, absolute, relative, bayes, sequential } = compareQuantiles(
      arm(10, 1.959963984540054),
      arm(12, 1.959963984540054),
      SPEC,
    );
    expect(status).toBe("ok");
    // Each quantile has an error of one, but for the usual factor (n - 1) / n.
    expect(absolute?.standardError).toBeCloseTo(Math.sqrt(2 * 0.999), 9);
    expect(absolute?.estimate).toBeCloseTo(2, 12);
    expect(relative?.estimate).toBeCloseTo(0.2, 12);
    expect(bayes?.chanceToWin).toBeCloseTo(0.9214, 3);
    expect((bayes?.chanceToWin ?? 0) + (bayes?.chanceToLose ?? 0)).toBeCloseTo(1, 12);
    const [low = 0, high = 0] = absolute?.interval ?? [];
    const [lower = 0, higher = 0] = sequential?.interval ?? [];
    expect(lower < low && low < 2 && 2 < high && high < higher).toBe(true);
  });

  it("[XM-4] says why it cannot", () => {
    const status = (...arms: Parameters<typeof compareQuantiles>) => compareQuantiles(...arms);
    expect(status(undefined, arm(1, 1), SPEC).status).toBe("not-enough-data");
    expect(status(arm(1, 1), arm(1, 1, 30), SPEC).status).toBe("not-enough-data");
    expect(status(arm(1, 0), arm(2, 0), SPEC).status).toBe("zero-variance");
    const zero = status(arm(0, 1), arm(2, 1), SPEC);
    expect(zero).toMatchObject({ status: "zero-baseline", relative: null });
    expect(zero.absolute?.estimate).toBe(2);
    expect(status(arm(1e308, 1e308), arm(2, 1), SPEC).status).toBe("invalid-input");
  });
});

describe("testing whether an effect differs between cells", () => {
  it("[XM-2] is Cochran's Q", () => {
    const effects = [
      { estimate: 1, standardError: 0.5 },
      { estimate: 3, standardError: 1 },
      { estimate: 2, standardError: 2 },
    ];
    // Weights 4, 1 and 1/4 around a mean of 7.5 / 5.25.
    const mean = 7.5 / 5.25;
    const statistic = 4 * (1 - mean) ** 2 + (3 - mean) ** 2 + 0.25 * (2 - mean) ** 2;
    const found = testInteraction(effects);
    expect(found?.statistic).toBeCloseTo(statistic, 12);
    expect(found).toMatchObject({ degrees: 2 });
    expect(found?.pValue).toBeCloseTo(chiSquareSf(statistic, 2), 12);
    expect(testInteraction(effects.slice(0, 1))).toBeNull();
    expect(testInteraction([...effects.slice(0, 1), { estimate: 1, standardError: 0 }])).toBeNull();
  });
});
