import type { JsonObject } from "@hedgerow/core/json";
import { describeChanges } from "../activity/describe-change.ts";
import type { CohortRecord } from "../cohorts/cohort-store.ts";
import type { Cohorts } from "../cohorts/cohorts.ts";
import type { ChangeDefinitions } from "../flags/change-definitions.ts";
import type { FlagRecord, VersionedDefinitions } from "../flags/flag-store.ts";
import type { Flags } from "../flags/flags.ts";
import { Refusal } from "../http/errors.ts";
import type {
  ExperimentFields,
  ExperimentListQuery,
  ExperimentRecord,
  ExperimentStore,
} from "./experiment-store.ts";
import { planExposureCohort } from "./exposure-cohort.ts";
import {
  askedVariants,
  filtersForExperiment,
  filtersShipping,
  refuseUnfitFlag,
  type Variant,
  variantsOf,
  withVariants,
} from "./flag-of-experiment.ts";

/** What a caller may say of an experiment; all of it optional but its name, when it is new. */
export type ExperimentChange = Partial<
  Omit<ExperimentFields, "flagId" | "deleted" | "exposureCohortId">
>;

/** What a caller says of a new experiment. */
export type ExperimentDraft = ExperimentChange & {
  readonly name: string;
  readonly flagKey: string;
};

/** An experiment and its flag, which may be deleted since. */
export interface ExperimentView {
  readonly experiment: ExperimentRecord;
  readonly flag: FlagRecord;
}

/** How an experiment is ended. */
export interface Ending {
  readonly conclusion?: ExperimentRecord["conclusion"];
  readonly conclusionComment?: string | null;
}

/** A state as the wire and people call it. */
export type ExperimentStatus = "draft" | "running" | "paused" | "stopped";

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
  /** A draft like another experiment, on the same flag. */
  duplicate(projectId: number, id: number, authorId: number): Promise<ExperimentView>;
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
  ): Promise<ExperimentView & { readonly cohort: CohortRecord }>;
}

const NOT_FOUND = () => new Refusal("not_found", "Not found.");

