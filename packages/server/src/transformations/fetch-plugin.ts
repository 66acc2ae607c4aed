import { createHash } from "node:crypto";
import { readdir, readFile, realpath, stat } from "node:fs/promises";
import { join, relative, sep } from "node:path";
import { isJsonObject, type Json, type JsonObject, ownValue } from "@hedgerow/core/json";
import type {
  TransformationFiles,
  TransformationType,
} from "@hedgerow/core/transformations/transformation";
import { Refusal } from "../http/errors.ts";
import { parseStrictJson } from "../http/parse-json.ts";
import { createGate, type Gate } from "../platform/gate.ts";
import {
  type GuardedOutcome,
  type GuardedRequestOptions,
  requestGuarded,
} from "../platform/guarded-request.ts";
import type { IsInNetworks } from "../platform/network-address.ts";
import { createSlices, type Slices } from "../platform/slices.ts";
import type { ArchiveFile, ArchiveReader } from "./archive-reader.ts";
import type { CatalogueEntry } from "./catalogue.ts";
import {
  asPath,
  identityOf,
  isCommit,
  isRelease,
  type PluginLocation,
  readingsOf,
  shownAddress,
  writePluginLocation,
} from "./plugin-location.ts";

/** Where plugins are fetched from, mirrors in place of the public services perhaps. */
export interface PluginSources {
  readonly githubUrl: string;
  readonly githubApiUrl: string;
  readonly gitlabUrl: string;
  readonly npmUrl: string;
  /** Folder of the server below which plugins may lie; `null`: none may. */
  readonly folder: string | null;
}

/** The settings that say where plugins come from. */
export interface PluginSourceSettings {
  readonly githubUrl: string;
  /** `null`: as {@link githubUrl} suggests. */
  readonly githubApiUrl: string | null;
  readonly gitlabUrl: string;
  readonly npmUrl: string;
  readonly pluginFolder: string | null;
}

const PUBLIC_GITHUB = "https://github.com";

/** Where plugins are fetched from, as the operator says. A mirror of GitHub has its API where GitHub Enterprise does. */
export function pluginSourcesOf(settings: PluginSourceSettings): PluginSources {
  const { githubUrl, githubApiUrl, gitlabUrl, npmUrl, pluginFolder } = settings;
  const usualApi = githubUrl === PUBLIC_GITHUB ? "https://api.github.com" : `${githubUrl}/api/v3`;
  return {
    githubUrl,
    githubApiUrl: githubApiUrl ?? usualApi,
    gitlabUrl,
    npmUrl,
    folder: pluginFolder,
  };
}

const PUBLIC_HOSTS: ReadonlySet<string> = new Set([
  "github.com",
  "api.github.com",
  "gitlab.com",
  "registry.npmjs.org",
]);

/**
 * How plugins are asked for: from the public internet, from networks that the operator names, and
 * from the mirrors that the operator put in place of the public services.
 */
export function requestFrom(
  sources: PluginSources,
  isNetworkOpen: IsInNetworks,
): (url: string, options: GuardedRequestOptions) => Promise<GuardedOutcome> {
  const { githubUrl, githubApiUrl, gitlabUrl, npmUrl } = sources;
  const mirrors = new Set(
    [githubUrl, githubApiUrl, gitlabUrl, npmUrl]
      .map((url) => new URL(url).host)
      .filter((host) => !PUBLIC_HOSTS.has(host)),
  );
  return (url, options) =>
    requestGuarded(url, {
      ...options,
      isAllowed: ({ url: target, address }) => mirrors.has(target.host) || isNetworkOpen(address),
    });
}

/** A plugin as it was found. */
export interface FetchedPlugin {
  readonly type: Exclude<TransformationType, "source" | "inline">;
  /** Where to look for updates. */
  readonly url: string;
  /** What tells it from other plugins ({@link identityOf}). */
  readonly identity: string;
  readonly files: TransformationFiles;
  /** Commit, version, or for what has neither a digest of its contents. */
  readonly tag: string | null;
}

