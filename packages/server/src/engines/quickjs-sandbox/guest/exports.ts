import { METHOD_NAMES } from "../method-names.ts";
import { describeThrown } from "./errors.ts";
import {
  type AnyFunction,
  apply,
  type Exports,
  keysOf,
  newList,
  promiseThen,
  scope,
  without,
} from "./intrinsics.ts";
import { requireGuest } from "./require.ts";
import { traceOf } from "./stacks.ts";
import { write } from "./write.ts";

/** Where what the code offers may be found; the first that has it counts. */
let found: Exports[] = [];

/** Why code that awaits something while it loads is not loaded, in the words of {@link load}. */
let loading = "";

/** Loads the code; the error with its trace, or nothing. */
export function load(code: unknown): string {
  try {
    findExports(code);
    return "";
  } catch (error) {
    return tellThrown(error);
  }
}

/** Asked once nothing is left to be done: the same for what had to be awaited. */
export function loaded(): string {
  return loading;
}

function tellThrown(error: unknown): string {
  const trace = error instanceof Error ? traceOf(error) : "";
  return write([describeThrown(error).slice(0, 4_000), trace]);
}

/** Runs the code and finds what it defines: exported in any way, or only named. */
function findExports(code: unknown): void {
  const exported: Exports = {};
  const module: { exports: unknown } = { exports: exported };
  let named: Exports = {};
  /** What the main file calls `exports` in the end. */
  let replaced: unknown;
  const before = without({}) as Record<string, boolean>;
  for (const key of keysOf(globalThis)) before[key] = true;
  const waiting = apply(code as AnyFunction, globalThis, [
    exported,
    module,
    requireGuest,
    requireGuest,
    (values: Exports, exportsOfMain?: unknown) => {
      named = values;
      replaced = exportsOfMain;
    },
    constantOf,
    (all: unknown) => {
      module.exports = all;
    },
  ]);
  const find = () => noteExports(module.exports, [exported, named, replaced], before);
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
  others: readonly unknown[],
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
  for (let at = 0; at < others.length; at += 1) look(others[at]);
  look(assigned);
  // What throws where it is looked at is an error of loading.
  describe();
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
  for (let at = 0; at < METHOD_NAMES.length; at += 1) {
    const known = METHOD_NAMES[at] as string;
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

function lookUp(name: string): unknown {
  for (let at = 0; at < found.length; at += 1) {
    const value = found[at]?.[name];
    if (value !== undefined && value !== null) return value;
  }
  return undefined;
}

/** Where a method is found first. */
export function placeOf(name: string): Exports | undefined {
  for (let at = 0; at < found.length; at += 1) {
    if (typeof found[at]?.[name] === "function") return found[at];
  }
  return undefined;
}

/** A method of the transformation, called on what it was found in. */
export function method(name: string): AnyFunction | undefined {
  const place = placeOf(name);
  if (place === undefined) return undefined;
  const value = place[name] as AnyFunction;
  return (...values) => apply(value, place, values);
}

/** What the transformation offers by that name, as an object. */
export function ownMembers(name: string): Exports {
  const value = lookUp(name);
  return typeof value === "object" && value !== null ? (value as Exports) : {};
}

/** What the transformation offers, as text. */
export function describe(): string {
  const methods = newList<string>();
  for (let at = 0; at < METHOD_NAMES.length; at += 1) {
    const name = METHOD_NAMES[at] as string;
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
