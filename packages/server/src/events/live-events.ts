import { rowsOfProjects } from "./event-rows.ts";
import type { EventRow, EventRows } from "./event-store.ts";

/** Which events of a project a reader wants. */
export interface LiveFilter {
  readonly projectId: number;
  readonly event?: string;
  readonly distinctId?: string;
}

/** Where a reader's events go. */
export interface LiveReader {
  take(row: EventRow): void;
  /** No more comes. */
  end(): void;
}

/** Events as they are stored, for whoever is looking. Costs nothing while nobody is. */
export interface LiveEvents {
  /** To be told of rows that were stored. */
  publish(rows: EventRows): void;
  /** Lets a reader take what comes from now on; answers what ends it, or that there are too many. */
  join(filter: LiveFilter, reader: LiveReader): (() => void) | "too-many";
  /** Ends all readers. */
  close(): void;
}

/** Readers of one project at a time. */
export const MAX_READERS = 10;

/** {@link LiveEvents} without readers. */
export function createLiveEvents(): LiveEvents {
  const readers = new Map<number, Map<LiveReader, LiveFilter>>();
  let isClosed = false;

  return {
    publish(rows) {
      if (readers.size === 0) return;
      for (const row of rowsOfProjects(rows, (projectId) => readers.has(projectId))) {
        const ofProject = readers.get(row.event.projectId) ?? [];
        for (const [reader, filter] of ofProject) if (isWanted(row, filter)) reader.take(row);
      }
    },
    join(filter, reader) {
      const { projectId } = filter;
      const ofProject = readers.get(projectId) ?? new Map<LiveReader, LiveFilter>();
      if (ofProject.size >= MAX_READERS || isClosed) return "too-many";
      ofProject.set(reader, filter);
      readers.set(projectId, ofProject);
      return () => {
        ofProject.delete(reader);
        if (ofProject.size === 0 && readers.get(projectId) === ofProject) readers.delete(projectId);
      };
    },
    close() {
      isClosed = true;
      const all = [...readers.values()].flatMap((ofProject) => [...ofProject.keys()]);
      readers.clear();
      for (const reader of all) reader.end();
    },
  };
}

function isWanted({ event }: EventRow, filter: LiveFilter): boolean {
  return (
    (filter.event === undefined || event.event === filter.event) &&
    (filter.distinctId === undefined || event.distinctId === filter.distinctId)
  );
}
