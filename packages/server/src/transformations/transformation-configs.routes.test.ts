import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { openTransformationsApi } from "./transformations-api.setup.ts";

const MASK = "**************** POSTHOG SECRET FIELD ****************";

let api: Awaited<ReturnType<typeof openTransformationsApi>>;
let configs: string;
let plugins: string;
beforeAll(async () => {
  api = await openTransformationsApi();
});
afterAll(() => api.close());
beforeEach(async () => {
  const { body } = await api.send("POST", `/api/projects`, { name: "P" });
  configs = `/api/projects/${body.id}/pipeline_transformation_configs`;
  plugins = `/api/organizations/${api.home.organizationId}/pipeline_transformations`;
});

const projectId = () => Number(configs.split("/")[3]);
const get = (path = "") => api.send("GET", `${configs}${path}`);
const patch = (path: string, body: object) => api.send("PATCH", `${configs}${path}`, body);
const post = (path: string, body: object) => api.send("POST", `${configs}${path}`, body);

const SCHEMA = [
  { markdown: "Words" },
  { key: "mode", type: "choice", choices: ["plain", "signed"], default: "plain" },
  { key: "secret", type: "string", secret: true, required_if: [["mode", "signed"]] },
  { key: "rules", type: "json" },
  { key: "list", type: "attachment" },
];
const CODE = `
export function setupPlugin({ config }) { if (config.mode === "bad") throw new Error("bad mode"); }
export function processEvent(event, { config, attachments }) {
  console.log("saw", event.event);
  if (event.event === "drop") return null;
  if (event.event === "fail") throw new Error("broken");
  if (event.event === "same") return event;
  event.properties.mode = config.mode;
  event.properties.files = Object.keys(attachments ?? {}).length;
  delete event.properties.gone;
  return event;
}
export const jobs = { sweep() {} };
`;
const newPlugin = async (schema: unknown = SCHEMA, code = CODE): Promise<number> => {
  const source = {
    "index.js": code,
    "plugin.json": JSON.stringify({ name: "P", description: "of it", config: schema }),
  };
  const answer = await api.send("POST", plugins, { plugin_type: "source", source });
  expect(answer).toMatchObject({ status: 201 });
  return answer.body.id;
};
const newConfig = async (body: object = {}, plugin?: number) => {
  const answer = await post("", {
    plugin: plugin ?? (await newPlugin()),
    order: 1,
    enabled: true,
    config: {},
    ...body,
  });
  expect(answer).toMatchObject({ status: 201 });
  return answer.body;
};

/** A multipart form; a field with a file name is a file. */
const form = (
  fields: readonly (readonly [name: string, value: string | Buffer, fileName?: string])[],
) => {
  const parts = fields.flatMap(([name, value, fileName]) => [
    Buffer.from(
      `--b0undary\r\nContent-Disposition: form-data; name="${name}"${
        fileName === undefined ? "" : `; filename="${fileName}"\r\nContent-Type: text/html`
      }\r\n\r\n`,
    ),
    Buffer.from(value),
    Buffer.from("\r\n"),
  ]);
  return Buffer.concat([...parts, Buffer.from("--b0undary--\r\n")]);
};
const sendForm = (method: "POST" | "PATCH", path: string, fields: Parameters<typeof form>[0]) =>
  api.send(method, `${configs}${path}`, form(fields), {
    headers: { "content-type": "multipart/form-data; boundary=b0undary" },
  });

describe("the record", () => {
  test("[TM-50] has PostHog's fields, and the transformation's name where it has none", async () => {
    const plugin = await newPlugin();
    const config = await newConfig(
      { config: { rules: "{}" }, allowed_hosts: ["API.example.com"] },
      plugin,
    );
    const record = {
      id: expect.any(Number),
      plugin,
      enabled: true,
      order: 1,
      config: { rules: "{}" },
      error: null,
      team_id: projectId(),
      plugin_info: expect.objectContaining({ id: plugin, name: "P", config_schema: SCHEMA }),
      delivery_rate_24h: null,
      created_at: "2026-03-01T10:00:00.123000Z",
      updated_at: "2026-03-01T10:00:00.123000Z",
      name: "P",
      description: "of it",
      deleted: false,
      allowed_hosts: ["api.example.com"],
    };
    expect(config).toEqual(record);
    expect((await get(`/${config.id}`)).body).toEqual(record);
    expect((await get()).body.results).toEqual([{ ...record, plugin_info: null }]);
  });

  test("[TM-50] a new one runs last unless its place is given, and is not enabled unless asked for", async () => {
    const plugin = await newPlugin();
    await newConfig({ order: 7 }, plugin);
    const { body } = await post("", { plugin });
    expect(body).toMatchObject({ order: 8, enabled: false });
    expect((await get(`?plugin_id=${plugin}&limit=1`)).body).toMatchObject({ count: 2 });
    expect((await get("?plugin_id=999999")).body.count).toBe(0);
  });

  test("[TM-27] one that is enabled tells where its transformation has no source", async () => {
    const { body } = await api.send("POST", plugins, { plugin_type: "source", name: "Empty" });
    const config = await newConfig({}, body.id);
    expect(config).toMatchObject({ enabled: true, error: { message: "It has no source yet." } });
    expect((await get(`/${config.id}`)).body.error).toEqual(config.error);
    const idle = await newConfig({ enabled: false }, body.id);
    expect(idle.error).toBeNull();
    await api.send("PATCH", `${plugins}/${body.id}/update_source`, { "index.js": CODE });
    expect((await get(`/${config.id}`)).body).toMatchObject({ enabled: true, error: null });
  });

  test("[TM-55] deleting one disables it and hides it, whichever way it is done", async () => {
    const [one, other] = [await newConfig(), await newConfig()];
    expect((await api.send("DELETE", `${configs}/${one.id}`)).status).toBe(204);
    expect((await patch(`/${other.id}`, { deleted: true })).body).toMatchObject({
      deleted: true,
      enabled: false,
    });
    expect((await get()).body.count).toBe(0);
    for (const { id } of [one, other]) expect((await get(`/${id}`)).status).toBe(404);
    expect(await api.configStore.configsToRun(projectId())).toEqual([]);
  });

  test("[TM-50] they are listed by the plugin that they are of", async () => {
    const plugin = await newPlugin();
    const { id } = await newConfig({}, plugin);
    expect((await get(`?plugin_id=${plugin}`)).body).toMatchObject({ count: 1, results: [{ id }] });
    expect((await get("?plugin_id=999999")).body).toMatchObject({ count: 0, results: [] });
    for (const text of ["x", "0x1", "-1", "99999999999"]) {
      expect(await get(`?plugin_id=${text}`)).toMatchObject({
        status: 400,
        body: { code: "invalid_input", attr: "plugin_id" },
      });
    }
  });

  test("[TM-54] the order is changed for many at once", async () => {
    const [a, b] = [await newConfig(), await newConfig()];
    const off = await newConfig({ enabled: false });
    const { body } = await patch("/rearrange", { orders: { [a.id]: 5, [b.id]: 2, [off.id]: 1 } });
    expect(body.map(({ id, order }: { id: number; order: number }) => [id, order])).toEqual([
      [b.id, 2],
      [a.id, 5],
    ]);
    for (const [sent, attr] of [
      [{}, "orders"],
      [{ orders: [] }, "orders"],
      [{ orders: { x: 1 } }, "orders__x"],
      [{ orders: { 1: "a" } }, "orders__1"],
    ] as const) {
      expect(await patch("/rearrange", sent)).toMatchObject({ status: 400, body: { attr } });
    }
  });
});

