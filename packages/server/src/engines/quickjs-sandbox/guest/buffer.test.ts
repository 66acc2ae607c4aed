import { afterAll, beforeAll, expect, it } from "vitest";
import { DEFAULT_LIMITS } from "../../../transformations/sandbox.ts";
import { QuickJsSandbox } from "../quickjs-sandbox.ts";
import { bothWays } from "./as-in-node.setup.ts";

let sandbox: QuickJsSandbox;
beforeAll(() => {
  sandbox = new QuickJsSandbox({ threads: 1 });
});
afterAll(() => sandbox.close());

it.each([
  "Buffer.from([0xe2, 0x82]).toString()",
  "Buffer.from([0x61, 0xf0, 0x9f, 0x98, 0x62, 0xff, 0xc3, 0x28]).toString()",
  "Buffer.from([0xed, 0xa0, 0x80, 0xef, 0xbf, 0xbd, 0xe2, 0x82]).toString('utf-8', 1, 7)",
  "Buffer.from([0xe2, 0x82, 0xac]).toString('UTF8', 0, 2)",
  "[Buffer.from('a').constructor.name, Buffer.name]",
  "[Buffer.from('ab').inspect(), Buffer.alloc(60).inspect()]",
  "[[0xff], [0xe2, 0x82, 0xac], [0xef, 0xbf, 0xbd]].map((bytes) => require('buffer').isUtf8(Buffer.from(bytes)))",
  "[...Buffer.from('a\\ud83d\\ud83d')]",
  "[Buffer.byteLength('\\ud83d\\ud83d'), Buffer.alloc(7).write('\\ud83d\\ud83d'), Buffer.from('\\ud83d\\ud83d', 'utf16le').length, Buffer.byteLength('1-', 'hex')]",
  "[...Buffer.from('123e4567-e89b-12d3', 'hex')]",
  "[...Buffer.from('0g12', 'hex'), ...Buffer.from('abc', 'HEX'), ...Buffer.from(' 1', 'hex')]",
  "((bytes) => [bytes.write('12-4', 1, 'hex'), ...bytes, bytes.indexOf('12', 'hex'), ...Buffer.alloc(3, 'abz', 'hex')])(Buffer.alloc(4))",
  "require('buffer').isAscii(Buffer.from('aé'))",
  "[...require('buffer').transcode(Buffer.from('é'), 'utf8', 'latin1')]",
  "[require('buffer').Blob === Blob, require('buffer').atob('YQ=='), require('buffer').btoa('a')]",
  "require('buffer').constants.MAX_STRING_LENGTH",
])("[TS-14] %s is what it is in Node.js", async (expression) => {
  const [inside, outside] = await bothWays(sandbox, expression);
  expect(inside).toEqual(outside);
});

it("[TS-14] reads long hexadecimal texts", async () => {
  const expression = "Buffer.from('ab'.repeat(1_000_000), 'hex').length";
  const limits = { ...DEFAULT_LIMITS, eventCpuMs: 60_000 };
  expect(await bothWays(sandbox, expression, { limits })).toEqual([1_000_000, 1_000_000]);
});
