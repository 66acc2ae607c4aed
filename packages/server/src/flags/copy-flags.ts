import { isJsonObject, type Json, type JsonObject, ownValue } from "@hedgerow/core/json";
import type { Project } from "../accounts/account-store.ts";
import type { CohortRecord, CohortStore } from "../cohorts/cohort-store.ts";
import type { Cohorts } from "../cohorts/cohorts.ts";
import { Refusal } from "../http/errors.ts";
import type { CompiledFlags } from "./compiled-flags.ts";
import { referencesOf } from "./definition-references.ts";
import { type FlagChange, type PayloadSeal, payloadOf } from "./encrypted-payloads.ts";
import type { FlagRecord, LiveFlag } from "./flag-store.ts";
import type { Flags } from "./flags.ts";

/** What became of copying a flag to one project. */
export type CopyOutcome =
  | { readonly kind: "copied"; readonly flag: FlagRecord }
  | { readonly kind: "failed"; readonly projectId: number; readonly reason: string };

/**
 * Copies a flag by key to other projects of an organization: creates it there, or gives the flag
 * that has its key there the same definition. Cohorts go by name: one of the same name is used, a
 * dynamic one that is missing is made. Flags it depends on must be there by key. What fails in one
 * project changes nothing there but cohorts, and does not keep the others from their copy.
 */
export type CopyFlag = (
  from: Project,
  key: string,
  options: { readonly targets: readonly Project[]; readonly authorId: number },
) => Promise<readonly CopyOutcome[]>;

