import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { makeTgz, makeZip } from "../engines/archives/archives.setup.ts";
import { ACCESS_LEVELS } from "./plugins-access.ts";
import { openTransformationsApi, type Tenant } from "./transformations-api.setup.ts";

let api: Awaited<ReturnType<typeof openTransformationsApi>>;
let plugins: string;
let others: Tenant;
beforeAll(async () => {
  api = await openTransformationsApi();
  plugins = `/api/organizations/${api.home.organizationId}/pipeline_transformations`;
  others = await api.newTenant();
});
afterAll(() => api.close());

const get = (path: string) => api.send("GET", `${plugins}${path}`);
const post = (path: string, body?: object) => api.send("POST", `${plugins}${path}`, body);
const patch = (path: string, body: object) => api.send("PATCH", `${plugins}${path}`, body);
const made = async (body: object) => {
  const answer = await post("", body);
  expect(answer).toMatchObject({ status: 201 });
  return answer.body;
};
const DROPS = "export function processEvent(event) { return event }";
const configsOf = ({ projectId }: Tenant) =>
  `/api/projects/${projectId}/pipeline_transformation_configs`;
const configure = async (plugin: number, body: object = {}, tenant: Tenant = api.home) => {
  const sent = { plugin, enabled: true, order: 1, config: {}, ...body };
  const answer = await api.send("POST", configsOf(tenant), sent, { key: tenant.key });
  expect(answer).toMatchObject({ status: 201 });
  return answer.body;
};

describe("the record", () => {
  test("[TM-30] has every field of the interface, with what is written here of the type source", async () => {
    const plugin = await made({ plugin_type: "source", name: "Mine", description: "d", icon: "i" });
    const record = {
      id: expect.any(Number),
      plugin_type: "source",
      name: "Mine",
      description: "d",
      url: null,
      icon: "i",
      config_schema: {},
      tag: null,
      latest_tag: null,
      is_global: false,
      organization_id: api.home.organizationId,
      organization_name: expect.any(String),
      capabilities: {},
      metrics: {},
      public_jobs: {},
      version: 0,
      created_at: "2026-03-01T10:00:00.123000Z",
      updated_at: "2026-03-01T10:00:00.123000Z",
    };
    expect(plugin).toEqual(record);
    expect((await get(`/${plugin.id}`)).body).toEqual(record);
    const list = await get("?limit=1");
    expect(list.body).toMatchObject({ count: expect.any(Number), previous: null });
    expect((await get("?limit=1000")).body.results).toContainEqual(record);
  });

  test("[TM-30] the document's own example, a local one without an address, is taken as given", async () => {
    const given = {
      plugin_type: "local",
      name: "example",
      description: "text",
      icon: "icon",
      config_schema: [{ key: "a" }],
      tag: "1",
      is_global: false,
      capabilities: { methods: [] },
      metrics: { a: "sum" },
      public_jobs: {},
    };
    expect(await made(given)).toMatchObject(given);
  });

  test("[TM-41] PostHog's names of the paths lead to the same", async () => {
    const { id } = await made({ plugin_type: "source", name: "Alias" });
    const path = `/api/organizations/@current/plugins/${id}/`;
    expect((await api.send("GET", path)).body.name).toBe("Alias");
    const configs = await api.send(
      "GET",
      `/api/environments/${api.home.projectId}/plugin_configs/`,
    );
    expect(configs.status).toBe(200);
  });

  test("[TM-42] reading takes plugin:read, changing plugin:write", async () => {
    const { id } = await made({ plugin_type: "source", name: "Scoped" });
    const reader = { key: await api.keyWith("plugin:read") };
    const stranger = { key: await api.keyWith("experiment:write") };
    const url = `${plugins}/${id}`;
    expect((await api.send("GET", `${url}/source`, undefined, reader)).status).toBe(200);
    expect((await api.send("GET", url, undefined, stranger)).body.detail).toBe(
      "API key missing required scope 'plugin:read'",
    );
    for (const [method, path] of [
      ["PATCH", url],
      ["PATCH", `${url}/update_source`],
      ["POST", `${url}/upgrade`],
      ["DELETE", url],
    ] as const) {
      expect((await api.send(method, path, {}, reader)).body.detail).toBe(
        "API key missing required scope 'plugin:write'",
      );
    }
  });
});

