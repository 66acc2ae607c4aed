import type { ProjectDefinitions } from "@hedgerow/core/flags/flag";
import type { FlagSet } from "@hedgerow/core/flags/flag-set";
import type { FlagStore, VersionedDefinitions } from "./flag-store.ts";

/** A project's flags as they stood at one revision, ready for evaluation. Never changes. */
export interface FlagSnapshot {
  readonly revision: number;
  readonly definitions: VersionedDefinitions;
  readonly flagSet: FlagSet;
}

/**
 * The flags of the projects in use, compiled when they change and not when they are asked for.
 * A bounded number of projects is held; the longest unused one is let go.
 */
export interface CompiledFlags {
  /**
   * The newest known flags of a project: at once when held, else after loading them (simultaneous
   * callers share one load). Rejects only when a first load fails.
   */
  get(projectId: number): FlagSnapshot | Promise<FlagSnapshot>;

  /**
   * Reads what is stored at the time of the call, so that whatever was committed before it is live
   * when it resolves. Rejects when the store cannot be read; `get` then keeps the earlier flags.
   */
  refresh(projectId: number): Promise<FlagSnapshot>;

  /**
   * Looks for changes made by other processes and takes them in. A fault is reported and leaves the
   * earlier flags in place; never rejects.
   */
  checkRevisions(): Promise<void>;
}

interface Held {
  snapshot: FlagSnapshot | undefined;
  /** The load under way. */
  loading: Promise<FlagSnapshot> | undefined;
  /** The load that starts after the one under way, for those who came while it ran. */
  following: Promise<FlagSnapshot> | undefined;
}

/** Keeps compiled flags in memory. */
export function createCompiledFlags({
  flagStore,
  compile,
  maxProjects = 1000,
  reportFault,
  onLoaded = () => {},
}: {
  flagStore: Pick<FlagStore, "definitions" | "revisions">;
  /** May keep of the earlier set whatever did not change. */
  compile: (definitions: ProjectDefinitions, earlier: FlagSet | undefined) => FlagSet;
  maxProjects?: number;
  reportFault: (error: unknown, context: string) => void;
  /** Told of every revision that is live from then on. */
  onLoaded?: (projectId: number, revision: number) => void;
}): CompiledFlags {
  // In order of use, the longest unused first.
  const projects = new Map<number, Held>();
  let mostRecent = Number.NaN;

  const held = (projectId: number): Held => {
    const known = projects.get(projectId);
    if (known && projectId === mostRecent) return known;
    const project = known ?? { snapshot: undefined, loading: undefined, following: undefined };
    projects.delete(projectId);
    projects.set(projectId, project);
    mostRecent = projectId;
    for (const oldest of projects.keys()) {
      if (projects.size <= maxProjects) break;
      projects.delete(oldest);
    }
    return project;
  };

  const load = (projectId: number, project: Held): Promise<FlagSnapshot> => {
    const loading = (async () => {
      const definitions = await flagStore.definitions(projectId, project.snapshot?.definitions);
      const { revision } = definitions;
      // Two loads may overlap: the older answer must not replace the newer one.
      if (project.snapshot && project.snapshot.revision >= revision) return project.snapshot;
      const flagSet = compile(definitions, project.snapshot?.flagSet);
      project.snapshot = { revision, definitions, flagSet };
      onLoaded(projectId, revision);
      return project.snapshot;
    })().finally(() => {
      project.loading = undefined;
    });
    project.loading = loading;
    return loading;
  };

  const refresh = (projectId: number): Promise<FlagSnapshot> => {
    const project = held(projectId);
    if (project.loading === undefined) return load(projectId, project);
    // The load under way may have read before the change that the caller wants to see.
    project.following ??= project.loading
      .catch(() => undefined)
      .then(() => {
        project.following = undefined;
        return load(projectId, project);
      });
    return project.following;
  };

  return {
    get(projectId) {
      const project = held(projectId);
      return project.snapshot ?? project.loading ?? load(projectId, project);
    },

    refresh,

    async checkRevisions() {
      const loaded = new Map<number, number>();
      for (const [projectId, { snapshot }] of projects) {
        if (snapshot) loaded.set(projectId, snapshot.revision);
      }
      let stored: ReadonlyMap<number, number>;
      try {
        stored = await flagStore.revisions([...loaded.keys()]);
      } catch (error) {
        reportFault(error, "the revisions of flags could not be read");
        return;
      }
      for (const [projectId, revision] of loaded) {
        if ((stored.get(projectId) ?? 0) <= revision) continue;
        await refresh(projectId).catch((error: unknown) =>
          reportFault(error, `changed flags of project ${projectId} could not be read`),
        );
      }
    },
  };
}

/**
 * Calls `checkRevisions` again and again, `intervalMs` after the last one ended, until stopped; does
 * not keep the process alive. Stopping resolves once a running check has ended.
 */
export function watchRevisions(
  compiledFlags: Pick<CompiledFlags, "checkRevisions">,
  intervalMs = 500,
): () => Promise<void> {
  let running = Promise.resolve();
  let timer: NodeJS.Timeout | undefined;
  const schedule = () => {
    timer = setTimeout(() => {
      running = compiledFlags.checkRevisions().then(() => {
        if (timer) schedule();
      });
    }, intervalMs).unref();
  };
  schedule();
  return async () => {
    clearTimeout(timer);
    timer = undefined;
    await running;
  };
}
