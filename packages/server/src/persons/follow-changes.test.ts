import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { createPersonRecords } from "../engines/sql/person-records.ts";
import { sampleEvent } from "../events/event-log.contract.ts";
import type { EventStore } from "../events/event-store.ts";
import { temporaryPipeline } from "../events/pipeline.setup.ts";
import { runUntilKilled } from "../events/run-until-killed.setup.ts";
import { type ChangeFollower, followChanges } from "./follow-changes.ts";

let pipeline: ReturnType<typeof temporaryPipeline>;
let follower: ChangeFollower | undefined;
beforeEach(() => {
  pipeline = temporaryPipeline();
});
afterEach(async () => {
  await follower?.close();
  follower = undefined;
  await pipeline.remove();
});

const withNow = { now: new Date("2026-06-01T00:00:00Z") };

/** A follower on the stores of the pipeline, and what goes with it. */
async function follow(
  around: (
    events: EventStore,
  ) => Partial<Pick<EventStore, "deleteEventsOf" | "reassign">> = () => ({}),
) {
  const stores = await pipeline.openStores();
  const records = createPersonRecords(stores.database, stores.persons);
  const faults: unknown[] = [];
  const { reached, deleteEventsOf, reassign } = stores.events;
  follower = followChanges({
    records,
    events: { reached, deleteEventsOf, reassign, ...around(stores.events) },
    reportFault: (error) => faults.push(error),
    timing: { retryMs: 1, longestRetryMs: 5, reachMs: 20, maxWaitMs: 60_000 },
  });
  const uuidOf = async (projectId: number, distinctId: string): Promise<string> => {
    const person = await records.person(projectId, { distinctId });
    if (!person) throw new Error(`nobody has ${distinctId}`);
    return person.uuid;
  };
  return { ...stores, records, faults, follower, uuidOf };
}

/** Event names and ids of a project, with whose they are: `name id`. */
async function stored(events: EventStore, projectId: number, personId?: string) {
  const page = await events.events({
    projectId,
    ...(personId !== undefined && { personId }),
    limit: 100,
    offset: 0,
    order: "oldest-first",
  });
  return page.events.map(({ event, distinctId }) => `${event} ${distinctId}`).toSorted();
}

describe("what was done to persons is done to their events", () => {
  test("[PR-9] once what came before is stored, in the order of the changes, and not to what comes after", async () => {
    const { log, events, persons, records, follower, newProject, uuidOf } = await follow();
    const projectId = await newProject();
    const event = (name: string, distinctId: string) =>
      sampleEvent({ projectId, event: name, distinctId });
    // The person changes are ahead of the store, as they are under load.
    await log.append([event("before", "a"), event("before", "b")]);
    const first = await log.read(0, 10, AbortSignal.any([]));
    await persons.applyEvents(first.entries);
    const a = await uuidOf(projectId, "a");
    await records.deleteEvents(projectId, [a]);
    const following = follower.follow();
    await log.append([event("after", "a")]);
    const second = await log.read(first.end, 10, AbortSignal.any([]));
    const outcomes = await persons.applyEvents([...first.entries, ...second.entries]);
    await new Promise((resolve) => setTimeout(resolve, 60));
    expect(await records.eventChanges(10)).toHaveLength(1);
    const rows = [...first.entries, ...second.entries].map((entry, at) => ({
      ...entry,
      personId: outcomes[at]?.personId ?? "",
      groupKeys: [],
      changedBy: [],
    }));
    await events.insert({ rows, merges: [], drops: [], deadLetters: [], end: second.end });
    await following;
    expect(await records.eventChanges(10)).toEqual([]);
    expect(await stored(events, projectId)).toEqual(["after a", "before b"]);
  });

  test("[PR-9] again and again until the store takes it, and callers wait no longer than they should", async () => {
    let failures = 3;
    const { faults, records, follower, uuidOf } = await follow((events) => ({
      deleteEventsOf: async (...given) => {
        if (failures-- > 0) throw new Error("the disk is full");
        await events.deleteEventsOf(...given);
      },
    }));
    const run = await pipeline.start();
    const projectId = await run.newProject();
    await run.append([sampleEvent({ projectId, distinctId: "a" })]);
    await run.settle();
    const uuids = [await uuidOf(projectId, "a")];
    await records.deletePersons(projectId, uuids, { withEvents: true, ...withNow });
    await follower.follow();
    expect(faults).toHaveLength(3);
    expect(await stored(run.events, projectId)).toEqual([]);
    expect(await records.eventChanges(10)).toEqual([]);
    // One who comes when there is nothing to do does not wait.
    await follower.follow();
  });

  test("[PR-9] by the next start, where a stop came first", async () => {
    const run = await pipeline.start();
    const records = createPersonRecords(run.database, run.persons);
    const projectId = await run.newProject();
    await run.append([sampleEvent({ projectId, distinctId: "a" })]);
    await run.settle();
    const person = await records.person(projectId, { distinctId: "a" });
    const uuids = [person?.uuid ?? ""];
    await records.deletePersons(projectId, uuids, { withEvents: true, ...withNow });
    await pipeline.closeStores();
    const again = await follow();
    await again.follower.follow();
    expect(await stored(again.events, projectId)).toEqual([]);
  });

  const DEATHS = [
    ["deleteEventsOf", 2],
    ["reassign", 1],
  ] as const;
  test.each(DEATHS)(
    "[PR-9] whatever dies in between: killed after %s, time %i",
    async (last, times) => {
      const { newProject } = await pipeline.openStores();
      const projectId = await newProject();
      await pipeline.closeStores();
      const script = new URL("./change-process.setup.ts", import.meta.url);
      await runUntilKilled(script, [pipeline.folder, String(projectId), last, String(times)]);

      const { events, records, follower, faults, uuidOf } = await follow();
      const run = await pipeline.start();
      await run.settle();
      await follower.follow();
      expect(faults).toEqual([]);
      expect(await records.eventChanges(10)).toEqual([]);
      expect(await stored(events, projectId)).toEqual([
        "$merge_dangerously ann",
        "after ann",
        "after bob",
        "after gone",
        "after kept",
        "before ann",
        "before bob",
        "before other",
      ]);
      const of = async (id: string) => stored(events, projectId, await uuidOf(projectId, id));
      expect(await of("bob")).toEqual(["after bob", "before bob"]);
      expect(await of("ann")).toEqual(["$merge_dangerously ann", "after ann", "before ann"]);
      expect(await of("gone")).toEqual(["after gone"]);
      expect(await of("kept")).toEqual(["after kept"]);
    },
  );
});
