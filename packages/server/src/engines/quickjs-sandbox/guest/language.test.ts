import { afterAll, beforeAll, expect, it } from "vitest";
import { QuickJsSandbox } from "../quickjs-sandbox.ts";
import { propertiesAfter } from "../sandbox.setup.ts";

let sandbox: QuickJsSandbox;
beforeAll(() => {
  sandbox = new QuickJsSandbox({ threads: 1 });
});
afterAll(() => sandbox.close());

it.each([
  `[1234.5, new Date(0), 7n, null, "x"].toLocaleString("de")`,
  "[1234.5, [new Date(0)]].toLocaleString()",
  `[0.5].toLocaleString("en", { style: "percent" })`,
  `new Float64Array([1234.5, 2]).toLocaleString("de")`,
  "[].toLocaleString()",
  `new Intl.ListFormat("de").format(new Set(["a", "b"]))`,
  `new Intl.NumberFormat("de").format(new String("1234.5"))`,
  "[Intl.NumberFormat, Intl.Collator].every((kind) => kind.prototype.constructor === kind)",
  "new WeakRef({ a: 1 }).deref()",
  "[5, 1, 4].sort((a, b) => a > b)",
  "[{ at: 1 }, { at: 3 }, { at: 2 }].toSorted((a, b) => a.at < b.at)",
  "[undefined, 5, , 1, 4].sort((a, b) => a > b).join()",
  "[5, 1, undefined, 4].sort((a, b) => a - b).join()",
  "[3, 1, 2, 5, 4, 1].sort((a, b) => a > b || -(a < b))",
  "[3, 1, 2, 5, 4, 1].toSorted((a, b) => (a > b ? true : -1))",
  "Array.prototype.sort.call({ length: 2, 0: 'b', 1: 'a' }, (a, b) => a > b)",
  "[Array.prototype.sort.name, Array.prototype.sort.length, [2, 1].sort(undefined)]",
  "((weak) => [weak instanceof WeakRef, String(weak), WeakRef.name])(new WeakRef([]))",
])("[TS-17] %s is what it is in Node.js", async (expression) => {
  const source = `function processEvent(event) { event.properties = { seen: ${expression} }; return event }`;
  const inNode: unknown = new Function(`return ${expression}`)();
  expect(await propertiesAfter(sandbox, source)).toEqual({ seen: inNode });
});
