/**
 * What runs in the sandbox before a transformation: drives it, and gives it its globals. Made into
 * one text and evaluated inside of QuickJS; nothing of Node.js or of the platform exists there.
 * Transformations share this realm and may tamper with all of it, to nobody's harm but their own:
 * whoever answers the host calls trusts nothing that comes from here.
 */

import {
  type BatchPlaces,
  endPlainly,
  isInnerSettled,
  isNoPromise,
  type LazyObject,
  type LazyShape,
  lazyEvent,
  lazyShape,
  newList,
  release,
  SELF,
  startSets,
  takeSets,
  writeAnswer,
  writeWhole,
} from "./lazy.ts";

/** Calls that reach the outside. Texts in, text out. */
interface Bridge {
  /** Answers at once; a text that starts with `!` is an error of that message. */
  call(op: string, argument: string): string | undefined;
  /** The next event to work on by itself, or -1; tells which one is done, or -1, and what became of it. */
  begin(done: number, outcome: string): number;
  /** Room for the marks of a run. */
  readonly marks: ArrayBuffer;
  /** What an attached file holds. */
  bytes(key: string): ArrayBuffer;
  /** Bytes in an encoding that Node.js knows, as JSON. */
  text(bytes: ArrayBuffer, encoding: string): string;
}

type Json = unknown;
type AnyFunction = (...values: unknown[]) => unknown;
type Exports = Record<string, unknown>;
interface Setup {
  readonly config: Record<string, Json>;
  readonly attachments: Record<string, { contentType: string; fileName: string }>;
  readonly siteUrl?: string;
}
interface CacheEntry {
  value: Json;
  expiresAt: number;
}

const scope = globalThis as unknown as Record<string, unknown>;
const bridge = scope["__bridge"] as Bridge;
delete scope["__bridge"];

const { parse, stringify } = JSON;
const { now } = Date;
const { isArray } = Array;
const { keys: keysOf, isExtensible, isFrozen } = Object;
const { setPrototypeOf, defineProperty, deleteProperty, getOwnPropertyDescriptor, ownKeys } =
  Reflect;
const { join } = Array.prototype;
const { apply } = Reflect;
const { bind } = Function.prototype;
const { then: promiseThen } = Promise.prototype;
// biome-ignore lint/security/noGlobalEval: parts of the guest itself, inside of the sandbox
const run = globalThis.eval;
const settlers = new Map<number, { resolve: AnyFunction; reject: AnyFunction }>();
let asked = 0;

const ROOT = Object.prototype as unknown as Record<PropertyKey, unknown>;
const LIST_ROOT = Array.prototype as unknown as { toJSON?: unknown };
/** How deep what the guest says nests, of its own. */
const MAX_OWN_DEPTH = 20;

/** JSON of what the guest says: in it, a `toJSON` that code gives to all objects or lists is no one's. */
function write(value: unknown): string {
  return stringify(LIST_ROOT.toJSON === undefined ? value : bare(value, 0)) ?? "null";
}

/** Lists and objects without a prototype; those that write their JSON themselves as they are. */
function bare(value: unknown, depth: number): unknown {
  if (typeof value !== "object" || value === null || depth > MAX_OWN_DEPTH) return value;
  const { toJSON } = value as { toJSON?: unknown };
  if (toJSON !== LIST_ROOT.toJSON && toJSON !== ROOT["toJSON"]) return value;
  const copy = without(isArray(value) ? [] : {}) as Record<string, unknown>;
  const keys = keysOf(value);
  for (let at = 0; at < keys.length; at += 1) {
    const key = keys[at] as string;
    copy[key] = bare((value as Record<string, unknown>)[key], depth + 1);
  }
  return copy;
}

/** The same object without a prototype: what code gives to all objects is not taken for its own. */
function without<T extends object>(object: T): T {
  setPrototypeOf(object, null);
  return object;
}

function call(op: string, argument: unknown): Json {
  const answer = bridge.call(op, write(argument));
  if (answer === undefined || answer === "") return undefined;
  if (answer.charCodeAt(0) === 33) throw errorOf(answer.slice(1));
  return parse(answer);
}

/** `Name: message` becomes an error of that kind where there is one. */
function errorOf(text: string): Error {
  const match = /^(\w*Error): /.exec(text);
  const kinds: Record<string, ErrorConstructor> = { RangeError, TypeError, SyntaxError };
  const kind = match === null ? undefined : kinds[match[1] ?? ""];
  if (kind !== undefined && match !== null) return new kind(text.slice(match[0].length));
  return new Error(text.replace(/^Error: /, ""));
}

function ask(op: string, argument: unknown): Promise<Json> {
  asked += 1;
  const id = asked;
  const answer = bridge.call("ask", write([id, op, argument]));
  if (answer !== undefined && answer.charCodeAt(0) === 33) {
    return Promise.reject(errorOf(answer.slice(1)));
  }
  return new Promise((resolve, reject) => {
    settlers.set(id, { resolve: resolve as AnyFunction, reject: reject as AnyFunction });
  });
}

/** The answer to what was asked: `[id, ok, value or message]`. */
function settle(text: string): void {
  leaveRun();
  const [id, ok, value] = parse(text) as [number, boolean, Json];
  const settler = settlers.get(id);
  if (settler === undefined) return;
  settlers.delete(id);
  if (ok) settler.resolve(value);
  else settler.reject(errorOf(String(value)));
}

class RetryError extends Error {
  _attempt: number | undefined;
  _maxAttempts: number | undefined;

  constructor(message?: string) {
    super(message);
    this.name = "RetryError";
  }

  get nameWithAttempts(): string {
    return this._attempt && this._maxAttempts
      ? `${this.name} (attempt ${this._attempt}/${this._maxAttempts})`
      : this.name;
  }

  override toString(): string {
    return this.message ? `${this.nameWithAttempts}: ${this.message}` : this.nameWithAttempts;
  }
}

/** What was thrown, in words; whatever it is. */
function describeThrown(thrown: unknown): string {
  try {
    if (thrown instanceof Error) {
      const name = String(thrown.name);
      return name === "" ? String(thrown.message) : `${name}: ${thrown.message}`;
    }
    if (typeof thrown === "object" && thrown !== null) return stringify(thrown) ?? "an object";
    return String(thrown);
  } catch {
    return "something that cannot be described";
  }
}

/** A text in the quotes that Node.js would write around it. */
function quote(text: string): string {
  const inner = stringify(text).slice(1, -1).replaceAll('\\"', '"');
  if (!inner.includes("'")) return `'${inner}'`;
  if (!inner.includes('"')) return `"${inner}"`;
  return inner.includes("`") ? `'${inner.replaceAll("'", "\\'")}'` : `\`${inner}\``;
}

function show(value: unknown, depth = 0, seen: unknown[] = [], deepest = 2): string {
  try {
    if (typeof value === "string") return depth === 0 ? value : quote(value);
    if (typeof value === "bigint") return `${value}n`;
    if (typeof value === "function") return `[Function: ${value.name || "anonymous"}]`;
    if (typeof value !== "object" || value === null) return String(value);
    if (value instanceof Error)
      return (depth === 0 && describeError(value)) || describeThrown(value);
    if (value instanceof Date)
      return Number.isNaN(value.getTime()) ? "Invalid Date" : value.toISOString();
    if (value instanceof RegExp) return String(value);
    if (seen.includes(value)) return "[Circular]";
    if (seen.length > deepest) return Array.isArray(value) ? "[Array]" : "[Object]";
    const inner = [...seen, value];
    const part = (item: unknown) => show(item, depth + 1, inner, deepest);
    if (Array.isArray(value)) {
      const shown = value.slice(0, 100).map(part);
      if (value.length > 100) shown.push(`... ${value.length - 100} more items`);
      return shown.length === 0 ? "[]" : `[ ${shown.join(", ")} ]`;
    }
    if (value instanceof Map) {
      const shown = [...value].slice(0, 100).map(([key, item]) => `${part(key)} => ${part(item)}`);
      return `Map(${value.size}) { ${shown.join(", ")} }`;
    }
    if (value instanceof Set) {
      return `Set(${value.size}) { ${[...value].slice(0, 100).map(part).join(", ")} }`;
    }
    if (value instanceof Promise) return "Promise { ... }";
    const shown = Object.keys(value)
      .slice(0, 100)
      .map((key) => {
        const label = /^[A-Za-z_$][\w$]*$/.test(key) ? key : quote(key);
        return `${label}: ${part((value as Record<string, unknown>)[key])}`;
      });
    return shown.length === 0 ? "{}" : `{ ${shown.join(", ")} }`;
  } catch (error) {
    return `[${describeThrown(error)}]`;
  }
}

