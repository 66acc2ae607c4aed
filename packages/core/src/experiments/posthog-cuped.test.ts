import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";
import { armOf, expectGolden, type GoldenCase } from "../statistics/golden-statistics.setup.ts";
import { posthogNumbers } from "../statistics/posthog-analysis.ts";
import { posthogCupedNumbers } from "./posthog-cuped.ts";

const { cases }: { cases: readonly GoldenCase[] } = JSON.parse(
  readFileSync(
    fileURLToPath(new URL("../../vectors/statistics/cuped.json", import.meta.url)),
    "utf8",
  ),
);
const METHOD = { method: "bayesian", level: 0.95, difference: "relative" } as const;
const plain = (n: number, sum: number, sumSquares: number) => ({ n, sum, sumSquares });

describe("PostHog's numbers with covariates", () => {
  const golden = cases.filter(({ fn }) => fn === "cuped");
  it.each(golden.map((one) => [one.id, one] as const))(
    "[XM-3] are those of %s",
    (_id, { expected, ...one }) => {
      const pooled = (expected as { pooled: { relative_posthog: GoldenCase["expected"] } }).pooled;
      const numbers = (method: "bayesian" | "frequentist") =>
        posthogCupedNumbers(armOf(one.input.control), armOf(one.input.treatment), {
          ...METHOD,
          method,
          level: 1 - one.input.alpha,
        });
      const frequentist = numbers("frequentist");
      expectGolden(
        { ...one, expected: pooled.relative_posthog ?? null },
        {
          chance_to_win: numbers("bayesian")?.probability,
          p_value: frequentist?.probability,
          ci: frequentist?.interval,
        },
      );
    },
  );

  it("[XM-3] are the usual ones where the covariate does not vary, and none without one", () => {
    const arms = [plain(100, 210, 700), plain(110, 260, 900)].map((arm) => ({
      ...arm,
      covariates: { sums: [0], products: [[0]], withMain: [0] },
    }));
    const [control = plain(0, 0, 0), treatment = control] = arms;
    for (const method of [
      METHOD,
      { ...METHOD, method: "frequentist" as const },
      { ...METHOD, method: "frequentist" as const, difference: "absolute" as const },
    ]) {
      const own = posthogCupedNumbers(control, treatment, method);
      const usual = posthogNumbers(control, treatment, "mean", method);
      expect(own?.probability).toBeCloseTo(usual?.probability ?? Number.NaN, 9);
      expect(own?.interval[0]).toBeCloseTo(usual?.interval[0] ?? Number.NaN, 9);
    }
    expect(posthogCupedNumbers(plain(100, 210, 700), plain(110, 260, 900), METHOD)).toBeNull();
  });
});
