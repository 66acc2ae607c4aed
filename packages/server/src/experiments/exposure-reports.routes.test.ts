import { afterAll, beforeAll, describe, expect, it } from "vitest";
import {
  called,
  DAY_MS,
  HOUR_MS,
  happen,
  openExperimentsService,
  users,
} from "./experiments-service.setup.ts";

const start = Date.now() - 6 * DAY_MS;
const SOURCE = { kind: "EventsNode", event: "bought" };
const FUNNEL = { kind: "ExperimentMetric", metric_type: "funnel", series: [SOURCE] };

describe("what people report of experiments elsewhere", () => {
  let api: Awaited<ReturnType<typeof openExperimentsService>>;
  beforeAll(async () => {
    api = await openExperimentsService();
  });
  afterAll(() => api.close());

  const run = async (key: string, body: object = {}): Promise<number> =>
    (
      await api.done("POST", "experiments", {
        name: key,
        feature_flag_key: key,
        start_date: new Date(start).toISOString(),
        ...body,
      })
    ).id;
  const exposuresOf = (experiment_id: number) =>
    api.query({ kind: "ExperimentExposureQuery", experiment_id });
  const analyse = (experiment_id: number, metric: object) =>
    api.query({ kind: "ExperimentQuery", experiment_id, metric });
  const shares = (...percentages: number[]) => ({
    parameters: {
      feature_flag_variants: percentages.map((rollout_percentage, index) => ({
        key: index === 0 ? "control" : `test-${index}`,
        rollout_percentage,
      })),
    },
  });

  it("[XR-22] ten reports of one check are one exposure, the first one", async () => {
    const id = await run("repeats");
    await api.capture([
      ...Array.from({ length: 10 }, (_, call) =>
        called("repeats", "test", "again", start + (call + 1) * HOUR_MS),
      ),
      called("repeats", "control", "once", start + HOUR_MS),
      happen("bought", "again", start + 90 * 60_000),
    ]);
    expect((await exposuresOf(id)).total_exposures).toEqual({ control: 1, test: 1 });
    const { variant_results } = await analyse(id, FUNNEL);
    expect(variant_results[0]).toMatchObject({ number_of_samples: 1, sum: 1 });
  });

  it("[XR-22] a user's checks in two companies are exposures of both", async () => {
    await api.capture([
      happen("$groupidentify", "x", start, { $group_type: "company", $group_key: "A" }),
    ]);
    await expect.poll(async () => (await api.done("GET", "groups_types")).length).toBe(1);
    const id = await run("companies", { parameters: { aggregation_group_type_index: 0 } });
    const inCompany = (company: string, hours: number) =>
      called("companies", "test", "worker", start + hours * HOUR_MS, { $groups: { company } });
    await api.capture([inCompany("A", 1), inCompany("B", 2), inCompany("B", 3)]);
    expect((await exposuresOf(id)).total_exposures).toEqual({ control: 0, test: 2 });
  });

  it("[XR-22] a variant of 0 % that a few are in is a warning, and no alarm", async () => {
    const id = await run("zero", shares(50, 50, 0));
    await api.capture(
      [500, 505, 3].flatMap((count, index) => {
        const variant = index === 0 ? "control" : `test-${index}`;
        return users(`zero-${variant}-`, count).map((user) =>
          called("zero", variant, user, start + HOUR_MS),
        );
      }),
    );
    const { sample_ratio_mismatch, warnings, total_exposures } = await exposuresOf(id);
    expect(sample_ratio_mismatch.p_value).toBeCloseTo(0.87, 2);
    expect(sample_ratio_mismatch).toMatchObject({
      mismatch: false,
      degrees_of_freedom: 1,
      expected: { control: 502.5, "test-1": 502.5 },
    });
    expect(warnings).toMatchObject([{ code: "variant-without-share", variant: "test-2" }]);
    expect(total_exposures).toEqual({ control: 500, "test-1": 505, "test-2": 3 });
  });

  it("[XR-22] people in a holdout are no exposures and raise no alarm; variants without any are told", async () => {
    const holdout = await api.done("POST", "experiment_holdouts", {
      name: "Ten",
      filters: [{ rollout_percentage: 10 }],
    });
    const id = await run("held", { holdout_id: holdout.id, ...shares(34, 33, 33) });
    const group = (variant: string, count: number) =>
      users(`held-${variant}-`, count).map((user) =>
        called("held", variant, user, start + HOUR_MS),
      );
    await api.capture([...group("control", 450), ...group(`holdout-${holdout.id}`, 100)]);
    const before = await exposuresOf(id);
    expect(before.total_exposures).toEqual({ control: 450, "test-1": 0, "test-2": 0 });
    await api.capture([...group("test-1", 437), ...group("test-2", 437)]);
    const after = await exposuresOf(id);
    expect(after.holdout_exposures).toEqual({ [`holdout-${holdout.id}`]: 100 });
    expect(after.sample_ratio_mismatch).toMatchObject({
      mismatch: false,
      sequential: { mismatch: false },
    });
    const { baseline, variant_results } = await analyse(id, FUNNEL);
    expect(baseline.number_of_samples).toBe(450);
    expect(variant_results.map(({ key }: { key: string }) => key)).toEqual(["test-1", "test-2"]);
  });

  it("[XR-22] a start before the exposure does not hide the start after it", async () => {
    const id = await run("retention");
    const opened = { kind: "EventsNode", event: "opened" };
    const at = start + 2 * HOUR_MS;
    await api.capture([
      called("retention", "control", "back", at),
      happen("opened", "back", at - HOUR_MS),
      happen("opened", "back", at + HOUR_MS),
      happen("returned", "back", at + 3 * HOUR_MS),
    ]);
    const { baseline } = await analyse(id, {
      kind: "ExperimentMetric",
      metric_type: "retention",
      start_event: opened,
      completion_event: { ...opened, event: "returned" },
      retention_window_start: 1,
      retention_window_end: 4,
      retention_window_unit: "hour",
    });
    expect(baseline).toMatchObject({ number_of_samples: 1, sum: 1 });
  });

  it("[XR-22] what comes after the end moves no number, asked for twice", async () => {
    const id = await run("ended", {
      end_date: new Date(start + 2 * DAY_MS).toISOString(),
      metrics: [FUNNEL],
    });
    const at = start + HOUR_MS;
    await api.capture(
      ["control", "test"].flatMap((variant) =>
        users(`ended-${variant}-`, 60).flatMap((user, index) => [
          called("ended", variant, user, at),
          ...(index % 4 === 0 ? [happen("bought", user, at + HOUR_MS)] : []),
        ]),
      ),
    );
    const first = await api.done("GET", `experiments/${id}/results`);
    await api.capture([
      ...users("late", 50).map((user) =>
        called("ended", "test", user, start + 2 * DAY_MS + HOUR_MS),
      ),
      happen("bought", "ended-test-1", start + 3 * DAY_MS),
    ]);
    const second = await api.done("GET", `experiments/${id}/results?refresh=true`);
    expect({ ...second, is_cached: null }).toEqual({ ...first, is_cached: null });
  });

  it("[XR-22] the flag of an ended experiment can go, and both keys read as they were", async () => {
    const id = await run("goes");
    const { feature_flag } = await api.done("POST", `experiments/${id}/end`);
    await api.done("PATCH", `feature_flags/${feature_flag.id}`, { deleted: true });
    const seen = await api.done("GET", `experiments/${id}`);
    expect([seen.feature_flag_key, seen.feature_flag.key]).toEqual(["goes", "goes"]);
    const again = await run("goes");
    const other = await api.done("GET", `experiments/${again}`);
    expect(other.feature_flag.id).not.toBe(feature_flag.id);
    expect((await exposuresOf(again)).total_exposures).toEqual({ control: 0, test: 0 });
    await api.done("DELETE", `experiments/${again}`);
    await api.done("PATCH", `feature_flags/${other.feature_flag.id}`, { deleted: true });
    const renamed = await api.done("POST", "feature_flags", { key: "renamed", filters: {} });
    await api.done("PATCH", `feature_flags/${renamed.id}`, { key: "goes" });
  });

  it("[XR-23] events that nobody sent, zeros to divide by and odd values are told, and never NaN", async () => {
    const id = await run("odd");
    const at = start + HOUR_MS;
    await api.capture(
      ["control", "test"].flatMap((variant) =>
        users(`odd-${variant}-`, 60).flatMap((user, index) => [
          called("odd", variant, user, at),
          happen("odd value", user, at + HOUR_MS, {
            price: ["5", "NaN", "Infinity", "five", -1e308, null, [], true][index % 8],
          }),
        ]),
      ),
    );
    const unknown = await analyse(id, {
      ...FUNNEL,
      series: [{ kind: "EventsNode", event: "never sent" }],
    });
    expect(unknown.baseline).toMatchObject({
      number_of_samples: 60,
      sum: 0,
      validation_failures: ["not-enough-metric-data", "baseline-mean-is-zero"],
    });
    expect(unknown.variant_results[0].extended).toMatchObject({
      status: "zero-variance",
      decision: null,
      absolute: null,
      warnings: [{ code: "zero-variance" }],
    });
    const nothing = { kind: "EventsNode", event: "never sent" };
    const divided = await analyse(id, {
      kind: "ExperimentMetric",
      metric_type: "ratio",
      numerator: { kind: "EventsNode", event: "odd value" },
      denominator: nothing,
    });
    expect(divided.variant_results[0].extended).toMatchObject({
      status: "not-enough-data",
      absolute: null,
      relative: null,
      bayes: null,
    });
    for (const math of ["sum", "avg", "min", "max"]) {
      const answer = await analyse(id, {
        kind: "ExperimentMetric",
        metric_type: "mean",
        source: { kind: "EventsNode", event: "odd value", math, math_property: "price" },
      });
      expect(answer.baseline.number_of_samples).toBe(60);
      expect(JSON.stringify(answer)).not.toMatch(/NaN|Infinity/);
      expect(answer.warnings ?? answer.extended.warnings).not.toEqual([]);
    }
  });
});
