import type { Json, JsonObject } from "@hedgerow/core/json";
import { type Selectable, sql, type Transaction, type Updateable } from "kysely";
import type {
  ExperimentFields,
  ExperimentOrder,
  ExperimentRecord,
  ExperimentStore,
  SavedMetricLink,
} from "../../experiments/experiment-store.ts";
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
import { nextRevision } from "./project-revisions.ts";
import type { Schema } from "./schema.ts";
import type { SqlDatabase } from "./sql-database.ts";

/** {@link ExperimentStore} on SQL. */
export function createExperimentStore({ reads, writes }: SqlDatabase): ExperimentStore {
  return {
    create: (projectId, fields, { authorId, now, describe }) =>
      writes.transaction().execute(async (transaction) => {
        const revision = await nextRevision(transaction, projectId);
        const row = await transaction
          .insertInto("experiments")
          .values({
            ...encodeFields(fields),
            project_id: projectId,
            created_at: encodeInstant(now),
            updated_at: encodeInstant(now),
            created_by: authorId,
          })
          .returningAll()
          .executeTakeFirstOrThrow();
        await markFlag(transaction, fields.flagId, revision);
        const experiment = decodeExperiment(row);
        await keepActivity(transaction, describe?.(null, experiment), { projectId, authorId, now });
        return experiment;
      }),

    update: (projectId, id, decide, { authorId, now, describe }) =>
      writes.transaction().execute(async (transaction) => {
        // Locks before it reads, so that two changes of one experiment see each other.
        const revision = await nextRevision(transaction, projectId);
        const current = await transaction
          .selectFrom("experiments")
          .selectAll()
          .where("project_id", "=", projectId)
          .where("id", "=", id)
          .where("deleted", "=", encodeBoolean(false))
          .executeTakeFirst();
        if (!current) return undefined;
        const before = decodeExperiment(current);
        const row = await transaction
          .updateTable("experiments")
          .set({
            ...encodeFields({ ...before, ...decide(before) }),
            updated_at: encodeInstant(now),
          })
          .where("id", "=", id)
          .returningAll()
          .executeTakeFirstOrThrow();
        const experiment = decodeExperiment(row);
        if (experiment.deleted) await markFlag(transaction, experiment.flagId, revision);
        await keepActivity(transaction, describe?.(before, experiment), {
          projectId,
          authorId,
          now,
        });
        return experiment;
      }),

    async experiment(projectId, id) {
      const row = await reads
        .selectFrom("experiments")
        .selectAll()
        .where("project_id", "=", projectId)
        .where("id", "=", id)
        .where("deleted", "=", encodeBoolean(false))
        .executeTakeFirst();
      return row && decodeExperiment(row);
    },

    async list(projectId, query) {
      let matching = reads
        .selectFrom("experiments")
        .where("project_id", "=", projectId)
        .where("deleted", "=", encodeBoolean(false));
      if (query.stage === "draft") matching = matching.where("start_date", "is", null);
      if (query.stage === "launched" || query.stage === "running" || query.stage === "paused")
        matching = matching.where("start_date", "is not", null).where("end_date", "is", null);
      if (query.stage === "running" || query.stage === "paused") {
        const isOn = query.stage === "running";
        matching = matching.where(({ eb, not, exists, selectFrom }) => {
          const flagIsOn = exists(
            selectFrom("feature_flags")
              .select("feature_flags.id")
              .whereRef("feature_flags.id", "=", "experiments.flag_id")
              .where("feature_flags.active", "=", encodeBoolean(true))
              .where("feature_flags.deleted", "=", encodeBoolean(false)),
          );
          return isOn ? eb.and([flagIsOn]) : not(flagIsOn);
        });
      }
      if (query.stage === "ended") matching = matching.where("end_date", "is not", null);
      const { archived, search } = query;
      if (archived !== null) matching = matching.where("archived", "=", encodeBoolean(archived));
      if (search !== null) matching = matching.where((eb) => containsText(eb.ref("name"), search));
      if (query.createdById !== null)
        matching = matching.where("created_by", "=", query.createdById);
      if (query.flagId !== null) matching = matching.where("flag_id", "=", query.flagId);
      if (query.holdoutId !== undefined)
        matching = matching.where("holdout_id", "=", query.holdoutId);
      const { count } = await matching
        .select((eb) => eb.fn.countAll<number>().as("count"))
        .executeTakeFirstOrThrow();
      const rows = await matching
        .selectAll()
        // Where nothing is known to order by comes last in both engines, whichever way is asked for.
        .orderBy(sql`case when ${ORDER_VALUES[query.order.by]} is null then 1 else 0 end`)
        .orderBy(ORDER_VALUES[query.order.by], query.order.descending ? "desc" : "asc")
        .orderBy("id", "desc")
        .limit(query.limit)
        .offset(query.offset)
        .execute();
      return { count: Number(count), experiments: rows.map(decodeExperiment) };
    },

    async idsOfFlags(projectId, flagIds) {
      if (flagIds.length === 0) return new Map();
      const rows = await reads
        .selectFrom("experiments")
        .select(["id", "flag_id"])
        .where("project_id", "=", projectId)
        .where("flag_id", "in", [...flagIds])
        .where("deleted", "=", encodeBoolean(false))
        .orderBy("id")
        .execute();
      const byFlag = new Map<number, number[]>();
      for (const { id, flag_id } of rows) byFlag.set(flag_id, [...(byFlag.get(flag_id) ?? []), id]);
      return byFlag;
    },
  };
}

