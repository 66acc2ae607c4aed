import { expect, it } from "vitest";
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
