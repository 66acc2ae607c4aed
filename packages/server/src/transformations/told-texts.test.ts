import type { CapturedEvent } from "@hedgerow/core/events/event";
import { v7 } from "uuid";
import { expect, test } from "vitest";
import { transformationsPipeline } from "./at-work.setup.ts";

function eventsOf(projectId: number, count: number): CapturedEvent[] {
  const at = new Date();
  return Array.from({ length: count }, () => ({
    ...{ uuid: v7(), projectId, event: "a", distinctId: "ann", properties: {} },
    ...{ timestamp: at, clientTimestamp: null, receivedAt: at },
  }));
}

test("[TM-81] what code says in its log and throws is told whole, without what no store may hold", async () => {
  const run = await transformationsPipeline();
  try {
    const id = await run.newProject();
    const code = `export function processEvent() {
      console.log("a\\0b\\ud800c")
      throw new Error("d\\0e\\udfffz")
    }`;
    const config = await run.enable(id, "Odd", code);
    await run.append(eventsOf(id, 100));
    await run.settle();
    const lines = await run.lines(id, config.id);
    expect(lines).toContain("a\uFFFDb\uFFFDc");
    expect(lines).toContainEqual(expect.stringMatching(/^a .*: Error: d\uFFFDe\uFFFDz$/));
    const reason = "It failed 100 times in a row. The last time: Error: d\uFFFDe\uFFFDz";
    expect(lines).toContain(`Disabled. ${reason}`);
    const { config: disabled } = await run.configs.config({ id }, config.id);
    expect(disabled).toMatchObject({ enabled: false, problem: { message: reason } });
    expect(run.warnings.map(({ detail }) => detail)).toEqual([`${config.label}: ${reason}`]);
  } finally {
    await run.close();
  }
});
