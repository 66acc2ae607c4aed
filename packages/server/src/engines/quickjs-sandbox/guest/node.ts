import type { GuestCore } from "./part.ts";
import { StringDecoder } from "./string-decoder.ts";

type AnyFunction = (...values: unknown[]) => unknown;
type Members = Record<string, unknown>;
type Name = string | symbol;

/** Modules of Node.js that need nothing but the language: `events`, `assert`, `path`, `string_decoder`, `util`, `timers`. */
export function makePart(core: GuestCore): Members {
  const deepEqual = (left: unknown, right: unknown, isStrict: boolean) =>
    areDeepEqual(left, right, isStrict, []);
  return {
    events: eventsModule(),
    assert: assertModule(core, deepEqual),
    path: pathModule(),
    string_decoder: { StringDecoder },
    timers: timersModule(),
    util: utilModule(core, deepEqual),
  };
}

// events --------------------------------------------------------------------------------------

interface Listener {
  /** What was given; what is called may be a wrapper around it. */
  readonly given: AnyFunction;
  readonly isOnce: boolean;
}
interface Emitter extends Members {
  emit(name: Name, ...values: unknown[]): boolean;
}

function eventsModule(): unknown {
  // Kept apart, as classes of old inherit without calling the constructor.
  const kept = new WeakMap<object, Map<Name, Listener[]>>();
  const limits = new WeakMap<object, number>();
  const listenersOf = (emitter: object): Map<Name, Listener[]> => {
    const known = kept.get(emitter) ?? new Map<Name, Listener[]>();
    kept.set(emitter, known);
    return known;
  };

  function add(emitter: Emitter, name: Name, given: unknown, isOnce: boolean, isFirst: boolean) {
    if (typeof given !== "function") {
      throw new TypeError('The "listener" argument must be of type function');
    }
    const all = listenersOf(emitter);
    if (all.has("newListener")) emitter.emit("newListener", name, given);
    const added = { given: given as AnyFunction, isOnce };
    const before = all.get(name) ?? [];
    all.set(name, isFirst ? [added, ...before] : [...before, added]);
    return emitter;
  }

  function remove(emitter: Emitter, name: Name, given: unknown) {
    const all = listenersOf(emitter);
    const before = all.get(name) ?? [];
    const at = before.findLastIndex((one) => one.given === given);
    if (at < 0) return emitter;
    const left = before.filter((_one, index) => index !== at);
    if (left.length === 0) all.delete(name);
    else all.set(name, left);
    if (all.has("removeListener")) emitter.emit("removeListener", name, given);
    return emitter;
  }

  function EventEmitter() {}
  const methods = {
    on(this: Emitter, name: Name, listener: unknown) {
      return add(this, name, listener, false, false);
    },
    once(this: Emitter, name: Name, listener: unknown) {
      return add(this, name, listener, true, false);
    },
    prependListener(this: Emitter, name: Name, listener: unknown) {
      return add(this, name, listener, false, true);
    },
    prependOnceListener(this: Emitter, name: Name, listener: unknown) {
      return add(this, name, listener, true, true);
    },
    off(this: Emitter, name: Name, listener: unknown) {
      return remove(this, name, listener);
    },
    removeAllListeners(this: Emitter, name?: Name) {
      const all = listenersOf(this);
      const names = name === undefined ? [...all.keys()] : [name];
      // The last, so that it is told of all others.
      const last = names.indexOf("removeListener");
      if (last >= 0) names.push(...names.splice(last, 1));
      for (const each of names) {
        for (const { given } of (all.get(each) ?? []).toReversed()) remove(this, each, given);
      }
      return this;
    },
    emit(this: Emitter, name: Name, ...values: unknown[]): boolean {
      const listeners = listenersOf(this).get(name) ?? [];
      if (listeners.length === 0 && name === "error") {
        const [error] = values;
        throw error instanceof Error ? error : new Error(`Unhandled error. (${String(error)})`);
      }
      for (const { given, isOnce } of listeners) {
        if (isOnce) remove(this, name, given);
        Reflect.apply(given, this, values);
      }
      return listeners.length > 0;
    },
    listeners(this: Emitter, name: Name) {
      return (listenersOf(this).get(name) ?? []).map(({ given }) => given);
    },
    listenerCount(this: Emitter, name: Name) {
      return listenersOf(this).get(name)?.length ?? 0;
    },
    eventNames(this: Emitter) {
      return [...listenersOf(this).keys()];
    },
    setMaxListeners(this: Emitter, count: number) {
      limits.set(this, count);
      return this;
    },
    getMaxListeners(this: Emitter) {
      return limits.get(this) ?? DEFAULT_MAX_LISTENERS;
    },
  };
  for (const [name, method] of Object.entries(methods)) hide(EventEmitter.prototype, name, method);
  hide(EventEmitter.prototype, "addListener", methods.on);
  hide(EventEmitter.prototype, "removeListener", methods.off);
  hide(EventEmitter.prototype, "rawListeners", methods.listeners);

  const once = (emitter: Members, name: Name) =>
    new Promise((resolve, reject) => {
      const { once: listenOnce, off } = emitter as Record<string, AnyFunction>;
      const fail = (error: unknown) => reject(error);
      const done = (...values: unknown[]) => {
        Reflect.apply(off as AnyFunction, emitter, ["error", fail]);
        resolve(values);
      };
      Reflect.apply(listenOnce as AnyFunction, emitter, [name, done]);
      if (name !== "error") Reflect.apply(listenOnce as AnyFunction, emitter, ["error", fail]);
    });
  return Object.assign(EventEmitter, {
    EventEmitter,
    once,
    defaultMaxListeners: DEFAULT_MAX_LISTENERS,
  });
}

