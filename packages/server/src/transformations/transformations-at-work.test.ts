import { createServer, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import type { CapturedEvent } from "@hedgerow/core/events/event";
import { v7 } from "uuid";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { transformationsPipeline } from "./at-work.setup.ts";

function eventOf(projectId: number, event: string): CapturedEvent {
  const at = new Date();
  return {
    ...{ uuid: v7(), projectId, event, distinctId: "ann", properties: {} },
    ...{ timestamp: at, clientTimestamp: null, receivedAt: at },
  };
}

async function eventually<Value>(
  look: () => Promise<Value> | Value,
  isRight: (value: Value) => boolean,
) {
  const endMs = Date.now() + 10_000;
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
  const statuses: number[] = [];
  const server = createServer(async (request: IncomingMessage, response) => {
    let body = "";
    for await (const part of request) body += part;
    received.push({ path: request.url ?? "", body });
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
    await run.work.flush();
    const logs = async (projectId: number, configId: number) => {
      const page = { projectId, configId, limit: 10, offset: 0 };
      return (await run.records.logs(page)).entries.map(({ message }) => message).join("\n");
    };
    expect(await logs(project, granted.id)).toContain("saw a");
    expect(await logs(other, refused.id)).toContain("must not be asked");
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
  });

  it("[TP-54] counts nothing twice that passes again after a crash", async () => {
    const project = await run.newProject();
    const { id } = await run.enable(
      project,
      "Count",
      "export function processEvent(e) { return e }",
    );
    const event = eventOf(project, "a");
    const [position] = await run.append([event]);
    await run.settle();
    expect(await run.counts(project, id)).toMatchObject({ eventsIn: 1 });
    await run.work.step.run([{ position: position ?? 0, event }], { isRepeated: true });
    await run.work.step.run([{ position: position ?? 0, event }], { isRepeated: false });
    expect(await run.counts(project, id)).toMatchObject({ eventsIn: 1 });
    expect(run.faults).toEqual([]);
  });
});
