import { type Kysely, sql } from "kysely";
import type {
  CalculationOutcome,
  CandidatePerson,
  CohortTask,
  MembershipStore,
  PersonParts,
} from "../../cohorts/membership-store.ts";
import { decodeInstant, decodeJson, encodeBoolean, encodeInstant } from "./codec.ts";
import { cohortsOfPersons, NO_COHORTS } from "./cohorts-of-persons.ts";
import { lockForEvents } from "./person-lock.ts";
import type { Schema } from "./schema.ts";
import type { SqlDatabase } from "./sql-database.ts";

/** {@link MembershipStore} on SQL. */
export function createMembershipStore({
  reads,
  writes,
  membershipChanges,
  replayable,
}: SqlDatabase): MembershipStore {
  const ofTask = ({ projectId, id }: CohortTask) =>
    writes.updateTable("cohorts").where("project_id", "=", projectId).where("id", "=", id);

  return {
    async due(now, limit) {
      const rows = await reads
        .selectFrom("cohorts")
        .select(["id", "project_id", "changed_revision", "errors_calculating"])
        .where("calculation_due_at", "<=", encodeInstant(now))
        .where("deleted", "=", encodeBoolean(false))
        .orderBy("calculation_due_at")
        .orderBy("id")
        .limit(limit)
        .execute();
      return rows.map((row) => ({
        projectId: row.project_id,
        id: row.id,
        changedRevision: row.changed_revision,
        errorsCalculating: row.errors_calculating,
      }));
    },

    async request(projectId, ids, dueAt) {
      if (ids.length === 0) return;
      await writes
        .updateTable("cohorts")
        .set({ calculation_due_at: encodeInstant(dueAt), is_calculating: encodeBoolean(true) })
        .where("project_id", "=", projectId)
        .where("id", "in", ids)
        .execute();
    },

    async fill(projectId, id, until, error) {
      await writes
        .updateTable("cohorts")
        .set({
          calculation_due_at: encodeInstant(until),
          is_calculating: encodeBoolean(true),
          errors_calculating: 1,
          calculation_error: error,
        })
        .where("project_id", "=", projectId)
        .where("id", "=", id)
        .execute();
    },

    async endFillings(now) {
      await writes
        .updateTable("cohorts")
        .set({ calculation_due_at: encodeInstant(now) })
        .where("is_static", "=", encodeBoolean(true))
        .where("is_calculating", "=", encodeBoolean(true))
        .execute();
    },

    async settle(projectId, id, dueAt) {
      await writes
        .updateTable("cohorts")
        .set({
          calculation_due_at: encodeInstant(dueAt),
          is_calculating: encodeBoolean(false),
          errors_calculating: 0,
          calculation_error: null,
        })
        .where("project_id", "=", projectId)
        .where("id", "=", id)
        .execute();
    },

    async start(task) {
      await ofTask(task)
        .set({ is_calculating: encodeBoolean(true) })
        .execute();
    },

    async finish(task, outcome, { now, dueAt }) {
      await ofTask(task)
        .where("changed_revision", "=", task.changedRevision)
        .set({
          is_calculating: encodeBoolean(false),
          calculation_due_at: encodeInstant(dueAt),
          ...columnsOf(outcome, task, now),
        })
        .execute();
    },

    async persons(projectId, { after, limit }, parts) {
      const rows = await selectPersons(reads, projectId, parts)
        .where("p.id", ">", after)
        .orderBy("p.id")
        .limit(limit)
        .execute();
      return withCohorts(reads, rows, parts);
    },

    async personsByUuid(projectId, uuids, parts) {
      if (uuids.length === 0) return [];
      const rows = await selectPersons(reads, projectId, parts)
        .where("p.uuid", "in", uuids)
        .execute();
      return withCohorts(reads, rows, parts);
    },

    async memberIds(cohortId, { after, upTo }, limit) {
      const rows = await reads
        .selectFrom("cohort_members")
        .select("person_id")
        .where("cohort_id", "=", cohortId)
        .where("person_id", ">", after)
        .$if(upTo !== null, (query) => query.where("person_id", "<=", upTo ?? 0))
        .orderBy("person_id")
        .limit(limit)
        .execute();
      return rows.map((row) => row.person_id);
    },

    async memberUuids(projectId, cohortId, { after, limit, offset }) {
      return await reads
        .selectFrom("cohort_members as m")
        .innerJoin("persons as p", "p.id", "m.person_id")
        .select(["p.id", "p.uuid"])
        .where("m.cohort_id", "=", cohortId)
        .where("m.person_id", ">", after)
        .where("p.project_id", "=", projectId)
        .orderBy("m.person_id")
        .limit(limit)
        .offset(offset)
        .execute();
    },

    async changeMembers(projectId, cohortId, { add, remove }) {
      const written = replayable(async (transaction) => {
        // No person is merged or deleted while it becomes a member.
        await lockForEvents(transaction);
        if (remove.length > 0) {
          await transaction
            .deleteFrom("cohort_members")
            .where("cohort_id", "=", cohortId)
            .where("person_id", "in", remove)
            .execute();
        }
        if (add.length > 0) {
          await transaction
            .insertInto("cohort_members")
            .columns(["cohort_id", "person_id"])
            .expression((eb) =>
              eb
                .selectFrom("persons")
                .select([sql<number>`cast(${cohortId} as integer)`.as("cohort_id"), "id"])
                .where("project_id", "=", projectId)
                .where("id", "in", add),
            )
            .onConflict((conflict) => conflict.columns(["cohort_id", "person_id"]).doNothing())
            .execute();
        }
      });
      // Also after a fault: what failed may be committed all the same.
      await written.finally(() => membershipChanges.count++);
    },
  };
}

function columnsOf(outcome: CalculationOutcome, { errorsCalculating }: CohortTask, now: Date) {
  switch (outcome.kind) {
    case "calculated":
      return {
        member_count: outcome.count,
        calculated_at: encodeInstant(now),
        errors_calculating: 0,
        calculation_error: null,
      };
    case "counted":
      return { member_count: outcome.count, calculated_at: encodeInstant(now) };
    case "failed":
      return { errors_calculating: errorsCalculating + 1, calculation_error: outcome.error };
    case "postponed":
      return {};
  }
}

function selectPersons(reads: Kysely<Schema>, projectId: number, parts: PersonParts) {
  return reads
    .selectFrom("persons as p")
    .select(["p.id", "p.uuid", "p.created_at"])
    .select([
      (parts.properties ? sql<string>`p.properties` : sql<string>`'{}'`).as("properties"),
      (parts.distinctId
        ? sql<string | null>`(
            select min(d.distinct_id) from person_distinct_ids d where d.person_id = p.id)`
        : sql<string | null>`cast(null as text)`
      ).as("distinct_id"),
    ])
    .where("p.project_id", "=", projectId);
}

interface PersonRow {
  readonly id: number;
  readonly uuid: string;
  readonly created_at: number;
  readonly properties: string;
  readonly distinct_id: string | null;
}

async function withCohorts(
  reads: Kysely<Schema>,
  rows: readonly PersonRow[],
  { cohortIds }: PersonParts,
): Promise<readonly CandidatePerson[]> {
  const cohorts = await cohortsOfPersons(reads, cohortIds ? rows.map(({ id }) => id) : []);
  return rows.map((row) => ({
    id: row.id,
    uuid: row.uuid,
    properties: decodeJson(row.properties),
    createdAt: decodeInstant(row.created_at),
    distinctId: row.distinct_id ?? "",
    cohortIds: cohorts.get(row.id) ?? NO_COHORTS,
  }));
}
