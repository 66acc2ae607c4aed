import { expect, test } from "vitest";
import {
  isPinned,
  readingsOf,
  readPluginLocation,
  writePluginLocation,
} from "./plugin-location.ts";

const hosts = { githubUrl: "http://git.local:3000", gitlabUrl: "https://gitlab.com" };
const read = (url: string) => readPluginLocation(url, hosts);
const github = { kind: "github", owner: "o", repository: "r", ref: null, folder: "", token: null };
const gitlab = { kind: "gitlab", project: "g/s/p", ref: null, folder: "", token: null };

test.each([
  ["https://github.com/o/r", github],
  ["http://www.github.com/o/r/", github],
  ["https://github.com/o/r.git", github],
  ["http://git.local:3000/o/r", github],
  ["https://github.com/o/r/tree/main", { ...github, ref: "main" }],
  ["https://github.com/o/r/tree/main/plugins/a", { ...github, ref: "main", folder: "plugins/a" }],
  ["https://github.com/o/r/commit/0a1b2c3", { ...github, ref: "0a1b2c3" }],
  ["https://github.com/o/r/releases/tag/v1.2.0", { ...github, ref: "v1.2.0", isTag: true }],
  ["https://github.com/o/r/archive/main.zip", { ...github, ref: "main" }],
  ["https://github.com/o/r/archive/refs/tags/v1.tar.gz", { ...github, ref: "v1", isTag: true }],
  ["https://github.com/o/r/archive/feature/x.zip", { ...github, ref: "feature/x" }],
  ["https://github.com/o/r/archive/refs/heads/feature/x.tar.gz", { ...github, ref: "feature/x" }],
  ["https://github.com/o/r/tree/feature/x", { ...github, ref: "feature", folder: "x" }],
  ["https://github.com/o/r/tree/feature%2Fx/a", { ...github, ref: "feature", folder: "x/a" }],
  ["https://github.com/o/r/tree/1.0+build.2", { ...github, ref: "1.0+build.2" }],
  ["https://github.com/o/r/tree/1.0%2Bbuild/a%20b", { ...github, ref: "1.0+build", folder: "a b" }],
  ["https://github.com/o/r/releases/tag/v1+2", { ...github, ref: "v1+2", isTag: true }],
  [
    "https://github.com/o/r/releases/tag/%40s%2Fp%401.0.0",
    { ...github, ref: "@s/p@1.0.0", isTag: true },
  ],
  ["https://github.com/o/r/releases/tag/p/v1", { ...github, ref: "p/v1", isTag: true }],
  ["https://github.com/o/r/blob/main/a/plugin.json", { ...github, ref: "main", folder: "a" }],
  ["https://github.com/o/r.js-v1.x", { ...github, repository: "r.js-v1.x" }],
  ["https://github.com/o/r.js.git", { ...github, repository: "r.js" }],
  ["https://github.com/o/.github", { ...github, repository: ".github" }],
  ["https://github.com/o/r#feature/x", { ...github, ref: "feature/x" }],
  ["git+https://github.com/o/r.git#v1.2", { ...github, ref: "v1.2" }],
  ["https://github.com/o/r#readme", github],
  ["https://github.com/o/r/tree/main/a#settings", { ...github, ref: "main", folder: "a" }],
  ["https://github.com/o/r@v1.2.0", { ...github, ref: "v1.2.0" }],
  ["https://github.com/o/r.git@main", { ...github, ref: "main" }],
  ["https://github.com/o/r/tree/HEAD/a", { ...github, folder: "a" }],
  ["https://github.com/o/r?tab=readme-ov-file", github],
  ["https://github.com/o/r?private_token=t", { ...github, token: "t" }],
  ["https://gitlab.com/g/s/p", gitlab],
  ["https://gitlab.com/g/s/p/-/tree/main", { ...gitlab, ref: "main" }],
  ["https://gitlab.com/g/s/p.git#1.x", { ...gitlab, ref: "1.x" }],
  ["https://gitlab.com/g/s/p.q", { ...gitlab, project: "g/s/p.q" }],
  ["https://gitlab.com/g/s/p/-/tree/feature/x/a", { ...gitlab, ref: "feature", folder: "x/a" }],
  ["https://gitlab.com/g/s/p/-/tags/v1+2", { ...gitlab, ref: "v1+2", isTag: true }],
  ["https://gitlab.com/g/s/p/-/releases/p/1.0", { ...gitlab, ref: "p/1.0", isTag: true }],
  [
    "https://gitlab.com/g/s/p/-/commit/abcdef1?private_token=t",
    { ...gitlab, ref: "abcdef1", token: "t" },
  ],
  ["https://www.npmjs.com/package/a-b", { kind: "npm", name: "a-b", version: null }],
  ["https://www.npmjs.com/package/a@1.0.0-rc.1", { kind: "npm", name: "a", version: "1.0.0-rc.1" }],
  ["https://www.npmjs.com/package/@s/a.b@next", { kind: "npm", name: "@s/a.b", version: "next" }],
  ["https://www.npmjs.com/package/a?activeTab=versions", { kind: "npm", name: "a", version: null }],
  [
    "https://npmjs.com/package/@posthog/geoip-plugin/v/0.0.2",
    { kind: "npm", name: "@posthog/geoip-plugin", version: "0.0.2" },
  ],
  [
    "https://www.npmjs.com/package/%40posthog%2Fgeoip-plugin",
    { kind: "npm", name: "@posthog/geoip-plugin", version: null },
  ],
  ["https://example.org/a/b.zip?x=1", { kind: "archive", url: "https://example.org/a/b.zip?x=1" }],
  ["http://example.org/b.tar", { kind: "archive", url: "http://example.org/b.tar" }],
  ["http://example.org/b.tgz", { kind: "archive", url: "http://example.org/b.tgz" }],
  ["http://git.local:3000/b/c.tgz", { kind: "archive", url: "http://git.local:3000/b/c.tgz" }],
  ["http://git.local:3000/o/r/archive/main.zip", { ...github, ref: "main" }],
  ["https://github.com/o/r.zip", { ...github, repository: "r.zip" }],
  ["file:/srv/plugins/a", { kind: "folder", path: "/srv/plugins/a" }],
  ["file:///srv/plugins/a%20b", { kind: "folder", path: "/srv/plugins/a b" }],
  ["hedgerow:catalogue/add-place", { kind: "catalogue", name: "add-place" }],
])("[TM-23] %s is read as what it means", (url, location) => {
  expect(read(url)).toEqual(location);
});

