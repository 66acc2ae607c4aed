import type { CapturedEvent } from "@hedgerow/core/events/event";
import { v7 } from "uuid";
import { expect, it } from "vitest";
import { transformationsPipeline } from "./at-work.setup.ts";

/** The full soak takes 200,000 events: `HEDGEROW_SOAK_EVENTS=200000`. */
const EVENTS = Number(process.env.HEDGEROW_SOAK_EVENTS ?? 3000);
const BATCH = 1000;

it("[TP-29] loses and doubles nothing where two of five misbehave, in two projects, and holds no more memory in the end", async () => {
  const run = await transformationsPipeline();
  try {
    const [project, neighbour] = [await run.newProject(), await run.newProject()];
    const source = (body: string) => `export function processEvent(e) { ${body} }`;
    const chain = [
      await run.enable(project, "Change", source("e.properties.a = e.properties.n; return e")),
      await run.enable(
        project,
        "Loop",
        source("if (e.properties.n % 50 === 0) for (;;) {} return e"),
      ),
      await run.enable(project, "Drop", source("return e.properties.n % 7 ? e : null")),
      await run.enable(
        project,
        "Grow",
        source(
          "if (e.properties.n % 60 === 0) { const all = []; for (;;) all.push('x'.repeat(1e5) + all.length) } return e",
        ),
      ),
      await run.enable(project, "Last", source("e.properties.z = 1; return e")),
    ];
    let heapBefore = 0;
    for (let from = 0; from < EVENTS; from += BATCH) {
      const events = Array.from({ length: BATCH }, (_, index): CapturedEvent => {
        const at = new Date();
        const properties = { n: from + index };
        const projectId = index % 2 === 0 ? project : neighbour;
        return {
          ...{ uuid: v7(), projectId, event: "n", distinctId: `p${index}`, properties },
          ...{ timestamp: at, clientTimestamp: null, receivedAt: at },
        };
      });
      await run.append(events);
      // On a busy machine each exceeded limit takes its time.
      while ((await run.log.lanes.passed(project, 600_000)) === true);
      await run.settle();
      if (from <= EVENTS / 4) heapBefore = process.memoryUsage().rss;
    }
    const half = EVENTS / 2;
    const dropped = Math.ceil(EVENTS / 14);
    expect(await run.events.count({ projectId: neighbour })).toBe(half);
    expect(await run.events.count({ projectId: project })).toBe(half - dropped);
    let entering = half;
    for (const { id, label } of chain) {
      const { eventsIn, eventsOut, dropped: left } = await run.counts(project, id);
      expect(eventsIn).toBe(eventsOut + left);
      const isDisabled = !(await run.configStore.config(project, id))?.config.enabled;
      // What is out of work is given no more: the others are given everything that came so far.
      if (isDisabled) expect(eventsIn).toBeLessThan(entering);
      else expect([label, eventsIn]).toEqual([label, entering]);
      entering -= left;
    }
    expect(run.faults).toEqual([]);
    if (EVENTS >= 100_000) {
      expect(process.memoryUsage().rss - heapBefore).toBeLessThan(256 * 1024 * 1024);
    }
  } finally {
    await run.close();
  }
}, 1_800_000);
