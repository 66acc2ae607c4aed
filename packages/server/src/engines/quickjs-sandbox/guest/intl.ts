import type { GuestCore } from "./part.ts";

type Values = unknown[];

/**
 * `Intl` and the methods that follow languages. QuickJS has neither; the host's answers are asked
 * for with plain data, so they are those of Node.js.
 */
export function makePart(core: GuestCore): Record<string, unknown> {
  /** Numbers cross as text: JSON has no NaN, -0 or bigint. Instants as milliseconds. */
  function plain(value: unknown): unknown {
    if (typeof value === "number") return { number: Object.is(value, -0) ? "-0" : String(value) };
    if (typeof value === "bigint") return { bigint: String(value) };
    if (value instanceof Date) return { number: String(value.getTime()) };
    if (value === undefined) return { absent: true };
    if (typeof value !== "object" || value === null || value instanceof String) {
      return { text: String(value) };
    }
    // Lists of any kind, a `Set` too.
    if (Symbol.iterator in value) return { list: [...(value as Iterable<unknown>)].map(plain) };
    return { text: String(value) };
  }

  function ask(kind: string, settings: Values, method: string, values: Values): unknown {
    return core.call("intl", [kind, settings.map((item) => item ?? null), method, values]);
  }

  /** A class whose instances hold their settings and ask for every answer. */
  function formatter(kind: string, methods: string[], bound: string | null) {
    class Formatter {
      readonly #settings: Values;
      constructor(locales?: unknown, options?: unknown) {
        this.#settings = [locales, plainOptions(options)];
        ask(kind, this.#settings, "resolvedOptions", []);
        if (bound !== null) {
          const format = (...values: Values) => ask(kind, this.#settings, bound, values.map(plain));
          core.put(this, bound, format);
        }
      }
      static supportedLocalesOf(locales: unknown): unknown {
        return ask(kind, [], "supportedLocalesOf", [locales ?? []]);
      }
      resolvedOptions(): unknown {
        return ask(kind, this.#settings, "resolvedOptions", []);
      }
      static settingsOf(instance: Formatter): Values {
        return instance.#settings;
      }
      get [Symbol.toStringTag](): string {
        return `Intl.${kind}`;
      }
    }
    const { settingsOf } = Formatter;
    Reflect.deleteProperty(Formatter, "settingsOf");
    for (const method of methods) {
      Object.defineProperty(Formatter.prototype, method, {
        value(this: Formatter, ...values: Values) {
          const answer = ask(kind, settingsOf(this), method, values.map(plain));
          return answer === null && method === "of" ? undefined : answer;
        },
        writable: true,
        configurable: true,
      });
    }
    Object.defineProperty(Formatter, "name", { value: kind });
    // These two may be called without `new`.
    if (kind !== "DateTimeFormat" && kind !== "NumberFormat" && kind !== "Collator")
      return Formatter;
    const traps: ProxyHandler<typeof Formatter> = {
      apply: (target, _self, [locales, options]) => new target(locales, options),
    };
    const callable = new Proxy(Formatter, Object.setPrototypeOf(traps, null));
    core.put(Formatter.prototype, "constructor", callable);
    return callable;
  }

  function plainOptions(options: unknown): unknown {
    if (options === undefined || options === null) return null;
    return Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined));
  }

  class Locale {
    readonly #tag: string;
    readonly #fields: Record<string, unknown>;
    constructor(tag: unknown, options?: unknown) {
      this.#fields = ask("Locale", [String(tag), plainOptions(options)], "fields", []) as Record<
        string,
        unknown
      >;
      this.#tag = String(this.#fields["tag"]);
      for (const [name, value] of Object.entries(this.#fields)) {
        if (name !== "tag") core.put(this, name, value);
      }
    }
    toString(): string {
      return this.#tag;
    }
    maximize(): Locale {
      return new Locale(this.#fields["maximized"]);
    }
    minimize(): Locale {
      return new Locale(this.#fields["minimized"]);
    }
  }

  class Segmenter {
    readonly #settings: Values;
    constructor(locales?: unknown, options?: unknown) {
      this.#settings = [locales, plainOptions(options)];
      ask("Segmenter", this.#settings, "resolvedOptions", []);
    }
    segment(text: unknown): Iterable<unknown> {
      return ask("Segmenter", this.#settings, "segment", [{ text: String(text) }]) as unknown[];
    }
    resolvedOptions(): unknown {
      return ask("Segmenter", this.#settings, "resolvedOptions", []);
    }
  }

  const provided = {
    DateTimeFormat: formatter(
      "DateTimeFormat",
      ["formatToParts", "formatRange", "formatRangeToParts"],
      "format",
    ),
    NumberFormat: formatter(
      "NumberFormat",
      ["formatToParts", "formatRange", "formatRangeToParts"],
      "format",
    ),
    PluralRules: formatter("PluralRules", ["select", "selectRange"], null),
    RelativeTimeFormat: formatter("RelativeTimeFormat", ["format", "formatToParts"], null),
    ListFormat: formatter("ListFormat", ["format", "formatToParts"], null),
    DisplayNames: formatter("DisplayNames", ["of"], null),
    Collator: formatter("Collator", [], "compare"),
    Segmenter,
    Locale,
    getCanonicalLocales: (locales: unknown) =>
      ask("Intl", [], "getCanonicalLocales", [locales ?? []]),
    supportedValuesOf: (key: unknown) => ask("Intl", [], "supportedValuesOf", [String(key)]),
  };

  Object.defineProperty(provided, Symbol.toStringTag, { value: "Intl", configurable: true });

  const localeMethod = (kind: string, method: string) =>
    function (this: unknown, ...values: Values): unknown {
      const [locales, options] = values;
      return ask(kind, [locales, plainOptions(options)], method, [plain(primitiveOf(this))]);
    };

  function primitiveOf(value: unknown): unknown {
    return typeof value === "object" && value !== null && !(value instanceof Date)
      ? (value as { valueOf(): unknown }).valueOf()
      : value;
  }

  const methods = {
    toLocaleDateString: localeMethod("Date", "toLocaleDateString"),
    toLocaleTimeString: localeMethod("Date", "toLocaleTimeString"),
    toLocaleString(this: unknown, ...values: Values): unknown {
      const kind = this instanceof Date ? "Date" : "Number";
      return Reflect.apply(localeMethod(kind, "toLocaleString"), this, values);
    },
    localeCompare(this: unknown, other: unknown, locales?: unknown, options?: unknown): unknown {
      const texts = [{ text: String(this) }, { text: String(other) }];
      return ask("Collator", [locales, plainOptions(options)], "compare", texts);
    },
    toLocaleUpperCase(this: unknown, locales?: unknown): unknown {
      return ask("String", [locales, null], "toLocaleUpperCase", [{ text: String(this) }]);
    },
    toLocaleLowerCase(this: unknown, locales?: unknown): unknown {
      return ask("String", [locales, null], "toLocaleLowerCase", [{ text: String(this) }]);
    },
  };

  return { Intl: provided, methods };
}
