import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { coversTag } from "../http/entity-tag.ts";
import { openFlagsApi } from "./flags-api.setup.ts";
import { wireLocalDefinitions } from "./local-evaluation.schemas.ts";
import { createLocalDefinitions } from "./local-evaluation.ts";

let api: Awaited<ReturnType<typeof openFlagsApi>>;
let projectId: number;
let token: string;

beforeAll(async () => {
  api = await openFlagsApi();
});
afterAll(() => api.close());
beforeEach(async () => {
  projectId = await api.newProject();
  token = (await api.accounts.project(projectId))?.apiToken ?? "";
});

const good = { authorization: "Bearer phx_good" };
const definitions = (query = "", headers: Record<string, string> = {}) =>
  api.send("GET", `/flags/definitions?token=${token}${query}`, undefined, { ...good, ...headers });
const create = async (kind: "feature_flags" | "cohorts", body: object) => {
  const answer = await api.send("POST", `/api/projects/${projectId}/${kind}`, body);
  if (answer.status !== 201) throw new Error(JSON.stringify(answer.body));
  return answer.body;
};
const patch = (id: number, body: object) =>
  api.send("PATCH", `/api/projects/${projectId}/feature_flags/${id}`, body);
const flagKeys = (body: { flags: { key: string }[] }) => body.flags.map(({ key }) => key);

const inCohort = (id: number) => ({
  groups: [
    {
      properties: [{ key: "id", type: "cohort", value: id, operator: "in" }],
      rollout_percentage: 100,
    },
  ],
});
const emailCohort = {
  name: "Work",
  filters: {
    properties: {
      type: "OR",
      values: [
        {
          type: "AND",
          values: [{ key: "email", type: "person", value: "@work", operator: "icontains" }],
        },
      ],
    },
  },
};

