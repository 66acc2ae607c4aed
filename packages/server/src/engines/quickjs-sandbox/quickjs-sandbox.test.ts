import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import type { JsonObject } from "@hedgerow/core/json";
import { afterAll, describe, expect, it } from "vitest";
import { DEFAULT_LIMITS, type SourceFiles } from "../../transformations/sandbox.ts";
import { QuickJsSandbox } from "./quickjs-sandbox.ts";
import {
  propertiesAfter,
  readOutcome,
  recordHost,
  sampleEvents,
  startSource,
} from "./sandbox.setup.ts";

const sandbox = new QuickJsSandbox();
afterAll(() => sandbox.close());

const touch = "event.properties = { ran: true }; return event;";

/** Sources in the styles that published plugins come in; each touches the event alike. */
const STYLES: readonly (readonly [string, SourceFiles])[] = [
  ["a script that exports nothing", { "index.js": `function processEvent(event) { ${touch} }` }],
  [
    "a script with a constant",
    { "index.js": `const processEvent = async (event) => { ${touch} }` },
  ],
  ["CommonJS by exports", { "index.js": `exports.processEvent = function (event) { ${touch} }` }],
  [
    "CommonJS by module.exports",
    { "index.js": `module.exports = { processEvent(event) { ${touch} } }` },
  ],
  ["an ES module", { "index.js": `export function processEvent(event) { ${touch} }` }],
  ["a default export", { "index.js": `export default { processEvent(event) { ${touch} } }` }],
  [
    "a default export of a function",
    { "index.js": `export default function processEvent(event) { ${touch} }` },
  ],
  [
    "a class as default export",
    {
      "index.js": `class Plugin { processEvent(event) { return this.#run(event) } #run(event) { ${touch} } } module.exports = new Plugin()`,
    },
  ],
  [
    "TypeScript with imports of types only",
    {
      "index.ts": `import { Plugin, PluginEvent } from "@posthog/plugin-scaffold";
        import type { City } from "@maxmind/geoip2-node";
        const plugin: Plugin = { processEvent: async (event: PluginEvent) => { ${touch} } };
        module.exports = plugin;`,
    },
  ],
  [
    "TypeScript that exports nothing",
    {
      "index.ts": `import { PluginEvent } from "@posthog/plugin-scaffold"; function processEvent(event: PluginEvent) { ${touch} }`,
    },
  ],
  [
    "several files, with JSON",
    {
      "plugin.json": `{ "main": "src/index.ts" }`,
      "src/index.ts": `export { processEvent } from "./run.js";`,
      "src/run.ts": `import values from "./values.json"; import { more } from "../more";
        export const processEvent = (event: any) => { event.properties = { ran: values.ran && more }; return event };`,
      "src/values.json": `{ "ran": true }`,
      "more/index.js": "exports.more = true",
    },
  ],
  [
    "a main file in dist that was never built",
    {
      "plugin.json": `{ "main": "dist/index.js" }`,
      "src/index.ts": `export function processEvent(event: any) { ${touch} }`,
    },
  ],
  [
    "a main file by package.json",
    {
      "package.json": `{ "main": "lib/start.js" }`,
      "lib/start.js": `exports.processEvent = (event) => { ${touch} }`,
    },
  ],
  [
    "the library file of 2020",
    {
      "plugin.json": `{ "lib": "lib.js" }`,
      "lib.js": "function run(event) { event.properties = { ran: true } }",
      "index.js": "function processEvent(event) { run(event); return event }",
    },
  ],
  [
    "sloppy code that assigns undeclared variables",
    {
      "index.js": `counter = 0; processEvent = function (event) { counter++; found = counter; event.properties = { ran: found === 1 }; return event }`,
    },
  ],
  [
    "a dependency that was bundled along",
    {
      "index.js": `const run = require("left"); exports.processEvent = (e) => run(e)`,
      "node_modules/left/package.json": `{ "main": "main.js" }`,
      "node_modules/left/main.js": `module.exports = (event) => { ${touch} }`,
    },
  ],
  [
    "only processEventBatch",
    {
      "index.js":
        "async function processEventBatch(events) { return events.map((event) => ({ ...event, properties: { ran: true } })) }",
    },
  ],
];

