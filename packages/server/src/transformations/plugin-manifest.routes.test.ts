import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { makeZip } from "../engines/archives/archives.setup.ts";
import { openTransformationsApi } from "./transformations-api.setup.ts";

let api: Awaited<ReturnType<typeof openTransformationsApi>>;
let plugins: string;
beforeAll(async () => {
  api = await openTransformationsApi();
  plugins = `/api/organizations/${api.home.organizationId}/plugins`;
});
afterAll(() => api.close());

const PASSES = "export function processEvent(event) { return event }";
const post = (path: string, body?: object) => api.send("POST", `${plugins}${path}`, body);
const updateSource = (id: number, body: object) =>
  api.send("PATCH", `${plugins}/${id}/update_source`, body);
const made = async (source: Record<string, string>, fields: object = {}) => {
  const { body, status } = await post("", { plugin_type: "source", source, ...fields });
  expect(status).toBe(201);
  return body.id as number;
};

const REQUIRED = [{ key: "a", type: "string", required: true }];
const FULL = JSON.stringify({
  name: "Full",
  description: "d",
  icon: "https://example.org/i.png",
  config: REQUIRED,
  publicJobs: { sweep: {} },
});
/** What is told of the fields that plugin.json may declare. */
const declared = (plugin: Record<string, unknown>) =>
  Object.fromEntries(Object.keys(ALL).map((field) => [field, plugin[field]]));
const NOTHING = { description: null, icon: null, config_schema: {}, public_jobs: {} };
const ALL = {
  description: "d",
  icon: "https://example.org/i.png",
  config_schema: REQUIRED,
  public_jobs: { sweep: {} },
};

describe("what plugin.json declared and does not any more", () => {
  test("[TM-80] goes with an edit that drops it, or the file, and comes back with a roll back", async () => {
    const id = await made({ "index.ts": PASSES, "plugin.json": FULL });
    for (const file of ['{"name":"Bare"}', '{"name":"Bare","config":null,"icon":null}', null]) {
      const bare = await updateSource(id, { "plugin.json": file });
      expect(declared(bare.body)).toEqual(NOTHING);
      const back = await post(`/${id}/versions/1/roll_back`);
      expect([back.body.name, declared(back.body)]).toEqual(["Full", ALL]);
    }
    await updateSource(id, { "plugin.json": '{"name":"Bare"}' });
    const configs = `/api/projects/${api.home.projectId}/plugin_configs`;
    const enabled = await api.send("POST", configs, { plugin: id, enabled: true });
    expect(enabled.status).toBe(201);
  });

  test("[TM-80] goes with an upgrade that drops it", async () => {
    const commits = ["a", "b"].map((letter) => letter.repeat(40));
    for (const [index, manifest] of [FULL, '{"name":"Bare"}'].entries()) {
      api.mirror.answers.set(
        `/o/dropping/archive/${commits[index]}.zip`,
        makeZip([
          { path: "r/plugin.json", contents: manifest },
          { path: "r/index.js", contents: PASSES },
        ]),
      );
    }
    const publish = (index: number) =>
      api.mirror.answers.set(
        "/api/repos/o/dropping/commits",
        JSON.stringify([{ sha: commits[index] }]),
      );
    publish(0);
    const { body } = await post("", { url: "https://github.com/o/dropping" });
    expect(declared(body)).toEqual(ALL);
    publish(1);
    const upgraded = await post(`/${body.id}/upgrade`);
    expect(upgraded.body).toMatchObject({ name: "Bare", missing_settings: [] });
    expect(declared(upgraded.body)).toEqual(NOTHING);
  });

  test("[TM-80] leaves what it never declared, and what the same request gives", async () => {
    const own = { description: "mine", config_schema: [{ key: "b" }] };
    const id = await made({ "index.ts": PASSES, "plugin.json": '{"icon":"i"}' }, own);
    const kept = await updateSource(id, { "plugin.json": "{}" });
    expect(declared(kept.body)).toEqual({ ...NOTHING, ...own });
    await updateSource(id, { "plugin.json": FULL });
    const given = await updateSource(id, { "plugin.json": null, ...own });
    expect(declared(given.body)).toEqual({ ...NOTHING, ...own });
  });
});
