import { randomUUID } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { openDuckDbEvents } from "../engines/duckdb-events/duckdb-events.ts";
import { openEmbeddedLog } from "../engines/embedded-log/embedded-log.ts";
import { projectsAndUsers } from "../engines/sql/projects-and-users.setup.ts";
import { createRefusalStore } from "../engines/sql/refusal-store.ts";
import { openTemporarySqlite } from "../engines/sql/sql-engines.contract.ts";
import { sampleEvent } from "./event-log.contract.ts";
import { findReceipt } from "./receipts.ts";
import { createRefusals } from "./refusals.ts";

async function openAll() {
  const folder = mkdtempSync(join(tmpdir(), "hedgerow-receipts-"));
  const database = await openTemporarySqlite();
  const { newProject } = await projectsAndUsers(database);
  const events = await openDuckDbEvents(join(folder, "events.duckdb"));
  const log = await openEmbeddedLog(join(folder, "log.sqlite"));
  const faults: unknown[] = [];
  const refusals = createRefusals({
    store: createRefusalStore(database),
    clock: () => new Date("2026-01-01T00:00:00Z"),
    reportFault: (error) => {
      faults.push(error);
    },
  });
  return {
    deps: { events, log, refusals },
    database,
    newProject,
    faults,
    async close() {
      await log.close();
      await events.close();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

describe("the receipt of an event", () => {
  let all: Awaited<ReturnType<typeof openAll>>;
  beforeAll(async () => {
    all = await openAll();
  });
  afterAll(() => all.close());

  it("[RC-1] follows it from the log to the store, and to its end with its person", async () => {
    const { events, log } = all.deps;
    const projectId = await all.newProject();
    const event = sampleEvent({ projectId });
    const outcome = async () => (await findReceipt(all.deps, projectId, event.uuid))?.receipt;
    expect(await outcome()).toBeUndefined();
    const [position = 0] = await log.append([event]);
    expect(await outcome()).toEqual({ outcome: "queued", position });
    const personId = randomUUID();
    const row = { position, event, personId, groupKeys: [], changedBy: ["cut"] };
    const drop = {
      position: position + 1,
      projectId,
      uuid: randomUUID(),
      by: "filter",
      reason: "bot",
    };
    await events.insert({
      rows: [row],
      merges: [],
      drops: [drop],
      deadLetters: [],
      end: position + 1,
    });
    expect(await outcome()).toMatchObject({ outcome: "stored", position, changedBy: ["cut"] });
    expect((await findReceipt(all.deps, projectId, drop.uuid))?.receipt).toMatchObject({
      outcome: "dropped",
      by: "filter",
      reason: "bot",
    });
    await events.deleteEventsOf(projectId, [personId], position + 1);
    await expect.poll(outcome).toEqual({ outcome: "deleted" });
  });

  it("[RC-1] finds what leaves its lane while it is looked for, and looks through none for what is stored", async () => {
    const { events, log, refusals } = all.deps;
    const projectId = await all.newProject();
    const event = sampleEvent({ projectId });
    // The log goes on where the store is.
    while ((await log.end()) < (await events.position())) {
      await log.append([sampleEvent({ projectId })]);
    }
    let looked = 0;
    const holds = async () => {
      if (looked++ === 0) await log.append([event]);
      return false;
    };
    const deps = { events, refusals, log: { ...log, lanes: { ...log.lanes, holds } } };
    const queued = await findReceipt(deps, projectId, event.uuid);
    expect(queued?.receipt).toMatchObject({ outcome: "queued", position: await log.end() });
    const position = await log.end();
    const row = { position, event, personId: randomUUID(), groupKeys: [], changedBy: [] };
    await events.insert({ rows: [row], merges: [], drops: [], deadLetters: [], end: position });
    const stored = await findReceipt(deps, projectId, event.uuid);
    expect(stored?.receipt).toMatchObject({ outcome: "stored", position });
    expect(looked).toBe(1);
  });

  it("[RC-2] a store that takes nothing costs refusals their receipts, and nobody else anything", async () => {
    const projectId = await all.newProject();
    await all.database.close();
    const { refusals } = all.deps;
    refusals.note({ projectId, uuid: randomUUID(), code: "missing_event", detail: "no event" });
    await refusals.flush();
    expect(all.faults).toHaveLength(1);
  });
});
