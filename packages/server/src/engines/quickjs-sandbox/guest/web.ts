import { fromLatin1, type GuestCore, toLatin1, utf8, viewOf } from "./part.ts";

/** Names of exceptions that still have the numbers of old. */
const EXCEPTION_CODES: Readonly<Record<string, number>> = {
  InvalidCharacterError: 5,
  NotSupportedError: 9,
  SyntaxError: 12,
  AbortError: 20,
  QuotaExceededError: 22,
  TimeoutError: 23,
  DataCloneError: 25,
};

interface EventOptions {
  bubbles?: boolean;
  cancelable?: boolean;
  composed?: boolean;
}

/** The web's texts, events and copies, which QuickJS lacks. Rules of encodings are the host's. */
export function makePart(core: GuestCore): Record<string, unknown> {
  const { call } = core;
  const startedAt = Date.now();

  class TextEncoder {
    readonly encoding = "utf-8";
    encode(text: unknown = ""): Uint8Array {
      return fromLatin1(utf8(String(text)));
    }
    encodeInto(text: string, target: Uint8Array): { read: number; written: number } {
      let [read, written] = [0, 0];
      for (const character of text) {
        const bytes = this.encode(character);
        if (written + bytes.length > target.length) break;
        target.set(bytes, written);
        written += bytes.length;
        read += character.length;
      }
      return { read, written };
    }
  }

  class TextDecoder {
    readonly encoding: string;
    readonly fatal: boolean;
    readonly ignoreBOM: boolean;
    /** Of a stream: in UTF-8 what is not whole yet, otherwise all of it so far. */
    #waiting = "";
    /** How much of a stream was told: in UTF-8 whether anything. */
    #told = 0;

    constructor(label: unknown = "utf-8", options: { fatal?: boolean; ignoreBOM?: boolean } = {}) {
      this.encoding = call("decode", ["label", String(label)]) as string;
      this.fatal = options.fatal === true;
      this.ignoreBOM = options.ignoreBOM === true;
    }
    decode(input?: unknown, options: { stream?: boolean } = {}): string {
      const latin1 = this.#waiting + (input === undefined ? "" : toLatin1(viewOf(input), core));
      const goesOn = options.stream === true;
      const text =
        this.encoding === "utf-8"
          ? this.#readUtf8(latin1, goesOn)
          : this.#readOther(latin1, goesOn);
      if (!goesOn) {
        this.#waiting = "";
        this.#told = 0;
      }
      return text;
    }
    /** A sequence that is not whole yet waits for the rest of the stream. */
    #readUtf8(latin1: string, goesOn: boolean): string {
      const tail = goesOn ? incompleteTail(latin1) : 0;
      const whole = latin1.slice(0, latin1.length - tail);
      this.#waiting = latin1.slice(latin1.length - tail);
      // Only the first of a stream can be a mark of its order.
      const isMark = this.#told === 0;
      this.#told += whole.length;
      return this.#ask(whole, !isMark, false);
    }
    /** The host keeps nothing between two calls: it reads all so far, of which the rest is new. */
    #readOther(latin1: string, goesOn: boolean): string {
      const text = this.#ask(latin1, false, goesOn);
      const news = text.slice(this.#told);
      this.#waiting = latin1;
      this.#told = text.length;
      return news;
    }
    #ask(latin1: string, isBehind: boolean, goesOn: boolean): string {
      const { encoding, fatal } = this;
      const ignoreBOM = this.ignoreBOM || isBehind;
      return call("decode", ["text", latin1, { encoding, fatal, ignoreBOM, goesOn }]) as string;
    }
  }

  function incompleteTail(latin1: string): number {
    for (let back = 1; back <= Math.min(3, latin1.length); back += 1) {
      const code = latin1.charCodeAt(latin1.length - back);
      if (code >= 0xc0)
        return code >= 0xf0
          ? back < 4
            ? back
            : 0
          : code >= 0xe0
            ? back < 3
              ? back
              : 0
            : back < 2
              ? back
              : 0;
      if (code < 0x80) return 0;
    }
    return 0;
  }

  class DOMException extends Error {
    readonly code: number;
    constructor(message = "", name = "Error") {
      super(message);
      this.code = EXCEPTION_CODES[name] ?? 0;
      core.put(this, "name", name);
    }
  }

  class Event {
    readonly type: string;
    readonly bubbles: boolean;
    readonly cancelable: boolean;
    readonly composed: boolean;
    readonly timeStamp = Date.now() - startedAt;
    readonly isTrusted = false;
    readonly eventPhase = 0;
    target: unknown = null;
    currentTarget: unknown = null;
    defaultPrevented = false;
    #isStopped = false;
    constructor(type: string, options: EventOptions = {}) {
      this.type = String(type);
      this.bubbles = options?.bubbles === true;
      this.cancelable = options?.cancelable === true;
      this.composed = options?.composed === true;
    }
    preventDefault(): void {
      if (this.cancelable) this.defaultPrevented = true;
    }
    // Nothing lies around a target that an event could go on to.
    stopPropagation(): void {}
    stopImmediatePropagation(): void {
      this.#isStopped = true;
    }
    static isStopped(event: Event): boolean {
      return event.#isStopped;
    }
  }
  const { isStopped } = Event;
  Reflect.deleteProperty(Event, "isStopped");

  class CustomEvent extends Event {
    readonly detail: unknown;
    constructor(type: string, options: EventOptions & { detail?: unknown } = {}) {
      super(type, options);
      this.detail = options?.detail ?? null;
    }
  }

  type Listener = ((event: Event) => unknown) | { handleEvent(event: Event): unknown };

  class EventTarget {
    readonly #listeners = new Map<string, Map<Listener, boolean>>();
    addEventListener(
      type: string,
      listener: Listener,
      options?: { once?: boolean } | boolean,
    ): void {
      if (listener === null || listener === undefined) return;
      const listeners = this.#listeners.get(type) ?? new Map<Listener, boolean>();
      listeners.set(listener, typeof options === "object" && options.once === true);
      this.#listeners.set(type, listeners);
    }
    removeEventListener(type: string, listener: Listener): void {
      this.#listeners.get(type)?.delete(listener);
    }
    dispatchEvent(event: Event): boolean {
      if (!(event instanceof Event)) throw new TypeError("What is dispatched must be an Event");
      event.target = event.currentTarget = this;
      const handler = (this as unknown as Record<string, unknown>)[`on${event.type}`];
      if (typeof handler === "function") handler.call(this, event);
      for (const [listener, once] of [...(this.#listeners.get(event.type) ?? [])]) {
        if (isStopped(event)) break;
        if (once) this.removeEventListener(event.type, listener);
        if (typeof listener === "function") listener.call(this, event);
        else listener.handleEvent(event);
      }
      return !event.defaultPrevented;
    }
  }

  class AbortSignal extends EventTarget {
    aborted = false;
    reason: unknown = undefined;
    onabort: ((event: Event) => unknown) | null = null;
    throwIfAborted(): void {
      if (this.aborted) throw this.reason;
    }
    static abort(reason?: unknown): AbortSignal {
      const controller = new AbortController();
      controller.abort(reason);
      return controller.signal;
    }
    static timeout(milliseconds: number): AbortSignal {
      const controller = new AbortController();
      const reason = new DOMException("The operation was aborted due to timeout", "TimeoutError");
      setTimeout(() => controller.abort(reason), milliseconds);
      return controller.signal;
    }
    static any(signals: Iterable<AbortSignal>): AbortSignal {
      const controller = new AbortController();
      for (const signal of signals) {
        if (signal.aborted) controller.abort(signal.reason);
        else
          signal.addEventListener("abort", () => controller.abort(signal.reason), { once: true });
      }
      return controller.signal;
    }
  }

  class AbortController {
    readonly signal = new AbortSignal();
    abort(reason?: unknown): void {
      if (this.signal.aborted) return;
      this.signal.aborted = true;
      this.signal.reason = reason ?? new DOMException("This operation was aborted", "AbortError");
      this.signal.dispatchEvent(new Event("abort"));
    }
  }

  function base64(op: string, text: unknown): unknown {
    try {
      return call("base64", [op, String(text)]);
    } catch (error) {
      const message = (error as Error).message.replace(/^InvalidCharacterError: /, "");
      throw new DOMException(message, "InvalidCharacterError");
    }
  }

  function structuredClone(value: unknown): unknown {
    return copy(value, new Map());
  }

  function copy(value: unknown, seen: Map<object, unknown>): unknown {
    if (typeof value === "function" || typeof value === "symbol") {
      throw new DOMException(`${core.show(value, 1)} could not be cloned.`, "DataCloneError");
    }
    if (typeof value !== "object" || value === null) return value;
    const known = seen.get(value);
    if (known !== undefined) return known;
    if (value instanceof Date) return new Date(value.getTime());
    if (value instanceof RegExp) return new RegExp(value.source, value.flags);
    if (value instanceof ArrayBuffer) return value.slice(0);
    if (ArrayBuffer.isView(value)) {
      const { buffer, byteOffset, byteLength } = value;
      const bytes = buffer.slice(byteOffset, byteOffset + byteLength);
      const kind = value.constructor as new (bytes: unknown) => unknown;
      return new kind(bytes);
    }
    if (value instanceof Map) {
      const made = new Map();
      seen.set(value, made);
      for (const [key, item] of value) made.set(copy(key, seen), copy(item, seen));
      return made;
    }
    if (value instanceof Set) {
      const made = new Set();
      seen.set(value, made);
      for (const item of value) made.add(copy(item, seen));
      return made;
    }
    if (value instanceof Error) {
      const made = core.errorOf(`${value.name}: ${value.message}`);
      made.message = value.message;
      if (made.name !== value.name) made.name = value.name;
      seen.set(value, made);
      if (Object.hasOwn(value, "cause")) core.put(made, "cause", copy(value.cause, seen));
      return made;
    }
    if (value instanceof Promise || value instanceof WeakMap || value instanceof WeakSet) {
      throw new DOMException(`${core.show(value, 1)} could not be cloned.`, "DataCloneError");
    }
    const made: Record<string, unknown> = Array.isArray(value) ? ([] as never) : {};
    seen.set(value, made);
    if (Array.isArray(value)) made["length"] = value.length;
    for (const key of Object.keys(value)) {
      const item = copy((value as Record<string, unknown>)[key], seen);
      // What all objects have by that name may not be written over.
      if (key in made) core.put(made, key, undefined, true);
      made[key] = item;
    }
    return made;
  }

  return {
    TextEncoder,
    TextDecoder,
    DOMException,
    Event,
    CustomEvent,
    EventTarget,
    AbortSignal,
    AbortController,
    structuredClone,
    atob: (text: unknown) => base64("decode", text),
    btoa: (text: unknown) => base64("encode", text),
    performance: { now: () => Date.now() - startedAt, timeOrigin: startedAt },
  };
}
