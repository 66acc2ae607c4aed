import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, relative } from "node:path";
import { Worker } from "node:worker_threads";
import { afterAll, afterEach, describe, expect, it, vi } from "vitest";
import { DEFAULT_LIMITS, sandboxLimitsOf } from "../../transformations/sandbox.ts";
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
afterEach(() => vi.unstubAllEnvs());

const secret = "of the host, never to be seen";

/** Expressions that try to see what is outside; each must see nothing. */
const PEEKS: readonly (readonly [string, string])[] = [
  ["process", "typeof process"],
  ["the environment", "globalThis.process && process.env"],
  ["a process by a constructor", "this.constructor.constructor('return typeof process')()"],
  ["a process by a function's constructor", "(() => {}).constructor('return typeof process')()"],
  [
    "a process by an async constructor",
    "(async () => {}).constructor('return typeof process') && typeof process",
  ],
  [
    "a process by a generator's constructor",
    "(function* () {}).constructor('yield typeof process')().next().value",
  ],
  ["a process by eval", "eval('typeof process')"],
  ["a process by indirect eval", "(0, eval)('typeof process')"],
  ["a process by the console", "console.log.constructor('return typeof process')()"],
  ["a process by fetch", "fetch.constructor('return typeof process')()"],
  ["a process by a timer", "setTimeout.constructor('return typeof process')()"],
  ["a process by meta", "meta.cache.get.constructor('return typeof process')()"],
  [
    "a process by an error",
    "(() => { try { null.x } catch (e) { return e.constructor.constructor('return typeof process')() } })()",
  ],
  [
    "a process by a host error",
    "(() => { try { new URL('') } catch (e) { return e.constructor.constructor('return typeof process')() } })()",
  ],
  ["a process by a proxy", "new Proxy(function () {}, {}).constructor('return typeof process')()"],
  ["a process by Reflect", "Reflect.construct(Function, ['return typeof process'])()"],
  [
    "a process by a getter of the stack",
    "(() => { const e = new Error(); Error.prepareStackTrace = (_, s) => s; return typeof process + (e.stack && ''); })()",
  ],
  ["the main module", "typeof module.parent + typeof require.main"],
  ["the cache of modules", "typeof require.cache"],
  ["the bridge to the host", "typeof __bridge"],
  ["the guest's own functions", "typeof __guest"],
  ["WebAssembly", "typeof WebAssembly"],
  ["threads", "typeof Worker + typeof Atomics"],
  ["the engine's own modules", "typeof std + typeof os"],
  ["the caller", "(function f() { return typeof f.caller })()"],
  ["the arguments of the caller", "typeof work"],
  ["files", "(() => { try { return typeof require('fs') } catch (e) { return 'undefined' } })()"],
  [
    "files by a name put together",
    "(() => { try { return typeof require(['f', 's'].join('')) } catch (e) { return 'undefined' } })()",
  ],
  [
    "processes",
    "(() => { try { return typeof require('child' + '_process') } catch (e) { return 'undefined' } })()",
  ],
  [
    "native modules",
    "(() => { try { return typeof process.binding('fs') } catch (e) { return 'undefined' } })()",
  ],
  [
    "the zone of the machine",
    "new Date().getTimezoneOffset() === 0 && new Intl.DateTimeFormat().resolvedOptions().timeZone === 'UTC' ? 'undefined' : 'seen'",
  ],
];

