import { isJsonObject } from "@hedgerow/core/json";
import { describe, expect, it } from "vitest";
import { sampleEvent } from "../events/event-log.contract.ts";
import type { StepOutcome } from "../events/steps/step.ts";
import { transformationsPipeline } from "./at-work.setup.ts";
import { continueChain } from "./continue-chain.ts";

/** A stage by its config and what that is of. */
const stage = (configId: number, transformationId: number) => ({ configId, transformationId });

describe("an event that began with another chain", () => {
  const [a, b, c] = [stage(1, 10), stage(2, 20), stage(3, 10)] as const;

  it.each<[string, (typeof a)[], (typeof a)[], number[], number[]]>([
    ["passes the newest version of what it has not passed", [a, b], [a, b], [1], [2]],
    ["does not pass what is gone", [a, b], [b], [], [2]],
    ["does not pass what is new", [a], [a, b], [], [1]],
    ["does not pass again what was made again", [a, b], [c, b], [1], [2]],
    ["passes what was made again where it had not passed that", [b, a], [b, c], [2], [3]],
    ["passes nothing where nothing is left", [a, b], [], [1], []],
    ["passes in the order of now", [a, b], [b, a], [], [2, 1]],
    [
      "tells several of one transformation apart",
      [a, c],
      [stage(4, 10), stage(5, 10), stage(6, 10)],
      [1],
      [5],
    ],
    ["takes nothing that it has passed for what was made again", [c], [a, stage(4, 10)], [1], [4]],
  ])("[TP-80] %s", (_name, began, now, passed, expected) => {
    const left = continueChain(began, now, (configId) => passed.includes(configId));
    expect(left.map(({ configId }) => configId)).toEqual(expected);
  });
});

describe("a config that is deleted and made again", () => {
  it("[TP-80] is passed once by each event that is halfway, and what is new by none of them", async () => {
    const run = await transformationsPipeline();
    const project = await run.newProject();
    const adding = (name: string, work = "") =>
      `let n = 0;
      export async function processEvent(event, { storage }) {
        n++;
        const { properties } = event;
        properties.${name} = (properties.${name} ?? 0) + 1;
        ${work}
        return event;
      }`;
    const waiting = `if (n === 5) {
      console.log("waits");
      while (!(await storage.get("go"))) await new Promise((done) => setTimeout(done, 20));
    }`;
    const first = await run.enable(project, "First", adding("first"), { order: 1 });
    const slow = await run.enable(project, "Slow", adding("slow", waiting), { order: 2 });
    const last = await run.enable(project, "Last", adding("last"), { order: 3 });
    // Those of one person wait for each other.
    const entries = Array.from({ length: 60 }, (_, index) => ({
      position: index + 1,
      event: sampleEvent({ projectId: project, distinctId: "ann", properties: {} }),
    }));
    async function pass(from: number, to: number, isOver = new AbortController().signal) {
      let end = to + 1;
      const outcomes = await run.work.step.run(entries.slice(from, to), {
        whenDurable() {},
        leaving: {
          isOver,
          from: (position) => {
            end = position;
          },
        },
      });
      return outcomes.slice(0, end - 1 - from).map(addedBy);
    }
    const over = new AbortController();
    const passing = pass(0, 40, over.signal);
    await expect.poll(() => run.lines(project, slow.id), { timeout: 30_000 }).toContain("waits");
    over.abort();
    for (const [{ id, transformationId }, order] of [
      [first, 1],
      [last, 3],
    ] as const) {
      await run.change(project, id, { deleted: true });
      await run.configure(project, transformationId, { order });
    }
    await run.enable(project, "New", adding("new"), { order: 4 });
    await run.storage.write([{ projectId: project, configId: slow.id, key: "go", value: true }]);
    // Nothing has passed all of its chain, and what has passed some of it goes on from there.
    expect(await passing).toEqual([]);
    const all = await pass(0, entries.length);
    expect(all).toHaveLength(60);
    for (const passed of all) expect(passed).toMatchObject({ first: 1, slow: 1, last: 1 });
    for (const passed of all.slice(0, 10)) expect(passed).not.toHaveProperty("new");
    for (const passed of all.slice(40)) expect(passed).toHaveProperty("new", 1);
    await run.close();
  });
});

/** How often each transformation has passed an event. */
function addedBy(outcome: StepOutcome): Readonly<Record<string, unknown>> {
  if (outcome.kind !== "keep") throw new Error(outcome.kind);
  const added = outcome.added?.properties;
  return { ...outcome.event.properties, ...(isJsonObject(added) && added) };
}
