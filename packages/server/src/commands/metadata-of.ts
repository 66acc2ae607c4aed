import { dependingOn } from "../compose/depending-on-setting.ts";
import type { Config } from "../config.ts";
import { dataFolderPaths } from "../engines/data-folder/data-folder.ts";
import type { SqlDatabase } from "../engines/sql/sql-database.ts";

/** Opens the metadata database of an installation; a failure names the option that led there. */
export async function metadataOf(config: Config): Promise<SqlDatabase> {
  const { openMetadata } = await import("../engines/sql/open-metadata.ts");
  const { data, databaseUrl } = config;
  return dependingOn(config, databaseUrl === null ? "data" : "databaseUrl", () =>
    openMetadata({ databaseUrl, file: dataFolderPaths(data).metadata }),
  );
}
