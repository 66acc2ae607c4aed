import type { Json } from "@hedgerow/core/json";
import { addDurations, type DurationCounts } from "@hedgerow/core/transformations/durations";
import { type Insertable, type Kysely, sql, type Transaction } from "kysely";
import {
  type ConfigRef,
  DELIVERY_JOBS,
  type HourTally,
  joinAllOwnMetrics,
  joinTallies,
  type LogQuery,
  MAX_JOBS,
  MAX_LOG_LINES,
  MAX_WEBHOOKS,
  type NewJob,
  type OwnMetric,
  type StorageUsage,
  type StoredValue,
  type TransformationEffects,
  type TransformationJobs,
  type TransformationLogEntry,
  type TransformationRecords,
  type TransformationStorage,
} from "../../transformations/transformation-records.ts";
import { decodeInstant, decodeJson, encodeBoolean, encodeInstant, encodeJson } from "./codec.ts";
import { containsText } from "./contains-text.ts";
import { inTurns } from "./in-turns.ts";
import type { Schema } from "./schema.ts";
import type { SqlDatabase } from "./sql-database.ts";

/** Rows written by one statement, and ids asked for by one. */
const ROWS = 200;
/** Due jobs told at once, of all configs. */
const MOST_DUE = 500;

/** Which of some configs are there, in their projects. */
async function knownConfigs(
  database: Kysely<Schema>,
  refs: readonly ConfigRef[],
): Promise<(ref: ConfigRef) => boolean> {
  const projects = new Map<number, number>();
  const ids = [...new Set(refs.map(({ configId }) => configId))];
  for (let from = 0; from < ids.length; from += ROWS) {
    const rows = await database
      .selectFrom("transformation_configs")
      .select(["id", "project_id"])
      .where("id", "in", ids.slice(from, from + ROWS))
      .execute();
    for (const { id, project_id } of rows) projects.set(id, project_id);
  }
  return ({ configId, projectId }) => projects.get(configId) === projectId;
}

/** {@link TransformationRecords} on SQL. */
export function createTransformationRecords({ reads, writes }: SqlDatabase): TransformationRecords {
  return {
    async addTallies(tallies) {
      await writes.transaction().execute((transaction) => addTallies(transaction, tallies));
    },

    async hours({ projectId, configId, from, before }) {
      let query = reads
        .selectFrom("transformation_hours as hours")
        .innerJoin("transformation_configs as configs", "configs.id", "hours.config_id")
        .selectAll("hours")
        .where("hours.config_id", "=", configId)
        .where("configs.project_id", "=", projectId);
      if (from) query = query.where("hours.hour", ">=", encodeInstant(from));
      if (before) query = query.where("hours.hour", "<", encodeInstant(before));
      const rows = await query.orderBy("hours.hour").execute();
      return rows.map((row) => ({
        projectId,
        configId,
        hour: decodeInstant(row.hour),
        counts: {
          eventsIn: row.events_in,
          eventsOut: row.events_out,
          dropped: row.dropped,
          failed: row.failed,
        },
        durations: decodeJson<DurationCounts>(row.durations),
        ownMetrics: decodeJson<Record<string, OwnMetric>>(row.own_metrics),
      }));
    },

    async addLogs(entries) {
      await writes.transaction().execute(async (transaction) => {
        const isKnown = await knownConfigs(transaction, entries);
        const known = entries.filter(isKnown);
        for (let from = 0; from < known.length; from += ROWS) {
          await transaction
            .insertInto("transformation_logs")
            .values(
              known.slice(from, from + ROWS).map((entry) => ({
                config_id: entry.configId,
                id: entry.id,
                transformation_id: entry.transformationId,
                at: encodeInstant(entry.at),
                source: entry.source,
                type: entry.type,
                message: entry.message,
                instance_id: entry.instanceId,
              })),
            )
            .execute();
        }
        for (const configId of new Set(known.map((entry) => entry.configId))) {
          await transaction
            .deleteFrom("transformation_logs")
            .where("config_id", "=", configId)
            .where("id", "<=", (eb) =>
              eb
                .selectFrom("transformation_logs")
                .select("id")
                .where("config_id", "=", configId)
                .orderBy("id", "desc")
                .offset(MAX_LOG_LINES)
                .limit(1),
            )
            .execute();
        }
      });
    },

    async logs(query) {
      const { projectId, configId } = query;
      const { count } = await matchingLogs(query)
        .select((eb) => eb.fn.countAll().as("count"))
        .executeTakeFirstOrThrow();
      const rows = await matchingLogs(query)
        .selectAll("logs")
        .orderBy("logs.id", "desc")
        .limit(query.limit)
        .offset(query.offset)
        .execute();
      return {
        count: Number(count),
        entries: rows.map((row) => ({
          projectId,
          configId,
          id: row.id,
          transformationId: row.transformation_id,
          at: decodeInstant(row.at),
          source: row.source as TransformationLogEntry["source"],
          type: row.type as TransformationLogEntry["type"],
          message: row.message,
          instanceId: row.instance_id,
        })),
      };
    },

    async prune(before) {
      const time = encodeInstant(before);
      await writes.deleteFrom("transformation_hours").where("hour", "<", time).execute();
      await writes.deleteFrom("transformation_logs").where("at", "<", time).execute();
    },
  };

  function matchingLogs({ projectId, configId, search, types, after, before }: LogQuery) {
    let query = reads
      .selectFrom("transformation_logs as logs")
      .innerJoin("transformation_configs as configs", "configs.id", "logs.config_id")
      .where("logs.config_id", "=", configId)
      .where("configs.project_id", "=", projectId);
    if (search !== undefined && search !== "") {
      query = query.where((eb) => containsText(eb.ref("logs.message"), search));
    }
    if (types) query = query.where("logs.type", "in", types.length > 0 ? types : [""]);
    if (after) query = query.where("logs.at", ">", encodeInstant(after));
    if (before) query = query.where("logs.at", "<", encodeInstant(before));
    return query;
  }
}

