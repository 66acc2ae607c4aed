import { type AddressInfo, connect, type Socket } from "node:net";
import { setTimeout as delay } from "node:timers/promises";
import { pino } from "pino";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { type App, createApp } from "./app.ts";
import { Refusal } from "./errors.ts";
import { managementApi } from "./management-api.ts";
import { publicApi, takePlain } from "./public-api.ts";

const BOUND = 4 * 1024 * 1024;
const MEBIBYTE = 1024 * 1024;

/** One request whose body comes by and by. */
interface Slow {
  readonly socket: Socket;
  /** Sends so many more bytes; resolves when they are on their way. */
  send(bytes: number): Promise<void>;
  finish(): void;
  /** Status and body of the answer. */
  readonly answer: Promise<string>;
}

describe("bodies that arrive", () => {
  let app: App;
  let port: number;
  const sockets: Socket[] = [];
  beforeEach(async () => {
    app = createApp({ logger: pino({ level: "silent" }), maxArrivingBytes: BOUND });
    publicApi(app, (open) => {
      takePlain(open, "/take", {
        schema: {},
        handler: ({ body }) => JSON.stringify({ bytes: (body as Buffer | undefined)?.length ?? 0 }),
      });
    });
    managementApi(
      app,
      async () => {
        throw new Refusal("not_authenticated", "Who are you?");
      },
      (scope) => {
        scope.post(
          "/manage",
          { config: { access: { scope: "any-key", on: "user" } } },
          async () => 1,
        );
      },
    );
    await app.listen({ port: 0, host: "127.0.0.1" });
    port = (app.server.address() as AddressInfo).port;
  });
  afterEach(async () => {
    for (const socket of sockets.splice(0)) socket.destroy();
    await app.close();
  });

  function begin(kind: "sized" | "chunked", { path = "/take", size = 3 * MEBIBYTE } = {}): Slow {
    const socket = connect(port, "127.0.0.1");
    sockets.push(socket);
    socket.on("error", () => {});
    const head = kind === "sized" ? `content-length: ${size}` : "transfer-encoding: chunked";
    socket.write(`POST ${path} HTTP/1.1\r\nhost: x\r\n${head}\r\n\r\n`);
    let received = "";
    const answer = new Promise<string>((resolve) => {
      socket.on("data", (bytes) => {
        received += bytes;
        const found = /^HTTP\/1\.1 (\d+)[\s\S]*\r\n\r\n(.*\})/.exec(received);
        if (found) resolve(`${found[1]} ${found[2]}`);
      });
      socket.on("close", () => resolve("closed"));
    });
    const write = (bytes: string | Buffer) =>
      new Promise<void>((resolve) => {
        socket.write(bytes, () => resolve());
      });
    return {
      socket,
      answer,
      async send(bytes) {
        const body = Buffer.alloc(bytes, 0x20);
        await write(
          kind === "sized"
            ? body
            : Buffer.concat([Buffer.from(`${bytes.toString(16)}\r\n`), body, Buffer.from("\r\n")]),
        );
      },
      finish: () => {
        if (kind === "chunked") socket.write("0\r\n\r\n");
      },
    };
  }

  it.each([
    ["sized", "chunked"],
    ["chunked", "sized"],
    ["sized", "sized"],
    ["chunked", "chunked"],
  ] as const)(
    "[ER-6] have a bound together: the oldest is refused for now, and all others are taken (%s, %s)",
    async (first, then) => {
      const hoarder = begin(first);
      await hoarder.send(2 * MEBIBYTE);
      await delay(100);
      const size = 2 * MEBIBYTE;
      const others = [begin(then, { size }), begin(then, { size })];
      for (const other of others) await other.send(1.25 * MEBIBYTE);
      expect(await hoarder.answer).toMatch(/^503 .*"code":"unavailable"/);
      for (const other of others) {
        await other.send(0.75 * MEBIBYTE - 1);
        await other.send(1);
        other.finish();
        expect(await other.answer).toBe(`200 {"bytes":${size}}`);
      }
      // What it still sends is read and forgotten, and counts no more.
      await hoarder.send(MEBIBYTE);
      hoarder.finish();
      const late = begin(then);
      await late.send(3 * MEBIBYTE);
      late.finish();
      expect(await late.answer).toMatch(/^200/);
    },
  );

  it("[ER-6] leave their room when they have come, or their clients have gone", async () => {
    for (let round = 0; round < 4; round++) {
      for (const kind of ["sized", "chunked"] as const) {
        const gone = begin(kind);
        await gone.send(2 * MEBIBYTE);
        await delay(30);
        gone.socket.destroy();
        const whole = begin(kind);
        await whole.send(3 * MEBIBYTE);
        whole.finish();
        expect(await whole.answer).toMatch(/^200/);
      }
    }
    const first = begin("chunked");
    await first.send(2 * MEBIBYTE);
    const second = begin("sized");
    await second.send(1.9 * MEBIBYTE);
    await delay(50);
    await first.send(10);
    first.finish();
    expect(await first.answer).toMatch(/^200/);
  });

  it("[ER-6] that are refused as too large count no more, however much comes", async () => {
    const large = begin("chunked");
    const patient = begin("sized");
    await patient.send(MEBIBYTE);
    for (let sent = 0; sent < 30; sent++) await large.send(MEBIBYTE);
    expect(await large.answer).toMatch(/^(413|503)/);
    await patient.send(2 * MEBIBYTE);
    expect(await patient.answer).toMatch(/^200/);
  });

  it.each(["/take", "/manage"])(
    "[ER-6] that come in pieces of a byte count with what each piece takes (%s)",
    async (path) => {
      const hoarder = begin("chunked", { path });
      // The engine keeps each piece as an object of its own.
      const pieces = Buffer.from("1\r\n \r\n".repeat(BOUND / 100));
      hoarder.socket.write(pieces);
      expect(await hoarder.answer).toMatch(/^503 /);
    },
  );

  it("[AC-10] of a caller who is not known no more is read than a key is looked for in", async () => {
    const stranger = begin("chunked", { path: "/manage" });
    await stranger.send(200 * 1024);
    expect(await Promise.race([stranger.answer, delay(100, "waits")])).toBe("waits");
    await stranger.send(100 * 1024);
    expect(await stranger.answer).toMatch(/^401 .*"not_authenticated"/);
    stranger.finish();
  });
});
