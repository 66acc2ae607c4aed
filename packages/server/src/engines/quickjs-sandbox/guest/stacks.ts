import { TRACE } from "../engine-traces.ts";
import { describeThrown } from "./errors.ts";
import {
  apply,
  defineProperty,
  deleteProperty,
  getOwnPropertyDescriptor,
  put,
  without,
} from "./intrinsics.ts";

/** How a line of the engine's traces begins where the guest itself is at work. */
const OWN_FRAME = "(sandbox.js:";
const APPLY_FRAME = "    at apply (native)";

type Traced = { readonly [TRACE]?: unknown };

const { includes } = Array.prototype;

/** Where an error was made, in the engine's words; nothing for what has no trace. */
export function traceOf(error: object): string {
  const trace = (error as Traced)[TRACE];
  return typeof trace === "string" ? trace : "";
}

/** An error with its stack, where it has one. */
export function describeError(error: Error): string {
  const { stack } = error;
  return typeof stack === "string" && stack !== "" ? stack : describeThrown(error);
}

/**
 * Gives errors the `stack` that V8 gives them: what was thrown and where, written when it is first
 * read, and from then on a value of their own.
 */
export function giveStacks(): void {
  defineProperty(Error.prototype, "stack", accessor());
  put(Error, "captureStackTrace", captureStackTrace);
  put(Error, "stackTraceLimit", 10);
  listStacks(Object, "getOwnPropertyNames");
  listStacks(Reflect, "ownKeys");
  describeStacks();
}

/** What V8 offers to classes of errors. */
function captureStackTrace(target: object): void {
  put(target, TRACE, traceOf(new Error()));
  defineProperty(target, "stack", accessor());
}

function accessor(): PropertyDescriptor {
  return without({ get: readStack, set: writeStack, configurable: true, enumerable: false });
}

function readStack(this: object | undefined): unknown {
  const trace = (this as Traced | undefined)?.[TRACE];
  if (this === undefined || typeof trace !== "string") return undefined;
  const stack = headOf(this as Error) + framesOf(trace);
  if (hasTrace(this)) put(this, "stack", stack);
  return stack;
}

/** What is no error itself is given a plain property, as if nobody knew of stacks. */
function writeStack(this: object, value: unknown): void {
  put(this, "stack", value, !hasTrace(this));
}

function hasTrace(target: object): boolean {
  return getOwnPropertyDescriptor(target, TRACE) !== undefined;
}

function headOf({ name = "Error", message = "" }: Error): string {
  const [kind, text] = [String(name), String(message)];
  return kind === "" || text === "" ? kind + text : `${kind}: ${text}`;
}

/** As many lines of a trace as are asked for, without the guest's own calls. */
function framesOf(trace: string): string {
  const { stackTraceLimit: limit } = Error as unknown as { stackTraceLimit: unknown };
  const lines = trace.split("\n");
  let text = "";
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

/** Lists of names tell `stack` in place of the trace that it is made of. */
function listStacks(holder: object, name: string): void {
  const native = (holder as Record<string, (target: object) => PropertyKey[]>)[name];
  if (native === undefined) return;
  const listed = {
    [name](target: object): PropertyKey[] {
      const names = native(target);
      if (!apply(includes, names, [TRACE])) return names;
      apply(readStack, target, []);
      return ["stack", ...names.filter((key) => key !== TRACE && key !== "stack")];
    },
  };
  put(holder, name, listed[name]);
}

function describeStacks(): void {
  const native = Object.getOwnPropertyDescriptors;
  const { getOwnPropertyDescriptors } = {
    getOwnPropertyDescriptors(target: object): Record<PropertyKey, PropertyDescriptor> {
      const described: Record<PropertyKey, PropertyDescriptor> = native(target);
      if (described[TRACE] === undefined) return described;
      apply(readStack, target, []);
      const again: Record<PropertyKey, PropertyDescriptor> = native(target);
      deleteProperty(again, TRACE);
      return again;
    },
  };
  put(Object, "getOwnPropertyDescriptors", getOwnPropertyDescriptors);
}