/** Fetches plugins. Throws a {@link Refusal} that says why one cannot be had. */
export interface FetchPlugin {
  fetch(location: PluginLocation): Promise<FetchedPlugin>;
  /** The newest commit or version; `null` where there is no such thing. */
  latestTag(location: PluginLocation): Promise<string | null>;
}

/** Bounds of what is fetched, far above real plugins. */
const MAX_ARCHIVE_BYTES = 32 * 1024 * 1024;
const MAX_UNPACKED_BYTES = 64 * 1024 * 1024;
const MAX_ARCHIVE_ENTRIES = 5_000;
const MAX_ANSWER_BYTES = 8 * 1024 * 1024;
const FETCH_WITHIN_MS = 30_000;
const MAX_REDIRECTS = 5;

/** Bounds of what is kept of a source, here and for what is written here. */
export const MAX_SOURCE_FILES = 2_000;
export const MAX_SOURCE_CHARS = 8_000_000;
/** No more bytes of UTF-8 make so few characters. */
const MAX_SOURCE_BYTES = 3 * MAX_SOURCE_CHARS;

const KEPT = /\.(?:[cm]?[jt]sx?|json|md|txt|ya?ml|csv|graphql|html|css)$|(?:^|\/)license$/i;
const NOT_KEPT = /(?:^|\/)(?:\.git|\.github|\.vscode|coverage)\//;

type RepositoryLocation = PluginLocation & { readonly kind: "github" | "gitlab" };

