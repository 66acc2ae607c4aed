import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pino } from "pino";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { composeService, type Service } from "../compose.ts";
import { readConfig } from "../config.ts";

const KEY = "phx_kept_results_test";
const TOKEN = "phc_kept_results_test";
const HOUR = 3_600_000;
const start = Date.now() - 72 * HOUR;
const iso = (hours: number) => new Date(start + hours * HOUR).toISOString();
const METRIC = {
  kind: "ExperimentMetric",
  metric_type: "mean",
  source: { kind: "EventsNode", event: "bought" },
};
const TREND = { insight: "TRENDS", events: [{ id: "bought", type: "events" }] };

describe("results that are kept", () => {
  const data = mkdtempSync(join(tmpdir(), "hedgerow-kept-results-"));
  let service: Service;
  const open = async () => {
    service = await composeService(
      readConfig(["--data", data], { HEDGEROW_PERSONAL_KEY: KEY, HEDGEROW_PROJECT_KEY: TOKEN }),
      pino({ level: "silent" }),
    );
  };
  const send = async (method: "GET" | "POST" | "PATCH" | "DELETE", path: string, body?: object) => {
    const response = await service.app.inject({
      method,
      url: `/api/projects/1/${path}`,
      headers: { authorization: `Bearer ${KEY}` },
      ...(body && { payload: body }),
    });
    expect(response.statusCode, response.body).toBeLessThan(300);
    return response.body;
  };
  const create = async (flag: string, body: object = {}) => {
    const fields = { name: flag, feature_flag_key: flag, start_date: iso(0), metrics: [METRIC] };
    return JSON.parse(await send("POST", "experiments", { ...fields, ...body })).id as number;
  };
  const change = (id: number, body: object) => send("PATCH", `experiments/${id}`, body);
  const happen = (event: string, user: string, hours: number, properties: object = {}) => ({
    event,
    distinct_id: user,
    timestamp: iso(hours),
    properties,
  });
  const call = (flag: string, user: string, variant: string, hours = 1) =>
    happen("$feature_flag_called", user, hours, {
      $feature_flag: flag,
      $feature_flag_response: variant,
    });
  const capture = async (batch: readonly object[]) => {
    const payload = { api_key: TOKEN, batch };
    const response = await service.app.inject({ method: "POST", url: "/batch", payload });
    expect(response.statusCode).toBe(200);
  };
  const expose = (flag: string, count = 120) =>
    capture(
      Array.from({ length: count }, (_, user) => user).flatMap((user) => [
        call(flag, `${flag}-${user}`, user % 2 === 0 ? "control" : "test"),
        ...(user % 3 === 0 ? [happen("bought", `${flag}-${user}`, 2)] : []),
      ]),
    );
  const query = (id: number, asked: object, more: object = {}) =>
    send("POST", "query", { query: { experiment_id: id, ...asked }, ...more });
  const analyse = (id: number, more: object = {}, metric: object = METRIC) =>
    query(id, { kind: "ExperimentQuery", metric }, more);
  /** Everything that can be asked about an experiment, without the experiment's own fields. */
  const answers = async (id: number) => [
    JSON.stringify(resultOf(await send("GET", `experiments/${id}/results`))),
    JSON.stringify(resultOf(await send("GET", `experiments/${id}/results?refresh=true`))),
    JSON.stringify(resultOf(await send("GET", `experiments/${id}/secondary_results?id=0`))),
    await analyse(id),
    await analyse(id, { refresh: "force_blocking" }),
    await query(id, { kind: "ExperimentExposureQuery" }),
  ];
  const resultOf = (body: string) => {
    const { result, metrics, last_refresh, is_cached } = JSON.parse(body);
    return { result, metrics, last_refresh, is_cached };
  };

  beforeAll(open);
  afterAll(async () => {
    await service.close();
    rmSync(data, { recursive: true, force: true });
  });

  it("[XK-2] answers the same bytes for ever once an experiment has ended, on every route", async () => {
    await expose("ended");
    const id = await create("ended", { secondary_metrics: [{ name: "s", filters: TREND }] });
    await change(id, { end_date: iso(24) });
    const first = await answers(id);
    expect(JSON.parse(first[0] ?? "")).toMatchObject({
      is_cached: true,
      metrics: [{ baseline: { number_of_samples: 60, sum: 20 } }],
    });
    await capture([
      call("ended", "late", "test", 3),
      happen("bought", "late", 4),
      happen("bought", "ended-0", 4),
      happen("$identify", "ended-2", 5, { $anon_distinct_id: "ended-3" }),
    ]);
    const { results } = JSON.parse(await send("GET", "persons?distinct_id=ended-4"));
    await send("DELETE", `persons/${results[0].id}?delete_events=true`);
    const flags = JSON.parse(await send("GET", "feature_flags?search=ended"));
    const [flag] = flags.results;
    const variants = ["control", "test", "third"].map((key, index) => ({
      key,
      rollout_percentage: [20, 30, 50][index],
    }));
    await send("PATCH", `feature_flags/${flag.id}`, {
      filters: { ...flag.filters, multivariate: { variants } },
    });
    await send("PATCH", "", { timezone: "Asia/Tokyo" });
    expect(await answers(id)).toEqual(first);
    await service.close();
    await open();
    await change(id, { name: "Renamed" });
    expect(await answers(id)).toEqual(first);
    await send("PATCH", "", { timezone: "UTC" });
  });

  it("[XK-2] keeps the sums that another way of comparing is computed from", async () => {
    await expose("compared");
    const id = await create("compared");
    await change(id, { end_date: iso(24) });
    const bayesian = JSON.parse(await analyse(id));
    await capture([happen("bought", "compared-1", 4)]);
    await change(id, { stats_config: { method: "frequentist" } });
    const frequentist = JSON.parse(await analyse(id));
    expect(frequentist.variant_results[0]).toMatchObject({
      method: "frequentist",
      sum: bayesian.variant_results[0].sum,
      p_value: expect.any(Number),
    });
    await change(id, { stats_config: null });
    expect(JSON.parse(await analyse(id))).toEqual(bayesian);
  });

  it("[XK-3] computes anew once the window is edited, or another metric is asked for", async () => {
    await expose("edited");
    const id = await create("edited");
    await change(id, { end_date: iso(24) });
    const sum = async (more: object = {}) =>
      JSON.parse(await analyse(id, {}, { ...METRIC, ...more })).baseline.sum;
    expect(await sum()).toBe(20);
    await capture([happen("bought", "edited-0", 4)]);
    expect(await sum()).toBe(20);
    expect(await sum({ goal: "decrease" })).toBe(21);
    await change(id, { end_date: iso(25) });
    expect(await sum()).toBe(21);
    await capture([happen("bought", "edited-0", 5)]);
    expect(await sum()).toBe(21);
    await change(id, { end_date: null });
    expect(await sum()).toBe(22);
  });

  it("[XK-4] answers again what was computed until anything is stored, or it is to be refreshed", async () => {
    await expose("running");
    const id = await create("running");
    const first = JSON.parse(await analyse(id));
    expect(first.is_cached).toBe(false);
    expect(JSON.parse(await analyse(id))).toEqual({ ...first, is_cached: true });
    expect(resultOf(await send("GET", `experiments/${id}/results`))).toMatchObject({
      is_cached: true,
      last_refresh: first.last_refresh,
    });
    const refreshed = JSON.parse(await analyse(id, { refresh: true }));
    expect(refreshed.is_cached).toBe(false);
    expect(refreshed.last_refresh > first.last_refresh).toBe(true);
    await capture([happen("bought", "running-0", 4)]);
    const later = JSON.parse(await analyse(id));
    expect(later).toMatchObject({ is_cached: false, baseline: { sum: 21 } });
    const { results } = JSON.parse(await send("GET", "persons?distinct_id=running-0"));
    await send("DELETE", `persons/${results[0].id}?delete_events=true`);
    await expect.poll(async () => JSON.parse(await analyse(id)).baseline.sum).toBe(19);
  });

  it("[XK-4] computes once what several ask at the same time", async () => {
    await expose("asked");
    const id = await create("asked");
    const all = await Promise.all(Array.from({ length: 8 }, () => analyse(id)));
    expect(new Set(all.map((one) => JSON.parse(one).last_refresh)).size).toBe(1);
  });
});
