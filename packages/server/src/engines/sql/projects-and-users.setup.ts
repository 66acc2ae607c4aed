import { randomUUID } from "node:crypto";
import { createAccountStore } from "./account-store.ts";
import type { SqlDatabase } from "./sql-database.ts";

/** Makes the projects, users and persons that records of other features belong to. */
export async function projectsAndUsers(database: SqlDatabase) {
  const accounts = createAccountStore(database);
  const now = new Date("2026-01-01T00:00:00Z");
  const { id: organizationId } = await accounts.createOrganization(
    { id: randomUUID(), name: "O", slug: "o" },
    now,
  );
  const newProject = async (timeZone = "UTC"): Promise<number> => {
    const uuid = randomUUID();
    const project = await accounts.createProject(
      {
        uuid,
        organizationId,
        name: "P",
        apiToken: `phc_${uuid}`,
        secretApiToken: `phs_${uuid}`,
        timeZone,
      },
      now,
    );
    if (typeof project === "string") throw new Error(project);
    return project.id;
  };
  const newUser = async (): Promise<number> => {
    const uuid = randomUUID();
    const user = await accounts.createUser(
      {
        uuid,
        distinctId: uuid,
        email: `${uuid}@example.org`,
        passwordHash: "hash",
        firstName: "Ada",
        lastName: "",
        currentOrganizationId: organizationId,
        currentProjectId: await newProject(),
      },
      now,
    );
    if (typeof user === "string") throw new Error(user);
    return user.id;
  };
  /** A stored person without properties. */
  const newPerson = async (projectId: number, distinctIds: readonly string[]) => {
    const uuid = randomUUID();
    const { id } = await database.writes
      .insertInto("persons")
      .values({
        project_id: projectId,
        uuid,
        properties: "{}",
        property_times: '{"set":{},"setOnce":{}}',
        created_at: 0,
        is_identified: 0,
      })
      .returning("id")
      .executeTakeFirstOrThrow();
    await database.writes
      .insertInto("person_distinct_ids")
      .values(
        distinctIds.map((distinctId) => ({
          project_id: projectId,
          distinct_id: distinctId,
          person_id: id,
        })),
      )
      .execute();
    return { id, uuid };
  };
  const newStaticCohort = async (projectId: number, personIds: readonly number[]) => {
    const { id } = await database.writes
      .insertInto("cohorts")
      .values({
        project_id: projectId,
        name: "some",
        description: "",
        is_static: 1,
        filters: "{}",
        deleted: 0,
        created_at: 0,
        changed_revision: 0,
      })
      .returning("id")
      .executeTakeFirstOrThrow();
    await database.writes
      .insertInto("cohort_members")
      .values(personIds.map((personId) => ({ cohort_id: id, person_id: personId })))
      .execute();
    database.membershipChanges.count++;
    return id;
  };
  /** Of the cohorts whose stored members a person is among. */
  const cohortIdsOf = async (personId: number): Promise<number[]> => {
    const rows = await database.reads
      .selectFrom("cohort_members")
      .select("cohort_id")
      .where("person_id", "=", personId)
      .orderBy("cohort_id")
      .execute();
    return rows.map(({ cohort_id }) => cohort_id);
  };
  return { organizationId, newProject, newUser, newPerson, newStaticCohort, cohortIdsOf };
}
