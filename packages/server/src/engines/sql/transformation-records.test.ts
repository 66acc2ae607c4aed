import { describeTransformationRecords } from "../../transformations/transformation-records.contract.ts";
import { projectsAndUsers } from "./projects-and-users.setup.ts";
import { describeEachSqlEngine } from "./sql-engines.contract.ts";
import {
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
    const { newProject, organizationId } = await projectsAndUsers(database);
    const transformation = await database.writes
      .insertInto("transformations")
      .values({
        organization_id: organizationId,
        type: "source",
        name: "T",
        description: null,
        url: null,
        url_key: null,
        icon: null,
        config_schema: "[]",
        tag: null,
        latest_tag: null,
        latest_tag_checked_at: null,
        is_global: 0,
        capabilities: "{}",
        metrics: "{}",
        public_jobs: "{}",
        version: 0,
        created_at: 0,
        updated_at: 0,
      })
      .returning("id")
      .executeTakeFirstOrThrow();
    return {
      records: createTransformationRecords(database),
      storage: createTransformationStorage(database),
      jobs: createTransformationJobs(database, { jobs: MAX_JOBS, webhooks: MAX_WEBHOOKS }),
      maxJobs: MAX_JOBS,
      maxWebhooks: MAX_WEBHOOKS,
      async newConfig() {
        const projectId = await newProject();
        const { id } = await database.writes
          .insertInto("transformation_configs")
          .values({
            project_id: projectId,
            transformation_id: transformation.id,
            enabled: 1,
            run_order: 1,
            config: "{}",
            name: null,
            description: null,
            allowed_hosts: "[]",
            problem: null,
            problem_at: null,
            deleted: 0,
            created_at: 0,
            updated_at: 0,
          })
          .returning("id")
          .executeTakeFirstOrThrow();
        return { projectId, configId: id };
      },
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
