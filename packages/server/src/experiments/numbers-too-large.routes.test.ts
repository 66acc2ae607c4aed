import { afterAll, beforeAll, describe, expect, it } from "vitest";
import {
  called,
  HOUR_MS,
  happen,
  openExperimentsService,
  users,
} from "./experiments-service.setup.ts";

describe("numbers that are too large for a double", () => {
  let service: Awaited<ReturnType<typeof openExperimentsService>>;
  beforeAll(async () => {
    service = await openExperimentsService();
  });
  afterAll(() => service.close());

  it("[XM-5] whose squares are beyond all numbers are told as sums that are not known, asked for once or again", async () => {
    const start = Date.now() - 48 * HOUR_MS;
    const { id } = await service.done("POST", "experiments", {
      name: "Large",
      feature_flag_key: "large",
      start_date: new Date(start).toISOString(),
    });
    await service.capture(
      users("large-", 200).flatMap((user, index) => {
        const variant = index % 2 === 0 ? "control" : "test";
        // Every arm's values sum to 50, and their squares to more than there is a number for.
        const value = index < 100 ? (index < 50 ? 1e200 : -1e200) : 1;
        return [
          called("large", variant, user, start + HOUR_MS),
          happen("bought", user, start + 2 * HOUR_MS, { price: value, huge: 1e308 }),
        ];
      }),
    );
    const source = { kind: "EventsNode", event: "bought", math: "sum", math_property: "price" };
    const metric = { kind: "ExperimentMetric", metric_type: "mean", source };
    const ask = () =>
      service.query({ kind: "ExperimentQuery", experiment_id: id, metric }) as Promise<{
        baseline: object;
        variant_results: { extended: object }[];
        extended: object;
      }>;
    const count_query = { kind: "TrendsQuery", series: [{ ...source, math_property: "huge" }] };
    const trends = { kind: "ExperimentTrendsQuery", experiment_id: id, count_query };
    expect(await service.send("POST", "query", { query: trends })).toMatchObject({
      status: 400,
      body: { attr: "query__count_query__series__0__math" },
    });
    for (const answer of [await ask(), await ask()]) {
      expect(answer.baseline).toMatchObject({ number_of_samples: 100, sum_squares: null });
      expect(answer.variant_results[0]).toMatchObject({
        number_of_samples: 100,
        sum_squares: null,
        extended: { status: "invalid-input", absolute: null },
      });
      expect(answer.variant_results[0]).not.toHaveProperty("chance_to_win");
      expect(answer.extended).toMatchObject({ warnings: [{ code: "numbers-too-large" }] });
    }
  });

  it("[XR-14] with more digits than a double has stand in the conditions of metrics, of every kind", async () => {
    const start = Date.now() - 48 * HOUR_MS;
    const { id } = await service.done("POST", "experiments", {
      name: "Digits",
      feature_flag_key: "digits",
      start_date: new Date(start).toISOString(),
    });
    await service.capture(
      users("digits-", 120).flatMap((user, index) => [
        called("digits", index % 2 === 0 ? "control" : "test", user, start + HOUR_MS),
        happen("bought", user, start + 2 * HOUR_MS, { price: index }),
      ]),
    );
    const node = (operator: string) =>
      `{"kind": "EventsNode", "event": "bought", "properties": [
        {"type": "event", "key": "price", "operator": "${operator}", "value": 1234567890123456789012}]}`;
    const mean = `"metric_type": "mean", "source": ${node("lt")}`;
    const funnel = `"metric_type": "funnel", "series": [${node("lt")}, ${node("gt")}]`;
    const metric = (fields: string) => `{"kind": "ExperimentMetric", ${fields}}`;
    const asked = (fields: string) =>
      service.send(
        "POST",
        "query",
        `{"query": {"kind": "ExperimentQuery", "experiment_id": ${id}, "metric": ${metric(fields)}}}`,
      );
    expect(await asked(mean)).toMatchObject({
      status: 200,
      body: { baseline: { number_of_samples: 60, sum: 60 } },
    });
    expect(await asked(funnel)).toMatchObject({
      status: 200,
      body: { baseline: { number_of_samples: 60, sum: 0, step_counts: [60, 0] } },
    });
    const stored = `{"metrics": [${metric(mean)}, ${metric(funnel)}]}`;
    expect((await service.send("PATCH", `experiments/${id}`, stored)).status).toBe(200);
    for (const path of ["results", "export", "export?format=csv"])
      expect((await service.send("GET", `experiments/${id}/${path}`)).status).toBe(200);
    await service.done("POST", `experiments/${id}/end`, {});
    expect((await service.send("GET", `experiments/${id}/results`)).status).toBe(200);
  });
});