describe("settings", () => {
  test("[TM-51] a secret is never shown, and kept when it is left out, null or comes back masked", async () => {
    const { id } = await newConfig({ config: { mode: "signed", secret: "s3cret" } });
    const stored = async () => (await api.configStore.config(projectId(), id))?.config.config;
    for (const config of [
      { mode: "signed", secret: MASK },
      { mode: "signed" },
      { mode: "plain", secret: MASK },
      { mode: "signed", secret: null },
    ]) {
      const { body } = await patch(`/${id}`, { config });
      expect(body.config.secret).toBe(MASK);
      expect(await stored()).toEqual({ mode: config.mode, secret: "s3cret" });
    }
    await patch(`/${id}`, { config: { mode: "plain", secret: "n3w" } });
    expect((await stored())?.secret).toBe("n3w");
    expect((await patch(`/${id}`, { config: { secret: "" } })).body.config.secret).toBe("");
    const told = await api.send("GET", `${plugins}/activity?limit=100`);
    const own = await get(`/${id}/activity`);
    for (const { text } of [told, own]) {
      expect(text).toContain(MASK);
      expect(text).not.toMatch(/s3cret|n3w/);
    }
  });

  test("[TM-51] what was given as a secret stays one, whatever is declared later, until another value is given", async () => {
    const plugin = await newPlugin([{ key: "k", type: "string", secret: true }, { key: "open" }]);
    const { id } = await newConfig({ config: { k: "TOPSECRET", open: "o" } }, plugin);
    const declare = (config_schema: object) =>
      api.send("PATCH", `${plugins}/${plugin}`, { config_schema });
    for (const schema of [
      [
        { key: "k", type: "string" },
        { key: "open", secret: true },
      ],
      [],
    ]) {
      await declare(schema);
      const shown = [
        await get(`/${id}`),
        await get(),
        await patch(`/${id}`, { order: 3 }),
        await patch(`/${id}`, { config: { k: MASK, open: "p" } }),
        await patch(`/${id}`, { config: { open: "q" } }),
        await get(`/${id}/activity?limit=100`),
      ];
      for (const { text, status } of shown) {
        expect(status).toBe(200);
        expect(text).not.toContain("TOPSECRET");
      }
      const config = (await api.configStore.config(projectId(), id))?.config;
      expect(config?.config).toEqual({ k: "TOPSECRET", open: "q" });
    }
    // Given in the open, it is no secret any more; given as a secret meanwhile, it is one now.
    const given = await patch(`/${id}`, { config: { k: "told", open: MASK } });
    expect(given.body.config).toEqual({ k: "told", open: MASK });
    expect((await patch(`/${id}`, { config: { k: null, open: "" } })).body.config).toEqual({
      k: null,
      open: "",
    });
    const { text } = await get(`/${id}/activity?limit=100`);
    expect(text).not.toContain("TOPSECRET");
  });

  test("[TM-51] what stands where a secret is declared later is one from then on", async () => {
    const plugin = await newPlugin([{ key: "k" }, { key: "open" }]);
    const { id } = await newConfig({ config: { k: "TOPSECRET", open: "o" } }, plugin);
    const { body: deleted } = await post("", { plugin, config: { k: "TOPSECRET" } });
    await api.send("DELETE", `${configs}/${deleted.id}`);
    const declare = (config_schema: object) =>
      api.send("PATCH", `${plugins}/${plugin}`, { config_schema });
    await declare({ k: { secret: true }, gone: { secret: true } });
    await declare([]);
    expect((await get(`/${id}`)).body.config).toEqual({ k: MASK, open: "o" });
    expect((await patch(`/${deleted.id}`, { deleted: false })).text).not.toContain("TOPSECRET");
    expect((await patch(`/${id}`, { config: { open: "p" } })).body.config).toEqual({
      ...{ k: MASK, open: "p" },
    });
    expect((await api.configStore.config(projectId(), id))?.config).toMatchObject({
      ...{ config: { k: "TOPSECRET", open: "p" }, secretKeys: ["k"] },
    });
  });

  test("[TM-51] a secret outlives that its setting is declared an attachment for a while", async () => {
    const schema = [{ key: "k", secret: true }];
    const plugin = await newPlugin(schema);
    const { id } = await newConfig({ config: { k: "TOPSECRET" } }, plugin);
    const declare = (config_schema: object) =>
      api.send("PATCH", `${plugins}/${plugin}`, { config_schema });
    await declare([{ key: "k", type: "attachment", required: true }]);
    expect(await patch(`/${id}`, { config: {} })).toMatchObject({
      ...{ status: 400, body: { attr: "config__k", code: "required" } },
    });
    await declare([{ key: "k", type: "attachment" }]);
    for (const config of [{}, { k: MASK }, { k: "no file" }, { k: { saved: true } }]) {
      expect((await patch(`/${id}`, { config })).body.config).toEqual({ k: MASK });
    }
    await declare(schema);
    expect((await api.configStore.config(projectId(), id))?.config).toMatchObject({
      ...{ config: { k: "TOPSECRET" }, secretKeys: ["k"] },
    });
  });

  test("[TM-51] a refusal names no secret, and no value that did not come with the request", async () => {
    const choice = (key: string) => ({ key, type: "choice", choices: ["a"] });
    const plugin = await newPlugin([
      { key: "k", secret: true },
      { key: "open" },
      { key: "hidden", type: "choice", choices: ["a"], secret: true },
    ]);
    const settings = { k: "TOPSECRET", open: "STORED" };
    const { id } = await newConfig({ config: settings }, plugin);
    const trial = (config?: object) =>
      post(`/${id}/test`, {
        source: { "plugin.json": JSON.stringify({ config: [choice("k"), choice("open")] }) },
        events: [],
        ...(config && { config }),
      });
    const tried = [await trial(), await trial({ open: "a" }), await trial({ k: MASK, open: "a" })];
    expect(tried.map(({ status }) => status)).toEqual([400, 200, 200]);
    const unfit = "This is not a valid choice. Possible is a.";
    expect(tried[0]?.body).toMatchObject({ attr: "config__open", detail: unfit });
    expect((await trial({ k: "mine", open: "a" })).body).toMatchObject({
      ...{ attr: "config__k", detail: unfit },
    });

    await patch(`/${id}`, { enabled: false });
    const schema = {
      config_schema: [choice("k"), choice("open"), { ...choice("hidden"), secret: true }],
    };
    await api.send("PATCH", `${plugins}/${plugin}`, schema);
    const answers = [
      ...tried,
      await patch(`/${id}`, { config: {} }),
      await patch(`/${id}`, { enabled: true }),
      await patch(`/${id}`, { config: { k: "TOPSECRET", open: "a" } }),
      await patch(`/${id}`, { config: { k: "a", open: "a", hidden: "TOPSECRET" } }),
      await patch(`/${id}`, { config: { k: "a", open: MASK } }),
    ];
    for (const { status, text } of answers.slice(3)) expect([status, text]).toEqual([400, text]);
    for (const { text } of answers) expect(text).not.toMatch(/TOPSECRET|STORED/);
    expect((await patch(`/${id}`, { config: { k: "a", open: "mine" } })).body.detail).toBe(
      '"mine" is not a valid choice. Possible is a.',
    );
  });

  test("[TM-52] what does not fit what is declared is refused, by the setting's name", async () => {
    const plugin = await newPlugin();
    for (const [config, code, attr] of [
      [{ mode: "other" }, "invalid_choice", "config__mode"],
      [{ mode: "signed" }, "required", "config__secret"],
      [{ mode: "signed", secret: null }, "required", "config__secret"],
      [{ rules: "{" }, "invalid_input", "config__rules"],
      [{ secret: ["x"] }, "invalid_input", "config__secret"],
    ] as const) {
      const answer = await post("", { plugin, enabled: true, order: 1, config });
      expect(answer).toMatchObject({ status: 400, body: { code, attr } });
      const draft = await post("", { plugin, order: 1, config });
      expect([config, draft.status]).toEqual([config, code === "required" ? 201 : 400]);
    }
    const { id } = await newConfig({ config: { mode: "signed", secret: "" } }, plugin);
    expect(await patch(`/${id}`, { config: { mode: "x" } })).toMatchObject({ status: 400 });
    expect((await get(`/${id}`)).body.config).toEqual({ mode: "signed", secret: "" });
  });

  test("[TM-52] one that lacks settings can be made and moved, not enabled", async () => {
    const plugin = await newPlugin([{ key: "a", type: "string", required: true }]);
    const { body } = await post("", { plugin });
    expect((await patch(`/${body.id}`, { order: 3 })).status).toBe(200);
    expect(await patch(`/${body.id}`, { enabled: true })).toMatchObject({
      status: 400,
      body: { attr: "config__a", code: "required" },
    });
    expect((await post("", { plugin, enabled: true })).status).toBe(400);
    expect((await post("", { plugin, enabled: false, config: {} })).status).toBe(201);
    expect((await patch(`/${body.id}`, { config: { b: 1 } })).status).toBe(200);
    expect((await patch(`/${body.id}`, { enabled: false, config: {} })).status).toBe(200);
    expect((await patch(`/${body.id}`, { enabled: true, config: {} })).status).toBe(400);
    const enabled = await patch(`/${body.id}`, { enabled: true, config: { a: "" } });
    expect(enabled.body).toMatchObject({ enabled: true, config: { a: "" } });
    expect((await patch(`/${body.id}`, { config: {} })).status).toBe(400);
    expect((await patch(`/${body.id}`, { enabled: false, config: {} })).body.config).toEqual({});
  });

  test.each([
    ["[]", null],
    ["{", null],
    ["{}", "plugin"],
    ['{"plugin":"x"}', "plugin"],
    ['{"plugin":999999}', "plugin"],
    ['{"plugin":99999999999}', "plugin"],
    ['{"plugin":1,"order":"a"}', "order"],
    ['{"plugin":1,"order":1e30}', "order"],
    ['{"plugin":1,"enabled":"yes"}', "enabled"],
    ['{"plugin":1,"config":[]}', "config"],
    ['{"plugin":1,"config":"{}"}', "config"],
    ['{"plugin":1,"name":5}', "name"],
    ['{"plugin":1,"allowed_hosts":"x"}', "allowed_hosts"],
    ['{"plugin":1,"allowed_hosts":["http://x.org/a"]}', "allowed_hosts__0"],
    ['{"plugin":1,"allowed_hosts":["a.org","*"]}', "allowed_hosts__1"],
    ['{"plugin":1,"allowed_hosts":["*.com"]}', "allowed_hosts__0"],
    ['{"plugin":1,"allowed_hosts":["a.com:99999"]}', "allowed_hosts__0"],
  ])("[TM-62] a body that cannot be a config is refused: %s", async (body, attr) => {
    const answer = await api.send("POST", configs, body);
    expect(answer).toMatchObject({ status: 400, body: { attr } });
  });
});