describe("what code in the sandbox can see", () => {
  it.each(PEEKS)("[TS-20] sees nothing of %s", async (_what, expression) => {
    vi.stubEnv("HEDGEROW_TEST_SECRET", secret);
    const seen = await propertiesAfter(
      sandbox,
      `async function processEvent(event, meta) { event.properties = { seen: String(await (${expression})) }; return event; }`,
    );
    const { seen: text } = seen as { seen: string };
    expect(text).not.toContain(secret);
    expect(text.replaceAll("undefined", "")).toBe("");
  });

  it.each([
    ["import('fs')", "import('fs')"],
    ["import of a name put together", "import(['f', 's'].join(''))"],
    ["import of a file", "import('/etc/' + 'passwd')"],
    ["import of a URL", "import('data:text/javascript,' + 'export default 1')"],
  ])("[TS-20] refuses %s while running", async (_what, expression) => {
    const seen = await propertiesAfter(
      sandbox,
      `async function processEvent(event) {
        event.properties = { seen: await ${expression}.then(() => "loaded", () => "refused") };
        return event;
      }`,
    );
    expect(seen).toEqual({ seen: "refused" });
  });

  it.each([
    ["fs", `import fs from "fs"; export const processEvent = (e) => e`],
    ["an absolute path", `import "/etc/passwd"; export const processEvent = (e) => e`],
    ["a path upwards", `import "../../../../etc/passwd"; export const processEvent = (e) => e`],
    ["a package of the server", `require("fastify"); exports.processEvent = (e) => e`],
  ])("[TS-6] refuses a source that imports %s, with its place", async (_what, source) => {
    const outcome = await sandbox.compile({ "index.js": source });
    expect(outcome).toMatchObject({
      kind: "refused",
      problems: [{ file: "index.js", line: 1, message: expect.stringContaining("Cannot import") }],
    });
  });

  it.each([
    ["joined", (path: string) => `require("${path}/" + name + ".json")`],
    ["joined of pieces", (path: string) => `require("." + "./" + ("${path}/" + name) + ".json")`],
    [
      "written with escapes",
      (path: string) => `require(\`${path.replaceAll("..", "\\x2e\\u{2E}")}/\${name}.json\`)`,
    ],
    [
      "imported",
      (path: string) => `await import(name ? "${path}/" + name : \`${path}/\${name}.json\`)`,
    ],
  ])(
    "[TS-6] finds no file of the host by a path that is put together, when %s",
    async (_how, use) => {
      const folder = mkdtempSync(join(tmpdir(), "hedgerow-"));
      try {
        writeFileSync(join(folder, "key.json"), JSON.stringify({ secret }));
        for (const path of [
          `${"../".repeat(40)}.${folder}`,
          relative(process.cwd(), folder),
          ".",
        ]) {
          const source = `export async function processEvent(event) {
          const name = "key";
          try { event.properties.found = ${use(path.startsWith(".") ? path : `./${path}`)} }
          catch (error) { event.properties.found = "nothing" }
          return event;
        }`;
          const files = { "index.js": `import "./deep/er.js"; ${source}`, "deep/er.js": "// ../" };
          expect(await propertiesAfter(sandbox, files)).toEqual({ found: "nothing" });
        }
      } finally {
        rmSync(folder, { recursive: true });
      }
    },
  );

  it("[TS-6] refuses a source with more steps upwards than can be told from those to the host", async () => {
    const compile = (steps: number) =>
      sandbox.compile({
        "index.js": `export const processEvent = (event) => event; // ${"../".repeat(steps)}`,
      });
    expect((await compile(5_000)).kind).toBe("compiled");
    const spreads = `const $ = {}, o = {}; o.$ = { ${"...$, ...o, ".repeat(6_000)} };`;
    expect(
      (await sandbox.compile({ "index.js": `${spreads} ${"o.$; ".repeat(6_000)}` })).kind,
    ).toBe("compiled");
    expect(await compile(5_001)).toMatchObject({
      kind: "refused",
      problems: [{ file: "index.js", message: "more than 5000 steps upwards in paths" }],
    });
  });

  it("[TS-3] tells places in the given files, whatever they say of how they were made", async () => {
    const map = { version: 3, sources: ["made.ts"], names: [], mappings: "AAAA" };
    const encoded = Buffer.from(JSON.stringify(map)).toString("base64");
    const made = `//# sourceMappingURL=data:application/json;base64,${encoded}`;
    const compile = (text: string) =>
      sandbox.compile({ "index.js": `import "./b"`, "b.js": `${text}\n${made}` });
    expect(await compile("const a = 1;\n  throw new Error('no')")).toMatchObject({
      problems: [{ file: "b.js", line: 2, column: 13 }],
    });
    expect(await compile("const a = 1;\nif (a) {")).toMatchObject({
      problems: [
        { file: "b.js", line: 3, column: made.length + 1, message: "Unexpected end of file" },
      ],
    });
  });

  it("[TS-21] keeps the memory of one instance from another, of the same source too", async () => {
    const source = `let count = 0;
      function processEvent(event, meta) {
        meta.global.count = (meta.global.count ?? 0) + 1;
        globalThis.leak = (globalThis.leak ?? 0) + 1;
        Array.prototype.leak = globalThis.leak;
        count += 1;
        event.properties = { counts: [count, meta.global.count, globalThis.leak, [].leak] };
        return event;
      }`;
    const one = await startSource(sandbox, source, { projectId: 1 });
    const two = await startSource(sandbox, source, { projectId: 2 });
    const three = await startSource(sandbox, source, { projectId: 1 });
    await one.transform(sampleEvents(3));
    for (const other of [two, three]) {
      const [outcome] = await other.transform(sampleEvents(1));
      expect(readOutcome(outcome)).toEqual({ counts: [1, 1, 1, 1] });
    }
  });

  it.each([
    ["JSON", "JSON.stringify = () => '{}'; JSON.parse = () => 1"],
    ["promises", "Promise.prototype.then = () => { throw 1 }; globalThis.Promise = null"],
    ["arrays", "Array.prototype.push = Array.prototype.join = () => { throw 1 }"],
    ["objects", "Object.prototype.then = 1; Object.prototype.toJSON = () => 'x'"],
    ["dates", "Date.now = () => Infinity; Date.prototype.getTime = () => NaN"],
    [
      "everything",
      "for (const key of Object.getOwnPropertyNames(globalThis)) { try { delete globalThis[key] } catch {} }",
    ],
  ])("[TS-21] lets one that tampers with %s harm nobody else", async (_what, tampering) => {
    const tamperer = await startSource(
      sandbox,
      `${tampering}; function processEvent(e) { return e }`,
    ).catch(() => null);
    await tamperer?.transform(sampleEvents(2));
    const good = "function processEvent(event) { event.properties = { fine: true }; return event }";
    expect(await propertiesAfter(sandbox, good)).toEqual({ fine: true });
    await tamperer?.stop();
  });

  it("[TS-21] takes keys like __proto__ for keys", async () => {
    const instance = await startSource(
      sandbox,
      `function processEvent(event) {
        event.properties = JSON.parse('{"__proto__": {"polluted": 1}, "constructor": {"prototype": {"polluted": 2}}}');
        return event;
      }`,
    );
    const [outcome] = await instance.transform(sampleEvents(1));
    expect(JSON.stringify(readOutcome(outcome))).toContain("__proto__");
    expect(({} as Record<string, unknown>)["polluted"]).toBeUndefined();
    await instance.stop();
  });
});