test.each([
  "",
  "o/r",
  "https://github.com/o",
  "https://github.com/../r",
  "https://github.com.evil.org/o/r",
  "https://evil.org/github.com/o/r",
  "https://github.com/o/r/issues/1",
  "https://github.com/o/r/tree/a..b",
  "https://github.com/o/r/tree/a%20b",
  "https://github.com/o/r/tree/main//a",
  "https://github.com/o/r/tree/main/a%2F..%2F..%2Fb",
  "https://github.com/o/r/tree/",
  "https://github.com/o/r#semver:^1.0.0",
  "https://github.com/o/r@v1/tree/main",
  "https://gitlab.com/g",
  "https://gitlab.com/g/p/-/issues/1",
  "https://www.npmjs.com/package/../a",
  "https://www.npmjs.com/package/@s",
  "https://www.npmjs.com/package/a/b/c",
  "ftp://example.org/a.zip",
  "javascript:alert(1)//a.zip",
  "https://example.org/page.html",
  "https://",
])("[TM-23] %s is no address of a plugin", (url) => {
  expect(read(url)).toBeUndefined();
});

test("[TM-23] the kept address says where to look for updates: branches and folders, never commits", () => {
  const kept = (url: string) => {
    const location = read(url);
    return location && writePluginLocation(location);
  };
  expect(kept("https://github.com/o/r/commit/0a1b2c3d")).toBe("https://github.com/o/r");
  expect(kept("https://github.com/o/r/releases/tag/v1.2.0")).toBe("https://github.com/o/r");
  expect(kept("https://github.com/o/r/tree/next?private_token=t")).toBe(
    "https://github.com/o/r/tree/next?private_token=t",
  );
  expect(kept("https://github.com/o/r/tree/0a1b2c3d/x/y")).toBe(
    "https://github.com/o/r/tree/HEAD/x/y",
  );
  expect(kept("https://github.com/o/r/tree/feature/x")).toBe(
    "https://github.com/o/r/tree/feature/x",
  );
  expect(kept("https://github.com/o/r#feat+1")).toBe("https://github.com/o/r/tree/feat+1");
  expect(kept("https://github.com/o/r/tree/a%23b/c%20d")).toBe(
    "https://github.com/o/r/tree/a%23b/c%20d",
  );
  expect(kept("https://github.com/o/r/releases/tag/p@v1")).toBe("https://github.com/o/r");
  expect(kept("https://www.npmjs.com/package/@s/a@1.0.0")).toBe(
    "https://www.npmjs.com/package/@s/a",
  );
  expect(kept("https://gitlab.com/g/p/-/tree/main")).toBe("https://gitlab.com/g/p/-/tree/main");
  expect(kept("https://www.npmjs.com/package/a/v/1.0.0")).toBe("https://www.npmjs.com/package/a");
  expect(["v1.0", "1.2.3-rc.1", "deadbeef"].every(isPinned)).toBe(true);
  expect(["main", "v2", "release/1.0"].some(isPinned)).toBe(false);
});

test("[TM-23] a ref may go on where a folder could begin", () => {
  const readings = (url: string) => {
    const location = read(url);
    if (location?.kind !== "github") throw new Error(url);
    return readingsOf(location).map(({ ref, folder }) => [ref, folder]);
  };
  expect(readings("https://github.com/o/r/tree/a/b/c")).toEqual([
    ["a", "b/c"],
    ["a/b", "c"],
    ["a/b/c", ""],
  ]);
  expect(readings("https://github.com/o/r/tree/main")).toEqual([["main", ""]]);
  expect(readings("https://github.com/o/r/tree/0a1b2c3/b")).toEqual([["0a1b2c3", "b"]]);
  expect(readings("https://github.com/o/r/tree/a/b/c/d/e/f/g")).toHaveLength(5);
});

test("[TM-23] mirrors below a path of their server are told apart by it", () => {
  const below = { githubUrl: "http://mirrors/gh/", gitlabUrl: "http://mirrors/git/lab" };
  for (const [url, location] of [
    ["http://mirrors/gh/o/r/tree/main", { ...github, ref: "main" }],
    ["http://mirrors/git/lab/g/s/p", gitlab],
    ["http://mirrors/git/lab/g/s/p/-/tree/main", { ...gitlab, ref: "main" }],
    ["http://mirrors/gh/p.zip", { kind: "archive", url: "http://mirrors/gh/p.zip" }],
    ["http://mirrors/other/p.tgz", { kind: "archive", url: "http://mirrors/other/p.tgz" }],
    ["http://mirrors/ghost/o/r", undefined],
    ["http://mirrors/o/r", undefined],
    ["https://github.com/o/r", github],
  ] as const) {
    expect([url, readPluginLocation(url, below)]).toEqual([url, location]);
  }
});