describe("sources", () => {
  it.each(STYLES)("[TS-1] runs %s", async (_style, files) => {
    expect(await propertiesAfter(sandbox, files)).toEqual({ ran: true });
  });

  it("[TS-2] tells methods, jobs, schedules and metrics of a source", async () => {
    const outcome = await sandbox.compile({
      "index.js": `export function onEvent() {} export async function runEveryHour() {} export const setupPlugin = () => {};
        export const jobs = { later() {}, notAJob: 1 }; export const metrics = { total: "sum" };`,
    });
    expect(outcome).toMatchObject({
      kind: "compiled",
      program: {
        methods: ["setupPlugin", "onEvent", "runEveryHour"],
        jobs: ["later"],
        scheduledTasks: ["runEveryHour"],
        metrics: { total: "sum" },
      },
    });
  });

  it.each([
    ["index.js", "const a = 1;\nfunction processEvent(event) { return event +; }", 2, 46],
    ["index.ts", "export const a: = 1", 1, 17],
    ["index.js", "function processEvent(event) {", 1, 31],
    ["index.js", "const a = 1;\n\nnull.b;", 3, 1],
    ["index.js", "\nthrow new Error('no')", 2, 11],
  ])("[TS-3] tells where %s is wrong: %j", async (file, text, line, column) => {
    const outcome = await sandbox.compile({ [file]: text });
    expect(outcome).toMatchObject({ kind: "refused", problems: [{ file, line, column }] });
  });

  it.each([
    ["lib.js", { "lib.js": "const a = 1;\n  throw new TypeError('no')" }, 2, 13],
    ["index.js", { "lib.js": "const a = 1;\n", "index.js": "\nnull.b;" }, 2, 1],
    ["index.js", { "lib.js": "const a = 1;\r\nconst b = 2", "index.js": "\nconst c = ;" }, 2, 11],
    ["lib.js", { "lib.js": "const a = 1;\nconst b = ;" }, 2, 11],
    ["inner.js", { "lib.js": "", "index.js": "import './inner'", "inner.js": "\nnull.b" }, 2, 1],
  ])("[TS-3] tells where %s is wrong beside a library: %j", async (file, files, line, column) => {
    const all = { "plugin.json": '{ "lib": "lib.js" }', "index.js": "export {}", ...files };
    const outcome = await sandbox.compile(all);
    expect(outcome).toMatchObject({ kind: "refused", problems: [{ file, line, column }] });
  });

  it.each([
    ["throw 5", "5"],
    ["throw null", "null"],
    ["throw { code: 1 }", '{"code":1}'],
  ])(
    "[TS-3] tells of what is no error that it was thrown while loading: %s",
    async (text, told) => {
      const outcome = await sandbox.compile({ "index.js": text });
      expect(outcome).toMatchObject({
        kind: "refused",
        problems: [{ message: `${told} (thrown while loading; only an Error tells where)` }],
      });
    },
  );

  it.each([
    ["/etc/passwd", "export {}"],
    ["../index.js", "export {}"],
    ["a/../index.js", "export {}"],
  ])("[TS-6] refuses files named %s", async (path, text) => {
    expect(await sandbox.compile({ [path]: text })).toMatchObject({ kind: "refused" });
  });

  it("[TS-3] survives sources that choke parsers", async () => {
    for (const text of [
      "(".repeat(1_000_000),
      "[".repeat(100_000),
      "!".repeat(200_000),
      "\u0000",
      "`${".repeat(50_000),
    ]) {
      expect(await sandbox.compile({ "index.js": text })).toMatchObject({ kind: "refused" });
    }
    expect(await sandbox.compile({})).toMatchObject({ kind: "refused" });
  });
});

