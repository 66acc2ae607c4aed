import { afterAll, beforeAll, expect, it } from "vitest";
import { QuickJsSandbox } from "../quickjs-sandbox.ts";
import { bothWays } from "./as-in-node.setup.ts";

let sandbox: QuickJsSandbox;
beforeAll(() => {
  sandbox = new QuickJsSandbox({ threads: 1 });
});
afterAll(() => sandbox.close());

it.each([
  "((error) => [error.name, error.message, error.cause.name, error.cause.message])(structuredClone(new TypeError('a', { cause: new RangeError('b') })))",
  "Object.hasOwn(structuredClone(new Error('a')), 'cause')",
  "((list) => [list.length, 1 in list])(structuredClone([1, , 3]))",
  "(() => { const o = { at: new Date(0) }; o.o = o; const copy = structuredClone(o); return [copy.o === copy, copy !== o, copy.at.getTime()] })()",
  "structuredClone({ work() {} })",
])("[TS-14] %s is what it is in Node.js", async (expression) => {
  const [inside, outside] = await bothWays(sandbox, expression);
  expect(inside).toEqual(outside);
});
