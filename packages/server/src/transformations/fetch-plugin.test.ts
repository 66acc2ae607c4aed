import { createHash } from "node:crypto";
import { mkdir, mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { createArchiveReader } from "../engines/archives/archive-reader.ts";
import { makeTgz, makeZip } from "../engines/archives/archives.setup.ts";
import { Refusal } from "../http/errors.ts";
import { type GuardedRequestOptions, requestGuarded } from "../platform/guarded-request.ts";
import { networks } from "../platform/network-address.ts";
import { readCatalogue } from "./catalogue.ts";
import {
  createFetchPlugin,
  MAX_SOURCE_FILES,
  pluginSourcesOf,
  requestFrom,
} from "./fetch-plugin.ts";
import { openMirror } from "./mirror.setup.ts";
import { readPluginLocation } from "./plugin-location.ts";

let mirror: Awaited<ReturnType<typeof openMirror>>;
let folder: string;
beforeEach(async () => {
  mirror = await openMirror();
  folder = await mkdtemp(join(tmpdir(), "hedgerow-plugins-"));
});
afterEach(async () => {
  await mirror.close();
  await rm(folder, { recursive: true });
});

const fetcher = (options: { withFolder?: boolean; isClosed?: boolean } = {}) =>
  createFetchPlugin({
    request: (url: string, given: GuardedRequestOptions) =>
      requestGuarded(url, options.isClosed ? given : { ...given, isAllowed: () => true }),
    archives: createArchiveReader(),
    catalogue: readCatalogue,
    sources: {
      githubUrl: mirror.url,
      githubApiUrl: `${mirror.url}/api`,
      gitlabUrl: mirror.url,
      npmUrl: `${mirror.url}/npm`,
      folder: options.withFolder === false ? null : folder,
    },
  });

const located = (url: string) => {
  const location = readPluginLocation(url, {
    githubUrl: mirror.url,
    gitlabUrl: "https://gitlab.com",
  });
  if (!location) throw new Error(url);
  return location;
};
const fetchFrom = (url: string, options?: Parameters<typeof fetcher>[0]) =>
  fetcher(options).fetch(located(url));
const refusal = async (promise: Promise<unknown>): Promise<string> => {
  const error: unknown = await promise.catch((reason: unknown) => reason);
  if (!(error instanceof Refusal)) throw error;
  return error.message;
};

const COMMIT = "0123456789abcdef0123456789abcdef01234567";
const FILES = [
  { path: "wrap/plugin.json", contents: '{"name":"P"}' },
  { path: "wrap/index.js", contents: "export {}" },
  { path: "wrap/logo.png", contents: "png" },
];

describe("GitHub", () => {
  test("[TM-24] the newest commit of the main branch is installed, told by its hash", async () => {
    mirror.answers.set("/api/repos/o/r/commits?per_page=1", JSON.stringify([{ sha: COMMIT }]));
    mirror.answers.set(`/o/r/archive/${COMMIT}.zip`, { redirect: `/codeload/${COMMIT}` });
    mirror.answers.set(`/codeload/${COMMIT}`, makeZip(FILES));
    expect(await fetchFrom("https://github.com/o/r")).toEqual({
      type: "custom",
      url: "https://github.com/o/r",
      identity: "https://github.com/o/r",
      files: { "plugin.json": '{"name":"P"}', "index.js": "export {}" },
      tag: COMMIT,
    });
    expect(await fetcher().latestTag(located("https://github.com/o/r"))).toBe(COMMIT);
  });

  test("[TM-24] a commit, a release or a branch is installed as named; tarballs will do", async () => {
    mirror.answers.set(`/o/r/archive/${COMMIT}.tar.gz`, makeTgz(FILES));
    expect((await fetchFrom(`https://github.com/o/r/commit/${COMMIT}`)).tag).toBe(COMMIT);
    mirror.answers.set("/o/r/archive/v1.2.0.zip", makeZip(FILES));
    expect((await fetchFrom("https://github.com/o/r/releases/tag/v1.2.0")).tag).toBe("v1.2.0");
    mirror.answers.set("/o/r/archive/next.zip", makeZip(FILES));
    expect((await fetchFrom("https://github.com/o/r/tree/next")).tag).toBe("next");
    mirror.answers.set("/api/repos/o/r/commits?sha=next&per_page=1", `[{"sha":"${COMMIT}"}]`);
    expect(await fetchFrom("https://github.com/o/r/tree/next")).toMatchObject({
      url: "https://github.com/o/r/tree/next",
      tag: COMMIT,
    });
  });

  test("[TM-24] a folder of a repository is installed without the rest", async () => {
    const files = [
      { path: "wrap/plugin.json", contents: '{"name":"top"}' },
      { path: "wrap/a/b/plugin.json", contents: '{"name":"inner"}' },
      { path: "wrap/a/b/index.ts", contents: "1" },
      { path: "wrap/a/c/index.ts", contents: "2" },
    ];
    mirror.answers.set("/o/r/archive/main.zip", makeZip(files));
    expect((await fetchFrom("https://github.com/o/r/tree/main/a/b")).files).toEqual({
      "plugin.json": '{"name":"inner"}',
      "index.ts": "1",
    });
  });

  test("[TM-24] a branch whose name holds slashes is found, and what follows it is a folder", async () => {
    const files = [
      { path: "wrap/plugin.json", contents: '{"name":"top"}' },
      { path: "wrap/a/plugin.json", contents: '{"name":"inner"}' },
    ];
    const commits = "/api/repos/o/r/commits?sha=feature%2Fx%2B1&per_page=1";
    mirror.answers.set(commits, `[{"sha":"${COMMIT}"}]`);
    mirror.answers.set(`/o/r/archive/${COMMIT}.zip`, makeZip(files));
    const url = "https://github.com/o/r/tree/feature/x+1";
    expect(await fetchFrom(url)).toMatchObject({
      ...{ url, tag: COMMIT, files: { "plugin.json": '{"name":"top"}' } },
    });
    expect(await fetchFrom(`${url}/a`)).toMatchObject({
      ...{ url: `${url}/a`, tag: COMMIT, files: { "plugin.json": '{"name":"inner"}' } },
    });
    expect(await fetcher().latestTag(located(`${url}/a`))).toBe(COMMIT);
  });

  test("[TM-24] archives tell what a ref is where nobody tells its commit", async () => {
    mirror.answers.set("/o/r/archive/feature/x.zip", makeZip(FILES));
    expect((await fetchFrom("https://github.com/o/r/tree/feature/x")).tag).toBe("feature/x");
    mirror.answers.set("/o/r/archive/@s/p@1.0+2.zip", makeZip(FILES));
    expect(await fetchFrom("https://github.com/o/r/releases/tag/%40s/p%401.0+2")).toMatchObject({
      url: "https://github.com/o/r",
      identity: "https://github.com/o/r",
      tag: "@s/p@1.0+2",
    });
    mirror.answers.set("/api/repos/o/r/commits?sha=p%2Fv1&per_page=1", `[{"sha":"${COMMIT}"}]`);
    mirror.answers.set(`/o/r/archive/${COMMIT}.zip`, makeZip(FILES));
    expect((await fetchFrom("https://github.com/o/r/releases/tag/p/v1")).tag).toBe("p/v1");
  });

  test("[TM-24] a private repository is asked with its token, which goes nowhere else", async () => {
    const elsewhere = await openMirror();
    mirror.answers.set(`/o/r/archive/${COMMIT}.zip`, { redirect: `${elsewhere.url}/zip` });
    elsewhere.answers.set("/zip", makeZip(FILES));
    await fetchFrom(`https://github.com/o/r/commit/${COMMIT}?private_token=t0ken`);
    expect(mirror.asked[0]?.headers.authorization).toBe("Bearer t0ken");
    expect(mirror.asked[0]?.path).not.toContain("t0ken");
    expect(elsewhere.asked[0]?.headers.authorization).toBeUndefined();
    await elsewhere.close();
  });

  test("what is not there is refused with what was asked", async () => {
    expect(await refusal(fetchFrom("https://github.com/o/r/tree/main"))).toBe(
      `The plugin cannot be fetched: ${mirror.url}/o/r/archive/main.zip answered 404.`,
    );
    expect(await refusal(fetcher().latestTag(located("https://github.com/o/r")))).toBe(
      "Could not get latest commit for: https://github.com/o/r",
    );
    mirror.answers.set("/o/r/archive/main.zip", "<html>sign in</html>");
    expect(await refusal(fetchFrom("https://github.com/o/r/tree/main"))).toMatch(/neither/);
  });
});

test("[TM-20] mirrors and networks that the operator names may be inside, and nothing else", async () => {
  const elsewhere = await openMirror();
  const settings = {
    githubUrl: "https://github.com",
    githubApiUrl: null,
    gitlabUrl: "https://gitlab.com",
    npmUrl: mirror.url,
    pluginFolder: null,
  };
  const sources = pluginSourcesOf(settings);
  expect(sources.githubApiUrl).toBe("https://api.github.com");
  const mirrored = pluginSourcesOf({ ...settings, githubUrl: "https://git.local" });
  expect(mirrored.githubApiUrl).toBe("https://git.local/api/v3");
  const given = { timeoutMs: 5000, maxBytes: 100, maxRedirects: 3 };
  const kindOf = async (url: string, named: readonly string[] = []) =>
    (await requestFrom(sources, networks(named))(url, given)).kind;
  expect(await kindOf(`${mirror.url}/x`)).toBe("answered");
  expect(await kindOf(`${elsewhere.url}/x`)).toBe("refused");
  mirror.answers.set("/away", { redirect: `${elsewhere.url}/x` });
  expect(await kindOf(`${mirror.url}/away`)).toBe("refused");
  expect(await kindOf(`${mirror.url}/away`, ["10.0.0.0/8"])).toBe("refused");
  expect(await kindOf(`${mirror.url}/away`, ["127.0.0.0/8"])).toBe("answered");
  await elsewhere.close();
});

test("[TM-24] GitLab is asked by its API, with a project in groups and a token", async () => {
  const api = "/api/v4/projects/g%2Fs%2Fp/repository";
  mirror.answers.set(`${api}/commits?per_page=1`, JSON.stringify([{ id: COMMIT }]));
  mirror.answers.set(`${api}/archive.zip?sha=${COMMIT}`, makeZip(FILES));
  const plugin = await fetchFrom("https://gitlab.com/g/s/p?private_token=t");
  expect(plugin).toMatchObject({ tag: COMMIT, url: "https://gitlab.com/g/s/p?private_token=t" });
  expect(mirror.asked.map(({ headers }) => headers["private-token"])).toEqual(["t", "t"]);
  expect(await fetcher().latestTag(located("https://gitlab.com/g/s/p"))).toBe(COMMIT);
});

describe("npm", () => {
  const archive = makeTgz(
    FILES.map((file) => ({ ...file, path: file.path.replace("wrap", "package") })),
  );
  const integrity = `sha512-${createHash("sha512").update(archive).digest("base64")}`;
  const manifest = (version: string, dist: object) =>
    JSON.stringify({ name: "@a/b", version, dist });
  const url = "https://www.npmjs.com/package/@a/b";

  test("[TM-24] the newest or a named version is installed, checked against its digest", async () => {
    const dist = { tarball: `${mirror.url}/npm/@a/b/-/b-1.0.1.tgz`, integrity };
    mirror.answers.set("/npm/@a%2fb/latest", manifest("1.0.1", dist));
    mirror.answers.set("/npm/@a/b/-/b-1.0.1.tgz", archive);
    const plugin = await fetchFrom(url);
    expect(plugin).toMatchObject({ type: "custom", url, tag: "1.0.1" });
    expect(Object.keys(plugin.files)).toEqual(["plugin.json", "index.js"]);
    expect(await fetcher().latestTag(located(url))).toBe("1.0.1");
    mirror.answers.set("/npm/@a%2fb/1.0.0", manifest("1.0.0", { integrity: "sha512-AAAA" }));
    mirror.answers.set("/npm/@a/b/-/b-1.0.0.tgz", archive);
    expect(await refusal(fetchFrom(`${url}/v/1.0.0`))).toMatch(/not what its registry says/);
  });

  test("[TM-24] is checked by the older digest where there is no other, and refused where there is none", async () => {
    const shasum = createHash("sha1").update(archive).digest("hex");
    const sha1 = `sha1-${createHash("sha1").update(archive).digest("base64")}`;
    mirror.answers.set("/npm/@a/b/-/b-1.0.0.tgz", archive);
    const outcomeOf = async (dist: object) => {
      mirror.answers.set("/npm/@a%2fb/1.0.0", manifest("1.0.0", dist));
      const named = fetchFrom(`${url}/v/1.0.0`);
      return await named.then(
        () => "installed",
        (error: Error) => error.message,
      );
    };
    const differs = 'The archive of the npm package "@a/b" is not what its registry says it is.';
    const untold =
      'The registry tells no digest of the archive of the npm package "@a/b" that it could be checked against.';
    for (const [dist, outcome] of [
      [{ shasum }, "installed"],
      [{ shasum: shasum.toUpperCase() }, "installed"],
      [{ integrity: sha1 }, "installed"],
      [{ integrity: "md5-AAAA", shasum }, "installed"],
      [{ shasum: "0".repeat(40) }, differs],
      // The strongest decides.
      [{ integrity: `sha512-AAAA ${sha1}`, shasum }, differs],
      [{}, untold],
      [{ integrity: "md5-AAAA" }, untold],
      [{ integrity: 5, shasum: "abc" }, untold],
    ] as const) {
      expect([dist, await outcomeOf(dist)]).toEqual([dist, outcome]);
    }
    mirror.answers.delete("/npm/@a%2fb/1.0.0");
    expect(await refusal(fetchFrom(`${url}/v/1.0.0`))).toBe(
      'The npm package "@a/b" cannot be found.',
    );
  });

  test("what a registry tells that is no JSON is told as that", async () => {
    mirror.answers.set("/npm/@a%2fb/latest", "<html>log in</html>");
    const unreadable = 'What the registry tells of the npm package "@a/b" is not JSON.';
    expect(await refusal(fetchFrom(url))).toBe(unreadable);
    expect(await refusal(fetcher().latestTag(located(url)))).toBe(unreadable);
    mirror.answers.set("/npm/@a%2fb", JSON.stringify({ versions: {} }));
    expect(await refusal(fetchFrom(url))).toBe('The npm package "@a/b" cannot be found.');
  });

  test("[TM-24] a mirror that knows whole packages only, and archives of the public registry, will do", async () => {
    const versions = {
      "2.0.0": {
        version: "2.0.0",
        dist: { tarball: "https://registry.npmjs.org/@a/b/-/b-2.0.0.tgz", integrity },
      },
    };
    mirror.answers.set(
      "/npm/@a%2fb",
      JSON.stringify({ "dist-tags": { latest: "2.0.0" }, versions }),
    );
    mirror.answers.set("/npm/@a/b/-/b-2.0.0.tgz", archive);
    expect((await fetchFrom(url)).tag).toBe("2.0.0");
    expect(await refusal(fetchFrom("https://www.npmjs.com/package/none"))).toBe(
      'The npm package "none" cannot be found.',
    );
  });
});

describe("archives and folders", () => {
  test("[TM-24] an archive is told by a digest of what it holds", async () => {
    mirror.answers.set("/p.zip", makeZip(FILES));
    const url = `${mirror.url}/p.zip`;
    const { tag } = await fetchFrom(url);
    expect(tag).toMatch(/^[0-9a-f]{12}$/);
    expect(await fetcher().latestTag(located(url))).toBe(tag);
    mirror.answers.set("/p.zip", makeZip(FILES.slice(0, 2)));
    expect(await fetcher().latestTag(located(url))).not.toBe(tag);
  });

  test("[TM-24] an archive of several plugins is refused instead of guessed at", async () => {
    const beside = ["a", "b"].flatMap((folder) =>
      FILES.map(({ path, contents }) => ({ path: path.replace(/^[^/]+/, folder), contents })),
    );
    mirror.answers.set("/several.zip", makeZip(beside));
    expect(await refusal(fetchFrom(`${mirror.url}/several.zip`))).toBe(
      "The archive holds several plugins: a, b.",
    );
    // One at the top is the plugin, whatever lies in its folders.
    const top = FILES.map(({ path, contents }) => ({
      path: path.replace(/^[^/]+\//, ""),
      contents,
    }));
    mirror.answers.set("/top.zip", makeZip([...top, ...beside]));
    const { files } = await fetchFrom(`${mirror.url}/top.zip`);
    expect(Object.keys(files)).toEqual(expect.arrayContaining(["plugin.json", "a/plugin.json"]));
  });

  test("a plugin without plugin.json, and one of too many or too large files, is refused", async () => {
    const url = `${mirror.url}/p.tgz`;
    mirror.answers.set("/p.tgz", makeTgz([{ path: "wrap/index.js" }, { path: "a/b/plugin.json" }]));
    expect(await refusal(fetchFrom(url))).toBe("Could not find plugin.json in the plugin");
    const some = (count: number) =>
      Array.from({ length: count }, (_, index) => ({ path: `wrap/${index}.js`, contents: "1" }));
    mirror.answers.set("/p.tgz", makeTgz([...FILES, ...some(MAX_SOURCE_FILES)]));
    expect(await refusal(fetchFrom(url))).toMatch(/more than 2000 files/);
    mirror.answers.set("/p.tgz", makeTgz([...FILES, ...some(10_000)]));
    expect(await refusal(fetchFrom(url))).toBe("The archive holds more than 5000 files.");
    const large = { path: "wrap/large.js", contents: "x".repeat(9_000_000) };
    mirror.answers.set("/p.tgz", makeTgz([...FILES, large]));
    expect(await refusal(fetchFrom(url))).toMatch(/more than 8000000 characters/);
  });

  test("[TM-20] nothing is fetched from inside the network", async () => {
    mirror.answers.set("/p.zip", makeZip(FILES));
    expect(await refusal(fetchFrom(`${mirror.url}/p.zip`, { isClosed: true }))).toMatch(
      /is not on the public internet/,
    );
    expect(mirror.asked).toEqual([]);
  });

  test("[TM-25] a folder is read only below the one that the operator names, without links", async () => {
    const plugin = join(folder, "p");
    await mkdir(join(plugin, "src"), { recursive: true });
    await writeFile(join(plugin, "plugin.json"), "{}");
    await writeFile(join(plugin, "src", "a.ts"), "1");
    await symlink("/etc/passwd", join(plugin, "secret.txt"));
    await symlink("/etc", join(folder, "out"));
    expect(await fetchFrom(`file:${plugin}`)).toMatchObject({
      type: "local",
      files: { "plugin.json": "{}", "src/a.ts": "1" },
      tag: null,
    });
    for (const path of [
      "/etc",
      join(folder, "out"),
      join(folder, "..", "x"),
      join(folder, "none"),
    ]) {
      expect(await refusal(fetchFrom(`file:${path}`))).toBe(
        `Could not load plugin.json from: ${join(path, "plugin.json")}`,
      );
    }
    expect(await refusal(fetchFrom(`file:${plugin}`, { withFolder: false }))).toBe(
      "Plugins cannot be installed from folders of this server.",
    );
  });

  test("[TM-24] everything of the catalogue can be had", async () => {
    const catalogue = await readCatalogue();
    expect(catalogue.length).toBeGreaterThanOrEqual(12);
    for (const { name, files } of catalogue) {
      const plugin = await fetchFrom(`hedgerow:catalogue/${name}`);
      expect(plugin).toMatchObject({ type: "repository", files });
      expect(await fetcher().latestTag(located(`hedgerow:catalogue/${name}`))).toBe(plugin.tag);
    }
    expect(await refusal(fetchFrom("hedgerow:catalogue/constructor"))).toMatch(/There is no/);
  });
});
