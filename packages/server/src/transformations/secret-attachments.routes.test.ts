import { afterAll, beforeAll, expect, test } from "vitest";
import { openTransformationsApi } from "./transformations-api.setup.ts";

let api: Awaited<ReturnType<typeof openTransformationsApi>>;
let plugins: string;
let configs: string;
beforeAll(async () => {
  api = await openTransformationsApi();
  plugins = `/api/organizations/${api.home.organizationId}/plugins`;
  configs = `/api/projects/${api.home.projectId}/plugin_configs`;
});
afterAll(() => api.close());

const MASK = "**************** POSTHOG SECRET FIELD ****************";
const MASKED = { uid: -1, saved: true, size: -1, name: MASK, type: "application/octet-stream" };
const SECRET = { key: "file", type: "attachment", secret: true };
const OPEN = { key: "file", type: "attachment" };
const CODE = `export function processEvent(event, { attachments }) {
  event.properties.seen = attachments.file?.contents.toString();
  return event;
}`;

const form = (parts: readonly (readonly [name: string, text: string, fileName?: string])[]) =>
  parts
    .map(
      ([name, text, fileName]) =>
        `--b0undary\r\nContent-Disposition: form-data; name="${name}"${
          fileName === undefined ? "" : `; filename="${fileName}"`
        }\r\n\r\n${text}\r\n`,
    )
    .join("")
    .concat("--b0undary--\r\n");
const sendForm = (method: "POST" | "PATCH", path: string, parts: Parameters<typeof form>[0]) =>
  api.send(method, configs + path, form(parts), {
    headers: { "content-type": "multipart/form-data; boundary=b0undary" },
  });
const put = (text: string, fileName: string) => [["add_attachment[file]", text, fileName]] as const;
const newPlugin = async (field: object) => {
  const source = { "index.js": CODE, "plugin.json": JSON.stringify({ config: [field] }) };
  return (await api.send("POST", plugins, { plugin_type: "source", source })).body.id;
};
const declare = (plugin: number, field: object) =>
  api.send("PATCH", `${plugins}/${plugin}`, { config_schema: [field] });
const get = (path: string) => api.send("GET", configs + path);

test("[TM-51] a secret file is told masked and read by nobody, whatever is declared of it later", async () => {
  const plugin = await newPlugin(SECRET);
  const made = await sendForm("POST", "", [
    ["plugin", String(plugin)],
    ["enabled", "true"],
    ...put("TOPSECRET", "private-name.json"),
  ]);
  expect(made).toMatchObject({ status: 201, body: { config: { file: MASKED } } });
  const { id } = made.body;
  const all = async () => [
    await get(`/${id}`),
    await get(""),
    await get(`/${id}/attachments/file`),
    await get(`/${id}/activity?limit=100`),
    await api.send("GET", `${plugins}/activity?limit=100`),
  ];
  for (const field of [SECRET, OPEN, { key: "other" }]) {
    await declare(plugin, field);
    for (const { text } of await all()) expect(text).not.toMatch(/TOPSECRET|private-name/);
    expect((await get(`/${id}/attachments/file`)).status).toBe(403);
    expect((await get(`/${id}/attachments/none`)).status).toBe(404);
    // Changes of other things keep it one.
    const changed = await api.send("PATCH", `${configs}/${id}`, { config: {}, order: 2 });
    expect(changed.body.config.file).toEqual(MASKED);
  }
  await declare(plugin, OPEN);
  const open = await sendForm("PATCH", `/${id}`, put("plain", "plain.json"));
  expect(open.body.config.file).toMatchObject({ name: "plain.json", size: 5 });
  expect((await get(`/${id}/attachments/file`)).text).toBe("plain");
  expect((await get(`/${id}/activity?limit=1`)).text).not.toContain("private-name");
  await declare(plugin, SECRET);
  await declare(plugin, OPEN);
  expect((await get(`/${id}`)).body.config.file).toEqual(MASKED);
  await sendForm("PATCH", `/${id}`, [["remove_attachment[file]", "true"]]);
  expect((await get(`/${id}`)).body.config).toEqual({});
  expect(
    (await sendForm("PATCH", `/${id}`, put("new", "new.json"))).body.config.file,
  ).toMatchObject({ name: "new.json" });
});

test("[TM-58] a trial gives secret files to the saved source only", async () => {
  const plugin = await newPlugin(SECRET);
  const { body: config } = await sendForm("POST", "", [
    ["plugin", String(plugin)],
    ...put("TOPSECRET", "private-name.json"),
  ]);
  const seen = async (body: object) => {
    const trial = { events: [{ event: "e" }], ...body };
    const answer = await api.send("POST", `${configs}/${config.id}/test`, trial);
    return answer.body.results[0].after.properties.seen;
  };
  expect(await seen({})).toBe("TOPSECRET");
  expect(await seen({ source: { "index.js": `${CODE}\n` } })).toBe(MASK);
  const undeclared = JSON.stringify({ config: [OPEN] });
  expect(await seen({ source: { "plugin.json": undeclared } })).toBe(MASK);
});
