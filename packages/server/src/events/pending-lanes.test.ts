import { describe, expect, it } from "vitest";
import { sampleEvent } from "./event-log.contract.ts";
import { createPendingLanes } from "./pending-lanes.ts";
import { createPendingPersons } from "./pending-persons.ts";

function pendingLanes(maxWaitMs = 60_000) {
  const create = () =>
    createPendingPersons({ distinctIdsOf: async (_project, id) => [id], maxWaitMs });
  return createPendingLanes({ log: create(), createForLane: create, maxWaitMs });
}

const entry = (position: number, distinctId: string, properties = {}) => ({
  position,
  event: sampleEvent({ distinctId, properties: { $set: { a: 1 }, ...properties } }),
});

/** Whether a wait is over. */
async function isOver(wait: Promise<void> | undefined): Promise<boolean> {
  if (!wait) return true;
  const turns = async () => {
    for (let turn = 0; turn < 5; turn++) await new Promise((resolve) => setImmediate(resolve));
    return false;
  };
  return Promise.race([wait.then(() => true), turns()]);
}

describe("what is pending in lanes", () => {
  it("[PI-85] is pending until it has passed and is applied at its position", async () => {
    const pending = pendingLanes();
    pending.addToLane(1, [entry(1, "ann"), entry(2, "bob")]);
    const ann = pending.settled(1, { distinctIds: ["ann"] });
    const bob = pending.settled(1, { distinctIds: ["bob"] });
    expect(await isOver(pending.settled(1, { distinctIds: ["eve"] }))).toBe(true);
    expect(await isOver(pending.settled(2, { distinctIds: ["ann"] }))).toBe(true);
    pending.applied(40);
    expect(await isOver(ann)).toBe(false);
    pending.passed(1, 1, 50);
    expect(await isOver(ann)).toBe(false);
    pending.applied(50);
    expect(await isOver(ann)).toBe(true);
    expect(await isOver(bob)).toBe(false);
    // Applied before anybody hears that it passed.
    pending.applied(51);
    pending.passed(1, 2, 51);
    expect(await isOver(bob)).toBe(true);
    expect(await isOver(pending.settled(1, { distinctIds: ["bob"] }))).toBe(true);
  });

  it("[PI-85] is found by whom events in the log before make one person", async () => {
    const ids = new Map<string, string[]>();
    const create = () =>
      createPendingPersons({ distinctIdsOf: async (_project, id) => ids.get(id) ?? [id] });
    const pending = createPendingLanes({ log: create(), createForLane: create });
    const identify = { $anon_distinct_id: "anon" };
    pending.add([
      { position: 7, event: { ...entry(7, "ann", identify).event, event: "$identify" } },
    ]);
    pending.addToLane(1, [entry(1, "ann")]);
    const anon = pending.settled(1, { distinctIds: ["anon"] });
    expect(await isOver(anon)).toBe(false);
    ids.set("anon", ["anon", "ann"]);
    pending.applied(7);
    expect(await isOver(anon)).toBe(false);
    pending.passed(1, 1, 8);
    pending.applied(8);
    expect(await isOver(anon)).toBe(true);
  });

  it("[PI-85] keeps nobody waiting beyond one bound, in the log and in a lane together", async () => {
    const pending = pendingLanes(20);
    pending.add([entry(7, "ann")]);
    pending.addToLane(1, [entry(1, "ann")]);
    await pending.settled(1, { distinctIds: ["ann"] });
    pending.catchUpLaneTo(3, 10);
    await pending.settled(3, { distinctIds: ["anybody"] });
  });
});
