import { complain, console } from "./console.ts";
import { defineLater } from "./define-later.ts";
import { RetryError } from "./errors.ts";
import { put } from "./intrinsics.ts";
import { part } from "./load-part.ts";
import { posthog } from "./posthog.ts";
import { startTimer, stopTimer, toDelay, waitFor } from "./timers.ts";

/** Globals that few use, by the part that holds them. */
const LATER: Readonly<Record<string, readonly string[]>> = {
  url: ["URL", "URLSearchParams"],
  web: [
    "TextEncoder",
    "TextDecoder",
    "AbortController",
    "AbortSignal",
    "Event",
    "CustomEvent",
    "EventTarget",
    "DOMException",
    "structuredClone",
    "atob",
    "btoa",
    "performance",
  ],
  fetch: ["fetch", "Headers", "Request", "Response", "Blob", "File", "FormData", "ReadableStream"],
  crypto: ["crypto"],
  buffer: ["Buffer"],
};

/** Gives code what it finds as globals, beside what the engine has. */
export function defineGlobals(): void {
  define("console", console);
  define("posthog", posthog);
  define("RetryError", RetryError);
  define("global", globalThis);
  // What bundles for the web take for it.
  define("self", globalThis);
  defineTimers();
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
  for (const [of, names] of Object.entries(LATER)) {
    for (const name of names) defineLater(globalThis, name, () => part(of)[name]);
  }
}

function defineTimers(): void {
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
}

function define(name: string, value: unknown): void {
  put(globalThis, name, value);
}