describe("attachments", () => {
  test("[TM-53] [AC-60] come as files of a form, are told by size, name and type, and can be read again", async () => {
    const plugin = await newPlugin();
    const bytes = Buffer.from([0, 255, 13, 10, 13, 10, 45, 45]);
    const { status, body } = await sendForm("POST", "", [
      ["plugin", String(plugin)],
      ["order", "3"],
      ["enabled", "true"],
      ["config", '{"mode":"plain"}'],
      ["add_attachment[list]", bytes, "ä b.html"],
    ]);
    expect(status).toBe(201);
    const file = {
      uid: expect.any(Number),
      saved: true,
      size: 8,
      name: "ä b.html",
      type: "text/html",
    };
    expect(body).toMatchObject({ enabled: true, order: 3, config: { mode: "plain", list: file } });
    const read = await get(`/${body.id}/attachments/list`);
    expect(read.headers["content-type"]).toBe("application/octet-stream");
    expect(read.headers["content-disposition"]).toContain("attachment;");
    const headers = { accept: "application/octet-stream" };
    const path = `${configs}/${body.id}/attachments/list`;
    expect((await api.send("GET", path, undefined, { headers })).status).toBe(200);
    const echoed = await patch(`/${body.id}`, { config: body.config });
    expect(echoed.body.config).toEqual(body.config);
    const [run] = await api.configStore.configsToRun(projectId());
    expect(Buffer.from(run?.attachments[0]?.contents ?? [])).toEqual(bytes);
    const gone = await sendForm("PATCH", `/${body.id}`, [["remove_attachment[list]", "true"]]);
    expect(gone.body.config).toEqual({ mode: "plain" });
    expect((await get(`/${body.id}/attachments/list`)).status).toBe(404);
    const activities = (await get(`/${body.id}/activity`)).body.results;
    expect(activities.map(({ activity }: { activity: string }) => activity)).toEqual([
      "attachment_deleted",
      "attachment_created",
      "enabled",
      "created",
    ]);
  });

  test("[TM-53] what no text may hold is replaced in forms as in JSON, in names of files too", async () => {
    const plugin = await newPlugin();
    const headers = { "content-type": "application/x-www-form-urlencoded" };
    const sent = `plugin=${plugin}&name=a%00b&description=${encodeURIComponent("c\0d")}&config=%7B%7D`;
    const made = await api.send("POST", configs, sent, { headers });
    const inJson = await patch(`/${made.body.id}`, { description: "c\0d" });
    expect(made).toMatchObject({ status: 201, body: { name: "a\ufffdb", config: {} } });
    expect(made.body.description).toBe(inJson.body.description);
    const { body } = await sendForm("PATCH", `/${made.body.id}`, [
      ["add_attachment[list]", "1", "a\0b"],
      ["remove_attachment[o\0]", "1"],
    ]);
    expect(body.config.list).toMatchObject({ name: "a\ufffdb", size: 1, type: "text/html" });
  });

  test("[TM-53] a file that comes stays, though its form also takes the one before away", async () => {
    const plugin = await newPlugin([{ key: "file", type: "attachment" }]);
    const { id } = await newConfig({}, plugin);
    await sendForm("PATCH", `/${id}`, [["add_attachment[file]", "old", "old.txt"]]);
    const both = await sendForm("PATCH", `/${id}`, [
      ["remove_attachment[file]", "true"],
      ["add_attachment[file]", "new", "new.txt"],
    ]);
    expect(both.body.config.file).toMatchObject({ name: "new.txt", size: 3 });
    const { body } = await get(`/${id}/activity?limit=2`);
    const told = body.results.map(({ activity }: { activity: string }) => activity);
    expect(told).toEqual(["attachment_updated", "attachment_created"]);
  });

  test("[TM-53] what the transformation does not declare, and broken forms, are refused", async () => {
    const { id } = await newConfig();
    for (const [fields, attr] of [
      [[["add_attachment[other]", "x", "x.txt"]], "add_attachment[other]"],
      [[["config", "{"]], "config"],
      [[["enabled", "perhaps"]], "enabled"],
      [[["order", "first"]], "order"],
      [[["config", "[]"]], "config"],
    ] as const) {
      expect(await sendForm("PATCH", `/${id}`, fields)).toMatchObject({
        status: 400,
        body: { attr },
      });
    }
    const required = await newPlugin([{ key: "f", type: "attachment", required: true }]);
    expect(await post("", { plugin: required, enabled: true })).toMatchObject({
      status: 400,
      body: { attr: "config__f" },
    });
  });
});

