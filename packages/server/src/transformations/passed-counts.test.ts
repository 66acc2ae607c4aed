import { describe, expect, it } from "vitest";
import { sampleEvent } from "../events/event-log.contract.ts";
import { temporaryPipeline } from "../events/pipeline.setup.ts";
import { transformationsPipeline } from "./at-work.setup.ts";

it("[TP-68] counts hold up no event while their store takes nothing, and each event counts once when it does", async () => {
  let isDown = false;
  const run = await transformationsPipeline({
    pipeline: temporaryPipeline(undefined, { maxEffectChars: 1_000 }),
    effectsOf: (effects) => ({
      ...effects,
      async take(...given) {
        if (isDown) throw new Error("the store is down");
        return effects.take(...given);
      },
    }),
  });
  const projectId = await run.newProject();
  const { id } = await run.enable(
    projectId,
    "Halves",
    "let n = 0; export function processEvent(event) { return n++ % 2 === 0 ? event : null }",
  );
  isDown = true;
  // One run for each, whose counts alone take more than there is room for.
  for (let n = 0; n < 40; n++) {
    await run.append([sampleEvent({ projectId })]);
    await run.settle();
  }
  expect(await run.stored(projectId)).toHaveLength(20);
  await run.work.flush();
  // Those that are in the log wait there, the others are written already.
  const { eventsIn: early } = await run.counts(projectId, id);
  expect(early).toBeGreaterThan(0);
  expect(early).toBeLessThan(40);
  isDown = false;
  expect(await run.counts(projectId, id)).toEqual({
    ...{ eventsIn: 40, eventsOut: 20, dropped: 20, failed: 0 },
  });
  await run.close();
});

describe("what a transformation counts itself", () => {
  const SOURCE = `export const metrics = { seen: "sum", largest: "max" };
    export async function processEvent(event, { metrics }) {
      metrics.seen.increment(2);
      metrics.largest.max(event.properties.size);
      if (event.event === "late") setTimeout(() => metrics.seen.increment(100), 20);
      if (event.event === "hog") { const all = []; for (;;) all.push(new Array(1e5).fill(0)) }
      if (event.event === "wait") await new Promise((done) => setTimeout(done, 50));
      return event;
    }
    export const jobs = { now(_, { metrics }) { metrics.seen.increment(1_000); } };`;
  const entriesOf = (projectId: number, names: readonly string[]) =>
    names.map((event, index) => ({
      position: index + 1,
      event: { ...sampleEvent({ projectId, properties: { size: index } }), event },
    }));

  it("[TP-81] of an event is durable with it, and comes to nothing with it", async () => {
    const run = await transformationsPipeline();
    const projectId = await run.newProject();
    const { id } = await run.enable(projectId, "Counts", SOURCE);
    const own = async () => (await run.alsoCounted(projectId, id)).own;
    const pass = async (names: readonly string[]) => {
      const durable: (() => void)[] = [];
      await run.work.step.run(entriesOf(projectId, names), {
        whenDurable: (tell) => durable.push(tell),
      });
      return durable;
    };
    await pass(["a", "b"]);
    expect(await own()).toEqual({});
    for (const tell of await pass(["a", "b"])) tell();
    expect(await own()).toEqual({ seen: 4, largest: 1 });
    // Begun anew since another exceeded a limit.
    for (const tell of await pass(["wait", "hog"])) tell();
    expect(await own()).toEqual({ seen: 8, largest: 1 });
    await run.close();
  });

  it("[TP-81] is kept where its event has passed before, and where no event is under way", async () => {
    const run = await transformationsPipeline();
    const projectId = await run.newProject();
    const { id } = await run.enable(projectId, "Counts", SOURCE);
    const own = async () => (await run.alsoCounted(projectId, id)).own;
    await run.append(entriesOf(projectId, ["late"]).map(({ event }) => event));
    await run.settle();
    await expect.poll(own, { timeout: 30_000 }).toEqual({ seen: 102, largest: 0 });
    await run.jobs.add({
      projectId,
      configId: id,
      name: "now",
      payload: null,
      runAt: new Date(0),
      hops: 0,
    });
    await run.work.tick();
    await expect.poll(own, { timeout: 30_000 }).toEqual({ seen: 1_102, largest: 0 });
    await run.close();
  });
});