/** Keeps on a flag whether an experiment uses it, since flag requests tell. */
async function markFlag(
  transaction: Transaction<Schema>,
  flagId: number,
  revision: number,
): Promise<void> {
  const using = await transaction
    .selectFrom("experiments")
    .select("id")
    .where("flag_id", "=", flagId)
    .where("deleted", "=", encodeBoolean(false))
    .limit(1)
    .executeTakeFirst();
  await transaction
    .updateTable("feature_flags")
    .set({ has_experiment: encodeBoolean(using !== undefined), changed_revision: revision })
    .where("id", "=", flagId)
    .execute();
}

type ExperimentRow = Selectable<Schema["experiments"]>;

const ORDER_VALUES = {
  createdAt: sql.ref("created_at"),
  updatedAt: sql.ref("updated_at"),
  name: sql.ref("name"),
  startDate: sql.ref("start_date"),
  endDate: sql.ref("end_date"),
  duration: sql`end_date - start_date`,
  // Drafts, then what runs or pauses, then what is over.
  status: sql`case when start_date is null then 0 when end_date is null then 1 else 2 end`,
} as const satisfies Record<ExperimentOrder, unknown>;

function encodeFields(fields: ExperimentFields) {
  return {
    name: fields.name,
    description: fields.description,
    start_date: fields.startDate && encodeInstant(fields.startDate),
    end_date: fields.endDate && encodeInstant(fields.endDate),
    flag_id: fields.flagId,
    exposure_cohort_id: fields.exposureCohortId,
    type: fields.type,
    parameters: encodeJson(fields.parameters),
    filters: encodeJson(fields.filters),
    secondary_metrics: encodeJson(fields.secondaryMetrics),
    metrics: encodeJson(fields.metrics),
    metrics_secondary: encodeJson(fields.metricsSecondary),
    exposure_criteria: encodeJson(fields.exposureCriteria),
    stats_config: encodeJson(fields.statsConfig),
    primary_order: encodeJson(fields.primaryOrder),
    secondary_order: encodeJson(fields.secondaryOrder),
    holdout_id: fields.holdoutId,
    saved_metrics: encodeJson(fields.savedMetrics),
    conclusion: fields.conclusion,
    conclusion_comment: fields.conclusionComment,
    archived: encodeBoolean(fields.archived),
    deleted: encodeBoolean(fields.deleted),
  } satisfies Updateable<Schema["experiments"]>;
}

function decodeExperiment(row: ExperimentRow): ExperimentRecord {
  return {
    id: row.id,
    projectId: row.project_id,
    name: row.name,
    description: row.description,
    startDate: row.start_date === null ? null : decodeInstant(row.start_date),
    endDate: row.end_date === null ? null : decodeInstant(row.end_date),
    flagId: row.flag_id,
    exposureCohortId: row.exposure_cohort_id,
    type: row.type as ExperimentRecord["type"],
    parameters: decodeJson<JsonObject | null>(row.parameters),
    filters: decodeJson<JsonObject | null>(row.filters),
    secondaryMetrics: decodeJson<Json[] | null>(row.secondary_metrics),
    metrics: decodeJson<JsonObject[]>(row.metrics),
    metricsSecondary: decodeJson<JsonObject[]>(row.metrics_secondary),
    exposureCriteria: decodeJson<JsonObject | null>(row.exposure_criteria),
    statsConfig: decodeJson<JsonObject | null>(row.stats_config),
    primaryOrder: decodeJson<string[] | null>(row.primary_order),
    secondaryOrder: decodeJson<string[] | null>(row.secondary_order),
    holdoutId: row.holdout_id,
    savedMetrics: decodeJson<unknown>(row.saved_metrics) as SavedMetricLink[],
    conclusion: row.conclusion as ExperimentRecord["conclusion"],
    conclusionComment: row.conclusion_comment,
    archived: decodeBoolean(row.archived),
    deleted: decodeBoolean(row.deleted),
    createdAt: decodeInstant(row.created_at),
    updatedAt: decodeInstant(row.updated_at),
    createdById: row.created_by,
  };
}
