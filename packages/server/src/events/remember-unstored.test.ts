import { randomUUID } from "node:crypto";
import { afterEach, beforeEach, expect, it } from "vitest";
import { sampleEvent } from "./event-log.contract.ts";
import { temporaryPipeline } from "./pipeline.setup.ts";
import { createRecentEvents } from "./recent-events.ts";
import { rememberUnstored } from "./remember-unstored.ts";

let pipeline: ReturnType<typeof temporaryPipeline>;
beforeEach(() => {
  pipeline = temporaryPipeline();
});
afterEach(() => pipeline.remove());

it("[CA-60] what is durable and not stored is known after a restart, in the log and in lanes", async () => {
  const { log } = await pipeline.openStores();
  const inLog = sampleEvent({ projectId: 1 });
  const waiting = Array.from({ length: 1200 }, () => sampleEvent({ projectId: 2 }));
  const renamed = sampleEvent({ projectId: 2 });
  await log.append([inLog]);
  await log.lanes.append(2, [renamed, ...waiting]);
  await log.lanes.pass(2, {
    ...{ upTo: 1, captured: [] },
    events: [
      {
        event: { ...renamed, uuid: randomUUID() },
        passage: { kind: "kept", changedBy: ["A (1)"], renamedFrom: renamed.uuid },
      },
    ],
  });
  await pipeline.closeStores();

  const reopened = await pipeline.openStores();
  const recent = createRecentEvents();
  await rememberUnstored({ log: reopened.log, events: reopened.events, recent });
  for (const event of [inLog, renamed, ...waiting]) {
    expect(recent.compare(event.projectId, event)).toBe("duplicate");
  }
  expect(recent.compare(1, { ...inLog, event: "another" })).toBe("conflict");
  expect(recent.compare(2, inLog)).toBeUndefined();
});

it("[CA-60] nothing is read anew of what is stored", async () => {
  const run = await pipeline.start();
  const projectId = await run.newProject();
  const event = sampleEvent({ projectId });
  await run.append([event]);
  await run.settle();
  const { log, events } = await pipeline.openStores();
  const recent = createRecentEvents();
  await rememberUnstored({ log, events, recent });
  expect(recent.compare(projectId, event)).toBeUndefined();
  expect(events.known(projectId, [event])).toEqual(["duplicate"]);
});