test("[TM-59] one that the service disabled says why until it is enabled again", async () => {
  const { id } = await newConfig();
  api.clock.now = new Date("2026-03-01T11:00:00.000Z");
  expect(await api.configs.disableFailing(projectId(), id, "It ran too long.")).toBe(true);
  expect(await api.configs.disableFailing(projectId(), id, "Again.")).toBe(false);
  expect((await get(`/${id}`)).body).toMatchObject({
    enabled: false,
    error: { message: "It ran too long.", time: "2026-03-01T11:00:00Z" },
  });
  const [told] = (await get(`/${id}/activity`)).body.results;
  expect(told).toMatchObject({
    activity: "disabled",
    user: null,
    is_system: true,
    detail: { changes: [{ field: "enabled" }, { field: "error", after: "It ran too long." }] },
  });
  expect((await patch(`/${id}`, { enabled: true })).body.error).toBeNull();
  expect(await api.configs.disableFailing(projectId(), 999_999, "No.")).toBe(false);
});

describe("what it did", () => {
  const line = (configId: number, at: string, type: "INFO" | "ERROR", message: string) => ({
    projectId: projectId(),
    configId,
    id: `0190c0de-0000-7000-8000-0000000000${at.slice(11, 13)}`,
    transformationId: 1,
    at: new Date(at),
    source: "CONSOLE" as const,
    type,
    message,
    instanceId: "0190c0de-0000-7000-8000-000000000000",
  });

  test("[TM-56] the log is read newest first, by text, type and time, in pages", async () => {
    const { id } = await newConfig();
    await api.records.addLogs([
      line(id, "2026-03-01T10:00:00Z", "INFO", "one thing"),
      line(id, "2026-03-01T11:00:00Z", "ERROR", "Another THING"),
      line(id, "2026-03-01T12:00:00Z", "INFO", "last"),
    ]);
    const messages = async (query: string) => {
      const { body } = await get(`/${id}/logs${query}`);
      return body.results.map(({ message }: { message: string }) => message);
    };
    expect(await messages("")).toEqual(["last", "Another THING", "one thing"]);
    expect(await messages("?search=thing")).toEqual(["Another THING", "one thing"]);
    expect(await messages("?type_filter=ERROR")).toEqual(["Another THING"]);
    expect(await messages("?type=error")).toEqual(["Another THING"]);
    expect(await messages("?type=ERROR,WARN&type_filter=INFO")).toHaveLength(3);
    expect(await messages("?type=&type_filter=")).toHaveLength(3);
    expect(await messages("?type_filter=ERROR&type_filter=INFO&limit=1&offset=2")).toEqual([
      "one thing",
    ]);
    expect(await messages("?after=2026-03-01T10:30:00Z&before=2026-03-01T11:30:00Z")).toEqual([
      "Another THING",
    ]);
    // As lists of events take instants.
    expect(await messages("?after=2026-03-01")).toHaveLength(3);
    expect(await messages("?before=2026-03-01")).toEqual([]);
    expect(await messages("?after=2026-03-01T12:30:00+01:00")).toEqual(["last"]);
    expect((await get(`/${id}/logs?limit=1`)).body).toMatchObject({
      count: 3,
      next: expect.stringContaining("offset=1"),
      results: [
        {
          team_id: projectId(),
          plugin_config_id: id,
          plugin_id: 1,
          source: "CONSOLE",
          type: "INFO",
          timestamp: "2026-03-01T12:00:00Z",
        },
      ],
    });
    for (const [query, attr] of [
      ["after=x", "after"],
      ["type_filter=LOUD", "type_filter"],
      ["type=zzz", "type"],
      ["type=ERROR&type=zzz", "type"],
    ] as const) {
      expect(await get(`/${id}/logs?${query}`)).toMatchObject({ status: 400, body: { attr } });
    }
    expect((await get(`/${id}/logs?type=zzz`)).body).toMatchObject({
      code: "invalid_choice",
      detail: '"zzz" is not a valid choice. Possible is DEBUG, LOG, INFO, WARN, ERROR.',
    });
    expect((await get("/999999/logs")).status).toBe(404);
  });

  test("[TM-57] its counts are told by hour and in all, and what came through of the last day", async () => {
    const { id } = await newConfig();
    const ref = { projectId: projectId(), configId: id };
    const counts = { eventsIn: 10, eventsOut: 8, dropped: 2, failed: 1 };
    const hour = (text: string) => ({
      ...ref,
      hour: new Date(text),
      counts,
      durations: { 50: 10 },
      ownMetrics: { seen: { kind: "sum" as const, value: 4 } },
    });
    api.clock.now = new Date("2026-03-01T12:30:00Z");
    await api.records.addTallies([hour("2026-02-27T09:00:00Z"), hour("2026-03-01T12:00:00Z")]);
    const { body } = await get(`/${id}/metrics`);
    const sums = {
      in: 10,
      out: 8,
      dropped: 2,
      failed: 1,
      p50_ms: expect.any(Number),
      p95_ms: expect.any(Number),
    };
    expect(body).toEqual({
      results: [
        { hour: "2026-02-27T09:00:00Z", ...sums, own: { seen: 4 } },
        { hour: "2026-03-01T12:00:00Z", ...sums, own: { seen: 4 } },
      ],
      totals: { ...sums, in: 20, out: 16, dropped: 4, failed: 2 },
    });
    expect((await get(`/${id}/metrics?after=2026-03-01T00:00:00Z`)).body.totals.in).toBe(10);
    expect((await get(`/${id}/metrics?before=2026-03-01`)).body.totals.in).toBe(10);
    expect(await get(`/${id}/metrics?after=-24h`)).toMatchObject({
      status: 400,
      body: { attr: "after" },
    });
    expect((await get(`/${id}`)).body.delivery_rate_24h).toBe(0.9);
  });

  test("[TM-60] a job is planned where there is one and the config is enabled", async () => {
    const { id } = await newConfig();
    expect(await post(`/${id}/job`, { job: { type: "sweep", payload: { a: 1 } } })).toMatchObject({
      status: 200,
    });
    const due = await api.jobs.due(new Date("2027-01-01"), 1000);
    expect(due.filter(({ configId }) => configId === id)).toMatchObject([
      { name: "sweep", payload: { a: 1 } },
    ]);
    expect((await get(`/${id}/activity`)).body.results[0]).toMatchObject({
      activity: "job_triggered",
      detail: {
        id: String(id),
        trigger: { job_type: "sweep", job_id: null, payload: { a: 1 } },
        changes: null,
        merge: null,
      },
    });
    expect((await get(`/${id}/activity`)).body.results[1].detail.trigger).toBeNull();
    expect(await post(`/${id}/job`, { job: { type: "none" } })).toMatchObject({
      status: 400,
      body: { attr: "job__type" },
    });
    expect(await post(`/${id}/job`, {})).toMatchObject({ status: 400, body: { attr: "job" } });
    await patch(`/${id}`, { enabled: false });
    expect(await post(`/${id}/job`, { job: { type: "sweep" } })).toMatchObject({
      status: 400,
      body: { attr: "enabled" },
    });
  });
});