describe("sources", () => {
  test("[TM-31] what a source exports is told at once, and what plugin.json says is taken over", async () => {
    const manifest = {
      name: "From the file",
      description: "and this",
      config: [{ key: "k", type: "string" }],
      publicJobs: { sweep: { payload: {} } },
    };
    const source = {
      "plugin.json": JSON.stringify(manifest),
      "index.ts": `${DROPS}\nexport const jobs = { sweep() {} };\nexport function runEveryHour() {}`,
    };
    const plugin = await made({ plugin_type: "source", name: "Given", source });
    expect(plugin).toMatchObject({
      name: "From the file",
      description: "and this",
      config_schema: manifest.config,
      public_jobs: manifest.publicJobs,
      capabilities: { jobs: ["sweep"], scheduled_tasks: ["runEveryHour"] },
      version: 1,
    });
    expect(plugin.capabilities.methods).toContain("processEvent");
    expect((await get(`/${plugin.id}/source`)).body).toEqual({ ...plugin, source });
  });

  test("[TM-31] a source without processEvent is kept and listed, and says so", async () => {
    const source = { "index.ts": "export function onEvent() {}" };
    const plugin = await made({ plugin_type: "source", name: "Exports", source });
    expect(plugin.capabilities.methods).toEqual(["onEvent"]);
    const { results } = (await get("?limit=1000")).body;
    expect(results.map((one: { id: number }) => one.id)).toContain(plugin.id);
  });

  test("[TM-33] files are changed flat or under source beside fields, and taken away by null", async () => {
    const { id } = await made({ plugin_type: "source", name: "Edited" });
    const flat = await patch(`/${id}/update_source`, { "index.ts": DROPS, "notes.md": "n" });
    expect(flat).toMatchObject({
      status: 200,
      body: { version: 1, source: { "index.ts": DROPS, "notes.md": "n" } },
    });
    const nested = await patch(`/${id}/update_source`, {
      source: {
        "notes.md": null,
        "plugin.json": '{"name":"Renamed","config":{"a":{"type":"string"}}}',
      },
      description: "beside",
    });
    expect(nested.body).toMatchObject({
      version: 2,
      name: "Renamed",
      description: "beside",
      config_schema: { a: { type: "string" } },
    });
    expect(Object.keys(nested.body.source)).toEqual(["index.ts", "plugin.json"]);
    expect((await patch(`/${id}/update_source`, { "index.ts": DROPS })).body.version).toBe(2);
    expect((await patch(`/${id}/update_source`, {})).body.version).toBe(2);
    // A blank name is none.
    const blank = await patch(`/${id}/update_source`, { "plugin.json": '{"name":" "}' });
    expect(blank.body).toMatchObject({ version: 3, name: "Renamed" });
  });

  test("[TM-30] a source of one file may be given as its text, as to update_source", async () => {
    const plugin = await made({ plugin_type: "source", name: "One file", source: DROPS });
    expect(plugin).toMatchObject({ version: 1, capabilities: { methods: ["processEvent"] } });
    const { body } = await get(`/${plugin.id}/source`);
    expect(body.source).toEqual({ "index.ts": DROPS });
  });

  test("[TM-33] what source answers can be sent back with a file changed: read-only fields are no files", async () => {
    const { id } = await made({ plugin_type: "source", source: { "index.ts": DROPS } });
    const { body } = await get(`/${id}/source`);
    const same = await patch(`/${id}/update_source`, body);
    expect(same).toMatchObject({ status: 200, body: { version: 1 } });
    const source = { "index.ts": DROPS, version: "a file of this name" };
    const changed = await patch(`/${id}/update_source`, { ...same.body, source });
    expect(changed).toMatchObject({ status: 200, body: { version: 2 } });
    expect(changed.body.source).toEqual(source);
  });

  test("[AC-80] the key that a body was sent with is no file of a source", async () => {
    const { id } = await made({ plugin_type: "source", source: { "index.ts": DROPS } });
    const sent = { personal_api_key: api.home.key, "notes.md": "n" };
    const answer = await api.send("PATCH", `${plugins}/${id}/update_source`, sent, {
      headers: { authorization: "" },
    });
    expect(answer).toMatchObject({ status: 200, body: { version: 2 } });
    expect(answer.body.source).toEqual({ "index.ts": DROPS, "notes.md": "n" });
    expect((await get(`/${id}/versions/2`)).text).not.toContain(api.home.key);
  });

  test("[TM-32] a mistake in a source is refused with file, line and column, and nothing changes", async () => {
    const { id } = await made({
      plugin_type: "source",
      name: "Careful",
      source: { "index.ts": DROPS },
    });
    const bad = "export function processEvent(event) {\n  return event event\n}";
    const refused = await patch(`/${id}/update_source`, { "index.ts": bad });
    expect(refused).toMatchObject({
      status: 400,
      body: { type: "validation_error", code: "invalid_input", attr: "source" },
    });
    expect(refused.body.detail).toMatch(/^index\.ts:2:1\d: /);
    const endless = await patch(`/${id}/update_source`, { "index.ts": "for (;;);" });
    expect(endless).toMatchObject({ status: 400, body: { attr: "source" } });
    expect(endless.body.detail).toMatch(/^[^:]/);
    expect((await get(`/${id}`)).body.version).toBe(1);
    expect(
      await post("", { plugin_type: "source", name: "x", source: { "index.ts": bad } }),
    ).toMatchObject({ status: 400, body: { attr: "source" } });
  });

  const settings = Object.fromEntries(Array.from({ length: 1_001 }, (_, n) => [`s${n}`, {}]));
  test.each([
    [{ "plugin.json": "{" }, "source", /^plugin\.json: not valid JSON/],
    [{ "plugin.json": "[]" }, "source", /expected an object/],
    [{ "plugin.json": '{"name":5}' }, "source", /"name" is not a text/],
    [{ "plugin.json": '{"config":"x"}' }, "source", /neither a list nor an object/],
    [{ "plugin.json": '{"config":[1]}' }, "source", /holds what is not an object/],
    [{ "plugin.json": `{"name":"${"n".repeat(201)}"}` }, "source", /more than 200 characters/],
    [{ "plugin.json": `{"x":"${"n".repeat(1e6)}"}` }, "source", /more than 1000000 characters/],
    [
      { "plugin.json": JSON.stringify({ config: Array(1_001).fill({ key: "a" }) }) },
      "source",
      /"config" has more than 1000 settings/,
    ],
    [{ config_schema: settings }, "config_schema", /The schema has more than 1000 settings/],
    [
      { "plugin.json": JSON.stringify({ publicJobs: settings }) },
      "source",
      /"publicJobs" has more than 1000 jobs/,
    ],
    [{ public_jobs: settings }, "public_jobs", /more than 1000 jobs/],
    [
      { "plugin.json": '{"stateless":true,"config":[{"key":"a"}]}' },
      null,
      /^Stateless plugins cannot have a config!$/,
    ],
    [{ "../a.ts": "" }, "source", /cannot be a file name/],
    [{ "a\\b.ts": "" }, "source", /cannot be a file name/],
    [{ "": "" }, "source", /cannot be a file name/],
    [{ "index.ts": 5 }, "index.ts", /Not a valid string/],
    [{ source: { "index.ts": 5 } }, "source", /Not a valid string/],
    [{ source: [] }, "source", /Not a valid string|Expected/],
    [
      Object.fromEntries(Array.from({ length: 10_000 }, (_, n) => [`f${n}.ts`, ""])),
      "source",
      /no more than 2000 files/,
    ],
    [{ "index.ts": `//${"x".repeat(8_000_001)}` }, "source", /no more than 8000000 characters/],
  ])("[TM-62] a source that cannot be one is refused: %#", async (body, attr, detail) => {
    const { id } = await made({ plugin_type: "source", name: "Bad input" });
    const answer = await patch(`/${id}/update_source`, body);
    expect(answer).toMatchObject({ status: 400, body: { attr } });
    expect(answer.body.detail).toMatch(detail);
    expect((await get(`/${id}`)).body.version).toBe(0);
  });

  test.each([
    ["[]", 400],
    ["{", 400],
    ['{"name":5}', 400],
    ['{"plugin_type":"remote"}', 400],
    ['{"config_schema":"x"}', 400],
    ['{"config_schema":[1]}', 400],
    ['{"config_schema":{"a":1}}', 400],
    ['{"is_global":"yes"}', 400],
    ['{"capabilities":[]}', 400],
    ['{"url":5}', 400],
    ['{"source":"x"}', 400],
    [`{"name":"${"x".repeat(201)}"}`, 400],
    ['{"plugin_type":"inline"}', 400],
  ])("[TM-62] a body that says nothing useful is refused: %s", async (body, status) => {
    const answer = await api.send("POST", plugins, body);
    expect(answer.status).toBe(status);
    expect(Object.keys(answer.body).toSorted()).toEqual(["attr", "code", "detail", "type"]);
  });

  test("[TM-62] what cannot be of a new one cannot become of one", async () => {
    const { id } = await made({ plugin_type: "source", name: "Changed" });
    for (const [body, code, attr] of [
      [{ plugin_type: "inline" }, "invalid_choice", "plugin_type"],
      [{ config_schema: [1] }, "invalid_input", "config_schema"],
      [{ config_schema: { a: 1 } }, "invalid_input", "config_schema"],
      [{ config_schema: null }, "null", "config_schema"],
    ] as const) {
      for (const path of [`/${id}`, `/${id}/update_source`]) {
        expect(await patch(path, body)).toMatchObject({ status: 400, body: { code, attr } });
      }
    }
    expect((await get(`/${id}`)).body).toMatchObject({ plugin_type: "source", config_schema: {} });
  });

  test("[TM-62] names that objects inherit are only names", async () => {
    const source = JSON.parse(
      `{"__proto__":"p","constructor":"c","index.ts":${JSON.stringify(DROPS)}}`,
    );
    const body = JSON.stringify({ plugin_type: "source", name: "Proto", source });
    const answer = await api.send("POST", plugins, body);
    expect(answer.status).toBe(201);
    const { text } = await get(`/${answer.body.id}/source`);
    expect(text).toContain('"__proto__":"p"');
    expect(text).toContain('"constructor":"c"');
  });
});

