import { once } from "node:events";
import { createServer, type IncomingHttpHeaders } from "node:http";
import type { AddressInfo } from "node:net";
import { setTimeout as delay } from "node:timers/promises";
import { PostHog } from "posthog-node";
import { expect, it } from "vitest";
import { PERSONAL_KEY, PROJECT_KEY, startServer } from "./server-under-test.ts";

const EVENTS = Number(process.env.FLAKY_PROXY_EVENTS ?? 10_000);
/** The queue of the SDK holds 1,000 events; what does not fit it drops before anyone sees it. */
const EVENTS_PER_BURST = 500;
const PAGE = 1000;

/** What the proxy does to a request, by turns that repeat only after a while. */
const MISDEEDS = ["drop", "forget the answer", "send twice", "delay"] as const;

/** A proxy that drops requests, answers of requests, sends requests twice, and delays. */
async function startFlakyProxy(target: string) {
  const done = { "forget the answer": 0, "send twice": 0, drop: 0, delay: 0 };
  let requests = 0;

  async function forward(path: string, headers: IncomingHttpHeaders, body: Buffer) {
    const passed = Object.entries(headers).filter(([name]) =>
      /^(?:content-(?:type|encoding)|user-agent)$/.test(name),
    );
    const answer = await fetch(target + path, {
      method: "POST",
      headers: passed.map(([name, value]): [string, string] => [name, String(value)]),
      body: new Uint8Array(body),
    });
    return { status: answer.status, text: await answer.text() };
  }

  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk);
    const body = Buffer.concat(chunks);
    const number = requests++;
    const misdeed =
      number % 7 === 3 ? MISDEEDS[Math.floor(number / 7) % MISDEEDS.length] : undefined;
    if (misdeed) done[misdeed]++;
    if (misdeed === "drop") {
      request.socket.destroy();
      return;
    }
    if (misdeed === "delay") await delay(300);
    const path = request.url ?? "/";
    const again = misdeed === "send twice" ? forward(path, request.headers, body) : undefined;
    const { status, text } = await forward(path, request.headers, body);
    await again;
    if (misdeed === "forget the answer") request.socket.destroy();
    else response.writeHead(status, { "content-type": "application/json" }).end(text);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    done,
    async close() {
      server.close();
      server.closeAllConnections();
      await once(server, "close");
    },
  };
}

it(
  `${EVENTS} events of posthog-node with its default settings are each stored once, though a proxy drops, delays and repeats requests`,
  async () => {
    const server = await startServer();
    const proxy = await startFlakyProxy(server.url);
    try {
      const client = new PostHog(PROJECT_KEY, { host: proxy.url });
      for (let number = 0; number < EVENTS; number++) {
        client.capture({
          distinctId: `user-${number % 500}`,
          event: "counted",
          properties: { number },
        });
        if ((number + 1) % EVENTS_PER_BURST === 0) await client.flush().catch(() => {});
      }
      await client.shutdown(120_000);
      expect(Math.min(...Object.values(proxy.done))).toBeGreaterThan(0);

      const seen = new Set<number>();
      let stored = 0;
      for (let offset = 0; ; offset += PAGE) {
        const answer = await fetch(
          `${server.url}/api/projects/1/events?event=counted&limit=${PAGE}&offset=${offset}`,
          { headers: { authorization: `Bearer ${PERSONAL_KEY}` } },
        );
        const { results, next } = (await answer.json()) as {
          results: { properties: { number: number } }[];
          next: string | null;
        };
        stored += results.length;
        for (const { properties } of results) seen.add(properties.number);
        if (next === null) break;
      }
      expect(seen.size).toBe(EVENTS);
      expect(stored).toBe(EVENTS);
    } finally {
      await proxy.close();
      await server.dispose();
    }
  },
  120_000 + EVENTS * 10,
);
