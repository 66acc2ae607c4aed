import { expect, it } from "vitest";
import { sampleEvent } from "../../events/event-log.contract.ts";
import { HeldPersons } from "./held-persons.ts";
import { createPersonStore } from "./person-store.ts";
import { projectsAndUsers } from "./projects-and-users.setup.ts";
import { describeEachSqlEngine } from "./sql-engines.contract.ts";

const person = (id: number, textLength = 10) => ({
  id,
  uuid: `uuid-${id}`,
  createdAt: new Date(0),
  isIdentified: false,
  textLength,
  readProperties: () => {
    throw new Error("nobody reads them");
  },
});

it("[PE-30] held persons are forgotten when anybody else changed persons, or applying them failed", () => {
  const held = new HeldPersons();
  const keep = () => {
    held.keep(person(1));
    held.keepId(5, "a", 1);
  };
  const isHeld = () => held.find(5, "a") !== undefined;
  held.begin({ position: 0, changes: 0 });
  keep();
  held.finish({ position: 10, changes: 0 });
  held.begin({ position: 10, changes: 0 });
  expect(isHeld()).toBe(true);
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

it("[PE-30] held persons are bounded by number and size", () => {
  const held = new HeldPersons();
  for (let id = 0; id < 9000; id++) held.keep(person(id));
  expect(held.byId(0)).toBeUndefined();
  expect(held.byId(8999)).toBeDefined();
  held.keep(person(1, 64_001));
  expect(held.byId(1)).toBeUndefined();
  for (let id = 10_000; id < 10_400; id++) held.keep(person(id, 64_000));
  expect(held.byId(10_000)).toBeUndefined();
  expect(held.byId(10_399)).toBeDefined();
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
