import { randomUUID } from "node:crypto";
import { compileFlags } from "@hedgerow/core/flags/compile-flags";
import type { BacktrackingPatterns } from "@hedgerow/core/flags/pattern";
import type { JsonObject } from "@hedgerow/core/json";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { createBacktrackingRegex } from "../engines/backtracking-regex/backtracking-regex.ts";
import { createCohortStore } from "../engines/sql/cohort-store.ts";
import { createFlagStore } from "../engines/sql/flag-store.ts";
import { createMembershipStore } from "../engines/sql/membership-store.ts";
import { projectsAndUsers } from "../engines/sql/projects-and-users.setup.ts";
import type { SqlDatabase } from "../engines/sql/sql-database.ts";
import { openTemporarySqlite } from "../engines/sql/sql-engines.contract.ts";
import { QueryTooLong } from "../events/event-store.ts";
import type { Performer, PerformerSource } from "../events/performers.ts";
import { createCompiledFlags } from "../flags/compiled-flags.ts";
import { type CohortCalculations, startCohortCalculations } from "./calculations.ts";
import { fillCohort } from "./fill-cohort.ts";
import type { MembershipStore } from "./membership-store.ts";

let database: SqlDatabase;
let now: Date;
let projectId: number;
let persons: { id: number; uuid: string }[];
let running: CohortCalculations | undefined;
/** Who did which event, as events would tell. */
let doings: Map<string, readonly Performer[] | Error>;
/** Members that were written, one by one. */
let written: (readonly number[])[];

beforeEach(async () => {
  database = await openTemporarySqlite();
  now = new Date("2026-03-01T10:00:00Z");
  const { newProject, newPerson } = await projectsAndUsers(database);
  projectId = await newProject();
  persons = [];
  for (const name of ["ann", "bob", "cy"]) persons.push(await newPerson(projectId, [name]));
  doings = new Map();
  written = [];
});
afterEach(async () => {
  await running?.close();
  running = undefined;
  await database.close();
});

const performers: PerformerSource = {
  async *performers({ event }) {
    const found = doings.get(event) ?? [];
    if (found instanceof Error) throw found;
    yield found;
  },
  async *moments() {
    yield [];
  },
};
const did = (...who: number[]): readonly Performer[] =>
  who.map((index) => ({ personId: persons[index]?.uuid ?? "", times: 1 }));

function start(
  reportFault: (error: unknown) => void = (error) => expect(error).toBeNull(),
  backtracking: BacktrackingPatterns = createBacktrackingRegex(),
  everyMinutes = 5,
) {
  const store = createMembershipStore(database);
  const recording: MembershipStore = {
    ...store,
    async changeMembers(project, cohort, change) {
      written.push([...change.add, ...change.remove.map((id) => -id)]);
      await store.changeMembers(project, cohort, change);
    },
  };
  running = startCohortCalculations({
    store: recording,
    performers,
    backtracking,
    compiledFlags: createCompiledFlags({
      flagStore: createFlagStore(database),
      compile: (definitions) => compileFlags(definitions),
      reportFault,
    }),
    caughtUp: async () => {},
    clock: () => now,
    reportFault,
    everyMinutes,
    isAlone: true,
    pollMs: 5,
  });
  return running;
}
async function create(
  event: string,
  { negation = false, others = [] }: { negation?: boolean; others?: JsonObject[] } = {},
): Promise<number> {
  const rule = { type: "behavioral", key: event, value: "performed_event", negation };
  const revisions = await createFlagStore(database).revisions([projectId]);
  const created = await createCohortStore(database).create(
    projectId,
    {
      name: event,
      description: "",
      isStatic: false,
      filters: { properties: { type: "AND", values: [rule, ...others] } },
      deleted: false,
    },
    { uuids: [], distinctIds: [] },
    { authorId: null, now, ifRevision: revisions.get(projectId) ?? 0 },
  );
  if (created === "stale") throw new Error(created);
  return created.cohort.id;
}
const cohort = async (id: number) => {
  const found = await createCohortStore(database).cohort(projectId, id);
  if (!found) throw new Error("the cohort is gone");
  return found;
};
async function membersOf(id: number): Promise<(string | undefined)[]> {
  const ids = await createMembershipStore(database).memberIds(id, { after: 0, upTo: null }, 100);
  return ids.map((personId) => ["ann", "bob", "cy"][persons.findIndex((p) => p.id === personId)]);
}
async function settled(...ids: number[]) {
  await expect
    .poll(async () => (await Promise.all(ids.map(cohort))).some((one) => one.isCalculating))
    .toBe(false);
}

