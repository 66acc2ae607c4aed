import { Migrator } from "kysely";
import { accounts } from "./migrations/0001-accounts.ts";
import { flags } from "./migrations/0002-flags.ts";
import { persons } from "./migrations/0003-persons.ts";
import { eventDefinitions } from "./migrations/0004-event-definitions.ts";
import { ingestion } from "./migrations/0005-ingestion.ts";
import { personsManagement } from "./migrations/0006-persons-management.ts";
import { flagManagement } from "./migrations/0007-flag-management.ts";
import { flagLife } from "./migrations/0008-flag-life.ts";
import { cohortCalculations } from "./migrations/0009-cohort-calculations.ts";
import { experiments } from "./migrations/0012-experiments.ts";
import { flagDecisions } from "./migrations/0013-flag-decisions.ts";
import { transformations } from "./migrations/0014-transformations.ts";
import { experimentParts } from "./migrations/0015-experiment-parts.ts";
import { frozenAnswers } from "./migrations/0016-frozen-answers.ts";
import { cohortMemberIndex } from "./migrations/0017-cohort-member-index.ts";
import { transformationsAtWork } from "./migrations/0018-transformations-at-work.ts";
import { testAccounts } from "./migrations/0020-test-accounts.ts";
import { durableCounts } from "./migrations/0023-durable-counts.ts";
import { secretKeyBackup } from "./migrations/0024-secret-key-backup.ts";
import { personTimes } from "./migrations/0025-person-times.ts";
import { jobDepths } from "./migrations/0026-job-depths.ts";
import { secretSettings } from "./migrations/0027-secret-settings.ts";
import { activityJobs } from "./migrations/0028-activity-jobs.ts";
import type { SqlDatabase } from "./sql-database.ts";
import type { SqlMigration } from "./sql-migration.ts";

/** In the order in which they run. Names are recorded in the database: never rename one. */
const MIGRATIONS: Readonly<Record<string, SqlMigration>> = {
  "0001-accounts": accounts,
  "0002-flags": flags,
  "0003-persons": persons,
  "0004-event-definitions": eventDefinitions,
  "0005-ingestion": ingestion,
  "0006-persons-management": personsManagement,
  "0007-flag-management": flagManagement,
  "0008-flag-life": flagLife,
  "0009-cohort-calculations": cohortCalculations,
  "0012-experiments": experiments,
  "0013-flag-decisions": flagDecisions,
  "0014-transformations": transformations,
  "0015-experiment-parts": experimentParts,
  "0016-frozen-answers": frozenAnswers,
  "0017-cohort-member-index": cohortMemberIndex,
  "0018-transformations-at-work": transformationsAtWork,
  "0020-test-accounts": testAccounts,
  "0023-durable-counts": durableCounts,
  "0024-secret-key-backup": secretKeyBackup,
  "0025-person-times": personTimes,
  "0026-job-depths": jobDepths,
  "0027-secret-settings": secretSettings,
  "0028-activity-jobs": activityJobs,
};

/** Names of all steps, oldest first. */
export const MIGRATION_NAMES: readonly string[] = Object.keys(MIGRATIONS);

/**
 * Brings a database to the newest schema; throws with the cause when a step fails. `namespace` is
 * the Postgres schema that holds the tables, where several may have tables of the same names.
 */
export async function migrate(database: SqlDatabase, namespace?: string): Promise<void> {
  const migrator = new Migrator({
    db: database.writes,
    ...(namespace === undefined ? {} : { migrationTableSchema: namespace }),
    provider: {
      getMigrations: async () =>
        Object.fromEntries(
          Object.entries(MIGRATIONS).map(([name, build]) => [name, build(database.capabilities)]),
        ),
    },
  });
  const { error } = await migrator.migrateToLatest();
  if (error)
    throw new Error("the metadata database could not be brought up to date", { cause: error });
}
