import { constantValue } from "@hedgerow/core/flags/constant-value";
import type { CohortDefinition } from "@hedgerow/core/flags/flag";
import { isJsonObject, type Json, type JsonObject, ownValue } from "@hedgerow/core/json";
import {
  type Expression,
  type ExpressionBuilder,
  type Selectable,
  type SqlBool,
  sql,
  type Updateable,
} from "kysely";
import type {
  FlagFields,
  FlagListQuery,
  FlagOrder,
  FlagRecord,
  FlagStore,
  LiveFlag,
} from "../../flags/flag-store.ts";
import { keepActivity } from "./activity-log.ts";
import {
  decodeBoolean,
  decodeInstant,
  decodeJson,
  encodeBoolean,
  encodeInstant,
  encodeJson,
} from "./codec.ts";
import { containsText, likeText } from "./contains-text.ts";
import { nextRevisionAfter } from "./project-revisions.ts";
import type { Schema } from "./schema.ts";
import type { SqlDatabase } from "./sql-database.ts";

/** {@link FlagStore} on SQL. */
export function createFlagStore({ reads, writes, capabilities }: SqlDatabase): FlagStore {
  return {
    async create(projectId, fields, { authorId, now, ifRevision, describe }) {
      try {
        return await writes.transaction().execute(async (transaction) => {
          const revision = await nextRevisionAfter(transaction, projectId, ifRevision);
          if (revision === undefined) return "stale";
          const row = await transaction
            .insertInto("feature_flags")
            .values({
              ...encodeAll(fields),
              project_id: projectId,
              version: 1,
              creation_context: fields.creationContext,
              updated_at: encodeInstant(now),
              created_by: authorId,
              last_modified_by: authorId,
              changed_revision: revision,
            })
            .returningAll()
            .executeTakeFirstOrThrow();
          const flag = decodeFlag(row);
          await keepActivity(transaction, describe?.(null, flag), { projectId, authorId, now });
          return flag;
        });
      } catch (error) {
        if (capabilities.isUniqueViolation(error)) return "duplicate-key";
        throw error;
      }
    },

    async update(projectId, id, change, { authorId, now, ifRevision, describe }) {
      try {
        return await writes.transaction().execute(async (transaction) => {
          const current = await transaction
            .selectFrom("feature_flags")
            .selectAll()
            .where("project_id", "=", projectId)
            .where("id", "=", id)
            .executeTakeFirst();
          if (!current) return "not-found";
          const revision = await nextRevisionAfter(transaction, projectId, ifRevision);
          if (revision === undefined) return "stale";
          const before = decodeFlag(current);
          const row = await transaction
            .updateTable("feature_flags")
            .set((eb) => ({
              ...encodeAll({ ...before, ...change }),
              version: eb("version", "+", 1),
              updated_at: encodeInstant(now),
              last_modified_by: authorId,
              changed_revision: revision,
            }))
            .where("id", "=", id)
            .returningAll()
            .executeTakeFirstOrThrow();
          const flag = decodeFlag(row);
          await keepActivity(transaction, describe?.(before, flag), { projectId, authorId, now });
          return flag;
        });
      } catch (error) {
        if (capabilities.isUniqueViolation(error)) return "duplicate-key";
        throw error;
      }
    },

    async flag(projectId, id) {
      const row = await reads
        .selectFrom("feature_flags")
        .selectAll()
        .where("project_id", "=", projectId)
        .where("id", "=", id)
        .executeTakeFirst();
      return row && decodeFlag(row);
    },

    async flagsById(projectId, ids) {
      const found = new Map<number, FlagRecord>();
      const wanted = [...new Set(ids)];
      for (let from = 0; from < wanted.length; from += IDS_PER_READ) {
        const rows = await reads
          .selectFrom("feature_flags")
          .selectAll()
          .where("project_id", "=", projectId)
          .where("id", "in", wanted.slice(from, from + IDS_PER_READ))
          .execute();
        for (const row of rows) found.set(row.id, decodeFlag(row));
      }
      return found;
    },

    async list(projectId, query) {
      const matching = reads
        .selectFrom("feature_flags")
        .where((eb) => listed(eb, projectId, query));
      const { count } = await matching
        .select((eb) => eb.fn.countAll<number>().as("count"))
        .executeTakeFirstOrThrow();
      const rows = await matching
        .selectAll()
        .orderBy(ORDER_COLUMNS[query.order.by], (order) =>
          (query.order.descending ? order.desc() : order.asc()).nullsLast(),
        )
        .orderBy("id", "desc")
        .limit(query.limit)
        .offset(query.offset)
        .execute();
      return { count: Number(count), flags: rows.map(decodeFlag) };
    },

    async definitions(projectId, earlier) {
      return await reads
        .transaction()
        .setIsolationLevel("repeatable read")
        .execute(async (transaction) => {
          const since = earlier?.revision ?? -1;
          const state = await transaction
            .selectFrom("project_revisions")
            .select("revision")
            .where("project_id", "=", projectId)
            .executeTakeFirst();
          const project = await transaction
            .selectFrom("projects")
            .select("time_zone")
            .where("id", "=", projectId)
            .executeTakeFirst();
          const groupTypes = await transaction
            .selectFrom("group_types")
            .select(["index", "name"])
            .where("project_id", "=", projectId)
            .orderBy("index")
            .execute();
          const flagRows = await transaction
            .selectFrom("feature_flags")
            .select(LIVE_FLAG_COLUMNS)
            .where("project_id", "=", projectId)
            .where("changed_revision", ">", since)
            .execute();
          const cohortRows = await transaction
            .selectFrom("cohorts")
            .select(["id", "name", "is_static", "filters", "deleted"])
            .where("project_id", "=", projectId)
            .where("changed_revision", ">", since)
            .execute();
          return {
            revision: state?.revision ?? 0,
            timeZone: project?.time_zone ?? "UTC",
            groupTypes,
            flags: withChanges(earlier?.flags ?? [], flagRows, decodeLiveFlag),
            cohorts: withChanges(earlier?.cohorts ?? [], cohortRows, decodeCohortDefinition),
          };
        });
    },

    async recordCalls(projectId, calls) {
      await writes.transaction().execute(async (transaction) => {
        for (const [key, at] of calls) {
          const instant = encodeInstant(at);
          await transaction
            .updateTable("feature_flags")
            .set({ last_called_at: instant })
            .where("project_id", "=", projectId)
            .where("key", "=", key)
            .where("deleted", "=", encodeBoolean(false))
            .where((eb) =>
              eb.or([eb("last_called_at", "is", null), eb("last_called_at", "<", instant)]),
            )
            .execute();
        }
      });
    },

    async revisions(projectIds) {
      if (projectIds.length === 0) return new Map();
      const rows = await reads
        .selectFrom("project_revisions")
        .selectAll()
        .where("project_id", "in", projectIds)
        .execute();
      return new Map(rows.map(({ project_id, revision }) => [project_id, revision]));
    },
  };
}

