import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { gzipSync } from "node:zlib";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type GuardedRequestOptions, requestGuarded } from "./guarded-request.ts";

let server: Server;
let other: Server;
const seen: {
  method: string | undefined;
  url: string | undefined;
  headers: IncomingMessage["headers"];
}[] = [];

const answer = (request: IncomingMessage, response: ServerResponse) => {
  seen.push({ method: request.method, url: request.url, headers: request.headers });
  switch (request.url) {
    case "/large":
      response.end(Buffer.alloc(100_000));
      break;
    case "/endless":
      response.writeHead(302, { location: "/endless" }).end();
      break;
    case "/away":
      response.writeHead(302, { location: `http://127.0.0.1:${portOf(other)}/there` }).end();
      break;
    case "/inside":
      response.writeHead(302, { location: "http://[::1]:9/" }).end();
      break;
    case "/file":
      response.writeHead(302, { location: "file:///etc/passwd" }).end();
      break;
    case "/packed":
      response.writeHead(200, { "content-encoding": "gzip" }).end(gzipSync("hello"));
      break;
    case "/bomb":
      response.writeHead(200, { "content-encoding": "gzip" }).end(gzipSync(Buffer.alloc(100_000)));
      break;
    case "/torn":
      response.writeHead(200, { "content-encoding": "br" }).end("hello");
      break;
    case "/unknown":
      response.writeHead(200, { "content-encoding": "own" }).end("hello");
      break;
    case "/empty":
      response.writeHead(204, { "content-encoding": "gzip" }).end();
      break;
    case "/silent":
      break;
    default:
      response.writeHead(200, { "x-kind": "plain" }).end(`hello ${request.url}`);
  }
};

const portOf = (of: Server) => (of.address() as AddressInfo).port;
const listen = async () => {
  const made = createServer(answer);
  await new Promise<void>((resolve) => made.listen(0, "127.0.0.1", resolve));
  return made;
};

beforeAll(async () => {
  server = await listen();
  other = await listen();
});
afterAll(() => {
  for (const one of [server, other]) {
    one.closeAllConnections();
    one.close();
  }
});

const open: GuardedRequestOptions = {
  timeoutMs: 60_000,
  maxBytes: 1000,
  maxRedirects: 3,
  isAllowed: ({ url }) => Number(url.port) === portOf(server),
};
const closed: GuardedRequestOptions = { timeoutMs: 60_000, maxBytes: 1000, maxRedirects: 3 };
const at = (path: string, host = "127.0.0.1") => `http://${host}:${portOf(server)}${path}`;

test("an allowed host is asked and its answer handed over", async () => {
  expect(await requestGuarded(at("/x?token=1"), open)).toMatchObject({
    kind: "answered",
    status: 200,
    headers: { "x-kind": "plain" },
    body: Buffer.from("hello /x?token=1"),
  });
});

test("[TM-20] however an inside address is written, nothing is asked there", async () => {
  seen.length = 0;
  const port = portOf(server);
  for (const host of [
    "127.0.0.1",
    "localhost",
    "2130706433",
    "0x7f.1",
    "0177.0.0.1",
    "127.1",
    "0.0.0.0",
    "[::1]",
    "[::ffff:127.0.0.1]",
    "[::ffff:7f00:1]",
    "[::127.0.0.1]",
    "[64:ff9b::7f00:1]",
    "[2002:7f00:1::]",
    "169.254.169.254",
    "10.0.0.1",
    "[fe80::1]",
    "[fc00::1]",
  ]) {
    expect(await requestGuarded(`http://${host}:${port}/`, closed), host).toMatchObject({
      kind: "refused",
      reason: "private",
    });
  }
  expect(seen).toEqual([]);
});

test("[TM-20] a redirect is checked like the first address", async () => {
  expect(await requestGuarded(at("/inside"), open)).toMatchObject({ reason: "private" });
  expect(await requestGuarded(at("/away"), open)).toMatchObject({ reason: "private" });
  expect(await requestGuarded(at("/file"), open)).toMatchObject({ reason: "url" });
  expect(await requestGuarded(at("/endless"), open)).toMatchObject({ reason: "redirects" });
});

test("a redirect to another host does not carry secrets along", async () => {
  seen.length = 0;
  const everywhere = { ...open, isAllowed: () => true };
  const headers = { authorization: "Bearer x", accept: "text/plain" };
  const outcome = await requestGuarded(at("/away"), { ...everywhere, headers });
  expect(outcome).toMatchObject({ status: 200, body: Buffer.from("hello /there") });
  expect(seen.map(({ headers: sent }) => [sent.authorization, sent.accept])).toEqual([
    ["Bearer x", "text/plain"],
    [undefined, "text/plain"],
  ]);
});

