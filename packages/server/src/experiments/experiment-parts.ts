import type { Page } from "../http/pagination.ts";

/**
 * Records that experiments share, holdouts or metrics, as their owners handle them. Ids of other
 * projects' records are unknown ids.
 */
export interface ExperimentParts<Part, Draft, Change> {
  create(projectId: number, draft: Draft, authorId: number): Promise<Part>;
  /** Throws `not_found`. */
  update(projectId: number, id: number, change: Change, authorId: number): Promise<Part>;
  /** Throws `not_found`. */
  part(projectId: number, id: number): Promise<Part>;
  /** Newest first. */
  list(projectId: number, page: Page): Promise<{ count: number; parts: readonly Part[] }>;
  /** Throws `not_found`. */
  remove(projectId: number, id: number, authorId: number): Promise<void>;
}
