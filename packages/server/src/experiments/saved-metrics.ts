import type { JsonObject } from "@hedgerow/core/json";
import { describeChanges } from "../activity/describe-change.ts";
import { Refusal } from "../http/errors.ts";
import type { ExperimentPartStore, PartRecord } from "./experiment-part-store.ts";
import type { ExperimentParts } from "./experiment-parts.ts";

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

export type SavedMetricDraft = SavedMetricChange &
  Required<Pick<SavedMetricChange, "name" | "query">>;

/** Shared metrics: experiments measure what one is after a change, and none that is removed. */
export type SavedMetrics = ExperimentParts<SavedMetric, SavedMetricDraft, SavedMetricChange>;

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

    part: async (projectId, id) =>
      required((await savedMetricStore.parts(projectId, [id])).get(id)),

    async list(projectId, page) {
      const { count, parts } = await savedMetricStore.list(projectId, page);
      return { count, parts: parts.map(savedMetricOf) };
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