describe("events", () => {
  it("[TS-7] refuses what it has not loaded when it is closed", async () => {
    const closing = new QuickJsSandbox();
    await closing.compile({ "index.js": "export function processEvent() {}" });
    const compiling = closing.compile({ "index.js": "while (true) {}" });
    await new Promise((resolve) => setTimeout(resolve, 50));
    await closing.close();
    const refused = { kind: "refused", problems: [{ message: "the sandbox is closed" }] };
    expect(await compiling).toMatchObject(refused);
  });

  it("[TS-8] tells what was kept, changed, dropped and failed, in order", async () => {
    const instance = await startSource(
      sandbox,
      `function processEvent(event) {
        const kind = Number(event.event.split(" ")[1]) % 5;
        if (kind === 1) { event.properties.more = 1; return event }
        if (kind === 2) return null;
        if (kind === 3) { event.properties.half = 1; throw new RangeError("no") }
        if (kind === 4) return 7;
        return event;
      }`,
    );
    const outcomes = await instance.transform(sampleEvents(10));
    const expected = [
      "unchanged",
      { more: 1 },
      "drop",
      "failed: RangeError: no",
      expect.stringContaining("no event but 7"),
    ];
    expect(outcomes.map(readOutcome)).toEqual([...expected, ...expected]);
    await instance.stop();
  });

  it.each([
    ["a text", "throw 'oops'", "oops"],
    ["an object", "throw { a: 1 }", `{"a":1}`],
    ["nothing", "throw undefined", "undefined"],
    ["a hostile object", "throw { toJSON() { throw 1 } }", "something that cannot be described"],
    [
      "an error with a hostile name",
      "const e = new Error('x'); Object.defineProperty(e, 'name', { get() { throw 1 } }); throw e",
      "something that cannot be described",
    ],
  ])("[TS-9] describes %s that was thrown", async (_what, body, reason) => {
    const source = `function processEvent(event) { ${body} }`;
    expect(await propertiesAfter(sandbox, source)).toBe(`failed: ${reason}`);
  });

  /** Beyond what becomes a number: there, it is infinite, and `null` in JSON. */
  const BEYOND = 10n ** 999n + 7n;

  it("[TS-10] keeps integers that no number holds", async () => {
    const instance = await startSource(
      sandbox,
      "function processEvent(e) { e.properties.more = 1; return e }",
    );
    for (const big of [12_345_678_901_234_567_891n, -(10n ** 308n) - 1n, 10n ** 309n, -BEYOND]) {
      const [event = {}] = sampleEvents(1, { id: big, list: [big, { id: big }] });
      const [outcome] = await instance.transform([event]);
      expect(readOutcome(outcome)).toEqual({ id: big, list: [big, { id: big }], more: 1 });
    }
    await instance.stop();
  });

  it.each([
    ["answers the event", "return e"],
    ["answers a copy", "return { ...e, properties: { ...e.properties } }"],
    ["reads all", "Object.keys(e.properties); return e"],
    ["sets and deletes", "e.properties.x = 1; delete e.properties.x; return e"],
    [
      "looks into objects",
      "if (e.properties.list[1].id === 0 || e.$set.big === 0) return null; return e",
    ],
  ])(
    "[TS-10] is not said to change integers that no number holds where it %s",
    async (_what, body) => {
      const instance = await startSource(sandbox, `function processEvent(e) { ${body} }`);
      const big = 12_345_678_901_234_567_891n;
      const properties = { id: big, list: [BEYOND, { id: big }], beyond: BEYOND, $set: { big } };
      const events = sampleEvents(3, properties).map((event) => ({ ...event, $set: { big } }));
      for (const outcome of await instance.transform(events)) {
        expect(readOutcome(outcome)).toBe("unchanged");
      }
      await instance.stop();
    },
  );

  it("[TS-12] gives stored values with integers that no number holds as numbers", async () => {
    const record = recordHost();
    record.stored.set("a", { limit: 12_345_678_901_234_567_890n });
    const source = `export async function processEvent(event, { storage }) {
      event.properties.stored = await storage.get("a")
      return event
    }`;
    const after = await propertiesAfter(sandbox, source, { host: record.host });
    expect(after).toEqual({ stored: { limit: 12_345_678_901_234_567_000 } });
  });

  it.each([
    ["plainly loses counts of many persons", "await count()", 20, "fewer"],
    ["plainly loses none of one person", "await count()", 1, "all"],
    [
      "in turns that are chained loses none of many persons",
      "await (turn = turn.then(count))",
      20,
      "all",
    ],
  ])("[TS-35] counting in storage %s", async (_what, counting, persons, counted) => {
    const { host, stored } = recordHost();
    const instance = await startSource(
      sandbox,
      `let turn = Promise.resolve();
      export async function processEvent(event, { storage }) {
        const count = async () => { await storage.set("count", (await storage.get("count", 0)) + 1) };
        ${counting};
        return event;
      }`,
      { host },
    );
    const events = sampleEvents(20).map((event, index) => ({
      ...event,
      distinct_id: `person ${index % persons}`,
    }));
    for (const { kind } of await instance.transform(events)) expect(kind).toBe("keep");
    if (counted === "all") expect(stored.get("count")).toBe(20);
    else expect(stored.get("count")).toBeLessThan(20);
    await instance.stop();
  });

  it("[TS-11] keeps the order of one person's events while others wait", async () => {
    const instance = await startSource(
      sandbox,
      `const seen = [];
      async function processEvent(event) {
        await new Promise((done) => setTimeout(done, event.event === "event 0" ? 2_000 : 5));
        seen.push(event.event);
        event.properties = { seen: [...seen] };
        return event;
      }`,
    );
    const events = sampleEvents(4).map((event, index) => ({
      ...event,
      distinct_id: index < 2 ? "same" : `p${index}`,
    }));
    const outcomes = await instance.transform(events);
    const last = readOutcome(outcomes[1]) as JsonObject;
    expect(last["seen"]).toEqual(["event 2", "event 3", "event 0", "event 1"]);
    await instance.stop();
  });

  it("[TS-34] begins no event of a batch that is cut, be it computed or waited for", async () => {
    const WAITS = "await new Promise((done) => setTimeout(done, 50));";
    const COMPUTES = "const end = Date.now() + 20; while (Date.now() < end) {}";
    for (const work of [WAITS, COMPUTES]) {
      const cut = new AbortController();
      const record = recordHost();
      const instance = await startSource(
        sandbox,
        `async function processEvent(event) {
          if (event.event === "event 0") posthog.capture("begun");
          ${work}
          return event;
        }`,
        {
          host: { ...record.host, capture: async () => cut.abort() },
          limits: { ...DEFAULT_LIMITS, eventCpuMs: 10_000 },
        },
      );
      const events = sampleEvents(600).map((event) => ({ ...event, distinct_id: "same" }));
      const given = events.map((event) => ({ event, line: JSON.stringify(event), hops: 0 }));
      const kinds = (await instance.pass(given, cut.signal)).map(({ kind }) => kind);
      const count = kinds.indexOf("not-run");
      expect(count).toBeGreaterThan(0);
      expect(kinds).toEqual(kinds.map((_, index) => (index < count ? "keep" : "not-run")));
      // It goes on with the next.
      expect((await instance.pass(given.slice(1, 3))).map(({ kind }) => kind)).toEqual([
        "keep",
        "keep",
      ]);
      expect(await instance.pass(given, cut.signal)).toEqual(
        given.map(() => ({ kind: "not-run" })),
      );
      await instance.stop();
    }
  });
});