const DEFAULT_MAX_LISTENERS = 10;

function hide(target: object, name: string, value: unknown): void {
  Object.defineProperty(target, name, { value, writable: true, configurable: true });
}

// assert --------------------------------------------------------------------------------------

type DeepEqual = (left: unknown, right: unknown, isStrict: boolean) => boolean;

function assertModule({ show }: GuestCore, deepEqual: DeepEqual): unknown {
  class AssertionError extends Error {
    readonly code = "ERR_ASSERTION";
    readonly generatedMessage: boolean;
    readonly actual: unknown;
    readonly expected: unknown;
    readonly operator: unknown;

    constructor({ message, actual, expected, operator }: Members) {
      const told = message ?? `${show(actual, 1)} ${String(operator)} ${show(expected, 1)}`;
      super(String(told));
      this.name = "AssertionError";
      this.generatedMessage = message === undefined;
      this.actual = actual;
      this.expected = expected;
      this.operator = operator;
    }
  }
  const failWith = (given: unknown, more: Members): never => {
    if (given instanceof Error) throw given;
    throw new AssertionError({ ...more, ...(given !== undefined && { message: given }) });
  };
  const ok = (value: unknown, message?: unknown) => {
    if (value) return;
    failWith(message ?? (message === undefined ? `${show(value, 1)} is not true` : message), {
      actual: value,
      expected: true,
      operator: "==",
    });
  };
  const compares =
    (operator: string, isFit: (actual: unknown, expected: unknown) => boolean) =>
    (actual: unknown, expected: unknown, message?: unknown) => {
      if (!isFit(actual, expected)) failWith(message, { actual, expected, operator });
    };
  /** Whether what was thrown is what was expected: a class, an expression, a function or an object. */
  const isExpected = (thrown: unknown, expected: unknown): boolean => {
    if (expected === undefined || typeof expected === "string") return true;
    if (expected instanceof RegExp) return expected.test(String(thrown));
    if (typeof expected === "function") {
      if (expected.prototype !== undefined && thrown instanceof (expected as never)) return true;
      if (Object.prototype.isPrototypeOf.call(Error, expected) || expected === Error) return false;
      return Reflect.apply(expected, undefined, [thrown]) === true;
    }
    return Object.entries(expected as Members).every(([key, value]) => {
      const own = (thrown as Members)[key];
      return value instanceof RegExp ? value.test(String(own)) : deepEqual(own, value, true);
    });
  };
  const missing = (kind: string, message: unknown) =>
    failWith(typeof message === "string" ? message : `Missing expected ${kind}.`, {
      operator: kind === "exception" ? "throws" : "rejects",
    });
  const strictEqual = compares("strictEqual", Object.is);
  const notStrictEqual = compares("notStrictEqual", (a, b) => !Object.is(a, b));
  const deepStrictEqual = compares("deepStrictEqual", (a, b) => deepEqual(a, b, true));
  const notDeepStrictEqual = compares("notDeepStrictEqual", (a, b) => !deepEqual(a, b, true));
  const members: Members = {
    AssertionError,
    ok,
    fail: (message: unknown = "Failed") => failWith(message, { operator: "fail" }),
    // biome-ignore lint/suspicious/noDoubleEquals: that is what it compares by
    equal: compares("==", (a, b) => a == b || (Number.isNaN(a) && Number.isNaN(b))),
    // biome-ignore lint/suspicious/noDoubleEquals: that is what it compares by
    notEqual: compares("!=", (a, b) => a != b),
    strictEqual,
    notStrictEqual,
    deepEqual: compares("deepEqual", (a, b) => deepEqual(a, b, false)),
    notDeepEqual: compares("notDeepEqual", (a, b) => !deepEqual(a, b, false)),
    deepStrictEqual,
    notDeepStrictEqual,
    match: compares("match", (text, pattern) => (pattern as RegExp).test(String(text))),
    doesNotMatch: compares("doesNotMatch", (text, pattern) => !(pattern as RegExp).test(`${text}`)),
    throws(work: AnyFunction, expected?: unknown, message?: unknown) {
      try {
        work();
      } catch (error) {
        if (isExpected(error, expected)) return;
        throw error;
      }
      missing("exception", message ?? expected);
    },
    doesNotThrow: (work: AnyFunction) => void work(),
    async rejects(work: unknown, expected?: unknown, message?: unknown) {
      try {
        await (typeof work === "function" ? work() : work);
      } catch (error) {
        if (isExpected(error, expected)) return;
        throw error;
      }
      missing("rejection", message ?? expected);
    },
    async doesNotReject(work: unknown) {
      await (typeof work === "function" ? work() : work);
    },
    ifError(value: unknown) {
      if (value !== null && value !== undefined) throw value;
    },
  };
  const loose = Object.assign((value: unknown, message?: unknown) => ok(value, message), members);
  const strict = Object.assign((value: unknown, message?: unknown) => ok(value, message), members, {
    equal: strictEqual,
    notEqual: notStrictEqual,
    deepEqual: deepStrictEqual,
    notDeepEqual: notDeepStrictEqual,
  });
  return Object.assign(loose, { strict: Object.assign(strict, { strict }) });
}

