/** Whom a change of a project's flags is told. */
export interface ChangeListener {
  /** The revision of the definitions; told at least once for the newest. */
  changed(revision: number): void;
  /** No more comes. */
  end(): void;
}

/** Tells of changes of flags, for clients that would have to ask again and again. */
export interface FlagChanges {
  /** To be told whenever definitions were read; what was told of before is not told again. */
  publish(projectId: number, revision: number): void;
  /** Tells a listener of changes from now on; answers what ends that, or that there are too many. */
  join(projectId: number, revision: number, listener: ChangeListener): (() => void) | "too-many";
  /** Ends all listeners. */
  close(): void;
}

/** Listeners of one project, and of all. */
export const MAX_LISTENERS = 1_000;
const MAX_ALL = 5_000;

interface Followed {
  revision: number;
  readonly listeners: Set<ChangeListener>;
}

/** {@link FlagChanges} without listeners. */
export function createFlagChanges(): FlagChanges {
  const projects = new Map<number, Followed>();
  let count = 0;
  let isClosed = false;

  return {
    publish(projectId, revision) {
      const followed = projects.get(projectId);
      if (!followed || followed.revision >= revision) return;
      followed.revision = revision;
      for (const listener of followed.listeners) listener.changed(revision);
    },

    join(projectId, revision, listener) {
      const followed = projects.get(projectId) ?? { revision, listeners: new Set() };
      if (isClosed || followed.listeners.size >= MAX_LISTENERS || count >= MAX_ALL) {
        return "too-many";
      }
      projects.set(projectId, followed);
      followed.listeners.add(listener);
      count += 1;
      return () => {
        if (!followed.listeners.delete(listener)) return;
        count -= 1;
        if (followed.listeners.size === 0) projects.delete(projectId);
      };
    },

    close() {
      isClosed = true;
      for (const { listeners } of projects.values()) for (const one of listeners) one.end();
    },
  };
}
