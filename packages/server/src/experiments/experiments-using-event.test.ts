import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createExperimentStore } from "../engines/sql/experiment-store.ts";
import { openFlagsApi } from "../flags/flags-api.setup.ts";
import { experimentsUsingEvent } from "./experiments-using-event.ts";

describe("experiments that look at an event", () => {
  let api: Awaited<ReturnType<typeof openFlagsApi>>;
  beforeAll(async () => {
    api = await openFlagsApi();
  });
  afterAll(() => api.close());

  it("[XP-9] are found by metrics, insights and exposure of every era, and by nothing else", async () => {
    const projectId = await api.newProject();
    const create = async (name: string, body: object) => {
      const answer = await api.send("POST", `/api/projects/${projectId}/experiments`, {
        name,
        feature_flag_key: name,
        ...body,
      });
      expect(answer.status).toBe(201);
    };
    const source = { kind: "EventsNode", event: "signed up" };
    await create("mean", { metrics: [{ kind: "ExperimentMetric", metric_type: "mean", source }] });
    await create("funnel", {
      metrics_secondary: [{ kind: "ExperimentMetric", metric_type: "funnel", series: [source] }],
    });
    await create("old", { filters: { events: [{ type: "events", id: "signed up" }] } });
    await create("secondary", {
      secondary_metrics: [{ filters: { events: [{ type: "events", id: "signed up" }] } }],
    });
    await create("exposed", {
      exposure_criteria: {
        exposure_config: { kind: "ExperimentEventExposureConfig", event: "signed up" },
      },
    });
    await create("other", { description: "signed up", filters: { insight: "signed up" } });
    const find = experimentsUsingEvent(createExperimentStore(api.database));
    const used = await find({ projectId, name: "signed up" }, {} as never);
    expect(used.map(({ kind, name }) => `${kind} ${name}`).sort()).toEqual(
      ["exposed", "funnel", "mean", "old", "secondary"].map((name) => `experiment ${name}`),
    );
    expect(await find({ projectId, name: "nothing" }, {} as never)).toEqual([]);
  });
});
