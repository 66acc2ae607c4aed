import { randomBytes, randomUUID } from "node:crypto";
import {
  stringify as formatQuery,
  parse as parseQuery,
  unescape as readQueryPart,
} from "node:querystring";
import {
  domainToASCII,
  domainToUnicode,
  format,
  parse,
  resolve,
  type URLFormatOptions,
} from "node:url";
import * as zlib from "node:zlib";
import type { Charge } from "./host-allowance.ts";
import { answerCrypto } from "./host-crypto.ts";
import { readDate } from "./read-date.ts";

/** Most bytes that a compressed text may become, and that may be drawn at once. */
const MAX_INFLATED_BYTES = 8_000_000;
const MAX_RANDOM_BYTES = 1_000_000;
const MAX_SEGMENTED_CHARS = 100_000;
/** What a millisecond is enough for, about. */
const PACKED_BYTES_PER_MS = 20_000;
const UNPACKED_BYTES_PER_MS = 200_000;
const MAX_FORMATTERS = 100;

type Values = readonly unknown[];

/**
 * Answers what code in the sandbox asks of the platform and gets at once: URLs, encodings, hashes,
 * languages. Plain data in, plain data out; nothing here reads or changes anything. Whatever is
 * thrown becomes an error inside of the sandbox.
 */
export class HostAnswers {
  readonly #formatters = new Map<string, object>();

  /** @throws for questions that have no answer, and where it takes more work than may be charged */
  answer(op: string, argument: unknown, charge: Charge): unknown {
    switch (op) {
      case "url":
        return answerUrl(argument as Values);
      case "decode":
        return answerDecode(argument as Values);
      case "base64":
        return answerBase64(argument as Values);
      case "encode": {
        const [latin1, encoding] = argument as Values;
        return Buffer.from(String(latin1), "latin1").toString(encoding as BufferEncoding);
      }
      case "crypto":
        return answerCrypto(argument as Values, charge);
      case "random": {
        const size = Number(argument);
        if (!Number.isInteger(size) || size < 0 || size > MAX_RANDOM_BYTES) {
          throw new RangeError(`The size must be between 0 and ${MAX_RANDOM_BYTES}`);
        }
        return randomBytes(size).toString("latin1");
      }
      case "uuid":
        return randomUUID();
      case "zlib":
        return answerZlib(argument as Values, charge);
      case "date":
        return readDate(String(argument));
      case "intl":
        return this.#answerIntl(argument as Values);
      default:
        throw new Error(`There is no ${op}`);
    }
  }

  #answerIntl([kind, settings, method, given]: Values): unknown {
    const [locales, options] = settings as Values;
    const name = String(method);
    if (name === "supportedLocalesOf") {
      const of = constructorOf(String(kind)).supportedLocalesOf;
      return of((given as Values)[0] as string[]);
    }
    if (kind === "Intl") {
      if (name === "getCanonicalLocales")
        return Intl.getCanonicalLocales((given as Values)[0] as string[]);
      return Intl.supportedValuesOf((given as Values)[0] as "calendar");
    }
    const values = kind === "Locale" ? [] : (given as Values).map(readValue);
    const [first] = values;
    const language = (locales ?? "en-US") as string;
    switch (kind) {
      case "Date": {
        const withZone = { timeZone: "UTC", ...(options as object | null) };
        const date = new Date(first as number);
        if (name === "toLocaleDateString") return date.toLocaleDateString(language, withZone);
        if (name === "toLocaleTimeString") return date.toLocaleTimeString(language, withZone);
        return date.toLocaleString(language, withZone);
      }
      case "Number":
        return (first as number).toLocaleString(language, (options ?? undefined) as object);
      case "String": {
        const text = String(first);
        return name === "toLocaleUpperCase"
          ? text.toLocaleUpperCase(language)
          : text.toLocaleLowerCase(language);
      }
      case "Locale":
        return localeFields(String(locales), options);
    }
    const formatter = this.#formatterOf(String(kind), language, options) as Record<string, unknown>;
    if (kind === "Segmenter" && name === "segment") {
      const text = String(first);
      if (text.length > MAX_SEGMENTED_CHARS) throw new RangeError("The text is too long");
      return [...(formatter as unknown as Intl.Segmenter).segment(text)];
    }
    if (!METHODS.has(name)) throw new TypeError(`There is no ${name}`);
    return (
      Reflect.apply(formatter[name] as (...values: unknown[]) => unknown, formatter, values) ?? null
    );
  }

  #formatterOf(kind: string, locales: unknown, options: unknown): object {
    const key = JSON.stringify([kind, locales, options]);
    const known = this.#formatters.get(key);
    if (known !== undefined) return known;
    const settings: Record<string, unknown> = { ...(options as object | null) };
    // The zone of the machine is nobody's business.
    if (kind === "DateTimeFormat") settings.timeZone ??= "UTC";
    const made = new (constructorOf(kind))(locales as string, settings as never);
    if (this.#formatters.size >= MAX_FORMATTERS) this.#formatters.clear();
    this.#formatters.set(key, made);
    return made;
  }
}

