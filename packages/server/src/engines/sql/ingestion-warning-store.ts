import { sql } from "kysely";
import {
  type IngestionWarningStore,
  MAX_SAMPLES,
  MAX_WARNINGS_PER_DAY,
  OTHER_SDK,
  type WarningQuery,
  type WarningSample,
  type WarningTally,
} from "../../events/ingestion-warning-store.ts";
import { decodeInstant, decodeJson, encodeInstant, encodeJson } from "./codec.ts";
import type { SqlDatabase } from "./sql-database.ts";

const MS_PER_DAY = 86_400_000;

const dayOf = (instant: Date): number => Math.floor(instant.getTime() / MS_PER_DAY);

/** {@link IngestionWarningStore} on SQL. */
export function createIngestionWarningStore({ reads, writes }: SqlDatabase): IngestionWarningStore {
  return {
    async add(projectId, tallies) {
      await writes.transaction().execute(async (transaction) => {
        const project = await transaction
          .selectFrom("projects")
          .select("id")
          .where("id", "=", projectId)
          .executeTakeFirst();
        if (!project) return;
        for (const tally of tallies) {
          const day = dayOf(tally.firstAt);
          const rows = transaction
            .selectFrom("ingestion_warnings")
            .where("project_id", "=", projectId)
            .where("day", "=", day);
          const rowOf = ({ name, version }: WarningTally["sdk"]) =>
            rows
              .select("samples")
              .where("type", "=", tally.type)
              .where("sdk", "=", name)
              .where("sdk_version", "=", version)
              .executeTakeFirst();
          let { sdk } = tally;
          let known = await rowOf(sdk);
          if (!known) {
            const { count } = await rows
              .select((eb) => eb.fn.countAll().as("count"))
              .executeTakeFirstOrThrow();
            if (Number(count) >= MAX_WARNINGS_PER_DAY) {
              sdk = OTHER_SDK;
              known = await rowOf(sdk);
            }
          }
          const samples = [
            ...(known ? decodeJson<unknown[]>(known.samples) : []),
            ...tally.samples.map((sample) => ({ ...sample, at: encodeInstant(sample.at) })),
          ].slice(0, MAX_SAMPLES);
          await transaction
            .insertInto("ingestion_warnings")
            .values({
              project_id: projectId,
              day,
              type: tally.type,
              sdk: sdk.name,
              sdk_version: sdk.version,
              times: tally.count,
              first_at: encodeInstant(tally.firstAt),
              last_at: encodeInstant(tally.lastAt),
              samples: encodeJson(samples),
            })
            .onConflict((conflict) =>
              conflict.columns(["project_id", "day", "type", "sdk", "sdk_version"]).doUpdateSet({
                times: sql`ingestion_warnings.times + excluded.times`,
                last_at: sql`excluded.last_at`,
                samples: sql`excluded.samples`,
              }),
            )
            .execute();
        }
      });
    },

    async list(projectId, query) {
      const sums = matching(projectId, query)
        .select(({ fn }) => [
          "type",
          "sdk",
          "sdk_version",
          fn.sum("times").as("count"),
          fn.min("first_at").as("first_at"),
          fn.max("last_at").as("last_at"),
          fn.max("day").as("last_day"),
        ])
        .groupBy(["type", "sdk", "sdk_version"]);
      const { count } = await reads
        .selectFrom(sums.as("sums"))
        .select(({ fn }) => fn.countAll().as("count"))
        .executeTakeFirstOrThrow();
      const rows = await sums
        .orderBy("last_at", "desc")
        .orderBy("type")
        .orderBy("sdk")
        .orderBy("sdk_version")
        .limit(query.limit)
        .offset(query.offset)
        .execute();
      const warnings: WarningTally[] = [];
      for (const row of rows) {
        const { samples } = await matching(projectId, query)
          .select("samples")
          .where("type", "=", row.type)
          .where("sdk", "=", row.sdk)
          .where("sdk_version", "=", row.sdk_version)
          .where("day", "=", Number(row.last_day))
          .executeTakeFirstOrThrow();
        warnings.push({
          type: row.type,
          sdk: { name: row.sdk, version: row.sdk_version },
          count: Number(row.count),
          firstAt: decodeInstant(Number(row.first_at)),
          lastAt: decodeInstant(Number(row.last_at)),
          samples: decodeJson<(WarningSample & { at: number })[]>(samples).map((sample) => ({
            ...sample,
            at: decodeInstant(sample.at as unknown as number),
          })),
        });
      }
      return { count: Number(count), warnings };
    },

    async prune(before) {
      await writes.deleteFrom("ingestion_warnings").where("day", "<", dayOf(before)).execute();
    },
  };

  function matching(projectId: number, { type, after, before }: WarningQuery) {
    let rows = reads.selectFrom("ingestion_warnings").where("project_id", "=", projectId);
    if (type !== undefined) rows = rows.where("type", "=", type);
    if (after) rows = rows.where("last_at", ">=", encodeInstant(after));
    if (before) rows = rows.where("first_at", "<=", encodeInstant(before));
    return rows;
  }
}
