import * as library from "buffer/";

/** Node's `Buffer`, from the kept library. */
export function makePart(): Record<string, unknown> {
  const { Buffer, SlowBuffer, kMaxLength } = library as unknown as Record<string, unknown>;
  return { Buffer, SlowBuffer, kMaxLength, constants: { MAX_LENGTH: kMaxLength } };
}