/** @param open what is being compared already, further out */
function areDeepEqual(
  left: unknown,
  right: unknown,
  isStrict: boolean,
  open: readonly (readonly [unknown, unknown])[],
): boolean {
  if (Object.is(left, right)) return true;
  if (!isObject(left) || !isObject(right)) {
    // biome-ignore lint/suspicious/noDoubleEquals: that is what is asked for
    return !isStrict && !isObject(left) && !isObject(right) && left == right;
  }
  if (open.some(([a, b]) => a === left && b === right)) return true;
  const inner = [...open, [left, right] as const];
  const same = (a: unknown, b: unknown) => areDeepEqual(a, b, isStrict, inner);
  if (isStrict && Object.getPrototypeOf(left) !== Object.getPrototypeOf(right)) return false;
  const tag = tagOf(left);
  if (tag !== tagOf(right)) return false;
  if (left instanceof Date && right instanceof Date) {
    if (!Object.is(left.getTime(), right.getTime())) return false;
  } else if (left instanceof RegExp || left instanceof Error) {
    if (String(left) !== String(right)) return false;
  } else if (left instanceof Map && right instanceof Map) {
    return left.size === right.size && hasAll([...left], [...right], same);
  } else if (left instanceof Set && right instanceof Set) {
    return left.size === right.size && hasAll([...left], [...right], same);
  } else if (/^\[object (?:Number|String|Boolean|BigInt|Symbol)\]$/.test(tag)) {
    if (!Object.is(left.valueOf(), right.valueOf())) return false;
  }
  if (typeof left === "function") return false;
  const keys = Object.keys(left);
  return (
    keys.length === Object.keys(right).length &&
    keys.every(
      (key) => Object.hasOwn(right, key) && same((left as Members)[key], (right as Members)[key]),
    )
  );
}

