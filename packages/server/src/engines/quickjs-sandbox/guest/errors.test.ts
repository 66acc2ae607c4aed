import { afterAll, beforeAll, expect, it } from "vitest";
import { QuickJsSandbox } from "../quickjs-sandbox.ts";
import { bothWays } from "./as-in-node.setup.ts";

let sandbox: QuickJsSandbox;
beforeAll(() => {
  sandbox = new QuickJsSandbox({ threads: 1 });
});
afterAll(() => sandbox.close());

it.each([
  "require('zlib').gunzipSync(Buffer.from('no gzip at all'))",
  "require('crypto').createCipheriv('aes-128-cbc', 'short', 'i'.repeat(16))",
  "require('crypto').createCipheriv('nothing', 'k', 'i')",
  "new TextDecoder('nothing')",
  "new TextDecoder('utf-8', { fatal: true }).decode(new Uint8Array([0xff]))",
  "new URL('nothing')",
  "atob('*')",
  "new Intl.NumberFormat('en', { style: 'currency' })",
])(
  "[TS-14] the error of %s has the name, code and message that Node.js gives it",
  async (failing) => {
    const told = `(() => { try { ${failing} } catch ({ name, code, message }) { return [name, code, message] } })()`;
    const [inside, outside] = await bothWays(sandbox, told);
    expect(inside).toEqual(outside);
  },
);
