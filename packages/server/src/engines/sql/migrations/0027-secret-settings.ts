import { isJsonObject, type Json, type JsonObject } from "@hedgerow/core/json";
import { decodeJson, encodeJson } from "../codec.ts";
import type { SqlMigration } from "../sql-migration.ts";

/** Settings that were given as secrets stay secret: of those that are there, what is declared as one. */
export const secretSettings: SqlMigration = () => ({
  async up(db) {
    await db.schema
      .alterTable("transformation_configs")
      .addColumn("secret_keys", "text", (column) => column.notNull().defaultTo("[]"))
      .execute();
    const rows = await db
      .selectFrom("transformation_configs")
      .innerJoin("transformations", "transformations.id", "transformation_id")
      .select(["transformation_configs.id", "config", "config_schema"])
      .execute();
    for (const { id, config, config_schema } of rows) {
      const given = decodeJson<JsonObject>(config);
      const keys = secretKeysIn(decodeJson<Json>(config_schema)).filter((key) =>
        Object.hasOwn(given, key),
      );
      if (keys.length === 0) continue;
      await db
        .updateTable("transformation_configs")
        .set({ secret_keys: encodeJson(keys) })
        .where("id", "=", id)
        .execute();
    }
  },
});

/** Schemas as they were read when this was written: a list of fields, or an object of fields by key. */
function secretKeysIn(schema: Json): readonly string[] {
  const fields: readonly (readonly [Json | undefined, Json])[] = isJsonObject(schema)
    ? Object.entries(schema)
    : Array.isArray(schema)
      ? (schema as readonly Json[]).map((item) => [isJsonObject(item) ? item.key : "", item])
      : [];
  return fields.flatMap(([key, item]) =>
    typeof key === "string" && key !== "" && isJsonObject(item) && item.secret === true
      ? [key]
      : [],
  );
}
