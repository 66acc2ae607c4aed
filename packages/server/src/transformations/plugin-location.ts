/** Where a transformation can be installed from, as its address tells. */
export type PluginLocation =
  | {
      readonly kind: "github";
      readonly owner: string;
      readonly repository: string;
      /**
       * A commit, tag or branch; `null` for the newest commit. Where names of branches hold slashes,
       * it may go on in {@link folder}: only its host knows ({@link readingsOf}).
       */
      readonly ref: string | null;
      /** True where the address says that {@link ref} is a tag, and whole. */
      readonly isTag?: true;
      /** Folder of the plugin in the repository; empty for the top. */
      readonly folder: string;
      readonly token: string | null;
    }
  | {
      readonly kind: "gitlab";
      /** With its groups: `group/subgroup/project`. */
      readonly project: string;
      readonly ref: string | null;
      readonly isTag?: true;
      readonly folder: string;
      readonly token: string | null;
    }
  | { readonly kind: "npm"; readonly name: string; readonly version: string | null }
  | { readonly kind: "archive"; readonly url: string }
  | { readonly kind: "folder"; readonly path: string }
  | { readonly kind: "catalogue"; readonly name: string };

/** What addresses of the catalogue begin with. */
export const CATALOGUE_URL = "hedgerow:catalogue/";

/** Addresses of the services that host plugins, as people write them. */
export interface PluginHosts {
  readonly githubUrl: string;
  readonly gitlabUrl: string;
}