test("[TM-60] a job's payload is what publicJobs declares, with the defaults of what is left out", async () => {
  const source = {
    "index.js": "export const jobs = { sweep() {}, inner() {} }",
    "plugin.json": JSON.stringify({
      publicJobs: {
        sweep: {
          payload: {
            n: { type: "number", required: true },
            name: { type: "string", required: true, default: "all" },
            since: { type: "date" },
            deep: { type: "boolean" },
            more: { type: "json" },
          },
        },
      },
    }),
  };
  const plugin = (await api.send("POST", plugins, { plugin_type: "source", source })).body.id;
  const { id } = await newConfig({}, plugin);
  const run = (type: string, payload?: object) => post(`/${id}/job`, { job: { type, payload } });
  for (const [payload, code, key] of [
    [undefined, "required", "n"],
    [{}, "required", "n"],
    [{ n: null }, "required", "n"],
    [{ n: "5" }, "invalid_input", "n"],
    [{ n: 5, name: 5 }, "invalid_input", "name"],
    [{ n: 5, since: "soon" }, "invalid_input", "since"],
    [{ n: 5, deep: "yes" }, "invalid_input", "deep"],
    [{ n: 5, more: "{" }, "invalid_input", "more"],
  ] as const) {
    expect([payload, await run("sweep", payload)]).toMatchObject([
      payload,
      { status: 400, body: { code, attr: `job__payload__${key}` } },
    ]);
  }
  const full = { n: 1.5, since: "2026-01-01", deep: false, more: '{"a":1}', extra: {} };
  expect((await run("sweep", full)).status).toBe(200);
  expect((await run("inner", { any: "thing" })).status).toBe(200);
  const due = await api.jobs.due(new Date("2027-01-01"), 1000);
  expect(due.filter(({ configId }) => configId === id).map(({ payload }) => payload)).toEqual([
    { ...full, name: "all" },
    { any: "thing" },
  ]);
});

