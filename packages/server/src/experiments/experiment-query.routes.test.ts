import { afterAll, beforeAll, describe, expect, it } from "vitest";
import {
  HOUR_MS,
  happen as happenAt,
  openExperimentsService,
} from "./experiments-service.setup.ts";

const now = Date.now();
const start = now - 72 * HOUR_MS;
const USERS = 120;
const SOURCE = { kind: "EventsNode", event: "bought" };
const MEAN = { kind: "ExperimentMetric", metric_type: "mean", source: SOURCE };

describe("asking about experiments", () => {
  let service: Awaited<ReturnType<typeof openExperimentsService>>;
  let id: number;
  const query = (asked: object, path = "projects") =>
    service.send("POST", `/api/${path}/1/query/`, { query: { experiment_id: id, ...asked } });
  const answer = async (asked: object) => {
    const { status, body } = await query(asked);
    expect(status, JSON.stringify(body)).toBe(200);
    return body;
  };
  const analyse = (metric: object) => answer({ kind: "ExperimentQuery", metric });
  const exposures = () => answer({ kind: "ExperimentExposureQuery" });
  const change = (body: object) => service.done("PATCH", `experiments/${id}`, body);
  const happen = (event: string, user: string, hours: number, properties: object = {}) =>
    happenAt(event, user, start + hours * HOUR_MS, properties);
  const call = (user: string, variant: unknown, hours = 1) =>
    happen("$feature_flag_called", user, hours, {
      $feature_flag: "button",
      $feature_flag_response: variant,
    });

  /** User n is in `test` where n is odd; the users whose number a count divides bought so often. */
  const isTest = (user: number) => user % 2 === 1;
  const purchases = (user: number) => [2, 3, 5].filter((divisor) => user % divisor === 0).length;

  beforeAll(async () => {
    service = await openExperimentsService();
    const variants = ["control", "test", "spare"].map((key, index) => ({
      key,
      rollout_percentage: [50, 50, 0][index],
    }));
    ({ id } = await service.done("POST", "experiments", {
      name: "Button",
      feature_flag_key: "button",
      parameters: { feature_flag_variants: variants },
    }));
    const users = Array.from({ length: USERS }, (_, index) => index);
    await service.capture(
      users.flatMap((user) => [
        call(`u${user}`, isTest(user) ? "test" : "control", user < 60 ? 1 : 30),
        call(`u${user}`, isTest(user) ? "test" : "control", 31),
        happen("bought", `u${user}`, 0.5, { price: 1000 }),
        ...Array.from({ length: purchases(user) }, (_, index) =>
          happen("bought", `u${user}`, 40 + index, { price: user, kind: index ? "more" : "one" }),
        ),
      ]),
    );
    await service.capture([
      call("early", "test", -1),
      call("both", "test", 2),
      call("both", "control", 3),
      call("held", "holdout-4", 3),
      call("odd", "spare", 3),
      call("none", false, 3),
    ]);
  });
  afterAll(() => service.close());

  it("[XR-9] refuses drafts, unknown experiments and kinds of queries, naming the field", async () => {
    const refused = async (asked: object) => {
      const { status, body } = await query(asked);
      expect(status).toBe(400);
      return body;
    };
    expect(await refused({ kind: "ExperimentExposureQuery" })).toEqual({
      type: "validation_error",
      code: "invalid_input",
      detail: "Experiment has not been launched yet.",
      attr: "query__experiment_id",
    });
    await change({ start_date: new Date(start).toISOString() });
    const invalid = { ...MEAN, source: { ...SOURCE, math: "sum" } };
    for (const [asked, attr] of [
      [{ kind: "HogQLQuery" }, "query__kind"],
      [{ kind: null }, "query__kind"],
      [{ kind: "ExperimentExposureQuery", experiment_id: 999 }, "query__experiment_id"],
      [{ kind: "ExperimentExposureQuery", experiment_id: "1" }, "query__experiment_id"],
      [{ kind: "ExperimentExposureQuery", experiment_id: null }, "query__experiment_id"],
      [{ kind: "ExperimentQuery" }, "query__metric"],
      [{ kind: "ExperimentQuery", metric: [] }, "query__metric"],
      [{ kind: "ExperimentQuery", metric: invalid }, "query__metric__source__math_property"],
    ] as const)
      expect(await refused(asked)).toMatchObject({ attr });
    expect((await refused({ kind: "HogQLQuery" })).detail).toContain("HogQLQuery");
    expect((await service.send("POST", "query", {})).body).toMatchObject({ attr: "query" });
  });

  it("[XR-10] answers who was exposed, day by day, once each", async () => {
    const { total_exposures, timeseries, ...rest } = await exposures();
    expect(total_exposures).toEqual({ control: 60, test: 60, spare: 1, $multiple: 1 });
    const control = timeseries.find(({ variant }: { variant: string }) => variant === "control");
    const day = (ms: number) => new Date(ms).toISOString().slice(0, 10);
    expect(control.days[0]).toBe(day(start));
    // It may have become another day since.
    expect([day(now), day(Date.now())]).toContain(control.days.at(-1));
    const dayOf = (user: number) => day(start + (user < 60 ? 1 : 30) * HOUR_MS);
    expect(control.exposure_counts).toEqual(
      control.days.map(
        (until: string) =>
          Array.from({ length: USERS }, (_, user) => user).filter(
            (user) => !isTest(user) && dayOf(user) <= until,
          ).length,
      ),
    );
    expect(rest).toMatchObject({
      kind: "ExperimentExposureQuery",
      holdout_exposures: { "holdout-4": 1 },
      date_range: { date_from: expect.any(String), date_to: expect.any(String) },
      sample_ratio_mismatch: {
        p_value: 1,
        mismatch: false,
        expected: { control: 60, test: 60 },
      },
      warnings: [{ code: "variant-without-share", variant: "spare" }],
    });
    const alias = await query({ kind: "ExperimentExposureQuery" }, "environments");
    expect(alias.body.total_exposures).toEqual(total_exposures);
  });

  it("[XR-11] answers a mean in PostHog's shape, with our own numbers beside", async () => {
    const metric = { ...MEAN, source: { ...SOURCE, math: "sum", math_property: "price" } };
    const body = await analyse(metric);
    const sumsOf = (wanted: boolean) => {
      const users = Array.from({ length: USERS }, (_, user) => user);
      const values = users.filter((u) => isTest(u) === wanted).map((u) => u * purchases(u));
      const total = (numbers: number[]) => numbers.reduce((sum, value) => sum + value, 0);
      return {
        number_of_samples: 60,
        sum: total(values),
        sum_squares: total(values.map((value) => value * value)),
      };
    };
    expect(body).toMatchObject({
      kind: "ExperimentQuery",
      metric,
      baseline: { key: "control", ...sumsOf(false), validation_failures: [] },
      insight: null,
      significant: null,
    });
    const [test, spare] = body.variant_results;
    expect(test).toMatchObject({
      key: "test",
      ...sumsOf(true),
      validation_failures: [],
      method: "bayesian",
      significant: expect.any(Boolean),
      chance_to_win: expect.any(Number),
    });
    const lift = sumsOf(true).sum / sumsOf(false).sum - 1;
    const [low, high] = test.credible_interval;
    expect((low + high) / 2).toBeCloseTo(lift, 9);
    expect(test.extended.absolute.estimate).toBeCloseTo(
      (sumsOf(true).sum - sumsOf(false).sum) / 60,
      9,
    );
    expect(test.extended).toMatchObject({
      status: "ok",
      bayes: { chance_to_win: expect.any(Number), loss_if_shipped: expect.any(Number) },
      sequential: { p_value: expect.any(Number) },
    });
    expect(spare).toMatchObject({
      key: "spare",
      number_of_samples: 1,
      validation_failures: ["not-enough-exposures"],
      extended: { status: "not-enough-data" },
    });
    for (const name of ["significant", "chance_to_win", "credible_interval"])
      expect(spare).not.toHaveProperty(name);
  });

  it("[XR-11] answers funnels, ratios and retention, with filters of events", async () => {
    const more = { key: "kind", value: "more", operator: "exact", type: "event" };
    const count = (arm: boolean, condition: (user: number) => boolean) =>
      Array.from({ length: USERS }, (_, user) => user).filter(
        (user) => isTest(user) === arm && condition(user),
      ).length;
    const funnel = await analyse({
      kind: "ExperimentMetric",
      metric_type: "funnel",
      series: [SOURCE, { ...SOURCE, properties: [more] }],
    });
    const steps = [1, 2].map((least) => count(false, (user) => purchases(user) >= least));
    expect(funnel.baseline).toMatchObject({
      sum: steps[1],
      sum_squares: steps[1],
      step_counts: steps,
    });
    const ratio = await analyse({
      kind: "ExperimentMetric",
      metric_type: "ratio",
      numerator: { ...SOURCE, properties: [more] },
      denominator: SOURCE,
    });
    const bought = (user: number) => purchases(user);
    const total = (of: (user: number) => number) =>
      Array.from({ length: USERS }, (_, user) => user)
        .filter((user) => isTest(user))
        .reduce((sum, user) => sum + of(user), 0);
    expect(ratio.variant_results[0]).toMatchObject({
      sum: total((user) => Math.max(0, bought(user) - 1)),
      denominator_sum: total(bought),
      denominator_sum_squares: total((user) => bought(user) ** 2),
      numerator_denominator_sum_product: total(
        (user) => Math.max(0, bought(user) - 1) * bought(user),
      ),
    });
    const retention = await analyse({
      kind: "ExperimentMetric",
      metric_type: "retention",
      start_event: SOURCE,
      completion_event: SOURCE,
      retention_window_start: 1,
      retention_window_end: 1,
      retention_window_unit: "hour",
    });
    expect(retention.baseline).toMatchObject({
      number_of_samples: count(false, (user) => purchases(user) >= 1),
      sum: count(false, (user) => purchases(user) >= 2),
    });
  });

  it("[XR-12] follows the experiment's settings of exposure and of statistics", async () => {
    await change({
      stats_config: {
        method: "frequentist",
        frequentist: { alpha: 0.1, difference_type: "absolute", sequential_testing_enabled: true },
      },
      exposure_criteria: { multiple_variant_handling: "first_seen" },
    });
    const { baseline, variant_results } = await analyse(MEAN);
    const [test] = variant_results;
    expect(test.number_of_samples).toBe(61);
    expect(test).toMatchObject({ method: "frequentist", p_value: expect.any(Number) });
    const [low, high] = test.confidence_interval;
    expect((low + high) / 2).toBeCloseTo(test.sum / 61 - baseline.sum / 60, 9);
    expect(low).toBeCloseTo(test.extended.sequential.interval[0], 9);
    expect((await exposures()).total_exposures).toEqual({ control: 60, test: 61, spare: 1 });
    await change({ stats_config: null, exposure_criteria: null });
    const { status, body } = await service.send("PATCH", `experiments/${id}`, {
      stats_config: { method: "guess" },
    });
    expect([status, body.attr]).toEqual([400, "stats_config__method"]);
  });

  it("[XR-13] answers the same of an ended experiment, whatever happens afterwards", async () => {
    const endHours = 50;
    await change({ end_date: new Date(start + endHours * HOUR_MS).toISOString() });
    const { last_refresh: _, ...before } = await analyse(MEAN);
    const { last_refresh: __, ...exposedBefore } = await exposures();
    await service.capture([
      call("late", "test", endHours + 1),
      call("u3", "control", endHours + 1),
      happen("bought", "u1", endHours + 1),
      happen("bought", "u1", endHours),
    ]);
    const { last_refresh: ___, ...after } = await analyse(MEAN);
    const { last_refresh: ____, ...exposedAfter } = await exposures();
    expect(after).toEqual(before);
    expect(exposedAfter).toEqual(exposedBefore);
  });
});
