/** Where a transformation can be installed from, as its address tells. */
export type PluginLocation =
  | {
      readonly kind: "github";
      readonly owner: string;
      readonly repository: string;
      /** A commit, tag or branch; `null` for the newest commit. */
      readonly ref: string | null;
      /** Folder of the plugin in the repository; empty for the top. */
      readonly folder: string;
      readonly token: string | null;
    }
  | {
      readonly kind: "gitlab";
      /** With its groups: `group/subgroup/project`. */
      readonly project: string;
      readonly ref: string | null;
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
const GITHUB = new RegExp(
  `^/(${NAME})/(${NAME}?)(?:\\.git)?(?:/(?:commit|tree|blob|releases/tag)/(${NAME})(?:/([A-Za-z0-9_.\\-/]+))?)?$`,
);
const GITHUB_ARCHIVE = new RegExp(
  `^/(${NAME})/(${NAME})/archive/(?:refs/(?:heads|tags)/)?([A-Za-z0-9_.\\-/]+?)(?:\\.zip|\\.tar\\.gz|\\.tgz)$`,
);
const GITLAB = new RegExp(
  `^/(${NAME}(?:/${NAME})+?)(?:\\.git)?(?:/-/(?:commit|tree|tags)/(${NAME})(?:/([A-Za-z0-9_.\\-/]+))?)?$`,
);
const NPM = /^\/package\/((?:@[a-z0-9][\w.-]*\/)?[a-z0-9~][\w.-]*)(?:\/v\/([\w.+-]+))?$/i;

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
  if (!/^https?:\/\//i.test(trimmed) || !URL.canParse(trimmed)) return undefined;
  const url = new URL(trimmed);
  const path = url.pathname.replace(/\/+$/, "");
  const token = url.searchParams.get("private_token");
  if (isHost(url, "github.com", hosts.githubUrl)) {
    const archive = GITHUB_ARCHIVE.exec(path);
    // Mirrors serve files as well, whose addresses may look like those of repositories.
    const isFile = isArchive(path) && !isHost(url, "github.com", "");
    const match = archive ?? (isFile ? null : GITHUB.exec(path));
    if (match) {
      const [, owner = "", repository = "", ref, folder] = match;
      if (isDots(owner) || isDots(repository) || repository === "") return undefined;
      return {
        kind: "github",
        owner,
        repository,
        ref: refOf(ref),
        folder: archive ? "" : (folder ?? ""),
        token,
      };
    }
  }
  if (isHost(url, "gitlab.com", hosts.gitlabUrl) && !isArchive(path)) {
    const [, project, ref, folder] = GITLAB.exec(path) ?? [];
    if (project !== undefined && !project.split("/").some(isDots)) {
      return { kind: "gitlab", project, ref: refOf(ref), folder: folder ?? "", token };
    }
  }
  if (/^(?:www\.)?npmjs\.com$/i.test(url.host)) {
    const [, name, version] = NPM.exec(decode(path)) ?? [];
    return name === undefined ? undefined : { kind: "npm", name, version: version ?? null };
  }
  return isArchive(path) ? { kind: "archive", url: url.href } : undefined;
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

function treeOf(
  { ref, folder }: { readonly ref: string | null; readonly folder: string },
  tree: string,
): string {
  const branch = ref === null || isPinned(ref) ? null : ref;
  if (folder === "") return branch === null ? "" : `${tree}/${branch}`;
  return `${tree}/${branch ?? "HEAD"}/${folder}`;
}

function queryOf(token: string | null): string {
  return token === null ? "" : `?private_token=${encodeURIComponent(token)}`;
}

/** `HEAD` is what is meant where nothing is named. */
function refOf(ref: string | undefined): string | null {
  return ref === undefined || ref === "HEAD" ? null : ref;
}

function isHost(url: URL, host: string, configured: string): boolean {
  const bare = url.host.replace(/^www\./i, "");
  return bare === host || (URL.canParse(configured) && url.host === new URL(configured).host);
}

function isArchive(path: string): boolean {
  return /\.(?:zip|tgz|tar\.gz)$/i.test(path);
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