/** Bodies that exceed a limit on the second of three events. */
const EXCESSES: readonly (readonly [string, string])[] = [
  ["an endless loop", "while (true) {}"],
  ["a loop that catches", "while (true) { try { while (true) {} } catch {} }"],
  ["a loop in finally", "try { while (true) {} } finally { while (true) {} }"],
  ["a loop in a getter", "({ get x() { while (true) {} } }).x"],
  ["a loop in toJSON", "event.properties.x = { toJSON() { while (true) {} } }"],
  ["a regex bomb", "/^(a+)+$/.test('a'.repeat(50) + 'b')"],
  ["allocation without end", "const all = []; while (true) all.push(new Array(1000).fill({}))"],
  ["a text that doubles", "let text = 'x'; while (true) text += text"],
  ["a large typed array", "new Uint8Array(2 ** 30).fill(1)"],
  ["deep recursion", "const down = () => down() + 1; down()"],
  [
    "mutual recursion by JSON",
    "event.properties.x = { toJSON() { return { y: this } } }; JSON.stringify(event)",
  ],
  ["giant output", "event.properties.x = 'x'.repeat(5_000_000)"],
  [
    "deep output",
    "let deep = {}; for (let i = 0; i < 500; i += 1) deep = { deep }; event.properties.deep = deep",
  ],
  [
    "a native loop that cannot be interrupted",
    "Array.prototype.indexOf.call({ length: 2 ** 53 - 1 }, 1)",
  ],
];

