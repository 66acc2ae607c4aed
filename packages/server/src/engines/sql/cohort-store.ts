import { cleanText } from "@hedgerow/core/events/clean-json";
import {
  type Expression,
  type ExpressionBuilder,
  type Selectable,
  type SqlBool,
  sql,
  type Transaction,
} from "kysely";
import type {
  CohortFields,
  CohortListQuery,
  CohortRecord,
  CohortStore,
  MembershipChange,
  NamedPersons,
} from "../../cohorts/cohort-store.ts";
import { keepActivity } from "./activity-log.ts";
import {
  decodeBoolean,
  decodeInstant,
  decodeJson,
  encodeBoolean,
  encodeInstant,
  encodeJson,
} from "./codec.ts";
import { containsText } from "./contains-text.ts";
import { inTurns } from "./in-turns.ts";
import { lockForEvents } from "./person-lock.ts";
import { nextRevisionAfter } from "./project-revisions.ts";
import type { Schema } from "./schema.ts";
import type { SqlDatabase } from "./sql-database.ts";

/** {@link CohortStore} on SQL. */
export function createCohortStore({ reads, writes, membershipChanges }: SqlDatabase): CohortStore {
  const changeMembers = async (
    projectId: number,
    id: number,
    persons: NamedPersons,
    now: Date,
    change: typeof insertMembers,
  ): Promise<MembershipChange | undefined> => {
    const outcome = writes.transaction().execute(async (transaction) => {
      await lockForEvents(transaction);
      const cohort = await transaction
        .updateTable("cohorts")
        .set({ members_changed_at: encodeInstant(now) })
        .where("project_id", "=", projectId)
        .where("id", "=", id)
        .where("is_static", "=", encodeBoolean(true))
        .where("deleted", "=", encodeBoolean(false))
        .returning("id")
        .executeTakeFirst();
      if (!cohort) return undefined;
      const { ids, unknown } = await findPersons(transaction, projectId, persons);
      const { changed, difference } = await change(transaction, id, ids);
      if (changed > 0) {
        await transaction
          .updateTable("cohorts")
          .set((eb) => ({ member_count: eb("member_count", "+", difference) }))
          .where("id", "=", id)
          .execute();
      }
      return { changed, unknown };
    });
    // Also after a fault: what failed may be committed all the same.
    return await outcome.finally(() => membershipChanges.count++);
  };

  return {
    async create(projectId, fields, members, { authorId, now, ifRevision, describe }) {
      const created = writes.transaction().execute(async (transaction) => {
        // Before the revision's own lock, as everywhere: no two writers wait for one another.
        await lockForEvents(transaction);
        const revision = await nextRevisionAfter(transaction, projectId, ifRevision);
        if (revision === undefined) return "stale";
        const row = await transaction
          .insertInto("cohorts")
          .values({
            ...encodeFields(fields),
            project_id: projectId,
            created_at: encodeInstant(now),
            created_by: authorId,
            members_changed_at: fields.isStatic ? encodeInstant(now) : null,
            changed_revision: revision,
            ...(fields.isStatic ? { calculation_due_at: dayAfter(now) } : dueNow(now)),
          })
          .returningAll()
          .executeTakeFirstOrThrow();
        const { ids, unknown } = await findPersons(transaction, projectId, members);
        const { changed: count } = await insertMembers(transaction, row.id, ids);
        if (fields.isStatic) {
          await transaction
            .updateTable("cohorts")
            .set({ member_count: count })
            .where("id", "=", row.id)
            .execute();
        }
        const cohort = decodeCohort({ ...row, listed_count: count });
        await keepActivity(transaction, describe?.(null, cohort), { projectId, authorId, now });
        return { cohort, unknown } as const;
      });
      return await created.finally(() => membershipChanges.count++);
    },

    async update(projectId, id, change, { authorId, now, ifRevision, describe }) {
      return await writes.transaction().execute(async (transaction) => {
        const current = await transaction
          .selectFrom("cohorts")
          .selectAll()
          .select(listedCount)
          .where("project_id", "=", projectId)
          .where("id", "=", id)
          .executeTakeFirst();
        if (!current) return "not-found";
        const revision = await nextRevisionAfter(transaction, projectId, ifRevision);
        if (revision === undefined) return "stale";
        const before = decodeCohort(current);
        const row = await transaction
          .updateTable("cohorts")
          .set({
            ...encodeFields({ ...before, ...change }),
            changed_revision: revision,
            ...(asksForCalculation(before, change) ? dueNow(now) : {}),
          })
          .where("id", "=", id)
          .returningAll()
          .executeTakeFirstOrThrow();
        const cohort = decodeCohort({ ...row, listed_count: current.listed_count });
        await keepActivity(transaction, describe?.(before, cohort), { projectId, authorId, now });
        return cohort;
      });
    },

    async cohort(projectId, id) {
      const row = await reads
        .selectFrom("cohorts")
        .selectAll()
        .select(listedCount)
        .where("project_id", "=", projectId)
        .where("id", "=", id)
        .executeTakeFirst();
      return row && decodeCohort(row);
    },

    async list(projectId, query) {
      const matching = reads.selectFrom("cohorts").where((eb) => listed(eb, projectId, query));
      const { count } = await matching
        .select((eb) => eb.fn.countAll<number>().as("count"))
        .executeTakeFirstOrThrow();
      const rows = await matching
        .selectAll()
        .select(listedCount)
        .orderBy("created_at", "desc")
        .orderBy("id", "desc")
        .limit(query.limit)
        .offset(query.offset)
        .execute();
      return { count, cohorts: rows.map(decodeCohort) };
    },

    addMembers: (projectId, id, persons, now) =>
      changeMembers(projectId, id, persons, now, insertMembers),

    removeMembers: (projectId, id, persons, now) =>
      changeMembers(projectId, id, persons, now, deleteMembers),
  };
}

