import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { DAY_MS, openExperimentsService } from "./experiments-service.setup.ts";

describe("experiments that cannot be", () => {
  let service: Awaited<ReturnType<typeof openExperimentsService>>;
  let made = 0;
  beforeAll(async () => {
    service = await openExperimentsService();
  });
  afterAll(() => service.close());

  const send = (fields: object) => {
    made += 1;
    return service.send("POST", "experiments", {
      name: "Cannot be",
      feature_flag_key: `cannot-be-${made}`,
      ...fields,
    });
  };
  const create = async (fields: object = {}) => {
    const { status, body } = await send(fields);
    expect(status, JSON.stringify(body)).toBe(201);
    return body as { id: number; feature_flag: { id: number } };
  };
  const change = (id: number, fields: object) => service.send("PATCH", `experiments/${id}`, fields);

  it("[XP-3] do not end before they start, and go on being changed", async () => {
    const start_date = new Date(Date.now() + DAY_MS).toISOString();
    const { id, feature_flag } = await create({ start_date });
    const notStarted = { status: 400, body: { detail: "Experiment has not started yet." } };
    expect(await service.send("POST", `experiments/${id}/end`, {})).toMatchObject(notStarted);
    expect(
      await service.send("POST", `experiments/${id}/ship_variant`, { variant_key: "test" }),
    ).toMatchObject(notStarted);
    const flag = await service.done("GET", `feature_flags/${feature_flag.id}`);
    expect(flag.filters.groups).toHaveLength(1);
    expect(await change(id, { name: "Later" })).toMatchObject({
      status: 200,
      body: { name: "Later", end_date: null },
    });
  });

  it.each(["2026-02-30T00:00:00Z", "2026-04-31T10:00:00+02:00", "2025-02-29T00:00:00Z"])(
    "[XP-19] do not start on %s, a day that is in no calendar",
    async (start_date) => {
      expect(await send({ start_date })).toMatchObject({
        status: 400,
        body: { code: "invalid_input", attr: "start_date" },
      });
    },
  );

  it.each([
    ["stats_config__method", { stats_config: { method: "guessing" } }],
    ["stats_config__bayesian__ci_level", { stats_config: { bayesian: { ci_level: 1 } } }],
    [
      "stats_config__frequentist__alpha",
      { stats_config: { method: "frequentist", frequentist: { alpha: 1e-17 } } },
    ],
    ["stats_config__balanced__power", { stats_config: { balanced: { power: 2 } } }],
    ["stats_config__cuped__lookback_days", { stats_config: { cuped: { lookback_days: "9" } } }],
    [
      "exposure_criteria__multiple_variant_handling",
      { exposure_criteria: { multiple_variant_handling: "last" } },
    ],
    ["exposure_criteria__exposure_epoch", { exposure_criteria: { exposure_epoch: "soon" } }],
    ["exposure_criteria__exposure_config", { exposure_criteria: { exposure_config: 5 } }],
  ])("[XP-19] have no %s like that", async (attr, fields) => {
    expect(await send(fields)).toMatchObject({ status: 400, body: { attr } });
    const { id } = await create();
    expect(await change(id, fields)).toMatchObject({ status: 400, body: { attr } });
  });

  it("[XP-3] start with the control wherever it stands among the variants", async () => {
    const variant = (key: string) => ({ key, rollout_percentage: 50 });
    const { id } = await create({
      parameters: { feature_flag_variants: [variant("test"), variant("control")] },
    });
    expect(await service.send("POST", `experiments/${id}/launch`)).toMatchObject({
      status: 200,
      body: { status: "running" },
    });
  });

  it("[XP-3] do not start without a flag, or on one that lost its variants", async () => {
    const start_date = new Date().toISOString();
    const gone = await create();
    await service.done("PATCH", `experiments/${gone.id}`, { start_date });
    await service.done("POST", `experiments/${gone.id}/end`, {});
    await service.done("PATCH", `feature_flags/${gone.feature_flag.id}`, { deleted: true });
    const copy = await service.done("POST", `experiments/${gone.id}/duplicate`, {});
    expect(await change(copy.id, { start_date })).toMatchObject({
      status: 400,
      body: { detail: "Experiment does not have a feature flag." },
    });
    const plain = await create();
    await service.done("PATCH", `feature_flags/${plain.feature_flag.id}`, {
      filters: { groups: [{ properties: [], rollout_percentage: 100 }], multivariate: null },
    });
    for (const answer of [
      await change(plain.id, { start_date }),
      await service.send("POST", `experiments/${plain.id}/launch`),
    ])
      expect(answer).toMatchObject({ status: 400, body: { attr: "feature_flag_key" } });
    expect(await service.done("GET", `experiments/${plain.id}`)).toMatchObject({
      start_date: null,
      feature_flag: { active: false },
    });
  });
});
