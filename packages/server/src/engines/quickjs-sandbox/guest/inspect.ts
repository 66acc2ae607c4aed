import {
  type AnyFunction,
  apply,
  getOwnPropertyDescriptor,
  ownKeys,
  stringify,
} from "./intrinsics.ts";
import type { GuestCore, Inspecting } from "./part.ts";

/** Objects nested deeper are not shown, whatever is asked for. */
const DEEPEST_SHOWN = 20;
const MOST_ITEMS = 100;
const MOST_BYTES = 50;
/** By which objects say themselves how they are shown. */
const CUSTOM = Symbol.for("nodejs.util.inspect.custom");
const TypedArray = Object.getPrototypeOf(Uint8Array) as new () => Uint8Array;

type Part = (item: unknown) => string;

/** Values in words, as Node.js shows them; on one line. */
export function makePart({ describeThrown, describeError }: GuestCore): Inspecting {
  /** Node's `util.inspect`, of whose options only `depth` means something here. */
  function inspect(value: unknown, options?: unknown, depth?: unknown): string {
    const isGiven = typeof options === "object" && options !== null && "depth" in options;
    // A depth that is said to be undefined has no bound either.
    const given = isGiven ? (options.depth ?? null) : depth;
    const deepest = given === null ? DEEPEST_SHOWN : Math.min(DEEPEST_SHOWN, Number(given));
    return show(value, 1, [], Number.isNaN(deepest) ? undefined : deepest);
  }

  /** A value as consoles show it. */
  function show(value: unknown, depth = 0, seen: object[] = [], deepest = 2): string {
    try {
      if (typeof value === "string") return depth === 0 ? value : quote(value);
      if (typeof value === "bigint") return `${value}n`;
      if (typeof value === "number") return Object.is(value, -0) ? "-0" : String(value);
      if ((typeof value !== "object" && typeof value !== "function") || value === null) {
        return String(value);
      }
      const custom = (value as Record<symbol, unknown>)[CUSTOM];
      if (typeof custom === "function") {
        const own = apply(custom as AnyFunction, value, [deepest - seen.length, {}, inspect]);
        if (own !== value) return typeof own === "string" ? own : show(own, depth, seen, deepest);
      }
      if (seen.includes(value)) return "[Circular *1]";
      const inner = [...seen, value];
      const part = (item: unknown) => show(item, depth + 1, inner, deepest);
      const text =
        value instanceof Error
          ? showError(value, depth, part)
          : showObject(value, seen.length > deepest, part);
      return seen.length === 0 && text.includes("[Circular *1]") ? `<ref *1> ${text}` : text;
    } catch (error) {
      return `[${describeThrown(error)}]`;
    }
  }

  function showError(error: Error, depth: number, part: Part): string {
    const head = (depth === 0 && describeError(error)) || describeThrown(error);
    const more = members(error, part, ["name", "message", "stack", "cause"]);
    if (Object.hasOwn(error, "cause")) more.push(`[cause]: ${part(error.cause)}`);
    return more.length === 0 ? head : `${head} { ${more.join(", ")} }`;
  }

  /** Fills the placeholders of the first text, as consoles do. */
  function format(values: unknown[]): string {
    let next = 1;
    const text = String(values[0]).replace(/%[sdifjoOc%]/g, (sign) => {
      if (sign === "%%") return "%";
      if (next >= values.length) return sign;
      const value = values[next];
      next += 1;
      if (sign === "%d") return typeof value === "bigint" ? `${value}n` : numberOf(value);
      if (sign === "%i") return show(Number.parseInt(String(value), 10));
      if (sign === "%f") return show(Number.parseFloat(String(value)));
      if (sign === "%j") return stringify(value) ?? "undefined";
      if (sign === "%c") return "";
      return sign === "%s" ? written(value) : show(value, 1);
    });
    return [text, ...values.slice(next).map((value) => show(value))].join(" ");
  }

  const numberOf = (value: unknown) => show(typeof value === "object" ? Number.NaN : Number(value));

  /** What stands for `%s`: objects as they write themselves, where they do that by a way of their own. */
  function written(value: unknown): string {
    if (typeof value === "function") return String(value);
    if (typeof value !== "object" || value === null || value instanceof Error) return show(value);
    const own = (value as { toString?: unknown }).toString;
    const isPlain = [undefined, Object.prototype.toString, Array.prototype.toString].includes(
      own as never,
    );
    return isPlain || value instanceof Date ? show(value, 1, [], 0) : String(value);
  }

  return { show, inspect, format };
}

function showObject(value: object, isTooDeep: boolean, part: Part): string {
  const kind = kindOf(value);
  if (typeof value === "function")
    return withMembers(showFunction(value, kind), members(value, part));
  if (value instanceof Date) {
    return Number.isNaN(value.getTime()) ? "Invalid Date" : value.toISOString();
  }
  if (value instanceof RegExp) return String(value);
  if (Array.isArray(value)) {
    if (isTooDeep) return "[Array]";
    const items = itemsOf(value, part);
    const prefix = kind === "Array" ? "" : `${kind}(${value.length}) `;
    return `${prefix}${enclosed(items, "[", "]")}`;
  }
  if (isTooDeep) return `[${kind === "" ? "Object: null prototype" : kind}]`;
  const tag = tagOf(value, kind);
  if (value instanceof Map) {
    const items = shortened([...value], ([key, item]) => `${part(key)} => ${part(item)}`);
    return `${kind}(${value.size})${tag} ${enclosed([...items, ...members(value, part)])}`;
  }
  if (value instanceof Set) {
    const items = shortened([...value], part);
    return `${kind}(${value.size})${tag} ${enclosed([...items, ...members(value, part)])}`;
  }
  if (value instanceof ArrayBuffer) {
    const bytes = hexOf(new Uint8Array(value));
    return `ArrayBuffer { [Uint8Contents]: <${bytes}>, byteLength: ${value.byteLength} }`;
  }
  if (value instanceof TypedArray) {
    if (kind === "Buffer") return value.length === 0 ? "<Buffer >" : `<Buffer ${hexOf(value)}>`;
    return `${kind}(${value.length}) ${enclosed(shortened([...value], part), "[", "]")}`;
  }
  if (value instanceof Promise) return "Promise { ... }";
  if (value instanceof WeakMap || value instanceof WeakSet) return `${kind} { <items unknown> }`;
  const boxed = boxedIn(value);
  if (boxed !== undefined) return `[${kind}: ${part(boxed)}]`;
  const shown = members(value, part);
  if (kind === "Object" && tag === "") return enclosed(shown);
  return `${kind === "" ? "[Object: null prototype]" : kind}${tag} ${enclosed(shown)}`;
}