type CohortRow = Selectable<Schema["cohorts"]> & { listed_count: number | null };

/** Members that are counted whenever a cohort is read; of more only the last count is told. */
const MAX_LISTED = 5_000;

const listedCount = (eb: ExpressionBuilder<Schema, "cohorts">) =>
  eb
    .selectFrom(
      eb
        .selectFrom("cohort_members")
        .select("person_id")
        .whereRef("cohort_members.cohort_id", "=", "cohorts.id")
        .limit(sql.lit(MAX_LISTED + 1))
        .as("some"),
    )
    .select((some) => some.fn.countAll<number>().as("count"))
    .as("listed_count");

function dueNow(now: Date) {
  return { calculation_due_at: encodeInstant(now), is_calculating: encodeBoolean(true) };
}

/** Static cohorts are counted again now and then: merges and deletions of persons change them too. */
function dayAfter(now: Date): number {
  return encodeInstant(now) + 86_400_000;
}

function asksForCalculation(before: CohortRecord, change: Partial<CohortFields>): boolean {
  if (before.isStatic || change.deleted === true) return false;
  return (before.deleted && change.deleted === false) || !isSameRule(before, change);
}

function isSameRule(before: CohortRecord, { filters }: Partial<CohortFields>): boolean {
  return filters === undefined || encodeJson(filters) === encodeJson(before.filters);
}

function encodeFields(fields: CohortFields) {
  return {
    name: fields.name,
    description: fields.description,
    is_static: encodeBoolean(fields.isStatic),
    filters: encodeJson(fields.filters),
    deleted: encodeBoolean(fields.deleted),
  };
}

function decodeCohort(row: CohortRow): CohortRecord {
  const isStatic = decodeBoolean(row.is_static);
  return {
    id: row.id,
    projectId: row.project_id,
    name: row.name,
    description: row.description,
    isStatic,
    filters: decodeJson(row.filters),
    deleted: decodeBoolean(row.deleted),
    createdAt: decodeInstant(row.created_at),
    createdById: row.created_by,
    memberCount: isStatic ? countOf(row) : row.member_count,
    membersChangedAt:
      row.members_changed_at === null ? null : decodeInstant(row.members_changed_at),
    isCalculating: decodeBoolean(row.is_calculating),
    calculatedAt: row.calculated_at === null ? null : decodeInstant(row.calculated_at),
    errorsCalculating: row.errors_calculating,
    calculationError: row.calculation_error,
  };
}

