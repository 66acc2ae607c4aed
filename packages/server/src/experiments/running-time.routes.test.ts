import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { openFlagsApi } from "../flags/flags-api.setup.ts";

describe("planning an experiment over HTTP", () => {
  let api: Awaited<ReturnType<typeof openFlagsApi>>;
  let url: string;
  beforeAll(async () => {
    api = await openFlagsApi();
    url = `/api/projects/${await api.newProject()}/experiments/calculate_running_time`;
  });
  afterAll(() => api.close());

  const plan = async (body: object) => {
    const answer = await api.send("POST", url, body);
    expect(answer.status, JSON.stringify(answer.body)).toBe(200);
    return answer.body;
  };
  const refused = async (body: object) => {
    const answer = await api.send("POST", url, body);
    expect(answer.status, JSON.stringify(answer.body)).toBe(400);
    return answer.body;
  };
  const RATE = { metric_type: "funnel", baseline_value: 0.1, minimum_detectable_effect: 10 };

  it("[XP-17] recommends what PostHog's calculator does, and tells what the test of the difference needs", async () => {
    const found = await plan({ ...RATE, exposure_rate_per_day: 1000 });
    // 16 p (1 - p) / (0.1 p)^2 for each of two variants.
    expect(found.recommended_sample_size).toBe(28800);
    expect(found.recommended_running_time).toBe(29);
    // The textbook's 14,748 an arm for 10 % against 11 % at 5 % and 80 %.
    expect(found.extended).toMatchObject({
      status: "ok",
      method: "two-sided test of the absolute difference, one look at the end",
      inputs: { kind: "proportion", baseline: 0.1, effect: 0.1, alpha: 0.05, power: 0.8 },
      sample: { running_time_days: 30 },
      sample_size: null,
      current: null,
      warnings: [],
    });
    const { total, per_variant, achieved_power } = found.extended.sample;
    expect(Math.abs(total - 2 * 14748)).toBeLessThanOrEqual(4);
    expect(per_variant).toEqual([total / 2, total / 2].map(Math.ceil));
    expect(achieved_power).toBeGreaterThanOrEqual(0.8);
    expect(achieved_power).toBeLessThan(0.8001);
  });

  it("[XP-17] tells the smallest effect and the power of a sample", async () => {
    const { extended } = await plan({ ...RATE, sample_size: 29_500 });
    expect(extended.sample_size.total).toBe(29_500);
    expect(extended.sample_size.minimum_detectable_effect).toBeCloseTo(10, 1);
    expect(extended.sample_size.power).toBeCloseTo(0.8, 2);
    const alone = await plan({ metric_type: "funnel", baseline_value: 0.1, sample_size: 29_500 });
    expect(alone.recommended_sample_size).toBeNull();
    expect(alone.extended.sample).toBeNull();
    expect(alone.extended.sample_size).toMatchObject({
      power: null,
      minimum_detectable_effect: extended.sample_size.minimum_detectable_effect,
    });
  });

  it("[XP-17] plans means and ratios by their variance, and says what it assumes without one", async () => {
    const mean = { metric_type: "mean", baseline_value: 10, minimum_detectable_effect: 5 };
    const exact = await plan({ ...mean, baseline_variance: 9 });
    expect(exact.recommended_sample_size).toBeNull();
    // 2 (z + z)^2 9 / 0.5^2 = 565.1 an arm.
    expect(Math.abs(exact.extended.sample.total - 2 * 566)).toBeLessThanOrEqual(2);
    const ratio = await plan({ ...mean, metric_type: "ratio", baseline_variance: 9 });
    expect(ratio.extended.sample).toEqual(exact.extended.sample);
    const count = await plan({ ...mean, metric_type: "mean_count" });
    expect(count.recommended_sample_size).toBe(Math.ceil((16 * 20 * 2) / 0.25));
    expect(count.extended.inputs.variance).toBe(20);
    expect(count.extended.warnings).toMatchObject([{ code: "variance-assumed" }]);
    const corrected = await plan({ ...mean, baseline_variance: 9, covariate_correlation: 0.6 });
    expect(corrected.extended.sample.total / exact.extended.sample.total).toBeCloseTo(0.64, 2);
  });

  it("[XP-17] needs more for several variants, unequal shares, corrections and looks at any time", async () => {
    const base = (await plan(RATE)).extended.sample.total;
    const more = async (body: object) =>
      (await plan({ ...RATE, ...body })).extended.sample.total / base;
    expect(await more({ number_of_variants: 3 })).toBeCloseTo(1.5, 1);
    expect(await more({ number_of_variants: 3, correction: "bonferroni" })).toBeGreaterThan(1.7);
    expect(await more({ variant_shares: [90, 10] })).toBeGreaterThan(2.5);
    expect(await more({ sequential: true })).toBeGreaterThan(1.5);
    expect(await more({ sides: 1 })).toBeLessThan(0.85);
    expect(await more({ power: 0.9 })).toBeGreaterThan(1.3);
    expect(await more({ minimum_detectable_effect: -10 })).toBeLessThan(1);
  });

  it("[XP-17] says of a running experiment what chance it has and what it lacks", async () => {
    const current = { control_units: 7_000, treatment_units: 7_000 };
    const { extended } = await plan({ ...RATE, current, exposure_rate_per_day: 1000 });
    expect(extended.current.power).toBeGreaterThan(0.4);
    expect(extended.current.power).toBeLessThan(0.6);
    expect(extended.current.more_units).toBe(extended.sample.total - 14_000);
    expect(extended.current.more_days).toBe(Math.ceil(extended.current.more_units / 1000));
    const standard_error = Math.sqrt((0.09 + 0.0979) / 7_000);
    const measured = await plan({ ...RATE, current: { ...current, standard_error } });
    expect(measured.extended.current.power).toBeCloseTo(extended.current.power, 3);
    expect(measured.extended.current.growth).toBeCloseTo(extended.current.growth, 2);
    const enough = await plan({
      ...RATE,
      current: { control_units: 1e6, treatment_units: 1e6 },
    });
    expect(enough.extended.current).toMatchObject({ growth: 0, more_units: 0, more_days: null });
  });

  it("[XP-17] finds the same lack by a measured error as by the plan, looked at any time or by one side", async () => {
    const mean = {
      metric_type: "mean",
      baseline_value: 10,
      baseline_variance: 16,
      minimum_detectable_effect: 2,
      exposure_rate_per_day: 1000,
    };
    const units = 4_000;
    const current = { control_units: units, treatment_units: units };
    const standard_error = Math.sqrt((2 * 16) / units);
    for (const more of [{}, { sequential: true }, { sequential: true, sides: 1 }, { sides: 1 }]) {
      const planned = (await plan({ ...mean, ...more, current })).extended.current;
      const measured = (await plan({ ...mean, ...more, current: { ...current, standard_error } }))
        .extended.current;
      expect(planned.growth).toBeGreaterThan(0.1);
      expect(measured.growth).toBeCloseTo(planned.growth, 3);
      expect(Math.abs(measured.more_units - planned.more_units)).toBeLessThanOrEqual(1);
    }
  });

  it("[XP-17] names what cannot be found", async () => {
    const far = await plan({ ...RATE, baseline_value: 0.6, minimum_detectable_effect: 100 });
    expect(far.extended).toMatchObject({
      status: "not-reachable",
      sample: null,
      warnings: [{ code: "effect-not-reachable" }],
    });
    const tiny = await plan({ metric_type: "funnel", baseline_value: 0.9, sample_size: 4 });
    expect(tiny.extended).toMatchObject({
      status: "not-reachable",
      sample_size: { minimum_detectable_effect: null },
      warnings: [{ code: "sample-too-small" }],
    });
  });

  it.each([
    ["metric_type", { metric_type: undefined }, "required"],
    ["metric_type", { metric_type: "sales" }, "invalid_choice"],
    ["baseline_value", { baseline_value: undefined }, "required"],
    ["baseline_value", { baseline_value: "0.1" }, "invalid_input"],
    ["baseline_value", { baseline_value: 0 }, "invalid_input"],
    ["baseline_value", { baseline_value: 1 }, "invalid_input"],
    ["baseline_value", { metric_type: "mean_count", baseline_value: -1 }, "invalid_input"],
    ["baseline_value", { metric_type: "mean_count", baseline_value: 1e308 }, "invalid_input"],
    ["baseline_value", { metric_type: "mean_count", baseline_value: 1e-300 }, "invalid_input"],
    ["minimum_detectable_effect", { minimum_detectable_effect: 1e11 }, "invalid_input"],
    ["baseline_variance", { metric_type: "mean", baseline_variance: 1e300 }, "invalid_input"],
    ["baseline_variance", { metric_type: "ratio" }, "required"],
    ["baseline_variance", { metric_type: "mean" }, "required"],
    ["baseline_variance", { metric_type: "mean", baseline_variance: 0 }, "invalid_input"],
    ["minimum_detectable_effect", { minimum_detectable_effect: null }, "required"],
    ["minimum_detectable_effect", { minimum_detectable_effect: 0 }, "invalid_input"],
    ["minimum_detectable_effect", { minimum_detectable_effect: "5" }, "invalid_input"],
    ["minimum_detectable_effect", { minimum_detectable_effect: -100 }, "invalid_input"],
    ["sample_size", { sample_size: 0 }, "invalid_input"],
    ["number_of_variants", { number_of_variants: 1 }, "invalid_input"],
    ["number_of_variants", { number_of_variants: 21 }, "invalid_input"],
    ["variant_shares", { variant_shares: [50, 50], number_of_variants: 3 }, "invalid_input"],
    ["variant_shares__1", { variant_shares: [50, 0] }, "invalid_input"],
    ["variant_shares__1", { variant_shares: [1, 1e308] }, "invalid_input"],
    ["variant_shares__0", { variant_shares: [1e-300, 1] }, "invalid_input"],
    [
      "sequential_tuning_parameter",
      { sequential: true, sequential_tuning_parameter: 1e-300 },
      "invalid_input",
    ],
    ["exposure_rate_per_day", { exposure_rate_per_day: 0 }, "invalid_input"],
    ["alpha", { alpha: 1 }, "invalid_input"],
    ["power", { power: 80 }, "invalid_input"],
    ["sides", { sides: 3 }, "invalid_choice"],
    ["covariate_correlation", { covariate_correlation: 1 }, "invalid_input"],
    ["current__control_units", { current: { treatment_units: 5 } }, "required"],
    [
      "current__treatment_units",
      { current: { control_units: 5, treatment_units: 1 } },
      "invalid_input",
    ],
  ])("[XP-17] refuses %s of %j", async (attr, body, code) => {
    expect(await refused({ ...RATE, ...body })).toMatchObject({
      type: "validation_error",
      code,
      attr,
    });
  });
});
