import { giveDates } from "./dates.ts";
import { defineLater } from "./define-later.ts";
import { type AnyFunction, apply, put } from "./intrinsics.ts";
import { part } from "./load-part.ts";
import { giveStacks } from "./stacks.ts";
import { giveWeakRefs } from "./weak-refs.ts";

const always = () => true;

/** Gives the language what the engine lacks of it. */
export function completeLanguage(): void {
  defineLater(globalThis, "Intl", () => part("intl")["Intl"]);
  localize(Date.prototype, "toLocaleString", always);
  localize(Date.prototype, "toLocaleDateString", always);
  localize(Date.prototype, "toLocaleTimeString", always);
  localize(Number.prototype, "toLocaleString", always);
  localize(BigInt.prototype, "toLocaleString", always);
  localize(String.prototype, "localeCompare", always);
  localize(String.prototype, "toLocaleUpperCase", ([locales]) => locales !== undefined);
  localize(String.prototype, "toLocaleLowerCase", ([locales]) => locales !== undefined);
  localizeLists(Array.prototype);
  localizeLists(Object.getPrototypeOf(Uint8Array.prototype) as object);

  giveDates();
  sortAsV8("sort");
  sortAsV8("toSorted");
  // What `using` asks for.
  for (const name of ["dispose", "asyncDispose"]) {
    if (!(name in Symbol)) {
      Object.defineProperty(Symbol, name, { value: Symbol(`Symbol.${name}`) });
    }
  }
  giveStacks();
  giveWeakRefs();
}

/** A method that QuickJS answers without regard to languages, or not at all. */
function localize(prototype: object, name: string, isNeeded: (values: unknown[]) => boolean): void {
  const native = (prototype as Record<string, AnyFunction>)[name];
  const method = {
    [name](this: unknown, ...values: unknown[]): unknown {
      if (native !== undefined && !isNeeded(values)) return apply(native, this, values);
      const localized = (part("intl")["methods"] as Record<string, AnyFunction>)[name];
      return apply(localized as AnyFunction, this, values);
    },
  }[name];
  Object.defineProperty(prototype, name, { value: method, writable: true, configurable: true });
}

/** QuickJS does not tell the items of a list in which language they are to be written. */
function localizeLists(prototype: object): void {
  const method = {
    toLocaleString(this: ArrayLike<unknown>, ...settings: unknown[]): string {
      let text = "";
      for (let at = 0; at < this.length; at += 1) {
        const item = this[at] as { toLocaleString: AnyFunction } | null | undefined;
        const written =
          item == null || item === this ? "" : apply(item.toLocaleString, item, settings);
        text += at === 0 ? String(written) : `,${written}`;
      }
      return text;
    },
  }.toLocaleString;
  put(prototype, "toLocaleString", method);
}

/**
 * V8 asks only whether what stands behind comes before, so that yes and no (`a > b`) leave all in their
 * order, while QuickJS takes a yes for coming behind. Where that is answered, the other way round is
 * asked as well: other answers may be numbers (`a > b || -(a < b)`).
 */
function sortAsV8(name: "sort" | "toSorted"): void {
  const native = Array.prototype[name] as AnyFunction;
  const method = {
    [name](this: unknown[], compare: unknown): unknown {
      if (typeof compare !== "function") return apply(native, this, [compare]);
      let first: unknown;
      // The first two: nobody is asked about what is undefined.
      for (let at = 0; at < this.length; at += 1) {
        const value = this[at];
        if (value === undefined) continue;
        if (first === undefined) {
          first = value;
          continue;
        }
        if (typeof compare(first, value) !== "boolean") break;
        return apply(native, this, [
          (one: unknown, other: unknown) => {
            const order = compare(one, other);
            if (typeof order !== "boolean") return order;
            return compare(other, one) < 0 ? 1 : 0;
          },
        ]);
      }
      return apply(native, this, [compare]);
    },
  }[name];
  put(Array.prototype, name, method);
}