/** @param catalogue what comes with the service */
export function createFetchPlugin({
  request,
  archives,
  catalogue,
  sources,
}: {
  request: (url: string, options: GuardedRequestOptions) => Promise<GuardedOutcome>;
  archives: ArchiveReader;
  catalogue: () => Promise<readonly CatalogueEntry[]>;
  sources: PluginSources;
}): FetchPlugin {
  const ask = async (
    url: string,
    maxBytes: number,
    headers: Readonly<Record<string, string>> = {},
  ): Promise<{ readonly status: number; readonly body: Buffer }> => {
    const outcome = await request(url, {
      headers,
      maxBytes,
      timeoutMs: FETCH_WITHIN_MS,
      maxRedirects: MAX_REDIRECTS,
    });
    if (outcome.kind === "answered") return outcome;
    throw unfit(`The plugin cannot be fetched: ${outcome.detail}`);
  };

  /** `undefined` where there is nothing, `"unreadable"` for what is not JSON. */
  const askJson = async (
    url: string,
    headers?: Readonly<Record<string, string>>,
  ): Promise<{ readonly json: Json } | "unreadable" | undefined> => {
    const { status, body } = await ask(url, MAX_ANSWER_BYTES, {
      accept: "application/json",
      ...headers,
    });
    if (status !== 200) return undefined;
    try {
      return { json: parseStrictJson(body.toString("utf8")) };
    } catch {
      return "unreadable";
    }
  };

  /** The first archive that is there. */
  const download = async <Of>(
    places: readonly { readonly url: string; readonly of: Of }[],
    headers?: Readonly<Record<string, string>>,
  ): Promise<{ readonly archive: Buffer; readonly of: Of }> => {
    let status = 0;
    for (const { url, of } of places) {
      const answer = await ask(url, MAX_ARCHIVE_BYTES, headers);
      if (answer.status === 200) return { archive: answer.body, of };
      status = answer.status;
    }
    const first = shownAddress(places[0]?.url ?? "");
    throw unfit(`The plugin cannot be fetched: ${first} answered ${status}.`);
  };

  const downloadAny = async (urls: readonly string[]): Promise<Buffer> =>
    (await download(urls.map((url) => ({ url, of: null })))).archive;

  const unpack = async (archive: Buffer, folder: string): Promise<TransformationFiles> => {
    const outcome = await archives.read(
      archive,
      { maxEntries: MAX_ARCHIVE_ENTRIES, maxUnpackedBytes: MAX_UNPACKED_BYTES },
      isKept,
    );
    if (outcome.kind === "refused") throw unfit(outcome.reason);
    return filesBelow(outcome.files, folder);
  };

  const githubHeaders = (token: string | null) =>
    token === null ? {} : { authorization: `Bearer ${token}` };

  /** The commit that a branch (the main one for `null`) is at; `undefined` where nobody tells. */
  const githubCommit = async (
    { owner, repository, token }: PluginLocation & { kind: "github" },
    ref: string | null,
  ): Promise<string | undefined> => {
    const query = ref === null ? "" : `sha=${encodeURIComponent(ref)}&`;
    return readCommit(
      await askJson(
        `${sources.githubApiUrl}/repos/${owner}/${repository}/commits?${query}per_page=1`,
        githubHeaders(token),
      ),
      "sha",
    );
  };

  const gitlabApi = ({ project }: PluginLocation & { kind: "gitlab" }) =>
    `${sources.gitlabUrl}/api/v4/projects/${encodeURIComponent(project)}/repository`;
  const gitlabHeaders = (token: string | null) =>
    token === null ? {} : { "private-token": token };
  const gitlabCommit = async (
    location: PluginLocation & { kind: "gitlab" },
    ref: string | null,
  ): Promise<string | undefined> => {
    const query = ref === null ? "" : `ref_name=${encodeURIComponent(ref)}&`;
    return readCommit(
      await askJson(
        `${gitlabApi(location)}/commits?${query}per_page=1`,
        gitlabHeaders(location.token),
      ),
      "id",
    );
  };

  const npmManifest = async (name: string, version: string | null) => {
    const path = name.replace("/", "%2f");
    const answered = await askJson(`${sources.npmUrl}/${path}/${version ?? "latest"}`);
    const one = jsonOf(answered);
    if (isJsonObject(one) && typeof ownValue(one, "version") === "string") return one;
    // Some mirrors know whole packages only.
    const answeredOfAll = await askJson(`${sources.npmUrl}/${path}`);
    const whole = jsonOf(answeredOfAll);
    if (whole === undefined && [answered, answeredOfAll].includes("unreadable")) {
      throw unfit(`What the registry tells of the npm package "${name}" is not JSON.`);
    }
    const tags = isJsonObject(whole) ? ownValue(whole, "dist-tags") : undefined;
    const versions = isJsonObject(whole) ? ownValue(whole, "versions") : undefined;
    const wanted = version ?? (isJsonObject(tags) ? ownValue(tags, "latest") : undefined);
    const manifest =
      isJsonObject(versions) && typeof wanted === "string" ? ownValue(versions, wanted) : undefined;
    return isJsonObject(manifest) ? manifest : undefined;
  };

  const npmVersion = async (name: string): Promise<string> => {
    const manifest = await npmManifest(name, null);
    const version = manifest && ownValue(manifest, "version");
    if (typeof version !== "string") throw unfit(`The npm package "${name}" cannot be found.`);
    return version;
  };

  const fetchNpm = async (location: PluginLocation & { kind: "npm" }): Promise<FetchedPlugin> => {
    const { name } = location;
    const manifest = await npmManifest(name, location.version);
    const version = manifest && ownValue(manifest, "version");
    if (typeof version !== "string") throw unfit(`The npm package "${name}" cannot be found.`);
    const dist = manifest && ownValue(manifest, "dist");
    const tarball = isJsonObject(dist) ? ownValue(dist, "tarball") : undefined;
    const digests = isJsonObject(dist) ? npmDigests(dist) : [];
    if (digests.length === 0) {
      throw unfit(
        `The registry tells no digest of the archive of the npm package "${name}" that it could be checked against.`,
      );
    }
    const usual = `${sources.npmUrl}/${name}/-/${name.replace(/^@[^/]+\//, "")}-${version}.tgz`;
    const isOfRegistry =
      typeof tarball === "string" &&
      URL.canParse(tarball) &&
      new URL(tarball).host === new URL(sources.npmUrl).host;
    const archive = await downloadAny(isOfRegistry ? [tarball, usual] : [usual]);
    if (!digests.some(({ algorithm, base64 }) => digestBy(algorithm, archive) === base64)) {
      throw unfit(`The archive of the npm package "${name}" is not what its registry says it is.`);
    }
    return {
      type: "custom",
      url: writePluginLocation(location),
      identity: identityOf(location),
      files: await unpack(archive, ""),
      tag: version,
    };
  };

  const fetchCatalogue = async (
    location: PluginLocation & { kind: "catalogue" },
  ): Promise<FetchedPlugin> => {
    const { name } = location;
    const entry = (await catalogue()).find((one) => one.name === name);
    if (!entry) throw unfit(`There is no "${name.slice(0, 100)}" in the catalogue.`);
    return {
      type: "repository",
      url: writePluginLocation(location),
      identity: identityOf(location),
      files: entry.files,
      tag: catalogueTag(entry),
    };
  };

  /**
   * What an address of a repository means, and the commit that it is at. Where nobody tells a
   * commit, all that it may mean.
   */
  const resolve = async <Location extends RepositoryLocation>(
    location: Location,
  ): Promise<{ readonly readings: readonly Location[]; readonly commit: string | undefined }> => {
    const readings = readingsOf(location);
    for (const reading of readings) {
      const commit =
        reading.kind === "github"
          ? await githubCommit(reading, reading.ref)
          : await gitlabCommit(reading, reading.ref);
      if (commit !== undefined) return { readings: [reading], commit };
    }
    return { readings, commit: undefined };
  };

  const archivesOf = (location: RepositoryLocation, commit: string | undefined) => {
    const ref = commit ?? location.ref ?? "HEAD";
    if (location.kind === "github") {
      const { owner, repository } = location;
      const base = `${sources.githubUrl}/${owner}/${repository}/archive/${asPath(ref)}`;
      return [`${base}.zip`, `${base}.tar.gz`];
    }
    const base = `${gitlabApi(location)}/archive`;
    const sha = encodeURIComponent(ref);
    return [`${base}.zip?sha=${sha}`, `${base}.tar.gz?sha=${sha}`];
  };

  const fetchRepository = async (location: RepositoryLocation): Promise<FetchedPlugin> => {
    const isAtCommit = location.ref !== null && isCommit(location.ref);
    const { readings, commit } = isAtCommit
      ? { readings: [location], commit: location.ref ?? undefined }
      : await resolve(location);
    const headers =
      location.kind === "github" ? githubHeaders(location.token) : gitlabHeaders(location.token);
    const { archive, of } = await download(
      readings.flatMap((of) => archivesOf(of, commit).map((url) => ({ url, of }))),
      headers,
    );
    return {
      type: "custom",
      url: writePluginLocation(of),
      identity: identityOf(of),
      files: await unpack(archive, of.folder),
      tag: tagOf(of, commit),
    };
  };

  const fetcher: FetchPlugin = {
    async fetch(location) {
      switch (location.kind) {
        case "github":
        case "gitlab":
          return fetchRepository(location);
        case "npm":
          return fetchNpm(location);
        case "archive": {
          const archive = await downloadAny([location.url]);
          return {
            type: "custom",
            url: location.url,
            identity: identityOf(location),
            files: await unpack(archive, ""),
            tag: digestOf(archive),
          };
        }
        case "folder": {
          const { path, files } = await readFolder(location.path, sources.folder);
          const url = writePluginLocation({ kind: "folder", path });
          return { type: "local", url, identity: url, files, tag: null };
        }
        case "catalogue":
          return fetchCatalogue(location);
      }
    },

    async latestTag(location) {
      switch (location.kind) {
        case "github":
        case "gitlab": {
          const { commit } = await resolve(location);
          if (commit !== undefined) return commit;
          throw unfit(
            `Could not get latest commit for: ${shownAddress(writePluginLocation(location))}`,
          );
        }
        case "npm":
          return npmVersion(location.name);
        case "archive":
          return digestOf(await downloadAny([location.url]));
        case "folder":
          return null;
        case "catalogue": {
          const entry = (await catalogue()).find(({ name }) => name === location.name);
          return entry ? catalogueTag(entry) : null;
        }
      }
    },
  };
  const gate = createGate(FETCHES);
  return {
    fetch: (location) => inTurn(gate, () => fetcher.fetch(location)),
    latestTag: (location) => inTurn(gate, () => fetcher.latestTag(location)),
  };
}