/** How many ids one statement names. */
const IDS_PER_READ = 500;

type FlagRow = Selectable<Schema["feature_flags"]>;

const LIVE_FLAG_COLUMNS = [
  "id",
  "key",
  "name",
  "active",
  "deleted",
  "version",
  "filters",
  "ensure_experience_continuity",
  "bucketing_identifier",
  "evaluation_runtime",
  "evaluation_contexts",
  "is_remote_configuration",
  "sealed_payloads",
  "has_experiment",
  "creation_context",
] as const satisfies readonly (keyof FlagRow)[];

type LiveFlagRow = Pick<FlagRow, (typeof LIVE_FLAG_COLUMNS)[number]>;

const ORDER_COLUMNS = {
  id: "id",
  key: "key",
  name: "name",
  active: "active",
  version: "version",
  createdAt: "created_at",
  updatedAt: "updated_at",
  createdBy: "created_by",
  lastCalledAt: "last_called_at",
} as const satisfies Record<FlagOrder, keyof FlagRow>;

/** Flags that surveys make for targeting; SDKs know them by this prefix too. */
const SURVEY_FLAG_PREFIX = "survey-targeting-";
const SURVEYS = "surveys";

/** The details nothing filters, orders or evaluates by. */
interface FlagDetails {
  readonly rollbackConditions: Json;
  readonly performedRollback: boolean;
  readonly hasEnrichedAnalytics: boolean;
}

function encodeAll(fields: FlagFields) {
  const details: FlagDetails = {
    rollbackConditions: fields.rollbackConditions,
    performedRollback: fields.performedRollback,
    hasEnrichedAnalytics: fields.hasEnrichedAnalytics,
  };
  return {
    key: fields.key,
    name: fields.name,
    active: encodeBoolean(fields.active),
    deleted: encodeBoolean(fields.deleted),
    filters: encodeJson(fields.filters),
    is_multivariate: encodeBoolean(declaresVariants(fields.filters)),
    is_constant: encodeBoolean(constantValue(fields.filters) !== null),
    sealed_payloads: fields.sealedPayloads && encodeJson(fields.sealedPayloads),
    ensure_experience_continuity: encodeBoolean(fields.ensureExperienceContinuity),
    bucketing_identifier: fields.bucketingIdentifier,
    evaluation_runtime: fields.evaluationRuntime,
    evaluation_contexts: encodeJson(fields.evaluationContexts),
    tags: encodeJson(fields.tags),
    is_remote_configuration: encodeBoolean(fields.isRemoteConfiguration),
    details: encodeJson(details),
    created_at: encodeInstant(fields.createdAt),
    last_called_at: fields.lastCalledAt && encodeInstant(fields.lastCalledAt),
  } satisfies Updateable<Schema["feature_flags"]>;
}

function declaresVariants(filters: JsonObject): boolean {
  const multivariate = ownValue(filters, "multivariate");
  const variants = isJsonObject(multivariate) ? ownValue(multivariate, "variants") : undefined;
  return Array.isArray(variants) && variants.length > 0;
}