/** What something calls itself, where that is not its class. */
function tagOf(value: object, kind: string): string {
  const tag = (value as Record<symbol, unknown>)[Symbol.toStringTag];
  const isTold = typeof tag === "string" && tag !== "" && tag !== kind;
  return isTold && !Object.hasOwn(value, Symbol.toStringTag) ? ` [${tag}]` : "";
}

/** Of which class something is, by its name; empty where there is none. */
function kindOf(value: object): string {
  let prototype: object | null = Object.getPrototypeOf(value) as object | null;
  for (; prototype !== null; prototype = Object.getPrototypeOf(prototype) as object | null) {
    const made = getOwnPropertyDescriptor(prototype, "constructor")?.value as unknown;
    if (typeof made === "function" && made.name !== "") return made.name;
  }
  return "";
}

function showFunction(value: object, kind: string): string {
  const { name } = value as { name: unknown };
  const called = typeof name === "string" && name !== "" ? name : "(anonymous)";
  if (!/^class\b/.test(Function.prototype.toString.call(value))) {
    return `[${kind}${called === "(anonymous)" ? " " : ": "}${called}]`;
  }
  const { name: base = "" } = Object.getPrototypeOf(value) as { name?: string };
  const above = base === "" ? "" : ` extends ${base}`;
  return `[class ${called}${above}]`;
}

function boxedIn(value: object): unknown {
  for (const Kind of [Number, String, Boolean, BigInt, Symbol]) {
    if (value instanceof Kind) return value.valueOf();
  }
  return undefined;
}

/** The items of a list with its holes counted, and what else it has. */
function itemsOf(list: readonly unknown[], part: Part): string[] {
  const shown: string[] = [];
  let holes = 0;
  const tellHoles = () => {
    if (holes > 0) shown.push(`<${holes} empty item${holes === 1 ? "" : "s"}>`);
    holes = 0;
  };
  const end = Math.min(list.length, MOST_ITEMS);
  for (let at = 0; at < end; at += 1) {
    if (at in list) {
      tellHoles();
      shown.push(part(list[at]));
    } else holes += 1;
  }
  tellHoles();
  if (list.length > end) shown.push(moreItems(list.length - end));
  return [...shown, ...members(list, part)];
}

function shortened<T>(items: readonly T[], part: (item: T) => string): string[] {
  const shown = items.slice(0, MOST_ITEMS).map(part);
  if (items.length > MOST_ITEMS) shown.push(moreItems(items.length - MOST_ITEMS));
  return shown;
}

const moreItems = (count: number) => `... ${count} more item${count === 1 ? "" : "s"}`;

/** What an object has of its own, as names and values; of a list without its items. */
function members(value: object, part: Part, without: readonly PropertyKey[] = []): string[] {
  const shown: string[] = [];
  const isList = Array.isArray(value);
  for (const key of ownKeys(value)) {
    const property = getOwnPropertyDescriptor(value, key);
    if (property?.enumerable !== true || without.includes(key)) continue;
    if (isList && typeof key === "string" && /^\d+$/.test(key)) continue;
    const label =
      typeof key === "symbol" ? `[${String(key)}]` : /^[A-Za-z_]\w*$/.test(key) ? key : quote(key);
    const { get, set } = property;
    const accessor =
      get && set ? "[Getter/Setter]" : get ? "[Getter]" : set ? "[Setter]" : undefined;
    shown.push(`${label}: ${accessor ?? part(property.value)}`);
    if (shown.length === MOST_ITEMS) break;
  }
  return shown;
}

function enclosed(items: readonly string[], open = "{", close = "}"): string {
  return items.length === 0 ? `${open}${close}` : `${open} ${items.join(", ")} ${close}`;
}

function withMembers(text: string, shown: readonly string[]): string {
  return shown.length === 0 ? text : `${text} ${enclosed(shown)}`;
}

function hexOf(bytes: Uint8Array): string {
  const shown = [...bytes.slice(0, MOST_BYTES)].map((byte) => byte.toString(16).padStart(2, "0"));
  const more = bytes.length - MOST_BYTES;
  return `${shown.join(" ")}${more > 0 ? ` ... ${more} more byte${more === 1 ? "" : "s"}` : ""}`;
}

/** A text in the quotes that Node.js would write around it. */
function quote(text: string): string {
  const inner = stringify(text).slice(1, -1).replaceAll('\\"', '"');
  if (!inner.includes("'")) return `'${inner}'`;
  if (!inner.includes('"')) return `"${inner}"`;
  return inner.includes("`") ? `'${inner.replaceAll("'", "\\'")}'` : `\`${inner}\``;
}