const METHODS = new Set([
  "format",
  "formatToParts",
  "formatRange",
  "formatRangeToParts",
  "select",
  "selectRange",
  "of",
  "compare",
  "resolvedOptions",
]);

interface FormatterClass {
  new (locales: string, options: never): object;
  supportedLocalesOf(locales: string[]): string[];
}

function constructorOf(kind: string): FormatterClass {
  switch (kind) {
    case "DateTimeFormat":
      return Intl.DateTimeFormat as unknown as FormatterClass;
    case "NumberFormat":
      return Intl.NumberFormat as unknown as FormatterClass;
    case "PluralRules":
      return Intl.PluralRules as unknown as FormatterClass;
    case "RelativeTimeFormat":
      return Intl.RelativeTimeFormat as unknown as FormatterClass;
    case "ListFormat":
      return Intl.ListFormat as unknown as FormatterClass;
    case "DisplayNames":
      return Intl.DisplayNames as unknown as FormatterClass;
    case "Collator":
      return Intl.Collator as unknown as FormatterClass;
    case "Segmenter":
      return Intl.Segmenter as unknown as FormatterClass;
    default:
      throw new TypeError(`There is no Intl.${kind}`);
  }
}

function localeFields(tag: string, options: unknown): unknown {
  const locale = new Intl.Locale(tag, (options ?? undefined) as Intl.LocaleOptions);
  const {
    baseName,
    language,
    script,
    region,
    calendar,
    numberingSystem,
    numeric,
    caseFirst,
    collation,
    hourCycle,
  } = locale;
  return {
    tag: locale.toString(),
    maximized: locale.maximize().toString(),
    minimized: locale.minimize().toString(),
    ...{
      baseName,
      language,
      script,
      region,
      calendar,
      numberingSystem,
      numeric,
      caseFirst,
      collation,
      hourCycle,
    },
  };
}

interface PlainValue {
  readonly number?: string;
  readonly bigint?: string;
  readonly text?: string;
  readonly list?: readonly PlainValue[];
}

function readValue(given: unknown): unknown {
  const value = given as PlainValue;
  if (value.number !== undefined) return Number(value.number);
  if (value.bigint !== undefined) return BigInt(value.bigint);
  if (value.list !== undefined) return value.list.map(readValue);
  return value.text;
}

const SETTABLE = new Set([
  "protocol",
  "username",
  "password",
  "host",
  "hostname",
  "port",
  "pathname",
  "search",
  "hash",
]);

