import { afterAll, beforeAll, describe, expect, it } from "vitest";
import {
  DAY_MS,
  HOUR_MS,
  happen as happenAt,
  openExperimentsService,
} from "./experiments-service.setup.ts";

const start = Date.now() - 6 * DAY_MS;
const USERS = 400;
const users = Array.from({ length: USERS }, (_, user) => user);
const variantOf = (user: number) => (user % 2 === 0 ? "control" : "test");
/** What a user spent before and after the exposure, the latter twice the former and something. */
const before = (user: number) => (user >> 1) % 7;
const spent = (user: number) =>
  2 * before(user) + ((user * 13) % 5) / 10 + (user % 2 === 1 ? 0.5 : 0);
const planOf = (user: number) => (user % 5 === 0 ? null : user % 5 < 3 ? "free" : "paid");
const MEAN = {
  kind: "ExperimentMetric",
  metric_type: "mean",
  source: { kind: "EventsNode", event: "spent", math: "sum", math_property: "amount" },
};

describe("what else can be asked of metrics", () => {
  let service: Awaited<ReturnType<typeof openExperimentsService>>;
  let id: number;
  const query = (asked: object) =>
    service.send("POST", "query", { query: { experiment_id: id, ...asked } });
  const analyse = async (metric: object) => {
    const { status, body } = await query({ kind: "ExperimentQuery", metric });
    expect(status, JSON.stringify(body)).toBe(200);
    return body;
  };
  const change = (body: object) => service.done("PATCH", `experiments/${id}`, body);
  const happen = (event: string, user: number | string, hours: number, properties: object = {}) =>
    happenAt(event, `u${user}`, start + hours * HOUR_MS, properties);

  beforeAll(async () => {
    service = await openExperimentsService();
    ({ id } = await service.done("POST", "experiments", {
      name: "Button",
      feature_flag_key: "button",
      start_date: new Date(start).toISOString(),
      metrics: [MEAN],
    }));
    await service.capture(
      users.flatMap((user) => [
        happen("spent", user, -30, { amount: before(user) }),
        happen("$feature_flag_called", user, user < USERS / 2 ? 1 : 30, {
          $feature_flag: "button",
          $feature_flag_response: variantOf(user),
          plan: planOf(user),
        }),
        happen("spent", user, 40 + 24 * (user % 3), { amount: spent(user) }),
      ]),
    );
  });
  afterAll(() => service.close());
  const sumOf = (of: (user: number) => number, variant: string) =>
    users.filter((user) => variantOf(user) === variant).reduce((sum, user) => sum + of(user), 0);

  it("[XM-9] corrects means by what they were before exposure where `cuped` is on", async () => {
    const plain = await analyse(MEAN);
    await change({ stats_config: { method: "bayesian", cuped: { enabled: true } } });
    const corrected = await analyse(MEAN);
    expect(corrected.baseline.sum).toBeCloseTo(sumOf(spent, "control"), 6);
    expect(corrected.baseline).toMatchObject({
      covariate_sum: sumOf(before, "control"),
      covariate_sum_squares: sumOf((user) => before(user) ** 2, "control"),
    });
    expect(corrected.baseline.main_covariate_sum_product).toBeCloseTo(
      sumOf((user) => before(user) * spent(user), "control"),
      6,
    );
    const width = ({ variant_results: [one] }: typeof plain) =>
      one.credible_interval[1] - one.credible_interval[0];
    expect(width(corrected)).toBeLessThan(width(plain) / 5);
    const [{ extended }] = corrected.variant_results;
    expect(extended.treatment.variance_reduction).toBeGreaterThan(0.99);
    expect(extended.absolute.estimate).toBeCloseTo(0.5, 1);
    const results = await service.done("GET", `experiments/${id}/results`);
    expect(results.metrics[0].baseline.covariate_sum).toBe(corrected.baseline.covariate_sum);
    await change({ stats_config: { cuped: { enabled: true, lookback_days: 1 } } });
    // What was spent before lies more than a day before every exposure.
    expect((await analyse(MEAN)).baseline.covariate_sum).toBe(0);
    const refused = await service.send("PATCH", `experiments/${id}`, {
      stats_config: { cuped: { enabled: true, lookback_days: "x" } },
    });
    expect([refused.status, refused.body.attr]).toEqual([
      400,
      "stats_config__cuped__lookback_days",
    ]);
    await change({ stats_config: null });
  });

  it("[XM-9] breaks metrics down by a property of exposures", async () => {
    const metric = {
      ...MEAN,
      breakdownFilter: { breakdowns: [{ property: "plan", type: "event" }] },
    };
    const { breakdown_results: cells, baseline, extended } = await analyse(metric);
    expect(cells.map((cell: { breakdown_value: string[] }) => cell.breakdown_value)).toEqual([
      ["free"],
      ["paid"],
      ["$$_posthog_breakdown_null_$$"],
    ]);
    const free = users.filter((user) => variantOf(user) === "test" && planOf(user) === "free");
    expect(cells[0].variants[0]).toMatchObject({
      key: "test",
      number_of_samples: free.length,
      chance_to_win: expect.any(Number),
      extended: { status: "ok" },
    });
    const total = cells.reduce(
      (sum: number, cell: { baseline: { number_of_samples: number } }) =>
        sum + cell.baseline.number_of_samples,
      0,
    );
    expect(total).toBe(baseline.number_of_samples);
    expect(extended.interactions).toEqual([
      { variant: "test", statistic: expect.any(Number), degrees: 1, p_value: expect.any(Number) },
    ]);
    const older = { ...MEAN, breakdownFilter: { breakdown: "plan", breakdown_type: "event" } };
    expect((await analyse(older)).breakdown_results).toEqual(cells);
    const refused = async (breakdownFilter: unknown) =>
      (await query({ kind: "ExperimentQuery", metric: { ...MEAN, breakdownFilter } })).body.attr;
    const at = "query__metric__breakdownFilter";
    expect(await refused({ breakdowns: [{ property: "a" }, { property: "b" }] })).toBe(
      `${at}__breakdowns`,
    );
    expect(await refused({ breakdowns: [{ property: 5 }] })).toBe(`${at}__breakdowns__0__property`);
    expect(await refused({ breakdown: "a", breakdown_type: "person" })).toBe(
      `${at}__breakdown_type`,
    );
    expect(await refused("plan")).toBe(at);
  });

  it("[XM-9] measures quantiles, unique values and exclusions, and warns of odd values", async () => {
    const quantile = { ...MEAN, metric_type: "quantile", quantile: 0.5 };
    const median = await analyse(quantile);
    const sorted = users
      .filter((user) => variantOf(user) === "control")
      .map(spent)
      .sort((left, right) => left - right);
    expect(median.variant_results[0].extended.control.mean).toBeCloseTo(
      sorted[USERS / 4 - 1] ?? 0,
      9,
    );
    const refused = await query({
      kind: "ExperimentQuery",
      metric: { ...quantile, quantile: 1 },
    });
    expect(refused.body.attr).toBe("query__metric__quantile");
    const unique = { ...MEAN, source: { ...MEAN.source, math: "unique_values" } };
    expect((await analyse(unique)).baseline.sum).toBe(USERS / 2);
    const node = (event: string, more: object = {}) => ({ kind: "EventsNode", event, ...more });
    const funnel = {
      kind: "ExperimentMetric",
      metric_type: "funnel",
      series: [node("opened"), node("bought")],
      exclusions: [node("refunded", { funnelFromStep: 0, funnelToStep: 1 })],
    };
    await service.capture([
      happen("opened", 0, 50),
      happen("bought", 0, 52),
      happen("opened", 2, 50),
      happen("refunded", 2, 51),
      happen("bought", 2, 52),
      happen("spent", 4, 60, { amount: "much" }),
      happen("spent", 4, 60, { amount: "0" }),
    ]);
    expect((await analyse(funnel)).baseline.step_counts).toEqual([2, 1]);
    const bad = async (exclusion: object, more: object = {}) => {
      const metric = { ...funnel, ...more, exclusions: [node("x", exclusion)] };
      return (await query({ kind: "ExperimentQuery", metric })).body.attr;
    };
    const at = "query__metric__exclusions";
    expect(await bad({ funnelFromStep: 1, funnelToStep: 1 })).toBe(`${at}__0__funnelToStep`);
    expect(await bad({ funnelFromStep: 0, funnelToStep: 2 })).toBe(`${at}__0__funnelToStep`);
    expect(await bad({ funnelToStep: 1 })).toBe(`${at}__0__funnelFromStep`);
    expect(await bad({}, { funnel_order_type: "unordered" })).toBe(at);
    const { extended } = await analyse(MEAN);
    expect(extended.warnings.map(({ code }: { code: string }) => code)).toEqual([
      "values-not-numbers",
      "texts-as-numbers",
    ]);
    const cut = await analyse({ ...MEAN, upper_bound_percentile: 0.9 });
    expect(cut.extended.winsorization).toEqual({ lower: null, upper: expect.any(Number) });
  });

  it("[XM-10] counts exposures anew from the exposure epoch on, which can be taken back", async () => {
    const exposed = async () => {
      const { body } = await query({ kind: "ExperimentExposureQuery" });
      return body.total_exposures;
    };
    expect(await exposed()).toEqual({ control: USERS / 2, test: USERS / 2 });
    const epoch = new Date(start + 10 * HOUR_MS).toISOString();
    await change({ exposure_criteria: { exposure_epoch: epoch } });
    expect(await exposed()).toEqual({ control: USERS / 4, test: USERS / 4 });
    expect((await analyse(MEAN)).baseline.number_of_samples).toBe(USERS / 4);
    await change({ exposure_criteria: { exposure_epoch: null } });
    expect(await exposed()).toEqual({ control: USERS / 2, test: USERS / 2 });
    const refused = await service.send("PATCH", `experiments/${id}`, {
      exposure_criteria: { exposure_epoch: "soon" },
    });
    expect([refused.status, refused.body.attr]).toEqual([400, "exposure_criteria__exposure_epoch"]);
    await change({ exposure_criteria: null });
  });

  it("[XM-11] tells how a metric stood at the end of each day, by the project's calendar", async () => {
    const { metrics } = await service.done("GET", `experiments/${id}`);
    const [{ uuid }] = metrics;
    const path = `experiments/${id}/timeseries_results?metric_uuid=${uuid}`;
    const { timeseries, ...rest } = await service.done("GET", path);
    expect(rest).toMatchObject({ experiment_id: id, metric_uuid: uuid, status: "completed" });
    const days = Object.keys(timeseries);
    expect(days[0]).toBe(new Date(start).toISOString().slice(0, 10));
    const last = timeseries[days.at(-1) ?? ""];
    const now = await analyse(MEAN);
    expect(last.baseline).toMatchObject({ key: "control", number_of_samples: USERS / 2 });
    expect(last.baseline.sum).toBeCloseTo(now.baseline.sum, 6);
    const [today, whole] = [last.variant_results[0], now.variant_results[0]];
    expect(today.chance_to_win).toBeCloseTo(whole.chance_to_win, 9);
    const [low, high] = today.extended.difference.interval;
    const [tight, loose] = whole.extended.absolute.interval;
    expect(low < tight && loose < high).toBe(true);
    const dayAt = (hours: number) => new Date(start + hours * HOUR_MS).toISOString().slice(0, 10);
    for (const day of days) {
      const exposed = [1, 30].filter((hours) => dayAt(hours) <= day).length;
      expect(timeseries[day].baseline.number_of_samples).toBe((exposed * USERS) / 4);
    }
    await service.done("PATCH", "", { timezone: "Pacific/Kiritimati" });
    const [zoned] = Object.keys((await service.done("GET", path)).timeseries);
    await service.done("PATCH", "", { timezone: "UTC" });
    expect(zoned).toBe(dayAt(14));
    const refused = async (query: string) =>
      (await service.send("GET", `experiments/${id}/timeseries_results${query}`)).body;
    expect(await refused("")).toMatchObject({ code: "required", attr: "metric_uuid" });
    expect((await refused("?metric_uuid=x")).code).toBe("not_found");
  });

  it("[XM-11] corrects every day as results are corrected, where `cuped` is on", async () => {
    await change({ stats_config: { method: "bayesian", cuped: { enabled: true } } });
    const ratio = {
      kind: "ExperimentMetric",
      metric_type: "ratio",
      numerator: MEAN.source,
      denominator: { kind: "EventsNode", event: "spent" },
    };
    const { metrics } = await change({ metrics: [MEAN, ratio] });
    for (const metric of metrics) {
      const { timeseries } = await service.done(
        "GET",
        `experiments/${id}/timeseries_results?metric_uuid=${metric.uuid}`,
      );
      const [today] = timeseries[Object.keys(timeseries).at(-1) ?? ""].variant_results;
      const [whole] = (await analyse(metric)).variant_results;
      expect(whole.extended.treatment.variance_reduction).toBeGreaterThan(0.5);
      expect(today.chance_to_win).toBeCloseTo(whole.chance_to_win, 9);
      expect(today.credible_interval[0]).toBeCloseTo(whole.credible_interval[0], 9);
      expect(today.covariate_sum).toBe(whole.covariate_sum);
      expect(today.extended.difference.estimate).toBeCloseTo(whole.extended.absolute.estimate, 9);
      expect(today.extended.difference.interval[0]).toBeCloseTo(
        whole.extended.sequential.interval[0],
        9,
      );
      expect(today.extended.value).toBeCloseTo(whole.extended.treatment.mean, 9);
    }
    await change({ stats_config: null, metrics: [MEAN] });
  });

  it("[XM-11] has no days of a quantile", async () => {
    const { metrics } = await change({
      metrics: [{ ...MEAN, metric_type: "quantile", quantile: 0.5 }],
    });
    const answer = await service.done(
      "GET",
      `experiments/${id}/timeseries_results?metric_uuid=${metrics[0].uuid}`,
    );
    expect(answer).toMatchObject({ status: "completed", timeseries: {} });
    await change({ metrics: [MEAN] });
  });

  it("[XM-12] leaves out events of test accounts, by filters of events and of persons", async () => {
    await service.capture([
      happen("$set", 0, 1, { $set: { email: "ada@example.org" } }),
      happen("$set", 1, 1, { $set: { email: "bob@else.org" } }),
      happen("$identify", 0, 1, { $anon_distinct_id: "anonymous" }),
      happen("spent", 3, 50, { amount: 1000, internal: true }),
    ]);
    const filters = [
      { key: "email", type: "person", operator: "not_icontains", value: "@EXAMPLE.org" },
      { key: "internal", type: "event", operator: "is_not", value: "true" },
    ];
    const project = await service.done("PATCH", "", { test_account_filters: filters });
    expect(project.test_account_filters).toEqual(filters);
    const test = async () => (await analyse(MEAN)).variant_results[0];
    const all = await test();
    const { body: before } = await query({ kind: "ExperimentExposureQuery" });
    await change({ exposure_criteria: { filterTestAccounts: true } });
    expect((await test()).sum).toBeCloseTo(all.sum - 1000, 6);
    expect((await test()).number_of_samples).toBe(all.number_of_samples);
    const { body: after } = await query({ kind: "ExperimentExposureQuery" });
    expect(after.total_exposures).toEqual({
      ...before.total_exposures,
      control: before.total_exposures.control - 1,
    });
    await service.done("PATCH", "", { test_account_filters: [] });
    expect((await test()).sum).toBeCloseTo(all.sum, 6);
    await change({ exposure_criteria: null });
    const refused = async (test_account_filters: unknown) =>
      (await service.send("PATCH", "", { test_account_filters })).body.attr;
    expect(await refused([{ key: "a", type: "cohort" }])).toBe("test_account_filters__0__type");
    expect(await refused([{ value: "a" }])).toBe("test_account_filters__0__key");
    expect(await refused([5])).toBe("test_account_filters__0");
    expect(await refused([{ key: "a", operator: "near", value: 1 }])).toBe(
      "test_account_filters__0",
    );
  });
});