describe("the feed of definitions", () => {
  test("[LE-1] all three keys are there for a project without any", async () => {
    expect(await definitions()).toMatchObject({
      status: 200,
      body: { flags: [], group_type_mapping: {}, cohorts: {} },
    });
  });

  test("[LE-2] a flag comes in the minimal form, with the time of every change live at once", async () => {
    const filters = {
      groups: [{ properties: [], rollout_percentage: 40 }],
      payloads: { true: '"on"' },
    };
    const flag = await create("feature_flags", {
      key: "k",
      name: "n",
      filters,
      evaluation_runtime: "server",
      evaluation_contexts: ["docs"],
      ensure_experience_continuity: true,
    });
    const { body } = await definitions();
    expect(body.flags).toEqual([
      {
        id: flag.id,
        team_id: projectId,
        name: "n",
        key: "k",
        filters,
        deleted: false,
        active: true,
        ensure_experience_continuity: true,
        has_encrypted_payloads: false,
        version: 1,
        evaluation_runtime: "server",
        evaluation_tags: ["docs"],
        evaluation_contexts: ["docs"],
        bucketing_identifier: "distinct_id",
      },
    ]);
    await patch(flag.id, { key: "renamed" });
    expect(flagKeys((await definitions()).body)).toEqual(["renamed"]);
  });

  test("[LE-3] inactive flags are listed as such; deleted and remote configuration flags are not", async () => {
    await create("feature_flags", { key: "off", active: false });
    const gone = await create("feature_flags", { key: "gone" });
    await patch(gone.id, { deleted: true });
    await create("feature_flags", { key: "config", is_remote_configuration: true });
    const { body } = await definitions();
    expect(flagKeys(body)).toEqual(["off"]);
    expect(body.flags[0].active).toBe(false);
  });

  test("[LE-4] send_cohorts counts by its presence, whatever its value", async () => {
    const cohort = await create("cohorts", emailCohort);
    await create("feature_flags", { key: "k", filters: inCohort(cohort.id) });
    const without = (await definitions()).body;
    expect(without.cohorts).toEqual({});
    expect(without.flags[0].filters.groups).toEqual([
      {
        properties: [{ key: "email", type: "person", value: "@work", operator: "icontains" }],
        rollout_percentage: 100,
      },
    ]);
    for (const query of ["&send_cohorts", "&send_cohorts=", "&send_cohorts=false"]) {
      const { body } = await definitions(query);
      expect(body.flags[0].filters).toEqual(inCohort(cohort.id));
      expect(Object.keys(body.cohorts)).toEqual([String(cohort.id)]);
      expect(body.cohorts[cohort.id]).toMatchObject({
        type: "OR",
        values: [{ type: "AND", values: [{ key: "email", value: "@work" }] }],
      });
    }
  });

  test.each(["", "&send_cohorts"])(
    "[LE-5] a static cohort is never sent as a rule, least of all an empty one (%s)",
    async (query) => {
      const cohort = await create("cohorts", { name: "Chosen", is_static: true });
      const empty = await create("cohorts", { name: "Nobody" });
      await create("feature_flags", { key: "chosen", filters: inCohort(cohort.id) });
      await create("feature_flags", { key: "nobody", filters: inCohort(empty.id) });
      const { body } = await definitions(query);
      expect(body.cohorts).toEqual({});
      expect(body.flags.map(({ filters }: { filters: object }) => filters)).toEqual([
        inCohort(cohort.id),
        inCohort(empty.id),
      ]);
    },
  );

  test("[LE-6] a condition carries its own group type, null included", async () => {
    const groups = [
      { properties: [], rollout_percentage: 10 },
      { properties: [], rollout_percentage: 20, aggregation_group_type_index: 0 },
      { properties: [], rollout_percentage: 30, aggregation_group_type_index: null },
    ];
    await api.database.writes
      .insertInto("group_types")
      .values({ project_id: projectId, index: 0, name: "company" })
      .execute();
    await create("feature_flags", { key: "mixed", filters: { groups } });
    const { body } = await definitions();
    expect(body.flags[0].filters.groups).toEqual(groups);
    expect(body.group_type_mapping).toEqual({ "0": "company" });
  });

  test("[LE-8] a dependency names its flag by key and the flags to evaluate before it", async () => {
    const base = await create("feature_flags", { key: "base", filters: { groups: [{}] } });
    const dependsOn = (id: number) => ({
      groups: [
        {
          properties: [
            { key: String(id), type: "flag", operator: "flag_evaluates_to", value: true },
          ],
        },
      ],
    });
    const middle = await create("feature_flags", { key: "middle", filters: dependsOn(base.id) });
    await create("feature_flags", { key: "top", filters: dependsOn(middle.id) });
    const { body } = await definitions();
    expect(body.flags[2].filters.groups[0].properties).toEqual([
      {
        key: "middle",
        type: "flag",
        operator: "flag_evaluates_to",
        value: true,
        dependency_chain: ["base", "middle"],
      },
    ]);
  });

  test("[LE-9] flags that SDKs would get wrong are left to the server", async () => {
    const groups = [{ properties: [], rollout_percentage: 100 }];
    await create("feature_flags", { key: "early", filters: { groups, feature_enrollment: true } });
    await create("feature_flags", {
      key: "held-out",
      filters: { groups, holdout: { id: 1, exclusion_percentage: 10 } },
    });
    await create("feature_flags", {
      key: "off",
      active: false,
      filters: { groups, feature_enrollment: true },
    });
    const { body } = await definitions();
    const left = body.flags.map(
      (flag: { ensure_experience_continuity: boolean }) => flag.ensure_experience_continuity,
    );
    expect(left).toEqual([true, true, false]);
  });

  test("[LE-10] on the path of older SDKs flags that only newer ones get right are left to the server", async () => {
    const groups = [{ properties: [], rollout_percentage: 100 }];
    await create("feature_flags", { key: "plain", filters: { groups } });
    await create("feature_flags", { key: "early-exit", filters: { groups, early_exit: true } });
    const path = `/api/feature_flag/local_evaluation?token=${token}`;
    const isLeft = ({ body }: { body: { flags: { ensure_experience_continuity: boolean }[] } }) =>
      body.flags.map((flag) => flag.ensure_experience_continuity);
    expect(isLeft(await definitions())).toEqual([false, false]);
    expect(isLeft(await api.send("GET", path, undefined, good))).toEqual([false, true]);
  });
});