describe("limits", () => {
  it.each(EXCESSES)("[TS-22] stops %s, keeps its event and goes on", async (_what, body) => {
    const instance = await startSource(
      sandbox,
      `function processEvent(event) {
        event.properties = { touched: true };
        if (event.event === "event 1") { ${body}; }
        return event;
      }`,
    );
    const outcomes = await instance.transform(sampleEvents(3));
    expect(outcomes.map(readOutcome)).toEqual([
      { touched: true },
      expect.stringContaining("failed: "),
      { touched: true },
    ]);
    expect(outcomes[1]).toMatchObject({ isLimit: true });
    await instance.stop();
  });

  it.each([
    ["an endless chain of promises", "while (true) await null"],
    ["a loop after a wait", "await new Promise((done) => setTimeout(done, 1)); while (true) {}"],
    ["a promise that never settles", "await new Promise(() => {})"],
    ["a wait that is too long", "await new Promise((done) => setTimeout(done, 60_000))"],
  ])("[TS-22] stops %s", async (_what, body) => {
    const instance = await startSource(
      sandbox,
      `async function processEvent(event) {
        event.properties = { touched: true };
        if (event.event === "event 1") { ${body}; }
        return event;
      }`,
      { limits: { ...DEFAULT_LIMITS, waitMs: 300 } },
    );
    const outcomes = await instance.transform(sampleEvents(3));
    expect(outcomes.map(({ kind }) => kind)).toEqual(["keep", "failed", "keep"]);
    expect(outcomes[1]).toMatchObject({ isLimit: true });
    await instance.stop();
  });

  it.each([
    ["an endless loop", "while (true) {}", /longer than 1000 ms/],
    [
      "allocation without end",
      "const all = []; while (true) all.push(new Array(1e4).fill(0))",
      /memory|blocks/,
    ],
    ["recursion without end", "(function down() { down() })()", /stack overflow/],
  ])("[TS-7] refuses a source with %s while loading", async (_what, source, reason) => {
    const outcome = await sandbox.compile({ "index.js": source });
    expect(outcome).toMatchObject({
      kind: "refused",
      problems: [{ message: expect.stringMatching(reason) }],
    });
  });

  it("[TS-40] keeps to the limits that the operator sets, smallest and largest", async () => {
    const settings = { pluginCpuMs: 10, pluginLoadMs: 100, pluginMemoryMb: 16 };
    const limits = sandboxLimitsOf({ ...settings, pluginOutputKb: 25, pluginLogLines: 1 });
    const small = new QuickJsSandbox({ limits });
    expect(await small.compile({ "index.js": "while (true) {}" })).toMatchObject({
      problems: [{ message: "loading takes longer than 100 ms" }],
    });
    const { host, lines } = recordHost();
    const instance = await startSource(
      small,
      `function processEvent(event) {
        console.log(event.event);
        if (event.event === "event 1") while (true) {}
        if (event.event === "event 2") event.properties = { text: "x".repeat(60_000) };
        if (event.event === "event 3") { const all = []; for (let i = 0; i < 40; i += 1) all.push(new Uint8Array(1_048_576)) }
        return event;
      }`,
      { host, limits },
    );
    expect((await instance.transform(sampleEvents(4))).map(readOutcome)).toEqual([
      "unchanged",
      "failed: it computed for longer than 10 ms",
      "failed: the event became larger than 25000 characters",
      expect.stringMatching(/failed: .*(memory|10 ms)/),
    ]);
    expect(lines.filter(({ source }) => source === "console").length).toBeLessThanOrEqual(2);
    await small.close();
  });

  it("[TS-40] does not take a thread for blocked while the platform computes for it, however long it may", async () => {
    const limits = { ...DEFAULT_LIMITS, eventCpuMs: 5_000 };
    const instance = await startSource(
      sandbox,
      `import { pbkdf2Sync } from "crypto";
      export function processEvent(event) {
        for (let n = 0; n < 30; n += 1) pbkdf2Sync("word", "salt", 250_000, 32, "sha256");
        event.properties = { done: true };
        return event;
      }`,
      { limits },
    );
    const [outcome] = await instance.transform(sampleEvents(1));
    expect(readOutcome(outcome)).toEqual({ done: true });
    await instance.stop();
  });

  it("[TS-23] bounds the log and says how much was left out", async () => {
    const { host, lines } = recordHost();
    const instance = await startSource(
      sandbox,
      `function processEvent(event) { for (let i = 0; i < 500; i += 1) console.log("x".repeat(20_000)); return event }`,
      { host },
    );
    await instance.transform(sampleEvents(1));
    expect(lines.filter(({ source }) => source === "console")).toHaveLength(100);
    expect(lines.every(({ message }) => message.length <= 8_000)).toBe(true);
    expect(lines.at(-1)).toMatchObject({
      source: "system",
      message: "400 more lines were not kept",
    });
    await instance.stop();
  });

  it("[TS-24] lets one that exceeds its limits again and again rest", async () => {
    const instance = await startSource(sandbox, "function processEvent() { while (true) {} }");
    const before = process.cpuUsage();
    const outcomes = await instance.transform(sampleEvents(200));
    expect(outcomes.every((outcome) => outcome.kind === "failed" && outcome.isLimit)).toBe(true);
    // Without a rest they would take 20 s.
    expect(process.cpuUsage(before).user / 1_000).toBeLessThan(10_000);
    await instance.stop();
  });

  it.each([
    ["a job", `jobs.later(deep).runIn(5, "weeks")`],
    ["storage", `storage.set("key", deep)`],
    ["a capture", `posthog.capture("other", { deep })`],
  ])(
    "[TS-26] refuses what is nested too deep in what is asked of the service: %s",
    async (_what, asking) => {
      const { host, lines, jobs, stored, captured } = recordHost();
      const instance = await startSource(
        sandbox,
        `const nest = (depth) => { let value = 1; for (let n = 0; n < depth; n += 1) value = [value]; return value };
      export const jobs = { later() {} };
      export async function processEvent(event, { jobs, storage }) {
        const refused = [];
        for (const depth of [190, 6_000]) {
          const deep = nest(depth);
          await ${asking}.catch((error) => refused.push(depth, error.message));
        }
        event.properties = { refused };
        return event;
      }`,
        { host },
      );
      const [outcome] = await instance.transform(sampleEvents(1));
      const reason = "it is nested deeper than 200";
      expect(readOutcome(outcome)).toEqual({ refused: [6_000, expect.stringContaining(reason)] });
      expect(jobs.length + stored.size + captured.length).toBe(1);
      await instance.stop();
      expect(lines.map(({ message }) => message).join()).toContain(reason);
    },
  );

  it("[TS-25] runs the events of others again when a thread has to be ended", async () => {
    const crowded = new QuickJsSandbox({ threads: 1 });
    try {
      const blocker = await startSource(
        crowded,
        "function processEvent() { new Array(1e9) + '' }",
        { projectId: 1 },
      );
      const good = await startSource(
        crowded,
        "async function processEvent(e) { await new Promise((d) => setTimeout(d, 20)); e.properties = { fine: true }; return e }",
        { projectId: 2 },
      );
      const [blocked, fine] = await Promise.all([
        blocker.transform(sampleEvents(2)),
        good.transform(sampleEvents(20)),
      ]);
      expect(blocked.map(({ kind }) => kind)).toEqual(["failed", "failed"]);
      expect(fine.map(readOutcome)).toEqual(Array(20).fill({ fine: true }));
    } finally {
      await crowded.close();
    }
  });

  it("[TS-25] runs events again when their thread says what cannot be read", async () => {
    const posting = vi.spyOn(Worker.prototype, "postMessage");
    const crowded = new QuickJsSandbox({ threads: 1 });
    try {
      const instance = await startSource(
        crowded,
        "async function processEvent(e) { await new Promise((d) => setTimeout(d, 500)); e.properties = { fine: true }; return e }",
      );
      const passing = instance.transform(sampleEvents(2));
      const thread = posting.mock.contexts.at(-1) as Worker;
      thread.emit("messageerror", new Error("a message that cannot be read"));
      expect((await passing).map(readOutcome)).toEqual(Array(2).fill({ fine: true }));
      expect(posting.mock.contexts.at(-1)).not.toBe(thread);
    } finally {
      posting.mockRestore();
      await crowded.close();
    }
  });
});