test("[AC-59] a source may come as a form, of either kind", async () => {
  const { id } = await made({ plugin_type: "source", name: "By form" });
  const url = `${plugins}/${id}/update_source`;
  const encoded = new URLSearchParams({ "index.ts": DROPS, name: "Named", is_global: "false" });
  const sent = await api.send("PATCH", url, String(encoded), {
    headers: { "content-type": "application/x-www-form-urlencoded" },
  });
  expect(sent).toMatchObject({
    status: 200,
    body: { version: 1, name: "Named", source: { "index.ts": DROPS } },
  });
  const multipart = (body: string) =>
    api.send("PATCH", url, body, {
      headers: { "content-type": "multipart/form-data; boundary=b" },
    });
  const part = `--b\r\nContent-Disposition: form-data; name="a.ts"; filename="a.ts"\r\n\r\nexport {}\r\n`;
  expect((await multipart(`${part}--b--\r\n`)).body.source).toEqual({
    "index.ts": DROPS,
    "a.ts": "export {}",
  });
  for (const body of ["garbage", part]) {
    expect(await multipart(body)).toMatchObject({ status: 400, body: { code: "parse_error" } });
  }
  const wrong = await api.send("PATCH", url, "is_global=perhaps", {
    headers: { "content-type": "application/x-www-form-urlencoded" },
  });
  expect(wrong).toMatchObject({ status: 400, body: { attr: "is_global", code: "invalid_input" } });
});

