import { configFieldsOf } from "@hedgerow/core/transformations/config-schema";
import type {
  Transformation,
  TransformationFiles,
} from "@hedgerow/core/transformations/transformation";
import type { AccountStore } from "../accounts/account-store.ts";
import { Refusal } from "../http/errors.ts";
import { createGates } from "../platform/gate.ts";
import type { CatalogueEntry } from "./catalogue.ts";
import { readSourceFiles } from "./compile-source.ts";
import { catalogueTag, type FetchPlugin } from "./fetch-plugin.ts";
import {
  type MissingSettings,
  missingSettings,
  type NewSetting,
  settingsBeyond,
} from "./lacking-settings.ts";
import { alreadyInstalled, newInstall, newSource } from "./new-transformation.ts";
import { CATALOGUE_URL, type PluginHosts, readPluginLocation } from "./plugin-location.ts";
import { type PluginManifest, readManifest } from "./plugin-manifest.ts";
import { type AccessLevel, refuseBelow } from "./plugins-access.ts";
import {
  type PreparedSource,
  prepareFetched,
  prepareSource,
  withdrawnFields,
} from "./prepare-source.ts";
import type { Sandbox } from "./sandbox.ts";
import {
  differences,
  type FileDifference,
  isSameSource,
  patched,
  type SourcePatch,
} from "./source-files.ts";
import { describeRemoval, describeTransformation } from "./tell-changes.ts";
import type { CompiledVersion, TransformationConfigStore } from "./transformation-config-store.ts";
import type {
  Asker,
  TransformationChange,
  TransformationRequest,
  TransformationView,
} from "./transformation-request.ts";
import type {
  NewTransformation,
  SourceDraft,
  TransformationFields,
  TransformationStore,
  TransformationWrite,
  VersionSummary,
} from "./transformation-store.ts";

/**
 * Transformations as their organizations handle them. Those that an organization does not see are
 * unknown ids to it (404); those of another one, which it sees, it cannot change (403).
 */
export interface Transformations {
  /** Throws where the operator lets nobody see transformations. */
  mayRead(): void;
  list(
    asker: Asker,
    page: { readonly limit: number; readonly offset: number },
  ): Promise<{ count: number; views: readonly TransformationView[] }>;
  view(asker: Asker, id: number): Promise<TransformationView>;
  /** Installs from an address, or takes up what is written here. */
  create(asker: Asker, request: TransformationRequest): Promise<TransformationView>;
  update(asker: Asker, id: number, change: TransformationChange): Promise<TransformationView>;
  remove(asker: Asker, id: number): Promise<void>;
  /** Files of the current version; none while there is no source. */
  source(
    asker: Asker,
    id: number,
  ): Promise<TransformationView & { readonly files: TransformationFiles }>;
  /** Changes files, and fields besides; a source that stays as it is makes no version. */
  updateSource(
    asker: Asker,
    id: number,
    patch: SourcePatch,
    change: TransformationChange,
  ): Promise<TransformationView & { readonly files: TransformationFiles }>;
  checkForUpdates(asker: Asker, id: number): Promise<TransformationView>;
  /** Moves to the newest state of what was installed from elsewhere; configs stay. */
  upgrade(
    asker: Asker,
    id: number,
  ): Promise<
    TransformationView & {
      readonly missing: readonly MissingSettings[];
      readonly newSettings: readonly NewSetting[];
    }
  >;
  unused(asker: Asker): Promise<readonly TransformationView[]>;
  /** What comes with the service; `installed` where the organization has it already. */
  repository(asker: Asker): Promise<
    readonly {
      readonly url: string;
      readonly tag: string;
      readonly manifest: PluginManifest;
      readonly installed: TransformationView | null;
    }[]
  >;
  versions(
    asker: Asker,
    id: number,
    page: { readonly limit: number; readonly offset: number },
  ): Promise<{ count: number; versions: readonly VersionSummary[] }>;
  version(asker: Asker, id: number, version: number): Promise<CompiledVersion>;
  /** What changed from one version to another, file by file. */
  difference(
    asker: Asker,
    id: number,
    from: number,
    to: number,
  ): Promise<readonly FileDifference[]>;
  /** Makes a version of the files of an earlier one. */
  rollBack(
    asker: Asker,
    id: number,
    version: number,
  ): Promise<TransformationView & { readonly files: TransformationFiles }>;
}

