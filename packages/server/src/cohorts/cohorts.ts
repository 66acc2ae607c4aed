import { validateCohortFilters } from "@hedgerow/core/cohorts/validate-cohort";
import type { JsonObject } from "@hedgerow/core/json";
import { describeChanges } from "../activity/describe-change.ts";
import type { ChangeDefinitions } from "../flags/change-definitions.ts";
import { listNames, referencesOf } from "../flags/definition-references.ts";
import type { VersionedDefinitions } from "../flags/flag-store.ts";
import { refuseProblem } from "../flags/refuse-problem.ts";
import { Refusal } from "../http/errors.ts";
import type {
  CohortFields,
  CohortListQuery,
  CohortRecord,
  CohortStore,
  MembershipChange,
  NamedPersons,
} from "./cohort-store.ts";

/** What a caller may change of a cohort; what is absent stays as it is. */
export type CohortChange = Partial<CohortFields>;

/** Cohorts as their authors handle them. Ids of other projects' cohorts are unknown ids. */
export interface Cohorts {
  /**
   * A new cohort, static with its first members or dynamic by filters; flags can use it when the
   * promise resolves. Throws a {@link Refusal} that names the field at fault.
   */
  create(
    projectId: number,
    draft: CohortChange & { readonly members: NamedPersons },
    authorId: number,
  ): Promise<{ cohort: CohortRecord; unknown: NamedPersons }>;

  /** Changes, deletes (refused while in use) or restores a cohort. */
  update(
    projectId: number,
    id: number,
    change: CohortChange,
    authorId: number,
  ): Promise<CohortRecord>;

  /** Deleted cohorts are found too. Throws `not_found`. */
  cohort(projectId: number, id: number): Promise<CohortRecord>;

  list(
    projectId: number,
    query: CohortListQuery,
  ): Promise<{ count: number; cohorts: readonly CohortRecord[] }>;

  /** Refused when none of the names belongs to a person. */
  addMembers(projectId: number, id: number, persons: NamedPersons): Promise<MembershipChange>;

  /** Throws `not_found` for an unknown person and for one who is no member. */
  removeMember(projectId: number, id: number, person: NamedPersons): Promise<void>;
}

const NOT_FOUND = () => new Refusal("not_found", "Not found.");

/** {@link Cohorts} over a store; changes are live when their promises resolve. */
export function createCohorts({
  cohortStore,
  changeDefinitions,
  clock,
}: {
  cohortStore: CohortStore;
  changeDefinitions: ChangeDefinitions;
  clock: () => Date;
}): Cohorts {
  const cohort = async (projectId: number, id: number): Promise<CohortRecord> => {
    const found = await cohortStore.cohort(projectId, id);
    if (!found) throw NOT_FOUND();
    return found;
  };
  const requireStatic = async (projectId: number, id: number, action: string) => {
    const { isStatic, deleted } = await cohort(projectId, id);
    if (deleted) throw NOT_FOUND();
    if (!isStatic) throw new Refusal("invalid_input", `Can only ${action} static cohorts`);
  };

  return {
    async create(projectId, { members, ...draft }, authorId) {
      const fields = ruledFields({ ...NEW_COHORT, ...draft });
      if (!fields.isStatic && namesAny(members)) {
        throw new Refusal("invalid_input", "Only static cohorts have members of their own.", {
          attr: "is_static",
        });
      }
      return await changeDefinitions(projectId, async ({ definitions }) => {
        checkRule(definitions, fields, null);
        return await cohortStore.create(projectId, fields, members, {
          authorId,
          now: clock(),
          ifRevision: definitions.revision,
          describe: describeCohort,
        });
      });
    },

    async update(projectId, id, change, authorId) {
      return await changeDefinitions(projectId, async ({ definitions }) => {
        const current = await cohort(projectId, id);
        const fields = ruledFields({ ...current, ...change });
        if (fields.isStatic !== current.isStatic) {
          throw new Refusal(
            "invalid_input",
            "A cohort cannot change between static and dynamic. Create another one.",
            { attr: "is_static" },
          );
        }
        if (fields.deleted && !current.deleted) refuseNeededCohort(definitions, id);
        if (!fields.deleted && (current.deleted || change.filters)) {
          checkRule(definitions, fields, id);
        }
        const { filters } = fields;
        const outcome = await cohortStore.update(
          projectId,
          id,
          { ...change, filters },
          {
            authorId,
            now: clock(),
            ifRevision: definitions.revision,
            describe: describeCohort,
          },
        );
        if (outcome === "not-found") throw NOT_FOUND();
        return outcome;
      });
    },

    cohort,

    list: (projectId, query) => cohortStore.list(projectId, query),

    async addMembers(projectId, id, persons) {
      await requireStatic(projectId, id, "add users to");
      const outcome = await cohortStore.addMembers(projectId, id, persons, clock());
      if (!outcome) throw NOT_FOUND();
      const named = persons.uuids.length + persons.distinctIds.length;
      const { uuids, distinctIds } = outcome.unknown;
      if (uuids.length + distinctIds.length === named) {
        throw new Refusal("invalid_input", "No valid users to add to cohort");
      }
      return outcome;
    },

    async removeMember(projectId, id, person) {
      await requireStatic(projectId, id, "remove users from");
      const outcome = await cohortStore.removeMembers(projectId, id, person, clock());
      if (!outcome) throw NOT_FOUND();
      if (namesAny(outcome.unknown)) {
        throw new Refusal("not_found", "Person with this UUID does not exist in the cohort's team");
      }
      if (outcome.changed === 0) throw new Refusal("not_found", "Person is not part of the cohort");
    },
  };
}

const describeCohort = describeChanges<CohortRecord>({
  scope: "Cohort",
  nameOf: ({ name }) => name,
  fields: ["name", "description", "isStatic", "filters", "deleted"],
});

/** What a new cohort is where its author says nothing. */
const NEW_COHORT: CohortFields = {
  name: "",
  description: "",
  isStatic: false,
  filters: {},
  deleted: false,
};

/** Static cohorts have members instead of a rule, whatever rule is sent with them. */
function ruledFields(fields: CohortFields): CohortFields {
  return fields.isStatic ? { ...fields, filters: {} } : fields;
}

function checkRule(
  definitions: VersionedDefinitions,
  { filters }: CohortFields,
  id: number | null,
): void {
  refuseProblem(validateCohortFilters(filters, { definitions, id }));
}

function namesAny({ uuids, distinctIds }: NamedPersons): boolean {
  return uuids.length > 0 || distinctIds.length > 0;
}

function refuseNeededCohort({ flags, cohorts }: VersionedDefinitions, id: number): void {
  const naming = <Item extends { filters: JsonObject }>(items: readonly Item[]) =>
    items.filter(({ filters }) => referencesOf(filters).cohortIds.has(id));
  const flagKeys = naming(flags).map(({ key }) => key);
  const cohortNames = naming(cohorts)
    .filter((cohort) => cohort.id !== id)
    .map((cohort) => `${cohort.name} (ID: ${cohort.id})`);
  const uses = [
    ...(flagKeys.length > 0 ? [`${flagKeys.length} feature flag(s): ${listNames(flagKeys)}`] : []),
    ...(cohortNames.length > 0
      ? [`${cohortNames.length} cohort(s): ${listNames(cohortNames)}`]
      : []),
  ];
  if (uses.length === 0) return;
  throw new Refusal(
    "invalid_input",
    `This cohort is used in ${uses.join(" and in ")}. Please remove the cohort from these before deleting it.`,
  );
}