/** Whether each of some is among others, in any order. */
function hasAll(
  some: readonly unknown[],
  others: readonly unknown[],
  same: (a: unknown, b: unknown) => boolean,
): boolean {
  const left = [...others];
  return some.every((one) => {
    const at = left.findIndex((other) => same(one, other));
    if (at >= 0) left.splice(at, 1);
    return at >= 0;
  });
}

function isObject(value: unknown): value is object {
  return (typeof value === "object" && value !== null) || typeof value === "function";
}

function tagOf(value: object): string {
  return Object.prototype.toString.call(value);
}

// path ----------------------------------------------------------------------------------------

interface ParsedPath {
  root: string;
  dir: string;
  base: string;
  ext: string;
  name: string;
}

/** Paths with slashes; the folder that relative ones begin at is the top. */
function pathModule(): unknown {
  const normalize = (path: string): string => {
    const isRooted = path.startsWith("/");
    const parts: string[] = [];
    for (const part of path.split("/")) {
      if (part === "" || part === ".") continue;
      if (part !== "..") parts.push(part);
      else if (parts.length > 0 && parts.at(-1) !== "..") parts.pop();
      else if (!isRooted) parts.push(part);
    }
    const plain = parts.join("/");
    const end = path.endsWith("/") && plain !== "" ? "/" : "";
    return isRooted ? `/${plain}${end}` : plain === "" ? "." : `${plain}${end}`;
  };
  const withoutEnd = (path: string) => (path.length > 1 ? path.replace(/\/+$/, "") || "/" : path);
  const basename = (path: string, ending = "") => {
    const base = withoutEnd(path).split("/").at(-1) ?? "";
    return ending !== "" && base !== ending && base.endsWith(ending)
      ? base.slice(0, -ending.length)
      : base;
  };
  const extname = (path: string) => /^.+(\.[^.]*)$/.exec(basename(path))?.[1] ?? "";
  const dirname = (path: string) => {
    const plain = withoutEnd(path);
    const at = plain.lastIndexOf("/");
    return at < 0 ? "." : withoutEnd(plain.slice(0, at)) || "/";
  };
  const resolve = (...paths: string[]) => {
    const from = paths.findLastIndex((path) => path.startsWith("/"));
    return withoutEnd(normalize(`/${paths.slice(Math.max(0, from)).join("/")}`));
  };
  const path: Members = {
    sep: "/",
    delimiter: ":",
    normalize,
    basename,
    extname,
    dirname,
    resolve,
    join: (...paths: string[]) => normalize(paths.filter((one) => one !== "").join("/")),
    isAbsolute: (one: string) => one.startsWith("/"),
    relative(from: string, to: string) {
      const [ours, theirs] = [resolve(from), resolve(to)].map((one) =>
        one.split("/").filter((part) => part !== ""),
      ) as [string[], string[]];
      const differs = ours.findIndex((part, at) => part !== theirs[at]);
      const shared = differs < 0 ? ours.length : differs;
      return [...ours.slice(shared).map(() => ".."), ...theirs.slice(shared)].join("/");
    },
    parse(one: string): ParsedPath {
      const [base, ext] = [basename(one), extname(one)];
      const dir = one.includes("/") ? dirname(one) : "";
      const name = ext === "" ? base : base.slice(0, -ext.length);
      return { root: one.startsWith("/") ? "/" : "", dir, base, ext, name };
    },
    format({ root = "", dir, base, name = "", ext = "" }: Partial<ParsedPath>) {
      const last = base ?? `${name}${ext}`;
      if (dir === undefined || dir === "") return `${root}${last}`;
      return dir === root ? `${dir}${last}` : `${dir}/${last}`;
    },
    toNamespacedPath: (one: string) => one,
  };
  return Object.assign(path, { posix: path });
}

// timers --------------------------------------------------------------------------------------

