import { bridge } from "./bridge.ts";
import { describeThrown } from "./errors.ts";
import { type AnyFunction, now } from "./intrinsics.ts";
import { format, inspect, show } from "./load-part.ts";
import { write } from "./write.ts";

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

/** Lines are kept again, until there are too many. */
export function openLog(): void {
  isLogFull = false;
}

/** Tells of an error that nobody is there to catch. */
export function complain(error: unknown): void {
  log("error", [`Uncaught ${describeThrown(error)}`]);
}

const writeAs =
  (level: string): AnyFunction =>
  (...values) =>
    log(level, values);

const timesByLabel = new Map<string, number>();
const countsByLabel = new Map<string, number>();

export const console = {
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
