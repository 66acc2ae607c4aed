import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { openFlagsApi } from "../flags/flags-api.setup.ts";

const SOURCE = { kind: "EventsNode", event: "bought" };
const MEAN = { kind: "ExperimentMetric", metric_type: "mean", source: SOURCE };
const START = "2026-03-01T00:00:00Z";

describe("the fields of experiments", () => {
  let api: Awaited<ReturnType<typeof openFlagsApi>>;
  let url: string;
  beforeAll(async () => {
    api = await openFlagsApi();
  });
  afterAll(() => api.close());

  const newProject = async () => {
    url = `/api/projects/${await api.newProject()}`;
  };
  const send = (method: "GET" | "POST" | "PATCH" | "PUT" | "DELETE", path: string, body?: object) =>
    api.send(method, `${url}/${path}`, body);
  const create = async (body: object = {}) => {
    const answer = await send("POST", "experiments", {
      name: "Button",
      feature_flag_key: "button",
      ...body,
    });
    expect(answer.status, JSON.stringify(answer.body)).toBe(201);
    return answer.body;
  };

  it("[XP-18] are kept as they were sent, whatever else is in objects of one's own", async () => {
    await newProject();
    const sent = {
      description: "Is green better?",
      type: "web",
      parameters: {
        minimum_detectable_effect: 30,
        recommended_running_time: 12.5,
        recommended_sample_size: 1000,
        variant_screenshot_media_ids: { control: ["a"] },
        anything: { __proto__x: [1, null, "two"] },
      },
      filters: { insight: "TRENDS", events: [{ id: "bought", type: "events", order: 0 }] },
      secondary_metrics: [{ name: "x", filters: { insight: "FUNNELS" } }, null, 7],
      exposure_criteria: { filterTestAccounts: true, multiple_variant_handling: "first_seen" },
      stats_config: { method: "frequentist", frequentist: { alpha: 0.1 }, version: 2 },
      primary_metrics_ordered_uuids: ["b", "a"],
      secondary_metrics_ordered_uuids: [],
      conclusion: "inconclusive",
      conclusion_comment: "more time",
    };
    const created = await create(sent);
    expect(created).toMatchObject(sent);
    expect((await send("GET", `experiments/${created.id}`)).body).toEqual(created);
    expect((await send("GET", "experiments")).body.results).toEqual([created]);
    const nothing = {
      description: null,
      parameters: null,
      filters: null,
      secondary_metrics: null,
      exposure_criteria: null,
      stats_config: null,
      primary_metrics_ordered_uuids: null,
      secondary_metrics_ordered_uuids: null,
      conclusion: null,
      conclusion_comment: null,
    };
    const emptied = await send("PATCH", `experiments/${created.id}`, { ...nothing, type: null });
    expect(emptied.body).toMatchObject({ ...nothing, type: "product" });
    expect((await send("GET", `experiments/${created.id}`)).body).toEqual(emptied.body);
  });

  it("[XP-18] have every key of the document, of later clients and of nothing else", async () => {
    await newProject();
    expect(Object.keys(await create())).toEqual([
      ...["id", "name", "description", "start_date", "end_date", "feature_flag_key"],
      ...["feature_flag", "exposure_cohort", "parameters", "secondary_metrics", "filters"],
      ...["archived", "created_by", "created_at", "updated_at", "type", "status", "holdout"],
      ...["holdout_id", "saved_metrics", "saved_metrics_ids", "deleted", "exposure_criteria"],
      ...["metrics", "metrics_secondary", "stats_config", "conclusion", "conclusion_comment"],
      ...["primary_metrics_ordered_uuids", "secondary_metrics_ordered_uuids"],
      "user_access_level",
    ]);
  });

  it("[XP-18] that only the service writes are ignored, unknown ones too", async () => {
    await newProject();
    const created = await create({ id: 7, created_by: { id: 1 }, created_at: START, fingers: 5 });
    expect(created.id).not.toBe(7);
    expect(created.created_at).toBe("2026-03-01T10:00:00.123000Z");
    expect(created).not.toHaveProperty("fingers");
    const patched = await send("PATCH", `experiments/${created.id}`, {
      exposure_cohort: 9,
      feature_flag: {},
      status: "stopped",
      holdout: {},
    });
    expect(patched).toMatchObject({
      status: 200,
      body: { exposure_cohort: null, status: "draft", holdout: null },
    });
  });

  it("[XP-18] keep the uuid of a metric and give one to others; a fingerprint follows what is measured", async () => {
    await newProject();
    const uuid = "0190c2b4-6f5c-7000-8000-000000000001";
    const { metrics } = await create({
      metrics: [
        { ...MEAN, uuid, name: "A" },
        { ...MEAN, name: "B" },
        { ...MEAN, goal: "decrease" },
      ],
    });
    expect(metrics[0]).toMatchObject({ ...MEAN, uuid, name: "A" });
    expect(metrics[1].uuid).toMatch(/^[0-9a-f-]{36}$/);
    expect(metrics[1].fingerprint).toBe(metrics[0].fingerprint);
    expect(metrics[2].fingerprint).not.toBe(metrics[0].fingerprint);
  });

  it("[XP-18] of the flag are made from `parameters`: shares under either name, groups, continuity", async () => {
    await newProject();
    const { feature_flag } = await create({
      start_date: START,
      parameters: {
        feature_flag_variants: [
          { key: "control", name: "As it is", rollout_percentage: 40 },
          { key: "b", split_percent: 60 },
        ],
        aggregation_group_type_index: 0,
        ensure_experience_continuity: false,
      },
    });
    expect(feature_flag).toMatchObject({
      active: true,
      ensure_experience_continuity: false,
      filters: {
        aggregation_group_type_index: 0,
        multivariate: {
          variants: [
            { key: "control", name: "As it is", rollout_percentage: 40 },
            { key: "b", rollout_percentage: 60 },
          ],
        },
      },
    });
    const continued = await create({
      feature_flag_key: "continued",
      parameters: { ensure_experience_continuity: true },
    });
    expect(continued.feature_flag.ensure_experience_continuity).toBe(true);
  });

  it("[XP-18] a flag that was deleted is no flag: its key makes a new one", async () => {
    await newProject();
    const flag = await send("POST", "feature_flags", { key: "button", filters: { groups: [] } });
    await send("PATCH", `feature_flags/${flag.body.id}`, { deleted: true });
    expect((await create()).feature_flag.id).not.toBe(flag.body.id);
  });

  it("[XP-3] PUT names the experiment and its flag; the flag of an experiment stays its own", async () => {
    await newProject();
    const { id } = await create();
    expect((await send("PUT", `experiments/${id}`, { name: "x" })).body).toMatchObject({
      code: "required",
      attr: "feature_flag_key",
    });
    expect(
      (await send("PUT", `experiments/${id}`, { name: "Put", feature_flag_key: "button" })).body,
    ).toMatchObject({ id, name: "Put" });
    for (const method of ["PUT", "PATCH"] as const)
      expect(
        (await send(method, `experiments/${id}`, { name: "x", feature_flag_key: "other" })).body,
      ).toEqual({
        type: "validation_error",
        code: "invalid_input",
        detail: "Can't update keys: get_feature_flag_key on Experiment",
        attr: null,
      });
  });

  it("[XP-3] actions out of their turn are refused, and say so", async () => {
    await newProject();
    const { id, feature_flag } = await create();
    const refusal = async (action: string, body: object = {}) => {
      const answer = await send("POST", `experiments/${id}/${action}`, body);
      expect(answer.body).toMatchObject({ type: "validation_error", code: "invalid_input" });
      return [answer.status, answer.body.detail];
    };
    expect(await refusal("pause")).toEqual([400, "Only running experiments can be paused."]);
    expect(await refusal("resume")).toEqual([400, "Only paused experiments can be resumed."]);
    expect(await refusal("end")).toEqual([400, "Experiment has not been launched yet."]);
    expect(await refusal("archive")).toEqual([
      400,
      "Experiment must be ended before it can be archived.",
    ]);
    expect(await refusal("ship_variant", { variant_key: "test" })).toEqual([
      400,
      "Experiment has not been launched yet.",
    ]);
    expect(await refusal("create_exposure_cohort_for_experiment")).toEqual([
      400,
      "Experiment does not have a start date",
    ]);
    const patched = await send("PATCH", `experiments/${id}`, { archived: true });
    expect(patched.body).toMatchObject({ archived: true, status: "draft" });
    await send("PATCH", `experiments/${id}`, { start_date: START });
    expect(await refusal("launch")).toEqual([400, "Experiment has already been launched."]);
    expect(await refusal("resume")).toEqual([400, "Only paused experiments can be resumed."]);
    await send("POST", `experiments/${id}/end`, { conclusion: "lost" });
    expect(await refusal("end")).toEqual([400, "Experiment has already ended."]);
    expect(await refusal("pause")).toEqual([400, "Only running experiments can be paused."]);
    const bad = await send("POST", `experiments/${id}/end`, { conclusion: "great" });
    expect(bad.body).toMatchObject({ code: "invalid_choice", attr: "conclusion" });
    await send("PATCH", `feature_flags/${feature_flag.id}`, { deleted: true });
    expect(await refusal("ship_variant", { variant_key: "test" })).toEqual([
      400,
      "Experiment does not have a feature flag.",
    ]);
    expect(await refusal("create_exposure_cohort_for_experiment")).toEqual([
      400,
      "Experiment does not have a feature flag",
    ]);
    for (const [method, path] of [
      ["GET", "experiments/999999"],
      ["PATCH", "experiments/999999"],
      ["DELETE", "experiments/999999"],
      ["POST", "experiments/999999/launch"],
      ["POST", "experiments/999999/duplicate"],
      ["GET", "experiments/word"],
      ["GET", "experiments/999999/activity"],
    ] as const)
      expect((await send(method, path, method === "GET" ? undefined : {})).status, path).toBe(404);
  });

  it("[XP-11] makes one cohort however many ask for it at once", async () => {
    await newProject();
    const { id } = await create({ start_date: START });
    const answers = await Promise.all(
      [1, 2, 3].map(() =>
        send("POST", `experiments/${id}/create_exposure_cohort_for_experiment`, {}),
      ),
    );
    expect(answers.map(({ status }) => status).sort()).toEqual([200, 400, 400]);
    const refused = answers.find(({ status }) => status === 400);
    expect(refused?.body.detail).toBe("Experiment already has an exposure cohort");
    expect((await send("GET", "cohorts")).body.count).toBe(1);
  });

  it("[XP-7] lists page with links, count all, and ignore what means nothing", async () => {
    await newProject();
    for (const [index, name] of ["a", "b", "c"].entries()) {
      api.clock.now = new Date(api.clock.now.getTime() + 1000 * index);
      await create({ name, feature_flag_key: name });
    }
    const { body } = await send("GET", "experiments/?limit=1&offset=1&order=name");
    expect(body).toMatchObject({ count: 3, results: [{ name: "b" }] });
    expect(body.next).toMatch(/\/experiments\/\?limit=1&offset=2&order=name$/);
    expect(body.previous).toMatch(/\/experiments\/\?limit=1&order=name$/);
    const list = async (query: string) =>
      (await send("GET", `experiments?${query}`)).body.results.map(
        ({ name }: { name: string }) => name,
      );
    expect(await list("order=-created_at")).toEqual(["c", "b", "a"]);
    expect(
      await list("order=nonsense&status=gone&archived=maybe&limit=x&created_by_id=me"),
    ).toEqual(["c", "b", "a"]);
    expect(await list("created_by_id=999999")).toEqual([]);
    const [flag] = (await send("GET", "experiments?search=b")).body.results;
    expect(await list(`feature_flag_id=${flag.feature_flag.id}`)).toEqual(["b"]);
    await send("PATCH", `experiments/${flag.id}`, { archived: true });
    expect(await list("archived=false")).toEqual(["c", "a"]);
    expect(await list("archived=true")).toEqual(["b"]);
    await send("PATCH", `experiments/${flag.id}`, {
      start_date: START,
      end_date: "2026-03-02T00:00:00Z",
    });
    for (const status of ["complete", "stopped"])
      expect(await list(`status=${status}`)).toEqual(["b"]);
    for (const order of ["duration", "start_date", "end_date", "updated_at", "-status"])
      expect((await list(`order=${order}`)).length).toBe(3);
    expect((await list("order=-status"))[0]).toBe("b");
  });

  it("[XP-1] lists flags that an experiment can run on by their fields, twenty at a time", async () => {
    await newProject();
    const variants = [
      { key: "control", rollout_percentage: 50 },
      { key: "b", rollout_percentage: 50 },
    ];
    for (let index = 0; index < 22; index += 1)
      await send("POST", "feature_flags", {
        key: `flag-${String(index).padStart(2, "0")}`,
        active: index % 2 === 0,
        evaluation_runtime: index < 3 ? "server" : "all",
        filters: { groups: [], multivariate: { variants } },
      });
    const keys = async (query: string) => {
      const { body } = await send("GET", `experiments/eligible_feature_flags?${query}`);
      return [body.count, ...body.results.map(({ key }: { key: string }) => key)];
    };
    expect(await keys("")).toHaveLength(21);
    expect((await keys("limit=1000"))[0]).toBe(22);
    expect(await keys("order=key&limit=2&offset=1")).toEqual([22, "flag-01", "flag-02"]);
    expect((await keys("active=false"))[0]).toBe(11);
    expect(await keys("search=flag-07")).toEqual([1, "flag-07"]);
    expect((await keys("evaluation_runtime=server"))[0]).toBe(3);
    expect((await keys("created_by_id=999999"))[0]).toBe(0);
  });

  it("[XP-8] copies under another name and onto another flag, with the variants of the first", async () => {
    await newProject();
    const kept = await send("POST", "experiment_holdouts", {
      name: "x",
      filters: [{ rollout_percentage: 5 }],
    });
    const variants = ["control", "b", "c"].map((key, index) => ({
      key,
      rollout_percentage: [20, 30, 50][index],
    }));
    const { id } = await create({
      holdout_id: kept.body.id,
      metrics: [MEAN],
      parameters: { feature_flag_variants: variants, minimum_detectable_effect: 3 },
    });
    const copy = await send("POST", `experiments/${id}/duplicate`, {
      name: "Again",
      feature_flag_key: "again",
    });
    expect(copy).toMatchObject({
      status: 201,
      body: {
        name: "Again",
        feature_flag_key: "again",
        holdout_id: kept.body.id,
        parameters: { minimum_detectable_effect: 3, feature_flag_variants: variants },
        metrics: [MEAN],
      },
    });
    expect(copy.body.feature_flag.filters.multivariate.variants).toEqual(variants);
    expect(copy.body.feature_flag.filters.holdout.id).toBe(kept.body.id);
    expect((await send("POST", `experiments/${id}/duplicate`)).body.feature_flag_key).toBe(
      "button",
    );
    await send("POST", "feature_flags", { key: "plain", filters: { groups: [] } });
    const unfit = await send("POST", `experiments/${id}/duplicate`, { feature_flag_key: "plain" });
    expect([unfit.status, unfit.body.attr]).toEqual([400, "feature_flag_key"]);
  });

  it("[XP-4] shares of a running experiment change with a flag that others change at the same time", async () => {
    await newProject();
    const { id, feature_flag } = await create({ start_date: START });
    const flagPath = `feature_flags/${feature_flag.id}`;
    for (let round = 1; round <= 5; round += 1) {
      const { filters } = (await send("GET", flagPath)).body;
      const payloads = { control: JSON.stringify(round) };
      const shares = ["control", "test"].map((key, index) => ({
        key,
        rollout_percentage: index === 0 ? round : 100 - round,
      }));
      const [shared, paid] = await Promise.all([
        send("PATCH", `experiments/${id}`, { parameters: { feature_flag_variants: shares } }),
        send("PATCH", flagPath, { filters: { ...filters, payloads } }),
      ]);
      expect([shared.status, paid.status]).toEqual([200, 200]);
    }
    const { filters } = (await send("GET", flagPath)).body;
    expect(filters.payloads).toEqual({ control: "5" });
  });

  it.each([
    ["name", { name: null }, "null"],
    ["name", { name: 7 }, "invalid_input"],
    ["name", { name: undefined }, "required"],
    ["feature_flag_key", { feature_flag_key: "" }, "blank"],
    ["key", { feature_flag_key: "with space" }, "invalid_key"],
    ["description", { description: 5 }, "invalid_input"],
    ["start_date", { start_date: "2026-13-01T00:00:00Z" }, "invalid_input"],
    ["start_date", { start_date: "2026-03-01" }, "invalid_input"],
    ["start_date", { start_date: 1772323200 }, "invalid_input"],
    ["end_date", { start_date: START, end_date: "soon" }, "invalid_input"],
    ["end_date", { start_date: START, end_date: START }, "invalid_input"],
    ["end_date", { end_date: START }, "invalid_input"],
    ["parameters", { parameters: [] }, "invalid_input"],
    ["parameters", { parameters: { feature_flag_variants: "two" } }, "invalid_input"],
    [
      "parameters__feature_flag_variants__0__key",
      { parameters: { feature_flag_variants: [{ rollout_percentage: 100 }] } },
      "invalid_input",
    ],
    [
      "parameters__feature_flag_variants__1__rollout_percentage",
      {
        parameters: {
          feature_flag_variants: [
            { key: "control", rollout_percentage: 50 },
            { key: "b", rollout_percentage: "50" },
          ],
        },
      },
      "invalid_input",
    ],
    ["filters", { filters: "TRENDS" }, "invalid_input"],
    ["secondary_metrics", { secondary_metrics: {} }, "invalid_input"],
    ["archived", { archived: "yes" }, "invalid_input"],
    ["type", { type: "mobile" }, "invalid_choice"],
    ["metrics", { metrics: {} }, "invalid_input"],
    ["metrics__0", { metrics: ["mean"] }, "invalid_input"],
    ["metrics__0__kind", { metrics: [{}] }, "invalid_input"],
    ["metrics__0__metric_type", { metrics: [{ kind: "ExperimentMetric" }] }, "required"],
    [
      "metrics__0__metric_type",
      { metrics: [{ kind: "ExperimentMetric", metric_type: "median" }] },
      "invalid_choice",
    ],
    [
      "metrics__0__source",
      { metrics: [{ kind: "ExperimentMetric", metric_type: "mean" }] },
      "required",
    ],
    [
      "metrics__0__source__event",
      {
        metrics: [
          { kind: "ExperimentMetric", metric_type: "mean", source: { kind: "EventsNode" } },
        ],
      },
      "required",
    ],
    [
      "metrics_secondary__0__series",
      { metrics_secondary: [{ kind: "ExperimentMetric", metric_type: "funnel", series: [] }] },
      "invalid_input",
    ],
    [
      "metrics_secondary__0__denominator",
      {
        metrics_secondary: [{ kind: "ExperimentMetric", metric_type: "ratio", numerator: SOURCE }],
      },
      "required",
    ],
    [
      "metrics__0__conversion_window",
      { metrics: [{ ...MEAN, conversion_window: "7", conversion_window_unit: "day" }] },
      "invalid_input",
    ],
    [
      "metrics__0__source__properties__0",
      { metrics: [{ ...MEAN, source: { ...SOURCE, properties: ["price"] } }] },
      "invalid_input",
    ],
    ["conclusion", { conclusion: "great" }, "invalid_choice"],
    ["exposure_criteria", { exposure_criteria: [] }, "invalid_input"],
    ["stats_config", { stats_config: "bayesian" }, "invalid_input"],
    ["primary_metrics_ordered_uuids", { primary_metrics_ordered_uuids: "a" }, "invalid_input"],
    ["primary_metrics_ordered_uuids__0", { primary_metrics_ordered_uuids: [1] }, "invalid_input"],
    ["holdout_id", { holdout_id: "one" }, "invalid_input"],
    ["saved_metrics_ids", { saved_metrics_ids: 5 }, "invalid_input"],
  ])("[XP-19] refuses %s in %j", async (attr, body, code) => {
    await newProject();
    const answer = await send("POST", "experiments", {
      name: "x",
      feature_flag_key: "x",
      ...body,
    });
    expect([answer.status, answer.body], JSON.stringify(answer.body)).toMatchObject([
      400,
      { type: "validation_error", code, detail: expect.stringMatching(/./), attr },
    ]);
    expect((await send("GET", "experiments")).body.count).toBe(0);
    expect((await send("GET", "feature_flags")).body.count).toBe(0);
  });

  it("[XP-19] takes as many variants as it may have, and no single one", async () => {
    await newProject();
    const variants = (count: number) => ({
      parameters: {
        feature_flag_variants: Array.from({ length: count }, (_, index) => ({
          key: index === 0 ? "control" : `v${index}`,
          rollout_percentage: index === 0 ? 100 : 0,
        })),
      },
    });
    for (const count of [1, 21]) {
      const body = { name: "x", feature_flag_key: "x", ...variants(count) };
      const answer = await send("POST", "experiments", body);
      expect([answer.status, answer.body.attr], String(count)).toEqual([400, "parameters"]);
    }
    await create({ feature_flag_key: "two", ...variants(2) });
    await create({ feature_flag_key: "twenty", ...variants(20) });
  });
});