function answerUrl([op, ...values]: Values): unknown {
  const [first, second, third] = values;
  switch (op) {
    case "parse":
      try {
        return fieldsOf(
          second === null ? new URL(String(first)) : new URL(String(first), String(second)),
        );
      } catch {
        return null;
      }
    case "set": {
      const url = new URL(String(first));
      const part = String(second);
      if (!SETTABLE.has(part)) throw new TypeError(`There is no ${part} in a URL`);
      (url as unknown as Record<string, string>)[part] = String(third);
      return fieldsOf(url);
    }
    case "query":
      return [...new URLSearchParams(String(first))];
    case "format":
      return new URLSearchParams(first as [string, string][]).toString();
    case "parseQuery":
      return { ...parseQuery(String(first), ...signsOf(second, third)) };
    case "formatQuery":
      return formatQuery(first as Record<string, string>, ...signsOf(second, third));
    case "legacyParse": {
      const parsed = parse(String(first), second === true, third === true);
      return { ...parsed, ...(second === true && { query: { ...(parsed.query as object) } }) };
    }
    case "unescape":
      return readQueryPart(String(first));
    case "formatUrl":
      return format(new URL(String(first)), second as URLFormatOptions);
    case "legacyFormat":
      return format(first as string);
    case "legacyResolve":
      return resolve(String(first), String(second));
    case "toAscii":
      return domainToASCII(String(first));
    case "toUnicode":
      return domainToUnicode(String(first));
    default:
      throw new Error(`There is no ${String(op)}`);
  }
}

/** What stands between pairs and within one, where not the usual. */
function signsOf(separator: unknown, equals: unknown): [string | undefined, string | undefined] {
  const sign = (given: unknown) => (typeof given === "string" ? given : undefined);
  return [sign(separator), sign(equals)];
}

const URL_FIELDS = [
  ...(["href", "origin", "protocol", "username", "password", "host"] as const),
  ...(["hostname", "port", "pathname", "search", "hash"] as const),
];

const fieldsOf = (url: URL) => Object.fromEntries(URL_FIELDS.map((field) => [field, url[field]]));

function answerDecode([op, text, options]: Values): unknown {
  if (op === "label") return new TextDecoder(String(text)).encoding;
  const { encoding, fatal, ignoreBOM, goesOn } = options as {
    encoding: string;
    fatal: boolean;
    ignoreBOM: boolean;
    goesOn: boolean;
  };
  const decoder = new TextDecoder(encoding, { fatal, ignoreBOM });
  return decoder.decode(Buffer.from(String(text), "latin1"), { stream: goesOn });
}

function answerBase64([op, text]: Values): unknown {
  return op === "encode" ? btoa(String(text)) : atob(String(text));
}

function answerZlib([kind, latin1]: Values, charge: Charge): unknown {
  if (kind === "constants") return { ...zlib.constants };
  const given = String(latin1);
  charge(given.length / PACKED_BYTES_PER_MS);
  const answer = packOrUnpack(kind, given);
  // How much something packed is cannot be seen before.
  charge(answer.length / UNPACKED_BYTES_PER_MS);
  return answer;
}

/** Brotli at its best takes many times as long as all else here; what it packs reads the same. */
const BROTLI = { params: { [zlib.constants.BROTLI_PARAM_QUALITY]: 4 } };

function packOrUnpack(kind: unknown, latin1: string): string {
  const bytes = Buffer.from(latin1, "latin1");
  const options = { maxOutputLength: MAX_INFLATED_BYTES };
  switch (kind) {
    case "gzip":
      return zlib.gzipSync(bytes).toString("latin1");
    case "gunzip":
      return zlib.gunzipSync(bytes, options).toString("latin1");
    case "deflate":
      return zlib.deflateSync(bytes).toString("latin1");
    case "inflate":
      return zlib.inflateSync(bytes, options).toString("latin1");
    case "deflateRaw":
      return zlib.deflateRawSync(bytes).toString("latin1");
    case "inflateRaw":
      return zlib.inflateRawSync(bytes, options).toString("latin1");
    case "unzip":
      return zlib.unzipSync(bytes, options).toString("latin1");
    case "brotliCompress":
      return zlib.brotliCompressSync(bytes, BROTLI).toString("latin1");
    case "brotliDecompress":
      return zlib.brotliDecompressSync(bytes, options).toString("latin1");
    default:
      throw new Error(`There is no ${String(kind)}`);
  }
}
