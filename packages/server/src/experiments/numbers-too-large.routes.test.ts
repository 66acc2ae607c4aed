import { afterAll, beforeAll, describe, expect, it } from "vitest";
import {
  called,
  HOUR_MS,
  happen,
  openExperimentsService,
  users,
} from "./experiments-service.setup.ts";

describe("numbers whose squares are beyond all numbers", () => {
  let service: Awaited<ReturnType<typeof openExperimentsService>>;
  beforeAll(async () => {
    service = await openExperimentsService();
  });
  afterAll(() => service.close());

  it("[XM-5] are told as sums that are not known, asked for once or again", async () => {
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
});