test("[TM-60] a payload is bounded; the activity masks what is declared secret, and shortens the rest", async () => {
  const payload = { token: { type: "string", secret: true }, n: { type: "number" } };
  const source = {
    "index.js": "export const jobs = { sweep() {}, inner() {} }",
    "plugin.json": JSON.stringify({ publicJobs: { sweep: { payload } } }),
  };
  const plugin = (await api.send("POST", plugins, { plugin_type: "source", source })).body.id;
  const { id } = await newConfig({}, plugin);
  const run = (type: string, sent: object) => post(`/${id}/job`, { job: { type, payload: sent } });
  const told = async () => (await get(`/${id}/activity`)).body.results[0].detail.trigger.payload;

  expect(await run("sweep", { token: "t", x: "x".repeat(1_000_000) })).toMatchObject({
    ...{ status: 400, body: { attr: "job__payload", code: "invalid_input" } },
  });
  expect((await run("sweep", { token: "TOPSECRET", n: 5, open: { a: ["o"] } })).status).toBe(200);
  expect(await told()).toEqual({ token: MASK, n: 5, open: { a: ["o"] } });
  expect((await run("inner", { token: "told" })).status).toBe(200);
  expect(await told()).toEqual({ token: "told" });
  const long = { text: "x".repeat(500_000), list: ["y".repeat(5000)], n: 1 };
  expect((await run("inner", long)).status).toBe(200);
  const shown = await told();
  expect(shown).toEqual({ text: expect.stringMatching(/^x{3000,}…$/), "…": "2 more" });
  expect(JSON.stringify(shown).length).toBeLessThan(4_200);
  expect((await run("inner", { list: ["y".repeat(5000)], n: 1 })).status).toBe(200);
  expect(await told()).toEqual({ list: "…", n: 1 });
  const due = await api.jobs.due(new Date("2027-01-01"), 1000);
  const own = due.filter(({ configId }) => configId === id).map((job) => job.payload);
  expect(own).toContainEqual(long);
  expect(own).toContainEqual({ token: "TOPSECRET", n: 5, open: { a: ["o"] } });
});

test("[TM-66] PUT takes a whole config: what is required of one has to be there", async () => {
  const plugin = await newPlugin();
  const { id } = await newConfig({ config: { mode: "plain" } }, plugin);
  const put = (body: object) => api.send("PUT", `${configs}/${id}`, body);
  for (const [body, code, attr] of [
    [{}, "required", "plugin"],
    [{ plugin }, "required", "order"],
    [{ order: 1 }, "required", "plugin"],
    [{ plugin: await newPlugin(), order: 1 }, "invalid_input", "plugin"],
    [{ plugin, order: "first" }, "invalid_input", "order"],
  ] as const) {
    expect(await put(body)).toMatchObject({ status: 400, body: { code, attr } });
  }
  expect(await put({ plugin, order: 4, enabled: false })).toMatchObject({
    status: 200,
    body: { order: 4, enabled: false, config: { mode: "plain" } },
  });
  const form = await api.send("PUT", `${configs}/${id}`, `plugin=${plugin}&order=5`, {
    headers: { "content-type": "application/x-www-form-urlencoded" },
  });
  expect(form).toMatchObject({ status: 200, body: { order: 5 } });
  expect((await api.send("PUT", `${configs}/999999`, {})).status).toBe(404);
});

