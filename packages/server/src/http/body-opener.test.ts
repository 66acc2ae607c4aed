import { gzipSync } from "node:zlib";
import { afterEach, describe, expect, it } from "vitest";
import { createBodyOpener } from "./body-opener.ts";
import { type EncodedBody, LayerTooLarge } from "./open-body.ts";

const MAX_BYTES = 1_000_000;

function bodyOf(bytes: Buffer): EncodedBody {
  return { bytes, contentType: undefined, contentEncoding: "br", query: { compression: "gzip" } };
}
const textBody = (text: string) => bodyOf(gzipSync(text));

describe("[DE-9] the opener of large bodies", () => {
  let opener = createBodyOpener();
  afterEach(() => opener.close());

  it("answers each body, the readable, the unreadable and the too large", async () => {
    opener = createBodyOpener();
    const opening = [
      opener.open(textBody('{"a":"é"}'), MAX_BYTES),
      opener.open(bodyOf(gzipSync("{}").subarray(0, -9)), MAX_BYTES),
      opener.open(textBody(" ".repeat(MAX_BYTES + 1)), MAX_BYTES),
      opener.open(bodyOf(Buffer.from("data=%7B%7D&token=phc_1")), MAX_BYTES),
    ];
    const [readable, unreadable, tooLarge, form] = await Promise.allSettled(opening);
    expect(readable).toMatchObject({ value: { content: Buffer.from('{"a":"é"}') } });
    expect(unreadable).toMatchObject({
      reason: { message: "failed to decompress (unexpected end of file)" },
    });
    expect(tooLarge).toMatchObject({ reason: expect.any(LayerTooLarge) });
    expect(form).toMatchObject({
      value: { content: Buffer.from("{}"), form: new Map([["token", "phc_1"]]) },
    });
  });

  it("answers those that ask beside a body that cannot be handed over", async () => {
    opener = createBodyOpener();
    const form = (text: string) => opener.open(textBody(text), MAX_BYTES);
    const uncloneable = { ...textBody("[0]"), query: { compression: () => "gzip" } };
    const [first, refused, second, third] = await Promise.allSettled([
      form("[1]"),
      opener.open(uncloneable, MAX_BYTES),
      form("[2]"),
      form("[3]"),
    ]);
    expect(refused).toMatchObject({ status: "rejected", reason: { name: "DataCloneError" } });
    expect(
      [first, second, third].map((one) =>
        one?.status === "fulfilled" ? String(one.value.content) : one?.status,
      ),
    ).toEqual(["[1]", "[2]", "[3]"]);
  });

  it("ends its thread when nothing comes, and starts it again", async () => {
    opener = createBodyOpener({ idleMs: 1 });
    for (const text of ["[1]", "[2]", "[3]"]) {
      const { content } = await opener.open(textBody(text), MAX_BYTES);
      expect(String(content)).toBe(text);
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  });

  it("refuses for now whoever waits when its thread is lost", async () => {
    opener = createBodyOpener();
    const opening = opener.open(textBody("[1]"), MAX_BYTES).catch((error: unknown) => error);
    await opener.close();
    expect(await opening).toMatchObject({ status: 503, headers: { "retry-after": "1" } });
    expect(String((await opener.open(textBody("[2]"), MAX_BYTES)).content)).toBe("[2]");
  });
});
