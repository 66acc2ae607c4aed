import { afterAll, beforeAll, expect, it } from "vitest";
import { QuickJsSandbox } from "../quickjs-sandbox.ts";
import { bothWays } from "./as-in-node.setup.ts";

let sandbox: QuickJsSandbox;
beforeAll(() => {
  sandbox = new QuickJsSandbox({ threads: 1 });
});
afterAll(() => sandbox.close());

const url = 'require("url")';
const query = 'require("querystring")';
const address = 'new URL("https://ann:key@xn--4ca.test/a?b#c")';

it.each([
  `${url}.parse(undefined)`,
  `${url}.parse(5)`,
  `${url}.resolve("http://a.test/b", undefined)`,
  `${url}.parse("//a.test/b", false, true).host`,
  `${url}.parse("//a.test/b").host`,
  `${url}.format(${address}, { auth: false, fragment: false, search: false, unicode: true })`,
  `${url}.format(${address})`,
  `${query}.stringify({ a: [1, 2n, true, {}], b: NaN, c: null, d: "x y", e: undefined })`,
  `${query}.stringify("text")`,
  `${query}.encode({ a: 1 }, ";", ":")`,
  `${query}.decode("a=1&b=%20+")`,
  `${query}.unescape("%zz%20")`,
])("[TS-14] %s is what it is in Node.js", async (expression) => {
  const [inside, outside] = await bothWays(sandbox, expression);
  expect(inside).toEqual(outside);
});
