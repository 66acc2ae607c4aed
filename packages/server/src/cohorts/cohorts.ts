import { validateCohortFilters } from "@hedgerow/core/cohorts/validate-cohort";
import type { JsonObject } from "@hedgerow/core/json";
import { describeChanges } from "../activity/describe-change.ts";
import { QueryTooLong } from "../events/event-store.ts";
import type { ChangeDefinitions } from "../flags/change-definitions.ts";
import { listNames, referencesOf } from "../flags/definition-references.ts";
import type { VersionedDefinitions } from "../flags/flag-store.ts";
import { refuseProblem } from "../flags/refuse-problem.ts";
import { Refusal } from "../http/errors.ts";
import type { PersonMark } from "../persons/person-records.ts";
import type { CohortPage, CohortPersons, FindCohortPersons } from "./cohort-persons.ts";
import type {
  CohortFields,
  CohortListQuery,
  CohortRecord,
  CohortStore,
  MembershipChange,
  NamedPersons,
} from "./cohort-store.ts";
import { fillCohort } from "./fill-cohort.ts";
import type { MembershipStore } from "./membership-store.ts";
import { createPersonTally } from "./person-tally.ts";
import { type MemberFile, type MemberUpload, uploadMembers } from "./upload-members.ts";

/** What a caller may change of a cohort; what is absent stays as it is. */
export type CohortChange = Partial<CohortFields>;

/** What else there is to know of a change. */
export interface UpdateOptions {
  /** Deletes a cohort although something uses it. */
  readonly isForced?: boolean;
  /** Members are to be added after the change, which is refused where they cannot be. */
  readonly addsMembers?: boolean;
}

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

  /**
   * Changes, deletes or restores a cohort. Deleting is refused while something uses the cohort,
   * unless it is forced: flags that use it fail then.
   */
  update(
    projectId: number,
    id: number,
    change: CohortChange,
    authorId: number,
    options?: UpdateOptions,
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

  /** Adds the persons of a file: see {@link uploadMembers}. */
  uploadMembers(projectId: number, id: number, file: MemberFile): Promise<MemberUpload>;

  /** Adds persons by their uuids, run by run, to a static cohort that was made for them: see {@link fillCohort}. */
  fill(
    projectId: number,
    id: number,
    runs: AsyncIterable<readonly string[]> | Iterable<readonly string[]>,
  ): Promise<void>;

  /** Persons of a cohort that is not deleted. Throws `not_found`, and refuses one whose patterns take too long. */
  persons(
    projectId: number,
    id: number,
    page: CohortPage,
  ): Promise<CohortPersons & { readonly cohort: CohortRecord }>;

  /** A new static cohort of those who are in a cohort now; refused as {@link persons} is. */
  duplicateAsStatic(projectId: number, id: number, authorId: number): Promise<CohortRecord>;
}

const NOBODY: NamedPersons = { uuids: [], distinctIds: [] };
const COPIED_AT_ONCE = 1_000;
const NOT_FOUND = () => new Refusal("not_found", "Not found.");

