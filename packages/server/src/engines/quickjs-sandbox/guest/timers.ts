import { call } from "./bridge.ts";
import { complain } from "./console.ts";
import { type AnyFunction, apply, isThenable } from "./intrinsics.ts";

interface Timer {
  callback: AnyFunction;
  values: unknown[];
  everyMs: number | null;
}

const timers = new Map<number, Timer>();
let timerCount = 0;

export function startTimer(
  callback: unknown,
  delay: unknown,
  everyMs: number | null,
  values: unknown[],
) {
  if (typeof callback !== "function") throw new TypeError("The callback must be a function");
  timerCount += 1;
  const id = timerCount;
  call("timer", [id, toDelay(delay)]);
  timers.set(id, { callback: callback as AnyFunction, values, everyMs });
  return new TimerHandle(id);
}

/** What resolves with a value after a while. */
export function waitFor(delay: unknown, value: unknown): Promise<unknown> {
  return new Promise((resolve) => {
    startTimer(resolve, delay, null, [value]);
  });
}

export function toDelay(delay: unknown): number {
  const milliseconds = Number(delay);
  return milliseconds > 1 && milliseconds < 2 ** 31 ? Math.trunc(milliseconds) : 1;
}

/** Counts as a number, and has what Node.js gives its timers. */
export class TimerHandle {
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

export function stopTimer(handle: unknown): void {
  const id = Number(handle);
  if (timers.delete(id)) call("timer", [id, null]);
}

/** Its time has come. */
export function fire(id: number): void {
  const timer = timers.get(id);
  if (timer === undefined) return;
  if (timer.everyMs === null) timers.delete(id);
  else call("timer", [id, timer.everyMs]);
  try {
    const answer = apply(timer.callback, undefined, timer.values);
    if (isThenable(answer)) answer.then(undefined, complain);
  } catch (error) {
    complain(error);
  }
}