test("[TM-66] PATCH takes the config's own plugin, as forms send it along, and no other", async () => {
  const plugin = await newPlugin();
  const { id } = await newConfig({}, plugin);
  const change = (body: object | string, headers = {}) =>
    api.send("PATCH", `${configs}/${id}`, body, { headers });
  const form = { "content-type": "application/x-www-form-urlencoded" };
  expect(await change({ plugin, order: 7 })).toMatchObject({ status: 200, body: { order: 7 } });
  expect(await change(`plugin=${plugin}&order=8`, form)).toMatchObject({ body: { order: 8 } });
  const other = await newPlugin();
  for (const [body, code] of [
    [{ plugin: other, order: 9 }, "invalid_input"],
    [{ plugin: null, order: 9 }, "null"],
    [{ plugin: "x", order: 9 }, "invalid_input"],
    [`plugin=${other}&order=9`, "invalid_input"],
  ] as const) {
    const answer = await change(body, typeof body === "string" ? form : {});
    expect(answer).toMatchObject({ status: 400, body: { code, attr: "plugin" } });
  }
  expect((await api.send("GET", `${configs}/${id}`)).body).toMatchObject({ plugin, order: 8 });
});

test("[TM-42] the activity of configs is read with plugin:read", async () => {
  const { id } = await newConfig();
  const reader = { key: await api.keyWith("plugin:read") };
  const stranger = { key: await api.keyWith("activity_log:read") };
  for (const path of ["/activity", `/${id}/activity`]) {
    expect((await api.send("GET", configs + path, undefined, reader)).status).toBe(200);
    expect((await api.send("GET", configs + path, undefined, stranger)).status).toBe(403);
  }
});

