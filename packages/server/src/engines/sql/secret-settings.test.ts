import { expect, it } from "vitest";
import { secretSettings } from "./migrations/0027-secret-settings.ts";
import { describeEachSqlEngine } from "./sql-engines.contract.ts";
import { createTransformationConfigStore } from "./transformation-config-store.ts";
import { transformationConfigs } from "./transformation-configs.setup.ts";

describeEachSqlEngine("settings from before secrets were noted", (open) => {
  it.each([
    [[{ key: "k", secret: true }, { key: "left out", secret: true }, { key: "open" }, null, "x"]],
    [{ k: { secret: true }, "left out": { secret: true }, open: {}, other: "x" }],
  ])("[TM-51] are secret where they are declared so, and given: %j", async (schema) => {
    const database = await open();
    const newConfig = await transformationConfigs(database);
    const [some, none] = [await newConfig(), await newConfig()];
    await database.writes
      .updateTable("transformations")
      .set({ config_schema: JSON.stringify(schema) })
      .execute();
    await database.writes
      .updateTable("transformation_configs")
      .set({ config: '{"k":"s","open":"o"}' })
      .where("id", "=", some.configId)
      .execute();
    await database.writes.schema
      .alterTable("transformation_configs")
      .dropColumn("secret_keys")
      .execute();
    // biome-ignore lint/suspicious/noExplicitAny: migrations know no schema
    await secretSettings(database.capabilities).up(database.writes as any);
    const store = createTransformationConfigStore(database);
    const keysOf = async ({ projectId, configId }: typeof some) =>
      (await store.config(projectId, configId))?.config.secretKeys;
    expect(await keysOf(some)).toEqual(["k"]);
    expect(await keysOf(none)).toEqual([]);
  });
});
