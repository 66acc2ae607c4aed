import { sql } from "kysely";
import { prepareRows } from "./prepared-rows.ts";

const PERSON_COLUMNS = [
  "project_id",
  "uuid",
  "properties",
  "property_times",
  "created_at",
  "is_identified",
] as const;

const STORED_PERSON_COLUMNS = ["id", ...PERSON_COLUMNS] as const;

/** Of persons `p` with what is apart in `t`: those count that moved since the row was written. */
export const propertyTimes = sql<string>`coalesce(t.times, p.property_times)`.as("property_times");

/** What is run for nearly every run of events: built once for each database. */
export function createPersonStatements() {
  /** Most changes leave the time of creation alone: its index is then not written. */
  const update = (columns: readonly ("created_at" | "is_identified" | `propert${string}`)[]) =>
    prepareRows(STORED_PERSON_COLUMNS, (transaction, rows) =>
      transaction
        .insertInto("persons")
        .values([...rows])
        .onConflict((conflict) =>
          conflict
            .column("id")
            .doUpdateSet((eb) =>
              Object.fromEntries(
                columns.map((column) => [column, eb.ref(`excluded.${column}` as "excluded.id")]),
              ),
            ),
        ),
    );
  const updated = ["properties", "property_times", "is_identified"] as const;

  return {
    insertPersons: prepareRows(PERSON_COLUMNS, (transaction, rows) =>
      transaction
        .insertInto("persons")
        .values([...rows])
        .returning(["id", "uuid"]),
    ),
    updatePersons: update(updated),
    updatePersonsWithCreation: update([...updated, "created_at"]),
    moveTimes: prepareRows(["person_id", "times"], (transaction, rows) =>
      transaction
        .insertInto("person_times")
        .values([...rows])
        .onConflict((conflict) =>
          conflict.column("person_id").doUpdateSet((eb) => ({ times: eb.ref("excluded.times") })),
        ),
    ),
    /** For whom the row has the times again. */
    forgetTimes: prepareRows(["person_id"], (transaction, rows) =>
      transaction.deleteFrom("person_times").where(
        "person_id",
        "in",
        rows.map((row) => row.person_id),
      ),
    ),
    insertDistinctIds: prepareRows(
      ["project_id", "distinct_id", "person_id"],
      (transaction, rows) => transaction.insertInto("person_distinct_ids").values([...rows]),
    ),
    /** Persons of one project by their ids; each row names one, and the project. */
    findPersons: prepareRows(["project_id", "distinct_id"], (transaction, rows) =>
      transaction
        .selectFrom("person_distinct_ids as d")
        .innerJoin("persons as p", "p.id", "d.person_id")
        .leftJoin("person_times as t", "t.person_id", "p.id")
        .select([
          "d.distinct_id",
          "p.id",
          "p.uuid",
          "p.properties",
          propertyTimes,
          "p.created_at",
          "p.is_identified",
          sql<number>`t.person_id is not null`.as("has_times_apart"),
        ])
        .where("d.project_id", "=", rows[0].project_id)
        .where(
          "d.distinct_id",
          "in",
          rows.map((row) => row.distinct_id),
        ),
    ),
    findProjects: prepareRows(["id"], (transaction, rows) =>
      transaction
        .selectFrom("projects")
        .select("id")
        .where(
          "id",
          "in",
          rows.map((row) => row.id),
        ),
    ),
    takeLock: prepareRows(["name", "position"], (transaction, [row]) =>
      transaction
        .insertInto("consumer_positions")
        .values(row)
        .onConflict((conflict) =>
          conflict
            .column("name")
            .doUpdateSet((eb) => ({ position: eb.ref("consumer_positions.position") })),
        )
        .returning("position"),
    ),
    findPosition: prepareRows(["name"], (transaction, [row]) =>
      transaction.selectFrom("consumer_positions").select("position").where("name", "=", row.name),
    ),
    movePosition: prepareRows(["name", "position"], (transaction, [row]) =>
      transaction
        .updateTable("consumer_positions")
        .set({ position: row.position })
        .where("name", "=", row.name),
    ),
  };
}

export type PersonStatements = ReturnType<typeof createPersonStatements>;
