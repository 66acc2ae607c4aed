import type { CapturedEvent } from "@hedgerow/core/events/event";
import { v7 } from "uuid";
import { describe, expect, it } from "vitest";
import { temporaryPipeline } from "../events/pipeline.setup.ts";
import { transformationsPipeline } from "./at-work.setup.ts";

const SOURCE = `export function processEvent(event, { config }) {
  event.properties.limit = String(config.limit ?? "none")
  return event
}`;

function eventOf(projectId: number): CapturedEvent {
  const at = new Date();
  return {
    ...{ uuid: v7(), projectId, event: "a", distinctId: "ann", properties: {} },
    ...{ timestamp: at, clientTimestamp: null, receivedAt: at },
  };
}

describe("what runs in a project", () => {
  it("[TM-6] runs again after a restart, with integers in its settings that no number holds", async () => {
    const pipeline = temporaryPipeline();
    const limit = 12_345_678_901_234_567_890n;
    const first = await transformationsPipeline({ pipeline });
    const project = await first.newProject();
    await first.enable(project, "Limit", SOURCE, { config: { limit } });
    await first.stop();
    const second = await transformationsPipeline({ pipeline });
    try {
      await second.append([eventOf(project)]);
      await second.settle();
      expect(await second.stored(project)).toMatchObject([
        { properties: { limit: String(Number(limit)) } },
      ]);
      expect([...first.faults, ...second.faults]).toEqual([]);
    } finally {
      await second.close();
    }
  });

  it("[TM-6] starts without the project whose configs cannot be read, and takes it in later", async () => {
    const pipeline = temporaryPipeline();
    const first = await transformationsPipeline({ pipeline });
    const [broken, fine] = [await first.newProject(), await first.newProject()];
    await first.enable(broken, "One", SOURCE);
    await first.enable(fine, "Two", SOURCE);
    await first.stop();
    let isBroken = true;
    const second = await transformationsPipeline({
      pipeline,
      configsOf: (store) => ({
        ...store,
        configsToRun: async (projectId) => {
          if (projectId === broken && isBroken) throw new Error("cannot be read");
          return store.configsToRun(projectId);
        },
      }),
    });
    try {
      await second.append([eventOf(broken), eventOf(fine)]);
      await second.settle();
      expect((await second.stored(broken))[0]?.properties).not.toHaveProperty("limit");
      expect((await second.stored(fine))[0]?.properties).toMatchObject({ limit: "none" });
      expect(second.faults).toContainEqual(new Error("cannot be read"));
      isBroken = false;
      await expect
        .poll(async () => {
          await second.append([eventOf(broken)]);
          await second.settle();
          return (await second.stored(broken)).at(-1)?.properties;
        })
        .toMatchObject({ limit: "none" });
    } finally {
      await second.close();
    }
  });

  it("[TM-27] tells of a config whose source holds no code, until there is some", async () => {
    const run = await transformationsPipeline();
    try {
      const id = await run.newProject();
      const config = await run.enable(id, "Bare", { "plugin.json": "{}" });
      const problem = async () => (await run.configs.config({ id }, config.id)).config.problem;
      expect((await problem())?.message).toBe("Its source holds no code.");
      await run.edit(id, config.transformationId, SOURCE);
      expect(await problem()).toBeNull();
      await run.change(id, config.id, { enabled: false });
      expect(await problem()).toBeNull();
    } finally {
      await run.close();
    }
  });

  it("[TM-5] is read once for each revision, also where there is nothing to run", async () => {
    const reads: number[] = [];
    const run = await transformationsPipeline({
      configsOf: (store) => ({
        ...store,
        configsToRun: (projectId) => {
          reads.push(projectId);
          return store.configsToRun(projectId);
        },
      }),
    });
    try {
      const project = await run.newProject();
      await run.enable(project, "Empty", { "plugin.json": "{}" });
      reads.length = 0;
      await new Promise((resolve) => setTimeout(resolve, 2_500));
      expect(reads).toEqual([]);
    } finally {
      await run.close();
    }
  });
});
