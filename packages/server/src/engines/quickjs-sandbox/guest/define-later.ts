import { defineProperty, without } from "./intrinsics.ts";

/** A property that is made when it is first asked for. */
export function defineLater(
  target: object,
  name: string,
  read: () => unknown,
  enumerable = false,
): void {
  const fix = (value: unknown) =>
    defineProperty(target, name, without({ value, writable: true, configurable: true }));
  /** Where the target was frozen before. */
  let kept: { readonly value: unknown } | undefined;
  const property = {
    get() {
      if (kept !== undefined) return kept.value;
      const value = read();
      if (!fix(value)) kept = { value };
      return value;
    },
    set: (value: unknown) => void fix(value),
    configurable: true,
    enumerable,
  };
  defineProperty(target, name, without(property));
}