/** Changes of what is shared inside of the sandbox, by which its own code there could be misled. */
const INTERCEPT = `function intercept(index, put) {
  Object.defineProperty(Array.prototype, String(index), {
    configurable: true,
    set(value) {
      if (put(value)) return;
      Object.defineProperty(this, String(index), { value, writable: true, enumerable: true, configurable: true });
    },
  });
}`;

/** Sources that answer what cannot be read, or tamper with how it is told. */
const DECEPTIONS: readonly (readonly [string, string])[] = [
  ["answers what has no JSON", "export const processEvent = () => ({ toJSON() {} })"],
  [
    "answers its event without JSON",
    "export function processEvent(e) { e.toJSON = () => {}; return e }",
  ],
  [
    "has properties without JSON",
    "export function processEvent(e) { e.properties.toJSON = () => {}; e.properties.x = 1; return e }",
  ],
  [
    "gives every object a toJSON",
    "export function processEvent(e) { Object.prototype.toJSON = () => undefined; return { ...e, x: 1 } }",
  ],
  [
    "gives every list a toJSON and logs, counts and asks",
    `export const metrics = { sum: "sum" };
    export async function processEvent(e, { metrics, storage }) {
      for (const odd of [1, null, "x", {}, { length: 2 }, undefined, [[], {}, {}], [{}, null, "x"]]) {
        Array.prototype.toJSON = () => odd && !Array.isArray(odd) ? odd : { 0: 1, toJSON() { return odd } };
        try { console.log("x"); console.warn({}) } catch {}
        try { metrics.sum.increment(1) } catch {}
        try { storage.set("a", 1).catch(() => {}); storage.get("a").catch(() => {}) } catch {}
        try { setTimeout(() => {}, 1) } catch {}
      }
      return e;
    }`,
  ],
  [
    "forges what is told of a run",
    `${INTERCEPT} for (let n = 0; n < 9; n += 1) intercept(n, function (v) { if (v === "=") throw 1 });
    export const processEvent = (e) => e`,
  ],
  [
    "swallows what is told of a run",
    `${INTERCEPT} let isOn = false; intercept(0, (value) => isOn && value === "=");
    export function processEvent(e) { isOn = true; return e }`,
  ],
  [
    "tampers with maps",
    `export function processEvent(e) {
      const { get } = Map.prototype;
      e.properties.zz = 1;
      Map.prototype.get = function (key) { return key === "zz" ? '"zz":{{' : Reflect.apply(get, this, [key]) };
      return e;
    }`,
  ],
  [
    "tampers with all that lists and texts can do",
    `export function processEvent(e) {
      e.properties.zz = 1;
      for (const { prototype } of [Array, String, Map, Set, Uint32Array, Object.getPrototypeOf(Uint32Array)]) {
        for (const key of Reflect.ownKeys(prototype)) {
          if (key === "constructor") continue;
          try { Object.defineProperty(prototype, key, { value() { throw new Error("no") }, configurable: true }) } catch {}
        }
      }
      for (const key of ["Uint32Array", "Reflect", "Proxy", "Object"]) globalThis[key] = null;
      return e;
    }`,
  ],
  ["throws what cannot be told", "export function processEvent() { throw { toJSON() {} } }"],
];