/** {@link CopyFlag} by the use cases that anyone uses. */
export function createCopyFlag({
  flags,
  cohorts,
  cohortStore,
  compiledFlags,
  seal,
}: {
  flags: Flags;
  cohorts: Pick<Cohorts, "create">;
  cohortStore: Pick<CohortStore, "cohort">;
  compiledFlags: Pick<CompiledFlags, "get">;
  seal: PayloadSeal;
}): CopyFlag {
  return async (from, key, { targets, authorId }) => {
    const { definitions: source } = await compiledFlags.get(from.id);
    const found = source.flags.find((flag) => flag.key === key);
    const flag = found && (await flags.find(from.id, found.id));
    if (!flag || flag.deleted) {
      throw new Refusal("not_found", "There is no feature flag with this key in the project.");
    }
    const sourceKeys = new Map(source.flags.map(({ id, key }) => [String(id), key]));

    async function copyTo(target: Project): Promise<FlagRecord> {
      if (flag === undefined) throw new Error("unreachable");
      const { definitions } = await compiledFlags.get(target.id);
      const ids = new Map(definitions.flags.map(({ id, key }) => [key, String(id)]));
      const types = new Map(definitions.groupTypes.map(({ index, name }) => [name, index]));
      const names: Omit<Names, "cohort"> = {
        groupType: (index) => {
          const name = source.groupTypes.find((type) => type.index === index)?.name;
          const there = name === undefined ? undefined : types.get(name);
          if (there !== undefined) return there;
          const what = name === undefined ? `group type ${index}` : `the group type "${name}"`;
          throw new Refusal(
            "invalid_input",
            `It is about ${what}, which no event there has told of.`,
          );
        },
        flag: (name) => {
          const needed = sourceKeys.get(name) ?? name;
          const there = ids.get(needed);
          if (there !== undefined) return there;
          throw new Refusal(
            "invalid_input",
            `It depends on the flag ${needed}, which is not there.`,
          );
        },
      };
      // All that can be missing is looked for before the first cohort is made.
      restate(flag.filters, { ...names, cohort: (id) => id });
      const cohortsUsed = [...referencesOf(flag.filters).cohortIds];
      for (const id of cohortsUsed) await refuseMissingCohort(target, id, []);
      const cohortIds = new Map<number, number>();
      for (const id of cohortsUsed) cohortIds.set(id, await cohortIn(target, id));
      const filters = restate(clearFilters(flag), {
        ...names,
        cohort: (id) => cohortIds.get(id) ?? id,
      });
      const fields: FlagChange = {
        name: flag.name,
        active: flag.active,
        filters,
        ensureExperienceContinuity: flag.ensureExperienceContinuity,
        bucketingIdentifier: flag.bucketingIdentifier,
        evaluationRuntime: flag.evaluationRuntime,
        evaluationContexts: flag.evaluationContexts,
        tags: flag.tags,
        isRemoteConfiguration: flag.isRemoteConfiguration,
        hasEncryptedPayloads: flag.sealedPayloads !== null,
      };
      const there = definitions.flags.find((other) => other.key === key);
      return there
        ? await flags.update(target.id, there.id, fields, {
            authorId,
            keepsFiltersWithoutGroups: false,
          })
        : await flags.create(target.id, { ...fields, key }, authorId);
    }

    /** Refuses a copy whose cohort, or one inside it, neither stands in the project nor can be made. */
    async function refuseMissingCohort(
      target: Project,
      id: number,
      open: readonly number[],
    ): Promise<void> {
      const cohort = await cohortStore.cohort(from.id, id);
      if (!cohort || cohort.deleted || open.includes(id)) {
        throw new Refusal("invalid_input", `It uses cohort ${id}, which does not exist.`);
      }
      if ((await namesakeOf(target, cohort)) !== undefined) return;
      if (cohort.isStatic) {
        throw new Refusal(
          "invalid_input",
          `It uses the static cohort "${cohort.name}", whose members belong to their project. Create a static cohort of that name first.`,
        );
      }
      for (const inner of referencesOf(cohort.filters).cohortIds)
        await refuseMissingCohort(target, inner, [...open, id]);
    }

    async function namesakeOf(target: Project, cohort: CohortRecord): Promise<number | undefined> {
      const { definitions } = await compiledFlags.get(target.id);
      return definitions.cohorts.find(
        ({ name, isStatic }) => name === cohort.name && isStatic === cohort.isStatic,
      )?.id;
    }

    /** The id of a cohort's namesake in a project, made where there is none. */
    async function cohortIn(target: Project, id: number): Promise<number> {
      const cohort = await cohortStore.cohort(from.id, id);
      if (!cohort)
        throw new Refusal("invalid_input", `It uses cohort ${id}, which does not exist.`);
      const namesake = await namesakeOf(target, cohort);
      if (namesake !== undefined) return namesake;
      const nested = new Map<number, number>();
      for (const inner of referencesOf(cohort.filters).cohortIds)
        nested.set(inner, await cohortIn(target, inner));
      const filters = restate(cohort.filters, {
        cohort: (inner) => nested.get(inner) ?? inner,
        flag: (name) => name,
        groupType: (index) => index,
      });
      const draft = {
        name: cohort.name,
        description: cohort.description,
        filters,
        members: { uuids: [], distinctIds: [] },
      };
      return (await cohorts.create(target.id, draft, authorId)).cohort.id;
    }

    /** Filters with their payloads, which another project seals anew. */
    function clearFilters(copied: LiveFlag): JsonObject {
      if (copied.sealedPayloads === null) return copied.filters;
      const payloads = Object.keys(copied.sealedPayloads).map((value) => [
        value,
        payloadOf(from.id, copied, { value, seal }),
      ]);
      return { ...copied.filters, payloads: Object.fromEntries(payloads) };
    }

    const outcomes: CopyOutcome[] = [];
    for (const target of targets) {
      try {
        outcomes.push({ kind: "copied", flag: await copyTo(target) });
      } catch (error) {
        if (!(error instanceof Refusal)) throw error;
        outcomes.push({ kind: "failed", projectId: target.id, reason: error.message });
      }
    }
    return outcomes;
  };
}

/** What names of flags and ids of cohorts mean elsewhere. */
interface Names {
  readonly cohort: (id: number) => number;
  readonly flag: (name: string) => string;
  readonly groupType: (index: number) => number;
}

const GROUP_TYPES = ["aggregation_group_type_index", "group_type_index"];
const HOLD_FILTERS = ["groups", "super_groups", "properties", "values"];

/** Filters of a flag or cohort with every reference restated. */
function restate(json: JsonObject, names: Names): JsonObject {
  const entries = Object.entries(json).map(([key, value]): [string, Json] => {
    if (GROUP_TYPES.includes(key) && typeof value === "number") {
      return [key, names.groupType(value)];
    }
    if (!HOLD_FILTERS.includes(key)) return [key, value];
    if (Array.isArray(value)) {
      return [key, (value as readonly Json[]).map((item) => restateFilter(item, names))];
    }
    return [key, isJsonObject(value) ? restate(value, names) : value];
  });
  return Object.fromEntries(entries);
}

function restateFilter(filter: Json, names: Names): Json {
  if (!isJsonObject(filter)) return filter;
  switch (ownValue(filter, "type")) {
    case "flag":
      return { ...filter, key: names.flag(String(ownValue(filter, "key"))) };
    case "cohort":
    case "static-cohort":
    case "dynamic-cohort":
      return { ...filter, value: names.cohort(Number(ownValue(filter, "value"))) };
    default:
      return restate(filter, names);
  }
}
