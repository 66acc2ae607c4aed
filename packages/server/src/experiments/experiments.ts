import { isDeepStrictEqual } from "node:util";
import type { JsonObject } from "@hedgerow/core/json";
import type { CohortRecord } from "../cohorts/cohort-store.ts";
import type { Cohorts } from "../cohorts/cohorts.ts";
import type { ChangeDefinitions } from "../flags/change-definitions.ts";
import type { FlagRecord, VersionedDefinitions } from "../flags/flag-store.ts";
import type { Flags } from "../flags/flags.ts";
import { Refusal } from "../http/errors.ts";
import { describeExperiment, NEW_EXPERIMENT } from "./experiment-fields.ts";
import {
  type Ending,
  ended,
  hasNoFlag,
  refuseBadDates,
  refuseUnstarted,
  statusOf,
  wrongState,
} from "./experiment-life.ts";
import type {
  ExperimentFields,
  ExperimentListQuery,
  ExperimentRecord,
  ExperimentStore,
  SavedMetricLink,
} from "./experiment-store.ts";
import { type ExperimentView, type ReferredTo, viewsOf } from "./experiment-view.ts";
import { hasCohort, planExposureCohort, type ReadMarker } from "./exposure-cohort.ts";
import {
  askedVariants,
  filtersForExperiment,
  filtersShipping,
  groupTypeOf,
  refuseOtherVariants,
  refuseStartOn,
  refuseUnfitFlag,
  variantsOf,
  withVariants,
} from "./flag-of-experiment.ts";
import { type Holdout, holdoutOf, withHoldout } from "./holdouts.ts";

/** What a caller may say of an experiment; all of it optional but its name, when it is new. */
export type ExperimentChange = Partial<
  Omit<ExperimentFields, "flagId" | "deleted" | "exposureCohortId">
>;

/** What a caller says of a new experiment. */
export type ExperimentDraft = ExperimentChange & {
  readonly name: string;
  readonly flagKey: string;
};

/** Experiments as their owners handle them. Ids of other projects' experiments are unknown ids. */
export interface Experiments {
  /**
   * Creates an experiment on a flag: an existing one with at least two variants, the first `control`, or
   * a new one, switched on only when the experiment starts at once.
   */
  create(projectId: number, draft: ExperimentDraft, authorId: number): Promise<ExperimentView>;
  update(
    projectId: number,
    id: number,
    change: ExperimentChange,
    authorId: number,
  ): Promise<ExperimentView>;
  /** Throws `not_found`, for deleted ones too. */
  experiment(projectId: number, id: number): Promise<ExperimentView>;
  list(
    projectId: number,
    query: ExperimentListQuery,
  ): Promise<{ count: number; experiments: readonly ExperimentView[] }>;
  /** The flag stays, and goes on as it is. */
  remove(projectId: number, id: number, authorId: number): Promise<void>;
  /** A draft like another experiment, on the same flag, or on another one as `create` finds or makes it. */
  duplicate(
    projectId: number,
    id: number,
    copy: { readonly name?: string; readonly flagKey?: string },
    authorId: number,
  ): Promise<ExperimentView>;
  /** Starts a draft and switches its flag on. */
  launch(projectId: number, id: number, authorId: number): Promise<ExperimentView>;
  /** Switches the flag of a running experiment off, and on again. */
  pause(projectId: number, id: number, authorId: number): Promise<ExperimentView>;
  resume(projectId: number, id: number, authorId: number): Promise<ExperimentView>;
  /** Ends a running experiment; its flag goes on serving. */
  end(projectId: number, id: number, ending: Ending, authorId: number): Promise<ExperimentView>;
  /** Gives everyone one variant, and ends the experiment where it runs. */
  shipVariant(
    projectId: number,
    id: number,
    variantKey: string,
    ending: Ending,
    authorId: number,
  ): Promise<ExperimentView>;
  archive(
    projectId: number,
    id: number,
    archived: boolean,
    authorId: number,
  ): Promise<ExperimentView>;
  /** Makes the cohort of those who were exposed since the start; an experiment has one. */
  createExposureCohort(
    projectId: number,
    id: number,
    authorId: number,
    readMarker: ReadMarker,
  ): Promise<ExperimentView & { readonly cohort: CohortRecord }>;
  /** Brings an experiment and its flag in step with its holdout, which may be gone. */
  followHoldout(projectId: number, id: number, authorId: number): Promise<ExperimentView>;
}

