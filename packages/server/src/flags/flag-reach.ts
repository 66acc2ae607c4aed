import { evaluateFlags } from "@hedgerow/core/flags/evaluate-flags";
import type { EvaluationRequest, StoredFacts } from "@hedgerow/core/flags/evaluation-request";
import type { FlagDefinition, ProjectDefinitions } from "@hedgerow/core/flags/flag";
import type { FlagSet } from "@hedgerow/core/flags/flag-set";
import { createPatternBudget, type PatternBudget } from "@hedgerow/core/flags/pattern";
import { selectFlags } from "@hedgerow/core/flags/select-flags";
import type { Json, JsonObject } from "@hedgerow/core/json";
import { Refusal } from "../http/errors.ts";
import { createSlices, filterInSlices } from "../platform/slices.ts";
import type { Audience, AudienceGroup, AudiencePerson } from "./audience.ts";
import { checkFilters } from "./check-filters.ts";
import type { CompiledFlags } from "./compiled-flags.ts";

/** How many of those a project knows match a condition. */
export interface Reach {
  readonly affected: number;
  readonly total: number;
  /** True when counting would have taken too long: the newest stand for all. */
  readonly isEstimate: boolean;
}

/** Whom a flag, or a condition of one, is for: by the very evaluation that answers flag requests. */
export interface FlagReach {
  /**
   * Counts the stored persons, or the groups of a type, that match a condition, whatever its rollout.
   * Throws a refusal that names `condition` for one that no flag may have.
   */
  ofCondition(
    projectId: number,
    condition: JsonObject,
    groupTypeIndex: number | null,
  ): Promise<Reach>;

  /** Uuids of the stored persons for whom a flag is on under their first distinct id, in runs. */
  personsOf(projectId: number, flag: FlagDefinition): AsyncIterable<readonly string[]>;
}

/** Counting ends here; what is not counted by then is estimated. */
const MAX_COUNT_MS = 10_000;
/** No flag has this key: it has a character that keys have not. */
const PROBE_KEY = "?";
/** What patterns may cost while counting, as multiples of what one flag request may. */
const PATTERN_BUDGETS = 50;

