import { afterAll, beforeAll, describe, expect, it } from "vitest";
import {
  called,
  HOUR_MS,
  happen,
  openExperimentsService,
  users,
} from "./experiments-service.setup.ts";

const metric = (event: string) => ({
  kind: "ExperimentMetric",
  metric_type: "mean",
  source: { kind: "EventsNode", event },
});
const metrics = (from: number, count: number) =>
  Array.from({ length: count }, (_, index) => metric(`event ${from + index}`));

describe("experiments with many metrics", () => {
  let service: Awaited<ReturnType<typeof openExperimentsService>>;
  beforeAll(async () => {
    service = await openExperimentsService();
  });
  afterAll(() => service.close());

  it("[XM-1] are told all of them", async () => {
    const start = Date.now() - 48 * HOUR_MS;
    const { id } = await service.done("POST", "experiments", {
      name: "Many",
      feature_flag_key: "many",
      start_date: new Date(start).toISOString(),
      metrics: metrics(0, 100),
      metrics_secondary: metrics(100, 100),
    });
    await service.capture(
      users("many-", 200).flatMap((user, index) => [
        called("many", index % 2 === 0 ? "control" : "test", user, start + HOUR_MS),
        happen(`event ${index}`, user, start + 2 * HOUR_MS),
      ]),
    );
    const told = await service.done("GET", `experiments/${id}/export`);
    const sums = told.metrics.map(
      (one: { baseline: { sum: number }; variant_results: { sum: number }[] }) => [
        one.baseline.sum,
        one.variant_results[0]?.sum,
      ],
    );
    expect(sums).toEqual(Array.from({ length: 200 }, (_, index) => [1 - (index % 2), index % 2]));
  });

  it("[XP-19] are refused where there are more than anybody compares", async () => {
    const sent = { name: "More", feature_flag_key: "more" };
    for (const attr of ["metrics", "metrics_secondary"])
      expect(
        await service.send("POST", "experiments", { ...sent, [attr]: metrics(0, 101) }),
      ).toMatchObject({
        status: 400,
        body: { attr, detail: "Ensure this field has no more than 100 elements." },
      });
  });
});
