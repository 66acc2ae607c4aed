import type { JsonObject } from "@hedgerow/core/json";
import { LedgerPerson } from "@hedgerow/core/persons/person-ledger";
import { expect, it } from "vitest";
import { sampleEvent } from "../../events/event-log.contract.ts";
import { HeldPersons } from "./held-persons.ts";
import { createPersonStore } from "./person-store.ts";
import { plainPersonStore } from "./plain-person-store.setup.ts";
import { projectsAndUsers } from "./projects-and-users.setup.ts";
import { describeEachSqlEngine } from "./sql-engines.contract.ts";

const person = (id: number, textLength = 10) => {
  const createdAt = new Date(0);
  const readProperties = () => {
    throw new Error("nobody reads them");
  };
  const stored = { id, uuid: `uuid-${id}`, createdAt, isIdentified: false, hasTimesApart: false };
  return new LedgerPerson({ ...stored, textLength, readProperties }, stored.uuid, createdAt);
};

it("[PE-30] held persons are forgotten when anybody else changed persons, or applying them failed", () => {
  const held = new HeldPersons();
  const keep = () => held.keep(5, "a", person(1));
  const isHeld = () => held.find(5, "a") !== undefined;
  held.begin({ position: 0, changes: 0 });
  keep();
  held.finish({ position: 10, changes: 0 });
  held.begin({ position: 10, changes: 0 });
  expect(isHeld()).toBe(true);
  expect(held.find(6, "a")).toBeUndefined();
  // No `finish`: the transaction failed.
  held.begin({ position: 10, changes: 0 });
  expect(isHeld()).toBe(false);
  for (const other of [
    { position: 11, changes: 0 },
    { position: 10, changes: 1 },
  ]) {
    keep();
    held.finish({ position: 10, changes: 0 });
    held.begin(other);
    expect(isHeld()).toBe(false);
  }
});

it("[PE-30] held persons are bounded by number and size, those used lately stay", () => {
  const held = new HeldPersons();
  const version = { position: 0, changes: 0 };
  const run = (work: () => void) => {
    held.begin(version);
    work();
    held.finish(version);
  };
  const fill = (first: number, textLength?: number) => {
    for (let id = first; id < first + 9000; id += 500) {
      run(() => {
        for (let next = id; next < id + 500; next++)
          held.keep(5, `${next}`, person(next, textLength));
        expect(held.find(5, "used")?.row).toBe(1_000_000);
      });
    }
  };
  run(() => held.keep(5, "used", person(1_000_000)));
  fill(0);
  run(() => {
    expect(held.find(5, "0")).toBeUndefined();
    expect(held.byRow(0)).toBeUndefined();
    expect(held.find(5, "8999")?.row).toBe(8999);
    held.keep(5, "long", person(1, 64_001));
    // To the end of the run, as it may be needed again.
    expect(held.find(5, "long")).toBeDefined();
  });
  run(() => expect(held.find(5, "long")).toBeUndefined());
  fill(20_000, 30_000);
  run(() => {
    const left = Array.from({ length: 9000 }, (_, at) => held.find(5, `${20_000 + at}`));
    expect(left.filter((one) => one !== undefined).length).toBeLessThanOrEqual(1100);
    expect(left.at(-1)).toBeDefined();
  });
});

it("[PE-30] a held person is the same one under each of its ids, until it is gone", () => {
  const held = new HeldPersons();
  const version = { position: 0, changes: 0 };
  const ada = person(1);
  held.keep(5, "a", ada);
  held.finish(version);
  // Many others come and go, and only one of the ids is used.
  for (let first = 2; first < 20_000; first += 1000) {
    held.begin(version);
    for (let id = first; id < first + 1000; id++) held.keep(5, `other ${id}`, person(id));
    expect(held.find(5, "a")).toBe(ada);
    expect(held.byRow(1)).toBe(ada);
    held.finish(version);
  }
  held.begin(version);
  held.keep(5, "b", held.byRow(1) ?? person(1));
  expect(held.find(5, "b")).toBe(ada);
  held.drop(1);
  expect(held.find(5, "a")).toBeUndefined();
  expect(held.find(5, "b")).toBeUndefined();
  expect(held.byRow(1)).toBeUndefined();
});

it("[PE-30] that nobody has an id is held as well, until somebody has", () => {
  const held = new HeldPersons();
  const version = { position: 0, changes: 0 };
  held.keepNobody(5, "a", "uuid-of-a");
  held.finish(version);
  for (let first = 0; first < 20_000; first += 1000) {
    held.begin(version);
    for (let id = first; id < first + 1000; id++) held.keepNobody(5, `other ${id}`, `uuid-${id}`);
    expect(held.find(5, "a")).toBeNull();
    expect(held.uuidOfNobody(5, "a")).toBe("uuid-of-a");
    held.finish(version);
  }
  expect(held.find(5, "other 0")).toBeUndefined();
  held.begin(version);
  const ada = person(1);
  held.keep(5, "a", ada);
  expect(held.find(5, "a")).toBe(ada);
  expect(held.uuidOfNobody(5, "a")).toBeUndefined();
  held.finish(version);
  held.begin({ position: 0, changes: 1 });
  expect(held.uuidOfNobody(5, "other 19999")).toBeUndefined();
});

describeEachSqlEngine("persons that two processes apply events to", (open) => {
  it("[PE-30] are read again after the other one changed them", async () => {
    const database = await open();
    const options = {
      continuityFlagKeys: () => [],
      onGroupTypeAdded: () => {},
      reportFault: (error: unknown) => {
        throw error;
      },
    };
    const stores = [createPersonStore(database, options), createPersonStore(database, options)];
    const projectId = await (await projectsAndUsers(database)).newProject();
    for (let position = 1; position <= 6; position++) {
      const properties = { $set: { [`set${position}`]: position } };
      const timestamp = new Date(1e12 + position);
      const event = sampleEvent({ projectId, distinctId: "a", properties, timestamp });
      await stores[Math.floor(position / 2) % 2]?.applyEvents([{ position, event }]);
    }
    const found = await createPersonStore(database, options).personByDistinctId(projectId, "a");
    expect(found?.properties).toEqual({
      ...Object.fromEntries([1, 2, 3, 4, 5, 6].map((n) => [`set${n}`, n])),
    });
    await database.close();
  });
});

describeEachSqlEngine("persons that an earlier version stored", (open) => {
  it("[PE-31] are read with the times of their properties", async () => {
    const database = await open();
    const newStore = () => plainPersonStore(database);
    const projectId = await (await projectsAndUsers(database)).newProject();
    const apply = (position: number, atMs: number, $set: JsonObject) => {
      const timestamp = new Date(atMs);
      const event = sampleEvent({ projectId, distinctId: "a", properties: { $set }, timestamp });
      return newStore().applyEvents([{ position, event }]);
    };
    await apply(1, 1000, { plan: "free", seen: 1 });
    await database.writes
      .updateTable("persons")
      .set({ property_times: '{"set":{"plan":3000,"seen":1000,"gone":3000},"setOnce":{}}' })
      .where("project_id", "=", projectId)
      .execute();
    await apply(2, 2000, { plan: "late", seen: 2, gone: true });
    const found = await newStore().personByDistinctId(projectId, "a");
    expect(found?.properties).toEqual({ plan: "free", seen: 2 });
    await apply(3, 2500, { plan: "late", seen: 3, gone: true });
    await apply(4, 3500, { gone: false });
    const last = await newStore().personByDistinctId(projectId, "a");
    expect(last?.properties).toEqual({ plan: "free", seen: 3, gone: false });
    await database.close();
  });
});
