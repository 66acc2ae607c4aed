import { cleanText } from "@hedgerow/core/events/clean-json";
import type { StoredFacts } from "@hedgerow/core/flags/evaluation-request";
import { createAutomaticReader } from "@hedgerow/core/persons/automatic-properties";
import { type PersonUpdate, personUpdateOf } from "@hedgerow/core/persons/person-update";
import type { Transaction } from "kysely";
import type { PersonStore } from "../../persons/person-store.ts";
import { createSlices } from "../../platform/slices.ts";
import { applyToPersons } from "./apply-to-persons.ts";
import { decodeBoolean, decodeInstant, decodeJson } from "./codec.ts";
import { createPlainFacts, createRememberingFacts, type FactsReader } from "./facts-reader.ts";
import { HeldPersons } from "./held-persons.ts";
import { inTurns, TURN_MS } from "./in-turns.ts";
import { asksForPerson } from "./person-facts.ts";
import { lockPersons, personsPosition } from "./person-lock.ts";
import { createPersonStatements } from "./person-statements.ts";
import type { Schema } from "./schema.ts";
import type { SqlDatabase } from "./sql-database.ts";

export interface PersonStoreOptions {
  /** Keys of a project's flags that keep their answer across identification (flag-evaluation 16.1). */
  readonly continuityFlagKeys: (
    projectId: number,
  ) => readonly string[] | Promise<readonly string[]>;
  /** Told after the commit that added a group type; the project's revision has moved on. */
  readonly onGroupTypeAdded: (projectId: number) => void;
  /** Told of faults that a method answers with `"unavailable"` instead of throwing. */
  readonly reportFault: (error: unknown, context: string) => void;
}

/**
 * {@link PersonStore} on SQL. Of a database that no other process writes it remembers persons: there
 * must be one store only.
 */
export function createPersonStore(
  database: SqlDatabase,
  options: PersonStoreOptions,
): PersonStore & Pick<FactsReader, "forget"> {
  const { reads, writes, capabilities, replayable, flush } = database;
  const facts = capabilities.isExclusive
    ? createRememberingFacts(database)
    : createPlainFacts(reads);
  const held = new HeldPersons();
  const statements = createPersonStatements();
  const readAutomatic = createAutomaticReader();

  return {
    factsFor(query) {
      const unavailable = (error: unknown): StoredFacts => {
        options.reportFault(error, "stored facts of a flag request could not be read");
        return {
          person: asksForPerson(query) ? "unavailable" : null,
          groups: Object.keys(query.groups).length > 0 ? "unavailable" : {},
        };
      };
      try {
        return facts.recall(query) ?? facts.read(query).catch(unavailable);
      } catch (error) {
        return unavailable(error);
      }
    },

    async applyEvents(entries) {
      if (entries.length === 0) return [];
      const updates: PersonUpdate[] = [];
      const continuityFlagKeys = new Map<number, readonly string[]>();
      const slices = createSlices(TURN_MS);
      for (const { event, added } of entries) {
        if (slices.isOver()) await slices.next();
        const update = personUpdateOf(event, added?.properties, readAutomatic);
        updates.push(update);
        const { projectId } = event;
        if (update.link === null || continuityFlagKeys.has(projectId)) continue;
        continuityFlagKeys.set(projectId, await options.continuityFlagKeys(projectId));
      }
      // The log has the events: what is lost of this with the machine is applied again.
      const { outcomes, changes } = await replayable((transaction) =>
        applyToPersons(transaction, { entries, updates }, { continuityFlagKeys, held, statements }),
      );
      for (const change of changes) facts.forget(change);
      for (const { projectId, hasNewGroupTypes } of changes) {
        if (hasNewGroupTypes) options.onGroupTypeAdded(projectId);
      }
      return outcomes;
    },

    position: () => personsPosition(reads),

    async secure() {
      const position = await personsPosition(reads);
      await flush();
      return position;
    },

    async storeHashKeyOverrides(projectId, { distinctId, anonDistinctId }, flagKeys) {
      if (flagKeys.length === 0) return;
      const ids = [...new Set([cleanText(distinctId), cleanText(anonDistinctId)])];
      const personIds = (connection: Pick<Transaction<Schema>, "selectFrom">) =>
        connection
          .selectFrom("person_distinct_ids")
          .select("person_id")
          .distinct()
          .where("project_id", "=", projectId)
          .where("distinct_id", "in", ids)
          .execute();
      if ((await personIds(reads)).length === 0) return;
      const changed = await writes.transaction().execute(async (transaction) => {
        await lockPersons(transaction);
        const persons = (await personIds(transaction)).map((row) => row.person_id);
        const rows = persons.flatMap((personId) =>
          flagKeys.map((flagKey) => ({
            person_id: personId,
            flag_key: flagKey,
            hash_key: cleanText(anonDistinctId),
          })),
        );
        for await (const some of inTurns(rows)) {
          await transaction
            .insertInto("flag_hash_key_overrides")
            .values(some)
            .onConflict((conflict) => conflict.columns(["person_id", "flag_key"]).doNothing())
            .execute();
        }
        return persons;
      });
      facts.forget({ projectId, personIds: changed, distinctIds: [] });
    },

    forget: (changes) => facts.forget(changes),

    distinctIdsOf: (projectId, distinctId) => facts.distinctIdsOf(projectId, distinctId),

    async personByDistinctId(projectId, distinctId) {
      const row = await reads
        .selectFrom("person_distinct_ids as d")
        .innerJoin("persons as p", "p.id", "d.person_id")
        .selectAll("p")
        .where("d.project_id", "=", projectId)
        .where("d.distinct_id", "=", cleanText(distinctId))
        .executeTakeFirst();
      if (!row) return undefined;
      const ids = await reads
        .selectFrom("person_distinct_ids")
        .select("distinct_id")
        .where("person_id", "=", row.id)
        .orderBy("distinct_id")
        .execute();
      return {
        id: row.id,
        uuid: row.uuid,
        projectId: row.project_id,
        distinctIds: ids.map(({ distinct_id }) => distinct_id),
        properties: decodeJson(row.properties),
        createdAt: decodeInstant(row.created_at),
        isIdentified: decodeBoolean(row.is_identified),
      };
    },

    async groupTypes(projectId) {
      return await reads
        .selectFrom("group_types")
        .select(["index", "name"])
        .where("project_id", "=", projectId)
        .orderBy("index")
        .execute();
    },
  };
}