/** Objects nested deeper are not shown, whatever is asked for. */
const DEEPEST_SHOWN = 20;

/** Node's `util.inspect`, of whose options only `depth` means something here. */
function inspect(value: unknown, options?: unknown, depth?: unknown): string {
  const isGiven = typeof options === "object" && options !== null && "depth" in options;
  // A depth that is said to be undefined has no bound either.
  const given = isGiven ? (options.depth ?? null) : depth;
  const deepest = given === null ? DEEPEST_SHOWN : Math.min(DEEPEST_SHOWN, Number(given));
  return show(value, 1, [], Number.isNaN(deepest) ? undefined : deepest);
}

function describeError(error: Error): string {
  return typeof error.stack === "string" ? wholeStack(error, error.stack) : describeThrown(error);
}

/** How a line of the engine's stacks begins; and those of the guest itself. */
const FRAME = "    at ";
const OWN_FRAME = "(sandbox.js:";
const APPLY_FRAME = "    at apply (native)";

/** A stack as V8 has it: with what was thrown in its first line, and without the guest's own calls. */
function wholeStack(error: object, stack: string): string {
  if (stack !== "" && !stack.startsWith(FRAME)) return stack;
  const { stackTraceLimit: limit } = Error as unknown as { stackTraceLimit: unknown };
  const lines = stack.split("\n");
  let text = headOf(error as Error);
  let left = typeof limit === "number" ? limit : 0;
  for (let at = 0; at < lines.length && left > 0; at += 1) {
    const line = lines[at] as string;
    if (line === "" || line.includes(OWN_FRAME)) continue;
    if (line === APPLY_FRAME && lines[at + 1]?.includes(OWN_FRAME)) continue;
    text += `\n${line}`;
    left -= 1;
  }
  return text;
}

function headOf(error: Error): string {
  const name = error.name === undefined ? "Error" : String(error.name);
  const message = error.message === undefined ? "" : String(error.message);
  return name === "" || message === "" ? name + message : `${name}: ${message}`;
}

/** Whose stack was captured without their being errors; whose stack has its first line, which stays so. */
const captured = new WeakSet<object>();
const headed = new WeakSet<object>();

/** The `stack` of something: that of an error as V8 has it, what anything else has as it is. */
function stackOf(value: { readonly stack?: unknown }): unknown {
  const { stack } = value;
  if (typeof stack !== "string" || typeof value !== "object") return stack;
  if ((!captured.has(value) && !(value instanceof Error)) || headed.has(value)) return stack;
  const own = getOwnPropertyDescriptor(value, "stack");
  if (own === undefined || own.value !== stack) return stack;
  const whole = wholeStack(value, stack);
  if (whole === stack) return stack;
  if (own.writable === true && own.configurable === true) {
    put(value, "stack", whole, own.enumerable);
    headed.add(value);
  }
  return whole;
}

/** What the bundler puts in place of what reads `stack`, made when it is first asked for. */
function stackReaders(): object {
  const mended = Symbol("stack");
  // Patterns ask for this before they ask for the stack.
  const property: PropertyDescriptor & ThisType<object> = {
    get() {
      stackOf(this);
    },
  };
  defineProperty(Error.prototype, mended, without(property));
  const within = (value: { readonly stack?: unknown } | null | undefined) =>
    value === null || value === undefined ? undefined : { stack: stackOf(value) };
  return { of: stackOf, within, mended };
}

const MAX_LINE = 8_000;
let isLogFull = false;

function log(level: string, values: unknown[]): void {
  if (isLogFull) {
    bridge.call("log", "");
    return;
  }
  const [first] = values;
  const text =
    typeof first === "string" && values.length > 1
      ? format(values)
      : values.map((value) => show(value)).join(" ");
  isLogFull = bridge.call("log", write([level, text.slice(0, MAX_LINE)])) === "full";
}

/** Fills the placeholders of the first text, as consoles do. */
function format(values: unknown[]): string {
  let next = 1;
  const text = String(values[0]).replace(/%[sdifjoOc%]/g, (sign) => {
    if (sign === "%%") return "%";
    if (next >= values.length) return sign;
    const value = values[next];
    next += 1;
    if (sign === "%d") return String(Number(value));
    if (sign === "%i") return String(Number.parseInt(String(value), 10));
    if (sign === "%f") return String(Number.parseFloat(String(value)));
    if (sign === "%j") return stringify(value) ?? "undefined";
    if (sign === "%c") return "";
    return sign === "%s" ? show(value) : show(value, 1);
  });
  return [text, ...values.slice(next).map((value) => show(value))].join(" ");
}

const writeAs =
  (level: string): AnyFunction =>
  (...values) =>
    log(level, values);

const timesByLabel = new Map<string, number>();
const countsByLabel = new Map<string, number>();
const console = {
  log: writeAs("log"),
  info: writeAs("info"),
  debug: writeAs("debug"),
  trace: writeAs("debug"),
  warn: writeAs("warn"),
  error: writeAs("error"),
  dir: (value: unknown, options?: unknown) =>
    log("log", [typeof value === "string" ? value : inspect(value, options)]),
  table: (value: unknown) => log("log", [value]),
  assert(condition: unknown, ...values: unknown[]) {
    if (!condition) log("error", ["Assertion failed:", ...values]);
  },
  dirxml: writeAs("log"),
  group: writeAs("log"),
  groupCollapsed: writeAs("log"),
  groupEnd() {},
  clear() {},
  count(label = "default") {
    countsByLabel.set(label, (countsByLabel.get(label) ?? 0) + 1);
    log("log", [`${label}: ${countsByLabel.get(label)}`]);
  },
  countReset(label = "default") {
    countsByLabel.delete(label);
  },
  time(label = "default") {
    timesByLabel.set(label, now());
  },
  timeLog(label = "default", ...values: unknown[]) {
    log("log", [`${label}: ${now() - (timesByLabel.get(label) ?? now())}ms`, ...values]);
  },
  timeEnd(label = "default") {
    log("log", [`${label}: ${now() - (timesByLabel.get(label) ?? now())}ms`]);
  },
};

interface Timer {
  callback: AnyFunction;
  values: unknown[];
  everyMs: number | null;
}

const timers = new Map<number, Timer>();
let timerCount = 0;

function startTimer(callback: unknown, delay: unknown, everyMs: number | null, values: unknown[]) {
  if (typeof callback !== "function") throw new TypeError("The callback must be a function");
  timerCount += 1;
  const id = timerCount;
  call("timer", [id, toDelay(delay)]);
  timers.set(id, { callback: callback as AnyFunction, values, everyMs });
  return new TimerHandle(id);
}

function waitFor(delay: unknown, value: unknown): Promise<unknown> {
  return new Promise((resolve) => {
    startTimer(resolve, delay, null, [value]);
  });
}

function toDelay(delay: unknown): number {
  const milliseconds = Number(delay);
  return milliseconds > 1 && milliseconds < 2 ** 31 ? Math.trunc(milliseconds) : 1;
}

/** Counts as a number, and has what Node.js gives its timers. */
class TimerHandle {
  readonly #id: number;

  constructor(id: number) {
    this.#id = id;
  }
  ref(): this {
    return this;
  }
  unref(): this {
    return this;
  }
  hasRef(): boolean {
    return true;
  }
  valueOf(): number {
    return this.#id;
  }
  [Symbol.toPrimitive](): number {
    return this.#id;
  }
}