/** {@link Cohorts} over a store; changes are live when their promises resolve. */
export function createCohorts({
  cohortStore,
  memberships,
  findPersons,
  changeDefinitions,
  onChanged,
  clock,
}: {
  cohortStore: CohortStore;
  memberships: Pick<MembershipStore, "fill" | "settle">;
  findPersons: FindCohortPersons;
  changeDefinitions: ChangeDefinitions;
  /** Called when a cohort or its members have changed, for whoever calculates cohorts. */
  onChanged: (projectId: number, id: number) => Promise<void>;
  clock: () => Date;
}): Cohorts {
  const cohort = async (projectId: number, id: number): Promise<CohortRecord> => {
    const found = await cohortStore.cohort(projectId, id);
    if (!found) throw NOT_FOUND();
    return found;
  };
  const liveCohort = async (projectId: number, id: number): Promise<CohortRecord> => {
    const found = await cohort(projectId, id);
    if (found.deleted) throw NOT_FOUND();
    return found;
  };
  const requireStatic = async (projectId: number, id: number, action: string) => {
    const { isStatic } = await liveCohort(projectId, id);
    if (!isStatic) throw notStatic(action);
  };

  const pageOf = async (of: CohortRecord, page: CohortPage): Promise<CohortPersons> => {
    try {
      return await findPersons(of, page);
    } catch (error) {
      if (!(error instanceof QueryTooLong)) throw error;
      throw new Refusal(
        "invalid_input",
        "The persons of the cohort take too long to find. Use simpler patterns in its filters.",
        { attr: "filters" },
      );
    }
  };

  const fillTools = { cohortStore, memberships, clock };

  const create: Cohorts["create"] = async (projectId, { members, ...draft }, authorId) => {
    const fields = ruledFields({ ...NEW_COHORT, ...draft });
    if (!fields.isStatic && namesAny(members)) {
      throw new Refusal("invalid_input", "Only static cohorts have members of their own.", {
        attr: "is_static",
      });
    }
    const created = await changeDefinitions(projectId, async ({ definitions }) => {
      checkRule(definitions, fields, null);
      return await cohortStore.create(projectId, fields, members, {
        authorId,
        now: clock(),
        ifRevision: definitions.revision,
        describe: describeCohort,
      });
    });
    await onChanged(projectId, created.cohort.id);
    return created;
  };

  return {
    create,

    async update(projectId, id, change, authorId, { isForced = false, addsMembers = false } = {}) {
      const changed = await changeDefinitions(projectId, async ({ definitions }) => {
        const current = await cohort(projectId, id);
        const fields = ruledFields({ ...current, ...change });
        if (fields.isStatic !== current.isStatic) {
          throw new Refusal(
            "invalid_input",
            "A cohort cannot change between static and dynamic. Create another one.",
            { attr: "is_static" },
          );
        }
        if (addsMembers) refuseMembers(current, fields);
        if (fields.deleted && !current.deleted && !isForced) refuseNeededCohort(definitions, id);
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
      await onChanged(projectId, id);
      return changed;
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
      await onChanged(projectId, id);
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
      await onChanged(projectId, id);
    },

    async uploadMembers(projectId, id, file) {
      await requireStatic(projectId, id, "add users to");
      try {
        return await uploadMembers({ projectId, id }, file, fillTools);
      } finally {
        await onChanged(projectId, id);
      }
    },

    async fill(projectId, id, runs) {
      try {
        await fillCohort({ projectId, id }, namedBy(runs), fillTools);
      } finally {
        await onChanged(projectId, id);
      }
    },

    async persons(projectId, id, page) {
      const found = await liveCohort(projectId, id);
      return { ...(await pageOf(found, page)), cohort: found };
    },

    async duplicateAsStatic(projectId, id, authorId) {
      const original = await liveCohort(projectId, id);
      // All of them are found first: a search that fails leaves no cohort behind.
      const found = createPersonTally();
      let after: PersonMark | null | undefined;
      while (after !== null) {
        const page = { limit: COPIED_AT_ONCE, offset: 0, ...(after && { after }) };
        const { persons, next } = await pageOf(original, page);
        for (const { uuid } of persons) found.add(uuid, 1);
        after = next;
      }
      const copy = { name: `${original.name} (static copy)`, isStatic: true, members: NOBODY };
      const { cohort: made } = await create(projectId, copy, authorId);
      await fillCohort(made, namedBy(found.uuids(COPIED_AT_ONCE)), fillTools);
      return await cohort(projectId, made.id);
    },
  };
}

async function* namedBy(
  runs: AsyncIterable<readonly string[]> | Iterable<readonly string[]>,
): AsyncGenerator<NamedPersons> {
  for await (const uuids of runs) yield { uuids, distinctIds: [] };
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

function notStatic(action: string): Refusal {
  return new Refusal("invalid_input", `Can only ${action} static cohorts`);
}

/** Refuses a change after which the cohort takes no members. */
function refuseMembers(current: CohortFields, changed: CohortFields): void {
  if (!current.isStatic) throw notStatic("add users to");
  if (!changed.deleted) return;
  if (current.deleted) throw NOT_FOUND();
  throw new Refusal("invalid_input", "A cohort cannot be deleted and given members at once.", {
    attr: "deleted",
  });
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
