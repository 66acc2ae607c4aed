import { type AddressInfo, connect } from "node:net";
import { gzipSync } from "node:zlib";
import { pino } from "pino";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { openDecideApi, TOKEN } from "../flags/decide-api.setup.ts";
import { type App, createApp } from "./app.ts";
import { Refusal } from "./errors.ts";
import { postPlain, publicApi, takePlain } from "./public-api.ts";

type Api = Awaited<ReturnType<typeof openDecideApi>>;

interface Answer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: unknown;
}

describe("the front door", () => {
  let api: Api;
  let port: number;
  beforeAll(async () => {
    api = await openDecideApi();
    await api.createFlag("on", { groups: [{ properties: [], rollout_percentage: 100 }] });
    await api.createFlag("smörgås", {
      groups: [{ properties: [], rollout_percentage: 100 }],
      payloads: { true: '"på 🥪"' },
    });
    await api.app.listen({ port: 0, host: "127.0.0.1" });
    port = (api.app.server.address() as AddressInfo).port;
  });
  afterAll(() => api.close());

  /** One request on a connection of its own; what differs from one to the next is taken out. */
  async function ask(
    path: string,
    { method = "POST", headers = {}, body = "" as string | Buffer } = {},
  ): Promise<Answer> {
    const response = await fetch(`http://127.0.0.1:${port}${path}`, {
      method,
      headers,
      ...(body.length > 0 && { body: new Uint8Array(Buffer.from(body)) }),
    });
    const { date, ...rest } = Object.fromEntries(response.headers);
    expect(date).toBeDefined();
    const text = (await response.text())
      .replace(/"requestId":"[^"]*"/, "")
      .replace(/"evaluatedAt":\d+/, "");
    return { status: response.status, headers: rest, body: text };
  }

  const good = JSON.stringify({ token: TOKEN, distinct_id: "ö" });
  const table: [string, string, { headers?: Record<string, string>; body?: string | Buffer }][] = [
    ["plain JSON", "?v=3", { body: good }],
    ["no version", "", { body: good }],
    ["an origin", "?v=3", { body: good, headers: { origin: "https://example.com" } }],
    ["gzip", "?v=2&compression=gzip-js", { body: gzipSync(good) }],
    [
      "a form",
      "?v=3",
      {
        body: `data=${encodeURIComponent(good)}`,
        headers: { "content-type": "application/x-www-form-urlencoded" },
      },
    ],
    ["a repeated parameter", "?v=1&v=3", { body: good }],
    ["an escaped parameter", "?v=%33&token=", { body: good }],
    ["no body", "?v=3", {}],
    ["no token", "?v=3", { body: "{}" }],
    ["a wrong token", "?v=3", { body: '{"token":"phc_nobody","distinct_id":"u"}' }],
    ["a personal key", "?v=3", { body: '{"token":"phx_key","distinct_id":"u"}' }],
    ["no distinct id", "?v=3", { body: JSON.stringify({ token: TOKEN }) }],
    ["broken JSON", "?v=3", { body: "{nope" }],
    ["a broken media type", "?v=3", { body: good, headers: { "content-type": "nonsense" } }],
    [
      "a media type with parameters",
      "?v=3",
      {
        body: good,
        headers: { "content-type": "text/plain; charset=utf-8" },
      },
    ],
    [
      "a body that decodes to too much",
      "?v=3",
      { body: gzipSync(Buffer.alloc(21 * 1024 * 1024, 32)) },
    ],
    [
      "a large body",
      "?v=3",
      { body: JSON.stringify({ token: TOKEN, distinct_id: "u", more: "x".repeat(300_000) }) },
    ],
  ];

  it.each(table)("[DC-14] answers %s as the framework does", async (_what, query, request) => {
    for (const path of ["/decide", "/flags"]) {
      const direct = await ask(`${path}${query}`, request);
      expect(await ask(`${path}/${query}`, request)).toEqual(direct);
      // Doubled slashes are left to the framework.
      expect(await ask(`/${path}${query}`, request)).toEqual(direct);
      const injected = await api.app.inject({
        method: "POST",
        url: `${path}${query}`,
        headers: { ...(request.headers ?? {}) },
        payload: request.body ?? "",
      });
      expect(injected.statusCode).toBe(direct.status);
    }
  });

  it("[DC-14] leaves other methods and a body of unknown size to the framework", async () => {
    expect((await ask("/decide", { method: "GET" })).status).toBe(405);
    expect((await ask("/decide", { method: "OPTIONS" })).status).toBe(200);
    const chunked = [
      "POST /decide?v=3 HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n",
      `${Buffer.byteLength(good).toString(16)}\r\n${good}\r\n0\r\n\r\n`,
    ].join("");
    expect(await raw(port, chunked)).toContain('"featureFlags":{"on":true');
  });

  it("[DC-14] refuses a body that announces itself as too large", async () => {
    const head = `POST /decide HTTP/1.1\r\nHost: x\r\nContent-Length: ${21 * 1024 * 1024}\r\nConnection: close\r\n\r\n`;
    const answer = await raw(port, head);
    expect(answer).toMatch(/^HTTP\/1\.1 413 /);
    expect(answer).toContain('"code":"request_too_large"');
  });
});

