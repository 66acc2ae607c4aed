import { describeThrown } from "./errors.ts";
import { defineProperty, getOwnPropertyDescriptor, put, without } from "./intrinsics.ts";

/** How a line of the engine's stacks begins; and those of the guest itself. */
const FRAME = "    at ";
const OWN_FRAME = "(sandbox.js:";
const APPLY_FRAME = "    at apply (native)";

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
export function stackReaders(): object {
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

/** What V8 offers to classes of errors. */
export function captureStackTrace(target: object): void {
  put(target, "stack", new Error().stack);
  captured.add(target);
  headed.delete(target);
}

/** An error with its stack, where it has one. */
export function describeError(error: Error): string {
  return typeof error.stack === "string" ? wholeStack(error, error.stack) : describeThrown(error);
}

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