function timersModule(): unknown {
  const later = (milliseconds = 1, value?: unknown) =>
    new Promise((resolve) => {
      setTimeout(() => resolve(value), milliseconds);
    });
  return {
    setTimeout,
    setInterval,
    setImmediate,
    clearTimeout,
    clearInterval,
    clearImmediate,
    promises: {
      setTimeout: later,
      setImmediate: (value?: unknown) => later(1, value),
      async *setInterval(milliseconds = 1, value?: unknown) {
        for (;;) yield await later(milliseconds, value);
      },
      scheduler: { wait: later, yield: () => later() },
    },
  };
}

// util ----------------------------------------------------------------------------------------

function utilModule(core: GuestCore, deepEqual: DeepEqual): unknown {
  const isA = (kind: string) => (value: unknown) => tagOf(Object(value)) === `[object ${kind}]`;
  const isTyped = (kind: string) => (value: unknown) => typeof value === kind;
  const custom = Symbol.for("nodejs.util.promisify.custom");
  const promisify = (work: AnyFunction): unknown =>
    (work as unknown as Record<symbol, unknown>)[custom] ??
    function (this: unknown, ...values: unknown[]) {
      return new Promise((resolve, reject) => {
        const done = (error: unknown, value: unknown) => (error ? reject(error) : resolve(value));
        Reflect.apply(work, this, [...values, done]);
      });
    };
  const isError = (value: unknown) => value instanceof Error;
  const isRegExp = isA("RegExp");
  const isDate = isA("Date");
  return {
    inspect: Object.assign(
      (...values: Parameters<typeof core.inspect>) => core.inspect(...values),
      {
        custom: Symbol.for("nodejs.util.inspect.custom"),
      },
    ),
    format: (...values: unknown[]) =>
      typeof values[0] === "string"
        ? core.format(values)
        : values.map((value) => core.show(value)).join(" "),
    promisify: Object.assign(promisify, { custom }),
    callbackify: (work: AnyFunction) =>
      function (this: unknown, ...values: unknown[]) {
        const done = values.pop() as AnyFunction;
        (Reflect.apply(work, this, values) as Promise<unknown>).then(
          (value) => queueMicrotask(() => done(null, value)),
          (error) => queueMicrotask(() => done(error ?? new Error("rejected"))),
        );
      },
    deprecate: (work: unknown) => work,
    debuglog: () => Object.assign(() => {}, { enabled: false }),
    inherits(child: { prototype: object }, parent: { prototype: object }) {
      hide(child, "super_", parent);
      Object.setPrototypeOf(child.prototype, parent.prototype);
    },
    isDeepStrictEqual: (left: unknown, right: unknown) => deepEqual(left, right, true),
    stripVTControlCharacters: (text: string) =>
      // biome-ignore lint/suspicious/noControlCharactersInRegex: those that are taken out
      text.replace(/\u001b\[[0-9;]*[A-Za-z]/g, ""),
    toUSVString: (text: unknown) => String(text).toWellFormed(),
    TextEncoder,
    TextDecoder,
    isArray: Array.isArray,
    isBoolean: isTyped("boolean"),
    isNumber: isTyped("number"),
    isString: isTyped("string"),
    isSymbol: isTyped("symbol"),
    isFunction: isTyped("function"),
    isUndefined: isTyped("undefined"),
    isNull: (value: unknown) => value === null,
    isNullOrUndefined: (value: unknown) => value === null || value === undefined,
    isObject: (value: unknown) => typeof value === "object" && value !== null,
    isPrimitive: (value: unknown) => !isObject(value),
    isBuffer: (value: unknown) => Buffer.isBuffer(value),
    isRegExp,
    isDate,
    isError,
    types: {
      isDate,
      isRegExp,
      isMap: isA("Map"),
      isSet: isA("Set"),
      isWeakMap: isA("WeakMap"),
      isWeakSet: isA("WeakSet"),
      isPromise: isA("Promise"),
      isNativeError: isError,
      isAsyncFunction: isA("AsyncFunction"),
      isGeneratorFunction: isA("GeneratorFunction"),
      isUint8Array: (value: unknown) => value instanceof Uint8Array,
      isTypedArray: (value: unknown) => ArrayBuffer.isView(value) && !(value instanceof DataView),
      isArrayBufferView: ArrayBuffer.isView,
      isAnyArrayBuffer: isA("ArrayBuffer"),
      isArrayBuffer: isA("ArrayBuffer"),
    },
  };
}
