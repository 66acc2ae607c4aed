import { createServer, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import { setTimeout as delay } from "node:timers/promises";
import type { CapturedEvent } from "@hedgerow/core/events/event";
import type { JsonObject } from "@hedgerow/core/json";
import { v7 } from "uuid";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { StepOutcome } from "../events/steps/step.ts";
import { transformationsPipeline } from "./at-work.setup.ts";
import { DEFAULT_LIMITS } from "./sandbox.ts";
import type { ConfigChange } from "./transformation-configs.ts";

function eventOf(projectId: number, event: string): CapturedEvent {
  const at = new Date();
  return {
    ...{ uuid: v7(), projectId, event, distinctId: "ann", properties: {} },
    ...{ timestamp: at, clientTimestamp: null, receivedAt: at },
  };
}

type Kept = Extract<StepOutcome, { kind: "keep" }>;

/** All properties of an event that a step kept, those behind its own included. */
function allProperties({ event, added }: Kept): JsonObject {
  return { ...event.properties, ...added?.properties };
}

async function eventually<Value>(
  look: () => Promise<Value> | Value,
  isRight: (value: Value) => boolean,
) {
  const endMs = Date.now() + 30_000;
  for (;;) {
    const value = await look();
    if (isRight(value) || Date.now() > endMs) return value;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

const NEVER = new Date("2999-01-01");

describe("beside the stream of events", () => {
  let run: Awaited<ReturnType<typeof transformationsPipeline>>;
  // The sandbox has a clock of its own, which is the real one.
  const clock = { aheadMs: 0, fixed: undefined as Date | undefined };
  const now = () => clock.fixed ?? new Date(Date.now() + clock.aheadMs);
  const received: { path: string; body: string }[] = [];
  const headers: IncomingMessage["headers"][] = [];
  const statuses: number[] = [];
  const server = createServer(async (request: IncomingMessage, response) => {
    let body = "";
    for await (const part of request) body += part;
    received.push({ path: request.url ?? "", body });
    headers.push(request.headers);
    response.writeHead(statuses.shift() ?? 200).end();
  });
  let host = "";
  beforeAll(async () => {
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    host = `127.0.0.1:${(server.address() as AddressInfo).port}`;
    run = await transformationsPipeline({ clock: now, isAllowed: () => true });
  });
  afterAll(async () => {
    await run.close();
    server.close();
  });

  async function pass(event: CapturedEvent) {
    await run.append([event]);
    await run.settle();
  }

  it("[TP-66] refuses jobs that cannot be kept, and lets the events pass that asked for them", async () => {
    const own = await transformationsPipeline();
    const project = await own.newProject();
    await own.enable(
      project,
      "Ask",
      `export const jobs = { later() {} }
      const deep = (levels) => { let one = []; for (let n = 0; n < levels; n++) one = [one]; return one }
      export async function processEvent(e, { jobs }) {
        const payload = e.event === "deep" ? deep(3000) : "x".repeat(e.event === "large" ? 2e6 : 3e5)
        const asked = []
        for (let n = 0; n < (e.event === "many" ? 20 : 1); n++) {
          asked.push(jobs.later(payload).runIn(1, "days"))
        }
        const results = await Promise.allSettled(asked)
        e.properties.refused = results.filter(({ status }) => status === "rejected").length
        return e
      }`,
    );
    for (const name of ["deep", "large", "many", "fine"]) {
      await own.append([eventOf(project, name)]);
      await own.settle();
    }
    const stored = await own.stored(project);
    await own.close();
    expect(stored.map(({ event, properties }) => [event, properties.refused])).toEqual([
      ["deep", 1],
      ["large", 1],
      // Of twenty jobs of 300,000 characters, no more than four million are held.
      ["many", 7],
      ["fine", 0],
    ]);
  });

  it("[TP-50] runs jobs when they are due, again where they fail, and keeps what they store", async () => {
    const project = await run.newProject();
    const { id } = await run.enable(
      project,
      "Jobs",
      `export const jobs = { async remind({ n }, { storage }) {
         const times = (await storage.get("times", 0)) + 1
         await storage.set("times", times)
         if (times === 1) throw new Error("not yet")
         posthog.capture("reminded", { n, times })
       } }
       export async function processEvent(event, { jobs }) {
         if (event.event === "ask") await jobs.remind({ n: 7 }).runIn(1, "minutes")
         return event
       }`,
    );
    await pass(eventOf(project, "ask"));
    await run.work.tick();
    expect(await run.jobs.due(NEVER, 10)).toMatchObject([{ name: "remind" }]);
    clock.aheadMs += 61_000;
    await run.work.tick();
    expect(await run.jobs.due(NEVER, 10)).toMatchObject([{ attempts: 1 }]);
    clock.aheadMs += 10_000;
    await run.work.tick();
    const reminded = await eventually(
      async () => (await run.stored(project)).filter(({ event }) => event === "reminded"),
      ({ length }) => length > 0,
    );
    expect(reminded).toMatchObject([{ properties: { n: 7, times: 2, $transformation_hops: 1 } }]);
    expect(await run.jobs.due(NEVER, 10)).toEqual([]);
    await run.work.flush();
    const page = { projectId: project, configId: id, limit: 10, offset: 0 };
    expect((await run.records.logs({ ...page, search: "not yet" })).count).toBe(1);
  });

  it.each([
    ["while it runs", `posthog.capture("ping")`],
    ["once it has ended", `setTimeout(() => posthog.capture("ping"), 20)`],
    ["by another job", `return jobs.more().runNow()`],
  ])(
    "[TP-67] counts how deep a job captures from the event that asked for it: %s",
    async (_when, work) => {
      const project = await run.newProject();
      const { id } = await run.enable(
        project,
        "Chain",
        `export const jobs = {
           again(_, { jobs }) { ${work} },
           more() { posthog.capture("ping") },
         }
         export async function processEvent(event, { jobs }) {
           await jobs.again().runNow()
           return event
         }`,
      );
      await pass(eventOf(project, "ping"));
      const depths = async () =>
        (await run.stored(project)).map(({ properties }) => properties.$transformation_hops ?? 0);
      for (let depth = 0; depth < 6; depth++) {
        for (let turn = 0; turn < 2; turn++) {
          await run.work.flush();
          await run.work.tick();
        }
        await eventually(depths, ({ length }) => length > Math.min(depth + 1, 3));
        // One that is captured late arrives late.
        await delay(100);
        await run.settle();
      }
      expect(await depths()).toEqual([0, 1, 2, 3]);
      expect(run.warnings.map(({ type }) => type)).toContain("transformation_capture_too_deep");
      await run.change(project, id, { enabled: false });
    },
  );

  it("[TP-50] keeps jobs of a config that is not at work, and begins them once it is again", async () => {
    const project = await run.newProject();
    const { id } = await run.enable(
      project,
      "Asleep",
      `export const jobs = { later() { posthog.capture("begun") } }
       export async function processEvent(event, { jobs }) {
         if (event.event === "a") await jobs.later().runIn(2, "hours")
         return event
       }`,
    );
    await pass(eventOf(project, "a"));
    await run.configs.disableFailing(project, id, "for a while");
    await run.work.changed(project);
    for (let time = 0; time < 6; time++) {
      clock.aheadMs += 3_601_000;
      await run.work.tick();
    }
    expect(await run.jobs.due(NEVER, 10)).toEqual([]);
    expect(await run.stored(project)).toHaveLength(1);
    await run.change(project, id, { enabled: true });
    expect((await run.jobs.due(NEVER, 10)).every(({ attempts }) => attempts === 0)).toBe(true);
    await run.work.tick();
    const stored = await eventually(
      async () => (await run.stored(project)).map(({ event }) => event),
      ({ length }) => length > 1,
    );
    expect(stored).toContain("begun");
    expect(await run.jobs.due(NEVER, 10)).toEqual([]);
  });

  it("[TP-50] runs a job once that was found twice before it ran", async () => {
    let holds = true;
    const held: { readonly found: number; open(): void }[] = [];
    const own = await transformationsPipeline({
      jobsOf: (jobs) => ({
        ...jobs,
        due: async (...given) => {
          const found = await jobs.due(...given);
          if (holds) {
            await new Promise<void>((open) => held.push({ found: found.length, open }));
          }
          return found;
        },
      }),
    });
    const project = await own.newProject();
    await own.enable(
      project,
      "Once",
      `export const jobs = { work: () => posthog.capture("done") };
       export async function processEvent(event, { jobs }) {
         if (event.event === "a") await jobs.work().runNow();
         return event;
       }`,
    );
    await own.append([eventOf(project, "a")]);
    await own.settle();
    const waiting = async () => (await own.jobs.due(NEVER, 10)).length;
    await eventually(waiting, (count) => count === 1);
    const ticks = [own.work.tick(), own.work.tick()];
    for (let found = 0; found === 0; ) {
      await eventually(
        () => held.length,
        (count) => count > 0,
      );
      const next = held.shift();
      found = next?.found ?? 0;
      next?.open();
    }
    await eventually(waiting, (count) => count === 0);
    holds = false;
    for (const { open } of held) open();
    await Promise.all(ticks);
    await own.settle();
    expect((await own.stored(project)).map(({ event }) => event)).toEqual(["a", "done"]);
    await own.close();
  });

  it("[TP-50] lets no config wait for the jobs of another", async () => {
    const [busy, quick] = [await run.newProject(), await run.newProject()];
    const enqueue = (times: number) => `
      export async function processEvent(event, { jobs }) {
        for (let n = 0; n < ${times}; n++) await jobs.work({ n }).runNow();
        return event;
      }`;
    const slow = await run.enable(
      busy,
      "Busy",
      `export const jobs = { work: () => new Promise((done) => setTimeout(done, 3_000)) };${enqueue(15)}`,
    );
    await run.enable(
      quick,
      "Quick",
      `export const jobs = { work: () => posthog.capture("done") };${enqueue(1)}`,
    );
    await pass(eventOf(busy, "a"));
    const busyTick = run.work.tick();
    await pass(eventOf(quick, "a"));
    const quickTick = run.work.tick();
    await eventually(
      async () => (await run.stored(quick)).map(({ event }) => event),
      (events) => events.includes("done"),
    );
    const left = (await run.jobs.due(NEVER, 10)).filter(({ configId }) => configId === slow.id);
    expect(left.length).toBeGreaterThan(1);
    await run.change(busy, slow.id, { enabled: false });
    await Promise.all([busyTick, quickTick]);
  });

  it("[TP-14] tells of jobs that are refused since too many wait", async () => {
    const few = await transformationsPipeline({ maxJobs: 2 });
    const project = await few.newProject();
    const { id } = await few.enable(
      project,
      "Storm",
      `export const jobs = { later() {} };
      export function processEvent(event, { jobs }) {
        // Later than the clock of these tests is ahead of the sandbox's own.
        for (let n = 0; n < 20; n++) jobs.later({ n }).runIn(50, "week");
        return event;
      }`,
    );
    await few.append([eventOf(project, "a")]);
    await few.settle();
    await eventually(
      () => few.lines(project, id),
      (lines) => lines.some((line) => line.includes("refused")),
    );
    expect(await few.lines(project, id)).toContain(
      "A job was refused: too many of this transformation wait.",
    );
    expect(await few.jobs.due(NEVER, 10)).toHaveLength(2);
    await few.close();
  });

  it("[TM-27] tells at once what is wrong with settings, and goes on when they are right", async () => {
    const project = await run.newProject();
    const { id } = await run.enable(
      project,
      "Picky",
      `export function setupPlugin({ config, global }) {
         if (config.key !== "right") throw new Error("401: the key " + config.key + " is wrong")
         global.key = config.key
       }
       export function processEvent(event, { global }) { event.properties.key = global.key; return event }`,
      { config: { key: "none" } },
    );
    const of = { id: project } as Parameters<typeof run.configs.list>[0];
    const change = (fields: ConfigChange) => run.change(project, id, fields);
    const wrong = await change({ config: { key: "wrong" } });
    expect(wrong.config).toMatchObject({
      enabled: true,
      problem: { message: "It does not start: Error: 401: the key wrong is wrong" },
    });
    expect((await run.configs.config(of, id)).config.problem).toEqual(wrong.config.problem);
    const listed = await run.configs.list(of, { transformationId: null, limit: 9, offset: 0 });
    expect(listed.configs[0]?.config.problem).toEqual(wrong.config.problem);
    expect((await change({ enabled: false })).config.problem).toBeNull();
    expect((await change({ enabled: true })).config.problem?.message).toMatch(/key wrong/);
    expect((await change({ config: { key: "right" } })).config).toMatchObject({
      ...{ enabled: true, problem: null },
    });
    await pass(eventOf(project, "a"));
    expect(await run.stored(project)).toMatchObject([{ properties: { key: "right" } }]);
    expect((await run.lines(project, id)).filter((line) => /key wrong/.test(line))).toHaveLength(2);
  });

  it.each([
    ["a promise", "Promise.resolve().then(echo)"],
    ["a timer", "setTimeout(echo, 10)"],
    ["an answer", "storage.get('a').then(echo)"],
  ])("[TP-25] counts how deep captures are that are not waited for: %s", async (_what, begin) => {
    const project = await run.newProject();
    await run.enable(
      project,
      "Echo",
      `export function processEvent(event, { storage }) {
        const echo = () => posthog.capture("echo");
        ${begin};
        return event;
      }`,
    );
    await pass(eventOf(project, "a"));
    const refusals = () => run.warnings.filter(({ type }) => type.includes("too_deep")).length;
    const before = refusals();
    await eventually(
      () => run.stored(project),
      ({ length }) => length >= 4,
    );
    await eventually(refusals, (count) => count > before);
    await run.settle();
    expect((await run.stored(project)).map(({ event }) => event)).toEqual([
      "a",
      ...["echo", "echo", "echo"],
    ]);
  });

  it("[TP-51] runs tasks of a schedule once in each period", async () => {
    const project = await run.newProject();
    const startMs = Math.ceil(now().getTime() / 60_000) * 60_000;
    clock.fixed = new Date(startMs);
    await run.enable(
      project,
      "Clock",
      "export function runEveryMinute() { posthog.capture('minute') }",
    );
    const minutes = async (expected: number) => {
      await run.work.tick();
      await eventually(
        () => run.stored(project),
        ({ length }) => length >= expected,
      );
      return (await run.stored(project)).length;
    };
    await minutes(1);
    expect(await minutes(1)).toBe(1);
    clock.fixed = new Date(startMs + 59_999);
    expect(await minutes(1)).toBe(1);
    clock.fixed = new Date(startMs + 60_000);
    expect(await minutes(2)).toBe(2);
    clock.fixed = undefined;
  });

  it("[TP-52] gives stored events to onEvent and sends composed webhooks, again where that fails, to granted hosts only", async () => {
    const project = await run.newProject();
    const source = `
      export function composeWebhook(event) {
        return { url: "http://${host}/hook", body: JSON.stringify([event.event, event.person.properties.a]) }
      }
      export function onEvent(event) { console.log("saw " + event.event) }`;
    const granted = await run.enable(project, "Hook", source, { allowedHosts: [host] });
    const other = await run.newProject();
    const refused = await run.enable(other, "Hook", source);
    statuses.push(503);
    const properties = { $set: { a: 1 } };
    await run.append([{ ...eventOf(project, "a"), properties }, eventOf(other, "b")]);
    await run.settle();
    await eventually(
      () => received.length,
      (count) => count > 0,
    );
    await eventually(
      () => run.jobs.due(now(), 10),
      (due) => due.length > 0,
    );
    await run.work.tick();
    await eventually(
      () => received.length,
      (count) => count > 1,
    );
    expect(received).toEqual([
      { path: "/hook", body: '["a",1]' },
      { path: "/hook", body: '["a",1]' },
    ]);
    const told = (projectId: number, configId: number, text: string) =>
      eventually(
        async () => (await run.lines(projectId, configId)).join("\n"),
        (lines) => lines.includes(text),
      );
    expect(await told(project, granted.id, "saw a")).toContain("saw a");
    expect(await told(other, refused.id, "webhook")).toContain("is not granted");
  });

  it("[TP-52] [TM-83] sends the headers of a webhook, numbers as texts, but for those of its way", async () => {
    const project = await run.newProject();
    headers.length = 0;
    const source = `export const composeWebhook = () => ({
      url: "http://${host}/headers",
      headers: { "X-Number": 5, "x-is": true, "x-text": "t", "x-none": null, Host: "other", "Content-Length": "999" },
      body: "b",
    })`;
    await run.enable(project, "Headers", source, { allowedHosts: [host] });
    await run.append([eventOf(project, "a")]);
    await run.settle();
    const [sent] = await eventually(
      () => headers,
      ({ length }) => length > 0,
    );
    expect(sent).toMatchObject({
      ...{ "x-number": "5", "x-is": "true", "x-text": "t" },
      ...{ host, "content-length": "1" },
    });
    expect(sent).not.toHaveProperty("x-none");
    received.length = 0;
  });

  it("[TP-52] tells the person as it is with what the event itself sets, beside the stream only", async () => {
    const project = await run.newProject();
    const person =
      "event.event + ' ' + typeof event.timestamp + ' ' + JSON.stringify(event.person && event.person.properties)";
    const { id } = await run.enable(
      project,
      "Person",
      `export function processEvent(event) { console.log('pass ' + ${person}); return event }
       export function onEvent(event) { console.log('seen ' + ${person}) }
       export function exportEvents([event]) { console.log('exported ' + ${person}) }
       export function composeWebhook(event) { console.log('composed ' + ${person}) }`,
    );
    const first = { ...eventOf(project, "first"), distinctId: "before" };
    await run.append([{ ...first, properties: { $set: { plan: "free", old: 1 } } }]);
    const identify = { ...eventOf(project, "$identify"), distinctId: "after" };
    const properties = {
      $anon_distinct_id: "before",
      $set: { plan: "paid" },
      $set_once: { since: 2026, old: 2 },
      $unset: ["nothing"],
    };
    await run.append([{ ...identify, properties }]);
    await run.settle();
    const lines = await eventually(
      () => run.lines(project, id),
      (all) => all.some((line) => line.startsWith("composed $identify")),
    );
    const told = '{"plan":"paid","old":1,"since":2026}';
    expect(lines.filter((line) => line.includes("$identify")).map(sorted)).toEqual(
      [
        "pass $identify string undefined",
        `exported $identify string ${told}`,
        `seen $identify string ${told}`,
        // As PostHog gives it to this one alone.
        `composed $identify object ${told}`,
      ].map(sorted),
    );
  });

  it("[TP-52] gives stored events to exportEvents", async () => {
    const project = await run.newProject();
    const { id } = await run.enable(
      project,
      "Export",
      "export function exportEvents(events) { console.log('exported ' + events.map((one) => one.event)) }",
    );
    await run.append([eventOf(project, "a"), eventOf(project, "b")]);
    await run.settle();
    const lines = await eventually(
      () => run.lines(project, id),
      (all) => all.some((line) => line.includes("exported b")),
    );
    expect(lines.slice(1)).toEqual(["exported a", "exported b"]);
  });

  it("[TP-52] gives stored events to exportEvents beside onEvent, but for those that its settings leave out", async () => {
    const project = await run.newProject();
    const { id } = await run.enable(
      project,
      "Both",
      `export function exportEvents([{ event }]) { console.log('exported ' + event) }
       export function onEvent({ event }) { console.log('saw ' + event) }`,
      { config: { exportEventsToIgnore: "b, c" } },
    );
    await run.append(["a", "b", "c"].map((name) => eventOf(project, name)));
    await run.settle();
    const lines = await eventually(
      () => run.lines(project, id),
      (all) => all.includes("saw c"),
    );
    expect(lines.slice(1)).toEqual(["exported a", "saw a", "saw b", "saw c"]);
  });

  it("[TP-52] gives an event once more, after pauses, to what asks for it by a RetryError, and to that alone", async () => {
    const project = await run.newProject();
    const { id } = await run.enable(
      project,
      "Again",
      `import { RetryError } from '@posthog/plugin-scaffold'
       const times = { onEvent: 0, exportEvents: 0 }
       const take = (kind, event) => {
         times[kind]++
         console.log(kind + ' ' + times[kind] + ' ' + event.event + ' ' + event.properties.n + ' ' + event.person.properties.a)
         if (event.event === 'down' && times[kind] < 3) throw new RetryError('it is down')
         if (event.event === 'wrong') throw new Error('it is wrong')
       }
       export const exportEvents = ([event]) => { if (event.event === 'down') take('exportEvents', event) }
       export const onEvent = async (event) => take('onEvent', event)`,
    );
    const properties = { n: 12_345, $set: { a: 1 } };
    await pass({ ...eventOf(project, "down"), properties });
    const waiting = async () =>
      (await run.jobs.due(NEVER, 500)).filter(({ projectId }) => projectId === project).length;
    await eventually(waiting, (count) => count === 2);
    await run.work.tick();
    const lines = () => run.lines(project, id);
    expect((await lines()).filter((line) => line.includes(" 2 down"))).toEqual([]);
    for (const [count, pauseMs] of [
      [2, 5_001],
      [3, 5_001],
    ] as const) {
      clock.aheadMs += pauseMs;
      await run.work.tick();
      await eventually(lines, (all) => all.includes(`onEvent ${count} down 12345 1`));
    }
    expect(await waiting()).toBe(0);
    await pass(eventOf(project, "wrong"));
    const all = await eventually(lines, (some) => some.includes("onEvent: Error: it is wrong"));
    expect(await waiting()).toBe(0);
    expect(all.slice(1).toSorted()).toEqual(
      [
        ...[1, 2, 3].flatMap((time) => [
          `exportEvents ${time} down 12345 1`,
          `onEvent ${time} down 12345 1`,
        ]),
        "exportEvents: RetryError: it is down; tried again.",
        "onEvent: RetryError: it is down; tried again.",
        "onEvent 4 wrong undefined 1",
        "onEvent: Error: it is wrong",
      ].toSorted(),
    );
  });

  it("[TP-52] does not take out of work what asks for its events once more", async () => {
    const project = await run.newProject();
    const { id } = await run.enable(
      project,
      "Down",
      "export function onEvent() { throw new RetryError('down') }",
    );
    await run.append(Array.from({ length: 130 }, (_, n) => eventOf(project, `event ${n}`)));
    await run.settle();
    await eventually(
      () => run.jobs.due(NEVER, 500),
      (due) => due.filter(({ projectId }) => projectId === project).length >= 130,
    );
    expect((await run.configStore.config(project, id))?.config.enabled).toBe(true);
    await run.change(project, id, { enabled: false });
  });

  it("[TP-52] gives what waits to the version that it was stored under when that is replaced", async () => {
    const project = await run.newProject();
    const source = (version: string) => `export async function onEvent({ event }) {
      await new Promise((resolve) => setTimeout(resolve, 100))
      console.log("${version} saw " + event)
    }`;
    const { id, transformationId } = await run.enable(project, "Slow", source("first"));
    await run.append(["a", "b", "c", "d"].map((name) => eventOf(project, name)));
    await run.settle();
    await run.edit(project, transformationId, source("second"));
    await pass(eventOf(project, "e"));
    const lines = await eventually(
      () => run.lines(project, id),
      (all) => all.some((line) => line.includes("second saw e")),
    );
    expect(lines.filter((line) => line.includes(" saw "))).toEqual([
      "first saw a",
      "first saw b",
      "first saw c",
      "first saw d",
      "second saw e",
    ]);
  });

  it("[TP-52] does not let a version that is too slow hold up the one that replaces it", async () => {
    const project = await run.newProject();
    const { id, transformationId } = await run.enable(
      project,
      "Stuck",
      `export async function onEvent() { await new Promise((resolve) => setTimeout(resolve, 1_000)) }`,
    );
    await run.append(Array.from({ length: 60 }, (_, n) => eventOf(project, `event ${n}`)));
    await run.settle();
    await run.edit(
      project,
      transformationId,
      `export function onEvent({ event }) { console.log("saw " + event) }`,
    );
    await pass(eventOf(project, "last"));
    const lines = await eventually(
      () => run.lines(project, id),
      (all) => all.includes("saw last") && all.some((line) => line.includes("left out")),
    );
    expect(lines).toContain("saw last");
    expect(lines).toContainEqual(
      expect.stringMatching(/^[1-5]\d events were left out: version 1 has left\.$/),
    );
  });

  it("[TP-52] tells how many events were left out of a config that was taken out of work", async () => {
    const project = await run.newProject();
    const { id } = await run.enable(
      project,
      "Failing",
      "export function onEvent() { throw new Error('no') }",
    );
    await run.append(Array.from({ length: 130 }, (_, n) => eventOf(project, `event ${n}`)));
    await run.settle();
    const lines = await eventually(
      () => run.lines(project, id),
      (all) => all.some((line) => line.includes("left out")),
    );
    expect(lines).toContain("30 events were left out: it is out of work.");
  });

  it("[TP-52] tells of webhooks that are given up since too many wait", async () => {
    const full = await transformationsPipeline({ maxJobs: 0, isAllowed: () => true });
    try {
      const project = await full.newProject();
      received.length = 0;
      statuses.push(503, 503);
      const { id } = await full.enable(
        project,
        "Full",
        `export function composeWebhook({ event }) { return { url: "http://${host}/" + event } }`,
        { allowedHosts: [host] },
      );
      await full.append([eventOf(project, "a"), eventOf(project, "b")]);
      await full.settle();
      const lines = await eventually(
        () => full.lines(project, id),
        (all) => all.filter((line) => line.includes("given up")).length > 1,
      );
      expect(lines.slice(1)).toEqual([
        "webhook: answered 503; given up, since too many jobs of this transformation wait.",
        "webhook: answered 503; given up, since too many jobs of this transformation wait.",
      ]);
      expect(received.map(({ path }) => path)).toEqual(["/a", "/b"]);
    } finally {
      await full.close();
    }
  });

  it("[TP-53] keeps events as they are while a transformation does not start, and tells why", async () => {
    const project = await run.newProject();
    const { id, label } = await run.enable(
      project,
      "Broken",
      `export function setupPlugin() { throw new Error("no key") }
       export function processEvent(event) { return null }`,
    );
    for (let attempt = 0; attempt < 3; attempt++) {
      await pass(eventOf(project, "a"));
      clock.aheadMs += 60_000;
    }
    const stored = await run.stored(project);
    expect(stored).toHaveLength(3);
    expect(stored[0]?.properties).toMatchObject({ $plugins_failed: [label] });
    const view = await eventually(
      () => run.configStore.config(project, id),
      (one) => one?.config.enabled === false,
    );
    expect(view?.config.problem?.message).toContain("no key");
    // Nothing says before that it works.
    const [first] = await run.lines(project, id);
    expect(first).toBe("Version 1 is in place, from the next event on.");
  });

  it("[TP-24] its log tells whether another version or other settings are in place", async () => {
    const project = await run.newProject();
    const { id } = await run.enable(
      project,
      "Told",
      "export function processEvent(e) { return e }",
    );
    await run.change(project, id, { config: { a: 1 } });
    expect(await run.lines(project, id)).toEqual([
      "Version 1 is in place, from the next event on.",
      "Version 1 begins anew with what was changed of its config, from the next event on.",
    ]);
  });

  it("[TM-31] warns of a source that has nothing to call", async () => {
    const project = await run.newProject();
    const typo = await run.enable(project, "Typo", "export function procesEvent(e) { return e }");
    const jobs = await run.enable(project, "Jobs", "export const jobs = { a() {} }");
    const warnings = async ({ id }: { id: number }) =>
      (await run.lines(project, id)).filter((line) => line.includes("does nothing"));
    expect(await warnings(typo)).toHaveLength(1);
    expect(await warnings(jobs)).toEqual([]);
    await run.work.changed(project);
    expect(await warnings(typo)).toHaveLength(1);
  });

  it("[TP-54] counts what passes once that is durable, so that nothing counts twice that passes again", async () => {
    const project = await run.newProject();
    const { id } = await run.enable(
      project,
      "Count",
      "export function processEvent(e) { return e }",
    );
    const entries = [{ position: 1, event: eventOf(project, "a") }];
    const durable: (() => void)[] = [];
    // The first of them dies before what it made is durable.
    for (let attempt = 0; attempt < 2; attempt++) {
      durable.length = 0;
      await run.work.step.run(entries, { whenDurable: (tell) => durable.push(tell) });
      expect(await run.counts(project, id)).toMatchObject({ eventsIn: 0 });
    }
    for (const tell of durable) tell();
    expect(await run.counts(project, id)).toMatchObject({ eventsIn: 1, eventsOut: 1 });
    expect(run.faults).toEqual([]);
  });
});

describe("what events store and ask for", () => {
  const SOURCE = `export const jobs = { later() {} };
    export async function processEvent(event, { storage, jobs }) {
      if (await storage.get(event.event)) return null;
      await storage.set(event.event, 1);
      await jobs.later().runIn(50, "week");
      posthog.capture("echo");
      if (event.event === "hog") { const all = []; for (;;) all.push(new Array(1e5).fill(0)) }
      if (event.event === "wait") await new Promise((done) => setTimeout(done, 50));
      return event;
    }`;

  it("[TP-59] is kept no earlier than what became of them, and comes to nothing with it", async () => {
    const run = await transformationsPipeline();
    const project = await run.newProject();
    const config = await run.enable(project, "Once", SOURCE);
    const entries = ["a", "b"].map((event, index) => ({
      position: index + 1,
      event: eventOf(project, event),
    }));
    const stored = () => run.storage.get({ projectId: project, configId: config.id }, "a");
    const pass = async () => {
      const durable: (() => void)[] = [];
      const undone: (() => void)[] = [];
      const outcomes = await run.work.step.run(entries, {
        whenDurable: (tell) => durable.push(tell),
        whenUndone: (tell) => undone.push(tell),
      });
      return { kinds: outcomes.map(({ kind }) => kind), durable, undone };
    };
    const first = await pass();
    expect(first.kinds).toEqual(["keep", "keep"]);
    await run.work.flush();
    expect(await stored()).toBeUndefined();
    expect(await run.jobs.due(NEVER, 10)).toEqual([]);
    for (const tell of first.undone) tell();
    const again = await pass();
    expect(again.kinds).toEqual(["keep", "keep"]);
    // Those that follow see it at once.
    const next = await pass();
    expect(next.kinds).toEqual(["drop", "drop"]);
    for (const tell of [...again.durable, ...next.durable]) tell();
    await run.work.flush();
    expect(await stored()).toBe(1);
    expect(await run.jobs.due(NEVER, 10)).toHaveLength(2);
    expect(run.faults).toEqual([]);
    await run.close();
  });

  it("[TP-59] comes to nothing where an event is begun anew since another exceeded a limit", async () => {
    const run = await transformationsPipeline();
    const project = await run.newProject();
    await run.enable(project, "Once", SOURCE);
    const entries = ["wait", "hog"].map((event, index) => ({
      position: index + 1,
      event: { ...eventOf(project, event), distinctId: event },
    }));
    const durable: (() => void)[] = [];
    const outcomes = await run.work.step.run(entries, {
      whenDurable: (tell) => durable.push(tell),
    });
    expect(
      outcomes.map((one) =>
        one.kind === "keep" ? { ...one, properties: allProperties(one) } : one,
      ),
    ).toMatchObject([
      { kind: "keep", captured: [{ event: "echo" }] },
      { kind: "keep", properties: { $plugins_failed: [expect.any(String)] } },
    ]);
    for (const tell of durable) tell();
    await run.work.flush();
    expect(await run.jobs.due(NEVER, 10)).toHaveLength(2);
    await run.close();
  });
});

describe("a run in a lane", () => {
  const event = (project: number, name: string) => ({
    ...eventOf(project, name),
    distinctId: "ann",
  });

  it("[TP-63] leaves what it does not get to, and takes no event through a transformation again", async () => {
    const run = await transformationsPipeline();
    const project = await run.newProject();
    await run.enable(project, "Count", counting("first"), { order: 1 });
    const slow = await run.enable(
      project,
      "Slow",
      counting("second", "await new Promise((done) => setTimeout(done, 20));"),
      { order: 2 },
    );
    const entries = Array.from({ length: 40 }, (_, index) => ({
      position: index + 1,
      event: event(project, "a"),
    }));
    const passed: JsonObject[] = [];
    let runs = 0;
    for (; passed.length < entries.length; runs++) {
      let end = entries.length + 1;
      const over = new AbortController();
      const timer = setTimeout(() => over.abort(), 100);
      const durable: (() => void)[] = [];
      const outcomes = await run.work.step.run(entries.slice(passed.length), {
        whenDurable: (tell) => durable.push(tell),
        leaving: {
          isOver: over.signal,
          from: (position) => {
            end = position;
          },
        },
      });
      clearTimeout(timer);
      for (const outcome of outcomes.slice(0, end - 1 - passed.length)) {
        passed.push(outcome.kind === "keep" ? allProperties(outcome) : {});
      }
      for (const tell of durable) tell();
    }
    expect(runs).toBeGreaterThan(1);
    const numbers = entries.map(({ position }) => position);
    expect(passed.map(({ first }) => first)).toEqual(numbers);
    expect(passed.map(({ second }) => second)).toEqual(numbers);
    expect(await run.counts(project, slow.id)).toMatchObject({ eventsIn: 40, eventsOut: 40 });
    await run.close();
  });

  it("[TP-63] passes on what is done when a transformation becomes slow, and hears that it is disabled", async () => {
    const run = await transformationsPipeline();
    const project = await run.newProject();
    const { id } = await run.enable(
      project,
      "Sometimes",
      `export async function processEvent(event) {
         if (event.event === "slow") await new Promise((done) => setTimeout(done, 1_000));
         event.properties.passed = true;
         return event;
       }`,
    );
    const many = (count: number, name: string) =>
      Array.from({ length: count }, () => event(project, name));
    await run.append(many(2_000, "fast"));
    await run.settle();
    await run.append(many(200, "slow"));
    const slow = async () => (await run.stored(project)).filter(({ event }) => event === "slow");
    const first = await eventually(slow, ({ length }) => length > 0);
    expect(first.length).toBeGreaterThan(0);
    await run.change(project, id, { enabled: false });
    await run.settle();
    const all = await slow();
    expect(all).toHaveLength(200);
    const changed = all.filter(({ properties }) => properties.passed === true);
    expect(changed.length).toBeGreaterThan(0);
    expect(changed.length).toBeLessThan(150);
    expect(all.slice(0, changed.length)).toEqual(changed);
    await run.close();
  });

  it("[TP-64] closes though a config that was disabled is still under way", async () => {
    const run = await transformationsPipeline({ limits: { ...DEFAULT_LIMITS, waitMs: 600_000 } });
    const project = await run.newProject();
    const { id } = await run.enable(
      project,
      "Waits",
      `export async function processEvent(event) {
         console.log("begun");
         await new Promise((done) => setTimeout(done, 500_000));
         return event;
       }`,
    );
    await run.append([event(project, "a")]);
    const lines = await eventually(
      () => run.lines(project, id),
      (some) => some.includes("begun"),
    );
    expect(lines).toContain("begun");
    await run.change(project, id, { enabled: false });
    await run.close();
  });
});

/** A transformation that numbers the events it has seen. */
function counting(name: string, work = ""): string {
  return `let seen = 0;
    export async function processEvent(event) {
      event.properties.${name} = ++seen;
      ${work}
      return event;
    }`;
}

describe("a config that is enabled", () => {
  it("[TM-27] is not waited for long where it takes long to start", async () => {
    const run = await transformationsPipeline({ tryStartMs: 100 });
    const project = await run.newProject();
    const { id } = await run.enable(
      project,
      "Slow",
      `export async function setupPlugin() {
         await new Promise((done) => setTimeout(done, 9_000));
         throw new Error("late");
       }
       export function processEvent(event) { return event }`,
    );
    const view = await run.change(project, id, { config: { slow: "yes" } });
    expect(view.config).toMatchObject({ enabled: true, problem: null });
    await run.change(project, id, { enabled: false });
    await run.close();
  });
});

/** A line with the keys of the object in it by name. */
function sorted(line: string): string {
  const [, words = line, text] = /^([^{]*)(\{.*\})$/.exec(line) ?? [];
  if (text === undefined) return words;
  return words + JSON.stringify(Object.fromEntries(Object.entries(JSON.parse(text)).sort()));
}