const NAME = "[A-Za-z0-9_.-]+";
/** Owner and name, a ref behind `@`, and what follows. */
const GITHUB = new RegExp(`^/(${NAME})/(${NAME}?)(?:\\.git)?(?:@([^/]+))?(/.+)?$`);
const GITLAB = new RegExp(
  `^/(${NAME}(?:/(?!-/)${NAME}?)+?)(?:\\.git)?(?:@([^/]+))?(/-/(?:commit|tree|blob|tags|releases)/.+)?$`,
);
const ARCHIVE = /^\/archive\/(?:refs\/(heads|tags)\/)?(.+?)(?:\.zip|\.tar\.gz|\.tgz)$/;
const NPM = /^\/package\/((?:@[a-z0-9~][\w.~-]*\/)?[a-z0-9~][\w.~-]*)(?:(?:\/v\/|@)([\w.+-]+))?$/i;
/** What names of refs never hold (git-check-ref-format). */
// biome-ignore lint/suspicious/noControlCharactersInRegex: no ref holds them
const NO_REF = /[\u0000-\u0020\u007f~^:?*[\\]|\.\.|@\{|\/\/|^\/|\/$|\.lock(?:\/|$)|(?:^|\/)\.|\.$/;
const MAX_REF_CHARS = 255;

/** Where in a repository an address leads. */
interface Inside {
  readonly ref: string | null;
  readonly isTag?: true;
  readonly folder: string;
}

const TOP: Inside = { ref: null, folder: "" };

/**
 * Reads the address of a plugin (posthog-api 6.3): a repository on GitHub or GitLab, a package of
 * npm, an archive, a folder of the server, or one of the catalogue. `undefined` for all else.
 */
export function readPluginLocation(text: string, hosts: PluginHosts): PluginLocation | undefined {
  const trimmed = text.trim();
  if (trimmed.startsWith(CATALOGUE_URL)) {
    const name = trimmed.slice(CATALOGUE_URL.length).replace(/\/+$/, "");
    return { kind: "catalogue", name };
  }
  if (trimmed.startsWith("file:")) {
    return { kind: "folder", path: decode(trimmed.slice("file:".length).replace(/^\/\/\//, "/")) };
  }
  const address = trimmed.replace(/^git\+(?=https?:)/i, "");
  if (!/^https?:\/\//i.test(address) || !URL.canParse(address)) return undefined;
  const url = new URL(address);
  const path = decode(url.pathname.replace(/\/+$/, ""));
  const token = url.searchParams.get("private_token");
  const onGithub = pathOn(url, path, "github.com", hosts.githubUrl);
  if (onGithub !== undefined) {
    // Mirrors serve files as well, whose addresses may look like those of repositories.
    const isMirror = pathOn(url, path, "github.com", "") === undefined;
    const [, owner = "", repository = "", version, tail] = GITHUB.exec(onGithub) ?? [];
    const inside = insideOf(url, version, tail, readGithubTail);
    const isFile = isMirror && isArchive(path) && !/^\/archive\//.test(tail ?? "");
    if (inside && repository !== "" && !isDots(owner) && !isDots(repository) && !isFile) {
      return { kind: "github", owner, repository, ...inside, token };
    }
  }
  const onGitlab = pathOn(url, path, "gitlab.com", hosts.gitlabUrl);
  if (onGitlab !== undefined && !isArchive(path)) {
    const [, project, version, tail] = GITLAB.exec(onGitlab) ?? [];
    const inside = insideOf(url, version, tail, readGitlabTail);
    if (inside && project?.split("/").every(isPart)) {
      return { kind: "gitlab", project, ...inside, token };
    }
  }
  if (/^(?:www\.)?npmjs\.com$/i.test(url.host)) {
    const [, name, version] = NPM.exec(path) ?? [];
    return name === undefined ? undefined : { kind: "npm", name, version: version ?? null };
  }
  return isArchive(url.pathname) ? { kind: "archive", url: url.href } : undefined;
}

/**
 * What an address may mean whose ref may hold slashes, the shortest ref first. A host has no two
 * branches of which one goes on from the other, so that at most one is there.
 */
export function readingsOf<Location extends PluginLocation & { kind: "github" | "gitlab" }>(
  location: Location,
): readonly Location[] {
  const { ref, folder, isTag } = location;
  if (ref === null || folder === "" || isTag || isCommit(ref)) return [location];
  const parts = folder.split("/").slice(0, MAX_REF_PARTS);
  return [location, ...parts.map((_, index) => withLongerRef(location, index + 1))].filter(
    (one) => one.ref === null || isRef(one.ref),
  );
}

/** More parts of a ref are not tried. */
const MAX_REF_PARTS = 4;

function withLongerRef<Location extends PluginLocation & { kind: "github" | "gitlab" }>(
  location: Location,
  count: number,
): Location {
  const parts = location.folder.split("/");
  return {
    ...location,
    ref: [location.ref, ...parts.slice(0, count)].join("/"),
    folder: parts.slice(count).join("/"),
  };
}

/** `/tree/main/a`, `/releases/tag/v1`, `/archive/refs/tags/v1.zip`, …; `undefined` for other pages. */
function readGithubTail(tail: string): Inside | undefined {
  const [, kind, ref] = ARCHIVE.exec(tail) ?? [];
  if (ref !== undefined) {
    return kind === "tags" ? { ref, isTag: true, folder: "" } : { ref, folder: "" };
  }
  return readTail(tail, /^\/(?:commit|tree|blob)\/(.+)$/, /^\/releases\/tag\/(.+)$/);
}

function readGitlabTail(tail: string): Inside | undefined {
  return readTail(tail, /^\/-\/(?:commit|tree|blob)\/(.+)$/, /^\/-\/(?:tags|releases)\/(.+)$/);
}

function readTail(tail: string, tree: RegExp, tags: RegExp): Inside | undefined {
  const [, tag] = tags.exec(tail) ?? [];
  if (tag !== undefined) return { ref: tag, isTag: true, folder: "" };
  const [, rest] = tree.exec(tail) ?? [];
  if (rest === undefined) return undefined;
  const [ref = "", ...folder] = rest.replace(/\/plugin\.json$/, "").split("/");
  return { ref, folder: folder.join("/") };
}

/** `undefined` for what is no place in a repository. A ref may stand behind `@` or `#` as well. */
function insideOf(
  url: URL,
  version: string | undefined,
  tail: string | undefined,
  read: (tail: string) => Inside | undefined,
): Inside | undefined {
  // Homepages of packages end so.
  const anchor = url.hash.toLowerCase() === "#readme" ? "" : decode(url.hash.slice(1));
  const named = version ?? (anchor === "" ? undefined : anchor);
  if (tail !== undefined) {
    // Behind a page, an anchor is a place on it.
    const inside = version === undefined ? read(tail) : undefined;
    return inside && isFit(inside) ? withoutHead(inside) : undefined;
  }
  if (named === undefined) return TOP;
  return isRef(named) ? withoutHead({ ref: named, folder: "" }) : undefined;
}

function isFit({ ref, folder }: Inside): boolean {
  return (
    ref !== null && isRef(ref) && (folder === "" || folder.split("/").every((part) => isPart(part)))
  );
}

function isPart(part: string): boolean {
  return part !== "" && !isDots(part);
}

function isRef(ref: string): boolean {
  return ref !== "" && ref.length <= MAX_REF_CHARS && !NO_REF.test(ref) && ref !== "@";
}

/** `HEAD` is what is meant where nothing is named. */
function withoutHead(inside: Inside): Inside {
  return inside.ref === "HEAD" ? { ...inside, ref: null } : inside;
}

/**
 * The address that is kept of a plugin. It says what to look at for updates: commits, tags and
 * versions are left out, branches and folders are not.
 */
export function writePluginLocation(location: PluginLocation): string {
  switch (location.kind) {
    case "github": {
      const { owner, repository, token } = location;
      return `https://github.com/${owner}/${repository}${treeOf(location, "/tree")}${queryOf(token)}`;
    }
    case "gitlab": {
      const { project, token } = location;
      return `https://gitlab.com/${project}${treeOf(location, "/-/tree")}${queryOf(token)}`;
    }
    case "npm":
      return `https://www.npmjs.com/package/${location.name}`;
    case "archive":
      return location.url;
    case "folder":
      return `file:${location.path}`;
    case "catalogue":
      return CATALOGUE_URL + location.name;
  }
}

/**
 * What two addresses have in common that mean one plugin: branches, versions and secrets make no
 * other one of it, a folder does. Hosts of repositories take names in any case.
 */
export function identityOf(location: PluginLocation): string {
  switch (location.kind) {
    case "github":
    case "gitlab": {
      const repository = writePluginLocation({ ...location, ref: null, folder: "", token: null });
      const { folder } = location;
      return repository.toLowerCase() + (folder === "" ? "" : `/tree/HEAD/${asPath(folder)}`);
    }
    case "archive":
      return shownAddress(location.url).replace(/\/+$/, "");
    case "npm":
    case "folder":
    case "catalogue":
      return writePluginLocation(location);
  }
}

/** An address as it may be told: without name, password and query, which may be secret. */
export function shownAddress(address: string): string {
  const [bare = ""] = address.split("?", 1);
  return bare.replace(/^([a-z][a-z0-9+.-]*:\/\/)[^/]*@/i, "$1");
}

/** Whether a ref always means the same files: a commit, or what looks like a release. */
export function isPinned(ref: string): boolean {
  return isCommit(ref) || isRelease(ref);
}

/** Whether a ref looks like a release: it is told by its name, not by the commit that it is. */
export function isRelease(ref: string): boolean {
  return /^v?\d+(?:\.\d+)+/i.test(ref);
}

/** Whether a ref is a commit's hash. */
export function isCommit(ref: string): boolean {
  return /^[0-9a-f]{7,64}$/i.test(ref);
}

function treeOf({ ref, isTag, folder }: Inside, tree: string): string {
  const branch = ref === null || isTag || isPinned(ref) ? null : ref;
  if (folder === "") return branch === null ? "" : `${tree}/${asPath(branch)}`;
  return `${tree}/${branch === null ? "HEAD" : asPath(branch)}/${asPath(folder)}`;
}

/** A ref or a folder as part of a path. */
export function asPath(text: string): string {
  return encodeURI(text).replace(/[?#]/g, encodeURIComponent);
}

function queryOf(token: string | null): string {
  return token === null ? "" : `?private_token=${encodeURIComponent(token)}`;
}

/**
 * What of a path stands below a service, which may be a mirror below a path of its server;
 * `undefined` for addresses of other servers.
 */
function pathOn(url: URL, path: string, host: string, configured: string): string | undefined {
  if (url.host.replace(/^www\./i, "") === host) return path;
  const mirror = URL.canParse(configured) ? new URL(configured) : undefined;
  if (mirror?.host !== url.host) return undefined;
  const top = decode(mirror.pathname.replace(/\/+$/, ""));
  return path.startsWith(`${top}/`) ? path.slice(top.length) : undefined;
}

function isArchive(path: string): boolean {
  return /\.(?:zip|tgz|tar|tar\.gz)$/i.test(path);
}

function isDots(name: string): boolean {
  return name === "." || name === "..";
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
