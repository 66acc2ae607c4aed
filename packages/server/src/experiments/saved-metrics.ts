import type { JsonObject } from "@hedgerow/core/json";
import { describeChanges } from "../activity/describe-change.ts";
import { Refusal } from "../http/errors.ts";
import type { Page } from "../http/pagination.ts";
import type { ExperimentPartStore, PartRecord } from "./experiment-part-store.ts";

/** A metric that experiments share. */
export interface SavedMetric extends Omit<PartRecord, "content"> {
  /** As sent, with a uuid and a fingerprint. */
  readonly query: JsonObject;
}

/** What a caller may say of a shared metric. */
export interface SavedMetricChange {
  readonly name?: string;
  readonly description?: string | null;
  readonly query?: JsonObject;
  readonly tags?: readonly string[];
}

/** Shared metrics as their owners handle them. Ids of other projects' metrics are unknown ids. */
export interface SavedMetrics {
  create(
    projectId: number,
    draft: SavedMetricChange & Required<Pick<SavedMetricChange, "name" | "query">>,
    authorId: number,
  ): Promise<SavedMetric>;
  /** Experiments measure what it is from then on. Throws `not_found`. */
  update(
    projectId: number,
    id: number,
    change: SavedMetricChange,
    authorId: number,
  ): Promise<SavedMetric>;
  /** Throws `not_found`. */
  savedMetric(projectId: number, id: number): Promise<SavedMetric>;
  list(
    projectId: number,
    page: Page,
  ): Promise<{ count: number; savedMetrics: readonly SavedMetric[] }>;
  /** No experiment measures it any more. Throws `not_found`. */
  remove(projectId: number, id: number, authorId: number): Promise<void>;
}

/** {@link SavedMetrics} over a store. */
export function createSavedMetrics({
  savedMetricStore,
  clock,
}: {
  savedMetricStore: ExperimentPartStore;
  clock: () => Date;
}): SavedMetrics {
  const write = (authorId: number) => ({ authorId, now: clock(), describe: describeSavedMetric });
  const required = (found: PartRecord | undefined): SavedMetric => {
    if (!found) throw new Refusal("not_found", "Not found.");
    return savedMetricOf(found);
  };

  return {
    create: async (projectId, { name, description = null, query, tags = [] }, authorId) =>
      savedMetricOf(
        await savedMetricStore.create(
          projectId,
          () => ({ name, description, content: { query }, tags, deleted: false }),
          write(authorId),
        ),
      ),

    update: async (projectId, id, { query, ...change }, authorId) =>
      required(
        await savedMetricStore.update(
          projectId,
          id,
          () => ({ ...change, ...(query && { content: { query } }) }),
          write(authorId),
        ),
      ),

    savedMetric: async (projectId, id) =>
      required((await savedMetricStore.parts(projectId, [id])).get(id)),

    async list(projectId, page) {
      const { count, parts } = await savedMetricStore.list(projectId, page);
      return { count, savedMetrics: parts.map(savedMetricOf) };
    },

    async remove(projectId, id, authorId) {
      required(
        await savedMetricStore.update(projectId, id, () => ({ deleted: true }), write(authorId)),
      );
    },
  };
}

/** A stored part as the metric it is. */
export function savedMetricOf({ content, ...part }: PartRecord): SavedMetric {
  return { ...part, query: content.query as JsonObject };
}

const describeSavedMetric = describeChanges<PartRecord>({
  scope: "ExperimentSavedMetric",
  nameOf: ({ name }) => name,
  fields: ["name", "description", "content", "tags", "deleted"],
});
