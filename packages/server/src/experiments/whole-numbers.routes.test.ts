import { afterAll, beforeAll, describe, expect, it } from "vitest";
import {
  called,
  HOUR_MS,
  happen,
  openExperimentsService,
  users,
} from "./experiments-service.setup.ts";

describe("whole numbers with more digits than a double has", () => {
  let service: Awaited<ReturnType<typeof openExperimentsService>>;
  beforeAll(async () => {
    service = await openExperimentsService();
  });
  afterAll(() => service.close());

  it("[XR-14] stand in the conditions of metrics, of every kind", async () => {
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
