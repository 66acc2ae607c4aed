import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { called, HOUR_MS, happen, openExperimentsService } from "./experiments-service.setup.ts";

const start = Date.now() - 72 * HOUR_MS;
const USERS = 400;
const users = Array.from({ length: USERS }, (_, user) => user);
const isTest = (user: number) => user % 2 === 1;
/** A fifth of the control looks, two fifths of `test`; every other of these pays. */
const looks = (user: number) => (user >> 1) % 5 < (isTest(user) ? 2 : 1);
const pays = (user: number) => looks(user) && (user >> 1) % 2 === 0;
const countOf = (arm: boolean, condition: (user: number) => boolean) =>
  users.filter((user) => isTest(user) === arm && condition(user)).length;

describe("results of experiments in the older shape", () => {
  let service: Awaited<ReturnType<typeof openExperimentsService>>;
  const create = async (body: object) => {
    const fields = { name: "x", feature_flag_key: "button", ...body };
    return (await service.done("POST", "experiments", fields)).id as number;
  };
  const start_date = new Date(start).toISOString();
  const funnel = {
    insight: "FUNNELS",
    events: [
      { id: "paid", order: 1, type: "events" },
      { id: "looked", order: 0, type: "events" },
    ],
  };
  const trend = { insight: "TRENDS", events: [{ id: "looked", type: "events", math: "total" }] };

  beforeAll(async () => {
    service = await openExperimentsService();
    await service.capture(
      users.flatMap((user) => [
        called("button", isTest(user) ? "test" : "control", `u${user}`, start + HOUR_MS),
        ...(looks(user) ? [happen("looked", `u${user}`, start + 2 * HOUR_MS)] : []),
        ...(pays(user) ? [happen("paid", `u${user}`, start + 3 * HOUR_MS)] : []),
      ]),
    );
  });
  afterAll(() => service.close());

  it("[XR-15] answers a funnel's results beside the experiment's fields", async () => {
    const id = await create({ start_date, filters: funnel });
    const { status, body } = await service.send("GET", `experiments/${id}/results?refresh=true`);
    expect(status, JSON.stringify(body)).toBe(200);
    const counts = (arm: boolean) => [countOf(arm, looks), countOf(arm, pays)];
    const paid = [countOf(false, pays), countOf(true, pays)] as const;
    expect(body).toMatchObject({
      id,
      feature_flag_key: "button",
      is_cached: false,
      metrics: [],
      result: {
        filters: funnel,
        variants: [
          { key: "control", success_count: paid[0], failure_count: USERS / 2 - paid[0] },
          { key: "test", success_count: paid[1], failure_count: USERS / 2 - paid[1] },
        ],
        significant: expect.any(Boolean),
        significance_code: expect.any(String),
        expected_loss: expect.any(Number),
      },
    });
    const { insight, probability, credible_intervals } = body.result;
    expect(insight.map((steps: { count: number }[]) => steps.map(({ count }) => count))).toEqual([
      counts(false),
      counts(true),
    ]);
    expect(insight[0][0]).toMatchObject({ name: "looked", order: 0 });
    expect(probability.control + probability.test).toBeCloseTo(1, 9);
    const [low, high] = credible_intervals.test;
    expect(low < paid[1] / (USERS / 2) && paid[1] / (USERS / 2) < high).toBe(true);
  });

  it("[XR-15] answers a trend's results, and every new metric's analysis", async () => {
    const metric = {
      kind: "ExperimentMetric",
      metric_type: "mean",
      source: { kind: "EventsNode", event: "looked" },
    };
    for (const body of [{ filters: trend }, { metrics: [metric, metric] }]) {
      const id = await create({ start_date, ...body });
      const { result, metrics } = (await service.send("GET", `experiments/${id}/results`)).body;
      expect(result.variants).toEqual([
        { key: "control", count: countOf(false, looks), exposure: 1, absolute_exposure: 200 },
        { key: "test", count: countOf(true, looks), exposure: 1, absolute_exposure: 200 },
      ]);
      expect(result).toMatchObject({ significant: true, significance_code: "significant" });
      expect(result.p_value).toBeLessThan(0.05);
      expect(metrics.length).toBe("metrics" in body ? 2 : 0);
      for (const one of metrics) {
        expect(one.metric.uuid).toEqual(expect.any(String));
        expect(one.variant_results[0].sum).toBe(countOf(true, looks));
      }
    }
  });

  it("[XR-15] answers one secondary metric: the rate or the count per unit", async () => {
    const id = await create({
      start_date,
      secondary_metrics: [{ name: "look", filters: trend }, { name: "pay", filters: funnel }, 5],
    });
    const of = async (which: string) =>
      (await service.send("GET", `experiments/${id}/secondary_results${which}`)).body;
    expect((await of("?id=0")).result.result).toEqual({
      control: countOf(false, looks) / 200,
      test: countOf(true, looks) / 200,
    });
    expect(await of("?id=1")).toMatchObject({
      id,
      result: { result: { test: countOf(true, pays) / 200 }, expected_loss: expect.any(Number) },
    });
    expect((await of("")).detail).toBe("Secondary metric id is required");
    expect((await of("?id=x")).detail).toBe("Secondary metric id must be an integer");
    for (const unknown of ["?id=2", "?id=3", "?id=-1"])
      expect((await of(unknown)).detail).toBe("Invalid metric ID");
    const none = await create({ start_date });
    expect(
      (await service.send("GET", `experiments/${none}/secondary_results?id=0`)).body.detail,
    ).toBe("Experiment has no secondary metrics");
  });

  it("[XR-16] refuses results where nothing was measured, saying what is missing", async () => {
    const refused = async (body: object) => {
      const { status, body: answer } = await service.send(
        "GET",
        `experiments/${await create(body)}/results`,
      );
      expect(status).toBe(400);
      return answer;
    };
    expect((await refused({ start_date })).detail).toBe("Experiment has no target metric");
    const all = {
      "no-events": true,
      "no-flag-info": true,
      "no-control-variant": true,
      "no-test-variant": true,
    };
    for (const body of [
      { filters: funnel },
      { filters: funnel, start_date, feature_flag_key: "unused" },
    ]) {
      const { type, code, detail, attr } = await refused(body);
      expect([type, code, attr]).toEqual(["validation_error", "no-results", null]);
      expect(JSON.parse(detail)).toEqual(all);
    }
    const bad = { insight: "PATHS", events: [{ id: "x" }] };
    expect(await refused({ start_date, filters: bad })).toMatchObject({ attr: "filters__insight" });
    const action = { insight: "TRENDS", actions: [{ id: 1, type: "actions" }] };
    expect(await refused({ start_date, filters: action })).toMatchObject({
      attr: "filters__actions",
    });
  });
});
