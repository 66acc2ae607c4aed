import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { QuickJsSandbox } from "../quickjs-sandbox.ts";
import { propertiesAfter } from "../sandbox.setup.ts";
import { bothWays } from "./as-in-node.setup.ts";

/** Answers what it was asked, less what each client adds by its own habit. */
const server = createServer(async (request, response) => {
  let body = "";
  for await (const chunk of request.setEncoding("latin1")) body += chunk;
  const { accept, "content-type": type, "x-a": extra } = request.headers;
  const boundary = /boundary=(.*)/.exec(type ?? "")?.[1] ?? "none";
  const told = { method: request.method, accept, type, extra, body };
  if (request.url === "/moved") response.writeHead(302, { location: "/after" });
  if (request.url === "/odd") response.writeHead(418, "Very Odd");
  if (request.url === "/empty") response.writeHead(204);
  response.end(JSON.stringify(told).replaceAll(boundary, "BOUNDARY"));
});
let sandbox: QuickJsSandbox;
let host = "";
beforeAll(async () => {
  sandbox = new QuickJsSandbox({ threads: 1, privateNetworks: ["127.0.0.1"] });
  await new Promise<void>((done) => server.listen(0, "127.0.0.1", done));
  host = `127.0.0.1:${(server.address() as AddressInfo).port}`;
});
afterAll(async () => {
  await sandbox.close();
  server.closeAllConnections();
  await new Promise((done) => server.close(done));
});

const settings = () => ({ allowedHosts: [host] });
const form = `((form) => { for (const field of FIELDS) form.append(...field); return form })(new FormData())`;
const filled = (fields: string) => form.replace("FIELDS", fields);

describe("fetch", () => {
  it.each([
    ["", "{}"],
    ["", `{ headers: { Accept: "text/plain", "x-a": "é" } }`],
    ["", `{ method: "POST", body: ${filled(`[["a", 'é"\\n'], ["a", 2], ["n\\n", ""]]`)} }`],
    [
      "",
      `{ method: "POST", body: ${filled(`[["f", new Blob([new Uint8Array([0, 200])]), 'x".bin'], ["g", new File(["t"], "t.txt", { type: "Text/Plain" })]]`)} }`,
    ],
    ["", `{ method: "POST", body: new Blob(["x"], { type: "TEXT/CSS" }) }`],
    [
      "",
      `{ method: "POST", duplex: "half", body: new ReadableStream({ start(c) { c.enqueue(new Uint8Array([65])); c.enqueue(new Uint8Array([66])); c.close() } }) }`,
    ],
    ["", `{ method: "POST", body: new Response("kept").body, duplex: "half" }`],
    [
      "",
      `new Request("http://HOST/", { method: "PUT", body: "b", headers: { "x-a": "1" } }).clone()`,
    ],
    ["moved", `{ method: "POST", body: "b" }`],
    ["", `{ body: "b" }`],
    ["", `{ method: "HEAD", body: "b" }`],
    ["", `{ headers: { "x-a": "a\\nb" } }`],
    ["", `{ headers: { "x-a": "€" } }`],
    ["", `{ headers: { "bad name": "1" } }`],
  ])("[TS-14] asks /%s with %s as Node.js does", async (path, options) => {
    const given = options.startsWith("new Request") ? "" : `"http://${host}/${path}", `;
    const call = `fetch(${given}${options.replace("HOST", host)}).then((answer) => answer.json())`;
    const [inside, outside] = await bothWays(sandbox, call, settings());
    expect(inside).toEqual(outside);
  });

  it.each([
    ["odd", "[answer.status, answer.statusText, answer.ok]"],
    ["", "[answer.type, answer.bodyUsed, answer.body.locked]"],
    ["empty", "[answer.body, answer.text(), answer.bodyUsed]"],
    [
      "",
      "(async () => { let n = 0; for await (const part of answer.body) n += part.length; return [n, answer.bodyUsed] })()",
    ],
    [
      "",
      "(async () => { const reader = answer.body.getReader(); const { value } = await reader.read(); return [value.length, (await reader.read()).done] })()",
    ],
    ["", "(async () => { answer.body.getReader(); return answer.text() })()"],
    ["", "(async () => [await answer.clone().text() === await answer.text(), answer.bodyUsed])()"],
    ["", "(async () => { await answer.text(); return answer.clone() })()"],
    ["", "(async () => { await answer.body.cancel(); return answer.text() })()"],
  ])("[TS-14] an answer of /%s has %s as in Node.js", async (path, expression) => {
    const call = `fetch("http://${host}/${path}").then((answer) => ${expression})`;
    const [inside, outside] = await bothWays(sandbox, call, settings());
    expect(inside).toEqual(outside);
  });

  it("[TS-14] ends after the time that node-fetch is given as an option", async () => {
    const silent = createServer(() => {});
    await new Promise<void>((done) => silent.listen(0, "127.0.0.1", done));
    const at = `127.0.0.1:${(silent.address() as AddressInfo).port}`;
    const source = `async function processEvent(event) {
      const failed = await require("node-fetch")("http://${at}/", { timeout: 20 }).catch((error) => error);
      event.properties = { failed: [failed.name, failed.type] };
      return event;
    }`;
    try {
      const seen = await propertiesAfter(sandbox, source, { allowedHosts: [at] });
      expect(seen).toEqual({ failed: ["FetchError", "request-timeout"] });
    } finally {
      silent.closeAllConnections();
      await new Promise((done) => silent.close(done));
    }
  });

  it("[TS-14] waits for nothing more once it is answered, whatever time it was given", async () => {
    const source = `async function processEvent() {
      await require("node-fetch")("http://${host}/", { timeout: 60_000 });
      await new Promise(() => {});
    }`;
    const seen = await propertiesAfter(sandbox, source, settings());
    expect(seen).toBe("failed: it waits for a promise that never settles");
  });
});