describe("versions", () => {
  test("[TM-36] are listed, read, compared and taken up again", async () => {
    const { id } = await made({
      plugin_type: "source",
      name: "Versions",
      source: { "index.ts": `${DROPS} // one` },
    });
    await patch(`/${id}/update_source`, { "index.ts": `${DROPS} // two`, "a.ts": "export {}" });
    const list = await get(`/${id}/versions`);
    expect(list.body).toMatchObject({
      count: 2,
      results: [
        {
          version: 2,
          files: ["index.ts", "a.ts"],
          restored_from: null,
          created_by: { first_name: expect.any(String) },
        },
        { version: 1, files: ["index.ts"] },
      ],
    });
    expect((await get(`/${id}/versions/1`)).body.source).toEqual({ "index.ts": `${DROPS} // one` });
    const { from, to, files } = (await get(`/${id}/versions/2/diff`)).body;
    expect([from, to]).toEqual([1, 2]);
    expect(files).toMatchObject([
      { file: "a.ts", status: "added" },
      { file: "index.ts", status: "changed" },
    ]);
    expect(files[1].patch).toContain(`-${DROPS} // one`);
    expect(files[1].patch).toContain(`+${DROPS} // two`);
    expect((await get(`/${id}/versions/1/diff?from=2`)).body.files[0].status).toBe("removed");
    expect((await get(`/${id}/versions/1/diff`)).body.files[0].status).toBe("added");
    const back = await post(`/${id}/versions/1/roll_back`);
    expect(back.body).toMatchObject({ version: 3, source: { "index.ts": `${DROPS} // one` } });
    expect((await get(`/${id}/versions?limit=1`)).body.results[0].restored_from).toBe(1);
    expect((await post(`/${id}/versions/3/roll_back`)).body.version).toBe(3);
    for (const path of ["versions/9", "versions/x", "versions/9/diff", "versions/1/diff?from=9"]) {
      expect((await get(`/${id}/${path}`)).status, path).toBe(404);
    }
    expect((await get(`/${id}/versions/1/diff?from=x`)).body.attr).toBe("from");
    expect((await post(`/${id}/versions/9/roll_back`)).status).toBe(404);
  });

  test("[TM-3] changes at the same time are each kept", async () => {
    const { id } = await made({
      plugin_type: "source",
      name: "Races",
      source: { "index.ts": DROPS },
    });
    const answers = await Promise.all(
      [..."abcdefghijkl"].map((name) => patch(`/${id}/update_source`, { [`${name}.md`]: name })),
    );
    expect(answers.map(({ status }) => status)).toEqual(Array(12).fill(200));
    const { source, version } = (await get(`/${id}/source`)).body;
    expect(version).toBe(13);
    const names = [..."abcdefghijkl"].map((name) => `${name}.md`);
    expect(new Set(Object.keys(source))).toEqual(new Set([...names, "index.ts"]));
  });
});

const COMMITS = ["a", "b"].map((letter) => letter.repeat(40));
const archiveOf = (manifest: object, code = DROPS) =>
  makeZip([
    { path: "r-1/plugin.json", contents: JSON.stringify(manifest) },
    { path: "r-1/index.js", contents: code },
  ]);
/** A repository of a plugin on the mirror; the newest commit is that of the last state given. */
const publish = (name: string, ...states: Parameters<typeof archiveOf>[0][]) => {
  for (const [index, manifest] of states.entries()) {
    const commit = COMMITS[index] ?? "";
    api.mirror.answers.set(`/o/${name}/archive/${commit}.zip`, archiveOf(manifest));
    api.mirror.answers.set(`/api/repos/o/${name}/commits`, JSON.stringify([{ sha: commit }]));
  }
  return `https://github.com/o/${name}`;
};

