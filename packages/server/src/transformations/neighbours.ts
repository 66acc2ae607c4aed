/** Tells whether events of other projects passed transformations lately. */
export interface Neighbours {
  note(projectId: number): void;
  has(projectId: number): boolean;
}

/** Events that came before this are forgotten. */
const LATELY_MS = 60_000;

export function createNeighbours(): Neighbours {
  let newest = { projectId: 0, atMs: Number.NEGATIVE_INFINITY };
  let other = newest;
  return {
    note(projectId) {
      if (newest.projectId !== projectId) other = newest;
      newest = { projectId, atMs: performance.now() };
    },
    has(projectId) {
      const { atMs } = newest.projectId === projectId ? other : newest;
      return performance.now() - atMs < LATELY_MS;
    },
  };
}
