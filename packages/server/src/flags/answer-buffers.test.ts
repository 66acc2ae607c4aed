import { describe, expect, it } from "vitest";
import { createAnswerBuffers } from "./answer-buffers.ts";

const MEGABYTE = 1024 * 1024;

describe("memory for answers", () => {
  it("is lent again once it was given back, and only then", () => {
    const lend = createAnswerBuffers();
    const first = lend(MEGABYTE);
    const second = lend(MEGABYTE);
    expect(second.bytes.buffer).not.toBe(first.bytes.buffer);
    first.release();
    const third = lend(MEGABYTE + 100);
    expect(third.bytes.buffer).toBe(first.bytes.buffer);
    expect(third.bytes).toHaveLength(MEGABYTE + 100);
  });

  it("given back twice is not lent twice", () => {
    const lend = createAnswerBuffers();
    const first = lend(MEGABYTE);
    first.release();
    first.release();
    expect(lend(MEGABYTE).bytes.buffer).not.toBe(lend(MEGABYTE).bytes.buffer);
  });

  it("is not kept where it is very large, or where many were lent at once", () => {
    const lend = createAnswerBuffers();
    const large = lend(20 * MEGABYTE);
    large.release();
    expect(lend(MEGABYTE).bytes.buffer).not.toBe(large.bytes.buffer);
    const many = Array.from({ length: 6 }, () => lend(MEGABYTE));
    for (const { release } of many) release();
    const memories = new Set(many.map(({ bytes }) => bytes.buffer));
    const again = Array.from({ length: 6 }, () => lend(MEGABYTE));
    expect(again.filter(({ bytes }) => memories.has(bytes.buffer))).toHaveLength(4);
  });
});