describe("installs", () => {
  test("[TM-35] an address is installed with what its plugin.json says, once", async () => {
    const url = publish("first", { name: "First", config: [{ key: "a" }], description: "d" });
    expect(await made({ plugin_type: "custom", url, name: "not this" })).toMatchObject({
      plugin_type: "custom",
      name: "First",
      description: "d",
      url,
      tag: COMMITS[0],
      latest_tag: COMMITS[0],
      version: 1,
    });
    for (const again of [url, `${url}/`, `${url}?private_token=x`, `${url}/commit/${COMMITS[0]}`]) {
      const answer = await post("", { url: again });
      expect(answer).toMatchObject({
        status: 400,
        body: { attr: null, detail: `Plugin from URL "${url}" already installed!` },
      });
    }
    const theirs = await api.send(
      "POST",
      `/api/organizations/${others.organizationId}/plugins`,
      { url },
      { key: others.key },
    );
    expect(theirs.body.detail).toBe(`Plugin from URL "${url}" already installed!`);
  });

  test("[TM-35] what cannot be installed is refused in PostHog's words", async () => {
    const detailOf = async (url: string) => {
      const answer = await post("", { url, plugin_type: "custom" });
      expect(answer.status).toBe(400);
      return answer.body.detail;
    };
    for (const url of ["https://example.org/x", " ", ""]) {
      expect(await detailOf(url)).toBe("Must be a GitHub/GitLab repository or a npm package URL!");
    }
    api.mirror.answers.set("/none.tgz", makeTgz([{ path: "p/index.js", contents: DROPS }]));
    expect(await detailOf(`${api.mirror.url}/none.tgz`)).toBe(
      "Could not find plugin.json in the plugin",
    );
    api.mirror.answers.set("/nocode.tgz", makeTgz([{ path: "p/plugin.json", contents: "{}" }]));
    expect(await detailOf(`${api.mirror.url}/nocode.tgz`)).toBe(
      "Could not find the code of the plugin",
    );
    expect(await detailOf("file:/srv/x")).toMatch(/cannot be installed from folders/);
    const broken = publish("broken", {});
    api.mirror.answers.set(`/o/broken/archive/${COMMITS[0]}.zip`, archiveOf({}, "export {"));
    expect(await post("", { url: broken })).toMatchObject({
      status: 400,
      body: { attr: "source" },
    });
    expect(await post("", { url: broken, source: { a: "" } })).toMatchObject({ status: 400 });
  });

  test("[TM-26] a plugin for other versions of PostHog is not installed, nor moved to", async () => {
    const refused = async (posthogVersion: unknown, name: string) => {
      const { status, body } = await post("", { url: publish(name, { name, posthogVersion }) });
      expect(status).toBe(400);
      return body.detail;
    };
    expect(await refused(">= 2.0.0", "later")).toBe(
      'Currently running PostHog version 1.43.1 does not match this plugin\'s semantic version requirement ">= 2.0.0".',
    );
    expect(await refused("soon", "soon")).toBe(
      'Invalid PostHog semantic version requirement "soon"!',
    );
    expect(await refused(1, "number")).toBe('plugin.json: "posthogVersion" is not a text.');
    const url = publish("moves-on", { name: "Moves", posthogVersion: ">= 1.25.0" });
    const { id } = await made({ url });
    publish("moves-on", { name: "Moves" }, { name: "Moved", posthogVersion: "<1.0.0" });
    expect(await post(`/${id}/upgrade`)).toMatchObject({ status: 400 });
    expect((await get(`/${id}`)).body).toMatchObject({ name: "Moves", version: 1 });
    expect(
      await post("", {
        plugin_type: "source",
        source: { "plugin.json": '{"posthogVersion":">= 9"}', "index.js": DROPS },
      }),
    ).toMatchObject({ status: 201 });
  });

  test("[TM-43] a secret in an address is never shown", async () => {
    const url = publish("secret", { name: "Secret" });
    const answer = await post("", { url: `${url}?private_token=t0ken` });
    expect(answer.body.url).toBe(url);
    expect((await get("?limit=1000")).text).not.toContain("t0ken");
    expect((await get("/activity?limit=100")).text).not.toContain("t0ken");
  });

  test("[TM-82] a token that no request may hold is refused, and not shown", async () => {
    for (const host of ["github.com", "gitlab.com"]) {
      const url = `https://${host}/o/secretive?private_token=t0ken%0d%0ax`;
      const answer = await post("", { url });
      expect(answer).toMatchObject({ status: 400, body: { attr: "url" } });
      expect(answer.text).not.toContain("t0ken");
    }
  });

  test("[TM-36] comparing large sources takes a bounded time, however many files differ", async () => {
    const names = ["a.txt", "b.txt", "c.txt", "d.txt", "e.txt", "f.txt"];
    const texts = (salt: number) =>
      Object.fromEntries(
        names.map((name) => [
          name,
          Array.from({ length: 20_000 }, (_, n) => `${name} ${salt + n * 7}`).join("\n"),
        ]),
      );
    const { id } = await made({ name: "Large", source: { "index.ts": DROPS } });
    await patch(`/${id}/update_source`, texts(1));
    expect((await patch(`/${id}/update_source`, texts(2))).body.version).toBe(3);
    const before = process.cpuUsage();
    const { files } = (await get(`/${id}/versions/3/diff`)).body;
    expect(process.cpuUsage(before).user / 1_000).toBeLessThan(8_000);
    expect(files).toMatchObject(names.map((file) => ({ file, status: "changed", patch: null })));
  });

  test("[TM-37] an upgrade moves to the newest state, keeps configs and tells what they lack now", async () => {
    const before = { name: "Growing", config: [{ key: "a", type: "string" }] };
    const after = {
      name: "Grown",
      config: [
        { key: "a", type: "string" },
        { key: "b", type: "string", required: true },
        { key: "c", type: "string", required: true, default: "d" },
        { key: "e", type: "string", required_if: [["a", "1"]] },
      ],
    };
    const url = publish("growing", before);
    const { id } = await made({ url });
    const config = await configure(id, { config: { a: "1" } });
    const same = await post(`/${id}/upgrade`);
    expect(same.body).toMatchObject({ version: 1, missing_settings: [], new_settings: [] });
    publish("growing", before, after);
    const checked = await get(`/${id}/check_for_updates`);
    expect(checked.body).toMatchObject({ tag: COMMITS[0], latest_tag: COMMITS[1], version: 1 });
    expect(checked.body.plugin).toMatchObject({ id, latest_tag: COMMITS[1] });
    api.counts.compiled = 0;
    const upgraded = await post(`/${id}/upgrade`, { name: "ignored" });
    expect(api.counts.compiled).toBe(1);
    expect(upgraded.body).toMatchObject({
      id,
      name: "Grown",
      config_schema: after.config,
      tag: COMMITS[1],
      latest_tag: COMMITS[1],
      version: 2,
      new_settings: [
        { key: "b", name: "b", required: true },
        { key: "c", name: "c", required: true },
        { key: "e", name: "e", required: false },
      ],
      missing_settings: [
        { plugin_config_id: config.id, team_id: api.home.projectId, keys: ["b", "e"] },
      ],
    });
    const kept = await api.send("GET", `${configsOf(api.home)}/${config.id}`);
    expect(kept.body).toMatchObject({ enabled: true, config: { a: "1" } });
    const renamed = await api.send("PATCH", `${configsOf(api.home)}/${config.id}`, { order: 5 });
    expect(renamed.status).toBe(200);
  });

  test("[TM-37] an upgrade tells which settings no longer fit", async () => {
    const before = { name: "Stricter", config: [{ key: "old" }, { key: "free" }, { key: "fits" }] };
    const after = {
      name: "Stricter",
      config: [
        { key: "old", type: "choice", choices: ["x"], required: true },
        { key: "free", type: "json" },
        { key: "fits", type: "choice", choices: ["kept"], required: true },
      ],
    };
    const { id } = await made({ url: publish("stricter", before) });
    const config = await configure(id, { config: { old: "kept", free: "{", fits: "kept" } });
    publish("stricter", before, after);
    expect((await post(`/${id}/upgrade`)).body.missing_settings).toEqual([
      { plugin_config_id: config.id, team_id: api.home.projectId, keys: ["old", "free"] },
    ]);
  });

  test("[TM-37] what was written here has nothing to upgrade to", async () => {
    const { id } = await made({
      plugin_type: "source",
      name: "Here",
      source: { "index.ts": DROPS },
    });
    expect((await get(`/${id}/check_for_updates`)).body).toMatchObject({ id, latest_tag: null });
    expect((await post(`/${id}/upgrade`)).body).toMatchObject({ id, version: 1 });
  });

  test("[TM-38] what comes with the service is listed and installed like all else", async () => {
    const list = await get("/repository");
    expect(list.body.count).toBeGreaterThanOrEqual(12);
    const item = list.body.results[0];
    expect(item).toMatchObject({ id: null, plugin_type: "repository", organization_id: null });
    expect(item.url).toMatch(/^hedgerow:catalogue\//);
    const plugin = await made({ plugin_type: "repository", url: item.url });
    expect(plugin).toMatchObject({
      name: item.name,
      config_schema: item.config_schema,
      tag: item.tag,
    });
    expect(plugin.capabilities.methods).toContain("processEvent");
    const again = (await get("/repository?limit=1")).body;
    expect(again.results[0]).toMatchObject({ id: plugin.id, latest_tag: item.tag });
    expect(again.next).toContain("offset=1");
    const theirs = await api.send(
      "POST",
      `/api/organizations/${others.organizationId}/plugins`,
      { url: item.url },
      { key: others.key },
    );
    expect(theirs.status).toBe(201);
  });
});

describe("other organizations", () => {
  const asOthers = (method: "GET" | "POST" | "PATCH" | "DELETE", path: string, body?: object) =>
    api.send(
      method,
      `/api/organizations/${others.organizationId}/pipeline_transformations${path}`,
      body,
      {
        key: others.key,
      },
    );

  test("[TM-34] do not see what is not shared with them", async () => {
    const { id } = await made({
      plugin_type: "source",
      name: "Private",
      source: { "index.ts": DROPS },
    });
    for (const [method, path] of [
      ["GET", ""],
      ["PATCH", ""],
      ["DELETE", ""],
      ["GET", "/source"],
      ["PATCH", "/update_source"],
      ["POST", "/upgrade"],
      ["GET", "/check_for_updates"],
      ["GET", "/versions"],
      ["GET", "/versions/1"],
      ["GET", "/versions/1/diff"],
      ["POST", "/versions/1/roll_back"],
    ] as const) {
      expect(
        (await asOthers(method, `/${id}${path}`, method === "GET" ? undefined : {})).status,
        path,
      ).toBe(404);
    }
    expect((await asOthers("GET", "?limit=1000")).body.results).not.toContainEqual(
      expect.objectContaining({ id }),
    );
    const answer = await api.send("GET", `${plugins}/${id}`, undefined, { key: others.key });
    expect(answer.status).toBe(403);
    const config = { plugin: id, order: 1, enabled: true, config: {} };
    expect(await api.send("POST", configsOf(others), config, { key: others.key })).toMatchObject({
      status: 400,
      body: { attr: "plugin", detail: `Invalid pk "${id}" - object does not exist.` },
    });
  });

  test("[TM-34] read and use global ones, and may not change them", async () => {
    const { id } = await made({
      plugin_type: "source",
      name: "Shared",
      is_global: true,
      source: { "index.ts": DROPS },
    });
    expect((await asOthers("GET", `/${id}`)).body).toMatchObject({ id, is_global: true });
    expect((await asOthers("GET", "/unused")).body.results).toContainEqual(
      expect.objectContaining({ id }),
    );
    await configure(id, {}, others);
    expect((await asOthers("GET", "/unused")).body.results).not.toContainEqual(
      expect.objectContaining({ id }),
    );
    for (const [method, path, body] of [
      ["PATCH", "", { name: "x" }],
      ["PATCH", "/update_source", {}],
      ["POST", "/upgrade", {}],
      ["DELETE", "", undefined],
    ] as const) {
      const answer = await asOthers(method, `/${id}${path}`, body);
      expect(answer.status).toBe(403);
      expect(answer.body.detail).toMatch(
        /^This plugin installation is managed by another organization: /,
      );
    }
    expect(await api.send("DELETE", `${plugins}/${id}`)).toMatchObject({
      status: 400,
      body: {
        attr: null,
        detail: "This plugin is marked as global! Make it local before uninstallation",
      },
    });
    expect((await patch(`/${id}`, { is_global: false })).status).toBe(200);
    expect((await asOthers("GET", `/${id}`)).status).toBe(200);
    expect((await api.send("DELETE", `${plugins}/${id}`)).status).toBe(204);
    expect((await asOthers("GET", `/${id}`)).status).toBe(404);
    const left = await api.send("GET", `${configsOf(others)}?limit=1000`, undefined, {
      key: others.key,
    });
    expect(left.body.results).not.toContainEqual(expect.objectContaining({ plugin: id }));
  });
});

test("[TM-40] the activity tells who installed, changed and uninstalled what", async () => {
  const { id } = await made({ plugin_type: "source", name: "Watched" });
  await patch(`/${id}/update_source`, { "index.ts": DROPS });
  await patch(`/${id}`, { name: "Seen" });
  const config = await configure(id);
  await api.send("DELETE", `${plugins}/${id}`);
  const { body } = await get("/activity?limit=8");
  expect(body).toMatchObject({ previous: null, next: expect.stringContaining("page=2") });
  const told = body.results.map((one: Record<string, unknown>) => [
    one.activity,
    one.scope,
    one.item_id,
  ]);
  expect(told).toEqual([
    ["uninstalled", "Plugin", String(id)],
    ["disabled", "PluginConfig", String(config.id)],
    ["deleted", "PluginConfig", String(config.id)],
    ["enabled", "PluginConfig", String(config.id)],
    ["created", "PluginConfig", String(config.id)],
    ["updated", "Plugin", String(id)],
    ["updated", "Plugin", String(id)],
    ["installed", "Plugin", String(id)],
  ]);
  expect(body.results[5]).toMatchObject({
    user: { first_name: expect.any(String) },
    detail: { name: "Seen", changes: [{ field: "name", before: "Watched", after: "Seen" }] },
  });
  expect(body.results[6].detail.changes).toContainEqual(
    expect.objectContaining({ field: "version", before: 0, after: 1 }),
  );
  expect((await get("/activity?page=2&limit=6")).body.previous).toContain("page=1");
  const { body: all } = await get("/activity?limit=6");
  const third = await get("/activity?limit=2&offset=2");
  expect(third.body).toEqual({
    count: all.count,
    total_count: all.count,
    results: all.results.slice(2, 4),
    next: expect.stringMatching(/activity\?limit=2&offset=4$/),
    previous: expect.stringMatching(/activity\?limit=2$/),
  });
  const { body: odd } = await get("/activity?limit=2&offset=3");
  expect(odd.results).toEqual(all.results.slice(3, 5));
  expect((await get("/activity?limit=2&offset=x")).body.results).toEqual(all.results.slice(0, 2));
  expect((await get(`/activity?offset=${all.count}`)).body).toMatchObject({
    results: [],
    next: null,
  });
});

test("[TM-5] what runs in a project is told of each change before the change is answered", async () => {
  const source = { "index.ts": DROPS };
  const { id } = await made({ plugin_type: "source", name: "Told", source });
  const home = api.home.projectId;
  const toldBy = async (change: () => Promise<unknown>) => {
    api.changedProjects.length = 0;
    await change();
    return [...api.changedProjects];
  };
  expect(await toldBy(() => configure(id))).toEqual([home]);
  expect(await toldBy(() => patch(`/${id}/update_source`, { "a.ts": "" }))).toEqual([home]);
  expect(await toldBy(() => patch(`/${id}`, { name: "Again" }))).toEqual([home]);
  expect(await toldBy(() => api.send("DELETE", `${plugins}/${id}`))).toEqual([home]);
});

test("[TM-39] configs that export events are listed for those who unsubscribe", async () => {
  const source = { "index.ts": "export function exportEvents() {}" };
  const { id } = await made({ plugin_type: "source", name: "Export", source });
  const config = await configure(id);
  await configure(id, { enabled: false });
  const { body } = await get("/exports_unsubscribe_configs");
  expect(body).toMatchObject({ count: 1, results: [{ id: config.id, plugin: id }] });
});

describe("what the operator allows", () => {
  test("[TM-44] ends reading, installing and sharing in turn", async () => {
    for (const [level, statuses] of [
      ["none", [403, 403, 403]],
      ["config", [200, 403, 403]],
      ["install", [200, 201, 403]],
      ["root", [200, 201, 201]],
    ] as const) {
      const limited = await openTransformationsApi(level);
      const url = `/api/organizations/${limited.home.organizationId}/plugins`;
      const body = { plugin_type: "source", name: "N" };
      const answers = [
        await limited.send("GET", url),
        await limited.send("POST", url, body),
        await limited.send("POST", url, { ...body, is_global: true }),
      ];
      expect([level, answers.map(({ status }) => status)]).toEqual([level, statuses]);
      const organization = await limited.send("GET", url.replace("/plugins", ""));
      expect(organization.body.plugins_access_level).toBe(ACCESS_LEVELS[level]);
      const configs = `/api/projects/${limited.home.projectId}/plugin_configs`;
      const lists = ["activity", "repository", "unused"].map((name) => `${url}/${name}`);
      for (const path of [...lists, `${configs}/activity`, configs]) {
        expect([path, (await limited.send("GET", path)).status]).toEqual([path, statuses[0]]);
      }
      // Code of one's own is as good as installed.
      const source = { "index.js": DROPS };
      const events = [{ event: "x" }];
      const trial = await limited.send("POST", `${configs}/test`, { source, events });
      expect([level, trial.status]).toEqual([level, statuses[1] === 201 ? 200 : 403]);
      if (level === "none") {
        const { body: refused } = await limited.send("POST", `${configs}/test`, { plugin: 1 });
        expect(refused.detail).toBe("Your organization's plugin access level is insufficient.");
      }
      if (level === "install") {
        expect(answers[2]?.body.detail).toBe("This organization can't manage global plugins!");
      }
      await limited.close();
    }
  });

  test("[TM-44] what is shared stays so unless sharing is allowed, and can be sent back as it is", async () => {
    const limited = await openTransformationsApi("install");
    const url = `/api/organizations/${limited.home.organizationId}/plugins`;
    const { body } = await limited.send("POST", url, { plugin_type: "source", name: "Shared" });
    const change = (sent: object) => limited.send("PATCH", `${url}/${body.id}`, sent);
    expect((await change({ ...body, is_global: false })).status).toBe(200);
    const write = { authorId: null, now: new Date(), describe: () => null };
    await limited.store.update(body.id, () => ({ isGlobal: true }), null, write);
    expect((await change({ name: "Still", is_global: true })).status).toBe(200);
    for (const path of ["", "/update_source"]) {
      const answer = await limited.send("PATCH", `${url}/${body.id}${path}`, { is_global: false });
      expect(answer).toMatchObject({
        status: 403,
        body: { detail: "This organization can't manage global plugins!" },
      });
    }
    await limited.close();
  });
});