const NOT_FOUND = () => new Refusal("not_found", "Not found.");

/** How often a change of a flag is tried against others who change it at the same time. */
const MAX_FLAG_CHANGES = 10;

/** {@link Experiments} over a store and the management of flags. */
export function createExperiments({
  experimentStore,
  holdoutStore,
  savedMetricStore,
  flags,
  flagsById,
  cohorts,
  definitionsOf,
  changeDefinitions,
  clock,
}: ReferredTo & {
  experimentStore: ExperimentStore;
  flags: Pick<Flags, "create" | "update">;
  cohorts: Pick<Cohorts, "create">;
  /** The project's definitions as they are stored now. */
  definitionsOf: (projectId: number) => Promise<VersionedDefinitions>;
  changeDefinitions: ChangeDefinitions;
  clock: () => Date;
}): Experiments {
  /** Ids of the experiments whose cohort is being made. */
  const gettingCohorts = new Set<number>();

  const referredTo = { flagsById, holdoutStore, savedMetricStore };
  const viewOf = async (projectId: number, found: ExperimentRecord): Promise<ExperimentView> => {
    const [view] = await viewsOf(projectId, [found], referredTo);
    if (!view) throw new Error("an experiment has no view");
    return view;
  };
  const experiment = async (projectId: number, id: number): Promise<ExperimentView> => {
    const found = await experimentStore.experiment(projectId, id);
    if (!found) throw NOT_FOUND();
    return await viewOf(projectId, found);
  };
  const holdoutNamed = async (projectId: number, id: number | null): Promise<Holdout | null> => {
    if (id === null) return null;
    const found = (await holdoutStore.parts(projectId, [id])).get(id);
    if (!found) {
      throw new Refusal("does_not_exist", `Invalid pk "${id}" - object does not exist.`, {
        attr: "holdout_id",
      });
    }
    return holdoutOf(found);
  };
  const refuseUnknownMetrics = async (
    projectId: number,
    links: readonly SavedMetricLink[] | undefined,
  ): Promise<void> => {
    if (!links) return;
    const ids = links.map(({ savedMetricId }) => savedMetricId);
    if ((await savedMetricStore.parts(projectId, ids)).size === ids.length) return;
    throw new Refusal("invalid_input", "Saved metric does not exist", {
      attr: "saved_metrics_ids",
    });
  };

  /** Saves what `decide` says; live in flag requests when the promise resolves. */
  const save = async (
    projectId: number,
    id: number,
    decide: (current: ExperimentRecord) => Partial<ExperimentFields>,
    authorId: number,
  ): Promise<ExperimentView> => {
    const saved = await changeDefinitions(projectId, async () => ({
      experiment: await experimentStore.update(projectId, id, decide, {
        authorId,
        now: clock(),
        describe: describeExperiment,
      }),
    }));
    if (!saved.experiment) throw NOT_FOUND();
    return await viewOf(projectId, saved.experiment);
  };

  const flagNamed = async (projectId: number, id: number): Promise<FlagRecord> => {
    const flag = (await flagsById(projectId, [id])).get(id);
    if (!flag) throw NOT_FOUND();
    return flag;
  };
  /** What others change of the flag at the same time stays: the plan is made anew on what they left. */
  const changeFlag = async (
    flag: FlagRecord,
    planOf: (filters: JsonObject) => { readonly active?: boolean; readonly filters?: JsonObject },
    authorId: number,
  ): Promise<FlagRecord> => {
    let current = flag;
    for (let attempts = 1; ; attempts += 1) {
      try {
        return await flags.update(current.projectId, current.id, planOf(current.filters), {
          authorId,
          keepsFiltersWithoutGroups: false,
          base: { version: current.version, original: {} },
        });
      } catch (error) {
        const isOutrun = error instanceof Refusal && error.code === "conflict";
        if (!isOutrun || attempts === MAX_FLAG_CHANGES) throw error;
        current = await flagNamed(current.projectId, current.id);
      }
    }
  };

  /**
   * Whoever changed the holdout meanwhile did not know this experiment yet, or this knew the holdout as
   * it was: what the flag says is looked at once more when both are stored.
   */
  const follow = async (view: ExperimentView, authorId: number): Promise<ExperimentView> => {
    const { experiment: one, flag, holdout } = view;
    const isFollowing = isDeepStrictEqual(withHoldout(flag.filters, holdout), flag.filters);
    const plan = (filters: JsonObject) => ({ filters: withHoldout(filters, holdout) });
    const followed =
      flag.deleted || isFollowing
        ? view
        : { ...view, flag: await changeFlag(flag, plan, authorId) };
    return holdout === null && one.holdoutId !== null
      ? await save(one.projectId, one.id, () => ({ holdoutId: null }), authorId)
      : followed;
  };

  const insert = async (
    projectId: number,
    fields: ExperimentFields,
    authorId: number,
  ): Promise<ExperimentRecord> =>
    changeDefinitions(projectId, () =>
      experimentStore.create(projectId, fields, {
        authorId,
        now: clock(),
        describe: describeExperiment,
      }),
    );

  const create: Experiments["create"] = async (projectId, draft, authorId) => {
    const { flagKey, ...fields } = draft;
    const complete: Omit<ExperimentFields, "flagId"> = { ...NEW_EXPERIMENT, ...fields };
    refuseBadDates(complete);
    const holdout = await holdoutNamed(projectId, complete.holdoutId);
    await refuseUnknownMetrics(projectId, complete.savedMetrics);
    const plain = filtersForExperiment(complete.parameters);
    const wanted = holdout ? withHoldout(plain, holdout) : plain;
    const live = (await definitionsOf(projectId)).flags.find(({ key }) => key === flagKey);
    if (live) refuseUnfitFlag(live.filters);
    const continuity = complete.parameters?.ensure_experience_continuity;
    const flagId =
      live?.id ??
      (
        await flags.create(
          projectId,
          {
            key: flagKey,
            name: `Feature Flag for Experiment ${draft.name}`,
            active: complete.startDate !== null,
            filters: wanted,
            creationContext: "experiments",
            ...(typeof continuity === "boolean" && { ensureExperienceContinuity: continuity }),
          },
          authorId,
        )
      ).id;
    const isSwitchedOn = live !== undefined && complete.startDate !== null && !live.active;
    if (isSwitchedOn || (live && holdout))
      await changeFlag(
        await flagNamed(projectId, flagId),
        (filters) => ({
          ...(isSwitchedOn && { active: true }),
          ...(holdout && { filters: withHoldout(filters, holdout) }),
        }),
        authorId,
      );
    const saved = await insert(projectId, { ...complete, flagId }, authorId);
    const view = await viewOf(projectId, saved);
    return holdout ? await follow(view, authorId) : view;
  };

  return {
    experiment,

    create,

    async update(projectId, id, change, authorId) {
      const before = await experiment(projectId, id);
      refuseBadDates({ ...before.experiment, ...change });
      await refuseUnknownMetrics(projectId, change.savedMetrics);
      const variants = askedVariants(change.parameters ?? null);
      const wasDraft = before.experiment.startDate === null;
      if (variants !== undefined && !wasDraft) refuseOtherVariants(before.flag.filters, variants);
      const isLaunched = wasDraft && (change.startDate ?? null) !== null;
      const { holdoutId = before.experiment.holdoutId } = change;
      const movesHoldout = holdoutId !== before.experiment.holdoutId;
      if (movesHoldout && !wasDraft)
        throw new Refusal("invalid_input", "Can't update holdout on running Experiment");
      const holdout = movesHoldout ? await holdoutNamed(projectId, holdoutId) : before.holdout;
      const changesFilters = variants !== undefined || movesHoldout;
      if (isLaunched && before.flag.deleted) throw hasNoFlag();
      if ((changesFilters || isLaunched) && !before.flag.deleted)
        await changeFlag(
          before.flag,
          (filters) => {
            const varied = variants ? withVariants(filters, variants) : filters;
            if (isLaunched) refuseStartOn(varied);
            return {
              ...(changesFilters && {
                filters: movesHoldout ? withHoldout(varied, holdout) : varied,
              }),
              ...(isLaunched && { active: true }),
            };
          },
          authorId,
        );
      const saved = await save(
        projectId,
        id,
        (current) => {
          refuseBadDates({ ...current, ...change });
          return change;
        },
        authorId,
      );
      return movesHoldout ? await follow(saved, authorId) : saved;
    },

    async list(projectId, query) {
      const { count, experiments: found } = await experimentStore.list(projectId, query);
      return { count, experiments: await viewsOf(projectId, found, referredTo) };
    },

    followHoldout: async (projectId, id, authorId) =>
      follow(await experiment(projectId, id), authorId),

    async remove(projectId, id, authorId) {
      await save(projectId, id, () => ({ deleted: true }), authorId);
    },

    async duplicate(projectId, id, { name, flagKey }, authorId) {
      const { experiment: original, flag, holdout, savedMetrics } = await experiment(projectId, id);
      const { id: _, projectId: __, createdAt, updatedAt, createdById, ...fields } = original;
      const copy = {
        ...fields,
        name: name ?? `${original.name} (Copy)`.slice(0, 400),
        holdoutId: holdout?.id ?? null,
        savedMetrics: savedMetrics.map(({ link }) => link),
        startDate: null,
        endDate: null,
        exposureCohortId: null,
        conclusion: null,
        conclusionComment: null,
        archived: false,
      };
      if (flagKey !== undefined && flagKey !== flag.key) {
        const { flagId, deleted, exposureCohortId, ...draft } = copy;
        const parameters = {
          ...original.parameters,
          feature_flag_variants: [...variantsOf(flag.filters)],
          aggregation_group_type_index: groupTypeOf(flag.filters),
        };
        return await create(projectId, { ...draft, parameters, flagKey }, authorId);
      }
      const saved = await insert(projectId, copy, authorId);
      return await viewOf(projectId, saved);
    },

    async launch(projectId, id, authorId) {
      const { experiment: current, flag } = await experiment(projectId, id);
      if (current.startDate !== null) throw wrongState("Experiment has already been launched.");
      if (flag.deleted) throw hasNoFlag();
      const plan = (filters: JsonObject) => {
        refuseStartOn(filters);
        return { active: true };
      };
      await changeFlag(flag, plan, authorId);
      const start = clock();
      return await save(
        projectId,
        id,
        ({ startDate }) => {
          if (startDate !== null) throw wrongState("Experiment has already been launched.");
          return { startDate: start };
        },
        authorId,
      );
    },

    async pause(projectId, id, authorId) {
      const view = await experiment(projectId, id);
      if (statusOf(view) !== "running") throw wrongState("Only running experiments can be paused.");
      const flag = await changeFlag(view.flag, () => ({ active: false }), authorId);
      return { ...view, flag };
    },

    async resume(projectId, id, authorId) {
      const view = await experiment(projectId, id);
      if (statusOf(view) !== "paused") throw wrongState("Only paused experiments can be resumed.");
      if (view.flag.deleted) throw hasNoFlag();
      const flag = await changeFlag(view.flag, () => ({ active: true }), authorId);
      return { ...view, flag };
    },

    end: (projectId, id, ending, authorId) =>
      save(projectId, id, (current) => ended(current, ending, clock()), authorId),

    async shipVariant(projectId, id, variantKey, ending, authorId) {
      const { experiment: current, flag } = await experiment(projectId, id);
      refuseUnstarted(current, clock());
      if (flag.deleted) throw hasNoFlag();
      if (!variantsOf(flag.filters).some(({ key }) => key === variantKey)) {
        throw new Refusal("invalid_input", `There is no variant ${variantKey}.`, {
          attr: "variant_key",
        });
      }
      await changeFlag(
        flag,
        (filters) => ({ filters: filtersShipping(filters, variantKey), active: true }),
        authorId,
      );
      return await save(
        projectId,
        id,
        (now) => (now.endDate === null ? ended(now, ending, clock()) : ending),
        authorId,
      );
    },

    async createExposureCohort(projectId, id, authorId, readMarker) {
      // Of two that come at once the second would make a cohort that no experiment knows.
      if (gettingCohorts.has(id)) throw hasCohort();
      gettingCohorts.add(id);
      try {
        const plan = planExposureCohort(await experiment(projectId, id), readMarker);
        const { cohort } = await cohorts.create(
          projectId,
          { ...plan, isStatic: false, members: { uuids: [], distinctIds: [] } },
          authorId,
        );
        const view = await save(projectId, id, () => ({ exposureCohortId: cohort.id }), authorId);
        return { ...view, cohort };
      } finally {
        gettingCohorts.delete(id);
      }
    },

    archive: (projectId, id, archived, authorId) =>
      save(
        projectId,
        id,
        ({ endDate }) => {
          if (archived && endDate === null)
            throw wrongState("Experiment must be ended before it can be archived.");
          return { archived };
        },
        authorId,
      ),
  };
}