/** See {@link TransformationRecords.addTallies}. */
async function addTallies(
  transaction: Transaction<Schema>,
  tallies: readonly HourTally[],
): Promise<void> {
  const isKnown = await knownConfigs(transaction, tallies);
  const sums = new Map<string, HourTally>();
  for (const tally of tallies.filter(isKnown)) {
    const key = `${tally.configId} ${tally.hour.getTime()}`;
    const sum = sums.get(key);
    sums.set(key, sum ? joinTallies(sum, tally) : tally);
  }
  // All in one order: others may add to the same hours at the same time.
  const inOrder = [...sums.values()].toSorted(
    (a, b) => a.configId - b.configId || a.hour.getTime() - b.hour.getTime(),
  );
  for (const tally of inOrder) await addTally(transaction, tally);
}

async function addTally(transaction: Transaction<Schema>, tally: HourTally): Promise<void> {
  const { configId, counts, durations, ownMetrics } = tally;
  const hour = encodeInstant(tally.hour);
  const none = encodeJson({});
  // From here on the row is this transaction's, and is read as it is.
  const earlier = await transaction
    .insertInto("transformation_hours")
    .values({
      config_id: configId,
      hour,
      events_in: counts.eventsIn,
      events_out: counts.eventsOut,
      dropped: counts.dropped,
      failed: counts.failed,
      durations: none,
      own_metrics: none,
    })
    .onConflict((conflict) =>
      conflict.columns(["config_id", "hour"]).doUpdateSet({
        events_in: sql`transformation_hours.events_in + excluded.events_in`,
        events_out: sql`transformation_hours.events_out + excluded.events_out`,
        dropped: sql`transformation_hours.dropped + excluded.dropped`,
        failed: sql`transformation_hours.failed + excluded.failed`,
      }),
    )
    .returning(["durations", "own_metrics"])
    .executeTakeFirstOrThrow();
  const sum = addDurations(decodeJson<DurationCounts>(earlier.durations), durations);
  const own = joinAllOwnMetrics(
    decodeJson<Record<string, OwnMetric>>(earlier.own_metrics),
    ownMetrics,
  );
  await transaction
    .updateTable("transformation_hours")
    .set({ durations: encodeJson(sum), own_metrics: encodeJson(own) })
    .where("config_id", "=", configId)
    .where("hour", "=", hour)
    .execute();
}

