import { inspect } from "node:util";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { QuickJsSandbox } from "../quickjs-sandbox.ts";
import { propertiesAfter, recordHost } from "../sandbox.setup.ts";
import { bothWays } from "./as-in-node.setup.ts";

let sandbox: QuickJsSandbox;
beforeAll(() => {
  sandbox = new QuickJsSandbox({ threads: 1 });
});
afterAll(() => sandbox.close());

describe("util", () => {
  it.each([
    "Buffer.from('ab')",
    "{ bytes: Buffer.alloc(60) }",
    "new Uint8Array(3)",
    "new Float64Array([1.5, -0])",
    "new ArrayBuffer(2)",
    "[1, , 3, , ,]",
    "new Array(2)",
    "[-0, 0, NaN, 1n]",
    "Object.assign([1], { extra: 2 })",
    "{ get a() { throw new Error('read') }, set a(v) {}, set b(v) {}, get c() { return 1 } }",
    "{ [Symbol('s')]: 1, 'a-b': 2, a_$: 3 }",
    "class Kind {}",
    "class Own extends Map {}",
    "(class {})",
    "() => 1",
    "async function named() {}",
    "function* () {}",
    "Object.assign(function named() {}, { a: 1 })",
    "new (class Kind { a = 1; #b = 2 })()",
    "new (class Kind {})()",
    "new (class Own extends Array {})(1, 2)",
    "new (class Own extends Map {})([[1, { a: 1 }]])",
    "Object.create(null)",
    "Object.assign(Object.create(null), { a: 1 })",
    "Object.create({ inherited: 1 })",
    "{ [Symbol.toStringTag]: 'Tagged' }",
    "[new Number(3), new String('x'), new Boolean(false), Object(1n)]",
    "new Map()",
    "new Set([[1], 'a'])",
    "new WeakMap()",
    "new Date(NaN)",
    "new URLSearchParams('a=1&b=x y')",
    "new Headers({ b: '1', a: '2' })",
    "new URL('http://ann@a.test/b?c=d#e')",
    "[new URLSearchParams(), new Headers()]",
    "{ [Symbol.for('nodejs.util.inspect.custom')]: (depth) => 'own ' + depth }",
    "{ a: { b: { c: { d: 1 } } } }",
    "((o) => { o.self = o; return o })({ a: 1 })",
    "[new TypeError('x')].map(({ name, message }) => ({ name, message }))",
  ])("[TS-14] inspects %s as Node.js does, on one line", async (value) => {
    const seen = `require("util").inspect(${value}, { breakLength: Infinity, compact: 99 })`;
    const [inside, outside] = await bothWays(sandbox, seen);
    expect(inside).toEqual(outside);
  });

  it.each([
    "'%s', -0",
    "'%s', () => 1",
    "'%s', new (class B { toString() { return 'its own' } })()",
    "'%s', { toString() { return 'its own' } }",
    "'%s', { a: { b: {} } }",
    "'%s', [1, 'a', [2]]",
    "'%s', new (class C { a = 1 })()",
    "'%s', new Date(0)",
    "'%s', Object.create(null)",
    "'%s', 5n",
    "'%d %d %d', '42', 5n, {}",
    "'%i %f', '42.5', '1.5x'",
    "'%O', { a: { b: { c: { d: {} } } } }",
    "'%j', { a: [1] }",
    "'a', 'b', { c: 1 }, -0",
    "1, '2', null",
  ])("[TS-14] formats %s as Node.js does", async (values) => {
    const [inside, outside] = await bothWays(sandbox, `require("util").format(${values})`);
    expect(inside).toEqual(outside);
  });
});

it("[TS-17] logs of an error what was put on it, and what caused it", async () => {
  const { host, lines } = recordHost();
  const source = `function processEvent(event) {
    const cause = Object.assign(new RangeError("deep"), { code: "E_DEEP" });
    console.error("failed", Object.assign(new Error("outer", { cause }), { status: 503 }));
    return event;
  }`;
  await propertiesAfter(sandbox, source, { host });
  const [{ message = "" } = {}] = lines;
  expect(message).toMatch(/^failed Error: outer\n/);
  expect(message).toMatch(/status: 503/);
  expect(message).toMatch(/\[cause\]: RangeError: deep/);
  expect(message).toMatch(/code: 'E_DEEP'/);
  expect(inspect(new Error("x", { cause: 1 }))).toMatch(/\[cause\]: 1/);
});
