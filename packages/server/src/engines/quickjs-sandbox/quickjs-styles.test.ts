import { createServer } from "node:http";
import { createRequire } from "node:module";
import type { AddressInfo } from "node:net";
import { brotliCompressSync, deflateSync, gzipSync } from "node:zlib";
import type { Json, JsonObject } from "@hedgerow/core/json";
import { afterAll, describe, expect, it } from "vitest";
import {
  DEFAULT_LIMITS,
  type SandboxEvent,
  type SourceFiles,
} from "../../transformations/sandbox.ts";
import { QuickJsSandbox } from "./quickjs-sandbox.ts";
import {
  propertiesAfter,
  readOutcome,
  recordHost,
  sampleEvents,
  startSource,
} from "./sandbox.setup.ts";

const sandbox = new QuickJsSandbox({ threads: 1 });
afterAll(() => sandbox.close());

const touch = "event.properties = { ran: true }; return event;";

const BUNDLED: readonly (readonly [string, SourceFiles])[] = [
  [
    "a package that does without a module where there is none, as for browsers",
    {
      "index.js": `import { ran } from "left"; export const processEvent = (event) => { event.properties = { ran }; return event }`,
      "node_modules/left/package.json": `{ "main": "./node", "browser": { "./node.js": "./web.js", "fs": false } }`,
      "node_modules/left/node.js": "throw new Error('not this one')",
      "node_modules/left/web.js": "exports.ran = Object.keys(require('fs')).length === 0",
    },
  ],
  [
    "fields of classes that are only types, and those that decorators see to",
    {
      "index.ts": `class Base { constructor() { (this as any).init() } }
        function seven(target: any, key: string) { Object.defineProperty(target, key, { get: () => 7, set() {} }) }
        class Own extends Base { ran: any; @seven seen!: number; init() { this.ran = true } }
        export function processEvent(event: any) { const own = new Own(); event.properties = { ran: own.ran && own.seen === 7 }; return event }`,
    },
  ],
  [
    "decorators of the language, where its settings say so",
    {
      "index.ts": `function kind(_value: any, context: any) { return () => context.kind } class A { @kind m() { return "wrong" } }
        export function processEvent(event: any) { event.properties = { ran: new A().m() === "method" }; return event }`,
      "tsconfig.json": `{ "extends": "./base" }`,
      "base.json": `{ "compilerOptions": { "experimentalDecorators": false } }`,
    },
  ],
  [
    "a module that names its own place",
    {
      "index.mjs": `import { fileURLToPath, pathToFileURL } from "url"; import { dirname } from "path";
        const __filename = fileURLToPath(import.meta.url), __dirname = dirname(__filename);
        const seen = [__filename, __dirname, import.meta.filename, pathToFileURL("/a b%?#").href];
        export function processEvent(event) { event.properties = { ran: seen.join() === "/index.js,/,/index.js,file:///a%20b%25%3F%23" }; return event }`,
    },
  ],
  [
    "names that look like those that are put into sources",
    {
      "index.js": `const __expose = 1, __offer = 2, __constant = 3, own = 4, require_guest = 5; const fixed = 6;
        export async function processEvent(event) { try { fixed = 7 } catch (error) { event.properties = { ran: error instanceof TypeError && /constant/.test(error.message) && __constant === 3 } } return event }`,
    },
  ],
  [
    "a library in TypeScript before a script",
    {
      "plugin.json": `{ "lib": "lib.ts" }`,
      "lib.ts": "const ran: boolean = true",
      "index.js": "function processEvent(event) { event.properties = { ran }; return event }",
    },
  ],
  [
    "a text as it is, and types that are imported",
    {
      "index.ts": `import text from "./a.txt"; import "./types.d.mts"; export function processEvent(event: any) { event.properties = { ran: text === "#!a\\nb" }; return event }`,
      "a.txt": "#!a\nb",
      "types.d.mts": "export type A = 1;",
    },
  ],
  [
    "a script with a first line for a shell",
    { "index.js": `#!/usr/bin/env node\nmodule.exports.processEvent = (event) => { ${touch} }` },
  ],
  [
    "a library and a main file with marks of their encoding",
    {
      "plugin.json": `\uFEFF{ "lib": "lib.js" }`,
      "lib.js": "\uFEFFfunction run(event) { event.properties = { ran: true }; return event }",
      "index.js": "\uFEFFfunction processEvent(event) { return run(event) }",
    },
  ],
  [
    "a bundle that names its own place",
    {
      "dist/index.js": `(() => { var load = {}; load.base = __dirname + "/"; var top = {};
        top.processEvent = (event) => { ${touch} }; module.exports = top; })()`,
    },
  ],
  [
    "a universal module of a bundler",
    {
      "index.js": `!function (root, make) {
        if (typeof exports == "object" && typeof module == "object") module.exports = make();
        else root.plugin = make();
      }(this, function () { return { processEvent: function (event) { ${touch} } } });`,
    },
  ],
  [
    "a universal module of a bundler for the web",
    {
      "index.js": `!function (root, make) {
        if (typeof exports == "object" && typeof module == "object") module.exports = make();
        else root.plugin = make();
      }(self, function () { return { processEvent: function (event) { ${touch} } } });`,
    },
  ],
  [
    "types in what is called JavaScript",
    {
      "plugin.json": `{ "lib": "lib.js" }`,
      "lib.js": "function fail(error: unknown): string { return (error as Error).message }",
      "index.js": `import type { Event } from "~/events";
        export function processEvent(event: Event) { try { throw new Error("x") } catch (error) { event.properties = { ran: fail(error) === "x" } } return event }`,
    },
  ],
  [
    "a function that is the whole",
    { "index.js": `module.exports = function processEvent(event) { ${touch} }` },
  ],
  [
    "undeclared names in an ES module",
    {
      "index.js": `const keys = { ran: true };
        export function processEvent(event) { event.properties = {}; for (key in keys) event.properties[key] = keys[key]; return event }`,
    },
  ],
  [
    "a package whose main is not its index",
    {
      "index.js": `const run = require("left"); exports.processEvent = (event) => run(event)`,
      "node_modules/left/package.json": `{ "main": "./dist/left" }`,
      "node_modules/left/index.js": "throw new Error('not this one')",
      "node_modules/left/dist/left.js": `module.exports = (event) => { ${touch} }`,
    },
  ],
  [
    "a package with exports by condition and by pattern",
    {
      "index.js": `import { name } from "@of/left"; import value from "@of/left/parts/ran";
        export const processEvent = (event) => { event.properties = { [name]: value }; return event }`,
      "node_modules/@of/left/package.json": `{ "exports": {
        ".": { "node": "./node.js", "import": { "types": "./a.d.ts", "default": "./a.mjs" }, "require": "./b.cjs" },
        "./parts/*": "./lib/*.mjs" } }`,
      "node_modules/@of/left/a.mjs": `export const name = "ran"`,
      "node_modules/@of/left/b.cjs": `exports.name = "required"`,
      "node_modules/@of/left/lib/ran.mjs": "export default true",
    },
  ],
  [
    "names that its tsconfig.json gives to its own files",
    {
      "index.ts": `import { run } from "@lib/deep/run"; import { name } from "@lib/names"; import { on } from "~on"; import { flag } from "flags/one"; import { deep } from "buffer";
        export const processEvent = (event: any) => run(event, name, on && flag && deep === undefined)`,
      "tsconfig.json": `\uFEFF{ // as compilers take it
        "compilerOptions": { "baseUrl": "./source", "paths": { "@lib/*": ["gone/*", "lib/*"], "@lib/names": ["names.ts"], "~*": ["../*"], "buffer": ["names.ts"] }, }, }`,
      "source/lib/deep/run.ts":
        "export const run = (event: any, name: string, value: boolean) => { event.properties = { [name]: value }; return event }",
      "source/lib/names.ts": "export const name = 'wrong'",
      "source/names.ts": "export const name = 'ran', deep = 1",
      "source/flags/one.ts": "export const flag = true",
      "on.ts": "export const on = true",
    },
  ],
  [
    "files with a tsconfig.json that nobody can read",
    {
      "index.ts": `import { ran } from "src/b"; export const processEvent = (event: any) => { event.properties = { ran }; return event }`,
      "tsconfig.json": `{ "compilerOptions": { "paths": 5, "baseUrl": [ }`,
      "src/b.ts": "export const ran = true",
    },
  ],
  [
    "what is disposed of at the end",
    {
      "index.ts": `export async function processEvent(event: any) {
        event.properties = {};
        { using one = { [Symbol.dispose]() { event.properties.ran = 1 } }; await using two = { async [Symbol.asyncDispose]() { event.properties.ran = 2 } } }
        event.properties.ran = event.properties.ran === 1; return event }`,
    },
  ],
  [
    "modules that await something while they load",
    {
      "index.js": `import { name } from "./names.js"; import sure from "./sure.cjs";
        const { value } = await import("./value.js"); const list = []; for await (const one of [1, Promise.resolve(2)]) list.push(one);
        export const processEvent = (event) => { event.properties = { [name]: value && sure && list.length === 2 }; return event }`,
      "names.js":
        "export const name = await new Promise((done) => queueMicrotask(() => done('ran')))",
      "value.js": "await null; export const value = true",
      "sure.cjs": "module.exports = true",
    },
  ],
  [
    "a script that awaits something while it loads",
    {
      "index.ts": `const ran: boolean = await (async () => true)(); function processEvent(event: any) { event.properties = { ran }; return event }`,
    },
  ],
  [
    "a script with another object in the place of its exports",
    {
      "index.js": `function run(event) { ${touch} }
        exports = { processEvent: run };`,
    },
  ],
  [
    "a folder with a manifest of its own",
    {
      "index.js": `exports.processEvent = require("./vendor/left").run`,
      "vendor/left/package.json": `{ "main": "main.js" }`,
      "vendor/left/main.js": `exports.run = (event) => { ${touch} }`,
    },
  ],
];