/** Times that a change is prepared anew because one of another process came first. */
const MAX_ATTEMPTS = 5;
/** Changes of one source that wait for each other. */
const MAX_WAITING_CHANGES = 100;
/** More are not looked at when somebody asks for all that an organization has. */
const ALL = { limit: 1_000, offset: 0 };

/** {@link Transformations} over their stores. */
export function createTransformations({
  store,
  configs,
  accounts,
  sandbox,
  fetchPlugin,
  catalogue,
  hosts,
  accessLevel,
  onChanged,
  clock,
}: {
  store: TransformationStore;
  configs: Pick<TransformationConfigStore, "configsOf">;
  accounts: Pick<AccountStore, "organization" | "projectsOf">;
  sandbox: Pick<Sandbox, "compile">;
  fetchPlugin: FetchPlugin;
  catalogue: () => Promise<readonly CatalogueEntry[]>;
  hosts: PluginHosts;
  accessLevel: AccessLevel;
  /** Told of projects in which something else runs now; the change is answered after that. */
  onChanged: (projectId: number) => Promise<void>;
  clock: () => Date;
}): Transformations {
  const mayRead = () => refuseBelow("config", accessLevel);

  const viewOf = async (transformation: Transformation): Promise<TransformationView> => {
    const organization = await accounts.organization(transformation.organizationId);
    return { transformation, organizationName: organization?.name ?? "" };
  };

  const seen = async ({ organizationId }: Asker, id: number): Promise<Transformation> => {
    mayRead();
    const found = await store.transformation(organizationId, id);
    if (!found) throw new Refusal("not_found", "Not found.");
    return found;
  };

  /** One that the asker may change. */
  const owned = async (asker: Asker, id: number, doing: string): Promise<Transformation> => {
    const found = await seen(asker, id);
    if (found.organizationId !== asker.organizationId) {
      const { organizationName } = await viewOf(found);
      throw new Refusal(
        "permission_denied",
        `This plugin installation is managed by another organization: ${organizationName}`,
      );
    }
    refuseBelow(
      "install",
      accessLevel,
      `Plugin ${doing} is not available for the current organization!`,
    );
    return found;
  };

  /** @param isGlobal whether it is shared so far */
  const mayShare = (change: TransformationChange, isGlobal: boolean): void => {
    if (change.isGlobal !== undefined && change.isGlobal !== isGlobal) {
      refuseBelow("root", accessLevel, "This organization can't manage global plugins!");
    }
  };

  const write = (asker: Asker): TransformationWrite => ({
    authorId: asker.userId,
    now: clock(),
    describe: describeTransformation,
  });

  /** Projects in which a transformation may be at work. */
  const projectsOf = async (id: number): Promise<ReadonlySet<number>> =>
    new Set((await configs.configsOf(id)).map(({ config }) => config.projectId));

  const tellChanged = async (projectIds: Iterable<number>): Promise<void> => {
    await Promise.all([...projectIds].map(onChanged));
  };

  const versionOf = async (id: number, version: number): Promise<CompiledVersion> => {
    const found = await store.version(id, version);
    if (found) return found;
    const { versions } = await store.versions(id, { limit: 1, offset: 0 });
    const wasThere = version > 0 && version < (versions[0]?.version ?? 0);
    throw new Refusal(
      "not_found",
      wasThere ? `Version ${version} is not kept any more.` : "Not found.",
    );
  };

  const filesOf = async ({ id, version }: Transformation): Promise<TransformationFiles> =>
    version === 0 ? {} : (await versionOf(id, version)).files;

  const sources = createGates({ maxRunning: 1, maxWaiting: MAX_WAITING_CHANGES });

  /**
   * Saves files that `plan` makes of the current ones, as a new version, after those that this
   * process saves already. Prepared anew when another version came meanwhile.
   */
  const saveFiles = async (...of: Parameters<typeof saveFilesNow>) => {
    const saved = await sources.through(of[1].id, () => saveFilesNow(...of));
    if (saved === "full") throw new Refusal("throttled", "Too many changes of the source wait.");
    return saved;
  };

  const saveFilesNow = async (
    asker: Asker,
    transformation: Transformation,
    plan: (
      files: TransformationFiles,
      current: Transformation,
    ) => {
      files: TransformationFiles;
      tag: string | null;
      restoredFrom?: number;
      isNew: boolean;
      /** The files as they are prepared already. */
      prepared?: PreparedSource;
    },
    change: TransformationChange & Partial<TransformationFields>,
  ): Promise<{ transformation: Transformation; files: TransformationFiles }> => {
    let current = await seen(asker, transformation.id);
    for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt++) {
      const before = await filesOf(current);
      const { isNew, ...planned } = plan(before, current);
      const prepared = isNew
        ? (planned.prepared ??
          (await prepareSource(sandbox, planned.files, { ...planned, attr: "source" })))
        : null;
      const saved = await store.update(
        current.id,
        () => ({ ...withdrawnFields(before, planned.files), ...prepared?.change, ...change }),
        prepared && { ...prepared.source, ifVersion: current.version },
        write(asker),
      );
      if (saved === undefined) throw new Refusal("not_found", "Not found.");
      if (saved !== "stale") {
        await tellChanged(await projectsOf(saved.id));
        return { transformation: saved, files: planned.files };
      }
      current = await seen(asker, current.id);
    }
    throw new Refusal("conflict", "The source is being changed by somebody else. Try again.");
  };

  const insert = async (
    asker: Asker,
    transformation: NewTransformation,
    source: SourceDraft | null,
  ): Promise<TransformationView> => {
    const saved = await store.create(asker.organizationId, transformation, source, write(asker));
    if (saved === "duplicate") throw alreadyInstalled(transformation.url ?? "");
    return viewOf(saved);
  };

  const install = async (
    asker: Asker,
    url: string,
    change: TransformationChange,
  ): Promise<TransformationView> => {
    const location = readPluginLocation(url, hosts);
    if (!location) {
      throw new Refusal(
        "invalid_input",
        "Must be a GitHub/GitLab repository or a npm package URL!",
      );
    }
    const plugin = await fetchPlugin.fetch(location);
    const prepared = await prepareFetched(sandbox, plugin);
    const made = newInstall(asker, location, plugin, prepared, { change, now: clock() });
    return insert(asker, made, prepared.source);
  };

  return {
    mayRead,

    async list(asker, page) {
      mayRead();
      const { count, transformations } = await store.list(asker.organizationId, page);
      return { count, views: await Promise.all(transformations.map(viewOf)) };
    },

    view: async (asker, id) => viewOf(await seen(asker, id)),

    async create(asker, request) {
      refuseBelow("install", accessLevel);
      mayShare(request, false);
      const { url, source, ...change } = request;
      if (typeof url === "string" && request.type !== "source") {
        if (source !== undefined) {
          throw new Refusal("invalid_input", "Give a url or a source, not both.", {
            attr: "source",
          });
        }
        return install(asker, url, change);
      }
      const made = newSource(change);
      if (source === undefined || Object.keys(source).length === 0) {
        return insert(asker, made, null);
      }
      if (made.type !== "source") {
        throw new Refusal("invalid_input", 'Only plugins of the type "source" have files here.', {
          attr: "source",
        });
      }
      const prepared = await prepareSource(sandbox, readSourceFiles(source), {
        tag: made.tag,
        attr: "source",
      });
      return insert(asker, { ...made, ...prepared.change }, prepared.source);
    },

    async update(asker, id, change) {
      const current = await owned(asker, id, "editing");
      mayShare(change, current.isGlobal);
      const saved = await store.update(current.id, () => change, null, write(asker));
      if (saved === undefined || saved === "stale") throw new Refusal("not_found", "Not found.");
      await tellChanged(await projectsOf(id));
      return viewOf(saved);
    },

    async remove(asker, id) {
      await owned(asker, id, "uninstallation");
      const projectIds = await projectsOf(id);
      const removed = await store.remove(
        id,
        (current) => {
          if (!current.isGlobal) return;
          throw new Refusal(
            "invalid_input",
            "This plugin is marked as global! Make it local before uninstallation",
          );
        },
        write(asker),
        (view, organizationId) => ({
          drafts: describeRemoval(view),
          // To other organizations, whoever it was is a stranger.
          authorId: organizationId === asker.organizationId ? asker.userId : null,
        }),
      );
      if (!removed) throw new Refusal("not_found", "Not found.");
      await tellChanged(projectIds);
    },

    async source(asker, id) {
      const transformation = await seen(asker, id);
      return { ...(await viewOf(transformation)), files: await filesOf(transformation) };
    },

    async updateSource(asker, id, patch, change) {
      const current = await owned(asker, id, "source editing");
      mayShare(change, current.isGlobal);
      const { transformation, files } = await saveFiles(
        asker,
        current,
        (before, { tag }) => {
          const after = readSourceFiles(patched(before, patch));
          return { files: after, tag, isNew: !isSameSource(before, after) };
        },
        change,
      );
      return { ...(await viewOf(transformation)), files };
    },

    async checkForUpdates(asker, id) {
      const current = await owned(asker, id, "update checking");
      const location = current.url === null ? undefined : readPluginLocation(current.url, hosts);
      if (!location || location.kind === "folder") return viewOf(current);
      const latestTag = await fetchPlugin.latestTag(location);
      const saved = await store.update(
        id,
        () => ({ latestTag, latestTagCheckedAt: clock() }),
        null,
        write(asker),
      );
      if (saved === undefined || saved === "stale") throw new Refusal("not_found", "Not found.");
      return viewOf(saved);
    },

    async upgrade(asker, id) {
      const current = await owned(asker, id, "upgrading");
      const location = current.url === null ? undefined : readPluginLocation(current.url, hosts);
      if (!location) return { ...(await viewOf(current)), missing: [], newSettings: [] };
      const plugin = await fetchPlugin.fetch(location);
      const prepared = await prepareFetched(sandbox, plugin);
      const { manifest } = prepared;
      const { transformation } = await saveFiles(
        asker,
        current,
        (before) => ({
          files: plugin.files,
          tag: plugin.tag,
          isNew: !isSameSource(before, plugin.files),
          prepared,
        }),
        {
          ...(manifest?.name !== undefined && { name: manifest.name }),
          tag: plugin.tag,
          latestTag: plugin.tag,
          latestTagCheckedAt: clock(),
        },
      );
      const projects = await accounts.projectsOf(asker.organizationId);
      const ownProjects = new Set(projects.map(({ id: projectId }) => projectId));
      const fields = configFieldsOf(transformation.configSchema);
      const newSettings = settingsBeyond(configFieldsOf(current.configSchema), fields);
      const missing = missingSettings(fields, await configs.configsOf(transformation.id)).filter(
        ({ projectId }) => ownProjects.has(projectId),
      );
      return { ...(await viewOf(transformation)), missing, newSettings };
    },

    async unused() {
      mayRead();
      return Promise.all((await store.unused()).map(viewOf));
    },

    async repository(asker) {
      mayRead();
      const { transformations } = await store.list(asker.organizationId, ALL);
      const own = new Map(
        transformations
          .filter(({ organizationId }) => organizationId === asker.organizationId)
          .map((one) => [one.url, one]),
      );
      return Promise.all(
        (await catalogue()).map(async (entry) => {
          const url = CATALOGUE_URL + entry.name;
          const installed = own.get(url);
          const manifest = readManifest(entry.files, null);
          if (!manifest) throw new Error(`${entry.name} of the catalogue has no plugin.json`);
          return {
            url,
            tag: catalogueTag(entry),
            manifest,
            installed: installed ? await viewOf(installed) : null,
          };
        }),
      );
    },

    async versions(asker, id, page) {
      const { id: known } = await seen(asker, id);
      return store.versions(known, page);
    },

    async version(asker, id, version) {
      const { id: known } = await seen(asker, id);
      return versionOf(known, version);
    },

    async difference(asker, id, from, to) {
      await seen(asker, id);
      // Nothing at all is what comes before the first version.
      const before = from === 0 ? {} : (await versionOf(id, from)).files;
      const after = (await versionOf(id, to)).files;
      return differences(before, after);
    },

    async rollBack(asker, id, version) {
      const current = await owned(asker, id, "source editing");
      const earlier = await versionOf(id, version);
      const { transformation, files } = await saveFiles(
        asker,
        current,
        (before) => ({
          files: earlier.files,
          tag: earlier.tag,
          restoredFrom: version,
          isNew: !isSameSource(before, earlier.files),
        }),
        { tag: earlier.tag },
      );
      return { ...(await viewOf(transformation)), files };
    },
  };
}
