import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { WHY_NUMBERS_DIFFER } from "./balanced-numbers.ts";
import {
  called,
  DAY_MS,
  HOUR_MS,
  happen,
  openExperimentsService,
  users,
} from "./experiments-service.setup.ts";

const start = Date.now() - 5 * DAY_MS;
const SOURCE = { kind: "EventsNode", event: "bought" };
const FUNNEL = { kind: "ExperimentMetric", metric_type: "funnel", series: [SOURCE] };
const MEAN = { kind: "ExperimentMetric", metric_type: "mean", source: SOURCE };
/** Units and buyers of each arm. */
const ARMS = { control: [400, 60], better: [400, 120], same: [400, 62] } as const;

describe("our own numbers of experiments", () => {
  let api: Awaited<ReturnType<typeof openExperimentsService>>;
  let id: number;
  const analyse = (metric: object = FUNNEL) =>
    api.query({ kind: "ExperimentQuery", experiment_id: id, metric });
  const configure = (balanced: object | null, rest: object = {}) =>
    api.done("PATCH", `experiments/${id}`, { stats_config: { ...rest, balanced } });

  beforeAll(async () => {
    api = await openExperimentsService();
    const created = await api.done("POST", "experiments", {
      name: "Arms",
      feature_flag_key: "arms",
      start_date: new Date(start).toISOString(),
      parameters: {
        feature_flag_variants: [
          { key: "control", rollout_percentage: 34 },
          { key: "better", rollout_percentage: 33 },
          { key: "same", rollout_percentage: 33 },
        ],
        minimum_detectable_effect: 20,
      },
      metrics: [FUNNEL, MEAN, { ...FUNNEL, non_inferiority_margin: 0.2 }],
    });
    id = created.id;
    await api.capture(
      Object.entries(ARMS).flatMap(([arm, [count, buyers]]) =>
        users(arm, count).flatMap((user, index) => [
          called("arms", arm, user, start + (1 + index / 10) * HOUR_MS),
          ...(index < buyers ? [happen("bought", user, start + 60 * HOUR_MS)] : []),
        ]),
      ),
    );
  });
  afterAll(() => api.close());

  it("[XR-17] carry inputs, method, status and a decision, and say why they differ from PostHog's", async () => {
    const { variant_results, extended, baseline } = await analyse();
    expect(extended).toMatchObject({
      explanation: WHY_NUMBERS_DIFFER,
      level: 0.95,
      goal: "increase",
      tests: 2,
    });
    const [better, same] = variant_results;
    expect(better.extended).toMatchObject({
      status: "ok",
      decision: "winning",
      inputs: {
        control: { number_of_samples: 400, sum: 60 },
        treatment: { number_of_samples: 400, sum: 120 },
        level: 0.95,
        goal: "increase",
      },
      absolute: { method: expect.stringContaining("Welch"), degrees: expect.any(Number) },
      relative: { method: expect.stringContaining("Fieller"), set: { kind: "bounded" } },
      bayes: { method: "exact beta posteriors from a uniform prior", is_exact: true },
      sequential: { method: expect.stringContaining("5000 units") },
      non_inferiority: null,
      planned_look: null,
    });
    const { absolute, one_sided, bayes, mid_experiment } = better.extended;
    const error = Math.sqrt((0.15 * 0.85 + 0.3 * 0.7) / 400);
    expect(absolute.estimate).toBeCloseTo(0.15, 12);
    expect(absolute.standard_error).toBeCloseTo(error, 12);
    expect(one_sided.p_better).toBeCloseTo(absolute.p_value / 2, 12);
    expect(one_sided.bound).toBeCloseTo(0.15 - 1.647 * error, 3);
    expect(bayes.chance_to_win + bayes.chance_to_lose).toBeCloseTo(1, 9);
    expect(bayes.loss_if_kept).toBeGreaterThan(bayes.loss_if_shipped);
    // 20 % of 15 % is what the experiment says it wants to find.
    expect(mid_experiment).toMatchObject({ target: 0.2, power: expect.any(Number) });
    expect(mid_experiment.more_units).toBeGreaterThan(1000);
    expect(same.extended.decision).toBe("undecided");
    expect(baseline.number_of_samples).toBe(400);
  });

  it("[XR-17] correct p-values over the treatments, and over all primary metrics without guardrails", async () => {
    const { variant_results } = await analyse();
    const p = variant_results.map(
      (one: { extended: { absolute: { p_value: number } } }) => one.extended.absolute.p_value,
    );
    expect(variant_results[0].extended.corrected_p_values).toMatchObject({
      tests: 2,
      holm: Math.min(...p) * 2,
      bonferroni: p[0] * 2,
      benjamini_hochberg: Math.min(p[0] * 2, p[1]),
    });
    const results = await api.done("GET", `experiments/${id}/results`);
    const { tests, values } = results.extended.corrected_p_values;
    expect(tests).toBe(4);
    expect(values.map(({ variant }: { variant: string }) => variant)).toEqual([
      "better",
      "same",
      "better",
      "same",
    ]);
    expect(values[0].bonferroni).toBeCloseTo(Math.min(1, values[0].p_value * 4), 12);
    expect(values[0].metric).toBe(results.metrics[0].metric.uuid);
  });

  it("[XR-17] rank all arms, the control among them", async () => {
    const { variant_results, extended } = await analyse();
    const { better, same } = extended.best_of_all;
    const chances = [extended.control, better, same].map((rank) => rank.chance_to_be_best);
    expect(chances.reduce((sum, chance) => sum + chance, 0)).toBeCloseTo(1, 9);
    expect(better.chance_to_be_best).toBeGreaterThan(0.999);
    expect(variant_results[0].extended.best_of_all).toMatchObject(better);
  });

  it("[XR-17] test a guardrail for what it may lose", async () => {
    const guarded = await analyse({ ...FUNNEL, non_inferiority_margin: 0.2 });
    expect(guarded.variant_results[0].extended.non_inferiority).toMatchObject({
      margin: 0.2,
      holds: true,
      p_value: expect.any(Number),
    });
    const strict = await analyse({ ...FUNNEL, non_inferiority_margin: 0.01 });
    expect(strict.variant_results[1].extended.non_inferiority.holds).toBe(false);
    const { status, body } = await api.send("POST", "query", {
      query: {
        kind: "ExperimentQuery",
        experiment_id: id,
        metric: { ...FUNNEL, non_inferiority_margin: 1.5 },
      },
    });
    expect([status, body.attr]).toEqual([400, "query__metric__non_inferiority_margin"]);
  });

  it("[XR-17] follow what the experiment says of a prior, of planned looks and of power", async () => {
    await configure({
      prior: { sd: 0.3 },
      power: 0.9,
      minimum_detectable_effect: 50,
      planned_looks: { spending: "pocock", looks: 3, final_units: 3600 },
    });
    const { extended } = (await analyse(MEAN)).variant_results[0];
    expect(extended.bayes.method).toContain("prior N(0, 0.09)");
    expect(extended.mid_experiment).toMatchObject({ target: 0.5 });
    expect(extended.mid_experiment.method).toContain("90 %");
    expect(extended.planned_look).toMatchObject({
      status: "at-look",
      look: 1,
      looks: 3,
      fraction: 1200 / 3600,
      stops: true,
      next_look_at_units: 2400,
    });
    await configure(null);
  });

  it.each([
    ["stats_config__balanced", "all"],
    ["stats_config__balanced__power", { power: 1 }],
    ["stats_config__balanced__minimum_detectable_effect", { minimum_detectable_effect: "5" }],
    ["stats_config__balanced__prior__sd", { prior: {} }],
    ["stats_config__balanced__prior__sd", { prior: { sd: -1 } }],
    ["stats_config__balanced__planned_looks__final_units", { planned_looks: { looks: 3 } }],
    ["stats_config__balanced__planned_looks__looks", { planned_looks: { final_units: 9 } }],
    [
      "stats_config__balanced__planned_looks__spending",
      { planned_looks: { final_units: 9, looks: 2, spending: "all" } },
    ],
    [
      "stats_config__balanced__planned_looks__fractions__1",
      { planned_looks: { final_units: 9, fractions: [0.5, 0.4] } },
    ],
    [
      "stats_config__balanced__planned_looks__fractions__1",
      { planned_looks: { final_units: 9, fractions: [0.5, 0.5000001, 1] } },
    ],
    [
      "stats_config__balanced__planned_looks__looks",
      { planned_looks: { final_units: 9, looks: 31 } },
    ],
    [
      "stats_config__balanced__planned_looks__fractions",
      { planned_looks: { final_units: 9, fractions: [0.5] } },
    ],
  ])("[XR-17] refuse %s of %j", async (attr, balanced) => {
    const { status, body } = await api.send("PATCH", `experiments/${id}`, {
      stats_config: { balanced },
    });
    expect([status, body.attr], JSON.stringify(body)).toEqual([400, attr]);
  });

  it("[XR-18] watch the shares of units day by day, and name the day they drifted on", async () => {
    const even = await api.query({ kind: "ExperimentExposureQuery", experiment_id: id });
    expect(even.sample_ratio_mismatch).toMatchObject({
      mismatch: false,
      sequential: { mismatch: false, drifted_on: null },
    });
    expect(even.warnings).toEqual([]);
    const skewed = await api.done("POST", "experiments", {
      name: "Skewed",
      feature_flag_key: "skewed",
      start_date: new Date(start).toISOString(),
    });
    const day = (index: number) => start + index * DAY_MS + HOUR_MS;
    await api.capture([
      ...users("a", 100).map((user) => called("skewed", "control", user, day(0))),
      ...users("b", 100).map((user) => called("skewed", "test", user, day(0))),
      ...users("c", 150).map((user) => called("skewed", "control", user, day(2))),
      ...users("d", 20).map((user) => called("skewed", "test", user, day(2))),
    ]);
    const { sample_ratio_mismatch, warnings } = await api.query({
      kind: "ExperimentExposureQuery",
      experiment_id: skewed.id,
    });
    expect(sample_ratio_mismatch.sequential).toMatchObject({
      mismatch: true,
      drifted_on: new Date(day(2)).toISOString().slice(0, 10),
    });
    expect(sample_ratio_mismatch.sequential.p_value).toBeLessThan(0.001);
    expect(warnings).toMatchObject([{ code: "sample-ratio-mismatch", variant: null }]);
  });

  it("[XR-19] answers the older queries in their own shapes, on either path", async () => {
    const trends = {
      kind: "ExperimentTrendsQuery",
      experiment_id: id,
      count_query: { kind: "TrendsQuery", series: [SOURCE] },
    };
    const found = await api.query(trends);
    expect(found).toMatchObject({
      kind: "ExperimentTrendsQuery",
      count_query: trends.count_query,
      exposure_query: null,
      significant: expect.any(Boolean),
      significance_code: expect.any(String),
      p_value: expect.any(Number),
      probability: { control: expect.any(Number), better: expect.any(Number) },
      credible_intervals: { control: [expect.any(Number), expect.any(Number)] },
      stats_version: 1,
      is_cached: false,
    });
    expect(found.variants).toEqual([
      { key: "control", count: 60, exposure: 1, absolute_exposure: 400 },
      { key: "better", count: 120, exposure: 1, absolute_exposure: 400 },
      { key: "same", count: 62, exposure: 1, absolute_exposure: 400 },
    ]);
    const [first] = found.insight;
    expect(first).toMatchObject({ label: "control", breakdown_value: "control", count: 60 });
    expect(first.data.at(-1)).toBe(60);
    expect(first.data).toHaveLength(first.days.length);
    expect(found).not.toHaveProperty("funnels_query");

    const funnels = {
      kind: "ExperimentFunnelsQuery",
      experiment_id: id,
      funnels_query: { kind: "FunnelsQuery", series: [SOURCE] },
    };
    for (const path of ["/api/projects/1/query/", "/api/environments/1/query/"]) {
      const answer = await api.done("POST", path, { query: { ...funnels, stats_version: 2 } });
      expect(answer).toMatchObject({
        kind: "ExperimentFunnelsQuery",
        funnels_query: funnels.funnels_query,
        expected_loss: expect.any(Number),
        stats_version: 2,
        variants: [
          { key: "control", success_count: 60, failure_count: 340 },
          { key: "better", success_count: 120, failure_count: 280 },
          { key: "same", success_count: 62, failure_count: 338 },
        ],
      });
      expect(answer.insight[0]).toMatchObject([{ name: "bought", order: 0, count: 60 }]);
      expect(answer).not.toHaveProperty("p_value");
    }
  });

  it("[XR-19] tells the events of a variant day by day, though one unit is no sample", async () => {
    const peek = (user: string, arm: string) =>
      happen("peeked", user, start + 2 * HOUR_MS, { "$feature/arms": arm });
    await api.capture([
      ...users("control", 3).map((user) => peek(user, "control")),
      peek("better0", "better"),
      ...[1, 1.1, 2.1].map((days) => happen("tapped", "better0", start + days * DAY_MS)),
    ]);
    const query = (event: string) => ({
      kind: "TrendsQuery",
      series: [{ kind: "EventsNode", event }],
    });
    const { insight } = await api.query({
      kind: "ExperimentTrendsQuery",
      experiment_id: id,
      count_query: query("tapped"),
      exposure_query: query("peeked"),
    });
    const better = insight.find(({ label }: { label: string }) => label === "better");
    expect(better.count).toBe(3);
    expect(better.data).toEqual(
      better.days.map(
        (day: string) =>
          [1, 1.1, 2.1].filter(
            (days) => new Date(start + days * DAY_MS).toISOString().slice(0, 10) <= day,
          ).length,
      ),
    );
  });

  it("[XR-19] counts the exposures of an older query by its own event, and sums as counts", async () => {
    await api.capture(
      users("control", 10).map((user) =>
        happen("saw", user, start + 2 * HOUR_MS, { "$feature/arms": "control", price: 3 }),
      ),
    );
    await api.capture(
      users("better", 20).map((user) =>
        happen("saw", user, start + 2 * HOUR_MS, { "$feature/arms": "better", price: 2 }),
      ),
    );
    const found = await api.query({
      kind: "ExperimentTrendsQuery",
      experiment_id: id,
      exposure_query: { kind: "TrendsQuery", series: [{ kind: "EventsNode", event: "saw" }] },
      count_query: {
        kind: "TrendsQuery",
        series: [{ kind: "EventsNode", event: "saw", math: "sum", math_property: "price" }],
      },
    });
    expect(found.variants).toEqual([
      { key: "control", count: 30, exposure: 1, absolute_exposure: 10 },
      { key: "better", count: 40, exposure: 2, absolute_exposure: 20 },
    ]);
  });

  it.each([
    ["query__count_query", { kind: "ExperimentTrendsQuery" }],
    ["query__count_query__series", { kind: "ExperimentTrendsQuery", count_query: {} }],
    ["query__count_query__series", { kind: "ExperimentTrendsQuery", count_query: { series: [] } }],
    [
      "query__count_query__series__0",
      { kind: "ExperimentTrendsQuery", count_query: { series: [1] } },
    ],
    [
      "query__count_query__series__0__math",
      {
        kind: "ExperimentTrendsQuery",
        count_query: { series: [{ ...SOURCE, math: "avg", math_property: "x" }] },
      },
    ],
    ["query__funnels_query", { kind: "ExperimentFunnelsQuery" }],
    [
      "query__funnels_query__funnelsFilter__funnelOrderType",
      {
        kind: "ExperimentFunnelsQuery",
        funnels_query: { series: [SOURCE], funnelsFilter: { funnelOrderType: "strict" } },
      },
    ],
    [
      "query__funnels_query__funnelsFilter__funnelWindowInterval",
      {
        kind: "ExperimentFunnelsQuery",
        funnels_query: { series: [SOURCE], funnelsFilter: { funnelWindowInterval: "14" } },
      },
    ],
    [
      "query__stats_version",
      { kind: "ExperimentFunnelsQuery", funnels_query: { series: [SOURCE] }, stats_version: 3 },
    ],
    ["query__experiment_id", { kind: "ExperimentFunnelsQuery", experiment_id: "1" }],
    ["query__experiment_id", { kind: "ExperimentExposureQuery", experiment_id: 99_999_999_999 }],
  ])("[XR-19] refuses %s of %j", async (attr, asked) => {
    const { status, body } = await api.send("POST", "query", {
      query: { experiment_id: id, ...asked },
    });
    expect([status, body.attr], JSON.stringify(body)).toEqual([400, attr]);
  });

  it("[XR-19] answers a draft, and one without data, that there are no results", async () => {
    const draft = await api.done("POST", "experiments", {
      name: "Draft",
      feature_flag_key: "draft",
    });
    const ask = () =>
      api.send("POST", "query", {
        query: {
          kind: "ExperimentFunnelsQuery",
          experiment_id: draft.id,
          funnels_query: { series: [SOURCE] },
        },
      });
    const all = { "no-events": true, "no-flag-info": true, "no-control-variant": true };
    for (const step of ["draft", "launched"]) {
      const { status, body } = await ask();
      expect([status, body.code], step).toEqual([400, "no-results"]);
      expect(JSON.parse(body.detail)).toMatchObject(all);
      if (step === "draft") await api.done("POST", `experiments/${draft.id}/launch`);
    }
  });
});