/** {@link FlagReach} over all that is stored. */
export function createFlagReach({
  audience,
  compiledFlags,
  compile,
  caughtUp,
  clock,
  maxCountMs = MAX_COUNT_MS,
}: {
  audience: Audience;
  compiledFlags: Pick<CompiledFlags, "get">;
  compile: (definitions: ProjectDefinitions, earlier: FlagSet | undefined) => FlagSet;
  /** Resolves once everything captured before is stored as far as persons and groups go. */
  caughtUp: (projectId: number) => Promise<unknown>;
  clock: () => Date;
  maxCountMs?: number;
}): FlagReach {
  /** Counts until the time is over, or patterns have cost too much. */
  async function count<Item>(
    total: number,
    runs: AsyncIterable<readonly Item[]>,
    isAffected: (item: Item, patternBudget: PatternBudget) => boolean,
  ): Promise<Reach> {
    const endMs = performance.now() + maxCountMs;
    const slices = createSlices();
    const left = createPatternBudget();
    left.steps *= PATTERN_BUDGETS;
    left.backtrackingSteps *= PATTERN_BUDGETS;
    let seen = 0;
    let affected = 0;
    for await (const run of runs) {
      for (const item of run) {
        const budget = createPatternBudget();
        const { steps, backtrackingSteps } = budget;
        if (isAffected(item, budget)) affected += 1;
        seen += 1;
        left.steps -= steps - budget.steps;
        left.backtrackingSteps -= backtrackingSteps - budget.backtrackingSteps;
        const isOver = left.steps < 0 || left.backtrackingSteps < 0 || performance.now() > endMs;
        if (isOver && seen < total) {
          return { affected: Math.round((affected * total) / seen), total, isEstimate: true };
        }
        if (slices.isOver()) await slices.next();
      }
    }
    return { affected, total: seen, isEstimate: false };
  }

  return {
    async ofCondition(projectId, condition, groupTypeIndex) {
      await caughtUp(projectId);
      const { definitions, flagSet } = await compiledFlags.get(projectId);
      const groups: Json[] = [{ ...condition, rollout_percentage: 100, variant: null }];
      let filters: JsonObject;
      try {
        filters = checkFilters(
          { groups, aggregation_group_type_index: groupTypeIndex },
          { definitions, id: null, key: PROBE_KEY },
        );
      } catch (error) {
        if (!(error instanceof Refusal)) throw error;
        throw new Refusal(error.code, error.message, { attr: "condition" });
      }
      const probe = { ...PROBE, filters };
      const set = compile({ ...definitions, flags: [...definitions.flags, probe] }, flagSet);
      const isOn = evaluator(set, PROBE_KEY, clock());
      if (groupTypeIndex === null) {
        return await count(
          await audience.countPersons(projectId),
          audience.persons(projectId, { hashKeyOverrides: false }),
          (person, budget) => isOn(requestOfPerson(person), budget),
        );
      }
      const type = definitions.groupTypes.find(({ index }) => index === groupTypeIndex);
      if (type === undefined) return { affected: 0, total: 0, isEstimate: false };
      return await count(
        await audience.countGroups(projectId, groupTypeIndex),
        audience.groups(projectId, groupTypeIndex),
        (group, budget) => isOn(requestOfGroup(type.name, group), budget),
      );
    },

    async *personsOf(projectId, flag) {
      await caughtUp(projectId);
      const { flagSet } = await compiledFlags.get(projectId);
      const isOn = evaluator(flagSet, flag.key, clock());
      const runs = audience.persons(projectId, { hashKeyOverrides: true });
      const slices = createSlices();
      for await (const persons of runs) {
        const on = await filterInSlices(
          persons,
          (person) => isOn(requestOfPerson(person), createPatternBudget()),
          slices,
        );
        yield on.map(({ uuid }) => uuid);
      }
    },
  };
}

const PROBE: Omit<FlagDefinition, "filters"> = {
  id: 0,
  key: PROBE_KEY,
  name: "",
  active: true,
  version: 1,
  ensureExperienceContinuity: false,
  bucketingIdentifier: "distinct_id",
  evaluationRuntime: "all",
  evaluationContexts: [],
  hasExperiment: false,
  isSurveyFlag: false,
};

/** Who asks, as far as what is stored tells. */
type Asker = Pick<EvaluationRequest, "distinctId" | "groups" | "groupProperties"> & {
  readonly stored: StoredFacts;
};

function requestOfPerson({ distinctId, facts }: AudiencePerson): Asker {
  return { distinctId, groups: {}, groupProperties: {}, stored: { person: facts, groups: {} } };
}

function requestOfGroup(typeName: string, { key, properties }: AudienceGroup): Asker {
  return {
    distinctId: "",
    groups: { [typeName]: key },
    groupProperties: {},
    stored: { person: null, groups: { [typeName]: properties } },
  };
}

/** Tells whether a flag is on, with what it depends on. */
function evaluator(
  set: FlagSet,
  key: string,
  now: Date,
): (asker: Asker, patternBudget: PatternBudget) => boolean {
  const runtime = set.byKey.get(key)?.definition.evaluationRuntime;
  const selection = {
    keys: [key],
    contexts: null,
    runtime: runtime === "client" ? ("client" as const) : ("server" as const),
    onlySurveyFlags: false,
  };
  const selected = selectFlags(set, selection);
  return (asker, patternBudget) => {
    const request: EvaluationRequest = {
      ...asker,
      patternBudget,
      now,
      deviceId: null,
      anonDistinctId: null,
      personProperties: {},
      geoProperties: {},
      selection,
    };
    const { evaluations } = evaluateFlags(set, request, selected);
    return evaluations.some(({ flag, value }) => flag.key === key && value !== false);
  };
}