/** {@link TransformationStorage} on SQL. */
export function createTransformationStorage({ reads, writes }: SqlDatabase): TransformationStorage {
  return {
    async get({ configId }, key) {
      const row = await reads
        .selectFrom("transformation_storage")
        .select("value")
        .where("config_id", "=", configId)
        .where("key", "=", key)
        .executeTakeFirst();
      return row && decodeJson<Json>(row.value);
    },

    usage: (config) => usageOf(reads, config),

    async write(values) {
      return writes.transaction().execute((transaction) => writeValues(transaction, values));
    },
  };
}

/** See {@link TransformationStorage.write}. */
async function writeValues(
  transaction: Transaction<Schema>,
  values: readonly StoredValue[],
): Promise<readonly StorageUsage[]> {
  const isKnown = await knownConfigs(transaction, values);
  const last = new Map(
    values.filter(isKnown).map((one) => [`${one.configId} ${one.key}`, one] as const),
  );
  const configs = new Map<number, ConfigRef>();
  const rows: Insertable<Schema["transformation_storage"]>[] = [];
  for (const { projectId, configId, key, value } of last.values()) {
    configs.set(configId, { projectId, configId });
    if (value === undefined) {
      await transaction
        .deleteFrom("transformation_storage")
        .where("config_id", "=", configId)
        .where("key", "=", key)
        .execute();
      continue;
    }
    const text = encodeJson(value);
    rows.push({ config_id: configId, key, value: text, chars: key.length + text.length });
  }
  for await (const some of inTurns(rows, ROWS)) {
    await transaction
      .insertInto("transformation_storage")
      .values(some)
      .onConflict((conflict) =>
        conflict.columns(["config_id", "key"]).doUpdateSet({
          value: sql`excluded.value`,
          chars: sql`excluded.chars`,
        }),
      )
      .execute();
  }
  const usages: StorageUsage[] = [];
  for (const config of configs.values()) usages.push(await usageOf(transaction, config));
  return usages;
}

async function usageOf(
  database: Kysely<Schema>,
  { projectId, configId }: ConfigRef,
): Promise<StorageUsage> {
  const { keys, chars } = await database
    .selectFrom("transformation_storage")
    .select(({ fn }) => [fn.countAll().as("keys"), fn.sum("chars").as("chars")])
    .where("config_id", "=", configId)
    .executeTakeFirstOrThrow();
  return { projectId, configId, keys: Number(keys), chars: Number(chars ?? 0) };
}

interface JobBounds {
  readonly jobs: number;
  readonly webhooks: number;
}

const BOUNDS: JobBounds = { jobs: MAX_JOBS, webhooks: MAX_WEBHOOKS };

/** Adds jobs in their order; answers which were too many. */
async function addJobs(
  transaction: Transaction<Schema>,
  asked: readonly NewJob[],
  bounds: JobBounds,
): Promise<{ readonly isKnown: (job: ConfigRef) => boolean; readonly refused: readonly NewJob[] }> {
  const isKnown = await knownConfigs(transaction, asked);
  /** By config and kind: how many more there may be. */
  const room = new Map<string, number>();
  const refused: NewJob[] = [];
  const rows: Insertable<Schema["transformation_jobs"]>[] = [];
  for (const job of asked) {
    if (!isKnown(job)) continue;
    const { configId, projectId, name, payload, runAt, hops } = job;
    const isDelivery = DELIVERY_JOBS.includes(name);
    const kind = `${configId} ${isDelivery}`;
    let left = room.get(kind);
    if (left === undefined) {
      const { count } = await transaction
        .selectFrom("transformation_jobs")
        .select(({ fn }) => fn.countAll().as("count"))
        .where("config_id", "=", configId)
        .where("name", isDelivery ? "in" : "not in", DELIVERY_JOBS)
        .executeTakeFirstOrThrow();
      left = (isDelivery ? bounds.webhooks : bounds.jobs) - Number(count);
    }
    room.set(kind, left - 1);
    if (left <= 0) {
      refused.push(job);
      continue;
    }
    rows.push({
      config_id: configId,
      project_id: projectId,
      name,
      payload: encodeJson(payload),
      run_at: encodeInstant(runAt),
      attempts: 0,
      hops,
    });
  }
  for await (const some of inTurns(rows, ROWS)) {
    await transaction.insertInto("transformation_jobs").values(some).execute();
  }
  return { isKnown, refused };
}

/** The consumer of the event log whose effects are what transformations store, ask for and count. */
const EFFECTS_CONSUMER = "transformations";

