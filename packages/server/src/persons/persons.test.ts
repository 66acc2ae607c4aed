import { expect, test } from "vitest";
import { createBacktrackingRegex } from "../engines/backtracking-regex/backtracking-regex.ts";
import { createPersonRecords } from "../engines/sql/person-records.ts";
import { projectsAndUsers } from "../engines/sql/projects-and-users.setup.ts";
import { appliedNow } from "../events/applied-now.ts";
import { sampleEvent } from "../events/event-log.contract.ts";
import { temporaryPipeline } from "../events/pipeline.setup.ts";
import type { Step } from "../events/steps/step.ts";
import { withResolvers } from "../platform/with-resolvers.ts";
import { createPersons } from "./persons.ts";

test("[PR-13] a deletion with events is refused while events are stored late, and does nothing by half", async () => {
  const pipeline = temporaryPipeline();
  const { database, events, log, persons, newProject } = await pipeline.openStores();
  const records = createPersonRecords(database, persons);
  const projectId = await newProject();
  const useCases = createPersons({
    records,
    caughtUp: async () => true,
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

test("[PR-19] deleting and splitting are refused while what was captured before is not applied, in a lane or behind it", async () => {
  const pipeline = temporaryPipeline();
  const { promise: released, resolve: release } = withResolvers();
  const step: Step = {
    name: "hold",
    run: async (entries) => {
      if (entries.some(({ event }) => event.event === "$identify")) await released;
      return entries.map(({ event }) => ({ kind: "keep", event }));
    },
  };
  const run = await pipeline.start({ steps: [step] });
  const { events, log } = run;
  const projectId = await run.newProject();
  const authorId = await (await projectsAndUsers(run.database)).newUser();
  const records = createPersonRecords(run.database, run.persons);
  let isStageBehind = false;
  const useCases = createPersons({
    records,
    caughtUp: (project) => {
      const behind = { caughtUp: async () => false };
      const pendingPersons = isStageBehind ? behind : run.pendingPersons;
      return appliedNow({ pendingPersons, log }, project, 5);
    },
    ...{ log, events },
    follower: { follow: async () => {} },
    cohortsOf: async () => new Map(),
    backtracking: createBacktrackingRegex(),
    clock: () => new Date("2026-06-01T00:00:00Z"),
  });
  const seen = (fields: Parameters<typeof sampleEvent>[0]) =>
    sampleEvent({ projectId, distinctId: "ann", ...fields });
  await run.append([seen({ event: "seen" })]);
  await run.settle();
  const ann = await records.person(projectId, { distinctId: "ann" });
  await run.append([seen({ event: "$identify", properties: { $anon_distinct_id: "anon" } })]);

  const remove = () =>
    useCases.delete(
      projectId,
      { distinctIds: ["ann"] },
      { events: false, keepPersons: false, authorId },
    );
  const split = () =>
    useCases.split(projectId, { distinctId: "ann" }, { mainDistinctId: null, authorId });
  const late = { code: "unavailable", headers: { "retry-after": "5" } };
  await expect(remove()).rejects.toMatchObject(late);
  await expect(split()).rejects.toMatchObject(late);
  expect(await records.person(projectId, { distinctId: "ann" })).toEqual(ann);

  release();
  await run.settle();
  isStageBehind = true;
  await expect(remove()).rejects.toMatchObject(late);
  await expect(split()).rejects.toMatchObject(late);
  isStageBehind = false;
  await split();
  expect((await records.person(projectId, { distinctId: "anon" }))?.distinctIds).toEqual(["anon"]);
  expect(await remove()).toBe(1);
  expect(await records.person(projectId, { distinctId: "ann" })).toBeUndefined();
  await pipeline.remove();
});
