import { describe, expect, it } from "vitest";
import { sampleEvent } from "./event-log.contract.ts";
import { createPendingLanes, type PendingLanesOptions } from "./pending-lanes.ts";
import { createPendingPersons } from "./pending-persons.ts";

function pendingLanes(options: Partial<PendingLanesOptions> = {}) {
  const maxWaitMs = 60_000;
  const distinctIdsOf = async (_project: number, id: string) =>
    id.startsWith("many") ? "too-many" : [id];
  return createPendingLanes({
    log: createPendingPersons({ distinctIdsOf, maxWaitMs }),
    createForLane: () => createPendingPersons({ distinctIdsOf, maxWaitMs, waitsForUnknown: false }),
    maxWaitMs,
    ...options,
  });
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
      createPendingPersons({
        distinctIdsOf: async (_project, id) => ids.get(id) ?? [id],
        maxWaitMs: 60_000,
      });
    const pending = pendingLanes({ log: create(), createForLane: create });
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
    const distinctIdsOf = async (_project: number, id: string) => [id];
    const log = createPendingPersons({ distinctIdsOf });
    const createForLane = () => createPendingPersons({ distinctIdsOf, maxWaitMs: 60_000 });
    // Neither the log nor the lane ends the wait.
    const inLog = { ...log, settled: () => new Promise<void>(() => {}) };
    const first = createPendingLanes({ log: inLog, createForLane, maxWaitMs: 20 });
    first.addToLane(1, [entry(1, "ann")]);
    await first.settled(1, { distinctIds: ["ann"] });
    const afterLog = { ...log, settled: async () => {} };
    const second = createPendingLanes({ log: afterLog, createForLane, maxWaitMs: 20 });
    second.addToLane(1, [entry(1, "ann")]);
    await second.settled(1, { distinctIds: ["ann"] });
  });

  it("[PI-85] keeps nobody waiting for events in a lane of whom nobody knows whom they change", async () => {
    const pending = pendingLanes();
    pending.catchUpLaneTo(1, 10);
    expect(pending.settled(1, { distinctIds: ["anybody"] })).toBeUndefined();
    pending.addToLane(1, [entry(11, "ann"), entry(12, "many ids")]);
    expect(await isOver(pending.settled(1, { distinctIds: ["ann"] }))).toBe(false);
    expect(await isOver(pending.settled(1, { distinctIds: ["many ids"] }))).toBe(false);
    expect(await isOver(pending.settled(1, { distinctIds: ["many others"] }))).toBe(true);
  });

  it("[PI-55] forgets whom the events of the fullest lane change where there are too many in all lanes", async () => {
    const pending = pendingLanes({ maxNoted: 5 });
    const fill = (projectId: number, after: number, ids: string) =>
      pending.addToLane(
        projectId,
        [...ids].map((distinctId, index) => ({
          position: after + index + 1,
          event: sampleEvent({ projectId, distinctId }),
        })),
      );
    const isPending = async (projectId: number, id: string) =>
      !(await isOver(pending.settled(projectId, { distinctIds: [id] })));
    fill(1, 0, "abc");
    fill(2, 0, "de");
    expect(await isPending(1, "a")).toBe(true);
    fill(2, 2, "f");
    expect(await isPending(1, "a")).toBe(false);
    expect(await isPending(2, "d")).toBe(true);
    // What is applied makes room.
    pending.passed(2, 3, 10);
    pending.applied(10);
    fill(1, 3, "ab");
    fill(3, 0, "ghi");
    expect(await isPending(1, "a")).toBe(true);
    expect(await isPending(3, "g")).toBe(true);
  });
});
