import { describeTransformationRecords } from "../../transformations/transformation-records.contract.ts";
import { describeEachSqlEngine } from "./sql-engines.contract.ts";
import { transformationConfigs } from "./transformation-configs.setup.ts";
import {
  createTransformationEffects,
  createTransformationJobs,
  createTransformationRecords,
  createTransformationStorage,
} from "./transformation-records.ts";

/** Fewer than in earnest: filling them takes long. */
const MAX_JOBS = 20;
const MAX_WEBHOOKS = 3;

describeEachSqlEngine("records of transformations", (open) => {
  describeTransformationRecords(async () => {
    const database = await open();
    return {
      records: createTransformationRecords(database),
      storage: createTransformationStorage(database),
      effects: createTransformationEffects(database, { jobs: MAX_JOBS, webhooks: MAX_WEBHOOKS }),
      jobs: createTransformationJobs(database, { jobs: MAX_JOBS, webhooks: MAX_WEBHOOKS }),
      maxJobs: MAX_JOBS,
      maxWebhooks: MAX_WEBHOOKS,
      newConfig: await transformationConfigs(database),
      async enableConfig({ configId }, isEnabled) {
        await database.writes
          .updateTable("transformation_configs")
          .set({ enabled: isEnabled ? 1 : 0 })
          .where("id", "=", configId)
          .execute();
      },
      async removeConfig({ configId }) {
        await database.writes
          .deleteFrom("transformation_configs")
          .where("id", "=", configId)
          .execute();
      },
      close: () => database.close(),
    };
  });
});