function countOf({ listed_count, member_count }: CohortRow): number {
  const listed = listed_count ?? 0;
  return listed > MAX_LISTED ? Math.max(member_count ?? 0, listed) : listed;
}

function listed(
  eb: ExpressionBuilder<Schema, "cohorts">,
  projectId: number,
  query: CohortListQuery,
) {
  const conditions: Expression<SqlBool>[] = [
    eb("project_id", "=", projectId),
    eb("deleted", "=", encodeBoolean(false)),
  ];
  if (query.isStatic !== null) conditions.push(eb("is_static", "=", encodeBoolean(query.isStatic)));
  if (query.createdById !== null) conditions.push(eb("created_by", "=", query.createdById));
  if (query.search !== null) conditions.push(containsText(eb.ref("name"), query.search));
  return eb.and(conditions);
}

/** Names looked up, and members written, by one statement. */
const NAMES_PER_TURN = 500;

async function findPersons(
  transaction: Transaction<Schema>,
  projectId: number,
  { uuids, distinctIds }: NamedPersons,
): Promise<{ ids: ReadonlySet<number>; unknown: NamedPersons }> {
  const idsByUuid = new Map<string, number>();
  for await (const chunk of inTurns(
    uuids.map((uuid) => uuid.toLowerCase()),
    NAMES_PER_TURN,
  )) {
    const rows = await transaction
      .selectFrom("persons")
      .select(["uuid", "id"])
      .where("project_id", "=", projectId)
      .where("uuid", "in", chunk)
      .execute();
    for (const { uuid, id } of rows) idsByUuid.set(uuid, id);
  }
  const idsByDistinctId = new Map<string, number>();
  for await (const chunk of inTurns(distinctIds.map(cleanText), NAMES_PER_TURN)) {
    const rows = await transaction
      .selectFrom("person_distinct_ids")
      .select(["distinct_id", "person_id"])
      .where("project_id", "=", projectId)
      .where("distinct_id", "in", chunk)
      .execute();
    for (const { distinct_id, person_id } of rows) idsByDistinctId.set(distinct_id, person_id);
  }
  return {
    ids: new Set([...idsByUuid.values(), ...idsByDistinctId.values()]),
    unknown: {
      uuids: uuids.filter((uuid) => !idsByUuid.has(uuid.toLowerCase())),
      distinctIds: distinctIds.filter((distinctId) => !idsByDistinctId.has(cleanText(distinctId))),
    },
  };
}

async function insertMembers(
  transaction: Transaction<Schema>,
  cohortId: number,
  personIds: ReadonlySet<number>,
): Promise<{ changed: number; difference: number }> {
  let inserted = 0;
  for await (const chunk of inTurns([...personIds], NAMES_PER_TURN)) {
    const { numInsertedOrUpdatedRows } = await transaction
      .insertInto("cohort_members")
      .values(chunk.map((personId) => ({ cohort_id: cohortId, person_id: personId })))
      .onConflict((conflict) => conflict.columns(["cohort_id", "person_id"]).doNothing())
      .executeTakeFirstOrThrow();
    inserted += Number(numInsertedOrUpdatedRows ?? 0);
  }
  return { changed: inserted, difference: inserted };
}

async function deleteMembers(
  transaction: Transaction<Schema>,
  cohortId: number,
  personIds: ReadonlySet<number>,
): Promise<{ changed: number; difference: number }> {
  let deleted = 0;
  for await (const chunk of inTurns([...personIds], NAMES_PER_TURN)) {
    const { numDeletedRows } = await transaction
      .deleteFrom("cohort_members")
      .where("cohort_id", "=", cohortId)
      .where("person_id", "in", chunk)
      .executeTakeFirstOrThrow();
    deleted += Number(numDeletedRows);
  }
  return { changed: deleted, difference: -deleted };
}