describe("a trial", () => {
  const events = [
    { event: "change", distinct_id: "d", properties: { a: 1, gone: true } },
    { event: "drop" },
    { event: "fail", properties: { a: 1 } },
    { event: "same", properties: { a: 1 } },
  ];

  test("[TM-58] tells what becomes of each event, what differs, what was logged, and how long it took", async () => {
    const { id } = await newConfig({ config: { mode: "signed", secret: "x" } });
    const { body, status } = await post(`/${id}/test`, { events });
    expect(status).toBe(200);
    expect(body.results.map(({ outcome }: { outcome: string }) => outcome)).toEqual([
      "changed",
      "dropped",
      "failed",
      "unchanged",
    ]);
    expect(body.results[0].changes).toEqual([
      { path: "properties.gone", action: "deleted", before: true, after: null },
      { path: "properties.mode", action: "created", before: null, after: "signed" },
      { path: "properties.files", action: "created", before: null, after: 0 },
    ]);
    expect(body.results[0].before).toMatchObject({
      event: "change",
      distinct_id: "d",
      team_id: projectId(),
    });
    expect(body.results[1].after).toBeNull();
    expect(body.results[2]).toMatchObject({
      error: expect.stringContaining("broken"),
      changes: [],
    });
    expect(body.counts).toEqual({ in: 4, out: 3, dropped: 1, failed: 1 });
    expect(body.logs[0]).toMatchObject({
      source: "CONSOLE",
      message: expect.stringContaining("saw change"),
    });
    expect(body).toMatchObject({
      start_error: null,
      start_ms: expect.any(Number),
      run_ms: expect.any(Number),
    });
  });

  test("[TM-58] takes sources and settings that are not saved, and saves nothing", async () => {
    const plugin = await newPlugin();
    const { id } = await newConfig({}, plugin);
    const source = {
      "index.js": 'export const processEvent = (event) => ({ ...event, event: "new" })',
    };
    const { body } = await post(`/${id}/test`, { events: [{ event: "old" }], source });
    expect(body.results[0].changes).toEqual([
      { path: "event", action: "changed", before: "old", after: "new" },
    ]);
    const alone = await post("/test", { source: source["index.js"], events: [{ event: "x" }] });
    expect(alone.body.counts.in).toBe(1);
    const saved = await post("/test", {
      plugin,
      events: [{ event: "x" }],
      config: { mode: "plain" },
    });
    expect(saved.body.results[0].after.properties.mode).toBe("plain");
    expect((await api.send("GET", `${plugins}/${plugin}`)).body.version).toBe(1);
    expect((await get(`/${id}/logs`)).body.count).toBe(0);
  });

  test("[TM-58] a source that is not saved is given the mask of stored secrets, and those of the request", async () => {
    const plugin = await newPlugin([
      { key: "k", type: "json", secret: true, required: true },
      { key: "none", secret: true },
      { key: "open" },
    ]);
    const settings = { k: '"TOPSECRET"', open: "o", none: "" };
    const { id } = await newConfig({ config: settings }, plugin);
    const index = "export const processEvent = (e, { config }) => ({ ...e, properties: config });";
    const seenBy = async (body: object) => {
      const answer = await post(`/${id}/test`, { events: [{ event: "x" }], ...body });
      expect(answer).toMatchObject({ status: 200, body: { start_error: null } });
      return answer.body.results[0].after.properties;
    };
    const masked = { k: MASK, none: "", open: "o" };
    const undeclared = { "index.js": index, "plugin.json": '{"config":[{"key":"k"}]}' };
    const source = { "index.js": index };
    expect(await seenBy({ source })).toMatchObject(masked);
    expect(await seenBy({ source: undeclared })).toMatchObject(masked);
    expect(await seenBy({ source, config: { k: MASK, open: "p" } })).toMatchObject({
      ...{ k: MASK, open: "p" },
    });
    expect(await seenBy({ source, config: { open: "p" } })).toMatchObject({ k: MASK, open: "p" });
    expect(await seenBy({ source, config: { k: '"mine"' } })).toMatchObject({ k: '"mine"' });
    expect((await post(`/${id}/test`, { source, events: [] })).text).not.toContain("TOPSECRET");
    await api.send("PATCH", `${plugins}/${plugin}`, { config_schema: [] });
    expect(await seenBy({ source })).toMatchObject(masked);
    await api.send("PATCH", `${plugins}/${plugin}/update_source`, source);
    // What is saved works with the settings as they are, under whatever name it is sent.
    expect(await seenBy({})).toMatchObject(settings);
    expect(await seenBy({ source })).toMatchObject(settings);
  });

  test("[TM-58] takes recent events, oldest first, where none are given", async () => {
    const stored = (event: string, second: number) => ({
      uuid: `0190c0de-0000-7000-8000-00000000000${second}`,
      event,
      distinctId: "d",
      personId: "0190c0de-0000-7000-8000-00000000000f",
      properties: { a: 1, $plugins_succeeded: ["P (1)"], $transformation_hops: 3 },
      timestamp: new Date(`2026-03-01T10:00:0${second}Z`),
      receivedAt: new Date(`2026-03-01T10:00:0${second}Z`),
    });
    api.storedEvents.splice(0, 99, stored("newest", 3), stored("older", 2), stored("oldest", 1));
    const { body } = await post("/test", { plugin: await newPlugin(), limit: 2 });
    const names = body.results.map(({ before }: { before: { event: string } }) => before.event);
    expect(names).toEqual(["older", "newest"]);
    expect(body.results[0].before.properties).toEqual({ a: 1 });
  });

  test("[TM-62] tells of events that are none what the management API tells of such fields", async () => {
    const of = async (event: object) => {
      const answer = await post("/test", { source: "export {}", events: [{ event: "a" }, event] });
      const { attr, code, detail } = answer.body;
      return [attr, code, detail];
    };
    const name = "events__1__event";
    expect(await of({})).toEqual([name, "required", "This field is required."]);
    expect(await of({ event: "" })).toEqual([name, "blank", "This field may not be blank."]);
    expect(await of({ event: null })).toEqual([name, "null", "This field may not be null."]);
    expect(await of({ event: 5 })).toEqual([name, "invalid_input", "Not a valid string."]);
    expect(await of({ event: "a", distinct_id: " " })).toEqual([
      "events__1__distinct_id",
      "blank",
      "This field may not be blank.",
    ]);
  });

  test("[TM-58] of a config is of its own plugin, and none that is named besides", async () => {
    const plugin = await newPlugin();
    const { id } = await newConfig({}, plugin);
    expect((await post(`/${id}/test`, { plugin, events: [] })).status).toBe(200);
    expect(await post(`/${id}/test`, { plugin: await newPlugin(), events: [] })).toMatchObject({
      status: 400,
      body: { code: "invalid_input", attr: "plugin" },
    });
  });

  test("[TM-58] asks no host but those that the trial itself grants", async () => {
    const { id } = await newConfig({ allowed_hosts: ["127.0.0.1:9"] });
    const source = {
      "index.js": `export async function processEvent(event) {
        event.properties.why = await fetch("http://127.0.0.1:9/").catch((error) => error.message);
        return event;
      }`,
    };
    const events = [{ event: "a" }];
    const why = async (more: object) =>
      (await post(`/${id}/test`, { source, events, ...more })).body.results[0].after.properties.why;
    expect(await why({})).toContain("is not granted");
    // It is asked, though it is not on the public internet.
    expect(await why({ allowed_hosts: ["127.0.0.1:9"] })).toContain("not on the public internet");
  });

  test("[TM-58] tells what it would have captured, and what is refused of that", async () => {
    const source = {
      "index.js": `export async function processEvent(event) {
        await posthog.capture("other", { a: 1 });
        posthog.capture("");
        return event;
      }`,
    };
    const { body } = await post("/test", { source, events: [{ event: "a" }] });
    expect(body.captured).toMatchObject([{ event: "other", properties: { a: 1 } }]);
    expect(body.logs).toMatchObject([
      { source: "SYSTEM", message: "posthog.capture was refused: an event needs a name" },
    ]);
  });

  test("[TM-58] says why it does not start, and where its source is wrong", async () => {
    const source = { "index.js": 'export function setupPlugin() { throw new Error("no key") }' };
    const { body } = await post("/test", { source, events: [{ event: "x" }] });
    expect(body).toMatchObject({ start_error: expect.stringContaining("no key"), results: [] });
    const wrong = await post("/test", { source: { "index.js": "export {" }, events: [] });
    expect(wrong).toMatchObject({ status: 400, body: { attr: "source" } });
  });

  test.each([
    [{}, "source"],
    [{ plugin: 999_999 }, "plugin"],
    [{ source: { "index.js": null } }, "source"],
    [{ source: {}, events: [] }, "source"],
    [{ source: { "readme.md": "x" }, events: [] }, "source"],
    [{ source: "x", events: {} }, "events"],
    [{ source: "export {}", events: [{}] }, "events__0__event"],
    [{ source: "export {}", events: [{ event: "a", uuid: "nonsense" }] }, "events__0__uuid"],
    [{ source: "export {}", events: [{ event: "a", $set: 5 }] }, "events__0__$set"],
    [{ source: "export {}", events: [{ event: "$snapshot" }] }, "events__0__event"],
    [{ source: "export {}", events: [{ event: "a", properties: 5 }] }, "events__0__properties"],
    [{ source: "export {}", events: [{ event: "a", timestamp: "soon" }] }, "events__0__timestamp"],
    [
      { source: "export {}", events: Array.from({ length: 101 }, () => ({ event: "a" })) },
      "events",
    ],
    [{ source: "export {}", limit: 101 }, "limit"],
    [{ source: "export {}", allowed_hosts: ["a b"] }, "allowed_hosts__0"],
  ])("[TM-62] is refused where it says too little or nonsense: %#", async (body, attr) => {
    expect(await post("/test", body)).toMatchObject({ status: 400, body: { attr } });
  });
});

test("[TM-34] configs of other projects and organizations are unknown", async () => {
  const { id } = await newConfig();
  const others = await api.newTenant();
  const theirs = `/api/projects/${others.projectId}/pipeline_transformation_configs/${id}`;
  for (const [method, path] of [
    ["GET", ""],
    ["PATCH", ""],
    ["DELETE", ""],
    ["GET", "/logs"],
    ["GET", "/metrics"],
    ["POST", "/test"],
    ["POST", "/job"],
    ["GET", "/activity"],
    ["GET", "/attachments/list"],
  ] as const) {
    const body = method === "GET" || method === "DELETE" ? undefined : { job: { type: "sweep" } };
    expect((await api.send(method, theirs + path, body, { key: others.key })).status, path).toBe(
      404,
    );
  }
  expect((await api.send("GET", `${configs}/${id}`, undefined, { key: others.key })).status).toBe(
    403,
  );
});
