import { brotliCompressSync, gzipSync } from "node:zlib";
import { afterAll, expect, it } from "vitest";
import { createBodyOpener } from "../http/body-opener.ts";
import { Refusal } from "../http/errors.ts";
import { createLargeBodies } from "../http/large-bodies.ts";
import type { EncodedBody } from "../http/open-body.ts";
import { createCaptureBodies } from "./capture-bodies.ts";

const batch = Array.from({ length: 5000 }, (_, index) => ({
  event: `event ${index}`,
  distinct_id: "ann",
  properties: { index, text: 'é\u{1f994} \\ " 12345678901234567890' },
}));
const whole = { api_key: "phc_key", batch, sent_at: "2024-05-01T10:00:00.000Z" };
const text = JSON.stringify(whole);

function bodyOf(bytes: Buffer): EncodedBody {
  return { bytes, contentType: "application/json", contentEncoding: undefined, query: {} };
}

const opener = createBodyOpener();
afterAll(() => opener.close());
const createBodies = (bounds: { maxHeldBytes?: number } = {}) =>
  createCaptureBodies(createLargeBodies({ opener, ...bounds }));

const nobody = () => {
  throw new Error("nobody is to be told");
};

it.each([
  ["plain", Buffer.from(text)],
  ["behind a byte order mark", Buffer.from(`\uFEFF${text}`)],
  ["gzip", gzipSync(text)],
  [
    "gzip in two members, of which the last is short",
    Buffer.concat([gzipSync(text.slice(0, -5)), gzipSync(text.slice(-5))]),
  ],
  ["base64 in gzip", gzipSync(Buffer.from(text).toString("base64"))],
])("[CA-67] a large body is read as a small one: %s", async (_, bytes) => {
  const bodies = createBodies();
  expect(await bodies.open(bodyOf(bytes), async ({ value }) => value, nobody)).toEqual(whole);
});

it.each([
  ["cut off", Buffer.from(text.slice(0, -100)), 400, "invalid_payload"],
  ["gzip cut off", gzipSync(text).subarray(0, -100), 400, "invalid_payload"],
  ["gzip of more than 20 MiB", gzipSync(`[${" ".repeat(21 * 2 ** 20)}]`), 413, "request_too_large"],
])(
  "[CA-67] a large body that cannot be read is refused as a small one, and told: %s",
  async (_, bytes, status, code) => {
    const told: Refusal[] = [];
    const opening = createBodies().open(bodyOf(bytes), nobody, (refusal) => told.push(refusal));
    const refusal = await opening.catch((error: unknown) => error);
    expect(refusal).toBeInstanceOf(Refusal);
    expect(refusal).toMatchObject({ status, body: { code } });
    expect(told).toEqual([refusal]);
  },
);

it("[CA-67] large bodies are worked on two at a time, and beyond thirty that wait refused for now", async () => {
  const bodies = createBodies();
  let working = 0;
  let most = 0;
  let goOn = () => {};
  const held = new Promise<void>((resolve) => {
    goOn = resolve;
  });
  let tellTwo = () => {};
  const areTwo = new Promise<void>((resolve) => {
    tellTwo = resolve;
  });
  const work = async () => {
    most = Math.max(most, ++working);
    if (working === 2) tellTwo();
    await held;
    working--;
    return "done";
  };
  const large = bodyOf(gzipSync(text));
  const taken = Array.from({ length: 32 }, () => bodies.open(large, work, nobody));
  const refusal = await bodies.open(large, work, nobody).catch((error: unknown) => error);
  expect(refusal).toMatchObject({
    status: 503,
    body: { code: "unavailable" },
    headers: { "retry-after": "1" },
  });
  const small = bodyOf(Buffer.from('{"event":"visit"}'));
  expect(await bodies.open(small, async () => "at once", nobody)).toBe("at once");
  await areTwo;
  goOn();
  expect(await Promise.all(taken)).toEqual(Array.from({ length: 32 }, () => "done"));
  expect(most).toBe(2);
});

it("[CA-67] large bodies are refused for now where those that wait are too large together", async () => {
  const large = bodyOf(Buffer.from(text));
  const bodies = createBodies({ maxHeldBytes: 2 * large.bytes.length });
  let goOn = () => {};
  const held = new Promise<void>((resolve) => {
    goOn = resolve;
  });
  const open = () => bodies.open(large, () => held.then(() => "done"), nobody);
  const taken = [open(), open()];
  await expect(open()).rejects.toMatchObject({ status: 503, headers: { "retry-after": "1" } });
  goOn();
  expect(await Promise.all(taken)).toEqual(["done", "done"]);
  expect(await open()).toBe("done");
  const small = createBodies({ maxHeldBytes: 1 });
  expect(await small.open(large, async () => "one is taken", nobody)).toBe("one is taken");
});

it.each([
  ["gzip that tells of less", Buffer.concat([gzipSync(text), gzipSync("")]), undefined],
  ["br", brotliCompressSync(text), "br"],
])(
  "[CA-67] a body that is large only once it is open waits as well: %s",
  async (_, bytes, contentEncoding) => {
    const short = { ...bodyOf(bytes), contentEncoding };
    const bodies = createBodies({ maxHeldBytes: bytes.length });
    let goOn = () => {};
    const held = new Promise<void>((resolve) => {
      goOn = resolve;
    });
    const first = bodies.open(short, ({ value }) => held.then(() => value), nobody);
    await expect(bodies.open(short, nobody, nobody)).rejects.toMatchObject({ status: 503 });
    goOn();
    expect(await first).toEqual(whole);
  },
);