const cookies = `new Headers([["set-cookie", "a=1, x"], ["b", "1"], ["set-cookie", "c=2"], ["B", "2"]])`;

it.each([
  `[...${cookies}]`,
  `${cookies}.get("set-cookie")`,
  `new Headers("a")`,
  `new Headers([["a"]])`,
  `new Headers({ a: " x\\t" }).get("A")`,
  `new Response("x", { status: 99 })`,
  `new Response("x", { status: 204 })`,
  `new Response(null, { status: 204 }).body`,
  `new Response("{}").json()`,
  `new Response("x", { headers: { "content-type": "Text/X" } }).blob().then(({ type, size }) => [type, size])`,
  `Response.error().type`,
  `Response.redirect("http://a.test/b").headers.get("location")`,
  `Response.json(undefined)`,
  `new Response(new URLSearchParams("a=1&b=é")).formData().then((form) => [...form])`,
  `new Response("a").formData()`,
  `new Request("http://a.test").signal.aborted`,
  `new Request("http://a.test", { method: "POST", body: "b" }).clone().text()`,
  `new Request("/relative")`,
  `new Blob(["hello"], { type: "A/B" }).slice(-3, -1, "C/D").text()`,
  `[new Blob(["hello"]).slice(1).size, new Blob(["a", new Blob(["b"])]).size]`,
  `new Blob("text")`,
  `(async () => { let text = ""; for await (const part of new Blob(["hé"]).stream()) text += part.length; return text })()`,
  `[new File(["x"], "n", { lastModified: 5 }).lastModified, new File(["x"], 7).name]`,
  `((form) => { form.append("a", 1); form.append("a", new Blob(["x"])); form.set("b", null); form.set("a", "only"); return [[...form], form.get("c"), form.has("a")] })(new FormData())`,
  `((form) => { form.append("f", new Blob(["x"], { type: "a/b" })); const { name, type, size } = form.get("f"); return [name, type, size] })(new FormData())`,
  `((event) => { event.preventDefault(); return [event.defaultPrevented, event.detail] })(new CustomEvent("x", { detail: 5 }))`,
  `((event) => { event.preventDefault(); return event.defaultPrevented })(new Event("x", { cancelable: true }))`,
  `(async () => { const all = []; let n = 0; const stream = new ReadableStream({ pull(c) { n += 1; if (n > 3) c.close(); else c.enqueue(n) } }); for await (const one of stream) all.push(one); return all })()`,
  `(async () => { const stream = new ReadableStream({ start(c) { c.error(new RangeError("x")) } }); for await (const one of stream) return one })()`,
  `(async () => { let reason; const stream = new ReadableStream({ start(c) { c.enqueue(1) }, cancel(why) { reason = why } }); await stream.cancel("enough"); return reason })()`,
  `((stream) => { stream.getReader(); return stream.getReader() })(new ReadableStream())`,
])("[TS-14] %s is what it is in Node.js", async (expression) => {
  const [inside, outside] = await bothWays(sandbox, expression);
  expect(inside).toEqual(outside);
});
