import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { ArmSums } from "./arm.ts";
import { type ComparisonSpec, compareArms } from "./compare-arms.ts";
import { groupSequentialBounds } from "./group-sequential.ts";
import { correctPValues, type ReportSettings, rankArms, reportEffects } from "./report-effects.ts";

const spec: ComparisonSpec = {
  level: 0.95,
  goal: "increase",
  prior: null,
  sequentialTuning: 5000,
  covariates: null,
  margin: null,
};
const settings: ReportSettings = {
  level: 0.95,
  goal: "increase",
  target: null,
  power: 0.8,
  plan: null,
};
const rate = (n: number, sum: number): ArmSums => ({ n, sum });

function report(arms: readonly ArmSums[], asked: Partial<ReportSettings> = {}) {
  const [control = rate(0, 0), ...treatments] = arms;
  const wanted = { ...settings, ...asked };
  const comparisons = compareArms(control, treatments, { ...spec, goal: wanted.goal });
  return { comparisons, reports: reportEffects(comparisons, wanted) };
}

describe("[ST-17] a report on effects", () => {
  it("calls an effect as the two-sided test of the difference does, in the direction of the goal", () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1200, max: 3000 }),
        fc.integer({ min: 1200, max: 3000 }),
        fc.constantFrom("increase" as const, "decrease" as const),
        (c, t, goal) => {
          const { comparisons, reports } = report([rate(6000, c), rate(6000, t)], { goal });
          const p = comparisons[0]?.absolute?.pValue ?? 1;
          const oneSided = reports[0]?.oneSided;
          // Student's test with thousands of units and the normal posterior agree but at the edge.
          fc.pre(Math.abs(p - 0.05) > 0.001);
          const isBetter = goal === "increase" ? t > c : t < c;
          const called = p < 0.05 ? (isBetter ? "winning" : "losing") : "undecided";
          expect(reports[0]?.decision).toBe(called);
          expect(oneSided?.pBetter).toBeCloseTo(isBetter ? p / 2 : 1 - p / 2, 9);
          expect((oneSided?.pBetter ?? 0) + (oneSided?.pWorse ?? 0)).toBeCloseTo(1, 12);
        },
      ),
      { numRuns: 100 },
    );
  });

  it("names the outcomes that are too few for a test", () => {
    const detail = (arms: readonly ArmSums[]) => report(arms).reports[0]?.remarks[0]?.detail;
    expect(detail([rate(112, 75), rate(88, 88)])).toContain("the treatment has 0 without success");
    expect(detail([rate(100, 4), rate(100, 97)])).toMatch(
      /the control has 4 with success, the treatment has 3 without success/,
    );
    expect(detail([rate(1, 1), rate(100, 20)])).not.toContain("success");
  });

  it("says in words why there is no number, and decides nothing then", () => {
    const codes = (arms: readonly ArmSums[]) =>
      report(arms).reports.map(({ decision, remarks }) => [
        decision,
        ...remarks.map(({ code }) => code),
      ]);
    expect(codes([rate(100, 4), rate(100, 20)])).toEqual([[null, "not-enough-data"]]);
    expect(codes([rate(1, 1), rate(100, 20)])).toEqual([[null, "not-enough-data"]]);
    expect(codes([rate(100, 200), rate(100, 20)])).toEqual([[null, "invalid-input"]]);
    const constant = { n: 100, sum: 200, sumSquares: 400 };
    expect(codes([constant, constant])).toEqual([[null, "zero-variance"]]);
    const zero = { n: 100, sum: 0, sumSquares: 50 };
    expect(codes([zero, { n: 100, sum: 90, sumSquares: 200 }])).toEqual([
      ["winning", "zero-baseline"],
    ]);
    const faint = { n: 100, sum: 10, sumSquares: 900 };
    expect(codes([faint, { n: 100, sum: 90, sumSquares: 900 }])[0]).toContain("lift-unbounded");
    const below = { n: 100, sum: -300, sumSquares: 1000 };
    expect(codes([below, { n: 100, sum: -200, sumSquares: 600 }])[0]).toContain(
      "negative-baseline",
    );
    const far = { n: 100, sum: 1e10, sumSquares: 1e18 + 9000 };
    expect(codes([far, far])[0]).toContain("large-offset");
  });

  it("warns of a difference that holds for one look alone", () => {
    const codes = (t: number) =>
      report([rate(2000, 400), rate(2000, t)]).reports[0]?.remarks.map(({ code }) => code);
    expect(codes(455)).toContain("only-at-one-look");
    expect(codes(400)).not.toContain("only-at-one-look");
    expect(codes(600)).not.toContain("only-at-one-look");
  });

  it("tells what the units can find, and how many a target still needs", () => {
    const mid = (n: number, target: number | null) =>
      report([rate(n, n / 10), rate(n, n / 10)], { target }).reports[0]?.midExperiment;
    const few = mid(5000, 0.1);
    // 14,748 an arm find 10 % of 10 % with a chance of 80 %.
    expect((few?.moreUnits ?? 0) / 2 + 5000).toBeGreaterThan(13_900);
    expect((few?.moreUnits ?? 0) / 2 + 5000).toBeLessThan(14_400);
    expect(few?.power).toBeGreaterThan(0.3);
    expect(few?.minimumLift).toBeGreaterThan(0.1);
    expect(mid(20_000, 0.1)).toMatchObject({ moreUnits: 0 });
    expect(mid(20_000, 0.1)?.power).toBeGreaterThan(0.8);
    expect(mid(5000, null)).toMatchObject({ power: null, moreUnits: null });
  });

  it("follows a plan of looks, and decides at planned looks alone", () => {
    const plan = { spending: { kind: "obf" as const }, fractions: [0.5, 1], finalUnits: 10_000 };
    const at = (n: number, t = n / 5) =>
      report([rate(n, n / 5), rate(n, t)], { plan }).reports[0]?.planned;
    expect(at(1000)).toMatchObject({
      status: "before-first-look",
      look: 0,
      stops: null,
      nextLookAtUnits: 5000,
    });
    const { zBounds } = groupSequentialBounds({
      alpha: 0.05,
      informationFractions: [0.5, 1],
      spending: { kind: "obf" },
    });
    expect(at(2500)).toMatchObject({ status: "at-look", look: 1, looks: 2, stops: false });
    expect(at(2500)?.bound).toBeCloseTo(zBounds[0] ?? 0, 9);
    expect(at(2500, 700)).toMatchObject({ status: "at-look", stops: true });
    expect(at(3500, 1000)).toMatchObject({ status: "between-looks", look: 1, stops: null });
    expect(at(5000)?.bound).toBeCloseTo(zBounds[1] ?? 0, 9);
    expect(at(6000, 2000)).toMatchObject({
      status: "beyond-plan",
      stops: null,
      nextLookAtUnits: null,
    });
  });

  it("tells planned looks apart that are near each other", () => {
    const plan = {
      spending: { kind: "pocock" as const },
      fractions: [0.5, 0.51, 1],
      finalUnits: 10_000,
    };
    const at = (n: number) =>
      report([rate(n, n / 5), rate(n, n / 4)], { plan }).reports[0]?.planned;
    expect(at(2500)).toMatchObject({ status: "at-look", look: 1, bound: expect.any(Number) });
    expect(at(2525)).toMatchObject({ status: "between-looks", look: 1 });
    expect(at(2550)).toMatchObject({ status: "at-look", look: 2, bound: expect.any(Number) });
    expect(at(2550)?.spentAlpha).toBeGreaterThan(at(2500)?.spentAlpha ?? 1);
  });

  it("ranks arms by the goal; two arms are ranked as they are compared", () => {
    const arms = [rate(1000, 100), rate(1000, 130), rate(1000, 90)];
    const { comparisons } = report(arms);
    const samples = [
      comparisons[0]?.control ?? null,
      ...comparisons.map(({ treatment }) => treatment),
    ];
    const up = rankArms(samples, { goal: "increase", isRate: true });
    const down = rankArms(samples, { goal: "decrease", isRate: true });
    expect(up?.reduce((sum, one) => sum + one.chanceToBeBest, 0)).toBeCloseTo(1, 9);
    expect(up?.[1]?.chanceToBeBest).toBeGreaterThan(0.95);
    expect(down?.[2]?.chanceToBeBest).toBeGreaterThan(0.7);
    const two = rankArms(samples.slice(0, 2), { goal: "increase", isRate: true });
    expect(two?.[1]?.chanceToBeBest).toBeCloseTo(comparisons[0]?.bayes?.chanceToWin ?? 0, 9);
    const normal = rankArms(samples, { goal: "increase", isRate: false });
    expect(normal?.[1]?.chanceToBeBest).toBeCloseTo(up?.[1]?.chanceToBeBest ?? 0, 1);
    expect(rankArms([samples[0] ?? null, null], { goal: "increase", isRate: true })).toBeNull();
  });

  it("corrects p-values for the number of tests, those that are missing left out", () => {
    const { tests, corrected } = correctPValues([0.01, null, 0.04, 0.03]);
    expect(tests).toBe(3);
    expect(corrected[0]).toEqual({ holm: 0.03, benjaminiHochberg: 0.03, bonferroni: 0.03 });
    expect(corrected[1]).toEqual({ holm: null, benjaminiHochberg: null, bonferroni: null });
    expect(corrected[2]?.holm).toBeCloseTo(0.06, 12);
    expect(corrected[2]?.bonferroni).toBeCloseTo(0.12, 12);
    expect(corrected[3]?.benjaminiHochberg).toBeCloseTo(0.04, 12);
  });
});
