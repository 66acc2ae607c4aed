import { type Kysely, sql, type Transaction } from "kysely";
import {
  type FrozenAnswer,
  type FrozenAnswers,
  MAX_FROZEN_ANSWERS,
  MAX_FROZEN_CHARS,
} from "../../experiments/frozen-answers.ts";
import { decodeInstant, encodeInstant } from "./codec.ts";
import type { Schema } from "./schema.ts";
import type { SqlDatabase } from "./sql-database.ts";

/** Keys looked for by one statement. */
const KEYS_PER_STATEMENT = 200;

/** {@link FrozenAnswers} on SQL. */
export function createFrozenAnswers({
  reads,
  writes,
}: Pick<SqlDatabase, "reads" | "writes">): FrozenAnswers {
  return {
    find: (experimentId, keys) => findAnswers(reads, experimentId, keys),

    freeze: (experimentId, window, answers) =>
      writes.transaction().execute(async (transaction) => {
        await transaction
          .deleteFrom("frozen_answers")
          .where("experiment_id", "=", experimentId)
          .where("answer_window", "!=", window)
          .execute();
        const room = await roomOf(transaction, experimentId);
        for (const { key, body, computedAt } of answers) {
          if (room.answers < 1 || room.chars < body.length) continue;
          room.answers -= 1;
          room.chars -= body.length;
          await transaction
            .insertInto("frozen_answers")
            .values({
              experiment_id: experimentId,
              answer_key: key,
              answer_window: window,
              body,
              computed_at: encodeInstant(computedAt),
            })
            .onConflict((conflict) => conflict.columns(["experiment_id", "answer_key"]).doNothing())
            .execute();
        }
        const keys = answers.map(({ key }) => key);
        return await findAnswers(transaction, experimentId, keys);
      }),
  };
}

async function findAnswers(
  database: Kysely<Schema> | Transaction<Schema>,
  experimentId: number,
  keys: readonly string[],
): Promise<readonly FrozenAnswer[]> {
  const found: FrozenAnswer[] = [];
  for (let from = 0; from < keys.length; from += KEYS_PER_STATEMENT) {
    const rows = await database
      .selectFrom("frozen_answers")
      .select(["answer_key", "body", "computed_at"])
      .where("experiment_id", "=", experimentId)
      .where("answer_key", "in", keys.slice(from, from + KEYS_PER_STATEMENT))
      .execute();
    for (const { answer_key: key, body, computed_at } of rows)
      found.push({ key, body, computedAt: decodeInstant(computed_at) });
  }
  return found;
}

/** How much more may be kept of an experiment. */
async function roomOf(transaction: Transaction<Schema>, experimentId: number) {
  const { answers, chars } = await transaction
    .selectFrom("frozen_answers")
    .select(({ fn }) => [
      fn.countAll<number | string>().as("answers"),
      sql<number | string | null>`sum(length(body))`.as("chars"),
    ])
    .where("experiment_id", "=", experimentId)
    .executeTakeFirstOrThrow();
  return {
    answers: MAX_FROZEN_ANSWERS - Number(answers),
    chars: MAX_FROZEN_CHARS - Number(chars ?? 0),
  };
}
