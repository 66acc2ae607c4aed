import { afterAll, beforeAll, expect, it } from "vitest";
import { QuickJsSandbox } from "../quickjs-sandbox.ts";
import { propertiesAfter } from "../sandbox.setup.ts";
import { bothWays } from "./as-in-node.setup.ts";

let sandbox: QuickJsSandbox;
beforeAll(() => {
  sandbox = new QuickJsSandbox({ threads: 1 });
});
afterAll(() => sandbox.close());

it.each([
  "new Date('2024-01-02t03:04:05z').getTime()",
  "new Date('2024-01-02T03:04:05,123Z').getTime()",
  "new Date('2020-05-05 5:00:00:250 UTC').getTime()",
  "new Date('2020-05-05 13:00 PM GMT').getTime()",
  "new Date('Mai 5 2020 UTC').getTime()",
  "new Date('Jan 2 2024 03:04:05 CET').getTime()",
  "Date.parse('1/2/2024, 3:04:05\\u202fPM EST')",
  "Date.parse({ toString: () => '2024-01-02' })",
  "[Date.name, Date.length, typeof Date(), new Date(0).constructor === Date, Object.keys(Date), Date.parse.name]",
  "((Day) => [new Day('2024-01-02').getTime(), new Day() instanceof Date, new Day(0) instanceof Day])(class Day extends Date {})",
  "Reflect.construct(Date, [0], Array) instanceof Array",
  "[new Date(new Date(5)).getTime(), new Date(1.9).getTime(), new Date(null).getTime(), new Date([2020]).getTime()]",
  "new Date(Symbol())",
  "/a(b)/.test('ab') && new Date('2024-01-02').getTime() && RegExp.$1",
])("[TS-17] %s is what it is in Node.js", async (expression) => {
  const [inside, outside] = await bothWays(sandbox, expression);
  expect(inside).toEqual(outside);
});

it("[TS-17] dates written for people of another zone are read again", async () => {
  const source = `function processEvent(event) {
    const there = new Date(Date.UTC(2024, 5, 1, 20)).toLocaleString("en-US", { timeZone: "America/New_York" });
    event.properties = { there: new Date(there).toISOString(), now: /\\(Coordinated Universal Time\\)$/.test(Date()) };
    return event;
  }`;
  expect(await propertiesAfter(sandbox, source)).toEqual({
    there: "2024-06-01T16:00:00.000Z",
    now: true,
  });
});
