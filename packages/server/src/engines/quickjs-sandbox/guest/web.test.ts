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
  ...["utf-16le", "shift_jis", "utf-8", "euc-kr"].map(
    (encoding) =>
      `((decoder) => [[65], [0x82], [0xa0, 0x42, 0xe3], [0x81, 0x82], [0xb0], [0xa1, 0]].map((bytes) => decoder.decode(new Uint8Array(bytes), { stream: true })).concat(decoder.decode(), decoder.decode(new Uint8Array([65, 0]))))(new TextDecoder("${encoding}"))`,
  ),
  "((decoder) => [[0xef], [0xbb, 0xbf, 65], [0xef, 0xbb, 0xbf, 66]].map((bytes) => decoder.decode(new Uint8Array(bytes), { stream: true }).length).concat(decoder.decode(new Uint8Array([0xef, 0xbb, 0xbf, 67])).length, decoder.decode(new Uint8Array([0xef, 0xbb, 0xbf, 68])).length))(new TextDecoder())",
  "((event) => { event.preventDefault(); return [event.defaultPrevented, event.bubbles, event.composed, event.isTrusted, event.eventPhase, typeof event.timeStamp, event.currentTarget] })(new Event('a', { bubbles: true, cancelable: true }))",
  "((target, seen) => { target.addEventListener('a', (event) => { event.stopPropagation(); seen.push(event.currentTarget === target) }); target.addEventListener('a', (event) => { event.stopImmediatePropagation(); seen.push(2) }); target.addEventListener('a', () => seen.push(3)); target.dispatchEvent(new Event('a')); return seen })(new EventTarget(), [])",
  "new EventTarget().dispatchEvent({ type: 'a' })",
])("[TS-14] %s is what it is in Node.js", async (expression) => {
  const [inside, outside] = await bothWays(sandbox, expression);
  expect(inside).toEqual(outside);
});