/** {@link Experiments} over a store and the management of flags. */
export function createExperiments({
  experimentStore,
  flags,
  cohorts,
  definitionsOf,
  changeDefinitions,
  clock,
}: {
  experimentStore: ExperimentStore;
  flags: Pick<Flags, "create" | "update" | "flag" | "find">;
  cohorts: Pick<Cohorts, "create">;
  /** The project's definitions as they are stored now. */
  definitionsOf: (projectId: number) => Promise<VersionedDefinitions>;
  changeDefinitions: ChangeDefinitions;
  clock: () => Date;
}): Experiments {
  const experiment = async (projectId: number, id: number): Promise<ExperimentView> => {
    const found = await experimentStore.experiment(projectId, id);
    if (!found) throw NOT_FOUND();
    return { experiment: found, flag: await flags.flag(projectId, found.flagId) };
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
    return {
      experiment: saved.experiment,
      flag: await flags.flag(projectId, saved.experiment.flagId),
    };
  };

  const changeFlag = (
    projectId: number,
    flagId: number,
    change: { readonly active?: boolean; readonly filters?: JsonObject },
    authorId: number,
  ): Promise<FlagRecord> =>
    flags.update(projectId, flagId, change, { authorId, keepsFiltersWithoutGroups: false });

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

  return {
    experiment,

    async create(projectId, draft, authorId) {
      const { flagKey, ...fields } = draft;
      const complete: Omit<ExperimentFields, "flagId"> = { ...NEW_EXPERIMENT, ...fields };
      refuseBadDates(complete);
      const wanted = filtersForExperiment(complete.parameters);
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
      if (live && complete.startDate !== null && !live.active)
        await changeFlag(projectId, flagId, { active: true }, authorId);
      const saved = await insert(projectId, { ...complete, flagId }, authorId);
      return { experiment: saved, flag: await flags.flag(projectId, flagId) };
    },

    async update(projectId, id, change, authorId) {
      const before = await experiment(projectId, id);
      refuseBadDates({ ...before.experiment, ...change });
      const variants = askedVariants(change.parameters ?? null);
      const wasDraft = before.experiment.startDate === null;
      if (variants !== undefined) refuseOtherVariants(before, variants, wasDraft);
      const isLaunched = wasDraft && (change.startDate ?? null) !== null;
      const filters =
        variants !== undefined && !before.flag.deleted
          ? withVariants(before.flag.filters, variants)
          : undefined;
      if ((filters !== undefined || isLaunched) && !before.flag.deleted)
        await changeFlag(
          projectId,
          before.flag.id,
          { ...(filters && { filters }), ...(isLaunched && { active: true }) },
          authorId,
        );
      return await save(
        projectId,
        id,
        (current) => {
          refuseBadDates({ ...current, ...change });
          return change;
        },
        authorId,
      );
    },

    async list(projectId, query) {
      const { count, experiments: found } = await experimentStore.list(projectId, query);
      const views = await Promise.all(
        found.map(async (one) => ({
          experiment: one,
          flag: await flags.flag(projectId, one.flagId),
        })),
      );
      return { count, experiments: views };
    },

    async remove(projectId, id, authorId) {
      await save(projectId, id, () => ({ deleted: true }), authorId);
    },

    async duplicate(projectId, id, authorId) {
      const { experiment: original, flag } = await experiment(projectId, id);
      const { id: _, projectId: __, createdAt, updatedAt, createdById, ...fields } = original;
      const saved = await insert(
        projectId,
        {
          ...fields,
          name: `${original.name} (Copy)`.slice(0, 400),
          startDate: null,
          endDate: null,
          exposureCohortId: null,
          conclusion: null,
          conclusionComment: null,
          archived: false,
        },
        authorId,
      );
      return { experiment: saved, flag };
    },

    async launch(projectId, id, authorId) {
      const { experiment: current, flag } = await experiment(projectId, id);
      if (current.startDate !== null) throw wrongState("Experiment has already been launched.");
      if (flag.deleted) throw wrongState("Experiment does not have a feature flag.");
      refuseUnfitFlag(flag.filters);
      await changeFlag(projectId, flag.id, { active: true }, authorId);
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
      const flag = await changeFlag(projectId, view.flag.id, { active: false }, authorId);
      return { ...view, flag };
    },

    async resume(projectId, id, authorId) {
      const view = await experiment(projectId, id);
      if (statusOf(view) !== "paused") throw wrongState("Only paused experiments can be resumed.");
      if (view.flag.deleted) throw wrongState("Experiment does not have a feature flag.");
      const flag = await changeFlag(projectId, view.flag.id, { active: true }, authorId);
      return { ...view, flag };
    },

    end: (projectId, id, ending, authorId) =>
      save(projectId, id, (current) => ended(current, ending, clock()), authorId),

    async shipVariant(projectId, id, variantKey, ending, authorId) {
      const { experiment: current, flag } = await experiment(projectId, id);
      if (current.startDate === null) throw wrongState("Experiment has not been launched yet.");
      if (flag.deleted) throw wrongState("Experiment does not have a feature flag.");
      if (!variantsOf(flag.filters).some(({ key }) => key === variantKey)) {
        throw new Refusal("invalid_input", `There is no variant ${variantKey}.`, {
          attr: "variant_key",
        });
      }
      const filters = filtersShipping(flag.filters, variantKey);
      await changeFlag(projectId, flag.id, { filters, active: true }, authorId);
      return await save(
        projectId,
        id,
        (now) => (now.endDate === null ? ended(now, ending, clock()) : ending),
        authorId,
      );
    },

    async createExposureCohort(projectId, id, authorId) {
      const plan = planExposureCohort(await experiment(projectId, id));
      const { cohort } = await cohorts.create(
        projectId,
        { ...plan, isStatic: false, members: { uuids: [], distinctIds: [] } },
        authorId,
      );
      const view = await save(projectId, id, () => ({ exposureCohortId: cohort.id }), authorId);
      return { ...view, cohort };
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

/** What an experiment is doing: told by its dates, and while it runs by its flag. */
export function statusOf({ experiment, flag }: ExperimentView): ExperimentStatus {
  if (experiment.startDate === null) return "draft";
  if (experiment.endDate !== null) return "stopped";
  return flag.active && !flag.deleted ? "running" : "paused";
}

/** What a new experiment is where its author says nothing. */
const NEW_EXPERIMENT: Omit<ExperimentFields, "flagId" | "name"> & { readonly name: string } = {
  name: "",
  description: null,
  startDate: null,
  endDate: null,
  exposureCohortId: null,
  type: "product",
  parameters: {},
  filters: {},
  secondaryMetrics: [],
  metrics: [],
  metricsSecondary: [],
  exposureCriteria: null,
  statsConfig: null,
  primaryOrder: null,
  secondaryOrder: null,
  conclusion: null,
  conclusionComment: null,
  archived: false,
  deleted: false,
};

const describeExperiment = describeChanges<ExperimentRecord>({
  scope: "Experiment",
  nameOf: ({ name }) => name,
  fields: [
    "name",
    "description",
    "startDate",
    "endDate",
    "exposureCohortId",
    "type",
    "parameters",
    "filters",
    "secondaryMetrics",
    "metrics",
    "metricsSecondary",
    "exposureCriteria",
    "statsConfig",
    "primaryOrder",
    "secondaryOrder",
    "conclusion",
    "conclusionComment",
    "archived",
    "deleted",
  ],
});

function ended(
  { startDate, endDate }: ExperimentRecord,
  ending: Ending,
  now: Date,
): Partial<ExperimentFields> {
  if (startDate === null) throw wrongState("Experiment has not been launched yet.");
  if (endDate !== null) throw wrongState("Experiment has already ended.");
  return { ...ending, endDate: now };
}

function wrongState(detail: string): Refusal {
  return new Refusal("invalid_input", detail);
}

function refuseBadDates({
  startDate,
  endDate,
}: Pick<ExperimentFields, "startDate" | "endDate">): void {
  if (endDate === null) return;
  if (startDate === null) {
    throw new Refusal("invalid_input", "An experiment that was not started cannot end", {
      attr: "end_date",
    });
  }
  if (endDate <= startDate)
    throw new Refusal("invalid_input", "End date must be after start date", { attr: "end_date" });
}

/** Once launched, the keys of the variants stand; their shares may change. */
function refuseOtherVariants(
  { flag }: ExperimentView,
  wanted: readonly Variant[],
  isDraft: boolean,
): void {
  if (isDraft) return;
  const keys = (variants: readonly Variant[]): string =>
    variants
      .map(({ key }) => key)
      .sort()
      .join("\n");
  if (keys(wanted) !== keys(variantsOf(flag.filters)))
    throw new Refusal("invalid_input", "Can't update feature_flag_variants on Experiment");
}
