import type { JsonObject } from "@hedgerow/core/json";
import { describe, expect, it } from "vitest";
import { sampleEvent } from "../../events/event-log.contract.ts";
import { createPersonRecords } from "./person-records.ts";
import { plainPersonStore } from "./plain-person-store.setup.ts";
import { projectsAndUsers } from "./projects-and-users.setup.ts";
import { describeEachSqlEngine, type OpenDatabase } from "./sql-engines.contract.ts";

async function openPersons(open: OpenDatabase) {
  const database = await open();
  const newStore = () => plainPersonStore(database);
  const projectId = await (await projectsAndUsers(database)).newProject();
  let store = newStore();
  let position = 0;

  return {
    database,
    projectId,
    records: () => createPersonRecords(database, store),
    restart() {
      store = newStore();
    },
    /** Applies an event of "a" unless another id is given. */
    apply: (second: number, properties: JsonObject, { distinctId = "a", event = "seen" } = {}) => {
      const timestamp = new Date(second * 1000);
      const sample = sampleEvent({ projectId, distinctId, event, properties, timestamp });
      return store.applyEvents([{ position: ++position, event: sample }]);
    },
    propertiesOf: async (distinctId: string) =>
      (await store.personByDistinctId(projectId, distinctId))?.properties,
    /** Rows of persons, oldest first, with what is apart. */
    rows: () =>
      database.reads
        .selectFrom("persons as p")
        .leftJoin("person_times as t", "t.person_id", "p.id")
        .select(["p.properties", "p.property_times", "t.times"])
        .where("p.project_id", "=", projectId)
        .orderBy("p.id")
        .execute(),
    countApart: async () =>
      (await database.reads.selectFrom("person_times").selectAll().execute()).length,
  };
}

describeEachSqlEngine("times of properties", (open) => {
  it("[PE-32] are stored apart while nothing else of a person moves, and in its row again with the next value", async () => {
    const { database, apply, rows } = await openPersons(open);
    await apply(1, { $set: { plan: "free" } });
    const [created] = await rows();
    expect(created?.times).toBeNull();
    await apply(2, { $set: { plan: "free" } });
    await apply(3, { $set: { plan: "free" } });
    const [moved] = await rows();
    expect(moved).toEqual({ ...created, times: '{"runs":[1,1,3000],"removed":{}}' });
    await apply(4, { $set: { plan: "paid" } });
    expect(await rows()).toEqual([
      {
        properties: '{"plan":"paid"}',
        property_times: '{"runs":[1,1,4000],"removed":{}}',
        times: null,
      },
    ]);
    // Removing what is not there is remembered, and changes no value.
    await apply(5, { $unset: ["email"] });
    const [removed] = await rows();
    expect(removed?.times).toBe('{"runs":[1,1,4000],"removed":{"email":5000}}');
    expect(removed?.property_times).toBe('{"runs":[1,1,4000],"removed":{}}');
    await database.close();
  });

  it("[PE-32] are the same ones after a restart", async () => {
    const { database, apply, restart, propertiesOf } = await openPersons(open);
    await apply(1, { $set: { plan: "free" } });
    await apply(9, { $set: { plan: "free" }, $unset: ["email"] });
    restart();
    await apply(5, { $set: { plan: "late", email: "late@example.org" } });
    expect(await propertiesOf("a")).toEqual({ plan: "free" });
    restart();
    await apply(10, { $set: { plan: "paid", email: "a@example.org" } });
    restart();
    await apply(9, { $set: { plan: "late", email: "late@example.org" } });
    expect(await propertiesOf("a")).toEqual({ plan: "paid", email: "a@example.org" });
    await database.close();
  });

  it("[PE-32] are identified, merged and deleted with their person", async () => {
    const persons = await openPersons(open);
    const { database, apply, restart, rows, propertiesOf, projectId } = persons;
    for (const distinctId of ["a", "b"]) {
      await apply(1, { $set: { [distinctId]: 1 } }, { distinctId });
      await apply(9, { $set: { [distinctId]: 1 } }, { distinctId });
    }
    await apply(9, { $anon_distinct_id: "c" }, { event: "$identify" });
    const [identified] = await rows();
    expect(identified?.times).toBeNull();
    expect(identified?.property_times).toBe('{"runs":[1,1,9000],"removed":{}}');
    await apply(10, { alias: "b" }, { event: "$merge_dangerously" });
    restart();
    await apply(8, { $set: { a: 2, b: 2 } });
    expect(await propertiesOf("a")).toEqual({ a: 1, b: 1 });
    expect(await persons.countApart()).toBe(0);
    await apply(11, { $set: { a: 1 } });
    expect(await persons.countApart()).toBe(1);
    const [{ uuid } = { uuid: "" }] = await database.reads
      .selectFrom("persons")
      .select("uuid")
      .where("project_id", "=", projectId)
      .execute();
    const now = new Date(12_000);
    await persons.records().deletePersons(projectId, [uuid], { withEvents: false, now });
    expect(await persons.countApart()).toBe(0);
    await database.close();
  });

  describe("changed by hand", () => {
    it("[PE-32] count for the change, and are in the row with it", async () => {
      const { database, apply, records, rows, projectId, propertiesOf } = await openPersons(open);
      await apply(1, { $set: { plan: "free", seen: 1 } });
      await apply(9, { $set: { plan: "free", seen: 1 } });
      const change = async (second: number, plan: string) => {
        const changes = { setOnce: new Map(), set: new Map([["plan", plan]]), unset: [] };
        const now = new Date(second * 1000);
        await records().changeProperties(projectId, { distinctId: "a" }, changes, { now });
      };
      await change(5, "late");
      expect(await propertiesOf("a")).toEqual({ plan: "free", seen: 1 });
      await change(10, "paid");
      expect(await rows()).toEqual([
        {
          properties: '{"plan":"paid","seen":1}',
          property_times: '{"runs":[1,1,10000,1,1,9000],"removed":{}}',
          times: null,
        },
      ]);
      await apply(9.5, { $set: { plan: "late", seen: 2 } });
      expect(await propertiesOf("a")).toEqual({ plan: "paid", seen: 2 });
      await database.close();
    });

    it("[PE-32] are gone with the properties of a split person", async () => {
      const persons = await openPersons(open);
      const { database, apply, records, projectId, propertiesOf } = persons;
      await apply(1, { alias: "b", $set: { plan: "free" } }, { event: "$create_alias" });
      await apply(9, { $set: { plan: "free" } });
      expect(await persons.countApart()).toBe(1);
      const [person] = await database.reads.selectFrom("persons").select("uuid").execute();
      const now = new Date(10_000);
      const uuid = person?.uuid ?? "";
      await records().split(projectId, uuid, { mainDistinctId: null, now });
      expect(await persons.countApart()).toBe(0);
      await apply(5, { $set: { plan: "again" } });
      expect(await propertiesOf("a")).toEqual({ plan: "again" });
      await database.close();
    });
  });
});