describe("what the service is told", () => {
  it.each(DECEPTIONS)("[TS-33] harms nobody when one %s", async (_what, source) => {
    const shared = new QuickJsSandbox({ threads: 1 });
    try {
      const good = await startSource(
        shared,
        "function processEvent(e) { e.properties.fine = true; return e }",
        { projectId: 2 },
      );
      const deceiver = await startSource(shared, source, { projectId: 1 });
      // Events go on with it after the first ones, whose keys are not known yet.
      for (let round = 0; round < 3; round += 1) {
        const [outcomes, others] = await Promise.all([
          deceiver.transform(sampleEvents(6, { a: 1, b: 2 })),
          good.transform(sampleEvents(6, { a: 1 })),
        ]);
        expect(outcomes).toHaveLength(6);
        expect(others.map(readOutcome)).toEqual(Array(6).fill({ a: 1, fine: true }));
      }
    } finally {
      await shared.close();
    }
  });

  it.each([
    ["texts", "return 'x'"],
    ["nothing", "return undefined"],
    ["lists", "return { methods: 5, jobs: { length: 1 }, metrics: null }"],
    ["errors", "throw 1"],
  ])("[TS-33] is what a source offers, however it tampers with JSON: %s", async (_what, body) => {
    const outcome = await sandbox.compile({
      "index.js": `Object.prototype.toJSON = Array.prototype.toJSON = () => { ${body} };
        export const jobs = { later() {} }, metrics = { seen: "sum" }, processEvent = (e) => e`,
    });
    expect(outcome).toMatchObject({
      kind: "compiled",
      program: { methods: ["processEvent"], jobs: ["later"], metrics: { seen: "sum" } },
    });
  });

  it("[TS-33] comes to an end where a machine never gets on, each event of it by itself", async () => {
    const instance = await startSource(
      sandbox,
      `const kept = [];
      export function processEvent(e) {
        try { for (;;) kept.push("x".repeat(1000) + kept.length) } catch {}
        try { for (;;) kept.push(1) } catch {}
        return e;
      }`,
    );
    const outcomes = await instance.transform(sampleEvents(6, { a: 1 }));
    expect(outcomes).toHaveLength(6);
    await instance.stop();
  });

  it("[TS-25] gives no answer that was on its way to a machine that was lost to the next one", async () => {
    let release = () => {};
    const released = new Promise<void>((resolve) => {
      release = resolve;
    });
    const host = {
      ...recordHost().host,
      // The first answer comes when the next machine waits for its own, and before that.
      locate: async (address: string) => {
        if (address === "first") await released;
        release();
        await new Promise((done) => setTimeout(done, address === "first" ? 0 : 50));
        return { of: address };
      },
    };
    const instance = await startSource(
      sandbox,
      `export async function processEvent(e, { geoip }) {
        if (e.event === "event 0") { geoip.locate("first"); while (true) {} }
        e.properties.located = await geoip.locate("second");
        return e;
      }`,
      { host, limits: { ...DEFAULT_LIMITS, eventCpuMs: 300 } },
    );
    const [, after] = await instance.transform(sampleEvents(2));
    expect(readOutcome(after)).toEqual({ located: { of: "second" } });
    await instance.stop();
  });

  it("[TS-33] cannot be forged by code that changes what is shared inside", async () => {
    const instance = await startSource(
      sandbox,
      `${INTERCEPT}
      for (let n = 0; n < 9; n += 1) {
        intercept(n, function (value) { if (value === "=") { Object.defineProperty(this, n, { value: '+{"forged":1}' }); return true } });
      }
      export const processEvent = (e) => e`,
    );
    const outcomes = await instance.transform(sampleEvents(6));
    expect(outcomes.map(readOutcome)).toEqual(Array(6).fill("unchanged"));
    await instance.stop();
  });

  it("[TS-22] is no more than memory holds, however many events grow", async () => {
    const instance = await startSource(
      sandbox,
      `function processEvent(e) { e.properties.big = "x".repeat(200_000); return e }`,
    );
    const outcomes = await instance.transform(sampleEvents(240));
    expect(outcomes.filter(({ kind }) => kind === "keep")).toHaveLength(240);
    await instance.stop();
  });

  it("[TS-22] is what was answered, once, though something it set going never ends", async () => {
    const { host, lines } = recordHost();
    const source = `function processEvent(e) {
      console.log(e.distinct_id);
      if (e.distinct_id === "3") Promise.resolve().then(() => { while (true) {} });
      e.properties.x = 1;
      return e;
    }`;
    const instance = await startSource(sandbox, source, { host });
    const ids = ["1", "2", "3", "4", "5"];
    const [event = {}] = sampleEvents(1);
    const outcomes = await instance.transform(ids.map((id) => ({ ...event, distinct_id: id })));
    expect(outcomes.map((outcome) => readOutcome(outcome))).toEqual(ids.map(() => ({ x: 1 })));
    const logged = lines.filter(({ source }) => source === "console");
    expect(logged.map(({ message }) => message)).toEqual(ids);
    await instance.stop();
  });

  it.each([
    ["a text that is added", 'e.properties.text = "x".repeat(260_000)', 10],
    ["a list that is added", "e.properties.list = Array(60_000).fill(12345)", 10],
    ["all that is answered", 'e = { ...e, properties: { text: "x".repeat(260_000) } }', 10],
    ["a field of the event", 'e.field = "x".repeat(260_000)', 10],
    ["all properties", 'e.properties = { text: "x".repeat(260_000) }', 10],
    [
      "a little at a time",
      'e.properties.a = e.properties.b = e.properties.c = "x".repeat(90_000)',
      10,
    ],
    ["more of much", 'e.properties.text += "x".repeat(30_000)', 300_000],
  ])("[TS-22] becomes no larger than it may by %s", async (_what, body, length) => {
    const instance = await startSource(
      sandbox,
      `export function processEvent(e) { ${body}; return e }`,
    );
    const events = sampleEvents(3, { text: "y".repeat(length) });
    for (const outcome of await instance.transform(events)) {
      expect(outcome).toMatchObject({
        kind: "failed",
        isLimit: true,
        reason: "the event became larger than 250000 characters",
      });
    }
    await instance.stop();
  });

  it.each([
    ["is large and becomes larger", "e.properties.more = 'x'.repeat(20_000)", 2_000_000],
    [
      "is large and is written anew",
      "e = { ...e, properties: { ...e.properties, a: 1 } }",
      400_000,
    ],
    ["is large and becomes smaller", "e.properties.text = e.properties.text.slice(5)", 2_000_000],
    ["is large and loses something", "delete e.properties.text; e.properties.a = 1", 2_000_000],
    ["becomes as large as it may", "e.properties.more = 'x'.repeat(240_000)", 10],
  ])("[TS-22] is let through where it %s", async (_what, body, length) => {
    const instance = await startSource(
      sandbox,
      `export function processEvent(e) { ${body}; return e }`,
      { limits: { ...DEFAULT_LIMITS, eventCpuMs: 5_000 } },
    );
    const events = sampleEvents(3, { text: "y".repeat(length) });
    for (const { kind } of await instance.transform(events)) expect(kind).toBe("keep");
    await instance.stop();
  });

  it("[TS-22] is all of ordinary events of many kinds after one of them exceeds a limit", async () => {
    const instance = await startSource(
      sandbox,
      "function processEvent(e) { if (e.event === 'endless') while (true) {} e.properties.x = 1; return e }",
    );
    const many = Array.from({ length: 240 }, (_, index) => ({
      ...{ uuid: "u", event: "e", distinct_id: `d${index}`, team_id: 1 },
      properties: Object.fromEntries(
        Array.from({ length: 1 + index }, (_one, key) => [`key ${index % 20} ${key}`, 1]),
      ),
    }));
    for (let round = 0; round < 3; round += 1) {
      await instance.transform(many);
      const [outcome] = await instance.transform([{ ...many[0], event: "endless" }]);
      expect(outcome).toMatchObject({ kind: "failed" });
    }
    // Those that rest fail at once: that it comes to an end is what counts.
    const outcomes = await instance.transform(many.slice(0, 20));
    expect(outcomes).toHaveLength(20);
    await instance.stop();
  });
});
