import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { openFlagsApi } from "../flags/flags-api.setup.ts";

let api: Awaited<ReturnType<typeof openFlagsApi>>;
let project: string;

beforeAll(async () => {
  api = await openFlagsApi();
  project = `/api/projects/${await api.newProject()}`;
});
afterAll(() => api.close());

const create = async (kind: string, body: object) => {
  const answer = await api.send("POST", `${project}/${kind}`, body);
  expect(answer.status).toBe(201);
  return answer.body;
};

describe("the activity of a project over HTTP", () => {
  test("[AL-4] the activity of a flag answers in pages, in the form that clients know", async () => {
    const flag = await create("feature_flags", { key: "watched", name: "old" });
    const path = `${project}/feature_flags/${flag.id}`;
    await api.send("PATCH", path, { name: "new", ensure_experience_continuity: true });
    await api.send("PATCH", path, { deleted: true });
    const { status, body } = await api.send("GET", `${path}/activity?limit=2`);
    expect(status).toBe(200);
    expect(body).toMatchObject({
      count: 3,
      total_count: 3,
      previous: null,
      next: `http://localhost${path}/activity?limit=2&page=2`,
    });
    expect(body.results[0]).toMatchObject({
      activity: "deleted",
      detail: { changes: [{ field: "deleted", before: false, after: true }] },
    });
    expect(body.results[1]).toEqual({
      id: expect.any(Number),
      user: expect.objectContaining({ email: api.user.email, first_name: "Ada" }),
      activity: "updated",
      scope: "FeatureFlag",
      item_id: String(flag.id),
      detail: {
        id: String(flag.id),
        name: "watched",
        short_id: null,
        type: null,
        trigger: null,
        merge: null,
        version: 2,
        changes: [
          { type: "FeatureFlag", action: "changed", field: "name", before: "old", after: "new" },
          {
            type: "FeatureFlag",
            action: "changed",
            field: "ensure_experience_continuity",
            before: false,
            after: true,
          },
        ],
      },
      created_at: "2026-03-01T10:00:00.123000Z",
      is_system: false,
      was_impersonated: false,
    });
    const second = await api.send("GET", `${path}/activity?limit=2&page=2`);
    expect(second.body.results).toMatchObject([{ activity: "created", detail: { changes: null } }]);
    expect(second.body.previous).toBe(`http://localhost${path}/activity?limit=2&page=1`);
    const nonsense = await api.send("GET", `${path}/activity?limit=-1&page=x`);
    expect(nonsense.body.results).toHaveLength(3);
  });

  test("[AL-5] flags, cohorts and the project each tell their own", async () => {
    const cohort = await create("cohorts", {
      name: "C",
      filters: { properties: { type: "OR", values: [] } },
    });
    await api.send("PATCH", `${project}/cohorts/${cohort.id}`, { name: "D" });
    const ofCohort = await api.send("GET", `${project}/cohorts/${cohort.id}/activity`);
    expect(ofCohort.body.results).toMatchObject([
      { scope: "Cohort", detail: { name: "D", changes: [{ field: "name", after: "D" }] } },
      { activity: "created" },
    ]);
    const scopesAt = async (path: string) => {
      const { body } = await api.send("GET", `${project}/${path}`);
      return [...new Set((body.results as { scope: string }[]).map(({ scope }) => scope))];
    };
    expect(await scopesAt("feature_flags/activity")).toEqual(["FeatureFlag"]);
    expect(await scopesAt("cohorts/activity")).toEqual(["Cohort"]);
    expect(await scopesAt("activity_log")).toEqual(["Cohort", "FeatureFlag"]);
    expect(await scopesAt("activity_log?scope=Cohort")).toEqual(["Cohort"]);
    expect(await scopesAt(`activity_log?user=${api.user.id + 1000}`)).toEqual([]);
    expect((await api.send("GET", `${project}/feature_flags/99999/activity`)).status).toBe(404);
  });
});
