import { afterAll, beforeAll, expect, test } from "vitest";
import type { Audience } from "../../flags/audience.ts";
import { createAudience } from "./audience.ts";
import { projectsAndUsers } from "./projects-and-users.setup.ts";
import type { SqlDatabase } from "./sql-database.ts";
import { describeEachSqlEngine } from "./sql-engines.contract.ts";

const PERSONS = 1203;

describeEachSqlEngine("Audience", (open) => {
  let database: SqlDatabase;
  let audience: Audience;
  let project: number;
  let firstUuid: string;
  let cohort: number;
  beforeAll(async () => {
    database = await open();
    audience = createAudience(database);
    const { newProject, newPerson, newStaticCohort } = await projectsAndUsers(database);
    project = await newProject();
    const first = await newPerson(project, ["z", "a"]);
    firstUuid = first.uuid;
    cohort = await newStaticCohort(project, [first.id]);
    await database.writes
      .insertInto("flag_hash_key_overrides")
      .values({ person_id: first.id, flag_key: "steady", hash_key: "anonymous" })
      .execute();
    for (let from = 1; from < PERSONS; from += 200) {
      const rows = Array.from({ length: Math.min(200, PERSONS - from) }, (_, at) => ({
        project_id: project,
        uuid: `00000000-0000-4000-8000-${String(from + at).padStart(12, "0")}`,
        properties: '{"n":1}',
        property_times: '{"set":{},"setOnce":{}}',
        created_at: Math.floor((from + at) / 7) * 1000,
        is_identified: 0,
      }));
      await database.writes.insertInto("persons").values(rows).execute();
    }
    await newPerson(await newProject(), ["elsewhere"]);
    const group = (key: string, at: number) => ({
      project_id: project,
      group_type_index: 1,
      group_key: key,
      properties: '{"size":5}',
      property_times: '{"set":{},"setOnce":{}}',
      created_at: at,
    });
    await database.writes
      .insertInto("groups")
      .values(Array.from({ length: 601 }, (_, at) => group(`group-${at}`, at % 3)))
      .execute();
  });
  afterAll(() => database.close());

  test("goes through every person of a project once, in runs", async () => {
    const uuids = new Set<string>();
    let seen = 0;
    let runs = 0;
    for await (const run of audience.persons(project, { hashKeyOverrides: false })) {
      runs += 1;
      seen += run.length;
      for (const { uuid } of run) uuids.add(uuid);
    }
    expect([seen, uuids.size, runs]).toEqual([PERSONS, PERSONS, 3]);
    expect(await audience.countPersons(project)).toBe(PERSONS);
  });

  test("tells of a person what flags read, hash keys where they are asked for", async () => {
    const found = async (hashKeyOverrides: boolean) => {
      for await (const run of audience.persons(project, { hashKeyOverrides })) {
        const person = run.find(({ uuid }) => uuid === firstUuid);
        if (person) return person;
      }
      throw new Error("the person was not met");
    };
    expect(await found(true)).toEqual({
      uuid: firstUuid,
      distinctId: "a",
      facts: {
        properties: {},
        createdAt: new Date(0),
        staticCohortIds: new Set([cohort]),
        hashKeyOverrides: new Map([["steady", "anonymous"]]),
      },
    });
    expect((await found(false)).facts.hashKeyOverrides).toEqual(new Map());
  });

  test("reads few of those who are large at a time", async () => {
    const { newProject } = await projectsAndUsers(database);
    const other = await newProject();
    for (let at = 0; at < 5; at += 1) {
      const large = {
        project_id: other,
        properties: JSON.stringify({ text: "x".repeat(400_000) }),
        property_times: '{"set":{},"setOnce":{}}',
        created_at: at,
      };
      const uuid = `10000000-0000-4000-8000-${String(at).padStart(12, "0")}`;
      await database.writes
        .insertInto("persons")
        .values({ ...large, uuid, is_identified: 0 })
        .execute();
      await database.writes
        .insertInto("groups")
        .values({ ...large, group_type_index: 0, group_key: `group-${at}` })
        .execute();
    }
    const runs: number[] = [];
    for await (const run of audience.persons(other, { hashKeyOverrides: false })) {
      runs.push(run.length);
    }
    for await (const run of audience.groups(other, 0)) runs.push(run.length);
    expect(runs).toEqual([2, 2, 1, 2, 2, 1]);
  });

  test("goes through every group of a type once", async () => {
    const keys: string[] = [];
    for await (const run of audience.groups(project, 1)) keys.push(...run.map(({ key }) => key));
    expect([keys.length, new Set(keys).size]).toEqual([601, 601]);
    expect(await audience.countGroups(project, 1)).toBe(601);
    expect(await audience.countGroups(project, 0)).toBe(0);
  });
});
