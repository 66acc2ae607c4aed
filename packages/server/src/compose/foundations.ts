import { randomBytes } from "node:crypto";
import { keepPatterns } from "@hedgerow/core/flags/pattern";
import { createAuthentication } from "../accounts/authenticate.ts";
import { createProjectsByToken } from "../accounts/projects-by-token.ts";
import { createBacktrackingRegex } from "../engines/backtracking-regex/backtracking-regex.ts";
import { dataFolderPaths, openDataFolder } from "../engines/data-folder/data-folder.ts";
import { openSecretKey } from "../engines/data-folder/secret-key.ts";
import { openDuckDbEvents } from "../engines/duckdb-events/duckdb-events.ts";
import { openGeoIp } from "../engines/mmdb-geoip/mmdb-geoip.ts";
import { createAccountStore } from "../engines/sql/account-store.ts";
import { createActivityLog } from "../engines/sql/activity-log.ts";
import { openMetadata } from "../engines/sql/open-metadata.ts";
import { createPayloadSeal } from "../flags/encrypted-payloads.ts";
import type { Base } from "./base.ts";
import { dependingOn } from "./depending-on-setting.ts";

export type Foundations = Awaited<ReturnType<typeof openFoundations>>;

/**
 * Opens what all else stands on: the data folder, the metadata, the store of events, places and
 * patterns; and finds out who is asking.
 */
export async function openFoundations({ config, clock, reportFault, onClose }: Base) {
  const paths = dataFolderPaths(config.data);
  const folder = await dependingOn(config, "data", () => openDataFolder(config.data, clock()));
  onClose(() => folder.release());
  const seal = createPayloadSeal(openSecretKey(paths.payloadKey, randomBytes), randomBytes);
  const { databaseUrl, geoIpDatabase } = config;
  const metadataAt = databaseUrl === null ? "data" : "databaseUrl";
  const database = await dependingOn(config, metadataAt, () =>
    openMetadata({ databaseUrl, file: paths.metadata }),
  );
  onClose(() => database.close());
  const accounts = createAccountStore(database);
  const events = await openDuckDbEvents(paths.events, {
    memoryLimitMiB: config.duckdbMemoryMb,
    maxTemporaryMiB: config.duckdbTempMb,
    receiptDays: config.receiptDays,
  });
  onClose(() => events.close());
  const geoIp = await dependingOn(config, "geoIpDatabase", () =>
    openGeoIp({ path: geoIpDatabase, reportFault }),
  );
  const backtracking = createBacktrackingRegex();
  return {
    ...{ paths, folder, seal, database, accounts, events, geoIp, backtracking },
    compilePattern: keepPatterns(backtracking),
    activityLog: createActivityLog(database),
    projects: createProjectsByToken({ accounts, now: Date.now }),
    ...createAuthentication({ accounts, now: clock }),
  };
}