function stopTimer(handle: unknown): void {
  const id = Number(handle);
  if (timers.delete(id)) call("timer", [id, null]);
}

function fire(id: number): void {
  leaveRun();
  const timer = timers.get(id);
  if (timer === undefined) return;
  if (timer.everyMs === null) timers.delete(id);
  else call("timer", [id, timer.everyMs]);
  try {
    const answer = Reflect.apply(timer.callback, undefined, timer.values);
    if (isThenable(answer)) answer.then(undefined, complain);
  } catch (error) {
    complain(error);
  }
}

function complain(error: unknown): void {
  log("error", [`Uncaught ${describeThrown(error)}`]);
}

function isThenable(value: unknown): value is PromiseLike<unknown> {
  return (
    typeof value === "object" &&
    value !== null &&
    typeof (value as { then?: unknown }).then === "function"
  );
}

const parts = new Map<string, Exports>();

/** A part of the globals that is evaluated when first used. */
function part(name: string): Exports {
  const known = parts.get(name);
  if (known !== undefined) return known;
  const text = bridge.call("part", name);
  if (text === undefined || text === "") throw new Error(`There is no part ${name}`);
  const made = withPlainRoot(() => (run(text) as (core: unknown) => Exports)(core));
  parts.set(name, made);
  return made;
}

const rootKeys = without({}) as Record<PropertyKey, boolean>;
for (const key of ownKeys(ROOT)) rootKeys[key] = true;

/** Does work as if code had added nothing to all objects meanwhile. */
function withPlainRoot<T>(work: () => T): T {
  const added = newList<[PropertyKey, PropertyDescriptor]>();
  const keys = isExtensible(ROOT) ? ownKeys(ROOT) : newList<PropertyKey>();
  for (let at = 0; at < keys.length; at += 1) {
    const key = keys[at] as PropertyKey;
    if (rootKeys[key]) continue;
    const property = without(getOwnPropertyDescriptor(ROOT, key) as PropertyDescriptor);
    if (deleteProperty(ROOT, key)) added[added.length] = [key, property];
  }
  try {
    return work();
  } finally {
    for (let at = 0; at < added.length; at += 1) {
      const one = added[at] as [PropertyKey, PropertyDescriptor];
      defineProperty(ROOT, one[0], one[1]);
    }
  }
}

/** Gives an object a property of its own, free to be changed, whatever all objects have by that name. */
function put(target: object, name: PropertyKey, value: unknown, enumerable = false): void {
  const property = { value, writable: true, configurable: true, enumerable };
  defineProperty(target, name, without(property));
}

function textOf({ buffer, byteOffset, byteLength }: Uint8Array, encoding: string): string {
  const bytes = buffer.slice(byteOffset, byteOffset + byteLength) as ArrayBuffer;
  return parse(bridge.text(bytes, encoding));
}

const core = { call, ask, part, put, show, inspect, format, describeThrown, errorOf, textOf };

function define(name: string, value: unknown): void {
  put(globalThis, name, value);
}

