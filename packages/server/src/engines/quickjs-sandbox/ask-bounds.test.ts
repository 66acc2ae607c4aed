import { HOPS_PROPERTY } from "@hedgerow/core/transformations/plugin-event";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { DEFAULT_LIMITS, type InstanceHost } from "../../transformations/sandbox.ts";
import { QuickJsSandbox } from "./quickjs-sandbox.ts";
import { readOutcome, recordHost, sampleEvents, startSource } from "./sandbox.setup.ts";

let sandbox: QuickJsSandbox;
beforeAll(() => {
  sandbox = new QuickJsSandbox({ threads: 1 });
});
afterAll(() => sandbox.close());

describe("what events ask for", () => {
  it("[TS-26] does not crowd out what others of the batch ask for", async () => {
    const record = recordHost();
    const instance = await startSource(
      sandbox,
      `function processEvent(event) {
        const times = event.uuid === "uuid-0" ? 1_000 : 2;
        for (let n = 0; n < times; n++) posthog.capture("made", { n });
        return event;
      }`,
      { host: record.host, limits: { ...DEFAULT_LIMITS, eventCpuMs: 20_000 } },
    );
    const outcomes = await instance.transform(sampleEvents(200));
    await instance.stop();
    expect(outcomes.every(({ kind }) => kind === "keep")).toBe(true);
    const capturedOf = (uuid: string) => record.captured.filter(({ of }) => of === uuid).length;
    expect(capturedOf("uuid-0")).toBe(10);
    for (let index = 1; index < 200; index++) expect(capturedOf(`uuid-${index}`)).toBe(2);
    expect(record.lines.map(({ level, message }) => [level, message])).toContainEqual([
      "warn",
      "posthog.capture was refused: one event may not capture more than 10 (990 times)",
    ]);
  });

  it("[TS-26] may be left to thousands of timers that outlive it, and to no more than can be held", async () => {
    const instance = await startSource(
      sandbox,
      `let refused = 0;
      function processEvent(event) {
        const { timers } = event.properties;
        for (let n = 0; n < timers; n++) {
          try { AbortSignal.timeout(3_600_000) } catch (error) { refused += 1; event.properties.why = error.message }
        }
        event.properties.refused = refused;
        return event;
      }`,
      { limits: { ...DEFAULT_LIMITS, eventCpuMs: 20_000 } },
    );
    const many = await instance.transform(sampleEvents(1_000, { timers: 2 }));
    const [tooMany] = await instance.transform(sampleEvents(1, { timers: 9_000 }));
    await instance.stop();
    expect(many.map(readOutcome)).toEqual(many.map(() => ({ timers: 2, refused: 0 })));
    expect(readOutcome(tooMany)).toEqual({
      timers: 9_000,
      refused: 1_000,
      why: "too many timers are set",
    });
  });

  it("[TS-26] is captured for all that wait, whichever of them goes on for the others", async () => {
    const record = recordHost();
    const instance = await startSource(
      sandbox,
      `const waiting = [];
      function processEvent(event) {
        return new Promise((resolve) => {
          waiting.push([event, resolve]);
          if (waiting.length < 25) return;
          for (const [one, goOn] of waiting) {
            posthog.capture("made", { for: one.uuid });
            goOn(one);
          }
        });
      }`,
      { host: record.host },
    );
    const outcomes = await instance.transform(sampleEvents(25));
    await instance.stop();
    expect(outcomes.every(({ kind }) => kind === "keep")).toBe(true);
    expect(record.captured).toHaveLength(25);
    expect(record.lines).toEqual([]);
  });

  it("[TS-26] is bounded for each, and what is left out is told though nobody waits for it", async () => {
    const record = recordHost();
    const instance = await startSource(
      sandbox,
      `export const jobs = { later() {} };
      export function processEvent(event, { jobs, storage }) {
        if (event.uuid === "uuid-0") for (let n = 0; n < 5_000; n++) jobs.later({ n }).runNow();
        storage.set(event.uuid, 1);
        return event;
      }`,
      { host: record.host, limits: { ...DEFAULT_LIMITS, eventCpuMs: 20_000 } },
    );
    const outcomes = await instance.transform(sampleEvents(200));
    expect(outcomes.map(({ kind }) => kind)).not.toContain("failed");
    await expect.poll(() => record.stored.size, { timeout: 30_000 }).toBe(199);
    await instance.stop();
    expect(record.jobs).toHaveLength(64);
    expect(record.lines.map(({ message }) => message)).toContain(
      "too many questions wait for their answers (4937 times)",
    );
  });

  it("[TS-26] is hardly bounded beside events, as imports need", async () => {
    const record = recordHost();
    const instance = await startSource(
      sandbox,
      "export function runEveryMinute() { for (let n = 0; n < 1_000; n++) posthog.capture('row', { n }) }",
      { host: record.host, limits: { ...DEFAULT_LIMITS, eventCpuMs: 20_000 } },
    );
    await instance.call({ kind: "runEveryMinute" });
    await instance.stop();
    expect(record.captured).toHaveLength(1_000);
  });

  it.each([
    ["what is left when it is done", "Promise.resolve().then(many)"],
    ["timers", "setTimeout(many, 5)"],
    ["answers", "storage.get('a').then(many)"],
  ])("[TS-26] is bounded beyond its end as well: %s", async (_what, begin) => {
    const record = recordHost();
    const depths: (number | undefined)[] = [];
    const host: InstanceHost = {
      ...record.host,
      capture: async (_capture, { event, hops }) => {
        depths.push(event === null ? hops : -1);
      },
    };
    const instance = await startSource(
      sandbox,
      `function processEvent(event, { storage }) {
        const many = () => { for (let n = 0; n < 50; n++) posthog.capture("x", { n }) };
        ${begin};
        return event;
      }`,
      { host, limits: { ...DEFAULT_LIMITS, eventCpuMs: 20_000 } },
    );
    await instance.transform(sampleEvents(3, { [HOPS_PROPERTY]: 2 }));
    await expect.poll(() => depths.length, { timeout: 30_000 }).toBe(30);
    // What is asked later comes after all that was asked before.
    await instance.transform(sampleEvents(1));
    await instance.stop();
    expect(depths.slice(0, 30)).toEqual(Array.from({ length: 30 }, () => 2));
    expect(record.lines.map(({ message }) => message).join()).toMatch(
      /one event may not capture more than 10 \(\d+ times\)/,
    );
  });

  it("[TS-26] is bounded in length, too, while it waits", async () => {
    const record = recordHost();
    const instance = await startSource(
      sandbox,
      `function processEvent(event) {
        const text = "x".repeat(1_500_000);
        for (let n = 0; n < 10; n++) posthog.capture("x", { text });
        return event;
      }`,
      { host: record.host, limits: { ...DEFAULT_LIMITS, eventCpuMs: 20_000 } },
    );
    const [outcome] = await instance.transform(sampleEvents(1));
    await instance.transform(sampleEvents(1));
    await instance.stop();
    expect(outcome?.kind).toBe("keep");
    expect(record.captured.length).toBe(10);
    expect(record.lines.map(({ message }) => message)).toEqual([
      "more than 8000000 characters of questions wait for their answers (5 times)",
      "more than 8000000 characters of questions wait for their answers (5 times)",
    ]);
  });
});
