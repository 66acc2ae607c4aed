import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { openFlagsApi } from "./flags-api.setup.ts";

describe("the status of a flag", () => {
  let api: Awaited<ReturnType<typeof openFlagsApi>>;
  let path: string;
  beforeAll(async () => {
    api = await openFlagsApi();
    path = `/api/projects/${await api.newProject()}/feature_flags`;
  });
  afterAll(() => api.close());

  const open = { groups: [{ properties: [], rollout_percentage: 100 }] };
  const half = { groups: [{ properties: [], rollout_percentage: 50 }] };
  const long = "2026-01-20T00:00:00Z";
  const lately = "2026-02-20T00:00:00Z";
  const create = async (key: string, body: object) => {
    const answer = await api.send("POST", path, { key, ...body });
    expect(answer.status).toBe(201);
    return answer.body;
  };

  test.each([
    ["never-called-open", { filters: open, created_at: long }, "STALE"],
    ["never-called-half", { filters: half, created_at: long }, "ACTIVE"],
    ["young", { filters: open, created_at: lately }, "ACTIVE"],
    ["called-long-ago", { filters: half, created_at: long, last_called_at: long }, "STALE"],
    ["called-lately", { filters: open, created_at: long, last_called_at: lately }, "ACTIVE"],
    ["off", { filters: open, created_at: long, active: false }, "INACTIVE"],
  ])("[FM-27] of %s is told alike by record, status and list", async (key, body, status) => {
    const flag = await create(key, body);
    expect(flag.status).toBe(status);
    const told = await api.send("GET", `${path}/${flag.id}/status/`);
    expect(told).toMatchObject({ status: 200, body: { status, reason: expect.any(String) } });
    const { body: listed } = await api.send("GET", `${path}?active=STALE&limit=100`);
    const keys = listed.results.map((found: { key: string }) => found.key);
    expect(keys.includes(key)).toBe(status === "STALE");
  });

  test("[FM-27] is 404 with its status for deleted and unknown flags", async () => {
    const { id } = await create("gone", {});
    await api.send("PATCH", `${path}/${id}`, { deleted: true });
    expect(await api.send("GET", `${path}/${id}/status`)).toMatchObject({
      status: 404,
      body: { status: "DELETED", reason: "Flag has been deleted" },
    });
    for (const unknown of ["999999", "x"]) {
      expect(await api.send("GET", `${path}/${unknown}/status`)).toMatchObject({
        status: 404,
        body: { status: "UNKNOWN" },
      });
    }
  });

  test("[FM-28] flags with a payload can be listed", async () => {
    await create("with-payload", { filters: { ...open, payloads: { true: "1" } } });
    const keys = async (query: string) =>
      (await api.send("GET", `${path}?limit=100&${query}`)).body.results.map(
        (found: { key: string }) => found.key,
      );
    expect(await keys("has_payload=true")).toEqual(["with-payload"]);
    expect(await keys("has_payload=false")).not.toContain("with-payload");
    expect(await keys("has_payload=perhaps")).toContain("with-payload");
  });

  test("there are no dashboards to make or enrich", async () => {
    const { id } = await create("no-dashboard", {});
    for (const action of ["dashboard", "enrich_usage_dashboard"]) {
      expect(await api.send("POST", `${path}/${id}/${action}`)).toMatchObject({
        status: 400,
        body: { success: false, error: expect.any(String) },
      });
    }
  });
});
