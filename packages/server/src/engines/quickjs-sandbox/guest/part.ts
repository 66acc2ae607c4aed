/** Values in words: the part `inspect`. */
export interface Inspecting extends Record<string, unknown> {
  /** As consoles show it: a text as it is, unless it lies in something. */
  show(value: unknown, depth?: number): string;
  inspect(value: unknown, options?: unknown, depth?: unknown): string;
  /** Fills the placeholders of the first text. */
  format(values: unknown[]): string;
}

/** What the core of the guest gives to the parts that are evaluated when first used. */
export interface GuestCore {
  /** Asks the host, which answers at once; throws the host's error. */
  call(op: string, argument: unknown): unknown;
  /** Asks the host, which answers later. */
  ask(op: string, argument: unknown): Promise<unknown>;
  part(name: string): Record<string, unknown>;
  /** Gives an object a property of its own, which may be changed and is listed only on request. */
  put(target: object, name: PropertyKey, value: unknown, enumerable?: boolean): void;
  show(value: unknown, depth?: number): string;
  inspect(value: unknown, options?: unknown, depth?: unknown): string;
  format(values: unknown[]): string;
  describeThrown(thrown: unknown): string;
  /** An error with its stack. */
  describeError(error: Error): string;
  errorOf(text: string): Error;
  /** Bytes in an encoding of Node.js; pays where there are many. */
  textOf(bytes: Uint8Array, encoding: string): string;
}

/** Many bytes are quicker written by the host. */
const MANY_BYTES = 1_000;

/** Bytes as text of one character each, which is how they cross the border. */
export function toLatin1(bytes: Uint8Array, core: GuestCore): string {
  return bytes.length > MANY_BYTES ? core.textOf(bytes, "latin1") : String.fromCharCode(...bytes);
}

export function fromLatin1(text: string): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(text.length);
  for (let at = 0; at < text.length; at += 1) bytes[at] = text.charCodeAt(at);
  return bytes;
}

/** The bytes of whatever holds bytes. */
export function viewOf(value: unknown): Uint8Array {
  if (value instanceof Uint8Array) return value;
  if (value instanceof ArrayBuffer) return new Uint8Array(value);
  if (ArrayBuffer.isView(value)) {
    return new Uint8Array(value.buffer, value.byteOffset, value.byteLength);
  }
  throw new TypeError("The argument must be a buffer, a typed array or a view of data");
}

/** A text as the bytes of UTF-8, one character for each. */
export function utf8(text: string): string {
  return unescape(encodeURIComponent(text.toWellFormed()));
}
