import { type AddressInfo, connect } from "node:net";
import { pino } from "pino";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { StoreUnavailable } from "../platform/store-unavailable.ts";
import { type App, createApp } from "./app.ts";
import { Refusal } from "./errors.ts";

describe("an application", () => {
  let app: App;

  beforeAll(() => {
    app = createApp({ logger: pino({ level: "silent" }) });
    app.get("/out-of-order", async () => {
      throw new StoreUnavailable("secret");
    });
    app.get("/too-many", async () => {
      throw new Refusal("throttled", "Too many.");
    });
    app.get("/things/:name", async (request) => ({ params: request.params }));
  });
  afterAll(() => app.close());

  const get = (url: string) => app.inject({ method: "GET", url });

  it("[ER-1] answers what a store cannot do for now with 503, and tells to come back", async () => {
    const answer = await get("/out-of-order");
    expect(answer.statusCode).toBe(503);
    expect(Number(answer.headers["retry-after"])).toBeGreaterThan(0);
    expect(answer.json()).toEqual({
      type: "server_error",
      code: "unavailable",
      detail: expect.any(String),
      attr: null,
    });
    expect(answer.body).not.toContain("secret");
  });

  it("[AC-81] tells whoever is refused for now when to come back", async () => {
    const answer = await get("/too-many");
    expect(answer.statusCode).toBe(429);
    expect(Number(answer.headers["retry-after"])).toBeGreaterThan(0);
    expect(answer.json()).toEqual({
      ...{ type: "throttled_error", code: "throttled", detail: "Too many.", attr: null },
    });
  });

  it.each([
    ["no HTTP", "how do you do\r\n\r\n", 400, "parse_error"],
    ["a broken header", "GET / HTTP/1.1\r\nHost: x\r\nA B: c\r\n\r\n", 400, "parse_error"],
    [
      "two lengths",
      "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\na",
      400,
      "parse_error",
    ],
    [
      "too large a head",
      `GET / HTTP/1.1\r\nHost: x\r\nA: ${"b".repeat(20_000)}\r\n\r\n`,
      431,
      "header_too_large",
    ],
  ])(
    "[ER-3] answers %s with the four fields and ends the connection",
    async (_what, text, status, code) => {
      if (!app.server.listening) await app.listen({ port: 0, host: "127.0.0.1" });
      const { port } = app.server.address() as AddressInfo;
      const received = await new Promise<string>((resolve, reject) => {
        let all = "";
        const socket = connect(port, "127.0.0.1", () => socket.write(text));
        socket.setEncoding("utf8").on("data", (chunk) => {
          all += chunk;
        });
        socket.on("error", reject).on("close", () => resolve(all));
      });
      const [head = "", body = ""] = received.split("\r\n\r\n");
      expect(head).toMatch(new RegExp(`^HTTP/1.1 ${status} `));
      expect(head).toContain("connection: close");
      expect(JSON.parse(body)).toEqual({
        type: "invalid_request",
        code,
        detail: expect.any(String),
        attr: null,
      });
    },
  );

  it("does not wait for ever for the rest of a request", () => {
    // What a timeout does then is the platform's; unless told, it waits without end.
    expect(app.server.requestTimeout).toBeGreaterThan(0);
    expect(app.server.requestTimeout).toBeLessThanOrEqual(300_000);
  });

  it.each([
    ["a broken escape", "/things/%ff", 400, "invalid_input"],
    ["a lone percent sign", "/things/%", 400, "invalid_input"],
    ["a name that is too long", `/things/${"x".repeat(501)}`, 404, "not_found"],
  ])("refuses a path with %s in the form of every error", async (_what, url, status, code) => {
    const answer = await get(url);
    expect(answer.statusCode).toBe(status);
    expect(answer.json()).toEqual({
      type: expect.any(String),
      code,
      detail: expect.any(String),
      attr: null,
    });
    expect(answer.body.length).toBeLessThan(300);
  });
});
