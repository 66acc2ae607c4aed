import { describe, expect, it } from "vitest";
import { sampleEvent } from "./event-log.contract.ts";
import { createPendingPersons } from "./pending-persons.ts";

const entry = (position: number, fields: Parameters<typeof sampleEvent>[0] = {}) => ({
  position,
  event: sampleEvent(fields),
});

async function isSettled(promise: Promise<void> | undefined): Promise<boolean> {
  return Promise.race([promise?.then(() => true), Promise.resolve(false)]) as Promise<boolean>;
}

describe("PendingPersons", () => {
  it("[PI-10] makes only requests about ids with events on their way wait", async () => {
    const pending = createPendingPersons();
    expect(pending.settled(1, { distinctIds: ["a"] })).toBeUndefined();
    pending.add([entry(1, { distinctId: "a" })]);
    expect(pending.settled(1, { distinctIds: ["b"] })).toBeUndefined();
    expect(pending.settled(2, { distinctIds: ["a"] })).toBeUndefined();
    const waiting = pending.settled(1, { distinctIds: ["b", "a"] });
    expect(waiting).toBeInstanceOf(Promise);
    expect(await isSettled(waiting)).toBe(false);
    pending.applied(1);
    await waiting;
    expect(pending.settled(1, { distinctIds: ["a"] })).toBeUndefined();
  });

  it("[PI-10] waits for the last event of an id", async () => {
    const pending = createPendingPersons();
    pending.add([entry(1, { distinctId: "a" }), entry(3, { distinctId: "a" })]);
    const waiting = pending.settled(1, { distinctIds: ["a"] });
    pending.applied(2);
    expect(await isSettled(waiting)).toBe(false);
    expect(pending.settled(1, { distinctIds: ["a"] })).toBeInstanceOf(Promise);
    pending.applied(3);
    await waiting;
  });

  it("[PI-10] knows both ids of an identification and the group of a $groupidentify", () => {
    const pending = createPendingPersons();
    pending.add([
      entry(1, { event: "$identify", distinctId: "a", properties: { $anon_distinct_id: "anon" } }),
      entry(2, {
        event: "$groupidentify",
        distinctId: "$company_acme",
        properties: { $group_type: "company", $group_key: "acme", $group_set: { size: 1 } },
      }),
    ]);
    expect(pending.settled(1, { distinctIds: ["anon"] })).toBeInstanceOf(Promise);
    const groups = { company: "acme" };
    expect(pending.settled(1, { distinctIds: ["x"], groups })).toBeInstanceOf(Promise);
    expect(pending.settled(1, { distinctIds: ["x"], groups: { company: "b" } })).toBeUndefined();
  });

  it("[PI-10] lets nobody wait for personless events or for what was applied before it was noted", () => {
    const pending = createPendingPersons();
    pending.applied(5);
    pending.add([
      entry(5, { distinctId: "a" }),
      entry(6, { distinctId: "b", properties: { $process_person_profile: false } }),
    ]);
    expect(pending.settled(1, { distinctIds: ["a", "b"] })).toBeUndefined();
  });

  it("[PI-10] makes everybody wait for what a start found unapplied", async () => {
    const pending = createPendingPersons();
    pending.catchUpTo(10);
    const waiting = pending.settled(1, { distinctIds: ["anybody"] });
    pending.applied(9);
    expect(await isSettled(waiting)).toBe(false);
    pending.applied(10);
    await waiting;
    expect(pending.settled(1, { distinctIds: ["anybody"] })).toBeUndefined();
  });

  it("[PI-10] lets nobody wait for ever", async () => {
    const pending = createPendingPersons({ maxWaitMs: 5 });
    pending.add([entry(1, { distinctId: "a" })]);
    await pending.settled(1, { distinctIds: ["a"] });
    expect(pending.settled(1, { distinctIds: ["a"] })).toBeInstanceOf(Promise);
  });
});