describe("sources of published transformations", () => {
  it.each(BUNDLED)("[TS-1] runs %s", async (_style, files) => {
    expect(await propertiesAfter(sandbox, files)).toEqual({ ran: true });
  });

  it.each([
    [
      "dates in words",
      `const d = new Date(0); return [String(d), d.toTimeString(), d + "", new Date(String(d)).getTime(), String(new Date(NaN))]`,
      [
        "Thu Jan 01 1970 00:00:00 GMT+0000 (Coordinated Universal Time)",
        "00:00:00 GMT+0000 (Coordinated Universal Time)",
        "Thu Jan 01 1970 00:00:00 GMT+0000 (Coordinated Universal Time)",
        0,
        "Invalid Date",
      ],
    ],
    [
      "the last match of an expression",
      `/v(\\d+)\\.(\\d+)/.test("a v1.2 b"); const seen = [RegExp.$1, RegExp.$2, RegExp.$3, RegExp.lastMatch, RegExp["$&"], RegExp.leftContext, RegExp.rightContext, RegExp.lastParen, RegExp.input];
        /x/.test("nothing"); "k=v".replace(/(\\w)=(\\w)/, ""); return [...seen, RegExp.$2]`,
      ["1", "2", "", "v1.2", "v1.2", "a ", " b", "2", "a v1.2 b", "v"],
    ],
    [
      "errors of their own",
      `try { throw new Refused("no") } catch (e) { return [e.name, e.message, String(e), typeof e.stack, e instanceof Refused, e instanceof Error] }`,
      ["Refused", "no", "Refused: no", "string", true, true],
    ],
    [
      "the encoding of tokens",
      `const part = Buffer.from('{"a":"ü?>"}').toString("base64url"); const b = Buffer.alloc(4); b.write("YWJj", "base64url");
        return [part, Buffer.from(part, "base64url").toString(), Buffer.isEncoding("base64url"), Buffer.byteLength("YQ", "base64url"), b.toString("latin1"), Buffer.from("base64url").toString()]`,
      ["eyJhIjoiw7w_PiJ9", '{"a":"ü?>"}', true, 1, "abc\0", "base64url"],
    ],
    [
      "texts of many bytes",
      `const text = "ü…\u0000\ud83e\udd94".repeat(300); const b = Buffer.concat([Buffer.from("ab"), Buffer.from(text), Buffer.from([255])]).subarray(1);
        return [b.toString() === "b" + text + "\ufffd", b.toString("utf8", 1, b.length - 1) === text, b.toString("hex").slice(0, 6), b.toString("hex", -5, 1500).length,
          Buffer.from(b.toString("base64"), "base64").equals(b), Buffer.from(b.toString("latin1"), "latin1").equals(b), new TextDecoder("latin1").decode(b).length, require("crypto").createHash("md5").update(b).digest("hex") === require("crypto").createHash("md5").update(b.toString("latin1"), "latin1").digest("hex"), b.toString("base64url").slice(-4), b.toString("utf8", 9, 3), b.toString("utf8", 0, 1e9).length, Buffer.byteLength(text + "\\ud800"), Buffer.from(text + "\\ud800").subarray(-3).toString("hex")]`,
      [true, true, "62c3bc", 3000, true, true, 3_002, true, "mlP8", "", 1_502, 3_003, "efbfbd"],
    ],
    [
      "the error of a wrong encoding",
      `try { return atob("%%") } catch (e) { return [e.name, e instanceof DOMException] }`,
      ["InvalidCharacterError", true],
    ],
    [
      "queries of odd values",
      `const p = new URLSearchParams({ a: undefined, b: null, c: [1, 2], d: { e: 1 } }); let refused = 0; try { new URLSearchParams([["a"]]) } catch (e) { refused = e.name } return [String(p), refused]`,
      ["a=undefined&b=null&c=1%2C2&d=%5Bobject+Object%5D", "TypeError"],
    ],
    [
      "forms",
      `const f = new FormData(); f.append("a", 1); f.append("a", 2); f.set("b", "c"); f.delete("b"); return [f.has("a"), f.getAll("a"), [...f.keys()], f.get("b")]`,
      [true, ["1", "2"], ["a", "a"], null],
    ],
    [
      "queries with other signs",
      `const q = require("querystring"); return [q.stringify({ a: "é", b: [1, 2] }, ";", ":"), q.parse("a:1;b:2", ";", ":").b]`,
      ["a:%C3%A9;b:1;b:2", "2"],
    ],
    [
      "kinds",
      `const { types } = require("util"); return [types.isDate(new Date()), types.isRegExp({}), structuredClone(new RangeError("no")) instanceof RangeError, new DOMException("no", "AbortError").code, String(new Headers())]`,
      [true, false, true, 20, "[object Headers]"],
    ],
    ["tags", "return Object.prototype.toString.call(Intl)", "[object Intl]"],
  ])("[TS-17] sees %s as Node.js shows them", async (_what, body, expected) => {
    const source = `class Refused extends Error {
        constructor(message) { super(message); Error.captureStackTrace(this, Refused); this.name = this.constructor.name }
      }
      function processEvent(event) { event.properties = { seen: (() => { ${body} })() }; return event }`;
    expect(await propertiesAfter(sandbox, source)).toEqual({ seen: expected });
  });

  it.each([
    [
      "events",
      `const E = require("events"); const e = new E(); const seen = [];
        e.on("a", (x) => seen.push(x)); e.once("a", (x) => seen.push("once" + x)); e.prependListener("a", () => seen.push("first"));
        e.emit("a", 1); e.emit("a", 2); let thrown; try { e.emit("error", new Error("boom")) } catch (error) { thrown = error.message }
        const f = () => {}; e.on("b", f).off("b", f);
        return [seen, e.listenerCount("a"), e.listeners("b").length, e.eventNames(), E.EventEmitter === E, e.emit("none"), E.defaultMaxListeners, thrown]`,
    ],
    [
      "emitters of old, and those that extend one",
      `const { EventEmitter, once } = require("node:events"); const { inherits } = require("util");
        function Old() { EventEmitter.call(this) } inherits(Old, EventEmitter); class New extends EventEmitter { go() { return this.emit("x", 1, 2) } }
        let self; const old = new Old(); old.on("x", function () { self = this === old }); old.emit("x");
        const fresh = new New(); const waits = once(fresh, "x"); return [self, Old.super_ === EventEmitter, fresh.go(), await waits, fresh.emit("x")]`,
    ],
    [
      "assertions",
      `const a = require("assert"); a(true); a.equal(1, "1"); a.deepStrictEqual({ a: [new Date(0)], m: new Map([[1, { b: 2 }]]) }, { a: [new Date(0)], m: new Map([[1, { b: 2 }]]) });
        a.throws(() => { throw new TypeError("x") }, TypeError); a.throws(() => { throw new Error("abc") }, /b/); await a.rejects(Promise.reject(new Error("x")), { message: "x" });
        const of = (work) => { try { work(); return "none" } catch (e) { return [e.name, e.code, e.operator, e.generatedMessage, e instanceof a.AssertionError, e instanceof Error] } };
        let message; try { a.strictEqual(1, 2, "not one") } catch (e) { message = [e.message.split(/\\s/)[0], e.actual, e.expected] }
        return [message, of(() => a.deepStrictEqual({ a: 1 }, { a: "1" })), of(() => a.deepEqual({ a: 1 }, { a: "1" })), of(() => a.strict.equal(1, "1")), of(() => a(0, "no")), of(() => a.throws(() => {})), of(() => a.fail("f"))]`,
    ],
    [
      "paths",
      `const p = require("path"); return [p.join("a", "..", "b", "/c"), p.join(), p.basename("/x/y.txt", ".txt"), p.basename("/x/y/"), p.extname("a.tar.gz"), p.extname(".env"), p.dirname("/a/b/c"), p.dirname("a"), p.dirname("/a"), p.resolve("/a", "b", "../c/"),
        p.normalize("/a//b/./c/.."), p.normalize("../a/../../b/"), p.isAbsolute("/x"), p.sep, p.relative("/a/b", "/a/c/d"), p.parse("/home/u/f.txt"), p.parse("f"), p.format({ dir: "/x", base: "y.z" }), p.posix === p]`,
    ],
    [
      "timers",
      `const { setTimeout: wait } = require("timers/promises"); const { setInterval: every, scheduler } = require("timers/promises"); const seen = [];
        for await (const value of every(1, "tick")) if (seen.push(value) === 2) break;
        return [await wait(1, "value"), typeof require("timers").setTimeout, seen, await scheduler.wait(1) === undefined]`,
    ],
    [
      "utilities",
      `const u = require("util"); const deep = (n) => ({ a: { b: { c: { d: { e: { f: n } } } } } });
        class Box { constructor() { this.v = 3 } get(done) { done(null, this.v) } }; const box = new Box(); box.later = u.promisify(box.get);
        const sleep = u.promisify(setTimeout); const turn = u.promisify(setImmediate);
        return [await sleep(1, "slept"), await turn("turned"), u.isDeepStrictEqual(deep(1), deep(2)), u.isDeepStrictEqual(deep(1), deep(1)), u.isDeepStrictEqual(Array(150).fill(0), [...Array(149).fill(0), 1]), await box.later(),
          await new Promise((done) => u.callbackify(async (x) => x * 2)(2, (_error, value) => done(value))), typeof u.deprecate, u.debuglog("x") && 1, u.types.isDate(new Date()), u.types.isTypedArray(new Uint8Array())]`,
    ],
    [
      "looks of objects",
      `const u = require("util"); const deep = { a: { b: { c: { d: { e: 1 } } } }, l: [[[[1]]]], t: "x" };
        const look = (...values) => u.inspect(...values).replace(/\\s+/g, " ");
        return [look(deep), look(deep, { depth: 0 }), look(deep, { depth: null }), look(deep, false, 1), look(deep, { depth: undefined }), look([[[["x"]]]]), look("x"), u.format("%s %O", "a", deep).replace(/\\s+/g, " ")]`,
    ],
    [
      "texts that come in pieces",
      `const { StringDecoder } = require("string_decoder"); const seen = [];
        const all = Buffer.from([...Buffer.from("aü€𝄞ü"), 0xff, 0xe2, 0x82, 0x41, 0xf0, 0x90, 0xc3]);
        for (const encoding of [undefined, "utf8", "UTF-16LE", "ucs2", "latin1", "ascii", "hex", "base64", "base64url"]) {
          for (const size of [1, 2, 3, 4, 5, 7, 100]) {
            const decoder = new StringDecoder(encoding); const texts = [decoder.encoding];
            for (let at = 0; at < all.length; at += size) texts.push(decoder.write(all.subarray(at, at + size)));
            seen.push([...texts, decoder.end(), decoder.end(Buffer.from("z")), decoder.write("text")]);
          }
        }
        try { new StringDecoder("no") } catch (error) { seen.push([error.name, error.code, error.message]) }
        return [seen, require("node:string_decoder").StringDecoder === StringDecoder]`,
    ],
    [
      "packed bytes",
      `const z = require("zlib"); const packed = z.brotliCompressSync("hello");
        return [z.constants.Z_BEST_SPEED, z.constants.BROTLI_PARAM_QUALITY, z.brotliDecompressSync(packed).toString(), z.gunzipSync(z.gzipSync("hello")).toString(), await new Promise((done) => z.brotliCompress(Buffer.from("x"), (_error, bytes) => done(z.brotliDecompressSync(bytes).toString())))]`,
    ],
  ])("[TS-14] has %s as Node.js has them", async (_what, body) => {
    const AsyncFunction = (async () => {}).constructor as new (
      ...texts: string[]
    ) => (load: NodeJS.Require) => Promise<Json>;
    const expected = await new AsyncFunction("require", body)(createRequire(import.meta.url));
    const source = `async function processEvent(event) { event.properties = { seen: await (async () => { ${body} })() }; return event }`;
    expect(await propertiesAfter(sandbox, source)).toEqual({ seen: expected });
  });

  it.each([
    ["a number", "Object.prototype.foo = 1"],
    [
      "a getter that throws",
      "Object.defineProperty(Object.prototype, 'bar', { get() { throw 1 }, enumerable: true })",
    ],
    ["what properties are defined by", "Object.prototype.get = Object.prototype.set = () => 1"],
    ["that and no function", "Object.prototype.get = Object.prototype.value = 1"],
    [
      "names of options",
      "for (const name of ['method', 'default', 'stream', 'length', 'key']) Object.prototype[name] = 7",
    ],
    ["methods of lists and texts", "Array.prototype.last = String.prototype.hi = () => 1"],
    ["JSON of lists", "Array.prototype.toJSON = function () { return [...this].join() }"],
    ["JSON", "Object.prototype.toJSON = function () { return this }"],
    ["nothing, for ever", "Object.freeze(Object.prototype); Object.freeze(Array.prototype)"],
    ["nothing, and freezes all globals", "Object.freeze(globalThis)"],
    [
      "polyfills",
      "const { map } = Array.prototype; Array.prototype.map = function (...values) { return map.apply(this, values) }; Array.prototype.filter = undefined",
    ],
  ])("[TS-1] runs sources that give all objects %s", async (_what, tamper) => {
    const uses = `
      import * as parts from "./parts"; import { processEvent as inner } from "./inner.cjs";
      export const jobs = { later() {} };
      export async function processEvent(event, { config, cache, storage, jobs }) {
        await storage.set("k", { a: "b" }); await cache.lpush("l", ["a"]); await jobs.later({ a: 1 }).runNow();
        event.properties = { seen: [
          config.a, (await storage.get("k")).a, Buffer.from("aGk", "base64").toString(), new URL("/a?b=1", "http://x.y").search,
          require("crypto").createHash("md5").update("a").digest("hex"), new Intl.NumberFormat("de").format(1234.5), (0.5).toLocaleString("de"),
          structuredClone({ foo: { get: 2 } }).foo.get, require("util").format("%s", "x"), require("zlib").gunzipSync(require("zlib").gzipSync("x")).toString(),
          new TextDecoder().decode(new TextEncoder().encode("ü")), new Headers({ a: "b" }).get("a"), await new Promise((done) => setTimeout(done, 1, "late")),
          parts.one, inner(1), event.event,
        ].join("|") };
        event.properties.foo = 2; event.properties.get = Object.getOwnPropertyDescriptor(event, "event").value; event.get = undefined; delete event.get;
        return event;
      }`;
    const files = (before: string) => ({
      "index.js": `import "./before"; ${uses}`,
      "before.js": `${before}; export {}`,
      "parts.js": "export const one = 1, two = 2",
      "inner.cjs": "exports.processEvent = (value) => value + 1",
    });
    const settings = { config: { a: 1 } };
    const expected = await propertiesAfter(sandbox, files(""), settings);
    expect(expected).toMatchObject({ foo: 2, get: "event 0" });
    expect(await propertiesAfter(sandbox, files(tamper), settings)).toEqual(expected);
  });

  it.each([
    ["assigns", "x = 5"],
    ["adds", "x += f()"],
    ["counts", "x++"],
    ["counts before", "return --x"],
    ["assigns where there is nothing, and there is something", "x ??= 7; return x"],
    ["assigns where there is something", "x &&= 7"],
    ["takes lists apart", "[x] = [8]"],
    ["takes objects apart", "({ x } = { x: 8 })"],
    ["takes objects apart, with what is missing", "let b; ({ a: b, x = 3 } = { a: 1 })"],
    ["goes through a list", "for (x of [1]) { f() }"],
    ["goes through letters that take several bytes", "const é = 1; /* ü */ é = 2; ü = 3"],
    ["twice in a line", "try { x = 1 } catch { x = 2 }"],
    ["within a function", "const inner = () => { if (x) { x = 2 } }; inner()"],
  ])(
    "[TS-17] finds out as late as Node.js that a source %s what is constant",
    async (_what, body) => {
      const run = `const x = 1; let calls = 0; function f() { calls += 1; return 1 }
      const told = (() => { try { return ["answered", (() => { ${body} })()] } catch (e) { return [e.name, e.message] } })();
      seen = [...told, calls, x];`;
      const expected: unknown = new Function(`let seen; ${run} return seen`)();
      const source = `export function processEvent(event) { let seen; ${run} event.properties = { seen }; return event }`;
      const seen = JSON.parse(JSON.stringify(expected)) as Json;
      expect(await propertiesAfter(sandbox, source)).toEqual({ seen });
      expect(await propertiesAfter(sandbox, { "index.ts": source })).toEqual({ seen });
    },
  );

  it.each([
    ["throws", "\nawait null;\nthrow new RangeError('no')", { line: 4, message: "RangeError: no" }],
    [
      "assigns to a constant",
      "\nconst x = await 1;\nx = 2",
      { line: 4, message: "TypeError: Assignment to constant variable." },
    ],
    [
      "never goes on",
      "await new Promise(() => {})",
      { message: "it awaits something that does not come while it loads" },
    ],
    [
      "asks for what is not there",
      "await posthog.capture('x')",
      { message: "Error: not available while loading" },
    ],
    ["loops", "await null; for (;;);", { message: "loading takes longer than 1000 ms" }],
  ])(
    "[TS-3] refuses a source that awaits something while it loads and %s",
    async (_what, body, problem) => {
      const source = `// One line before.\n${body};\nexport const processEvent = (event) => event`;
      expect(await sandbox.compile({ "index.js": source })).toMatchObject({
        kind: "refused",
        problems: [problem],
      });
    },
  );

  it("[TS-17] finds out late that imports are assigned to, and where in which file", async () => {
    expect(
      await propertiesAfter(sandbox, {
        "plugin.json": `{ "lib": "lib.js" }`,
        "lib.js": "const shared = 1;\nfunction change() { shared = 2 }",
        "index.js": `import { one } from "./one";
          const of = (work) => { try { work(); return "none" } catch (e) { return e.message } };
          export function processEvent(event) { event.properties = { seen: [of(() => { one = 2 }), of(change), one, shared] }; return event }`,
        "one.js": "export let one = 1",
      }),
    ).toEqual({
      seen: ["Assignment to constant variable.", "Assignment to constant variable.", 1, 1],
    });
    const compile = (text: string) =>
      sandbox.compile({ "index.js": `const ü = 1;\n  /* ü */ ${text}\nexport const f = 1;` });
    expect(await compile("ü = 2;")).toMatchObject({
      problems: [
        { file: "index.js", line: 2, message: "TypeError: Assignment to constant variable." },
      ],
    });
    // Refused for what is wrong beside it.
    expect(await compile("ü = 2; ü ü;")).toMatchObject({
      problems: [{ file: "index.js", line: 2, column: 20 }],
    });
  });

  it("[TS-17] finds out late that constants are assigned to, in patterns and calls of one source", async () => {
    const source = `const x = 1; const f = (...all) => all;
      const of = (work) => { try { return work() } catch (e) { return e.message } };
      export function processEvent(event) {
        event.properties = { seen: [of(() => { ({ x } = { x: 2 }) }), of(() => f(1, x = 2)), of(() => { x = 3 })] };
        return event;
      }`;
    expect(await propertiesAfter(sandbox, source)).toEqual({
      seen: Array(3).fill("Assignment to constant variable."),
    });
  });

  it("[TS-17] refuses a source that assigns to constants more than two hundred times", async () => {
    const compile = (times: number) =>
      sandbox.compile({
        "index.js": `const x = 1;\nexport function processEvent() {\n${"x = 2;\n".repeat(times)}}`,
      });
    expect((await compile(200)).kind).toBe("compiled");
    const refused = await compile(201);
    expect(refused.kind === "refused" && refused.problems[0]).toMatchObject({
      file: "index.js",
      line: 3,
      message: 'Cannot assign to "x" because it is a constant',
    });
  });

  it.each([
    ["an error that is made", `return new Error("boom").stack`],
    ["one without a message", `return new RangeError().stack`],
    ["one of a class", `class Own extends TypeError {} return new Own("mine")?.stack`],
    [
      "one that names itself",
      `class Own extends Error { constructor(m) { super(m); this.name = "Own" } } try { throw new Own("a") } catch (e) { return e.stack }`,
    ],
    ["one that the engine throws", `try { null.f() } catch (e) { return e.stack.split(":")[0] }`],
    ["a promise that is rejected", `return Promise.reject(new Error("x")).catch((e) => e.stack)`],
    [
      "one that is taken apart",
      `try { throw new Error("x") } catch ({ message, stack }) { return stack }`,
    ],
    ["one that is taken apart later", `const { stack: text = 1 } = new Error("x"); return text`],
    ["a parameter that is taken apart", `return (({ stack }) => stack)(new Error("x"))`],
    [
      "a parameter with a default that is taken apart",
      `return (({ stack } = {}) => stack)(new Error("x"))`,
    ],
    [
      "one of several parameters",
      `return (function (a, { stack: [...b] }, c) { return b.join("") })(1, new Error("x"))`,
    ],
    [
      "one deep in what is taken apart",
      `let s; ({ a: [{ stack: s }] } = { a: [new Error("x")] }); return s`,
    ],
    ["one of a list", `for (const { stack } of [new Error("x")]) return stack`],
    ["one in a list", `const e = new Error("x"); return [1, e.stack][1]`],
    ["one in an object", `const e = new Error("x"); return { a: { stack: e.stack } }.a.stack`],
    ["one that may be missing", `const e = new Error("x"); return e?.stack?.slice(0)`],
    [
      "its own",
      `class Own extends Error { told() { return this.stack } } return new Own("x").told()`,
    ],
    ["one whose stack was set", `const e = new Error("x"); e.stack = "own"; return e.stack`],
    [
      "one that has changed since",
      `const e = new Error("x"); e.stack; e.message = "y"; return e.stack`,
    ],
    [
      "what is captured",
      `const o = { name: "N", message: "m" }; Error.captureStackTrace(o); return o.stack`,
    ],
    ["one by a name in quotes", `return new Error("x")["stack"]`],
    [
      "one by a name that is computed",
      `const told = {}; for (const key of ["name", "message", "stack"]) told[key] = new Error("x")[key]; return told.stack`,
    ],
    ["one that may be missing further on", `return { a: { b: new Error("x") } }?.a.b.stack`],
    ["one by reflection", `return Reflect.get(new RangeError("x"), "stack")`],
    [
      "one that is written with all names",
      `const e = new Error("x"); return JSON.parse(JSON.stringify(e, Object.getOwnPropertyNames(e))).stack`,
    ],
    [
      "a copy of one",
      `const copy = Object.create(Error.prototype, Object.getOwnPropertyDescriptors(new Error("x"))); return copy.stack`,
    ],
    [
      "a copy of one by its names",
      `const e = new Error("x"), copy = {}; for (const key of Reflect.ownKeys(e)) Object.defineProperty(copy, key, Object.getOwnPropertyDescriptor(e, key)); return copy.stack`,
    ],
    ["what inherits from one", `return Object.create(new Error("x")).stack`],
    ["one behind a proxy", `return new Proxy(new Error("x"), {}).stack`],
    ["one that is frozen", `const e = Object.freeze(new Error("x")); e.stack; return e.stack`],
    [
      "one that is thrown again",
      `const e = new Error("x"); e.stack; e.message = "y"; try { throw e } catch (again) { return again.stack }`,
    ],
    [
      "one whose own was set and that is thrown",
      `try { const e = new Error("x"); e.stack = "own"; throw e } catch (e) { return e.stack }`,
    ],
    [
      "what is captured and named later",
      `const o = { message: "m" }; Error.captureStackTrace(o); o.name = "Later"; return o.stack`,
    ],
    [
      "one of a class in the style before classes",
      `function Own(m) { Error.call(this, m); Error.captureStackTrace(this, Own); this.message = m } Own.prototype = Object.create(Error.prototype, { name: { value: "Own" } }); return new Own("x").stack`,
    ],
    [
      "what is no error",
      `return [{ stack: [1] }.stack[0], "text".stack, { a: null }.a?.stack, [].stack === undefined].join()`,
    ],
    [
      "members of that name",
      `class Box { stack = []; add(x) { this.stack.push(x); return this } } const b = new Box().add(1); b.stack = [...b.stack, 2]; b.stack.push(3); delete b["x"]; const { stack } = b; return JSON.stringify([b, stack, { stack }, Object.keys({ ...b })])`,
    ],
    ["texts that mention it", `return "e.stack and { stack: 1 }, " + \`\${1}.stack\``],
    [
      "what is deleted",
      `const o = { stack: 1 }; delete o.stack; return String(o.stack) + ("stack" in o)`,
    ],
    [
      "what is counted",
      `const o = { stack: 1 }; o.stack++; o.stack += 2; o.stack ??= 9; return o.stack === 4 && o.stack >= 4`,
    ],
  ])("[TS-17] tells the stack of %s with its first line as Node.js does", async (_what, body) => {
    const run = `async function told() { ${body} }`;
    const AsyncFunction = (async () => {}).constructor as new (
      ...texts: string[]
    ) => () => Promise<unknown>;
    const expected = await new AsyncFunction(`${run}; return told()`)();
    const source = `${run}
      export async function processEvent(event) {
        const seen = await told();
        event.properties = { seen, stack: event.stack ?? null };
        return event;
      }`;
    const after = (await propertiesAfter(sandbox, source)) as { seen: Json; stack: Json };
    const [first, second] = String(after.seen).split("\n");
    // What runs the tests writes a colon behind each name.
    expect(first).toBe(String(expected).split("\n")[0]?.replace(/: $/, ""));
    if (second !== undefined) expect(second).toMatch(/^ {4}at .*index\.js:\d+/);
    expect(String(after.seen)).not.toContain("sandbox.js");
    expect(after.stack).toBeNull();
  });

  it.each([
    [
      "data that looks like a stack",
      `const lines = "    at f (a.js:1:2)\\n".repeat(14); const o = { stack: lines }; const { stack } = o; return [o.stack === lines, stack === lines, JSON.stringify(o) === JSON.stringify({ stack: lines })]`,
    ],
    [
      "objects without a prototype",
      `const o = Object.create(null); o.stack = 1; const { stack, ...rest } = o; return [o.stack, stack, rest, /(?<stack>a)/.exec("a").groups.stack, o?.stack]`,
    ],
    [
      "errors that are listed",
      `const e = new Error("x", { cause: 1 }); const keys = (o) => [Object.keys(o), Object.entries({ ...o }), JSON.stringify(o)]; const all = (o) => [Object.getOwnPropertyNames(o).sort(), Reflect.ownKeys(o).sort(), Object.keys(Object.getOwnPropertyDescriptors(o)).sort(), Object.hasOwn(o, "stack")]; const frozen = Object.freeze(new Error("y")); const o = { a: 1 }; Error.captureStackTrace(o); return [keys(e), all(e), keys(e), all(o), keys(o), "stack" in new Error(), "stack" in {}, all(new Proxy({ b: 1 }, {})), Object.getOwnPropertyNames("text"), Error.prototype.stack === undefined, Object.getOwnPropertyNames(frozen).sort()]`,
    ],
    [
      "what has set its own",
      `function Own(m) { this.message = m; this.stack = "own" } Own.prototype = Object.create(Error.prototype); const e = new Error("x"); e.stack = 5; class Field extends Error { stack = "field" } const f = new Error("f"); Object.defineProperty(f, "stack", { get: () => 1 }); return [Object.keys(new Own("z")), e.stack, Object.keys(e), new Field().stack, Object.keys(new Field()), f.stack]`,
    ],
    [
      "an accessor that reads its parent's",
      `class A { get stack() { return 1 } } class B extends A { get stack() { return super.stack + 1 } } return new B().stack`,
    ],
    [
      "what is assigned to",
      `const o = {}; const seen = []; [o.stack] = [7]; seen.push(o.stack); for (o.stack of [8]) seen.push(o.stack); for (o.stack in { k: 1 }) seen.push(o.stack); ({ a: o.stack } = { a: 9 }); seen.push(o.stack); ({ a: [{ b: o.stack = 5 }] } = { a: [{}] }); seen.push(o.stack); [...o.stack] = [1]; seen.push(o.stack); ({ ...o.stack } = { a: 1 }); return [seen, o.stack, ++o.stack, delete o.stack, o]`,
    ],
    [
      "proxies",
      `const keys = []; const p = new Proxy({}, { get: (_, key) => { keys.push(String(key)); return 1 } }); return [p.stack, p?.stack, [p.stack], keys]`,
    ],
    [
      "what may be missing",
      `const none = null, o = { a: { stack: "b" } }, empty = {}; const fails = (f) => { try { f(); return false } catch (e) { return e instanceof TypeError } }; return [none?.stack.split("").length, none?.stack?.x, none?.a.stack.b, o?.a.stack, o.a?.stack.length, o.a.stack?.length, empty.stack?.x, fails(() => none.stack), fails(() => empty?.stack.x), fails(() => empty?.a.stack)]`,
    ],
    [
      "methods of that name",
      `const o = { n: 1, stack(x) { return [this.n, x] }, stack2: 1 }; return [o.stack(2), o?.stack(3), o.stack?.(4), o.stack\`\`[0], new o.constructor().stack === undefined, new (class { stack = class { a = 1 } })().stack.name, new { stack: Date }.stack(0).getTime()]`,
    ],
    [
      "what stands beside texts and expressions",
      `const o = { stack: 4 }; const t = \`a\${o.stack}b\${\`\${o.stack}\`}\`.length; if (o) /[/\`]/.exec('/').stack; return [t, o.stack / 2 / o.stack, /\\/"/.test('"'), ('\`' + o.stack).length, [1, o.stack, [o.stack, { stack: o.stack }]], o.stack >= 4, (0, o.stack), o[o.stack], typeof o.stack, -o.stack, await o.stack, !o.stack]`,
    ],
    [
      "literals beside patterns",
      `const f = (a, { stack } = { stack: 1 }, ...rest) => [stack, rest]; class A { static of(o) { return o } m({ stack }, [{ stack: b }]) { return [stack, b] } } class B extends A.of(A, { stack: 1 }) {} const [c = true ? { stack: 3 } : 0] = []; function* g({ stack }) { yield stack } const p = { catch: (o) => o }; return [f(1), f(1, { stack: 2 }, { stack: 3 }), new B().m({ stack: 1 }, [{ stack: 2 }]), c, [...g({ stack: 5 })], p.catch({ stack: 6 }), [{ stack: 7 }].map(({ stack }) => ({ stack })), ((o) => { for (const { stack } of o) return stack })([{ stack: 8 }])]`,
    ],
  ])("[TS-17] reads the stack of %s as Node.js does", async (_what, body) => {
    const AsyncFunction = (async () => {}).constructor as new (
      ...texts: string[]
    ) => () => Promise<unknown>;
    const expected = await new AsyncFunction(body)();
    const source = `async function seen() { ${body} }
      export async function processEvent(event) { event.properties = { seen: await seen() }; return event }`;
    const plain = JSON.parse(JSON.stringify({ seen: expected }));
    expect(await propertiesAfter(sandbox, source)).toEqual(plain);
  });

  it("[TS-17] leaves what an event calls its stack as it is, with or without reading it", async () => {
    const stack = "    at f (a.js:1:2)\n".repeat(14);
    const source = `export function processEvent(event) {
      const { stack } = event.properties;
      event.properties.same = stack === event.properties.stack;
      return event;
    }`;
    const instance = await startSource(sandbox, source);
    const [event] = sampleEvents(1);
    const [outcome] = await instance.transform([
      { ...event, properties: { stack } } as SandboxEvent,
    ]);
    await instance.stop();
    expect(readOutcome(outcome)).toEqual({ stack, same: true });
  });

  it("[TS-14] has all methods of the console", async () => {
    const names = Object.keys(console).filter(
      (name) => !/^(_|profile|timeStamp|context|create|Console)/.test(name),
    );
    const { host, lines } = recordHost();
    expect(
      await propertiesAfter(
        sandbox,
        `export function processEvent(event) {
          for (const name of ${JSON.stringify(names)}) console[name]("of", "all");
          event.properties = { ran: true };
          return event;
        }`,
        { host },
      ),
    ).toEqual({ ran: true });
    expect(lines.map(({ message }) => message)).toContain("of all");
  });

  it("[TS-17] logs errors with their stack, and its first line once", async () => {
    const { host, lines } = recordHost();
    await propertiesAfter(
      sandbox,
      `export function processEvent() {
        const error = new TypeError("no"); console.error(error); console.error(error.stack); console.error(error); return null }`,
      { host },
    );
    for (const { message } of lines) expect(message).toMatch(/^TypeError: no\n {4}at processEvent/);
    expect(lines).toHaveLength(3);
  });

  it("[TS-17] keeps the names of classes that mention themselves, in every file", async () => {
    const own = (name: string) =>
      `class ${name} extends Error { constructor() { super(); Object.setPrototypeOf(this, ${name}.prototype); this.name = this.constructor.name } }`;
    expect(
      await propertiesAfter(sandbox, {
        "index.js": `import { Wrapped } from "./wrapped"; const { Lazy, seen } = require("./lazy"); ${own("Main")}
          const Given = class _Given { static self() { return _Given.name } };
          export function processEvent(event) {
            event.properties = { names: [new Main().name, new Wrapped().name, new Lazy().name, seen, Given.self()] };
            return event;
          }`,
        "wrapped.js": `${own("Wrapped")} exports.Wrapped = Wrapped;`,
        "lazy.js": `export ${own("Lazy")} class Seen { static own = Seen.name } export const seen = Seen.own;`,
      }),
    ).toEqual({ names: ["Main", "Wrapped", "Lazy", "Seen", "_Given"] });
  });

  it.each([
    ["a name", `import { Pool } from "pg"`, "new Pool()", `Pool of "pg"`],
    ["the whole", `import * as aws from "aws-sdk"`, "new aws.S3({})", `S3 of "aws-sdk"`],
    ["the default", `import snow from "snowflake-sdk"`, "snow.open()", `open of "snowflake-sdk"`],
    [
      "a required member",
      `const { name: { first } } = require("faker")`,
      "first()",
      `name.first of "faker"`,
    ],
    [
      "a path inside",
      `import S3 from "aws-sdk/clients/s3"`,
      "class Own extends S3 {}; new Own()",
      `"aws-sdk/clients/s3"`,
    ],
  ])(
    "[TS-1] takes a source that imports a package of PostHog's that is not here, and says so where it uses %s of it",
    async (_what, imports, use, named) => {
      const source = `${imports}; export function setupPlugin() { ${use} } export function exportEvents() {}`;
      const compiled = await sandbox.compile({ "index.ts": source });
      expect(compiled).toMatchObject({ program: { methods: ["setupPlugin", "exportEvents"] } });
      await expect(startSource(sandbox, source)).rejects.toThrow(
        `Cannot use ${named}: transformations have no such package`,
      );
      // The source's own comes first.
      const own = { "node_modules/pg/index.js": "exports.Pool = class { ran = true }" };
      expect(
        await propertiesAfter(sandbox, {
          ...own,
          "index.js": `const { Pool } = require("pg"); exports.processEvent = (event) => ({ ...event, properties: new Pool() })`,
        }),
      ).toEqual({ ran: true });
    },
  );

  it("[TS-1] lets a source look through a package that is not here, and come to an end", async () => {
    expect(
      await propertiesAfter(
        sandbox,
        `import pg from "pg"; import * as all from "aws-sdk";
        let count = 0;
        export function processEvent(event) {
          count += 1;
          const keys = [];
          for (const key in pg) keys.push(key);
          for (const key in pg.Client) keys.push(key);
          for (const key in all.S3) keys.push(key);
          const are = [pg instanceof Error, pg.Client instanceof Promise, event instanceof pg.Client, "x" in pg];
          const failures = [];
          for (const use of [() => new pg.Client(), () => pg.connect(), () => new (Object.create(pg).Pool)()]) {
            try { use() } catch (error) { failures.push(error.message) }
          }
          event.properties = { count, keys, are, failures };
          return event;
        }`,
      ),
    ).toEqual({
      count: 1,
      keys: [],
      are: [false, false, false, false],
      failures: ["Client", "connect", "Pool"].map(
        (name) => `Cannot use ${name} of "pg": transformations have no such package`,
      ),
    });
  });

  it("[TS-12] gives each call the settings as they are, whatever the one before has done to its own", async () => {
    const seen = "JSON.stringify(config), Object.keys(config).join(), config.key === undefined";
    const instance = await startSource(
      sandbox,
      `"use strict";
      export function setupPlugin({ config }) { config.list = config.text.split(",") }
      export async function processEvent(event, meta) {
        const { config } = meta;
        event.properties = { seen: [${seen}], within: null };
        delete config.key; config.text = "changed"; Object.assign(config, { more: 1 });
        event.properties.within = [config.text, config.more, "key" in config, { ...config }.text];
        return event;
      }
      export function composeWebhook(_event, { config }) {
        const body = JSON.stringify([config.key, config.text]);
        delete config.key; config.text = "gone";
        return { url: "https://a.b/", body };
      }`,
      { config: { key: "secret", text: "a,b" } },
    );
    const given = ['{"key":"secret","text":"a,b","list":["a","b"]}', "key,text,list", false];
    const outcomes = await instance.transform(sampleEvents(3));
    for (const outcome of outcomes) {
      const properties = { seen: given, within: ["changed", 1, false, "changed"] };
      expect(outcome).toMatchObject({ kind: "keep", event: { properties } });
    }
    const [event] = sampleEvents(1);
    for (let time = 0; time < 2; time += 1) {
      expect(
        await instance.call({ kind: "composeWebhook", event: event as SandboxEvent }),
      ).toMatchObject({
        value: { body: '["secret","a,b"]' },
      });
    }
    await instance.stop();
  });

  it.each([
    ["froze", "Object.freeze(config)"],
    ["changed and sealed", "config.key = 'changed'; Object.seal(config)"],
    ["closed and emptied", "Object.preventExtensions(config); delete config.key"],
    [
      "fixed a part of",
      "Object.defineProperty(config, 'key', { value: 'fixed', configurable: false })",
    ],
    ["gave a throwing setter to", "Object.defineProperty(config, 'key', { set() { throw 1 } })"],
  ])("[TS-12] gives each event the settings as they are after one %s them", async (_what, deed) => {
    for (const pause of ["", "await null;"]) {
      const instance = await startSource(
        sandbox,
        `let count = 0;
        export async function processEvent(event, { config }) {
          const seen = JSON.stringify(config);
          config.more = count += 1;
          const more = config.more;
          ${deed}; ${pause}
          event.properties = { seen, more, count };
          return event;
        }`,
        { config: { key: "secret", text: "a" } },
      );
      const outcomes = [
        ...(await instance.transform(sampleEvents(3))),
        ...(await instance.transform(sampleEvents(1))),
      ];
      const seen = '{"key":"secret","text":"a"}';
      expect(outcomes.map(readOutcome)).toEqual(
        [1, 2, 3, 4].map((count) => ({ seen, more: count, count })),
      );
      await instance.stop();
    }
  });

  it.each([
    ["takes them away", "meta.config = null"],
    ["deletes them", "delete meta.config"],
    ["puts others in their place", "meta.config = { key: 'other' }; meta.config.key = 'third'"],
    ["changes them and takes them away", "meta.config.key = 1; meta.config = 7"],
    ["adds to a list of them", "meta.config.list.push(3); meta.config.list[0] = 9"],
    ["empties a list of them", "meta.config.list.length = 0"],
    ["orders a list of them", "meta.config.list.reverse(); meta.config.list.name = 1"],
    ["changes what is inside of them", "meta.config.deep.in.side = 2; delete meta.config.deep.b"],
    ["puts objects in their place", "meta.config.deep = { in: 1 }; meta.config.deep.in = 2"],
    [
      "freezes what is inside of them",
      "Object.freeze(meta.config.deep.in); meta.config.deep.b = 3",
    ],
    [
      "freezes all",
      "Object.freeze(meta.config.list).name; Object.freeze(meta.config.deep.in); Object.freeze(meta.config.deep); Object.freeze(meta.config); Object.freeze(meta)",
    ],
    [
      "fixes others in their place",
      "Object.defineProperty(meta, 'config', { value: { z: 1 }, writable: false, configurable: false })",
    ],
    [
      "fixes a getter in their place, and freezes the settings",
      "Object.freeze(meta.config.list); Object.defineProperty(meta, 'config', { get() { throw new Error('no') }, configurable: false })",
    ],
    ["takes other members away", "meta.storage = meta.cache = null; delete meta.jobs"],
  ])("[TS-12] gives each event the settings as they are after one that %s", async (_what, deed) => {
    for (const pause of ["", "await null;"]) {
      const instance = await startSource(
        sandbox,
        `export function setupPlugin(meta) { meta.mine = { count: 0 } }
        export async function processEvent(event, meta) {
          const seen = JSON.stringify([meta.config, typeof meta.storage.get, typeof meta.cache.get, typeof meta.jobs, meta.config.list.length]);
          const count = ++meta.mine.count; meta.global = { count: (meta.global.count ?? 0) + 1 };
          const globalCount = meta.global.count;
          ${deed}; ${pause}
          event.properties = { seen, count, globalCount };
          return event;
        }`,
        { config: { key: "secret", list: [1, 2], deep: { in: { side: 1 }, b: [] } } },
      );
      const outcomes = [
        ...(await instance.transform(sampleEvents(3))),
        ...(await instance.transform(sampleEvents(1))),
      ];
      const seen =
        '[{"key":"secret","list":[1,2],"deep":{"in":{"side":1},"b":[]}},"function","function","object",2]';
      expect(outcomes.map(readOutcome)).toEqual(
        [1, 2, 3, 4].map((count) => ({ seen, count, globalCount: count })),
      );
      await instance.stop();
    }
  });

  it("[TS-12] keeps what setupPlugin makes of settings, and what is changed inside of that", async () => {
    const instance = await startSource(
      sandbox,
      `export function setupPlugin(meta) {
        meta.config.seen = new Set(); meta.config.list.push("b"); meta.config = { ...meta.config, own: [] };
      }
      export function processEvent(event, { config }) {
        config.seen.add(event.event); config.own.push(1); config.list.push("c");
        event.properties = { seen: [...config.seen], own: config.own.length, list: [...config.list] };
        return event;
      }`,
      { config: { list: ["a"] } },
    );
    expect((await instance.transform(sampleEvents(2))).map(readOutcome)).toEqual([
      { seen: ["event 0"], own: 1, list: ["a", "b", "c"] },
      { seen: ["event 0", "event 1"], own: 2, list: ["a", "b", "c"] },
    ]);
    await instance.stop();
  });

  it("[TS-12] leaves settings frozen that setupPlugin froze, and survives who tampers with how they come back", async () => {
    const instance = await startSource(
      sandbox,
      `let count = 0;
      export function setupPlugin({ config }) { config.list = [1]; Object.freeze(config); Object.keys = Reflect.deleteProperty = Object.getOwnPropertyDescriptors = () => { throw new Error("mine") } }
      export function processEvent(event, { config }) {
        Object.freeze(config);
        event.properties = { count: count += 1, list: config.list, isFrozen: Object.isFrozen(config) };
        return event;
      }`,
      { config: { key: "secret" } },
    );
    const outcomes = await instance.transform(sampleEvents(3));
    expect(outcomes.map(readOutcome)).toEqual(
      [1, 2, 3].map((count) => ({ count, list: [1], isFrozen: true })),
    );
    await instance.stop();
  });

  it("[TS-12] gives attachments of many megabytes, once", async () => {
    const file = (contents: Uint8Array) => ({ contentType: "a/b", fileName: "f", contents });
    const large = new Uint8Array(12_000_000).map((_byte, index) => index % 251);
    const instance = await startSource(
      sandbox,
      `export function setupPlugin({ attachments, global }) {
        const read = Object.getOwnPropertyDescriptor(attachments.large, "contents").get;
        global.large = attachments.large.contents;
        try { global.again = [read(), read(), read()].length } catch (e) { global.again = e.name }
      }
      export function processEvent(event, { attachments, global }) {
        const { large } = global;
        event.properties = {
          isBuffer: Buffer.isBuffer(large), length: large.length, part: large.subarray(250, 253).toString("hex"),
          last: large[large.length - 1], same: attachments.large.contents === large, again: global.again,
          empty: attachments.empty.contents.length, text: attachments.text.contents.toString(), names: Object.keys(attachments.text),
        };
        return event;
      }`,
      {
        attachments: {
          large: file(large),
          empty: file(new Uint8Array()),
          // A view of a larger buffer, as those of small files are.
          text: file(Buffer.from("…grün…").subarray(3, 8)),
        },
      },
    );
    const [outcome] = await instance.transform(sampleEvents(1));
    expect(outcome).toMatchObject({
      kind: "keep",
      event: {
        properties: {
          isBuffer: true,
          length: 12_000_000,
          part: "fa0001",
          last: 11_999_999 % 251,
          same: true,
          again: "RangeError",
          empty: 0,
          text: "grün",
          names: ["content_type", "file_name", "contents"],
        },
      },
    });
    await instance.stop();
  });

  it("[TS-14] verifies signatures", async () => {
    const source = `async function processEvent(event) {
      const bytes = (text) => new TextEncoder().encode(text);
      const key = await crypto.subtle.importKey("raw", bytes("k"), { name: "HMAC", hash: "SHA-256" }, false, ["sign", "verify"]);
      const signature = await crypto.subtle.sign("HMAC", key, bytes("data"));
      event.properties = {
        right: await crypto.subtle.verify("HMAC", key, signature, bytes("data")),
        wrong: await crypto.subtle.verify("HMAC", key, signature, bytes("other")),
        short: await crypto.subtle.verify("HMAC", key, signature.slice(1), bytes("data")),
      };
      return event;
    }`;
    expect(await propertiesAfter(sandbox, source)).toEqual({
      right: true,
      wrong: false,
      short: false,
    });
  });

  it("[TS-12] gives meta what PostHog's own sources take from it", async () => {
    const { host, lines } = recordHost();
    const instance = await startSource(
      sandbox,
      `export async function processEvent(event, { logger, fetch }) {
        logger.debug("seen", event.event);
        event.properties = { refused: await fetch("https://example.com/").catch((e) => e.message) };
        return event;
      }`,
      { host },
    );
    const [outcome] = await instance.transform(sampleEvents(1));
    expect(outcome).toMatchObject({
      event: { properties: { refused: expect.stringContaining("not granted") } },
    });
    expect(lines).toMatchObject([{ level: "debug", message: "seen event 0" }]);
    await instance.stop();
  });

  it("[TS-14] shows objects in the log as deep as Node.js does, or as is asked for", async () => {
    const { host, lines } = recordHost();
    const source = `export function processEvent(event) {
      const deep = { a: { b: { c: { d: 1 } } } };
      console.log(deep); console.dir(deep, { depth: null }); console.dir("text"); console.log("of %O", deep);
      return event;
    }`;
    const instance = await startSource(sandbox, source, { host });
    await instance.transform(sampleEvents(1));
    expect(lines.map(({ message }) => message)).toEqual([
      "{ a: { b: { c: [Object] } } }",
      "{ a: { b: { c: { d: 1 } } } }",
      "text",
      "of { a: { b: { c: [Object] } } }",
    ]);
    await instance.stop();
  });

  it("[TS-15] unpacks answers and heeds what is said of redirects, as Node.js does", async () => {
    const packed = { gzip: gzipSync, deflate: deflateSync, br: brotliCompressSync };
    const server = createServer((request, response) => {
      const [, kind = ""] = (request.url ?? "").split("/");
      if (kind === "away") response.writeHead(302, { location: "/there" }).end("moved");
      else if (kind === "elsewhere") response.writeHead(302, { location: "http://a.test/" }).end();
      else if (kind === "bomb") {
        response.writeHead(200, { "content-encoding": "gzip" });
        response.end(gzipSync(Buffer.alloc(3_000_000)));
      } else if (kind === "torn") {
        response.writeHead(200, { "content-encoding": "gzip" }).end("no gzip");
      } else if (Object.hasOwn(packed, kind)) {
        response.writeHead(200, { "content-encoding": kind });
        response.end(packed[kind as keyof typeof packed]('{"is":"packed"}'));
      } else if (kind === "both") {
        response.writeHead(200, { "content-encoding": "deflate, gzip" });
        response.end(gzipSync(deflateSync('{"is":"packed"}')));
      } else response.end(request.headers["accept-encoding"]);
    });
    await new Promise<void>((done) => server.listen(0, "127.0.0.1", done));
    const host = `127.0.0.1:${(server.address() as AddressInfo).port}`;
    const open = new QuickJsSandbox({ threads: 1, privateNetworks: ["127.0.0.1"] });
    // Asked in Node.js and in the sandbox alike.
    const asking = `const told = {};
      for (const kind of ["gzip", "deflate", "br", "both"]) {
        told[kind] = await (await fetch("http://${host}/" + kind)).json();
      }
      const manual = await fetch("http://${host}/away", { redirect: "manual" });
      told.manual = [manual.status, manual.headers.get("location"), manual.redirected, await manual.text()];
      const followed = await fetch("http://${host}/away");
      told.followed = [followed.status, followed.redirected, followed.url];
      told.error = await fetch("http://${host}/away", { redirect: "error" }).catch((error) => error.name);
      told.none = (await fetch("http://${host}/there", { redirect: "error" })).status;
      told.wrong = await fetch("http://${host}/away", { redirect: "maybe" }).catch((error) => error.name);`;
    const failing = `const why = (error) => error.message;
      told.bomb = await fetch("http://${host}/bomb").catch(why);
      told.torn = await fetch("http://${host}/torn").catch(why);
      told.elsewhere = await fetch("http://${host}/elsewhere").catch(why);
      told.file = await fetch("file:///etc/passwd").catch(why);`;
    try {
      const seen = (await propertiesAfter(
        open,
        `export async function processEvent(event) { ${asking} ${failing} event.properties = told; return event; }`,
        { allowedHosts: [host], limits: DEFAULT_LIMITS },
      )) as JsonObject;
      const { bomb, torn, elsewhere, file, ...alike } = seen;
      const inNode = new Function(`return (async () => { ${asking} return told; })()`);
      // What node-fetch calls an error of its own is one of a type to others.
      expect({ ...alike, error: "TypeError" }).toEqual(await inNode());
      expect(bomb).toMatch(/answered more than 2000000 bytes/);
      expect(torn).toMatch(/its answer cannot be unpacked/);
      expect(elsewhere).toMatch(/redirected to a\.test, which is not granted/);
      expect(file).toBe("only http and https can be fetched, not file:");
    } finally {
      await open.close();
      await new Promise((done) => server.close(done));
    }
  });

  it("[TS-15] tells failures of fetch as node-fetch does", async () => {
    const server = createServer((request, response) => {
      if (request.url === "/cut") request.socket.destroy();
      else if (request.url === "/large")
        response.end(JSON.stringify(Array.from({ length: 20_000 }, (_, id) => ({ id, n: "ü" }))));
      else response.writeHead(503).end();
    });
    await new Promise<void>((done) => server.listen(0, "127.0.0.1", done));
    const host = `127.0.0.1:${(server.address() as AddressInfo).port}`;
    const open = new QuickJsSandbox({ threads: 1, privateNetworks: ["127.0.0.1"] });
    try {
      const seen = (await propertiesAfter(
        open,
        `import fetch, { FetchError } from "node-fetch";
        export async function processEvent(event) {
          const answer = await fetch("http://${host}/");
          const cut = await fetch("http://${host}/cut").catch((e) => [e.name, e instanceof FetchError, e instanceof TypeError]);
          const other = await fetch("http://example.com/").catch((e) => e.name);
          const large = await fetch("http://${host}/large");
          const copy = await large.clone().text();
          const items = await large.json();
          event.properties = { items: [items.length, items[7].n, copy.length], text: answer.status + " " + answer.statusText, cut, other };
          return event;
        }`,
        { allowedHosts: [host], limits: DEFAULT_LIMITS },
      )) as JsonObject;
      expect(seen).toEqual({
        items: [
          20_000,
          "ü",
          JSON.stringify(Array.from({ length: 20_000 }, (_, id) => ({ id, n: "ü" }))).length,
        ],
        text: "503 Service Unavailable",
        cut: ["FetchError", true, true],
        other: "TypeError",
      });
    } finally {
      await open.close();
      await new Promise((done) => server.close(done));
    }
  });
});