/** A property that is made when it is first asked for. */
function defineLater(target: object, name: string, read: () => unknown, enumerable = false): void {
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

/** A method that QuickJS answers without regard to languages, or not at all. */
function localize(prototype: object, name: string, isNeeded: (values: unknown[]) => boolean): void {
  const native = (prototype as Record<string, AnyFunction>)[name];
  const method = {
    [name](this: unknown, ...values: unknown[]): unknown {
      if (native !== undefined && !isNeeded(values)) return Reflect.apply(native, this, values);
      const localized = (part("intl")["methods"] as Record<string, AnyFunction>)[name];
      return Reflect.apply(localized as AnyFunction, this, values);
    },
  }[name];
  Object.defineProperty(prototype, name, { value: method, writable: true, configurable: true });
}

const WEB = [
  "URL",
  "URLSearchParams",
  "TextEncoder",
  "TextDecoder",
  "Headers",
  "Request",
  "Response",
  "AbortController",
  "AbortSignal",
  "Event",
  "EventTarget",
  "DOMException",
  "Blob",
  "FormData",
  "structuredClone",
  "atob",
  "btoa",
  "fetch",
  "performance",
];

const always = () => true;
const posthog = {
  async capture(event: unknown, properties?: Record<string, unknown>): Promise<void> {
    // What has no name is refused by the host, which tells so in the log.
    await ask("capture", [typeof event === "string" ? event : "", properties ?? {}]);
  },
  api: {
    get: callApi("GET"),
    post: callApi("POST"),
    put: callApi("PUT"),
    delete: callApi("DELETE"),
  },
};

interface ApiOptions {
  data?: Record<string, unknown>;
  headers?: Record<string, string>;
  host?: string;
  projectApiKey?: string;
  personalApiKey?: string;
}

let siteUrl = "";

/**
 * What PostHog's `posthog.api` does, with two differences: no key is made for transformations, so
 * that both have to be given, and the host has to be granted as for any `fetch`.
 */
function callApi(verb: string) {
  return async (path: unknown, options: ApiOptions = {}): Promise<unknown> => {
    const { data, headers, host = siteUrl, projectApiKey, personalApiKey } = options ?? {};
    if (typeof path !== "string") throw new TypeError("posthog.api needs a path");
    if (!projectApiKey || !personalApiKey) {
      throw new Error(
        "posthog.api needs the options personalApiKey and projectApiKey: no key is made for transformations",
      );
    }
    const query = new URLSearchParams({
      ...(verb === "GET" ? (data as Record<string, string>) : {}),
      token: projectApiKey,
    });
    const base = `${host.replace(/\/+$/, "")}/${path.replace(/^\/+/, "")}`;
    const hasBody = verb !== "GET" && data !== undefined;
    return fetch(`${base}${base.includes("?") ? "&" : "?"}${query}`, {
      method: verb,
      headers: {
        Authorization: `Bearer ${personalApiKey}`,
        ...(hasBody && { "Content-Type": "application/json" }),
        ...headers,
      },
      ...(hasBody && { body: stringify(data) }),
    });
  };
}

define("console", console);
define("posthog", posthog);
define("RetryError", RetryError);
define("global", globalThis);
// What bundles for the web take for it.
define("self", globalThis);
const setTimeoutOf = (callback: unknown, delay?: unknown, ...values: unknown[]) =>
  startTimer(callback, delay, null, values);
const setImmediateOf = (callback: unknown, ...values: unknown[]) =>
  startTimer(callback, 0, null, values);
// What `util.promisify` makes of them: their callbacks do not come last.
const promisified = Symbol.for("nodejs.util.promisify.custom");
put(setTimeoutOf, promisified, waitFor);
put(setImmediateOf, promisified, (value: unknown) => waitFor(0, value));
define("setTimeout", setTimeoutOf);
define("setInterval", (callback: unknown, delay?: unknown, ...values: unknown[]) =>
  startTimer(callback, delay, Math.max(10, toDelay(delay)), values),
);
define("setImmediate", setImmediateOf);
define("clearTimeout", stopTimer);
define("clearInterval", stopTimer);
define("clearImmediate", stopTimer);
define("queueMicrotask", (callback: unknown) => {
  if (typeof callback !== "function") throw new TypeError("The callback must be a function");
  Promise.resolve().then(() => {
    try {
      callback();
    } catch (error) {
      complain(error);
    }
  });
});
for (const name of WEB) defineLater(globalThis, name, () => part("web")[name]);
defineLater(globalThis, "crypto", () => part("crypto")["crypto"]);
defineLater(globalThis, "Buffer", () => part("buffer")["Buffer"]);
defineLater(globalThis, "Intl", () => part("intl")["Intl"]);
localize(Date.prototype, "toLocaleString", always);
localize(Date.prototype, "toLocaleDateString", always);
localize(Date.prototype, "toLocaleTimeString", always);
localize(Number.prototype, "toLocaleString", always);
localize(BigInt.prototype, "toLocaleString", always);
localize(String.prototype, "localeCompare", always);
localize(String.prototype, "toLocaleUpperCase", ([locales]) => locales !== undefined);
localize(String.prototype, "toLocaleLowerCase", ([locales]) => locales !== undefined);

completeDates("toString");
completeDates("toTimeString");
// What `using` asks for.
for (const name of ["dispose", "asyncDispose"]) {
  if (!(name in Symbol)) {
    Object.defineProperty(Symbol, name, { value: Symbol(`Symbol.${name}`) });
  }
}
Object.assign(Error, { captureStackTrace, stackTraceLimit: 10 });
for (const name of ["captureStackTrace", "stackTraceLimit"]) {
  Object.defineProperty(Error, name, { enumerable: false });
}

/** Dates name their zone in words, which QuickJS leaves out. */
function completeDates(name: "toString" | "toTimeString"): void {
  const native = Date.prototype[name];
  const method = {
    [name](this: Date): string {
      const text = Reflect.apply(native, this, []);
      return text.endsWith("+0000") ? `${text} (Coordinated Universal Time)` : text;
    },
  }[name];
  Object.defineProperty(Date.prototype, name, {
    value: method,
    writable: true,
    configurable: true,
  });
}

/** What V8 offers to classes of errors. */
function captureStackTrace(target: object): void {
  put(target, "stack", new Error().stack);
  captured.add(target);
  headed.delete(target);
}

/**
 * The last match on `RegExp` (`RegExp.$1`), which QuickJS does not keep. Slows expressions down, so
 * only where a source mentions it.
 */
function keepLastMatch(): void {
  const native = RegExp.prototype.exec;
  let last: RegExpExecArray | null = null;
  const { exec } = {
    exec(this: RegExp, text: string): RegExpExecArray | null {
      const match = Reflect.apply(native, this, [text]) as RegExpExecArray | null;
      if (match !== null) last = match;
      return match;
    },
  };
  Object.defineProperty(RegExp.prototype, "exec", {
    value: exec,
    writable: true,
    configurable: true,
  });
  const readers: Record<string, (match: RegExpExecArray) => string | undefined> = {
    input: (match) => match.input,
    lastMatch: (match) => match[0],
    lastParen: (match) => (match.length > 1 ? match[match.length - 1] : ""),
    leftContext: (match) => match.input.slice(0, match.index),
    rightContext: (match) => match.input.slice(match.index + match[0].length),
  };
  const aliases = { input: "$_", lastMatch: "$&", lastParen: "$+", leftContext: "$`" };
  for (const [name, alias] of [...Object.entries(aliases), ["rightContext", "$'"]]) {
    readers[alias as string] = readers[name as string] as (match: RegExpExecArray) => string;
  }
  for (let group = 1; group <= 9; group += 1) readers[`$${group}`] = (match) => match[group];
  for (const [name, read] of Object.entries(readers)) {
    const get = () => (last === null ? "" : (read(last) ?? ""));
    Object.defineProperty(RegExp, name, { get, set() {}, configurable: true });
  }
}

/** What the bundler asks for before sources that read the last match, or stacks. */
const LAST_MATCH = "last-match";
const STACK = "stack";

function requireGuest(name: unknown): unknown {
  const bare = String(name).replace(/^node:/, "");
  switch (bare) {
    case "@posthog/plugin-scaffold":
    case "posthog-plugins":
      return { RetryError, MetricsOperation: { Sum: "sum", Min: "min", Max: "max" } };
    case "@posthog/plugin-contrib":
      return { createBuffer };
    case "@maxmind/geoip2-node":
      return {};
    case "buffer":
      return part("buffer");
    case "crypto":
      return part("crypto")["crypto"];
    case "node-fetch":
    case "cross-fetch":
      return part("web")["nodeFetch"];
    case "url":
      return part("web")["nodeUrl"];
    case "querystring":
      return part("web")["queryString"];
    case "assert":
    case "events":
    case "path":
    case "string_decoder":
    case "timers":
    case "util":
      return part("node")[bare];
    case "assert/strict":
      return (part("node")["assert"] as Exports)["strict"];
    case "path/posix":
      return part("node")["path"];
    case "timers/promises":
      return (part("node")["timers"] as Exports)["promises"];
    case "zlib":
      return part("crypto")["zlib"];
    case LAST_MATCH:
      return keepLastMatch();
    case STACK:
      return stackReaders();
    default:
      if (bare.startsWith(ABSENT)) return absentPackage(bare.slice(ABSENT.length), "");
      throw new Error(`Cannot import "${bare}": there is no such module here`);
  }
}

/** How the bundler asks for a package that is not here. */
const ABSENT = "absent:";

/** Stands for a package that is not here, or for something of it: fails where it is used. */
function absentPackage(name: string, member: string): unknown {
  const use = (): never => {
    const of = member === "" ? `"${name}"` : `${member} of "${name}"`;
    throw new Error(`Cannot use ${of}: transformations have no such package`);
  };
  const get = (target: object, key: string | symbol): unknown => {
    if (typeof key === "symbol" || key === "prototype") return Reflect.get(target, key);
    if (key === "then" || key === "__esModule") return undefined;
    return absentPackage(name, member === "" || member === "default" ? key : `${member}.${key}`);
  };
  const traps = {
    get,
    // Bundlers read what they import as a whole through an object made of its prototype. That has an
    // ordinary one, so that whoever looks along all of them comes to an end.
    getPrototypeOf: () => new Proxy({}, without({ get })),
    apply: use,
    construct: use,
  };
  return new Proxy(function absent() {}, without(traps));
}

interface BufferOptions {
  limit: number;
  timeoutSeconds: number;
  onFlush: (objects: unknown[], points: number) => unknown;
}

/** Collects objects until they count enough or long enough have waited, as plugin-contrib's does. */
function createBuffer(given: Partial<BufferOptions>) {
  const options = { limit: 10, timeoutSeconds: 60, ...given };
  const buffer = {
    _buffer: [] as unknown[],
    _points: 0,
    _timeout: null as TimerHandle | null,
    _options: options,
    add(object: unknown, points = 1): void {
      if (buffer._points > 0 && buffer._points + points > options.limit) flushUnwatched();
      buffer._points += points;
      buffer._buffer.push(object);
      if (buffer._points > options.limit) flushUnwatched();
      else buffer._timeout ??= startTimer(flushUnwatched, options.timeoutSeconds * 1000, null, []);
    },
    async flush(): Promise<void> {
      if (buffer._timeout !== null) stopTimer(buffer._timeout);
      buffer._timeout = null;
      if (buffer._buffer.length === 0 && buffer._points === 0) return;
      const { _buffer: objects, _points: points } = buffer;
      buffer._buffer = [];
      buffer._points = 0;
      await options.onFlush?.(objects, points);
    },
  };
  function flushUnwatched(): void {
    buffer.flush().catch(complain);
  }
  return buffer;
}

// What `meta` holds ---------------------------------------------------------------------------

const cached = new Map<string, CacheEntry>();

function liveEntry(key: unknown): CacheEntry | undefined {
  const name = String(key);
  const entry = cached.get(name);
  if (entry === undefined || entry.expiresAt > now()) return entry;
  cached.delete(name);
  return undefined;
}

function listOf(key: unknown): string[] {
  const value = liveEntry(key)?.value;
  if (value !== undefined && !Array.isArray(value))
    throw new Error("The value in the cache is no list");
  return (value as string[] | undefined) ?? [];
}

function putCached(key: unknown, value: Json, ttlSeconds?: unknown): void {
  const seconds = Number(ttlSeconds ?? 0);
  const expiresAt = seconds > 0 ? now() + seconds * 1000 : Number.POSITIVE_INFINITY;
  cached.set(String(key), { value, expiresAt });
  if (cached.size % 1024 === 0) forgetExpired();
}

function forgetExpired(): void {
  const at = now();
  for (const [key, entry] of cached) if (entry.expiresAt <= at) cached.delete(key);
}

function putList(key: unknown, list: string[]): void {
  const entry = liveEntry(key);
  if (list.length === 0) cached.delete(String(key));
  else if (entry === undefined) putCached(key, list);
  else entry.value = list;
}

const cache = {
  async set(key: string, value: unknown, ttl?: number, options?: { jsonSerialize?: boolean }) {
    const text = options?.jsonSerialize === false ? String(value) : stringify(value);
    if (text === undefined) cached.delete(String(key));
    else putCached(key, text, ttl);
  },
  async get(key: string, defaultValue?: unknown, options?: { jsonSerialize?: boolean }) {
    const value = liveEntry(key)?.value;
    if (value === undefined) return defaultValue;
    if (typeof value !== "string" || options?.jsonSerialize === false) return value;
    try {
      return parse(value);
    } catch {
      return value;
    }
  },
  async incr(key: string): Promise<number> {
    const entry = liveEntry(key);
    const count = Number(entry?.value ?? 0) + 1;
    if (!Number.isInteger(count)) throw new Error("The value in the cache is no integer");
    if (entry === undefined) putCached(key, String(count));
    else entry.value = String(count);
    return count;
  },
  async expire(key: string, ttlSeconds: number): Promise<boolean> {
    const entry = liveEntry(key);
    if (entry === undefined) return false;
    entry.expiresAt = now() + Number(ttlSeconds) * 1000;
    return true;
  },
  async del(key: string): Promise<void> {
    cached.delete(String(key));
  },
  async lpush(key: string, elements: unknown): Promise<number> {
    const added = (Array.isArray(elements) ? elements : [elements]).map((item) => String(item));
    const list = [...added.reverse(), ...listOf(key)];
    putList(key, list);
    return list.length;
  },
  async lrange(key: string, start: number, end: number): Promise<string[]> {
    const list = listOf(key);
    const last = end < 0 ? list.length + end : end;
    return list.slice(start < 0 ? Math.max(0, list.length + start) : start, last + 1);
  },
  async llen(key: string): Promise<number> {
    return listOf(key).length;
  },
  async lpop(key: string, count = 1): Promise<string[]> {
    const list = listOf(key);
    putList(key, list.slice(count));
    return list.slice(0, count);
  },
  async lrem(key: string, count: number, element: string): Promise<number> {
    const list = count < 0 ? listOf(key).reverse() : [...listOf(key)];
    let left = count === 0 ? list.length : Math.abs(count);
    const kept = list.filter((item) => {
      if (item !== element || left === 0) return true;
      left -= 1;
      return false;
    });
    const removed = list.length - kept.length;
    putList(key, count < 0 ? kept.reverse() : kept);
    return removed;
  },
};

/** Rejections of what nobody awaits are logged and end there. */
function watched<T>(promise: Promise<T>): Promise<T> {
  promise.catch(() => {});
  return promise;
}

const storage = {
  set: (key: unknown, value: unknown) => watched(ask("set", [String(key), value ?? null])),
  get: (key: unknown, defaultValue?: unknown) =>
    watched(
      ask("get", [String(key)]).then((found) => {
        const [value] = found as Json[];
        return value === undefined || value === null ? defaultValue : value;
      }),
    ),
  del: (key: unknown) => watched(ask("delete", [String(key)])),
};

const cursors = new Map<string, number>();
const utils = {
  cursor: {
    async init(key: string, initialValue = 0): Promise<void> {
      cursors.set(String(key), Number(initialValue));
    },
    async increment(key: string, incrementBy = 1): Promise<number> {
      const value = (cursors.get(String(key)) ?? 0) + Number(incrementBy);
      cursors.set(String(key), value);
      return value;
    },
  },
};

const SECOND = 1000;
const UNITS: Record<string, number> = {
  millisecond: 1,
  second: SECOND,
  minute: 60 * SECOND,
  hour: 3600 * SECOND,
  day: 86_400 * SECOND,
  week: 7 * 86_400 * SECOND,
  month: 30 * 86_400 * SECOND,
  quarter: 91 * 86_400 * SECOND,
  year: 365 * 86_400 * SECOND,
};

function job(name: string) {
  return (payload?: unknown) => {
    const enqueue = (at: number) => {
      if (!Number.isFinite(at)) return Promise.reject(new TypeError("The job has no valid time"));
      return watched(ask("job", [name, payload ?? null, at]));
    };
    return {
      runNow: () => enqueue(now()),
      runIn: (duration: number, unit: string) => {
        const unitMs = UNITS[String(unit).toLowerCase().replace(/s$/, "")];
        if (unitMs === undefined) throw new Error(`"${unit}" is no unit of time`);
        return enqueue(now() + Number(duration) * unitMs);
      },
      runAt: (date: Date | string | number) => enqueue(new Date(date).getTime()),
    };
  };
}

function metric(name: string, declared: unknown) {
  const count = (kind: string) => async (value?: number) => {
    const amount = value === undefined ? 1 : Number(value);
    if (Number.isFinite(amount)) call("metric", [name, kind, amount]);
  };
  const kind = String(declared).toLowerCase();
  const controls = { increment: count("sum"), max: count("max"), min: count("min") };
  if (kind === "sum") return { increment: controls.increment };
  if (kind === "max") return { max: controls.max };
  return kind === "min" ? { min: controls.min } : controls;
}

// The life of a transformation ----------------------------------------------------------------

let found: Exports[] = [];
let meta: Record<string, unknown> = {};

/** Why code that awaits something while it loads is not loaded, in the words of {@link load}. */
let loading = "";

/** Loads the code; the error with its stack, or nothing. */
function load(code: unknown): string {
  try {
    findExports(code);
    return "";
  } catch (error) {
    return tellThrown(error);
  }
}

/** Asked once nothing is left to be done: the same for what had to be awaited. */
function loaded(): string {
  return loading;
}

function tellThrown(error: unknown): string {
  const stack = error instanceof Error && typeof error.stack === "string" ? error.stack : "";
  return write([describeThrown(error).slice(0, 4_000), stack]);
}

/** Runs the code and finds what it defines: exported in any way, or only named. */
function findExports(code: unknown): void {
  const exported: Exports = {};
  const module: { exports: unknown } = { exports: exported };
  let named: Exports = {};
  const before = without({}) as Record<string, boolean>;
  for (const key of keysOf(globalThis)) before[key] = true;
  const waiting = apply(code as AnyFunction, globalThis, [
    exported,
    module,
    requireGuest,
    requireGuest,
    (values: Exports) => {
      named = values;
    },
    constantOf,
    (all: unknown) => {
      module.exports = all;
    },
  ]);
  const find = () => noteExports(module.exports, exported, named, before);
  if (!(waiting instanceof Promise)) {
    find();
    return;
  }
  loading = write(["it awaits something that does not come while it loads"]);
  apply(promiseThen, waiting, [
    () => {
      loading = "";
      find();
    },
    (error: unknown) => {
      loading = tellThrown(error);
    },
  ]);
}

/** Notes where what the code offers may be found. */
function noteExports(
  top: unknown,
  exported: Exports,
  named: Exports,
  before: Record<string, boolean>,
): void {
  // Whatever code has done to lists and objects by now, what it offers is found.
  const assigned = without({}) as Exports;
  const keys = keysOf(globalThis);
  for (let at = 0; at < keys.length; at += 1) {
    const key = keys[at] as string;
    if (!before[key]) assigned[key] = scope[key];
  }
  found = newList();
  look(top);
  if (isContainer(top)) {
    const inner = (top as Exports)["default"];
    look(inner);
    if (isContainer(inner)) look((inner as Exports)["default"]);
    if (typeof inner === "function") look(madeBy(inner));
  }
  if (typeof top === "function") look(madeBy(top));
  look(exported);
  look(named);
  look(assigned);
  meta = makeMeta({ config: {}, attachments: {} });
}

/** Stands for a constant where code assigns to it. */
function constantOf(held: unknown): { value: unknown } {
  return {
    get value() {
      return held;
    },
    set value(_value) {
      throw new TypeError("Assignment to constant variable.");
    },
  };
}

/** Notes a place where what it offers may be found. */
function look(place: unknown): void {
  if (isContainer(place)) found[found.length] = place as Exports;
}

function isContainer(value: unknown): boolean {
  return (typeof value === "object" && value !== null) || typeof value === "function";
}

/** A class or a function named like an entry point may stand for the whole: `export default function processEvent`. */
function madeBy(value: unknown): Exports {
  // The bundler numbers names that are there already.
  const { name } = value as { name: string };
  for (let at = 0; at < NAMES.length; at += 1) {
    const known = NAMES[at] as string;
    if (name === known || isNumbered(name, known)) return { [known]: value };
  }
  return {};
}

function isNumbered(name: string, known: string): boolean {
  const { length } = known;
  if (name.length <= length) return false;
  for (let at = 0; at < name.length; at += 1) {
    const sign = name[at] as string;
    if (at < length ? sign !== known[at] : sign < "0" || sign > "9") return false;
  }
  return true;
}

const NAMES = [
  "setupPlugin",
  "teardownPlugin",
  "getSettings",
  "processEvent",
  "processEventBatch",
  "onEvent",
  "exportEvents",
  "composeWebhook",
  "runEveryMinute",
  "runEveryHour",
  "runEveryDay",
];

function lookUp(name: string): unknown {
  for (let at = 0; at < found.length; at += 1) {
    const value = found[at]?.[name];
    if (value !== undefined && value !== null) return value;
  }
  return undefined;
}

/** Where a method is found first. */
function placeOf(name: string): Exports | undefined {
  for (let at = 0; at < found.length; at += 1) {
    if (typeof found[at]?.[name] === "function") return found[at];
  }
  return undefined;
}

function method(name: string): AnyFunction | undefined {
  const place = placeOf(name);
  if (place === undefined) return undefined;
  const value = place[name] as AnyFunction;
  return (...values) => apply(value, place, values);
}

function ownMembers(name: string): Exports {
  const value = lookUp(name);
  return typeof value === "object" && value !== null ? (value as Exports) : {};
}

/** What the transformation offers, as text. */
function describe(): string {
  const methods = newList<string>();
  for (let at = 0; at < NAMES.length; at += 1) {
    const name = NAMES[at] as string;
    if (placeOf(name) !== undefined) methods[methods.length] = name;
  }
  const jobs = newList<string>();
  const handlers = ownMembers("jobs");
  const names = keysOf(handlers);
  for (let at = 0; at < names.length; at += 1) {
    const name = names[at] as string;
    if (typeof handlers[name] === "function") jobs[jobs.length] = name;
  }
  const metrics = without({}) as Record<string, string>;
  const kinds = ownMembers("metrics");
  const counted = keysOf(kinds);
  for (let at = 0; at < counted.length; at += 1) {
    const name = counted[at] as string;
    metrics[name] = String(kinds[name]);
  }
  return write(without({ methods, jobs, metrics }));
}

function makeMeta({ config, attachments }: Setup): Record<string, unknown> {
  const files: Record<string, unknown> = {};
  for (const [key, file] of Object.entries(attachments)) {
    const described = { content_type: file.contentType, file_name: file.fileName };
    files[key] = described;
    const read = () => {
      const { Buffer } = part("buffer") as { Buffer: { from(bytes: ArrayBuffer): unknown } };
      return Buffer.from(bridge.bytes(key));
    };
    defineLater(described, "contents", read, true);
  }
  const jobs: Record<string, unknown> = {};
  for (const name of Object.keys(ownMembers("jobs"))) jobs[name] = job(name);
  const metrics: Record<string, unknown> = {};
  for (const [name, kind] of Object.entries(ownMembers("metrics")))
    metrics[name] = metric(name, kind);
  return {
    config,
    attachments: files,
    global: {},
    cache,
    storage,
    geoip: { locate: (address: unknown) => watched(ask("locate", [String(address)])) },
    jobs,
    metrics,
    utils,
    posthog,
    // Those that PostHog took into its own sources are given these.
    logger: console,
    fetch: (...values: unknown[]) =>
      Reflect.apply(scope["fetch"] as AnyFunction, undefined, values),
  };
}

/** What transforms an event. */
let transformEvent: AnyFunction | undefined;
/** True from the first event or call on, when `setupPlugin` has ended. */
let isUnderWay = false;
let restoreSettings: (() => void) | null = null;

/** An object of the settings, what it was before it was changed under way, and what stands for it to code. */
interface Guarded {
  readonly target: object;
  kept: Record<PropertyKey, PropertyDescriptor> | null;
}

/** A member of `meta` that was put in another's place. */
interface ChangedMember {
  readonly key: PropertyKey;
  readonly before: PropertyDescriptor | undefined;
}

const guardedBy = new WeakMap<object, Guarded>();
/** What was changed since the last event or call began. */
let changedSettings = newList<Guarded>();
let changedMembers = newList<ChangedMember>();
/** What stands behind `meta`. */
let metaTarget: Record<string, unknown> = {};

/**
 * The settings, whose changes are gone with the next event or call: PostHog keeps none. That holds for
 * objects that they were given with as well. What `setupPlugin` changes of them stays, and what
 * objects hold that code has put there itself.
 */
function settingsOf<T extends object>(settings: T): T {
  const target = (isArray(settings) ? [] : {}) as Record<string, unknown>;
  const keys = keysOf(settings);
  for (let at = 0; at < keys.length; at += 1) {
    const key = keys[at] as string;
    const value = (settings as Record<string, unknown>)[key];
    const isObject = typeof value === "object" && value !== null;
    put(target, key, isObject ? settingsOf(value) : value, true);
  }
  return guard(target) as T;
}

function guard(target: object): object {
  const guarded: Guarded = { target, kept: null };
  const keep = () => {
    if (!isUnderWay || guarded.kept !== null || isFrozen(target)) return;
    guarded.kept = propertiesOf(target);
    changedSettings[changedSettings.length] = guarded;
    restoreSettings = restore;
  };
  const proxy = new Proxy(target, guardOf(keep));
  guardedBy.set(proxy, guarded);
  return proxy;
}

/** Traps that are told of a key before it changes, or of none where any may. */
function guardOf(tell: (key?: PropertyKey) => void): ProxyHandler<object> {
  return without({
    defineProperty(target, key, property) {
      tell(key);
      return defineProperty(target, key, without(property));
    },
    deleteProperty(target, key) {
      tell(key);
      return deleteProperty(target, key);
    },
    preventExtensions(target) {
      tell();
      return Reflect.preventExtensions(target);
    },
  } as ProxyHandler<object>);
}

/** What is of the transformation itself: it stays whatever is put in its place. */
const OWN_MEMBER = "global";

/**
 * `meta`, whose members that come with it are there again with the next event or call whatever was put
 * in their place, but for `global`. What code adds to it stays.
 */
function guardMeta(members: Record<string, unknown>): Record<string, unknown> {
  metaTarget = members;
  const given = without({}) as Record<PropertyKey, boolean>;
  const names = keysOf(members);
  for (let at = 0; at < names.length; at += 1) {
    const name = names[at] as string;
    given[name] = name !== OWN_MEMBER;
  }
  const keep = (key?: PropertyKey) => {
    if (!isUnderWay || key === undefined || !given[key]) return;
    for (let at = 0; at < changedMembers.length; at += 1) {
      if (changedMembers[at]?.key === key) return;
    }
    const before = getOwnPropertyDescriptor(members, key);
    changedMembers[changedMembers.length] = { key, before };
    restoreSettings = restore;
  };
  return new Proxy(members, guardOf(keep)) as Record<string, unknown>;
}

function propertiesOf(object: object): Record<PropertyKey, PropertyDescriptor> {
  const properties = without({}) as Record<PropertyKey, PropertyDescriptor>;
  const keys = ownKeys(object);
  for (let at = 0; at < keys.length; at += 1) {
    const key = keys[at] as PropertyKey;
    properties[key] = without(getOwnPropertyDescriptor(object, key) as PropertyDescriptor);
  }
  return properties;
}

/** Undoes what was changed of the settings. */
function restore(): void {
  restoreSettings = null;
  const members = changedMembers;
  const settings = changedSettings;
  changedMembers = newList();
  changedSettings = newList();
  try {
    let isBack = true;
    for (let at = 0; at < members.length; at += 1) {
      const { key, before } = members[at] as ChangedMember;
      if (before === undefined) deleteProperty(metaTarget, key);
      else if (!defineProperty(metaTarget, key, without(before))) isBack = false;
    }
    if (!isBack) replaceMeta(members);
    isBack = true;
    for (let at = 0; at < settings.length; at += 1) {
      const { target, kept } = settings[at] as Guarded;
      if (kept !== null && !putBack(target, kept)) isBack = false;
    }
    if (!isBack) rebuild();
  } catch {
    // Whoever changed what is shared here keeps its settings as they are.
  }
  for (let at = 0; at < settings.length; at += 1) (settings[at] as Guarded).kept = null;
}

/** Makes `meta` anew where a member was fixed that cannot be as it was. */
function replaceMeta(members: readonly ChangedMember[]): void {
  const properties = propertiesOf(metaTarget);
  for (let at = 0; at < members.length; at += 1) {
    const { key, before } = members[at] as ChangedMember;
    if (before !== undefined) properties[key] = without(before);
  }
  const target = {};
  const keys = ownKeys(properties);
  for (let at = 0; at < keys.length; at += 1) {
    const key = keys[at] as PropertyKey;
    const property = properties[key] as PropertyDescriptor;
    property.configurable = true;
    if ("value" in property) property.writable = true;
    defineProperty(target, key, property);
  }
  meta = guardMeta(target);
}

/** Makes settings anew that were frozen. */
function rebuild(): void {
  const config = madeAnew(metaTarget["config"]);
  if (!Reflect.set(metaTarget, "config", config)) {
    meta = guardMeta(Object.assign({}, metaTarget, { config }));
  }
}

/** The same with other objects behind it, as they were before they were changed. */
function madeAnew(value: unknown): unknown {
  const guarded = typeof value === "object" && value !== null ? guardedBy.get(value) : undefined;
  if (guarded === undefined) return value;
  const properties = guarded.kept ?? propertiesOf(guarded.target);
  const target = isArray(guarded.target) ? [] : {};
  const keys = ownKeys(properties);
  for (let at = 0; at < keys.length; at += 1) {
    const key = keys[at] as PropertyKey;
    const property = properties[key] as PropertyDescriptor;
    if ("value" in property) property.value = madeAnew(property.value);
    defineProperty(target, key, property);
  }
  return guard(target);
}

/** False where an object was fixed in a way that it cannot be as it was. */
function putBack(object: object, kept: Record<PropertyKey, PropertyDescriptor>): boolean {
  if (!isExtensible(object)) return false;
  let isBack = true;
  const now = ownKeys(object);
  for (let at = 0; at < now.length; at += 1) {
    const key = now[at] as PropertyKey;
    // That of a list cannot be deleted, and is set behind its items.
    if (key === "length" && isArray(object)) continue;
    if (!deleteProperty(object, key)) isBack = false;
  }
  const before = ownKeys(kept);
  for (let at = 0; at < before.length; at += 1) {
    const key = before[at] as PropertyKey;
    if (!defineProperty(object, key, kept[key] as PropertyDescriptor)) isBack = false;
  }
  return isBack;
}

/** Takes the settings and runs `setupPlugin`. */
function setUp(text: string): void {
  const setup = parse(text) as Setup;
  siteUrl = setup.siteUrl ?? "";
  meta = guardMeta(makeMeta({ ...setup, config: settingsOf(setup.config) }));
  const single = placeOf("processEvent");
  const batch = method("processEventBatch");
  if (single !== undefined) {
    // Bound once: to apply it to each event costs twice as much as to call it.
    transformEvent = apply(bind, single["processEvent"] as AnyFunction, [single]) as AnyFunction;
  } else if (batch !== undefined) {
    transformEvent = async (event) => {
      const answer = await batch([event], meta);
      return Array.isArray(answer) ? answer[0] : answer;
    };
  }
  report("setUp", () => method("setupPlugin")?.(meta));
}

/** Runs something and tells the host how it ended: at once, or when its promise settles. */
function report(name: string, work: () => unknown): void {
  const done = (value: unknown) => {
    let text: string | undefined;
    try {
      text = stringify(value);
    } catch (error) {
      fail(error);
      return;
    }
    bridge.call("done", `${write([name, true, null]).slice(0, -5)}${text ?? "null"}]`);
  };
  const fail = (error: unknown) => {
    const isRetry = error instanceof RetryError || (error as Error | null)?.name === "RetryError";
    bridge.call("done", write([name, false, describeThrown(error).slice(0, 4_000), isRetry]));
  };
  try {
    const answer = work();
    if (isThenable(answer)) answer.then(done, fail);
    else done(answer);
  } catch (error) {
    fail(error);
  }
}

/** The events of a batch, one behind the other in two texts, and where they and their values stand. */
const batchTexts = newList<string>();
let numbers = new Uint32Array();
let batchPlaces: BatchPlaces = { places: null };
let batchNumber = 0;
const shapes = newList<LazyShape | undefined>();
const Numbers = Uint32Array;

/** Takes a batch, and keys that have not come before: `[first id, [keys, lengths]…]`. */
function accept(plain: string, other: string, buffer: ArrayBuffer, newShapes: string): void {
  leaveRun();
  // Nothing here runs code of the transformation: no iterators, no setters.
  const given = parse(newShapes) as [number, ...[string[], number[]][]];
  if (given[0] === 1) shapes.length = 0;
  for (let at = 1; at < given.length; at += 1) {
    const one = given[at] as [string[], number[]];
    shapes[shapes.length === 0 ? 1 : shapes.length] = lazyShape(one[0], one[1]);
  }
  batchPlaces.places = null;
  told = "";
  batchTexts[0] = plain;
  batchTexts[1] = other;
  numbers = new Numbers(buffer);
  batchPlaces = { places: numbers };
  batchNumber += 1;
  isLogFull = false;
}

/** So many events in a row whose properties were listed or copied make the next ones plain. */
const MANY_SETTLED = 16;
/** Then so many are given as plain objects, which cost less where all of them is read. */
const PLAIN_EVENTS = 2_000;
let settledInRow = 0;
let plainLeft = 0;

/** Works on single events, as the host gives them, until it asks for a pause. */
function work(done = -1, outcomeOfDone = ""): void {
  leaveRun();
  const number = batchNumber;
  let last = done;
  let outcome = outcomeOfDone;
  for (;;) {
    const index = bridge.begin(last, outcome);
    if (index < 0) return;
    last = index;
    const ended = begin(index, (text) => {
      if (number === batchNumber) work(index, text);
    });
    if (ended === undefined) return;
    outcome = ended;
  }
}

/**
 * Gives an event to the transformation: what became of it, or nothing where that is told later.
 * @param tell null where it is an event of a run
 */
function begin(index: number, tell: ((outcome: string) => void) | null): string | undefined {
  /** The text of its line, or the lazy object where its keys are known. */
  let as: LazyObject | string = "";
  isUnderWay = true;
  if (restoreSettings !== null) restoreSettings();
  try {
    const place = numbers[index] as number;
    const text = batchTexts[numbers[place] as number] as string;
    const line = text.substring(numbers[place + 1] as number, numbers[place + 2] as number);
    let shape: LazyShape | undefined;
    if (plainLeft > 0) plainLeft -= 1;
    else shape = shapes[numbers[place + 3] as number];
    let event: unknown;
    if (shape === undefined) {
      event = parse(line);
      as = line;
    } else {
      const innerShape = shapes[numbers[place + 4] as number];
      as = lazyEvent(shape, line, batchPlaces, place + 5, innerShape ?? null);
      event = as[SELF];
    }
    const answer = transformEvent === undefined ? event : transformEvent(event, meta);
    if (typeof as !== "string") {
      if (tell === null) {
        const told = endPlainly(answer, as);
        if (told !== "") {
          settledInRow = 0;
          return told;
        }
      }
      if (isNoPromise(answer, as)) return conclude(answer, as);
    }
    if (typeof answer !== "object" || answer === null) return conclude(answer, as);
    const { then } = answer as PromiseLike<unknown>;
    if (typeof then !== "function") return conclude(answer, as);
    if (tell === null && then === promiseThen) {
      awaited = answer as Promise<unknown>;
      awaitedAs = as;
    } else tellLater(answer as PromiseLike<unknown>, as, tell ?? tellRun(index));
    return undefined;
  } catch (error) {
    return end(as, failed(error));
  }
}

/**
 * A run of events one after the other, of which the host is told once: as long as none waits for
 * anything but itself. `marks` show the host, which reads them in memory, which event is under way
 * and since when.
 */
const marks = new Float64Array(bridge.marks);
/** Longer than this, the time of an event is told by itself. */
const LONG_MS = 2;
let isRun = false;
let runCount = 0;
let outcomes = newList<string>();
let longs = newList<number>();
/** What the last run came to, until it is asked for again or the next one begins. */
let told = "";
/** Characters of outcomes after which a run ends, so that they do not fill the memory. */
const MAX_RUN_LENGTH = 700_000;
let outcomesLength = 0;
/** What the event under way waits for, and how it was given. */
let awaited: Promise<unknown> | null = null;
let awaitedAs: LazyObject | string = "";
let under = -1;
let sinceMs = 0;
let untilMs = 0;

/**
 * Begins a run at an event; it ends with the batch, when the time is up, or when it comes to much.
 * Answers what {@link collect} does, or `""` where an event of it waits.
 */
function startRun(from: number, until: number): string {
  isRun = true;
  told = "";
  runCount += 1;
  outcomes = newList();
  longs = newList();
  startSets();
  outcomesLength = 0;
  sinceMs = now();
  untilMs = until;
  goOn(from, from);
  if (under >= 0) return "";
  // Kept, since what the events have left to be done may end the machine before this arrives.
  told = collect();
  return told;
}

function goOn(from: number, first: number): void {
  const waiting = runOn(from, first);
  if (waiting >= 0) goOnWaiting(waiting);
}

/** `first` begins whatever the time is, so that each run comes on. Answers the event that waits, or -1. */
function runOn(from: number, first: number): number {
  // The numbers of the first event begin behind the places of all.
  const count = numbers[0] ?? 0;
  for (let index = from; index < count; index += 1) {
    if (outcomesLength >= MAX_RUN_LENGTH || (index > first && sinceMs >= untilMs)) break;
    under = index;
    marks[0] = index;
    marks[1] = sinceMs;
    const ended = begin(index, null);
    if (ended === undefined) return awaited === null ? -1 : index;
    // As `note` does, without calling it.
    under = -1;
    outcomes[outcomes.length] = ended;
    outcomesLength += ended.length;
    const at = now();
    if (at - sinceMs >= LONG_MS) noteLong(index, at - sinceMs);
    sinceMs = at;
  }
  marks[0] = -1;
  return -1;
}

function tellLater(
  answer: PromiseLike<unknown>,
  as: LazyObject | string,
  tell: (outcome: string) => void,
): void {
  answer.then(
    (value) => tell(conclude(value, as)),
    (error) => tell(end(as, failed(error))),
  );
}

/** Takes what becomes of an event of the run that waits: as part of it, as long as nothing else came. */
function tellRun(index: number): (outcome: string) => void {
  const batch = batchNumber;
  const number = runCount;
  return (outcome) => {
    if (batch !== batchNumber) return;
    if (!isRun || number !== runCount) work(index, outcome);
    else if (under === index) {
      note(outcome);
      goOn(index + 1, index);
    }
  };
}

/** Goes on with a run while its events answer promises: in one function, which costs less than one for each. */
async function goOnWaiting(waiting: number): Promise<void> {
  const batch = batchNumber;
  const number = runCount;
  for (let index = waiting; index >= 0; index = runOn(index + 1, index)) {
    const as = awaitedAs;
    let outcome = "";
    try {
      const promise = awaited;
      awaited = null;
      const value = await promise;
      if (typeof as !== "string" && isRun && number === runCount) {
        outcome = endPlainly(value, as);
      }
      if (outcome === "") outcome = conclude(value, as);
      else settledInRow = 0;
    } catch (error) {
      outcome = end(as, failed(error));
    }
    if (batch !== batchNumber) return;
    if (!isRun || number !== runCount) {
      work(index, outcome);
      return;
    }
    note(outcome);
  }
}

function note(outcome: string): void {
  const index = under;
  under = -1;
  outcomes[outcomes.length] = outcome;
  outcomesLength += outcome.length;
  const at = now();
  if (at - sinceMs >= LONG_MS) noteLong(index, at - sinceMs);
  sinceMs = at;
}

function noteLong(index: number, tookMs: number): void {
  longs[longs.length] = index;
  longs[longs.length] = tookMs;
}

/** Whatever settles from now on is told one by one. */
function leaveRun(): void {
  isRun = false;
}

/**
 * What became of a run: `[event, milliseconds, …]` of those that took long, what was set as JSON, then
 * an outcome each.
 * Also asked for when the run was stopped: nothing of it may run code of the transformation.
 */
function collect(): string {
  leaveRun();
  if (told !== "") return told;
  const texts = outcomes;
  outcomes = newList();
  under = -1;
  let head = "[";
  for (let at = 0; at < longs.length; at += 1) head += at === 0 ? longs[at] : `,${longs[at]}`;
  head += "]";
  if (texts.length === 0) return head;
  return `${head}\u001e${takeSets()}\u001e${apply(join, texts, ["\u001e"])}`;
}

/** What became of an event: `=` unchanged, `-` dropped, `+` and `~` changed into what follows, `!` failed. */
function conclude(answer: unknown, as: LazyObject | string): string {
  if (!answer) return end(as, "-");
  if (typeof answer !== "object" || Array.isArray(answer)) {
    const shown = show(answer, 1).slice(0, 200);
    return end(as, `!${stringify(`TypeError: processEvent answered no event but ${shown}`)}`);
  }
  try {
    if (typeof as !== "string") return end(as, writeAnswer(answer as Exports, as));
    const text = writeWhole(answer as Exports);
    return text === as ? "=" : `+${text}`;
  } catch (error) {
    return end(as, failed(error));
  }
}

function end(as: LazyObject | string, outcome: string): string {
  if (typeof as === "string") return outcome;
  release(as);
  if (!isInnerSettled(as)) settledInRow = 0;
  else {
    settledInRow += 1;
    if (settledInRow >= MANY_SETTLED) {
      settledInRow = 0;
      plainLeft = PLAIN_EVENTS;
    }
  }
  return outcome;
}

function failed(error: unknown): string {
  return `!${stringify(describeThrown(error).slice(0, 4_000).toWellFormed())}`;
}

function invoke(text: string): void {
  leaveRun();
  isLogFull = false;
  isUnderWay = true;
  if (restoreSettings !== null) restoreSettings();
  const { id, kind, event, name, payload } = parse(text) as {
    id: number;
    kind: string;
    event: Exports;
    name: string;
    payload: Json;
  };
  report(`call ${id}`, () => {
    switch (kind) {
      case "onEvent":
        return method("onEvent")?.(event, meta);
      case "exportEvents": {
        const ignored = (meta["config"] as Record<string, Json> | null)?.["exportEventsToIgnore"];
        const names = typeof ignored === "string" ? ignored.split(",") : [];
        if (names.some((one) => one.trim() === event["event"])) return undefined;
        return method("exportEvents")?.([event], meta);
      }
      case "composeWebhook": {
        const posthogEvent = { ...event };
        posthogEvent["timestamp"] = new Date(posthogEvent["timestamp"] as string);
        return method("composeWebhook")?.(posthogEvent, meta);
      }
      case "job": {
        const handler = ownMembers("jobs")[name];
        if (typeof handler !== "function") throw new Error(`There is no job ${name}`);
        return handler(payload, meta);
      }
      default:
        return method(kind)?.(meta);
    }
  });
}

scope["__guest"] = {
  load,
  loaded,
  describe,
  setUp,
  accept,
  startRun,
  collect,
  work,
  invoke,
  settle,
  fire,
};