/** An archive and what it unpacks to are held in memory. */
const FETCHES = { maxRunning: 2, maxWaiting: 20 };

async function inTurn<Result>(gate: Gate, work: () => Promise<Result>): Promise<Result> {
  const result = await gate.through(work);
  if (result === "full") throw new Refusal("throttled", "Too many plugins are being fetched.");
  return result;
}

/** What a state of the catalogue is called. */
export function catalogueTag({ files }: CatalogueEntry): string {
  const hash = createHash("sha256");
  for (const [name, text] of Object.entries(files)) hash.update(JSON.stringify([name, text]));
  return hash.digest("hex").slice(0, DIGEST_CHARS);
}

/** How what a ref leads to is named: a release by its own name, all else by its commit. */
function tagOf({ ref, isTag }: RepositoryLocation, commit: string | undefined): string | null {
  return ref !== null && (isTag || isRelease(ref)) ? ref : (commit ?? ref);
}

const DIGEST_CHARS = 12;

function digestOf(archive: Buffer): string {
  return createHash("sha256").update(archive).digest("hex").slice(0, DIGEST_CHARS);
}

function jsonOf(answer: { readonly json: Json } | "unreadable" | undefined): Json | undefined {
  return typeof answer === "object" ? answer.json : undefined;
}

function readCommit(
  answer: { readonly json: Json } | "unreadable" | undefined,
  field: string,
): string | undefined {
  const json = jsonOf(answer);
  const first = Array.isArray(json) ? (json[0] as Json | undefined) : json;
  const commit = isJsonObject(first) ? ownValue(first, field) : undefined;
  return typeof commit === "string" && isCommit(commit) ? commit : undefined;
}

