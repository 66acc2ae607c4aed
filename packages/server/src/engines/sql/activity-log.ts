import type { ExpressionBuilder, Selectable, SelectQueryBuilder, Transaction } from "kysely";
import type {
  Activity,
  ActivityDraft,
  ActivityLog,
  ActivityScope,
  FieldChange,
  TriggeredJob,
} from "../../activity/activity-log.ts";
import { decodeInstant, decodeJson, encodeInstant, encodeJson } from "./codec.ts";
import type { Schema } from "./schema.ts";
import type { SqlDatabase } from "./sql-database.ts";

const NO_CHANGES = encodeJson([]);

/** {@link ActivityLog} on SQL. */
export function createActivityLog({ reads }: Pick<SqlDatabase, "reads">): ActivityLog {
  return {
    async list(projectId, { scope, itemId, authorId, limit, offset }) {
      let matching = reads
        .selectFrom("activity_log")
        .where("project_id", "=", projectId)
        .where(isTold);
      if (scope !== null) matching = matching.where("scope", "=", scope);
      if (itemId !== null) matching = matching.where("item_id", "=", itemId);
      if (authorId !== null) matching = matching.where("author_id", "=", authorId);
      return await pageOf(matching, { limit, offset });
    },

    async ofOrganization(organizationId, { scopes, limit, offset }) {
      const matching = reads
        .selectFrom("activity_log")
        .where("scope", "in", [...scopes])
        .where(({ eb, or, selectFrom }) =>
          or([
            eb("organization_id", "=", organizationId),
            eb(
              "project_id",
              "in",
              selectFrom("projects").select("id").where("organization_id", "=", organizationId),
            ),
          ]),
        )
        .where(isTold);
      return await pageOf(matching, { limit, offset });
    },

    async since(projectId, { scope, itemId }, version) {
      const rows: Selectable<Schema["activity_log"]>[] = [];
      let chars = 0;
      // One by one: before it is read nobody knows how long the next is.
      for (let lastId = 0; ; ) {
        const row = await reads
          .selectFrom("activity_log")
          .selectAll()
          .where("project_id", "=", projectId)
          .where("scope", "=", scope)
          .where("item_id", "=", itemId)
          .where("item_version", ">", version)
          .where("id", ">", lastId)
          .orderBy("id")
          .limit(1)
          .executeTakeFirst();
        if (!row) return rows.map(decodeActivity);
        chars += row.changes.length;
        if (rows.length >= MAX_SINCE || chars > MAX_SINCE_CHARS) return [];
        rows.push(row);
        lastId = row.id;
      }
    },
  };
}

/** A page of activities, newest first, and how many there are. */
async function pageOf(
  matching: SelectQueryBuilder<Schema, "activity_log", object>,
  { limit, offset }: { readonly limit: number; readonly offset: number },
) {
  const { count } = await matching
    .select((eb) => eb.fn.countAll<number>().as("count"))
    .executeTakeFirstOrThrow();
  const rows = await matching
    .selectAll()
    .orderBy("id", "desc")
    .limit(limit)
    .offset(offset)
    .execute();
  return { count: Number(count), activities: rows.map(decodeActivity) };
}
/** Most activities since a version, and characters of what they changed. */
const MAX_SINCE = 1_000;
const MAX_SINCE_CHARS = 10_000_000;

/** Whether an activity is shown in lists: updates that changed nothing are not. */
function isTold({ eb, not, and }: ExpressionBuilder<Schema, "activity_log">) {
  return not(and([eb("activity", "=", "updated"), eb("changes", "=", NO_CHANGES)]));
}

/** What an activity belongs to. */
type ActivityOwner = { readonly projectId: number } | { readonly organizationId: string };

/** Keeps an activity in the transaction of its change. */
export async function keepActivity(
  transaction: Transaction<Schema>,
  draft: ActivityDraft | null | undefined,
  { authorId, now, ...owner }: ActivityOwner & { authorId: number | null; now: Date },
): Promise<void> {
  if (!draft) return;
  await transaction
    .insertInto("activity_log")
    .values({
      project_id: "projectId" in owner ? owner.projectId : null,
      organization_id: "organizationId" in owner ? owner.organizationId : null,
      scope: draft.scope,
      item_id: draft.itemId,
      item_version: draft.itemVersion,
      activity: draft.activity,
      name: draft.name,
      changes: encodeJson(draft.changes),
      job: draft.job ? encodeJson(draft.job) : null,
      author_id: authorId,
      created_at: encodeInstant(now),
    })
    .execute();
}

function decodeActivity(row: Selectable<Schema["activity_log"]>): Activity {
  return {
    id: row.id,
    projectId: row.project_id,
    scope: row.scope as ActivityScope,
    itemId: row.item_id,
    itemVersion: row.item_version,
    activity: row.activity as Activity["activity"],
    name: row.name,
    changes: decodeJson<FieldChange[]>(row.changes),
    ...(row.job !== null && { job: decodeJson<TriggeredJob>(row.job) }),
    authorId: row.author_id,
    at: decodeInstant(row.created_at),
  };
}
