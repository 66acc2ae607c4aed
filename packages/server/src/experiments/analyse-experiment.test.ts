import { calendarDays } from "@hedgerow/core/experiments/calendar";
import { createTimeZone } from "@hedgerow/core/flags/zoned-date";
import { describe, expect, it } from "vitest";
import { exposuresOf } from "./analyse-experiment.ts";
import { compareMeasured } from "./analyse-measured.ts";

const DAY = 86_400_000;
const FROM = new Date("2026-03-01T12:00:00Z");
const variants = [
  { key: "control", rollout_percentage: 50 },
  { key: "test", rollout_percentage: 50 },
  { key: "spare", rollout_percentage: 0 },
];
const count = (variant: string, units: number, day = "2026-03-01") => ({ variant, units, day });
const window = (days: number) => {
  const to = new Date(FROM.getTime() + days * DAY);
  const interval = { fromMs: FROM.getTime(), toMs: to.getTime() };
  const calendar = calendarDays(interval, createTimeZone("UTC"), 3660);
  return {
    from: FROM,
    to,
    days: calendar.map(({ day, fromMs }) => ({ day, from: new Date(fromMs) })),
  };
};
const exposures = (counts: ReturnType<typeof count>[], days = 3) =>
  exposuresOf(window(days), variants, counts);
const BAYESIAN = {
  method: { method: "bayesian", level: 0.95, difference: "relative" },
  lookbackMs: null,
  belief: { prior: null, margin: null },
} as const;
const MEAN = { kind: "mean", goal: "increase" } as const;
const arm = (variant: string, n: number, sum: number, sumSquares = sum) => ({
  variant,
  sums: { n, sum, sumSquares },
  stepCounts: null,
});

describe("analysing an experiment", () => {
  it("[XR-10] sums units up by day, the declared variants first", () => {
    const found = exposures([
      count("test", 3, "2026-03-03"),
      count("test", 2),
      count("holdout-1", 4),
      count("$multiple", 1, "2026-03-02"),
    ]);
    expect(found.days).toEqual(["2026-03-01", "2026-03-02", "2026-03-03", "2026-03-04"]);
    expect(found.series).toEqual([
      { variant: "control", counts: [0, 0, 0, 0] },
      { variant: "test", counts: [2, 2, 5, 5] },
      { variant: "spare", counts: [0, 0, 0, 0] },
      { variant: "$multiple", counts: [0, 1, 1, 1] },
    ]);
    expect(found.holdouts).toEqual([{ variant: "holdout-1", counts: [4, 4, 4, 4] }]);
    expect(exposures([], -1)).toMatchObject({ days: [], sampleRatio: null });
  });

  it("[XR-10] shows the last ten years of an experiment that began long ago, and counts it whole", () => {
    const found = exposures([count("test", 2, "2026-03-01"), count("test", 1, "2045-01-01")], 8000);
    expect(found.days.length).toBe(3660);
    expect(found.series[1]?.counts[0]).toBe(2);
    expect(found.series[1]?.counts.at(-1)).toBe(3);
  });

  it("[XR-10] tests shares without holdouts and variants of 0 %, and not of few units", () => {
    const few = exposures([count("control", 50), count("test", 49)]);
    expect(few.sampleRatio).toBeNull();
    const fair = exposures([count("control", 450), count("test", 450), count("holdout-1", 100)]);
    expect(fair.sampleRatio?.test).toMatchObject({ pValue: 1, mismatch: false });
    expect(fair.withoutShare).toEqual([]);
    const stray = exposures([count("control", 500), count("test", 505), count("spare", 3)]);
    expect(stray.sampleRatio?.test.pValue).toBeCloseTo(0.8747, 3);
    expect(stray.sampleRatio?.variants).toEqual(["control", "test"]);
    expect(stray.withoutShare).toEqual(["spare"]);
    const shipped = variants.map((one, index) => ({ ...one, rollout_percentage: index ? 0 : 100 }));
    const counts = [count("control", 500), count("test", 505)];
    expect(exposuresOf(window(1), shipped, counts)).toMatchObject({
      sampleRatio: null,
      withoutShare: [],
    });
    const skewed = exposures([count("control", 500), count("test", 650)]);
    expect(skewed.sampleRatio?.test.mismatch).toBe(true);
  });

  it("[XR-11] leaves statistics out where the control or the treatment fails validation", () => {
    const failures = (control: ReturnType<typeof arm>, test: ReturnType<typeof arm>) => {
      const { baseline, variants: results } = compareMeasured([control, test], MEAN, BAYESIAN);
      const [result] = results;
      return [baseline.failures, result?.failures, result?.numbers === null];
    };
    expect(failures(arm("control", 100, 20), arm("test", 100, 30))).toEqual([[], [], false]);
    expect(failures(arm("control", 100, 0), arm("test", 49, 30))).toEqual([
      ["baseline-mean-is-zero"],
      ["not-enough-exposures"],
      true,
    ]);
    expect(failures(arm("control", 49, 20), arm("test", 100, 30))).toEqual([
      ["not-enough-exposures"],
      [],
      true,
    ]);
    expect(failures(arm("control", 100, 20, 4), arm("test", 100, 30, 9))).toEqual([[], [], true]);
  });

  it("[XR-11] compares with the control, wherever it stands among the variants", () => {
    const { baseline, variants: results } = compareMeasured(
      [arm("test", 100, 30), arm("control", 100, 20)],
      MEAN,
      BAYESIAN,
    );
    expect(baseline.arm.variant).toBe("control");
    expect(results.map((result) => result.arm.variant)).toEqual(["test"]);
    expect(results[0]?.numbers?.probability).toBeGreaterThan(0.9);
    expect(results[0]?.comparison.absolute?.estimate).toBeCloseTo(0.1, 12);
  });
});