function decodeLiveFlag(row: LiveFlagRow): LiveFlag {
  return {
    id: row.id,
    key: row.key,
    name: row.name,
    active: decodeBoolean(row.active),
    version: row.version,
    filters: decodeJson(row.filters),
    ensureExperienceContinuity: decodeBoolean(row.ensure_experience_continuity),
    bucketingIdentifier: row.bucketing_identifier as LiveFlag["bucketingIdentifier"],
    evaluationRuntime: row.evaluation_runtime as LiveFlag["evaluationRuntime"],
    evaluationContexts: decodeJson<string[]>(row.evaluation_contexts),
    hasExperiment: decodeBoolean(row.has_experiment),
    isSurveyFlag: row.creation_context === SURVEYS || row.key.startsWith(SURVEY_FLAG_PREFIX),
    isRemoteConfiguration: decodeBoolean(row.is_remote_configuration),
    sealedPayloads: row.sealed_payloads === null ? null : decodeJson(row.sealed_payloads),
  };
}

function decodeFlag(row: FlagRow): FlagRecord {
  return {
    ...decodeLiveFlag(row),
    ...decodeJson<FlagDetails>(row.details),
    projectId: row.project_id,
    deleted: decodeBoolean(row.deleted),
    tags: decodeJson<string[]>(row.tags),
    creationContext: row.creation_context,
    createdAt: decodeInstant(row.created_at),
    updatedAt: decodeInstant(row.updated_at),
    createdById: row.created_by,
    lastModifiedById: row.last_modified_by,
    lastCalledAt: row.last_called_at === null ? null : decodeInstant(row.last_called_at),
  };
}

function decodeCohortDefinition(
  row: Pick<Selectable<Schema["cohorts"]>, "id" | "name" | "is_static" | "filters">,
): CohortDefinition {
  return {
    id: row.id,
    name: row.name,
    isStatic: decodeBoolean(row.is_static),
    filters: decodeJson(row.filters),
  };
}

/** Earlier records with changed rows taken in and deleted ones taken out, by ascending id. */
function withChanges<Row extends { id: number; deleted: number }, Item extends { id: number }>(
  earlier: readonly Item[],
  rows: readonly Row[],
  decode: (row: Row) => Item,
): readonly Item[] {
  if (rows.length === 0) return earlier;
  const items = new Map(earlier.map((item) => [item.id, item]));
  for (const row of rows) {
    if (decodeBoolean(row.deleted)) items.delete(row.id);
    else items.set(row.id, decode(row));
  }
  return [...items.values()].sort((a, b) => a.id - b.id);
}

/** As `flag-status.ts` tells of one flag. */
function isStale(eb: ExpressionBuilder<Schema, "feature_flags">, since: Date) {
  const before = encodeInstant(since);
  return eb.and([
    eb("active", "=", encodeBoolean(true)),
    eb.or([
      eb("last_called_at", "<", before),
      eb.and([
        eb("last_called_at", "is", null),
        eb("created_at", "<", before),
        eb("is_constant", "=", encodeBoolean(true)),
      ]),
    ]),
  ]);
}

function listed(
  eb: ExpressionBuilder<Schema, "feature_flags">,
  projectId: number,
  query: FlagListQuery,
) {
  const conditions: Expression<SqlBool>[] = [
    eb("project_id", "=", projectId),
    eb("deleted", "=", encodeBoolean(false)),
    eb("creation_context", "!=", SURVEYS),
  ];
  if (query.excludedKeys.length > 0) conditions.push(eb("key", "not in", query.excludedKeys));
  if (query.tags.length > 0) {
    // Tags are lower case in a JSON list: one of them stands there as its own JSON.
    conditions.push(eb.or(query.tags.map((tag) => likeText(eb.ref("tags"), JSON.stringify(tag)))));
  }
  if (query.hasPayload !== null) {
    // Texts in JSON have their quotes escaped, so this is the key of an object that is not empty.
    const hasPayload = eb.or([
      likeText(eb.ref("filters"), '"payloads":{"'),
      likeText(sql.ref<string>("sealed_payloads"), '{"'),
    ]);
    conditions.push(
      query.hasPayload ? hasPayload : eb.not(sql<SqlBool>`coalesce(${hasPayload}, false)`),
    );
  }
  if (query.notCalledSince !== null) conditions.push(isStale(eb, query.notCalledSince));
  if (query.active !== null) conditions.push(eb("active", "=", encodeBoolean(query.active)));
  if (query.createdById !== null) conditions.push(eb("created_by", "=", query.createdById));
  if (query.evaluationRuntime !== null) {
    conditions.push(eb("evaluation_runtime", "=", query.evaluationRuntime));
  }
  if (query.search !== null) {
    conditions.push(
      eb.or([
        containsText(eb.ref("key"), query.search),
        containsText(eb.ref("name"), query.search),
      ]),
    );
  }
  switch (query.type) {
    case "boolean":
      conditions.push(eb("is_multivariate", "=", 0));
      break;
    case "multivariant":
      conditions.push(eb("is_multivariate", "=", 1));
      break;
    case "experiment":
      conditions.push(eb("has_experiment", "=", 1));
      break;
    case "remote_config":
      conditions.push(eb("is_remote_configuration", "=", 1));
      break;
    case null:
      break;
  }
  return eb.and(conditions);
}
