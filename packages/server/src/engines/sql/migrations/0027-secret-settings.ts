import { configFieldsOf } from "@hedgerow/core/transformations/config-schema";
import { decodeJson, encodeJson } from "../codec.ts";
import type { SqlMigration } from "../migrate.ts";

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
      const given = decodeJson<object>(config);
      const keys = configFieldsOf(decodeJson(config_schema))
        .filter(({ key, secret }) => secret && Object.hasOwn(given, key))
        .map(({ key }) => key);
      if (keys.length === 0) continue;
      await db
        .updateTable("transformation_configs")
        .set({ secret_keys: encodeJson(keys) })
        .where("id", "=", id)
        .execute();
    }
  },
});
