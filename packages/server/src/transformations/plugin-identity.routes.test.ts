import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { makeZip } from "../engines/archives/archives.setup.ts";
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

const PASSES = "export function processEvent(event) { return event }";
const COMMIT = "a".repeat(40);
const post = (path: string, body?: object, { organizationId, key }: Tenant = api.home) =>
  api.send("POST", `/api/organizations/${organizationId}/plugins${path}`, body, { key });
const archiveOf = (...folders: string[]) =>
  makeZip(
    folders.flatMap((folder) => [
      { path: `r-1/${folder}plugin.json`, contents: '{"name":"P"}' },
      { path: `r-1/${folder}index.js`, contents: PASSES },
    ]),
  );

/** A repository with some branches, all at one commit, and a plugin in each of some folders. */
function publish(name: string, branches: readonly string[], ...folders: string[]): void {
  const commits = `/api/repos/o/${name}/commits`;
  const answer = JSON.stringify([{ sha: COMMIT }]);
  api.mirror.answers.set(`${commits}?per_page=1`, answer);
  for (const branch of branches) {
    api.mirror.answers.set(`${commits}?sha=${encodeURIComponent(branch)}&per_page=1`, answer);
  }
  api.mirror.answers.set(`/o/${name}/archive/${COMMIT}.zip`, archiveOf(...folders));
}

describe("what is installed", () => {
  test("[TM-2] is one plugin on whatever branch, slashes in its name included; each folder is another", async () => {
    publish("many", ["main", "feat/x"], "", "a/", "b/");
    const outcomes: [string, number][] = [
      ["tree/feat/x", 201],
      ["", 400],
      ["tree/main", 400],
      ["tree/main/a", 201],
      ["tree/feat/x/a", 400],
      ["tree/HEAD/a", 400],
      ["tree/feat/x/b", 201],
    ];
    for (const [path, status] of outcomes) {
      const url = `https://github.com/o/many/${path}`;
      expect([path, (await post("", { url })).status]).toEqual([path, status]);
    }
  });

  test("[TM-2] is the same repository in whatever case its host takes the name", async () => {
    publish("cased", []);
    api.mirror.answers.set("/api/repos/O/Cased/commits?per_page=1", `[{"sha":"${COMMIT}"}]`);
    for (const path of ["/o/cased", "/O/Cased"]) {
      api.mirror.answers.set(`${path}/archive/${COMMIT}.zip`, archiveOf(""));
    }
    expect((await post("", { url: "https://github.com/O/Cased" })).status).toBe(201);
    const again = await post("", { url: "https://github.com/o/cased" }, others);
    expect(again.body).toMatchObject({
      code: "invalid_input",
      detail: expect.stringContaining("already installed"),
    });
  });

  test("[TM-2] stays the same when its type is changed", async () => {
    const url = "hedgerow:catalogue/drop-events";
    const first = await post("", { url });
    const change = (id: number) => api.send("PATCH", `${plugins}/${id}`, { plugin_type: "custom" });
    expect((await change(first.body.id)).body).toMatchObject({ plugin_type: "custom", url });
    expect((await post("", { url })).status).toBe(400);
    const theirs = await post("", { url }, others);
    const path = `/api/organizations/${others.organizationId}/plugins/${theirs.body.id}`;
    const changed = await api.send("PATCH", path, { plugin_type: "custom" }, { key: others.key });
    expect(changed).toMatchObject({ status: 200, body: { plugin_type: "custom" } });
  });

  test("[TM-43] name and password in an address are used, and shown nowhere", async () => {
    const { host } = new URL(api.mirror.url);
    api.mirror.answers.set("/p.zip", archiveOf(""));
    const made = await post("", { url: `http://us3r:s3cret@${host}/p.zip` });
    expect(made).toMatchObject({ status: 201, body: { url: `http://${host}/p.zip` } });
    const asked = api.mirror.asked.at(-1);
    expect(asked?.headers.authorization).toBe(`Basic ${btoa("us3r:s3cret")}`);
    const again = await post("", { url: `http://us3r:0ther@${host}/p.zip` });
    expect(again.body.detail).toBe(`Plugin from URL "http://${host}/p.zip" already installed!`);
    const gone = await post("", { url: `http://us3r:s3cret@${host}/none.zip` });
    expect(gone.body.detail).toContain(`http://${host}/none.zip answered 404`);
    const texts = [made, again, gone, await api.send("GET", `${plugins}?limit=1000`)].map(
      ({ text }) => text,
    );
    expect(texts.join()).not.toMatch(/us3r|s3cret|0ther/);
  });
});

test("[TM-8] uninstalling tells each project's activity that its configs went", async () => {
  const source = { "index.ts": PASSES };
  const { id } = (await post("", { plugin_type: "source", name: "Gone", source })).body;
  await api.send("PATCH", `${plugins}/${id}`, { is_global: true });
  const configsOf = ({ projectId }: Tenant) => `/api/projects/${projectId}/plugin_configs`;
  const configure = async (tenant: Tenant, body: object) =>
    (await api.send("POST", configsOf(tenant), { plugin: id, ...body }, { key: tenant.key })).body;
  const [enabled, idle, theirs] = [
    await configure(api.home, { enabled: true, name: "Mine" }),
    await configure(api.home, {}),
    await configure(others, { enabled: true }),
  ];
  await api.send("PATCH", `${plugins}/${id}`, { is_global: false });
  expect((await api.send("DELETE", `${plugins}/${id}`)).status).toBe(204);

  const told = async ({ organizationId, key }: Tenant, limit: number) => {
    const path = `/api/organizations/${organizationId}/plugins/activity?limit=${limit}`;
    const { body } = await api.send("GET", path, undefined, { key });
    return body.results;
  };
  const own = await told(api.home, 4);
  const short = (one: { activity: string; item_id: string; detail: { name: string } }) => [
    one.activity,
    one.item_id,
    one.detail.name,
  ];
  expect(own.map(short)).toEqual([
    ["uninstalled", String(id), "Gone"],
    ["deleted", String(idle.id), "Gone"],
    ["disabled", String(enabled.id), "Mine"],
    ["deleted", String(enabled.id), "Mine"],
  ]);
  expect(own[3].user).not.toBeNull();
  const foreign = await told(others, 2);
  expect(foreign.map(short)).toEqual([
    ["disabled", String(theirs.id), "Gone"],
    ["deleted", String(theirs.id), "Gone"],
  ]);
  // Whoever it was is no member of this organization.
  expect(foreign[0]).toMatchObject({ user: null, is_system: true });
});
