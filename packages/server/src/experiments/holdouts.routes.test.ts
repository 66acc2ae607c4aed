import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { openFlagsApi } from "../flags/flags-api.setup.ts";

describe("holdouts and shared metrics", () => {
  let api: Awaited<ReturnType<typeof openFlagsApi>>;
  let projectId: number;
  let url: string;
  beforeAll(async () => {
    api = await openFlagsApi();
  });
  afterAll(() => api.close());

  const newProject = async () => {
    projectId = await api.newProject();
    url = `/api/projects/${projectId}`;
  };
  const send = async (
    method: "POST" | "PATCH" | "PUT" | "DELETE" | "GET",
    path: string,
    body?: object,
  ) => await api.send(method, `${url}/${path}`, body);
  const made = async (path: string, body: object) => {
    const { status, body: created } = await send("POST", path, body);
    expect(status, JSON.stringify(created)).toBe(201);
    return created;
  };
  const refused = async (method: "POST" | "PATCH", path: string, body: object) => {
    const answer = await send(method, path, body);
    expect(answer.status, JSON.stringify(answer.body)).toBe(400);
    return answer.body;
  };
  const holdout = (share: number, name = "Kept out") =>
    made("experiment_holdouts", {
      name,
      filters: [{ properties: [], rollout_percentage: share, variant: "holdout" }],
    });
  const experiment = (body: object = {}, key = "button") =>
    made("experiments", { name: "Button", feature_flag_key: key, ...body });
  const flagFilters = async (id: number) => (await send("GET", `feature_flags/${id}`)).body.filters;
  const QUERY = {
    kind: "ExperimentMetric",
    metric_type: "mean",
    source: { kind: "EventsNode", event: "bought" },
  };

  it("[XP-13] a holdout has a name and a share of everyone, and names its own variant", async () => {
    await newProject();
    const first = await holdout(10);
    expect(first).toEqual({
      id: expect.any(Number),
      name: "Kept out",
      description: null,
      filters: [{ properties: [], rollout_percentage: 10, variant: `holdout-${first.id}` }],
      created_by: expect.objectContaining({ id: api.user.id }),
      created_at: "2026-03-01T10:00:00.123000Z",
      updated_at: "2026-03-01T10:00:00.123000Z",
    });
    const second = await holdout(5, "More");
    const { body: list } = await send("GET", "experiment_holdouts?limit=1");
    expect(list).toMatchObject({ count: 2, previous: null, results: [{ id: second.id }] });
    expect(list.next).toContain("offset=1");
    const renamed = await send("PATCH", `experiment_holdouts/${first.id}`, { name: "Other" });
    expect(renamed).toMatchObject({ status: 200, body: { ...first, name: "Other" } });
    const put = await send("PUT", `experiment_holdouts/${first.id}`, {
      name: "Put",
      description: "x",
      filters: [{ rollout_percentage: 20 }],
    });
    expect(put.body).toMatchObject({
      name: "Put",
      filters: [{ properties: [], rollout_percentage: 20, variant: `holdout-${first.id}` }],
    });
    expect((await send("PUT", `experiment_holdouts/${first.id}`, {})).body).toMatchObject({
      code: "required",
      attr: "name",
    });
    expect((await send("DELETE", `experiment_holdouts/${second.id}`)).status).toBe(204);
    for (const method of ["GET", "DELETE", "PATCH"] as const)
      expect(
        (
          await send(
            method,
            `experiment_holdouts/${second.id}`,
            method === "PATCH" ? { name: "x" } : undefined,
          )
        ).status,
      ).toBe(404);
    const { body: activity } = await send("GET", `experiment_holdouts/${first.id}/activity`);
    expect(activity.results.map((one: { activity: string }) => one.activity)).toEqual([
      "updated",
      "updated",
      "created",
    ]);
  });

  it("[XP-13] a holdout without a share from 0 to 100, or with properties, is refused in PostHog's words", async () => {
    await newProject();
    const create = (filters: unknown, name: unknown = "x") =>
      refused("POST", "experiment_holdouts", { name, filters });
    const attr = "filters";
    expect(await create([], null)).toMatchObject({
      detail: "This field may not be null.",
      attr: "name",
    });
    for (const none of [[], null])
      expect(await create(none)).toMatchObject({
        detail: "Filters are required to create an holdout group",
        attr,
      });
    expect(await refused("POST", "experiment_holdouts", { name: "x" })).toMatchObject({ attr });
    for (const share of [150, -10])
      expect(await create([{ properties: [], rollout_percentage: share }])).toMatchObject({
        code: "invalid_input",
        detail: "Rollout percentage must be between 0 and 100.",
        attr,
      });
    expect(await create([{ properties: [] }])).toMatchObject({
      detail: "Rollout percentage must be present.",
      attr,
    });
    expect(await create([{ rollout_percentage: "ten" }])).toMatchObject({
      attr: "filters__0__rollout_percentage",
    });
    expect(await create(["all"])).toMatchObject({ attr: "filters__0" });
    expect(await create([{ rollout_percentage: 1 }, { rollout_percentage: 2 }])).toMatchObject({
      attr,
    });
    expect(await create([{ rollout_percentage: 1, properties: [{ key: "email" }] }])).toMatchObject(
      { attr: "filters__0__properties" },
    );
    expect((await send("GET", "experiment_holdouts")).body.count).toBe(0);
  });

  it("[XP-14] an experiment's holdout is on its flag, changes with it, and leaves the flag when it goes", async () => {
    await newProject();
    const kept = await holdout(100);
    const { id, feature_flag, ...body } = await experiment({ holdout_id: kept.id });
    expect(body).toMatchObject({ holdout_id: kept.id, holdout: kept });
    expect(await flagFilters(feature_flag.id)).toMatchObject({
      groups: [{ properties: [], rollout_percentage: 100 }],
      holdout: { id: kept.id, exclusion_percentage: 100 },
      holdout_groups: kept.filters,
    });
    await send("POST", `experiments/${id}/launch`);
    const explained = await send(
      "GET",
      `feature_flags/${feature_flag.id}/explain?distinct_id=anyone`,
    );
    expect(explained.body).toMatchObject({
      value: `holdout-${kept.id}`,
      reason: { code: "holdout_condition_value" },
    });

    await send("PATCH", `experiment_holdouts/${kept.id}`, {
      filters: [{ properties: [], rollout_percentage: 30 }],
    });
    expect((await flagFilters(feature_flag.id)).holdout).toEqual({
      id: kept.id,
      exclusion_percentage: 30,
    });
    expect(
      await refused("PATCH", `experiments/${id}`, { holdout_id: (await holdout(1)).id }),
    ).toMatchObject({ attr: null, detail: "Can't update holdout on running Experiment" });
    const same = await send("PATCH", `experiments/${id}`, { holdout_id: kept.id, name: "New" });
    expect(same).toMatchObject({ status: 200, body: { name: "New" } });

    expect((await send("DELETE", `experiment_holdouts/${kept.id}`)).status).toBe(204);
    const filters = await flagFilters(feature_flag.id);
    expect(filters).not.toHaveProperty("holdout");
    expect(filters).not.toHaveProperty("holdout_groups");
    expect((await send("GET", `experiments/${id}`)).body).toMatchObject({
      holdout: null,
      holdout_id: null,
      status: "running",
    });
  });

  it("[XP-14] a draft takes a holdout, changes it and leaves it; conditions of others stay", async () => {
    await newProject();
    const kept = await holdout(10);
    const draft = await experiment();
    const condition = { properties: [], rollout_percentage: 40 };
    const flagPath = `feature_flags/${draft.feature_flag.id}`;
    await send("PATCH", flagPath, {
      filters: { ...(await flagFilters(draft.feature_flag.id)), groups: [condition] },
    });
    const taken = await send("PATCH", `experiments/${draft.id}`, { holdout_id: kept.id });
    expect(taken.body.feature_flag.filters).toMatchObject({
      groups: [condition],
      holdout: { id: kept.id, exclusion_percentage: 10 },
    });
    const left = await send("PATCH", `experiments/${draft.id}`, { holdout_id: null });
    expect(left.body).toMatchObject({ holdout: null, holdout_id: null });
    expect(left.body.feature_flag.filters).not.toHaveProperty("holdout");
    expect(left.body.feature_flag.filters.groups[0]).toMatchObject(condition);
    for (const body of [
      await refused("PATCH", `experiments/${draft.id}`, { holdout_id: 123456 }),
      await refused("POST", "experiments", {
        name: "x",
        feature_flag_key: "unmade",
        holdout_id: 123456,
      }),
    ])
      expect(body).toEqual({
        type: "validation_error",
        code: "does_not_exist",
        detail: 'Invalid pk "123456" - object does not exist.',
        attr: "holdout_id",
      });
    expect(await refused("PATCH", `experiments/${draft.id}`, { holdout_id: "a" })).toMatchObject({
      attr: "holdout_id",
    });
    expect((await send("GET", "feature_flags?search=unmade")).body.count).toBe(0);
  });

  it("[XP-14] a reused flag gets the holdout and keeps everything else", async () => {
    await newProject();
    const kept = await holdout(10);
    const multivariate = {
      variants: [
        { key: "control", rollout_percentage: 50 },
        { key: "b", rollout_percentage: 50 },
      ],
    };
    const groups = [{ properties: [], rollout_percentage: 7 }];
    const flag = await made("feature_flags", { key: "mine", filters: { groups, multivariate } });
    await experiment({ holdout_id: kept.id }, "mine");
    expect(await flagFilters(flag.id)).toMatchObject({
      groups,
      multivariate,
      holdout: { id: kept.id, exclusion_percentage: 10 },
    });
  });

  it("[XP-14] changes of a holdout and of conditions at the same time are both kept", async () => {
    await newProject();
    const kept = await holdout(10);
    const { feature_flag } = await experiment({ holdout_id: kept.id });
    for (let round = 1; round <= 5; round += 1) {
      const groups = [{ properties: [], rollout_percentage: round }];
      const filters = { ...(await flagFilters(feature_flag.id)), groups };
      await Promise.all([
        send("PATCH", `experiment_holdouts/${kept.id}`, {
          filters: [{ properties: [], rollout_percentage: 20 + round }],
        }),
        send("PATCH", `feature_flags/${feature_flag.id}`, {
          filters: {
            groups,
            multivariate: filters.multivariate,
            holdout: filters.holdout,
            holdout_groups: filters.holdout_groups,
          },
        }),
      ]);
      const after = await flagFilters(feature_flag.id);
      expect(after.groups).toMatchObject(groups);
    }
  });

  it("[XP-15] a shared metric has a query of a known kind, a uuid, a fingerprint and tags", async () => {
    await newProject();
    const first = await made("experiment_saved_metrics", {
      name: "Purchases",
      description: "of everything",
      query: QUERY,
      tags: ["Money", "money "],
    });
    expect(first).toEqual({
      id: expect.any(Number),
      name: "Purchases",
      description: "of everything",
      query: { ...QUERY, uuid: expect.any(String), fingerprint: expect.any(String) },
      created_by: expect.objectContaining({ id: api.user.id }),
      created_at: "2026-03-01T10:00:00.123000Z",
      updated_at: "2026-03-01T10:00:00.123000Z",
      tags: ["money"],
    });
    for (const query of [
      {
        kind: "ExperimentTrendsQuery",
        count_query: { kind: "TrendsQuery", series: [{ kind: "EventsNode", event: "$pageview" }] },
      },
      {
        kind: "ExperimentFunnelsQuery",
        funnels_query: {
          kind: "FunnelsQuery",
          series: [{ kind: "EventsNode", event: "$pageview" }],
        },
      },
    ])
      await made("experiment_saved_metrics", { name: "Old", query });
    const changed = await send("PATCH", `experiment_saved_metrics/${first.id}`, { name: "Sales" });
    expect(changed.body).toEqual({ ...first, name: "Sales" });
    expect((await send("GET", "experiment_saved_metrics")).body).toMatchObject({ count: 3 });
    expect((await send("GET", `experiment_saved_metrics/${first.id}`)).body.name).toBe("Sales");
    expect((await send("DELETE", `experiment_saved_metrics/${first.id}`)).status).toBe(204);
    expect((await send("GET", `experiment_saved_metrics/${first.id}`)).status).toBe(404);
  });

  it("[XP-15] a shared metric that cannot be measured is refused with the field named", async () => {
    await newProject();
    const create = (query: unknown) =>
      refused("POST", "experiment_saved_metrics", { name: "x", query });
    for (const none of [{}, null])
      expect(await create(none)).toMatchObject({
        code: "invalid_input",
        detail: "Query is required to create a saved metric",
        attr: "query",
      });
    for (const kind of ["not-ExperimentTrendsQuery", 7, undefined])
      expect(await create({ kind, other: 1 })).toMatchObject({
        detail:
          "Metric query kind must be 'ExperimentMetric', 'ExperimentTrendsQuery' or 'ExperimentFunnelsQuery'",
        attr: "query",
      });
    expect(await create({ kind: "ExperimentMetric" })).toMatchObject({
      detail: "ExperimentMetric requires a metric_type",
    });
    expect(await create({ kind: "ExperimentMetric", metric_type: "mean" })).toMatchObject({
      code: "required",
      attr: "query__source",
    });
    expect(await create({ kind: "ExperimentTrendsQuery" })).toMatchObject({
      code: "required",
      attr: "query__count_query",
    });
    expect(
      await create({ kind: "ExperimentFunnelsQuery", funnels_query: { series: [] } }),
    ).toMatchObject({ attr: "query__funnels_query__series" });
  });

  it("[XP-16] an experiment measures shared metrics, tells them with their queries, and loses deleted ones", async () => {
    await newProject();
    const [first, second] = await Promise.all(
      ["First", "Second"].map((name) => made("experiment_saved_metrics", { name, query: QUERY })),
    );
    const saved_metrics_ids = [
      { id: first.id, metadata: { type: "secondary" } },
      { id: second.id, metadata: { type: "primary" } },
    ];
    const one = await experiment({ saved_metrics_ids });
    expect(one.saved_metrics_ids).toBeNull();
    expect(one.saved_metrics).toEqual([
      {
        id: first.id,
        experiment: one.id,
        saved_metric: first.id,
        metadata: { type: "secondary" },
        created_at: "2026-03-01T10:00:00.123000Z",
        query: first.query,
        name: "First",
      },
      expect.objectContaining({ saved_metric: second.id, metadata: { type: "primary" } }),
    ]);
    const path = `experiments/${one.id}`;
    // Sent back as it was answered, it keeps them.
    const kept = await send("PATCH", path, { saved_metrics_ids: null, name: "Same" });
    expect(kept.body.saved_metrics).toHaveLength(2);
    expect((await send("DELETE", `experiment_saved_metrics/${first.id}`)).status).toBe(204);
    expect((await send("GET", path)).body.saved_metrics).toMatchObject([
      { saved_metric: second.id },
    ]);
    const none = await send("PATCH", path, { saved_metrics_ids: [] });
    expect(none.body.saved_metrics).toEqual([]);
    const copy = await send("POST", `${path}/duplicate`);
    expect(copy.status).toBe(201);
  });

  it("[XP-16] links to shared metrics that mean nothing are refused in PostHog's words", async () => {
    await newProject();
    const { id } = await made("experiment_saved_metrics", { name: "x", query: QUERY });
    const attach = (saved_metrics_ids: unknown) =>
      refused("POST", "experiments", { name: "x", feature_flag_key: "x", saved_metrics_ids });
    const detail = async (sent: unknown) => (await attach(sent)).detail;
    expect(await detail({})).toBe("Saved metrics must be a list");
    expect(await detail([id])).toBe("Saved metric must be an object");
    expect(await detail([{ metadata: { type: "primary" } }])).toBe("Saved metric must have an id");
    expect(await detail([{ id, metadata: "primary" }])).toBe("Metadata must be an object");
    expect(await detail([{ id, metadata: {} }])).toBe("Metadata must have a type key");
    expect(await attach([{ id, metadata: { type: "tertiary" } }])).toMatchObject({
      attr: "saved_metrics_ids__0__metadata__type",
    });
    expect(await attach([{ id }, { id: id + 1000 }])).toEqual({
      type: "validation_error",
      code: "invalid_input",
      detail: "Saved metric does not exist",
      attr: "saved_metrics_ids",
    });
    expect(await attach([{ id }, { id }])).toMatchObject({ attr: "saved_metrics_ids__1" });
    expect((await send("GET", "experiments")).body.count).toBe(0);
    expect((await send("GET", "feature_flags")).body.count).toBe(0);
  });
});
