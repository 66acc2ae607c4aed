import { expect, test } from "vitest";
import { createBacktrackingRegex } from "../engines/backtracking-regex/backtracking-regex.ts";
import { createPersonRecords } from "../engines/sql/person-records.ts";
import { sampleEvent } from "../events/event-log.contract.ts";
import { temporaryPipeline } from "../events/pipeline.setup.ts";
import { createPersons } from "./persons.ts";

test("[PR-13] a deletion with events is refused while events are stored late, and does nothing by half", async () => {
  const pipeline = temporaryPipeline();
  const { database, events, log, persons, newProject } = await pipeline.openStores();
  const records = createPersonRecords(database, persons);
  const projectId = await newProject();
  const useCases = createPersons({
    records,
    caughtUp: async () => {},
    log,
    events,
    follower: { follow: async () => {} },
    cohortsOf: async () => new Map(),
    backtracking: createBacktrackingRegex(),
    clock: () => new Date("2026-06-01T00:00:00Z"),
  });
  await log.append([sampleEvent({ projectId, distinctId: "ann" })]);
  const { entries } = await log.read(0, 10, AbortSignal.any([]));
  await persons.applyEvents(entries);
  const ann = await records.person(projectId, { distinctId: "ann" });
  const remove = () =>
    useCases.delete(
      projectId,
      { distinctIds: ["ann"] },
      { events: true, keepPersons: false, authorId: 1 },
    );
  await expect(remove()).rejects.toMatchObject({
    code: "unavailable",
    headers: { "retry-after": "5" },
  });
  expect(await records.person(projectId, { distinctId: "ann" })).toEqual(ann);
  expect(await records.eventChanges(10)).toEqual([]);
  await pipeline.remove();
});
