import * as library from "buffer/";

type AnyFunction = (...values: unknown[]) => unknown;
type Methods = Record<string, AnyFunction>;

/** Node's `Buffer`, from the kept library, which lacks one encoding: `base64url`. */
export function makePart(): Record<string, unknown> {
  const { Buffer, SlowBuffer, kMaxLength } = library as unknown as Record<string, unknown>;
  const statics = Buffer as Methods;
  const { prototype } = Buffer as { prototype: Methods };
  // The library decodes both alphabets as base64; arguments before these are never encodings.
  for (const [name, first] of [
    ["from", 1],
    ["byteLength", 1],
    ["alloc", 2],
  ] as const) {
    replaceEncoding(statics, name, first);
  }
  for (const name of ["write", "fill", "indexOf", "lastIndexOf", "includes"]) {
    replaceEncoding(prototype, name, 1);
  }
  const { isEncoding } = statics as { isEncoding: AnyFunction };
  define(statics, "isEncoding", (encoding) => isBase64Url(encoding) || isEncoding(encoding));
  const { toString: write } = prototype as { toString: AnyFunction };
  define(prototype, "toString", function (this: unknown, encoding, ...range) {
    if (!isBase64Url(encoding)) return Reflect.apply(write, this, [encoding, ...range]);
    const text = Reflect.apply(write, this, ["base64", ...range]) as string;
    return text.replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
  });
  return { Buffer, SlowBuffer, kMaxLength, constants: { MAX_LENGTH: kMaxLength } };
}

function replaceEncoding(target: Methods, name: string, first: number): void {
  const method = target[name] as AnyFunction;
  define(target, name, function (this: unknown, ...values) {
    const plain = values.map((value, index) =>
      index >= first && isBase64Url(value) ? "base64" : value,
    );
    return Reflect.apply(method, this, plain);
  });
}

function isBase64Url(encoding: unknown): boolean {
  return typeof encoding === "string" && encoding.toLowerCase() === "base64url";
}

function define(
  target: Methods,
  name: string,
  value: (this: unknown, ...values: unknown[]) => unknown,
): void {
  Object.defineProperty(target, name, { value, writable: true, configurable: true });
}