/** {@link TransformationEffects} on SQL. */
export function createTransformationEffects(
  { reads, writes }: SqlDatabase,
  bounds: JobBounds = BOUNDS,
): TransformationEffects {
  return {
    async position() {
      const row = await reads
        .selectFrom("consumer_positions")
        .select("position")
        .where("name", "=", EFFECTS_CONSUMER)
        .executeTakeFirst();
      return row?.position ?? 0;
    },

    take({ after, upTo }, { values, jobs, tallies }) {
      return writes.transaction().execute(async (transaction) => {
        await transaction
          .insertInto("consumer_positions")
          .values({ name: EFFECTS_CONSUMER, position: 0 })
          .onConflict((conflict) => conflict.column("name").doNothing())
          .execute();
        const { numUpdatedRows } = await transaction
          .updateTable("consumer_positions")
          .set({ position: upTo })
          .where("name", "=", EFFECTS_CONSUMER)
          .where("position", "=", after)
          .executeTakeFirst();
        if (numUpdatedRows === 0n) return "moved";
        const usages = await writeValues(transaction, values);
        const { refused } = await addJobs(transaction, jobs, bounds);
        await addTallies(transaction, tallies);
        return { usages, refused };
      });
    },
  };
}

/** {@link TransformationJobs} on SQL. */
export function createTransformationJobs(
  { reads, writes }: SqlDatabase,
  bounds: JobBounds = BOUNDS,
): TransformationJobs {
  return {
    add(job) {
      return writes.transaction().execute(async (transaction) => {
        const { isKnown, refused } = await addJobs(transaction, [job], bounds);
        if (!isKnown(job)) return "gone";
        return refused.length > 0 ? "full" : "added";
      });
    },

    async due(now, ofEachConfig, exceptConfigs = new Set()) {
      const numbered = reads
        .selectFrom("transformation_jobs")
        .selectAll()
        .select(
          sql<number>`row_number() over (partition by config_id order by run_at, id)`.as("turn"),
        )
        .where("run_at", "<=", encodeInstant(now))
        .where("config_id", "in", ({ selectFrom }) =>
          selectFrom("transformation_configs")
            .select("transformation_configs.id")
            .where("enabled", "=", encodeBoolean(true))
            .where("deleted", "=", encodeBoolean(false)),
        )
        .$if(exceptConfigs.size > 0, (query) =>
          query.where("config_id", "not in", [...exceptConfigs]),
        );
      const rows = await reads
        .selectFrom(numbered.as("numbered"))
        .selectAll()
        .where("turn", "<=", ofEachConfig)
        // Each has its first job before anybody has a second one.
        .orderBy("turn")
        .orderBy("run_at")
        .orderBy("id")
        .limit(MOST_DUE)
        .execute();
      const jobs = rows.map((row) => ({
        id: row.id,
        projectId: row.project_id,
        configId: row.config_id,
        name: row.name,
        payload: decodeJson<Json>(row.payload),
        runAt: decodeInstant(row.run_at),
        attempts: row.attempts,
        hops: row.hops,
      }));
      return jobs.toSorted((a, b) => a.runAt.getTime() - b.runAt.getTime() || a.id - b.id);
    },

    async postpone(id, runAt, attempts) {
      await writes
        .updateTable("transformation_jobs")
        .set({ run_at: encodeInstant(runAt), attempts })
        .where("id", "=", id)
        .execute();
    },

    async finish(id) {
      await writes.deleteFrom("transformation_jobs").where("id", "=", id).execute();
    },

    claimPeriod({ projectId, configId }, task, period) {
      return writes.transaction().execute(async (transaction) => {
        const isKnown = await knownConfigs(transaction, [{ projectId, configId }]);
        if (!isKnown({ projectId, configId })) return false;
        const claimed = await transaction
          .insertInto("transformation_periods")
          .values({ config_id: configId, task, period: encodeInstant(period) })
          .onConflict((conflict) =>
            conflict
              .columns(["config_id", "task"])
              .doUpdateSet({ period: sql`excluded.period` })
              .whereRef("transformation_periods.period", "<", sql.ref("excluded.period")),
          )
          .returning("task")
          .executeTakeFirst();
        return claimed !== undefined;
      });
    },
  };
}
