import type { CapturedEvent } from "@hedgerow/core/events/event";
import type { JsonObject } from "@hedgerow/core/json";
import fc from "fast-check";
import { v7 } from "uuid";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { transformationsPipeline } from "./at-work.setup.ts";
import { DEFAULT_LIMITS } from "./sandbox.ts";

const START_MS = Date.parse("2026-03-01T10:00:00Z");
let made = 0;

function eventOf(projectId: number, event: string, properties: JsonObject = {}): CapturedEvent {
  const at = new Date(START_MS + made++);
  return {
    ...{ uuid: v7(), projectId, event, distinctId: "ann", properties },
    ...{ timestamp: at, clientTimestamp: null, receivedAt: at },
  };
}

describe("transformations at work", () => {
  let run: Awaited<ReturnType<typeof transformationsPipeline>>;
  beforeAll(async () => {
    run = await transformationsPipeline();
  });
  afterAll(() => run.close());

  async function pass(events: readonly CapturedEvent[]) {
    await run.append(events);
    await run.settle();
    return run.stored(events[0]?.projectId ?? 0);
  }

  it("[TP-20] gives each what the one before made of an event, and names them as PostHog does", async () => {
    const project = await run.newProject();
    const first = await run.enable(
      project,
      "Add",
      "export function processEvent(e) { e.properties.trail = ['a']; return e }",
    );
    const second = await run.enable(
      project,
      "Throw",
      "export function processEvent(e) { e.properties.half = 1; throw new Error('no') }",
    );
    const third = await run.enable(
      project,
      "Look",
      `export function processEvent(e) {
        e.properties.seen = [...e.properties.trail, ...e.properties.$plugins_succeeded,
          ...e.properties.$plugins_failed]
        return e
      }`,
    );
    const event = eventOf(project, "a", { $plugins_succeeded: ["forged (1)"] });
    const [stored] = await pass([event]);
    expect(stored?.properties).toMatchObject({
      trail: ["a"],
      seen: ["a", first.label, second.label],
      $plugins_succeeded: [first.label, third.label],
      $plugins_failed: [second.label],
    });
    expect(stored?.properties).not.toHaveProperty("half");
    expect(await run.events.receipt(project, event.uuid)).toMatchObject({
      outcome: "stored",
      changedBy: [`${first.label} v1`, `${third.label} v1`],
    });
  });

  it("[TP-21] drops what one answers nothing for, with a receipt that names it and its version", async () => {
    const project = await run.newProject();
    const dropper = await run.enable(
      project,
      "Drop",
      "export function processEvent(e) { return e.properties.n % 2 ? null : e }",
    );
    const after = await run.enable(
      project,
      "After",
      "export function processEvent(e) { return e }",
    );
    const events = Array.from({ length: 10 }, (_, n) => eventOf(project, "n", { n }));
    expect(await pass(events)).toHaveLength(5);
    const sums = { eventsIn: 10, eventsOut: 5, dropped: 5, failed: 0 };
    expect(await run.counts(project, dropper.id)).toEqual(sums);
    const rest = { eventsIn: 5, eventsOut: 5, dropped: 0, failed: 0 };
    expect(await run.counts(project, after.id)).toEqual(rest);
    expect(await run.events.receipt(project, events[1]?.uuid ?? "")).toMatchObject({
      outcome: "dropped",
      by: `${dropper.label} v1`,
    });
  });

  it("[TP-22] keeps an event as it was when one tries to change its team", async () => {
    const project = await run.newProject();
    const { id, label } = await run.enable(
      project,
      "Steal",
      "export function processEvent(e) { e.team_id = 1e6; e.properties.x = 1; return e }",
    );
    const [stored] = await pass([eventOf(project, "a")]);
    expect(stored?.properties).toEqual({ $plugins_succeeded: [], $plugins_failed: [label] });
    await run.work.flush();
    const { entries } = await run.records.logs({
      ...{ projectId: project, configId: id, limit: 9, offset: 0, search: "team_id" },
    });
    expect(entries).toMatchObject([{ type: "ERROR" }]);
  });

  it("[TP-23] lets person properties that one sets reach the person", async () => {
    const project = await run.newProject();
    await run.enable(
      project,
      "Set",
      "export function processEvent(e) { e.$set = { ...e.$set, plan: 'pro' }; return e }",
    );
    await pass([eventOf(project, "a", { $set: { name: "Ann" } })]);
    const person = await run.persons.personByDistinctId(project, "ann");
    expect(person?.properties).toMatchObject({ plan: "pro", name: "Ann" });
  });

  it("[TP-28] stores an event under the uuid that one gives it, once, and tells so under the old one", async () => {
    const project = await run.newProject();
    const uuid = v7();
    await run.enable(
      project,
      "Once",
      `export function processEvent(e) { e.uuid = e.event === "a" ? "${uuid}" : "none"; return e }`,
    );
    const [first, again, other] = ["a", "a", "b"].map((name) => eventOf(project, name));
    const stored = await pass([first, again, other].flatMap((one) => one ?? []));
    expect(stored.map((event) => event.uuid)).toEqual([uuid, other?.uuid]);
    expect(await run.events.receipt(project, first?.uuid ?? "")).toMatchObject({
      outcome: "dropped",
      reason: expect.stringContaining(uuid),
    });
    expect(await run.events.receipt(project, uuid)).toMatchObject({ outcome: "stored" });
  });

  it("[TP-7] believes nothing that senders say of transformations where events pass any, and leaves it where they pass none", async () => {
    const claims = { $plugins_succeeded: ["mine"], $plugins_failed: ["theirs"] };
    const bare = await run.newProject();
    await run.append([{ ...eventOf(bare, "a"), properties: claims }]);
    await run.settle();
    expect((await run.stored(bare))[0]?.properties).toEqual(claims);
    const project = await run.newProject();
    const { label } = await run.enable(project, "Any", "export const processEvent = (e) => e");
    const [stored] = await pass([{ ...eventOf(project, "a"), properties: claims }]);
    expect(stored?.properties).toEqual({ $plugins_succeeded: [label], $plugins_failed: [] });
  });

  it("[TP-25] tells in the log of what is captured without a name, though nobody waits for it", async () => {
    const project = await run.newProject();
    const { id } = await run.enable(
      project,
      "Nameless",
      `export function processEvent(e) {
        posthog.capture(''); posthog.capture(5); posthog.capture(' '); posthog.capture();
        return e;
      }`,
    );
    expect(await pass([eventOf(project, "a")])).toHaveLength(1);
    const lines = (await run.lines(project, id)).filter((line) => line.includes("refused"));
    expect(lines).toEqual(Array(4).fill("posthog.capture was refused: an event needs a name"));
  });

  it("[TP-28] names who changed the uuid under the old one, not who changed anything else", async () => {
    const project = await run.newProject();
    const [first, second] = [v7(), v7()];
    const mark = (name: string) =>
      run.enable(
        project,
        name,
        `export function processEvent(e) { e.properties["${name}"] = 1; return e }`,
      );
    const rename = (name: string, uuid: string) =>
      run.enable(project, name, `export function processEvent(e) { e.uuid = "${uuid}"; return e }`);
    await mark("Before");
    const a = await rename("A", first);
    await mark("Between");
    const b = await rename("B", second);
    await mark("After");
    const event = eventOf(project, "a");
    await pass([event]);
    expect(await run.events.receipt(project, event.uuid)).toMatchObject({
      outcome: "dropped",
      by: `${a.label} v1, ${b.label} v1`,
      reason: expect.stringContaining(second),
    });
    expect(await run.events.receipt(project, second)).toMatchObject({
      changedBy: expect.arrayContaining([expect.stringContaining("Between")]),
    });
  });

  it("[TP-24] applies an edited source from a known event on, and receipts tell the version", async () => {
    const project = await run.newProject();
    const mark = (text: string) =>
      `export function processEvent(e) { e.properties.by = '${text}'; return e }`;
    const { transformationId, label } = await run.enable(project, "Mark", mark("one"));
    const [before, after] = [eventOf(project, "a"), eventOf(project, "b")];
    await pass([before]);
    await run.edit(project, transformationId, mark("two"));
    const stored = await pass([after]);
    expect(stored.map(({ properties }) => properties.by)).toEqual(["one", "two"]);
    const receipts = [before, after].map(({ uuid }) => run.events.receipt(project, uuid));
    expect(await Promise.all(receipts)).toMatchObject([
      { changedBy: [`${label} v1`] },
      { changedBy: [`${label} v2`] },
    ]);
  });

  it("[TP-24] lets events under way pass the version they began with, when the source is edited", async () => {
    const project = await run.newProject();
    const mark = (text: string) => `export function processEvent(e) {
      for (const start = Date.now(); Date.now() - start < 5; );
      e.properties.by = '${text}'
      return e
    }`;
    const { transformationId } = await run.enable(project, "Mark", mark("one"));
    await pass([eventOf(project, "first")]);
    await run.append(Array.from({ length: 300 }, (_, n) => eventOf(project, "n", { n })));
    await new Promise((resolve) => setTimeout(resolve, 300));
    await run.edit(project, transformationId, mark("two"));
    const stored = await pass([eventOf(project, "last")]);
    const versions = stored.map(({ properties }) => properties.by);
    expect(versions).toHaveLength(302);
    const ones = versions.lastIndexOf("one") + 1;
    expect(versions).toEqual(versions.map((_, index) => (index < ones ? "one" : "two")));
    expect(versions.at(-1)).toBe("two");
  });

  it("[TP-24] gives each version its events in their order, whenever its chain changes", async () => {
    const number = (key: string) => `export function processEvent(e, { global }) {
      global.n = (global.n ?? 0) + 1
      e.properties.${key} = global.n
      for (const start = Date.now(); Date.now() - start < 1; );
      return e
    }`;
    const step = fc.record({
      count: fc.integer({ min: 1, max: 60 }),
      pauseMs: fc.integer({ min: 0, max: 40 }),
      edited: fc.constantFrom(undefined, 0, 1, 2),
    });
    await fc.assert(
      fc.asyncProperty(fc.array(step, { minLength: 4, maxLength: 12 }), async (steps) => {
        const project = await run.newProject();
        const keys = ["a", "b", "c"];
        const ids: number[] = [];
        for (const key of keys) {
          ids.push((await run.enable(project, key, number(key))).transformationId);
        }
        let count = 0;
        for (const { count: more, pauseMs, edited } of steps) {
          const events = Array.from({ length: more }, () => eventOf(project, "n", { n: count++ }));
          await run.append(events);
          await new Promise((resolve) => setTimeout(resolve, pauseMs));
          if (edited === undefined) continue;
          await run.edit(project, ids[edited] ?? 0, `${number(keys[edited] ?? "")} // ${count}`);
        }
        await run.settle();
        const stored = await run.stored(project);
        expect(stored.map(({ properties }) => properties.n)).toEqual(
          Array.from({ length: count }, (_, n) => n),
        );
        for (const key of keys) {
          const numbers = stored.map(({ properties }) => Number(properties[key]));
          // Each version begins anew, and then counts without a gap.
          const isNext = numbers.map((n, index) => n === 1 || n === (numbers[index - 1] ?? 0) + 1);
          expect(isNext, `${key}: ${numbers}`).not.toContain(false);
        }
      }),
      { numRuns: 6 },
    );
  });

  it("[TP-24] bars a run that begins when one before it has ended and left events", async () => {
    const project = await run.newProject();
    await run.enable(
      project,
      "Number",
      `export function processEvent(e, { global }) {
        global.n = (global.n ?? 0) + 1
        e.properties.number = global.n
        return e
      }`,
    );
    const entries = Array.from({ length: 6 }, (_, index) => ({
      position: index + 1,
      event: eventOf(project, "n"),
    }));
    /** What a run numbers, and from where on it leaves events. */
    const give = async (from: number, to: number, isOver = AbortSignal.any([])) => {
      const left: number[] = [];
      const leaving = { isOver, from: (position: number) => left.push(position) };
      const occasion = { whenDurable() {}, leaving };
      const outcomes = await run.work.step.run(entries.slice(from, to), occasion);
      const numbers = outcomes.map((one) =>
        one.kind === "keep" ? (one.added?.properties.number ?? one.event.properties.number) : 0,
      );
      return { left, numbers };
    };
    expect(await give(0, 3, AbortSignal.abort())).toMatchObject({ left: [1] });
    expect(await give(3, 6)).toMatchObject({ left: [4] });
    expect(await give(0, 3)).toEqual({ left: [], numbers: [1, 2, 3] });
    expect(await give(3, 6)).toEqual({ left: [], numbers: [4, 5, 6] });
    // What was left never comes again: nobody waits for it for ever.
    expect(await give(0, 1, AbortSignal.abort())).toMatchObject({ left: [1] });
    expect(await give(1, 3)).toMatchObject({ left: [2] });
    expect(await give(1, 3)).toEqual({ left: [], numbers: [7, 8] });
  });

  it("[TP-25] captures beside events, at most three deep, with a warning for more", async () => {
    const project = await run.newProject();
    await run.enable(
      project,
      "Echo",
      "export function processEvent(e) { posthog.capture('echo', { of: e.event }); return e }",
    );
    await pass([eventOf(project, "a")]);
    for (let depth = 0; depth < 4; depth++) await run.settle();
    const stored = await run.stored(project);
    expect(stored.map(({ properties }) => properties.$transformation_hops ?? 0).toSorted()).toEqual(
      [0, 1, 2, 3],
    );
    expect(run.warnings.map(({ type }) => type)).toContain("transformation_capture_too_deep");
  });

  it("[TP-25] captures in turns that events wait for, and takes none for deeper since others of its batch are", async () => {
    const project = await run.newProject();
    await run.enable(
      project,
      "Turns",
      `let turn = Promise.resolve();
      export function processEvent(event, { storage }) {
        if (event.event === "echo") return event;
        const mine = turn.then(async () => {
          await storage.get("anything");
          posthog.capture("echo", {});
          return event;
        });
        turn = mine;
        return mine;
      }`,
    );
    const echo = eventOf(project, "echo", { $transformation_hops: 3 });
    const waiting = Array.from({ length: 15 }, (_, n) => ({
      ...eventOf(project, "a"),
      distinctId: `person ${n}`,
    }));
    await pass([echo, ...waiting]);
    await run.settle();
    const stored = await run.stored(project);
    const depths = stored.map(({ properties }) => properties.$transformation_hops);
    expect(depths.filter((depth) => depth === 1)).toHaveLength(15);
  });

  it("[TP-26] takes out of work what exceeds its limits again and again, and loses no event", async () => {
    const [project, other] = [await run.newProject(), await run.newProject()];
    const { id } = await run.enable(
      project,
      "Loop",
      "export function processEvent(e) { while (true) {} }",
    );
    const events = Array.from({ length: 40 }, (_, n) => eventOf(project, "n", { n }));
    const others = Array.from({ length: 40 }, (_, n) => eventOf(other, "n", { n }));
    expect(await pass([...events, ...others])).toHaveLength(40);
    expect(await run.stored(other)).toHaveLength(40);
    const { config } = (await run.configStore.config(project, id)) ?? {};
    expect(config).toMatchObject({ enabled: false });
    expect(config?.problem?.message).toContain("exceeded its limits");
    expect(run.warnings.map(({ type }) => type)).toContain("transformation_disabled");
    const { eventsIn, eventsOut, failed } = await run.counts(project, id);
    expect(eventsIn).toBe(eventsOut);
    expect(failed).toBe(eventsIn);
    expect(failed).toBeGreaterThanOrEqual(10);
  });

  it("[TS-22] takes out of work what makes large events, and not what is behind it", async () => {
    const project = await run.newProject();
    const { id: grows } = await run.enable(
      project,
      "Grow",
      `export function processEvent(e) {
        e.properties.rows = Array.from({ length: 75_000 }, (_, id) => ({ id, text: "some text of a row" }));
        return e;
      }`,
    );
    const { id: behind } = await run.enable(
      project,
      "Behind",
      `export function processEvent(e) {
        const text = JSON.stringify(e.properties).replace(/\\d{13,}/g, "#");
        return { ...e, properties: { ...JSON.parse(text), behind: true } };
      }`,
    );
    const stored = await pass(Array.from({ length: 15 }, (_, n) => eventOf(project, "n", { n })));
    expect(stored.map(({ properties }) => properties.behind)).toEqual(Array(15).fill(true));
    const configOf = async (id: number) => (await run.configStore.config(project, id))?.config;
    expect(await configOf(grows)).toMatchObject({ enabled: false });
    // A slow machine finds first that it holds up others.
    const reason = /larger than 250000 characters|holds up the transformations/;
    expect((await configOf(grows))?.problem?.message).toMatch(reason);
    expect(await configOf(behind)).toMatchObject({ enabled: true, problem: null });
    expect(await run.counts(project, behind)).toMatchObject({ eventsIn: 15, failed: 0 });
  });

  it("[TP-56] takes out of work what computes for so long that it holds up the transformations of other projects", async () => {
    // What it computes exceeds no limit, also where all computing takes many times as long.
    const limits = { ...DEFAULT_LIMITS, eventCpuMs: 5_000 };
    // Nothing is forgotten for the time that others have the processor.
    const slow = await transformationsPipeline({ limits, clock: () => new Date(START_MS) });
    const [project, other] = [await slow.newProject(), await slow.newProject()];
    const { id } = await slow.enable(
      project,
      "Slow",
      `export function processEvent(e) {
        // Some fifty milliseconds of computing, whoever else has the processor meanwhile.
        for (let n = 0; n < 800_000; n++);
        return e
      }`,
    );
    await slow.enable(other, "Quick", "export function processEvent(e) { return e }");
    const events = Array.from({ length: 300 }, (_, n) => eventOf(project, "n", { n }));
    try {
      await slow.append([...events, eventOf(other, "n")]);
      await slow.settle();
      expect(await slow.stored(project)).toHaveLength(300);
      const { config } = (await slow.configStore.config(project, id)) ?? {};
      expect(config).toMatchObject({ enabled: false });
      expect(config?.problem?.message).toContain("holds up the transformations of other projects");
      const { eventsIn } = await slow.counts(project, id);
      // Of one that takes three times as long since others compute, a third is enough.
      expect(eventsIn).toBeGreaterThan(5);
      expect(eventsIn).toBeLessThan(300);
    } finally {
      await slow.close();
    }
  });

  it("[TP-55] waits for a transformation however long its events take together, and lets none go on without it", async () => {
    const project = await run.newProject();
    await run.enable(
      project,
      "Wait",
      `export async function processEvent(e) {
        await new Promise((resolve) => setTimeout(resolve, 2500))
        e.properties.waited = true
        return e
      }`,
    );
    const events = Array.from({ length: 4 }, (_, n) => eventOf(project, "n", { n }));
    const stored = await pass(events);
    expect(stored.map(({ properties }) => [properties.n, properties.waited])).toEqual(
      [...events.keys()].map((n) => [n, true]),
    );
  });

  it("[TP-27] adds up at every step of any chain", async () => {
    const kinds = {
      keep: "return e",
      change: "e.properties.c = 1; return e",
      "drop some": "return e.properties.n % 3 ? e : null",
      "throw some": "if (e.properties.n % 4 === 0) throw 1; return e",
      "steal some": "if (e.properties.n % 5 === 0) e.team_id = 0; return e",
    };
    const chain = fc.array(fc.constantFrom(...Object.keys(kinds)), { minLength: 1, maxLength: 4 });
    await fc.assert(
      fc.asyncProperty(chain, fc.integer({ min: 1, max: 60 }), async (names, length) => {
        const project = await run.newProject();
        const ids: number[] = [];
        for (const name of names) {
          const body = kinds[name as keyof typeof kinds];
          const source = `export function processEvent(e) { ${body} }`;
          ids.push((await run.enable(project, name, source)).id);
        }
        const events = Array.from({ length }, (_, n) => eventOf(project, "n", { n }));
        const stored = await pass(events);
        let entering = length;
        for (const id of ids) {
          const { eventsIn, eventsOut, dropped, failed } = await run.counts(project, id);
          expect(eventsIn).toBe(entering);
          expect(eventsIn).toBe(eventsOut + dropped);
          expect(failed).toBeLessThanOrEqual(eventsOut);
          entering = eventsOut;
        }
        expect(stored).toHaveLength(entering);
        const passed = stored.map(({ properties }) => Number(properties.n));
        expect(passed).toEqual(passed.toSorted((one, other) => one - other));
      }),
      { numRuns: 8 },
    );
  });
});