test("[TM-21] what travels packed is unpacked, within the bound", async () => {
  const hello = { status: 200, body: Buffer.from("hello") };
  expect(await requestGuarded(at("/packed"), open)).toMatchObject(hello);
  expect(await requestGuarded(at("/unknown"), open)).toMatchObject(hello);
  expect(await requestGuarded(at("/empty"), open)).toMatchObject({ status: 204 });
  expect(await requestGuarded(at("/bomb"), open)).toMatchObject({
    kind: "refused",
    reason: "size",
  });
  expect(await requestGuarded(at("/torn"), open)).toMatchObject({
    kind: "failed",
    detail: expect.stringContaining("its answer cannot be unpacked"),
  });
  const asItCame = await requestGuarded(at("/torn"), { ...open, staysPacked: true });
  expect(asItCame).toMatchObject(hello);
});

test("redirects are followed, handed over or refused", async () => {
  expect(await requestGuarded(at("/endless"), { ...open, redirect: "manual" })).toMatchObject({
    status: 302,
    headers: { location: "/endless" },
  });
  expect(await requestGuarded(at("/endless"), { ...open, redirect: "error" })).toMatchObject({
    kind: "refused",
    reason: "redirects",
    detail: expect.stringContaining("unexpected redirect"),
  });
  expect(await requestGuarded(at("/x"), { ...open, redirect: "error" })).toMatchObject({
    status: 200,
  });
});

test("a post that is sent elsewhere asks there, without its body and what tells of that", async () => {
  seen.length = 0;
  const outcome = await requestGuarded(at("/away"), {
    ...open,
    isAllowed: () => true,
    method: "POST",
    headers: { "Content-Type": "text/plain" },
    body: "secret",
  });
  expect(outcome).toMatchObject({ status: 200, statusText: "OK" });
  const told = seen.map(({ method, headers }) => {
    return [method, headers["content-length"], headers["content-type"]];
  });
  expect(told).toEqual([
    ["POST", "6", "text/plain"],
    ["GET", undefined, undefined],
  ]);
});

test("answers are bounded in size and time, and what cannot be reached says so", async () => {
  expect(await requestGuarded(at("/large"), open)).toMatchObject({ reason: "size" });
  expect(await requestGuarded(at("/silent"), { ...open, timeoutMs: 50 })).toMatchObject({
    kind: "failed",
    detail: expect.stringContaining("did not answer in time"),
  });
  const nobody = { ...open, isAllowed: () => true };
  expect(await requestGuarded("http://127.0.0.1:1/?secret=1", nobody)).toEqual({
    kind: "failed",
    detail: "http://127.0.0.1:1/ cannot be reached (ECONNREFUSED).",
  });
  for (const text of ["", "nonsense", "ftp://example.org/", "javascript:1"]) {
    expect(await requestGuarded(text, open)).toMatchObject({ kind: "refused", reason: "url" });
  }
});

test("[TM-82] what no request may hold is refused, and its value not told", async () => {
  for (const [given, told] of [
    [{ headers: { "private-token": "s3cret\r\nx: y" } }, /"private-token"/],
    [{ headers: { authorization: "Bearer s3cret\u2019" } }, /"authorization"/],
    [{ headers: { "no name": "s3cret" } }, /"no name"/],
    [{ method: "NO METHOD" }, /"NO METHOD"/],
  ] as const) {
    const outcome = await requestGuarded(at("/x"), { ...open, ...given });
    expect(outcome).toMatchObject({ kind: "refused", reason: "request" });
    const { detail } = outcome as { detail: string };
    expect(detail).toMatch(told);
    expect(detail).not.toContain("s3cret");
  }
});

test("[TM-83] how a request travels is not for whoever asks to say", async () => {
  seen.length = 0;
  const headers = { Host: "other", "Content-Length": "999", "transfer-encoding": "chunked" };
  const more = { Connection: "upgrade", upgrade: "h2c", expect: "100-continue", "x-a": "1" };
  const options = { ...open, method: "POST", headers: { ...headers, ...more }, body: "b" };
  expect(await requestGuarded(at("/x"), options)).toMatchObject({ kind: "answered", status: 200 });
  expect(seen[0]?.headers).toMatchObject({
    ...{ host: `127.0.0.1:${portOf(server)}`, "content-length": "1", "x-a": "1" },
  });
  for (const name of ["transfer-encoding", "upgrade", "expect"]) {
    expect(seen[0]?.headers).not.toHaveProperty(name);
  }
});
