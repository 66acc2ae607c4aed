import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { openFlagsApi } from "../flags/flags-api.setup.ts";

describe("managing experiments", () => {
  let api: Awaited<ReturnType<typeof openFlagsApi>>;
  let url: string;
  beforeAll(async () => {
    api = await openFlagsApi();
  });
  afterAll(() => api.close());

  const newProject = async () => {
    const projectId = await api.newProject();
    url = `/api/projects/${projectId}`;
    return url;
  };
  const create = async (body: object = {}) => {
    const { status, body: created } = await api.send("POST", `${url}/experiments`, {
      name: "Button",
      feature_flag_key: "button",
      ...body,
    });
    expect(status, JSON.stringify(created)).toBe(201);
    return created;
  };
  const refused = async (method: "POST" | "PATCH", path: string, body: object) => {
    const answer = await api.send(method, `${url}/${path}`, body);
    expect(answer.status).toBe(400);
    return answer.body;
  };
  const flagOf = async (experiment: { feature_flag: { id: number } }) =>
    (await api.send("GET", `${url}/feature_flags/${experiment.feature_flag.id}`)).body;
  const act = async (id: number, action: string, body: object = {}) =>
    api.send("POST", `${url}/experiments/${id}/${action}`, body);

  it("[XP-1] creates a draft from a name and a key alone, with a flag that is off and halves everyone", async () => {
    await newProject();
    const experiment = await create();
    expect(experiment).toMatchObject({
      id: expect.any(Number),
      name: "Button",
      description: null,
      start_date: null,
      end_date: null,
      feature_flag_key: "button",
      exposure_cohort: null,
      parameters: {},
      secondary_metrics: [],
      filters: {},
      archived: false,
      created_by: { id: api.user.id },
      deleted: false,
      type: "product",
      status: "draft",
      holdout: null,
      saved_metrics_ids: null,
      metrics: [],
      conclusion: null,
    });
    expect(experiment.feature_flag).toEqual({
      id: expect.any(Number),
      team_id: expect.any(Number),
      name: "Feature Flag for Experiment Button",
      key: "button",
      deleted: false,
      active: false,
      ensure_experience_continuity: false,
      filters: {
        groups: [{ properties: [], rollout_percentage: 100 }],
        multivariate: {
          variants: [
            { key: "control", name: "Control Group", rollout_percentage: 50 },
            { key: "test", name: "Test Variant", rollout_percentage: 50 },
          ],
        },
        aggregation_group_type_index: null,
        payloads: {},
      },
    });
    expect((await api.send("GET", `${url}/experiments/${experiment.id}`)).body).toEqual(experiment);
  });

  it("[XP-1] reuses a flag with at least two variants of which the first is control, and refuses others", async () => {
    await newProject();
    const flag = async (key: string, variants: object[]) =>
      (
        await api.send("POST", `${url}/feature_flags`, {
          key,
          filters: { groups: [{ properties: [] }], multivariate: { variants } },
        })
      ).body;
    const fit = await flag("fit", [
      { key: "control", rollout_percentage: 90 },
      { key: "b", rollout_percentage: 10 },
    ]);
    expect((await create({ feature_flag_key: "fit" })).feature_flag.id).toBe(fit.id);
    await flag("plain", []);
    expect(await refused("POST", "experiments", { name: "x", feature_flag_key: "plain" })).toEqual({
      type: "validation_error",
      code: "invalid_input",
      detail: "Feature flag is not eligible for experiments. It has fewer than two variants.",
      attr: "feature_flag_key",
    });
    await flag("turned", [
      { key: "b", rollout_percentage: 10 },
      { key: "control", rollout_percentage: 90 },
    ]);
    expect(
      await refused("POST", "experiments", { name: "x", feature_flag_key: "turned" }),
    ).toMatchObject({ detail: "Feature flag must have control as the first variant." });
    const { body: eligible } = await api.send("GET", `${url}/experiments/eligible_feature_flags`);
    expect(eligible.results.map(({ key }: { key: string }) => key)).toEqual(["fit"]);
    expect(eligible.count).toBe(1);
  });

  it("[XP-1] is named by its flag, until it is deleted", async () => {
    await newProject();
    const experiment = await create();
    expect((await flagOf(experiment)).experiment_set).toEqual([experiment.id]);
    const listed = await api.send("GET", `${url}/feature_flags?type=experiment`);
    expect(listed.body.results).toMatchObject([{ key: "button", experiment_set: [experiment.id] }]);
    await api.send("DELETE", `${url}/experiments/${experiment.id}`);
    expect((await flagOf(experiment)).experiment_set).toEqual([]);
  });

  it("[XP-2] refuses what cannot be, naming the field", async () => {
    await newProject();
    const create = (body: object) =>
      refused("POST", "experiments", { name: "x", feature_flag_key: "x", ...body });
    const variants = (count: number, key = "v") =>
      Array.from({ length: count }, (_, index) => ({
        key: index === 0 && key === "v" ? "control" : `${key}${index}`,
        rollout_percentage: index === 0 ? 100 : 0,
      }));
    const parameters = (feature_flag_variants: unknown) => ({
      parameters: { feature_flag_variants },
    });
    expect(await create({ name: "" })).toMatchObject({ attr: "name", code: "blank" });
    expect(await create({ name: "x".repeat(401) })).toMatchObject({ attr: "name" });
    expect(await create({ feature_flag_key: undefined })).toMatchObject({
      attr: "feature_flag_key",
      code: "required",
    });
    expect(await create(parameters(variants(21)))).toMatchObject({
      attr: "parameters",
      detail: "Feature flag variants must be less than 21",
    });
    expect(await create(parameters(variants(1)))).toMatchObject({ attr: "parameters" });
    expect(await create(parameters(variants(2, "w")))).toMatchObject({
      attr: "parameters",
      detail: "Feature flag variants must contain a control variant",
    });
    expect(await create(parameters(["a", "b"]))).toMatchObject({
      attr: "parameters__feature_flag_variants__0",
    });
    expect(
      await create(parameters([{ key: "control", rollout_percentage: -1 }, { key: "b" }])),
    ).toMatchObject({ attr: "parameters__feature_flag_variants__0__rollout_percentage" });
    expect(await create({ filters: { properties: [{ key: "a" }] } })).toMatchObject({
      attr: "filters",
      detail: "Experiments do not support global filter properties",
    });
    expect(
      await create({ start_date: "2026-03-02T00:00:00Z", end_date: "2026-03-01T00:00:00Z" }),
    ).toMatchObject({ attr: "end_date", detail: "End date must be after start date" });
    expect(await create({ end_date: "2026-03-01T00:00:00Z" })).toMatchObject({ attr: "end_date" });
    expect(await create({ start_date: "yesterday" })).toMatchObject({ attr: "start_date" });
    expect(await create({ start_date: "1" })).toMatchObject({ attr: "start_date" });
    expect(await create({ metrics: [{ kind: "Else" }] })).toMatchObject({
      attr: "metrics__0__kind",
    });
    expect(
      await create({ metrics: [{ kind: "ExperimentMetric", metric_type: "mean" }] }),
    ).toMatchObject({ code: "required", attr: "metrics__0__source" });
    expect(await create({ conclusion: "great" })).toMatchObject({ attr: "conclusion" });
    expect((await api.send("GET", `${url}/experiments`)).body.count).toBe(0);
    expect((await api.send("GET", `${url}/feature_flags`)).body.count).toBe(0);
  });

  it("[XP-3] launches by a start date or by the action, which switch the flag on, and ends without touching it", async () => {
    await newProject();
    const { id } = await create();
    const launched = await act(id, "launch");
    expect(launched.status).toBe(200);
    expect(launched.body).toMatchObject({
      status: "running",
      start_date: expect.any(String),
      feature_flag: { active: true },
    });
    expect((await act(id, "launch")).status).toBe(400);
    expect((await act(id, "pause")).body).toMatchObject({
      status: "paused",
      feature_flag: { active: false },
    });
    expect((await act(id, "pause")).status).toBe(400);
    expect((await act(id, "resume")).body).toMatchObject({ status: "running" });
    expect((await act(id, "archive")).status).toBe(400);
    api.clock.now = new Date(api.clock.now.getTime() + 1000);
    const ended = await act(id, "end", { conclusion: "won", conclusion_comment: "more clicks" });
    expect(ended.body).toMatchObject({
      status: "stopped",
      end_date: expect.any(String),
      conclusion: "won",
      conclusion_comment: "more clicks",
      feature_flag: { active: true },
    });
    expect((await act(id, "archive")).body).toMatchObject({ archived: true });
    expect((await act(id, "unarchive")).body).toMatchObject({ archived: false });
    const reopened = await api.send("PATCH", `${url}/experiments/${id}`, { end_date: null });
    expect(reopened.body).toMatchObject({ status: "running", end_date: null });

    const other = await create({ feature_flag_key: "other" });
    const byDate = await api.send("PATCH", `${url}/experiments/${other.id}`, {
      start_date: "2026-02-01T00:00:00Z",
    });
    expect(byDate.body).toMatchObject({
      status: "running",
      start_date: "2026-02-01T00:00:00Z",
      feature_flag: { active: true },
    });
  });

  it("[XP-4] keeps variants in step both ways, and the conditions of others as they are", async () => {
    await newProject();
    const variants = (share: number) => [
      { key: "control", rollout_percentage: share },
      { key: "test", rollout_percentage: 100 - share },
    ];
    const experiment = await create({ parameters: { feature_flag_variants: variants(50) } });
    const condition = {
      properties: [{ key: "email", type: "person", operator: "icontains", value: "@a" }],
      rollout_percentage: 30,
    };
    const flagUrl = `${url}/feature_flags/${experiment.feature_flag.id}`;
    const { filters } = await flagOf(experiment);
    await api.send("PATCH", flagUrl, {
      filters: { ...filters, groups: [condition], multivariate: { variants: variants(60) } },
    });
    const seen = await api.send("GET", `${url}/experiments/${experiment.id}`);
    expect(seen.body.parameters.feature_flag_variants).toEqual(variants(60));
    await api.send("PATCH", `${url}/experiments/${experiment.id}`, {
      parameters: { feature_flag_variants: variants(20), minimum_detectable_effect: 5 },
    });
    const flag = await flagOf(experiment);
    expect(flag.filters.multivariate.variants).toEqual(variants(20));
    expect(flag.filters.groups[0]).toMatchObject(condition);
    await act(experiment.id, "launch");
    expect(
      await refused("PATCH", `experiments/${experiment.id}`, {
        parameters: {
          feature_flag_variants: [...variants(20), { key: "c", rollout_percentage: 0 }],
        },
      }),
    ).toMatchObject({
      attr: null,
      detail: "Can't update feature_flag_variants on Experiment",
    });
    const shares = await api.send("PATCH", `${url}/experiments/${experiment.id}`, {
      parameters: { feature_flag_variants: variants(10) },
    });
    expect(shares.status).toBe(200);
    expect((await flagOf(experiment)).filters.multivariate.variants).toEqual(variants(10));
  });

  it("[XP-5] ships a variant to everyone and ends the experiment", async () => {
    await newProject();
    const experiment = await create();
    expect((await act(experiment.id, "ship_variant", { variant_key: "test" })).status).toBe(400);
    await act(experiment.id, "launch");
    expect(await refused("POST", `experiments/${experiment.id}/ship_variant`, {})).toMatchObject({
      attr: "variant_key",
      code: "required",
    });
    expect(
      await refused("POST", `experiments/${experiment.id}/ship_variant`, { variant_key: "no" }),
    ).toMatchObject({ attr: "variant_key" });
    api.clock.now = new Date(api.clock.now.getTime() + 1000);
    const shipped = await act(experiment.id, "ship_variant", {
      variant_key: "test",
      conclusion: "won",
    });
    expect(shipped.body).toMatchObject({ status: "stopped", conclusion: "won" });
    const { filters, active } = await flagOf(experiment);
    expect(active).toBe(true);
    expect(filters.groups[0]).toMatchObject({ properties: [], rollout_percentage: 100 });
    expect(filters.multivariate.variants).toMatchObject([
      { key: "control", rollout_percentage: 0 },
      { key: "test", rollout_percentage: 100 },
    ]);
  });

  it("[XP-6] deletes an experiment without its flag, and no flag under an experiment that is not over", async () => {
    await newProject();
    const experiment = await create();
    const flagUrl = `${url}/feature_flags/${experiment.feature_flag.id}`;
    expect(
      await refused("PATCH", `feature_flags/${experiment.feature_flag.id}`, { deleted: true }),
    ).toMatchObject({
      detail: `Cannot delete a feature flag that is linked to active experiment(s) with ID(s): ${experiment.id}. Please delete the experiment(s) before deleting the flag.`,
    });
    await act(experiment.id, "launch");
    api.clock.now = new Date(api.clock.now.getTime() + 1000);
    await act(experiment.id, "end");
    expect((await api.send("PATCH", flagUrl, { deleted: true })).status).toBe(200);
    const seen = await api.send("GET", `${url}/experiments/${experiment.id}`);
    expect(seen.body).toMatchObject({
      feature_flag_key: "button",
      feature_flag: { deleted: true },
      status: "stopped",
    });
    expect((await api.send("DELETE", `${url}/experiments/${experiment.id}`)).status).toBe(204);
    expect((await api.send("DELETE", `${url}/experiments/${experiment.id}`)).status).toBe(404);
    expect((await api.send("GET", `${url}/experiments/${experiment.id}`)).status).toBe(404);

    const again = await create();
    expect(again.feature_flag.id).not.toBe(experiment.feature_flag.id);
    const patched = await api.send("PATCH", `${url}/experiments/${again.id}`, { deleted: true });
    expect(patched).toMatchObject({ status: 200, body: { deleted: true } });
    expect((await api.send("GET", `${url}/experiments`)).body.count).toBe(0);
  });

  it("[XP-7] lists by status, archive, author and name, archived ones included, newest first", async () => {
    await newProject();
    await create({ name: "Alpha", feature_flag_key: "a" });
    const { id } = await create({ name: "Beta", feature_flag_key: "b" });
    await act(id, "launch");
    const names = async (query: string) =>
      (await api.send("GET", `${url}/experiments?${query}`)).body.results.map(
        ({ name }: { name: string }) => name,
      );
    expect(await names("")).toEqual(["Beta", "Alpha"]);
    expect(await names("order=name")).toEqual(["Alpha", "Beta"]);
    expect(await names("status=draft")).toEqual(["Alpha"]);
    expect(await names("status=running")).toEqual(["Beta"]);
    expect(await names("status=paused")).toEqual([]);
    await act(id, "pause");
    expect(await names("status=paused")).toEqual(["Beta"]);
    expect(await names("status=running")).toEqual([]);
    expect(await names("order=status")).toEqual(["Alpha", "Beta"]);
    expect(await names("order=-status")).toEqual(["Beta", "Alpha"]);
    expect(await names("status=all&search=ALP")).toEqual(["Alpha"]);
    expect(await names("archived=true")).toEqual([]);
    expect(await names("limit=1&offset=1")).toEqual(["Alpha"]);
    expect(await names(`created_by_id=${api.user.id}`)).toHaveLength(2);
  });

  it("[XP-8] copies an experiment as a draft, and keeps who did what", async () => {
    await newProject();
    const { id } = await create({
      metrics: [
        {
          kind: "ExperimentMetric",
          metric_type: "mean",
          name: "Clicks",
          source: { kind: "EventsNode", event: "clicked" },
        },
      ],
    });
    await act(id, "launch");
    const copy = await act(id, "duplicate");
    expect(copy.status).toBe(201);
    expect(copy.body).toMatchObject({
      name: "Button (Copy)",
      status: "draft",
      feature_flag_key: "button",
      metrics: [{ name: "Clicks", uuid: expect.any(String), fingerprint: expect.any(String) }],
    });
    const { body } = await api.send("GET", `${url}/experiments/${id}/activity`);
    expect(body.results.map(({ activity }: { activity: string }) => activity)).toEqual([
      "updated",
      "created",
    ]);
  });
});
