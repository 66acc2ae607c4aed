import type { ConfigRef } from "../../transformations/transformation-records.ts";
import { projectsAndUsers } from "./projects-and-users.setup.ts";
import type { SqlDatabase } from "./sql-database.ts";

/** What makes configs for tests that look at other things, each in a project of its own. */
export async function transformationConfigs(
  database: SqlDatabase,
): Promise<() => Promise<ConfigRef>> {
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
  return async () => {
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
  };
}