describe("meta and globals", () => {
  it("[TS-12] gives config, attachments, global, cache, storage, geoip, jobs, metrics and cursors", async () => {
    const record = recordHost();
    const instance = await startSource(
      sandbox,
      `export const jobs = { later: async (payload, meta) => { meta.global.job = payload; return meta.config.name } };
      export const metrics = { total: "sum", top: "max" };
      export async function setupPlugin({ global, config }) { await null; global.set = new Set([config.name]); }
      export async function processEvent(event, meta) {
        const { cache, storage, geoip, utils, jobs, metrics } = meta;
        cache.set("a", { b: 1 }); storage.set("k", [1]); await cache.set("gone", 1, 0.001);
        await new Promise((done) => setTimeout(done, 10));
        await cache.lpush("list", ["x", "y"]);
        await utils.cursor.init("c", 4);
        await jobs.later({ n: 1 }).runIn(1, "hour");
        await metrics.total.increment(3);
        await posthog.capture("captured", { of: event.event });
        event.properties = {
          live: meta.global.set.has("n"), cached: await cache.get("a", null), gone: await cache.get("gone", "default"),
          stored: await storage.get("k"), none: await storage.get("none", 5), count: [await cache.incr("i"), await cache.incr("i")],
          list: await cache.lrange("list", 0, -1), cursor: await utils.cursor.increment("c"),
          place: (await geoip.locate("89.160.20.112")).city.names.en, nowhere: await geoip.locate("10.0.0.1"),
          file: [meta.attachments.f.contents.toString(), meta.attachments.f.content_type, meta.attachments.f.file_name],
          attempt: new RetryError("again") instanceof Error,
        };
        return event;
      }`,
      {
        config: { name: "n" },
        attachments: {
          f: { contentType: "text/plain", fileName: "f.txt", contents: Buffer.from("grün") },
        },
        host: record.host,
      },
    );
    const [outcome] = await instance.transform(sampleEvents(1));
    expect(readOutcome(outcome)).toEqual({
      live: true,
      cached: { b: 1 },
      gone: "default",
      stored: [1],
      none: 5,
      count: [1, 2],
      list: ["y", "x"],
      cursor: 5,
      place: "Linköping",
      nowhere: null,
      file: ["grün", "text/plain", "f.txt"],
      attempt: true,
    });
    expect(record.captured).toEqual([
      { event: "captured", properties: { of: "event 0" }, of: "uuid-0" },
    ]);
    expect(record.jobs).toMatchObject([{ name: "later", payload: { n: 1 } }]);
    expect(record.metrics).toEqual([{ name: "total", kind: "sum", value: 3 }]);
    expect(await instance.call({ kind: "job", name: "later", payload: { n: 1 } })).toMatchObject({
      kind: "answered",
      value: "n",
    });
    expect(await instance.call({ kind: "job", name: "never", payload: null })).toEqual({
      kind: "absent",
    });
    expect(await instance.call({ kind: "runEveryMinute" })).toEqual({ kind: "absent" });
    await instance.stop();
  });

  it("[TS-13] calls onEvent, composeWebhook, schedules and teardown", async () => {
    const { host, lines } = recordHost();
    const instance = await startSource(
      sandbox,
      `export const composeWebhook = (event) => ({ url: "https://example.com/" + event.timestamp.getTime(), body: event.event });
      export async function onEvent(event) { await null; console.log("on", event.event) }
      export function runEveryMinute() { throw new RetryError("later") }
      export function teardownPlugin() { console.warn("bye") }`,
      { host },
    );
    const [event = {}] = sampleEvents(1);
    expect(await instance.call({ kind: "composeWebhook", event })).toMatchObject({
      kind: "answered",
      value: { url: `https://example.com/${Date.UTC(2026, 0, 2, 3, 4, 5)}`, body: "event 0" },
    });
    expect(await instance.call({ kind: "onEvent", event })).toMatchObject({
      kind: "answered",
      value: null,
    });
    expect(await instance.call({ kind: "runEveryMinute" })).toMatchObject({
      kind: "failed",
      wantsRetry: true,
    });
    await instance.call({ kind: "teardownPlugin" });
    expect(lines.map(({ level, message }) => [level, message])).toEqual([
      ["log", "on event 0"],
      ["warn", "bye"],
    ]);
    await instance.stop();
  });

  it.each([
    [
      "URL",
      `const u = new URL("../x?b=1#h", "https://user:p@bücher.example:8080/a/b/"); u.searchParams.append("c", "ü &"); u.port = "443"; u.pathname = "/neu e"; return u.href`,
      "https://user:p@xn--bcher-kva.example/neu%20e?b=1&c=%C3%BC+%26#h",
    ],
    [
      "URL of url",
      `const { URL, parse } = require("url"); return [new URL("http://a.b/c").host, parse("http://a.b/c?d=1", true).query.d]`,
      ["a.b", "1"],
    ],
    [
      "URLSearchParams",
      `const p = new URLSearchParams({ a: "1" }); p.set("b", "x y"); p.delete("a"); return [p.toString(), [...new URLSearchParams("?a=1&a=2").getAll("a")]]`,
      ["b=x+y", ["1", "2"]],
    ],
    [
      "dates by language",
      `return [new Date(0).toLocaleDateString("de-DE"), new Date(0).toLocaleString("en-US", { timeZone: "America/New_York" }), new Date(0).getHours()]`,
      ["1.1.1970", new Date(0).toLocaleString("en-US", { timeZone: "America/New_York" }), 0],
    ],
    [
      "Intl",
      `return [new Intl.NumberFormat("de-DE", { style: "currency", currency: "EUR" }).format(1234.5), new Intl.PluralRules("en").select(1), new Intl.DisplayNames("en", { type: "region" }).of("SE"), (1e6).toLocaleString("en-IN"), ["ä", "z", "a"].sort((x, y) => x.localeCompare(y))]`,
      ["1.234,50\u00a0€", "one", "Sweden", "10,00,000", ["a", "ä", "z"]],
    ],
    [
      "wrong options of Intl",
      `try { new Intl.NumberFormat("en", { style: "nothing" }) } catch (e) { return e instanceof RangeError }`,
      true,
    ],
    [
      "crypto of Node.js",
      `const c = require("crypto"); return [c.createHash("md5").update("a").update("b").digest("hex"), c.createHmac("sha256", "k").update("ü").digest("base64"), c.randomUUID().length, c.randomBytes(4).length]`,
      ["187ef4436122d1cc2f40dc2b92f0eba0", null, 36, 4],
    ],
    [
      "crypto.subtle",
      `return crypto.subtle.digest("SHA-1", new TextEncoder().encode("abc")).then((d) => Buffer.from(d).toString("hex"))`,
      "a9993e364706816aba3e25717850c26c9cd0d89d",
    ],
    [
      "Buffer",
      `return [Buffer.from("grün").toString("base64"), Buffer.from("Z3LDvG4=", "base64").toString(), Buffer.byteLength("ü")]`,
      ["Z3LDvG4=", "grün", 2],
    ],
    [
      "encodings",
      `return [new TextDecoder().decode(new TextEncoder().encode("é😀")), btoa("a"), atob("YQ=="), new TextDecoder("utf-16le").decode(new Uint8Array([97, 0]))]`,
      ["é😀", "YQ==", "a", "a"],
    ],
    [
      "structuredClone",
      `const a = { d: new Date(0), s: new Set([1]) }; a.self = a; const b = structuredClone(a); return [b.self === b, b.s.has(1), b.d.getTime()]`,
      [true, true, 0],
    ],
    [
      "zlib",
      `const z = require("zlib"); return z.gunzipSync(z.gzipSync("text")).toString()`,
      "text",
    ],
  ])("[TS-14] has %s", async (_what, body, expected) => {
    const seen = (await propertiesAfter(
      sandbox,
      `async function processEvent(event) { event.properties = { seen: await (async () => { ${body} })() }; return event }`,
    )) as JsonObject;
    if (Array.isArray(expected)) {
      const list = seen["seen"] as unknown[];
      expect(list).toEqual(expected.map((item, index) => item ?? list[index]));
    } else expect(seen["seen"]).toEqual(expected);
  });

  it("[TS-15] fetches from granted hosts only, and never from private networks", async () => {
    const server = createServer((request, response) => {
      if (request.url === "/away")
        response.writeHead(302, { location: "http://other.invalid/" }).end();
      else if (request.url === "/large") response.end("x".repeat(3_000_000));
      else {
        request.on("data", (chunk) => response.write(chunk));
        request.on("end", () => response.end(`${request.method} ${request.headers["x-a"]}`));
      }
    });
    await new Promise<void>((done) => server.listen(0, "127.0.0.1", done));
    const host = `127.0.0.1:${(server.address() as AddressInfo).port}`;
    const open = new QuickJsSandbox({ privateNetworks: ["127.0.0.0/8"] });
    const source = `import fetch from "node-fetch";
      const text = (promise) => promise.then((r) => r.text(), (e) => "refused: " + e.message);
      export async function processEvent(event) {
        event.properties = {
          ok: await text(fetch("http://${host}/", { method: "POST", headers: { "X-A": "1" }, body: "ü" })),
          other: await text(fetch("http://example.com/")),
          away: await text(fetch("http://${host}/away")),
          large: await text(fetch("http://${host}/large")),
          file: await text(fetch("file:///etc/passwd")),
        };
        return event;
      }`;
    try {
      const granted = { allowedHosts: [host], limits: DEFAULT_LIMITS };
      const seen = (await propertiesAfter(open, source, granted)) as JsonObject;
      expect(seen).toEqual({
        ok: "üPOST 1",
        other: expect.stringContaining("not granted"),
        away: expect.stringContaining("refused"),
        large: expect.stringContaining("refused"),
        file: expect.stringContaining("only http and https"),
      });
      const inside = (await propertiesAfter(sandbox, source, granted)) as JsonObject;
      expect(inside["ok"]).toContain("not on the public internet");
      const ungranted = (await propertiesAfter(open, source)) as JsonObject;
      expect(ungranted["ok"]).toContain("not granted");
    } finally {
      await open.close();
      await new Promise((done) => server.close(done));
    }
  });

  it("[TS-15] knows granted hosts by their usual ports too", async () => {
    const source = `export async function processEvent(event) {
      event.properties = { why: await fetch("http://127.0.0.1/").then(() => "", (e) => e.message) };
      return event;
    }`;
    const seen = (await propertiesAfter(sandbox, source, {
      allowedHosts: ["127.0.0.1:80"],
    })) as JsonObject;
    expect(seen).toEqual({ why: expect.stringContaining("not on the public internet") });
  });

  it("[TS-16] tells why setupPlugin failed", async () => {
    const start = (source: string) =>
      startSource(sandbox, source, { limits: { ...DEFAULT_LIMITS, waitMs: 200 } });
    await expect(
      start("export async function setupPlugin() { throw new Error('no key') }"),
    ).rejects.toThrow("no key");
    await expect(start("export const setupPlugin = () => new Promise(() => {})")).rejects.toThrow(
      "never settles",
    );
    await expect(start("export const setupPlugin = () => { while (true) {} }")).rejects.toThrow(
      "1000 ms",
    );
  });

  it("[TS-16] counts the ticks of a timer that setupPlugin has set towards its limit no longer once it has started", async () => {
    const source = `let ticks = 0, sum = 0;
      export function setupPlugin() {
        setInterval(() => { for (let i = 0; i < 100_000; i += 1) sum += i; ticks += 1; }, 1);
      }
      export function processEvent(event) { event.properties = { ticks }; return event; }`;
    const { host, lines } = recordHost();
    const limits = { ...DEFAULT_LIMITS, loadCpuMs: 250, eventCpuMs: 20_000 };
    const instance = await startSource(sandbox, source, { limits, host });
    // Together they compute for far longer than starting may take.
    let seen = 0;
    while (seen < 300) {
      const { ticks } = readOutcome((await instance.transform(sampleEvents(1)))[0]) as JsonObject;
      expect(ticks).toBeGreaterThanOrEqual(seen);
      seen = Number(ticks);
      await new Promise((done) => setTimeout(done, 20));
    }
    await instance.stop();
    expect(lines).toEqual([]);
  });
});
