import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import type { CapturedEvent } from "@hedgerow/core/events/event";
import type { JsonObject } from "@hedgerow/core/json";
import { v7 } from "uuid";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { transformationsPipeline } from "./at-work.setup.ts";

interface Asked {
  readonly call: string;
  readonly authorization: string | undefined;
  readonly body: string;
}

/** Plugins as they are published: shapes that many of them have, written anew. */
describe("plugins in the shapes that are published", () => {
  let run: Awaited<ReturnType<typeof transformationsPipeline>>;
  const asked: Asked[] = [];
  const answers = new Map<string, (query: URLSearchParams) => unknown>();
  const server = createServer(async (request, response) => {
    let body = "";
    for await (const part of request) body += part;
    const url = new URL(request.url ?? "/", "http://mock.test");
    const { authorization } = request.headers;
    asked.push({ call: `${request.method} ${url.pathname}`, authorization, body });
    const answer = answers.get(url.pathname)?.(url.searchParams) ?? {};
    response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(answer));
  });
  let host = "";
  const clock = { aheadMs: 0 };
  beforeAll(async () => {
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    host = `127.0.0.1:${(server.address() as AddressInfo).port}`;
    run = await transformationsPipeline({
      clock: () => new Date(Date.now() + clock.aheadMs),
      privateNetworks: ["127.0.0.0/8"],
      isAllowed: () => true,
    });
  });
  afterAll(async () => {
    await run.close();
    await new Promise((resolve) => server.close(resolve));
  });

  async function pass(projectId: number, event: string, more: Partial<CapturedEvent> = {}) {
    const at = new Date();
    const captured = { uuid: v7(), projectId, event, distinctId: "ann", properties: {} };
    const times = { timestamp: at, clientTimestamp: null, receivedAt: at };
    await run.append([{ ...captured, ...times, ...more }]);
    await run.settle();
  }

  const properties = async (projectId: number): Promise<readonly JsonObject[]> =>
    (await run.stored(projectId)).map((event) => event.properties);
  const calls = (call: string) => asked.filter((one) => one.call === call);
  const granted = () => ({ allowedHosts: [host] });
  const eventually = (look: () => unknown) => expect.poll(look, { timeout: 60_000 });

  it("[TP-45] marks what comes for the first time: a set in global, storage awaited, CommonJS", async () => {
    const project = await run.newProject();
    await run.enable(
      project,
      "First time",
      `async function setupPlugin({ config, global }) {
        global.tracked = new Set(config.events.split(',').map((name) => name.trim()))
      }
      async function processEvent(event, { global, storage }) {
        if (!global.tracked.has(event.event)) return event
        const key = 'seen_' + event.event
        event.properties['first_ever'] = !(await storage.get(key, false))
        await storage.set(key, true)
        return event
      }
      module.exports = { setupPlugin, processEvent }`,
      { config: { events: "signup, order" } },
    );
    for (const event of ["signup", "signup", "other"]) await pass(project, event);
    expect(await properties(project)).toMatchObject([
      { first_ever: true },
      { first_ever: false },
      {},
    ]);
  });

  it("[TP-45] fetches rates once: settings with defaults, cache with a time to live", async () => {
    answers.set("/latest.json", () => ({ rates: { EUR: 1, PLN: 4.6 } }));
    const project = await run.newProject();
    const manifest = {
      name: "Currencies",
      config: [
        { markdown: "Ask for a key first." },
        { key: "apiKey", type: "string", secret: true, required: true },
        { key: "currency", type: "string", default: "EUR" },
      ],
    };
    await run.enable(
      project,
      "Currencies",
      {
        "plugin.json": JSON.stringify(manifest),
        "index.js": `
        async function setupPlugin(meta) { if (!meta.config.apiKey) throw new Error('No API key'); await rates(meta) }
        async function rates({ config, cache }) {
          const known = await cache.get('rates', null)
          if (known) return JSON.parse(known)
          const response = await fetch('http://${host}/latest.json?app_id=' + config.apiKey)
          if (!response.ok) throw new Error('no rates')
          const { rates } = await response.json()
          await cache.set('rates', JSON.stringify(rates), 60 * 60 * 24)
          return rates
        }
        async function processEvent(event, meta) {
          const { amount, currency } = event?.properties ?? {}
          if (typeof amount === 'undefined' || !currency) return event
          const known = await rates(meta)
          event.properties.normalized = Math.round((amount / known[currency]) * known[meta.config.currency] * 100) / 100
          return event
        }`,
      },
      { config: { apiKey: "k" }, ...granted() },
    );
    const given = { properties: { amount: 20, currency: "PLN" } };
    for (const more of [given, given, {}]) await pass(project, "buy", more);
    expect(await properties(project)).toMatchObject([
      { normalized: 4.35 },
      { normalized: 4.35 },
      {},
    ]);
    expect(calls("GET /latest.json")).toHaveLength(1);
  });

  it("[TP-45] tells a service of persons: TypeScript, types of node-fetch, Basic keys, RetryError", async () => {
    const project = await run.newProject();
    await run.enable(
      project,
      "Messages",
      {
        "plugin.json": '{"name":"Messages","main":"src/index.ts"}',
        "src/index.ts": `import { Plugin, PluginMeta, ProcessedPluginEvent, RetryError } from '@posthog/plugin-scaffold'
        import type { RequestInit, Response } from 'node-fetch'
        import { call } from './call'
        type Messages = Plugin<{ config: { site: string; token: string }; global: { authorization: string } }>
        export const setupPlugin = ({ config, global }: PluginMeta<Messages>): void => {
          global.authorization = \`Basic \${Buffer.from(\`\${config.site}:\${config.token}\`).toString('base64')}\`
        }
        export const onEvent = async (event: ProcessedPluginEvent, { global }: PluginMeta<Messages>): Promise<void> => {
          if (event.event !== '$identify') return
          const response: Response = await call('/customers/' + encodeURIComponent(event.distinct_id), global.authorization, {
            email: event.$set?.email, at: Math.floor(new Date(event.timestamp as string).getTime() / 1000),
          } satisfies Record<string, unknown>)
          if (response.status >= 500) throw new RetryError('try again')
        }`,
        "src/call.ts": `export async function call(path: string, authorization: string, body: unknown) {
          return await fetch('http://${host}' + path, { method: 'PUT', headers: { authorization }, body: JSON.stringify(body) })
        }`,
      },
      { config: { site: "s", token: "t" }, ...granted() },
    );
    const timestamp = new Date("2026-01-02T03:04:05Z");
    await pass(project, "$identify", { properties: { $set: { email: "a@b.c" } }, timestamp });
    await eventually(() => calls("PUT /customers/ann").map(({ body }) => JSON.parse(body))).toEqual(
      [{ email: "a@b.c", at: 1767323045 }],
    );
    const authorization = `Basic ${Buffer.from("s:t").toString("base64")}`;
    expect(calls("PUT /customers/ann")[0]?.authorization).toBe(authorization);
  });

  it("[TP-45] exports in batches: a buffer that hands them to a job", async () => {
    const project = await run.newProject();
    await run.enable(
      project,
      "Warehouse",
      `import { createBuffer } from '@posthog/plugin-contrib'
      export const jobs = {
        insertRows: async ({ rows }) => {
          const response = await fetch('http://${host}/insert', { method: 'POST', body: JSON.stringify(rows) })
          if (!response.ok) throw new Error(await response.text())
        },
      }
      export const setupPlugin = ({ global, jobs }) => {
        global.buffer = createBuffer({
          limit: 1024 * 1024,
          timeoutSeconds: 0.1,
          onFlush: async (rows) => { await jobs.insertRows({ rows }).runNow() },
        })
      }
      export const teardownPlugin = async ({ global }) => { await global.buffer.flush() }
      export const onEvent = (event, { global }) => {
        const row = { uuid: event.uuid, event: event.event }
        global.buffer.add(row, JSON.stringify(row).length)
      }`,
      granted(),
    );
    for (const event of ["a", "b", "c"]) await pass(project, event);
    await eventually(async () => {
      await run.work.tick();
      return calls("POST /insert").flatMap(({ body }) =>
        (JSON.parse(body) as { event: string }[]).map(({ event }) => event),
      );
    }).toEqual(["a", "b", "c"]);
  });

  it("[TP-45] imports by the minute: many events captured without waiting, a cursor in storage", async () => {
    answers.set("/invoices", (query) => ({
      data: Array.from({ length: query.has("starting_after") ? 0 : 300 }, (_, index) => ({
        ...{ id: `in_${index}`, email: `c${index}@x.yz`, created: 1_700_000_000 },
      })),
    }));
    const project = await run.newProject();
    await run.enable(
      project,
      "Invoices",
      `export async function runEveryMinute({ storage }) {
        const cursor = await storage.get('cursor', null)
        const search = new URLSearchParams({ limit: '300', ...(cursor && { starting_after: cursor }) })
        const { data } = await (await fetch('http://${host}/invoices?' + search)).json()
        for (const { id, email, created } of data) {
          posthog.capture('invoice', { distinct_id: email, timestamp: new Date(created * 1000).toISOString(), id })
        }
        if (data.length > 0) await storage.set('cursor', data[data.length - 1].id)
      }`,
      granted(),
    );
    await run.work.tick();
    clock.aheadMs += 60_000;
    await run.work.tick();
    await eventually(async () => (await run.stored(project)).length).toBe(300);
    const imported = await run.stored(project);
    expect(new Set(imported.map(({ distinctId }) => distinctId)).size).toBe(300);
    expect(imported[0]?.timestamp.toISOString()).toBe("2023-11-14T22:13:20.000Z");
    expect(calls("GET /invoices").length).toBeGreaterThan(1);
  });

  it("[TP-45] keeps one of equal events: a uuid that is made of what the event says", async () => {
    const project = await run.newProject();
    await run.enable(
      project,
      "Once",
      `import { createHash } from 'crypto'
      const plugin = {
        async processEvent(event) {
          const digest = createHash('sha256').update(\`\${event.timestamp} \${event.distinct_id} \${event.event}\`).digest('hex')
          event.uuid = [digest.slice(0, 8), digest.slice(8, 12), '4' + digest.slice(13, 16), 'a' + digest.slice(17, 20), digest.slice(20, 32)].join('-')
          return event
        },
      }
      export default plugin`,
    );
    const timestamp = new Date("2026-01-02T03:04:05Z");
    for (const event of ["same", "same", "other"]) await pass(project, event, { timestamp });
    expect((await run.stored(project)).map(({ event }) => event)).toEqual(["same", "other"]);
  });
});