/** A digest that the archive of a package should have. */
interface NpmDigest {
  readonly algorithm: string;
  readonly base64: string;
}

/** What digests are made by, the strongest first. */
const ALGORITHMS = ["sha512", "sha384", "sha256", "sha1"];

/** What a registry says the digest is: one of the strongest kind that it tells (`integrity`, or `shasum` of old packages). */
function npmDigests(dist: JsonObject): readonly NpmDigest[] {
  const [integrity, shasum] = [ownValue(dist, "integrity"), ownValue(dist, "shasum")];
  const told = (typeof integrity === "string" ? integrity.split(/\s+/) : []).flatMap((one) => {
    const [, algorithm = "", base64 = ""] = /^(sha\d+)-([A-Za-z0-9+/=]+)/.exec(one) ?? [];
    return [{ algorithm, base64 }];
  });
  if (typeof shasum === "string" && /^[0-9a-f]{40}$/i.test(shasum)) {
    told.push({ algorithm: "sha1", base64: Buffer.from(shasum, "hex").toString("base64") });
  }
  const strongest = ALGORITHMS.find((name) => told.some(({ algorithm }) => algorithm === name));
  return told.filter(({ algorithm }) => algorithm === strongest);
}

function digestBy(algorithm: string, archive: Buffer): string {
  return createHash(algorithm).update(archive).digest("base64");
}

function isKept(path: string): boolean {
  return KEPT.test(path) && !NOT_KEPT.test(path);
}

/**
 * The texts of a plugin, by path below its own folder: that of its `plugin.json`, at the top or in
 * the one folder that archives wrap around everything.
 */
