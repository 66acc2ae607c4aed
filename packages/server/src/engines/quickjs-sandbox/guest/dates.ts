import { call } from "./bridge.ts";
import { apply, defineProperty, put, without } from "./intrinsics.ts";

const { construct } = Reflect;
const { exec } = RegExp.prototype;

/** What the engine reads as V8 does. */
const PLAIN = /^\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?(?:Z|[+-]\d\d:\d\d)?)?$/;

/**
 * Gives code a `Date` that reads texts as V8 does: the engine reads other ones, and fewer. Whatever
 * is not of the common form is asked of the host.
 */
export function giveDates(): void {
  nameZone("toString");
  nameZone("toTimeString");
  const Native = Date;
  const { parse: parsePlain, prototype } = Native;
  const parse = (text: string): number => {
    if (apply(exec, PLAIN, [text]) !== null) return parsePlain(text);
    return (call("date", text) as number | null) ?? Number.NaN;
  };
  function Given(...values: unknown[]): unknown {
    if (new.target === undefined) return `${new Native()}`;
    if (values.length === 1 && typeof values[0] === "string") values[0] = parse(values[0]);
    return construct(Native, values, new.target);
  }
  const shown = { writable: false, enumerable: false, configurable: false };
  defineProperty(Given, "name", without({ value: "Date", configurable: true }));
  defineProperty(Given, "length", without({ value: 7, configurable: true }));
  defineProperty(Given, "prototype", without({ ...shown, value: prototype }));
  put(Given, "now", Native.now);
  const own = { parse: (text: unknown) => parse(`${text}`) };
  put(Given, "parse", own.parse);
  put(Given, "UTC", Native.UTC);
  put(prototype, "constructor", Given);
  put(globalThis, "Date", Given);
}

/** Dates name their zone in words, which QuickJS leaves out. */
function nameZone(name: "toString" | "toTimeString"): void {
  const native = Date.prototype[name];
  const method = {
    [name](this: Date): string {
      const text = apply(native, this, []);
      return text.endsWith("+0000") ? `${text} (Coordinated Universal Time)` : text;
    },
  }[name];
  put(Date.prototype, name, method);
}