describe("calculations of cohorts", () => {
  test("[CO-19] write only differences, and leave the revision of the project alone", async () => {
    doings.set("bought", did(0, 1));
    const id = await create("bought");
    const revisions = () => createFlagStore(database).revisions([projectId]);
    const before = await revisions();
    start();
    await settled(id);
    expect(written).toEqual([[persons[0]?.id, persons[1]?.id]]);
    doings.set("bought", did(1, 2));
    now = new Date(now.getTime() + 6 * 60_000);
    await expect.poll(() => membersOf(id)).toEqual(["bob", "cy"]);
    await settled(id);
    expect(written.slice(1).flat()).toEqual([-(persons[0]?.id ?? 0), persons[2]?.id]);
    expect(await cohort(id)).toMatchObject({ memberCount: 2, calculatedAt: now });
    now = new Date(now.getTime() + 6 * 60_000);
    await expect.poll(async () => (await cohort(id)).calculatedAt).toEqual(now);
    expect(written.length).toBe(3);
    expect(await revisions()).toEqual(before);
  });

  test("[CO-34] come again after so many minutes as are set, and not before", async () => {
    doings.set("bought", did(0));
    const id = await create("bought");
    start(undefined, undefined, 30);
    await settled(id);
    const { calculatedAt } = await cohort(id);
    now = new Date(now.getTime() + 29 * 60_000);
    const asked = await createMembershipStore(database).due(now, 1);
    expect(asked).toEqual([]);
    expect((await cohort(id)).calculatedAt).toEqual(calculatedAt);
    now = new Date(now.getTime() + 60_000);
    await expect.poll(async () => (await cohort(id)).calculatedAt).toEqual(now);
  });

  test("[CO-22] that fail are counted and tried again later, keep the members, and hold up no other", async () => {
    doings.set("bought", did(0));
    const id = await create("bought");
    start();
    await settled(id);
    doings.set("bought", new QueryTooLong());
    now = new Date(now.getTime() + 6 * 60_000);
    await expect.poll(async () => (await cohort(id)).errorsCalculating).toBe(1);
    expect(await cohort(id)).toMatchObject({
      isCalculating: false,
      memberCount: 1,
      calculationError: "the query takes too long",
    });
    expect(await membersOf(id)).toEqual(["ann"]);
    doings.set("looked", did(2));
    const other = await create("looked");
    await settled(other);
    expect(await membersOf(other)).toEqual(["cy"]);
    doings.set("bought", did(0, 1));
    now = new Date(now.getTime() + 2 * 60_000);
    await expect.poll(() => membersOf(id)).toEqual(["ann", "bob"]);
    await settled(id);
    expect(await cohort(id)).toMatchObject({ errorsCalculating: 0, calculationError: null });
  });

  test("[CO-22] that end by a fault are reported, and tell no more than that", async () => {
    const fault = new Error("secret");
    doings.set("bought", fault);
    const id = await create("bought");
    const reported: unknown[] = [];
    start((error) => reported.push(error));
    await settled(id);
    expect(reported).toEqual([fault]);
    const { calculationError, errorsCalculating } = await cohort(id);
    expect(errorsCalculating).toBe(1);
    expect(calculationError).not.toContain("secret");
  });

  test.each([
    ["candidates", false],
    ["all persons", true],
  ])(
    "[CO-24] whose patterns are slow leave a turn to others between %s",
    async (_title, negation) => {
      let turns = 0;
      let isOver = false;
      const countTurn = () => {
        turns += 1;
        if (!isOver) setImmediate(countTurn);
      };
      const turnOf: number[] = [];
      const regex = createBacktrackingRegex();
      doings.set("bought", negation ? [] : did(0, 1, 2));
      const slow = { type: "person", key: "distinct_id", operator: "regex", value: "^(?=[abc])" };
      const id = await create("bought", { negation, others: [slow] });
      countTurn();
      start(undefined, {
        compile(source, flags) {
          const pattern = regex.compile(source, flags);
          return (
            pattern && {
              test(subject, budget) {
                turnOf.push(turns);
                const endMs = performance.now() + 15;
                while (performance.now() < endMs);
                return pattern.test(subject, budget);
              },
            }
          );
        },
      });
      await settled(id);
      isOver = true;
      expect(await membersOf(id)).toEqual(["ann", "bob", "cy"]);
      expect(new Set(turnOf).size).toBe(3);
    },
  );

  test("[CO-23] that were interrupted start again with the next process", async () => {
    doings.set("bought", did(1));
    const id = await create("bought");
    // As a process that dies leaves it: begun, and never finished.
    const store = createMembershipStore(database);
    const [task] = await store.due(now, 1);
    if (!task) throw new Error("nothing is due");
    await store.start(task);
    expect((await cohort(id)).isCalculating).toBe(true);
    start();
    await settled(id);
    expect(await membersOf(id)).toEqual(["bob"]);
  });

  test("[CO-23] that end with the process leave their cohort due, and members of a changed rule are found anew", async () => {
    doings.set("bought", did(0));
    const id = await create("bought");
    const store = createMembershipStore(database);
    const [task] = await store.due(now, 1);
    if (!task) throw new Error("nothing is due");
    const revisions = await createFlagStore(database).revisions([projectId]);
    await createCohortStore(database).update(
      projectId,
      id,
      { name: "changed" },
      { authorId: null, now, ifRevision: revisions.get(projectId) ?? 0 },
    );
    const dueAt = new Date(now.getTime() + 60_000);
    await store.finish(task, { kind: "calculated", count: 7 }, { now, dueAt });
    expect(await cohort(id)).toMatchObject({ memberCount: null, isCalculating: true });
    const calculations = start();
    await settled(id);
    await calculations.close();
    expect(await membersOf(id)).toEqual(["ann"]);
  });

  test("[CO-35] tell of members that were being added when the last process ended, until that is done again", async () => {
    const store = createMembershipStore(database);
    const cohortStore = createCohortStore(database);
    const { newStaticCohort } = await projectsAndUsers(database);
    const list = { projectId, id: await newStaticCohort(projectId, [persons[2]?.id ?? 0]) };
    async function* brokenOff() {
      yield { uuids: [persons[0]?.uuid ?? ""], distinctIds: [] };
      throw new Error("out of order");
    }
    const tools = { cohortStore, memberships: store, clock: () => now };
    await store.fill(projectId, list.id, new Date(now.getTime() + 600_000), "broken off");
    start();
    await settled(list.id);
    expect(await cohort(list.id)).toMatchObject({
      errorsCalculating: 1,
      calculationError: "broken off",
    });
    await expect(fillCohort(list, brokenOff(), tools)).rejects.toThrow("out of order");
    await expect.poll(async () => (await cohort(list.id)).isCalculating).toBe(false);
    expect(await cohort(list.id)).toMatchObject({
      memberCount: 2,
      errorsCalculating: 1,
      calculationError: expect.stringContaining("broken off"),
    });
    await fillCohort(list, [{ uuids: persons.map(({ uuid }) => uuid), distinctIds: [] }], tools);
    expect(await cohort(list.id)).toMatchObject({
      memberCount: 3,
      isCalculating: false,
      errorsCalculating: 0,
      calculationError: null,
    });
  });

  test("[CO-24] count large static cohorts now and then, and go through more members than one step takes", async () => {
    doings.set("bought", did(0));
    const { newStaticCohort } = await projectsAndUsers(database);
    const many = await database.writes
      .insertInto("persons")
      .values(
        Array.from({ length: 1203 }, () => ({
          project_id: projectId,
          uuid: randomUUID(),
          properties: "{}",
          property_times: "{}",
          created_at: 0,
          is_identified: 0,
        })),
      )
      .returning(["id", "uuid"])
      .execute();
    const listed = await newStaticCohort(
      projectId,
      many.map(({ id }) => id),
    );
    doings.set(
      "all",
      many.map(({ uuid }) => ({ personId: uuid, times: 1 })),
    );
    const everyone = await create("all");
    await createMembershipStore(database).request(projectId, [listed], now);
    start();
    await settled(listed, everyone);
    expect((await cohort(everyone)).memberCount).toBe(1203);
    doings.set(
      "all",
      many.slice(600).map(({ uuid }) => ({ personId: uuid, times: 1 })),
    );
    now = new Date(now.getTime() + 6 * 60_000);
    await expect.poll(async () => (await cohort(everyone)).memberCount).toBe(603);
    const row = await database.reads
      .selectFrom("cohorts")
      .select("member_count")
      .where("id", "=", listed)
      .executeTakeFirstOrThrow();
    expect(row.member_count).toBe(1203);
  });
});