describe("fetching definitions", () => {
  test("[LE-10] every path answers alike, with and without a slash at the end", async () => {
    await create("feature_flags", { key: "k" });
    const { body } = await definitions();
    for (const path of [
      `/flags/definitions/?token=${token}`,
      `/api/feature_flag/local_evaluation?token=${token}`,
      `/api/feature_flag/local_evaluation/?token=${token}`,
      `/api/projects/${projectId}/feature_flags/local_evaluation`,
      `/api/environments/${projectId}/feature_flags/local_evaluation/`,
    ]) {
      expect(await api.send("GET", path, undefined, good)).toMatchObject({ status: 200, body });
    }
  });

  test("[LE-7] an unchanged feed answers 304 with its tag, a changed one comes anew", async () => {
    const flag = await create("feature_flags", { key: "k" });
    const { headers } = await definitions();
    const etag = String(headers.etag);
    expect(etag).toMatch(/^"[\w-]{20,}"$/);
    const unchanged = await definitions("", { "if-none-match": etag });
    expect(unchanged).toMatchObject({ status: 304, body: undefined, headers: { etag } });
    expect((await definitions("", { "if-none-match": `W/${etag}` })).status).toBe(304);
    expect((await definitions("&send_cohorts", { "if-none-match": '"other"' })).status).toBe(200);
    await patch(flag.id, { name: "changed" });
    const changed = await definitions("", { "if-none-match": etag });
    expect(changed.status).toBe(200);
    expect(changed.headers.etag).not.toBe(etag);
  });

  test("[LE-7] a feed is built once per change and variant", async () => {
    await create("feature_flags", { key: "k" });
    const localDefinitionsOf = createLocalDefinitions(wireLocalDefinitions);
    const snapshot = await api.compiledFlags.get(projectId);
    const feed = { sendCohorts: true, forOlderSdks: false };
    const first = localDefinitionsOf(projectId, snapshot, feed);
    expect(localDefinitionsOf(projectId, snapshot, feed)).toBe(first);
    for (const other of [{ sendCohorts: false }, { forOlderSdks: true }]) {
      expect(localDefinitionsOf(projectId, snapshot, { ...feed, ...other })).not.toBe(first);
    }
    const elsewhere = createLocalDefinitions(wireLocalDefinitions)(projectId, snapshot, feed);
    expect(elsewhere.etag).toBe(first.etag);
  });

  test("[LE-11] browsers may read answers, refusals and preflights from anywhere", async () => {
    const origin = { origin: "https://shop.example" };
    const answer = await definitions("", origin);
    expect(answer.headers).toMatchObject({
      "access-control-allow-origin": "https://shop.example",
      "access-control-expose-headers": "ETag",
    });
    const refused = await api.send("GET", "/flags/definitions", undefined, origin);
    expect(refused).toMatchObject({
      status: 401,
      headers: { "access-control-allow-origin": "https://shop.example" },
      body: { type: "authentication_error", code: "not_authenticated", attr: null },
    });
    const preflight = await api.send("OPTIONS", "/flags/definitions", undefined, {
      ...origin,
      "access-control-request-headers": "authorization,x-trace",
    });
    expect(preflight).toMatchObject({
      status: 204,
      body: undefined,
      headers: { "access-control-allow-headers": "authorization,x-trace" },
    });
  });

  test("[LE-12] other methods are refused with 405", async () => {
    expect(await api.send("POST", "/flags/definitions", {}, good)).toMatchObject({
      status: 405,
      body: { code: "method_not_allowed" },
    });
  });
});

test.each([
  [undefined, false],
  ["", false],
  ["*", true],
  ['"a"', true],
  ['W/"a"', true],
  ['"b", W/"a"', true],
  ['"b"', false],
  ["a", false],
])("[LE-7] If-None-Match %s covers the tag a: %s", (header, covered) => {
  expect(coversTag(header, '"a"')).toBe(covered);
});