async function filesBelow(
  found: readonly ArchiveFile[],
  folder: string,
): Promise<TransformationFiles> {
  const inside = folder === "" ? "" : `${folder.replace(/\/+$/, "")}/`;
  const paths = found.map(({ path }) => path);
  const top = `${inside}plugin.json`;
  const wrapped = paths.filter((path) => isBelowOne(path, top));
  const manifest = paths.includes(top) ? top : wrapped[0];
  if (manifest === undefined) throw noManifest();
  if (manifest !== top && wrapped.length > 1) {
    const folders = wrapped.map((path) => path.slice(0, path.indexOf("/")));
    throw unfit(`The archive holds several plugins: ${folders.join(", ").slice(0, 200)}.`);
  }
  const root = manifest.slice(0, -"plugin.json".length);
  const below = found.filter(({ path }) => path.startsWith(root));
  if (below.reduce((sum, { contents }) => sum + contents.byteLength, 0) > MAX_SOURCE_BYTES) {
    throw tooLong();
  }
  const slices = createSlices();
  const files: (readonly [path: string, text: string])[] = [];
  for (const { path, contents } of below) {
    files.push([path.slice(root.length), await textOf(contents, slices)]);
  }
  return bounded(files);
}

function isBelowOne(path: string, name: string): boolean {
  return path.slice(path.indexOf("/") + 1) === name && path.includes("/");
}

async function textOf(contents: Uint8Array, slices: Slices): Promise<string> {
  const decoder = new TextDecoder();
  let text = "";
  for (let from = 0; from < contents.length; from += PORTION_BYTES) {
    if (slices.isOver()) await slices.next();
    text += decoder.decode(contents.subarray(from, from + PORTION_BYTES), { stream: true });
  }
  return text + decoder.decode();
}

/** Decoded at once. */
const PORTION_BYTES = 1024 * 1024;

function bounded(files: readonly (readonly [path: string, text: string])[]): TransformationFiles {
  if (files.length > MAX_SOURCE_FILES) {
    throw unfit(`The plugin has more than ${MAX_SOURCE_FILES} files.`);
  }
  if (files.reduce((sum, [, text]) => sum + text.length, 0) > MAX_SOURCE_CHARS) {
    throw tooLong();
  }
  return Object.fromEntries(files);
}

function tooLong(): Refusal {
  return unfit(`The files of the plugin have more than ${MAX_SOURCE_CHARS} characters.`);
}

/** A folder of the server, read without following links out of it. */
async function readFolder(
  path: string,
  allowed: string | null,
): Promise<{ path: string; files: TransformationFiles }> {
  if (allowed === null) {
    throw unfit("Plugins cannot be installed from folders of this server.");
  }
  const missing = () =>
    new Refusal("invalid_input", `Could not load plugin.json from: ${join(path, "plugin.json")}`);
  const top = await realpath(allowed).catch(() => undefined);
  const folder = await realpath(path).catch(() => undefined);
  const below = top === undefined || folder === undefined ? ".." : relative(top, folder);
  if (folder === undefined || below === ".." || below.startsWith(`..${sep}`)) throw missing();
  const files: [string, string][] = [];
  let bytes = 0;
  const walk = async (at: string, prefix: string): Promise<void> => {
    for (const entry of await readdir(at, { withFileTypes: true })) {
      const name = prefix + entry.name;
      // Links are neither files nor folders here, and are passed by.
      if (entry.isDirectory() && entry.name !== "node_modules") {
        await walk(join(at, entry.name), `${name}/`);
      } else if (entry.isFile() && isKept(name)) {
        bytes += (await stat(join(at, entry.name))).size;
        if (bytes > MAX_UNPACKED_BYTES) throw unfit("The folder is too large.");
        files.push([name, await readFile(join(at, entry.name), "utf8")]);
      }
      if (files.length > MAX_SOURCE_FILES) bounded(files);
    }
  };
  await walk(folder, "").catch((error: unknown) => {
    throw error instanceof Refusal ? error : missing();
  });
  if (!files.some(([name]) => name === "plugin.json")) throw missing();
  return { path: folder, files: bounded(files.toSorted(([a], [b]) => (a < b ? -1 : 1))) };
}

function noManifest(): Refusal {
  return new Refusal("invalid_input", "Could not find plugin.json in the plugin");
}

function unfit(detail: string): Refusal {
  return new Refusal("invalid_input", detail, { attr: "url" });
}
