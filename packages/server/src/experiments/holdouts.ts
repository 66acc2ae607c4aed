import { HOLDOUT_PREFIX } from "@hedgerow/core/flags/bucketing";
import type { JsonObject } from "@hedgerow/core/json";
import { describeChanges } from "../activity/describe-change.ts";
import { Refusal } from "../http/errors.ts";
import type { ExperimentPartStore, PartFields, PartRecord } from "./experiment-part-store.ts";
import type { ExperimentParts } from "./experiment-parts.ts";
import type { ExperimentStore } from "./experiment-store.ts";

/** One condition of a holdout: the share of people that it keeps out. */
export type HoldoutCondition = JsonObject & { readonly rollout_percentage: number };

/** People who are kept out of every experiment that names the holdout, as a record of it. */
export interface Holdout extends Omit<PartRecord, "content" | "tags"> {
  readonly conditions: readonly HoldoutCondition[];
}

/** What a caller may say of a holdout. */
export interface HoldoutChange {
  readonly name?: string;
  readonly description?: string | null;
  readonly conditions?: readonly HoldoutCondition[];
}

export type HoldoutDraft = HoldoutChange & Required<Pick<HoldoutChange, "name" | "conditions">>;

/** Holdouts: a change of one changes the flags of its experiments, which go on without one that is removed. */
export type Holdouts = ExperimentParts<Holdout, HoldoutDraft, HoldoutChange>;

/** {@link Holdouts} over a store. */
export function createHoldouts({
  holdoutStore,
  experimentStore,
  followHoldout,
  clock,
}: {
  holdoutStore: ExperimentPartStore;
  experimentStore: Pick<ExperimentStore, "list">;
  /** Brings an experiment and its flag in step with its holdout, which may be gone. */
  followHoldout: (projectId: number, experimentId: number, authorId: number) => Promise<unknown>;
  clock: () => Date;
}): Holdouts {
  const write = (authorId: number) => ({ authorId, now: clock(), describe: describeHoldout });
  const required = async (found: PartRecord | undefined): Promise<Holdout> => {
    if (!found) throw new Refusal("not_found", "Not found.");
    return holdoutOf(found);
  };

  const followAll = async (projectId: number, id: number, authorId: number): Promise<void> => {
    // Read to the end before the first change: what follows leaves the list.
    const ids: number[] = [];
    for (let offset = 0; ; offset += CHUNK) {
      const { experiments } = await experimentStore.list(projectId, {
        stage: null,
        archived: null,
        search: null,
        createdById: null,
        flagId: null,
        holdoutId: id,
        order: { by: "createdAt", descending: false },
        limit: CHUNK,
        offset,
      });
      ids.push(...experiments.map((experiment) => experiment.id));
      if (experiments.length < CHUNK) break;
    }
    for (const experimentId of ids) await followHoldout(projectId, experimentId, authorId);
  };

  return {
    create: async (projectId, { name, description = null, conditions }, authorId) =>
      holdoutOf(
        await holdoutStore.create(
          projectId,
          (id) => ({
            name,
            description,
            content: contentOf(id, conditions),
            tags: [],
            deleted: false,
          }),
          write(authorId),
        ),
      ),

    async update(projectId, id, { conditions, ...change }, authorId) {
      const saved = await required(
        await holdoutStore.update(
          projectId,
          id,
          () => ({ ...change, ...(conditions && { content: contentOf(id, conditions) }) }),
          write(authorId),
        ),
      );
      // Flags are brought in step even where nothing changed: a change that broke off is mended so.
      if (conditions) await followAll(projectId, id, authorId);
      return saved;
    },

    part: async (projectId, id) => required((await holdoutStore.parts(projectId, [id])).get(id)),

    async list(projectId, page) {
      const { count, parts } = await holdoutStore.list(projectId, page);
      return { count, parts: parts.map(holdoutOf) };
    },

    async remove(projectId, id, authorId) {
      await required(
        await holdoutStore.update(
          projectId,
          id,
          (): Partial<PartFields> => ({ deleted: true }),
          write(authorId),
        ),
      );
      await followAll(projectId, id, authorId);
    },
  };
}

/** How many experiments are read at a time. */
const CHUNK = 200;

/** A stored part as the holdout it is. */
export function holdoutOf({ content, tags: _, ...part }: PartRecord): Holdout {
  return { ...part, conditions: content.filters as readonly HoldoutCondition[] };
}

/** The variant that people in a holdout are answered. */
function holdoutVariant(id: number): string {
  return `${HOLDOUT_PREFIX}${id}`;
}

function contentOf(id: number, conditions: readonly HoldoutCondition[]): JsonObject {
  const variant = holdoutVariant(id);
  return { filters: conditions.map((condition) => ({ ...condition, variant })) };
}

const describeHoldout = describeChanges<PartRecord>({
  scope: "ExperimentHoldout",
  nameOf: ({ name }) => name,
  fields: ["name", "description", "content", "deleted"],
});

/**
 * A flag's filters with the people of a holdout kept out, or of none: in the form of today and in the
 * one before, which agree (flag-evaluation 9). All else stays as it is.
 */
export function withHoldout(filters: JsonObject, holdout: Holdout | null): JsonObject {
  const { holdout: _, holdout_groups: __, ...others } = filters;
  const [first] = holdout?.conditions ?? [];
  if (!holdout || !first) return others;
  return {
    ...others,
    holdout: { id: holdout.id, exclusion_percentage: first.rollout_percentage },
    holdout_groups: [...holdout.conditions],
  };
}