describe("requests that arrive together", () => {
  let app: App;
  let url: string;
  let release: (text: string) => void;
  let handled: string[];
  let onHandled: (body: string) => void;

  beforeEach(async () => {
    handled = [];
    onHandled = () => {};
    const released = new Promise<string>((resolve) => {
      release = resolve;
    });
    app = createApp({ logger: pino({ level: "silent" }) });
    publicApi(app, (open) => {
      postPlain(open, "/say", {
        schema: {},
        handler: ({ body }) => {
          const said = String(body);
          handled.push(said);
          onHandled(said);
          if (said === "refuse") throw new Refusal("no_data", "Refused.");
          if (said === "break") throw new Error("broken");
          return said === "wait" ? released : JSON.stringify(said);
        },
      });
    });
    publicApi(app, (open) => {
      takePlain(open, "/take", {
        schema: {},
        handler: ({ body }) => {
          const endMs = performance.now() + 2;
          while (performance.now() < endMs);
          handled.push(String(body));
          onHandled(String(body));
          return "";
        },
      });
    });
    url = await app.listen({ port: 0, host: "127.0.0.1" });
  });
  afterEach(() => app.close());

  const say = async (body: string) => {
    const response = await fetch(`${url}/say`, { method: "POST", body });
    return [response.status, await response.json()];
  };

  it("[DC-15] get each its own answer; none waits for one that waits, or fails with one that fails", async () => {
    const waiting = say("wait");
    const bodies = Array.from({ length: 60 }, (_, n) =>
      n % 20 === 7 ? "refuse" : n % 20 === 8 ? "break" : `${n}`,
    );
    const answers = await Promise.all(bodies.map(say));
    for (const [at, answer] of answers.entries()) {
      const body = bodies[at];
      if (body === "refuse") expect(answer).toEqual([400, expect.objectContaining({ attr: null })]);
      else if (body === "break") expect(answer[0]).toBe(500);
      else expect(answer).toEqual([200, body]);
    }
    release('"late"');
    expect(await waiting).toEqual([200, "late"]);
  });

  it("[DC-15] are answered in their order on one connection", async () => {
    const port = Number(new URL(url).port);
    const request = (body: string, end = "") =>
      `POST /say HTTP/1.1\r\nHost: x\r\nContent-Length: ${body.length}\r\n${end}\r\n${body}`;
    const sent = request("wait") + request("b") + request("c", "Connection: close\r\n");
    const received = untilClosed(port, sent);
    await eventually(() => handled.includes("wait"));
    release('"a"');
    expect((await received).match(/"[abc]"/g)).toEqual(['"a"', '"b"', '"c"']);
  });

  it("[PI-73] overtake the captures that wait", async () => {
    const port = Number(new URL(url).port);
    const asking = connect(port, "127.0.0.1");
    await new Promise((resolve) => asking.once("connect", resolve));
    const request = (path: string, body: string, end = "") =>
      `POST ${path} HTTP/1.1\r\nHost: x\r\nContent-Length: ${body.length}\r\n${end}\r\n${body}`;
    onHandled = (one) => {
      if (one === "0") asking.write(request("/say", "ask"));
    };
    const captures = Array.from({ length: 100 }, (_, n) => request("/take", `${n}`));
    await untilClosed(
      port,
      [...captures, request("/take", "last", "Connection: close\r\n")].join(""),
    );
    asking.destroy();
    expect(handled.filter((one) => one !== "ask")).toEqual([
      ...captures.map((_, n) => `${n}`),
      "last",
    ]);
    expect(handled.indexOf("ask")).toBeGreaterThan(0);
    expect(handled.indexOf("ask")).toBeLessThan(50);
  });

  it("[DC-16] are answered although the server closes, whether they wait or have just come", async () => {
    const port = Number(new URL(url).port);
    const waiting = say("wait");
    await eventually(() => handled.includes("wait"));
    let closed: Promise<string> | undefined;
    onHandled = () => {
      closed ??= app.close().then(() => "closed");
    };
    const request = (body: string) =>
      `POST /say HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\n${body}`;
    let accepted = 0;
    app.server.on("connection", () => accepted++);
    const asking = await Promise.all(["a", "b", "c"].map((it) => connected(port, request(it))));
    await eventually(() => accepted === 3);
    const received = await Promise.all(asking.map((send) => send()));
    expect(received.map((text) => text.split("\r\n\r\n")[1])).toEqual(['"a"', '"b"', '"c"']);
    const soon = new Promise((resolve) => setTimeout(resolve, 50, "not yet"));
    expect(await Promise.race([closed, soon])).toBe("not yet");
    release('"at last"');
    expect(await waiting).toEqual([200, "at last"]);
    expect(await closed).toBe("closed");
    await expect(say("more")).rejects.toThrow();
  });
});

async function eventually(isSo: () => boolean): Promise<void> {
  for (let attempt = 0; attempt < 3_000 && !isSo(); attempt++) {
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
  expect(isSo()).toBe(true);
}

/** Connects, and answers what sends the text and resolves to all that the server then sends. */
async function connected(port: number, text: string): Promise<() => Promise<string>> {
  const socket = connect(port, "127.0.0.1");
  await new Promise((resolve) => socket.once("connect", resolve));
  return () =>
    new Promise((resolve, reject) => {
      let received = "";
      socket.on("error", reject);
      socket.on("data", (chunk) => {
        received += chunk.toString();
      });
      socket.on("close", () => resolve(received));
      socket.write(text);
    });
}

/** All that a server sends on a connection. */
async function untilClosed(port: number, text: string): Promise<string> {
  return await (await connected(port, text))();
}

/** What a server sends on a connection until some of an answer's body is there. */
function raw(port: number, text: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = connect(port, "127.0.0.1", () => socket.write(text));
    let received = "";
    socket.on("error", reject);
    socket.on("data", (chunk) => {
      received += chunk.toString();
      if (!received.includes("\r\n\r\n{")) return;
      socket.destroy();
      resolve(received);
    });
  });
}
