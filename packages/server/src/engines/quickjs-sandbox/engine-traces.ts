/**
 * What the engine is made to call where an error was made, so that `stack` is the guest's to tell:
 * the engine gives it to each error as a value of its own, without a first line (`TypeError: message`),
 * and offers nothing by which that could be changed.
 */
export const TRACE = "\u0001race";

/** The engine's module with that name in place of `stack`, which is as long. */
export function withOwnTraces(engine: Uint8Array): Uint8Array<ArrayBuffer> {
  const bytes = Buffer.from(engine);
  // Where it lists the names that it knows by itself.
  const before = "\0errors\0";
  const names = `${before}stack\0name\0`;
  const at = bytes.indexOf(names, 0, "latin1");
  if (at < 0 || bytes.indexOf(names, at + 1, "latin1") >= 0) {
    throw new Error("the engine keeps its names elsewhere than it did");
  }
  bytes.write(TRACE, at + before.length, "latin1");
  return bytes;
}
