import { type Content, CrossedBytes, makeBodies } from "./bodies.ts";
import type { GuestCore } from "./part.ts";
import { ReadableStream } from "./streams.ts";

type Pair = [string, string];
interface HttpAnswer {
  status: number;
  statusText: string;
  url: string;
  redirected: boolean;
  headers: Pair[];
  latin1: string;
}
interface Signal {
  readonly aborted: boolean;
  readonly reason: unknown;
  throwIfAborted(): void;
  addEventListener(name: string, listener: () => void, options: { once: boolean }): void;
  removeEventListener(name: string, listener: () => void): void;
}

/** What has no body, whatever comes. */
const EMPTY_STATUSES = new Set([101, 204, 205, 304]);

/** By which objects say themselves how they are shown. */
const SHOWN = Symbol.for("nodejs.util.inspect.custom");

/** `fetch` and what belongs to it, by the host's network. */
export function makePart(core: GuestCore): Record<string, unknown> {
  const { URL } = core.part("url") as { URL: new (input: unknown) => { href: string } };
  const { DOMException, AbortController } = core.part("web") as {
    DOMException: unknown;
    AbortController: new () => { signal: Signal };
  };
  const { Blob, File, FormData, Body, contentOf, take, copyOf, isEmpty } = makeBodies(core);

  class Headers {
    readonly #values = new Map<string, string[]>();
    constructor(init?: unknown) {
      if (init === undefined || init === null) return;
      if (typeof init !== "object") {
        throw new TypeError("Headers are made of an object or of pairs");
      }
      const pairs = Symbol.iterator in init ? [...(init as Iterable<Pair>)] : Object.entries(init);
      for (const pair of pairs) {
        const [name, value] = pair;
        if (pair.length !== 2) throw new TypeError("A header is a pair of name and value");
        for (const item of Array.isArray(value) ? value : [value]) this.append(name, item);
      }
    }
    append(name: unknown, value: unknown): void {
      const key = headerName(name);
      this.#values.set(key, [...(this.#values.get(key) ?? []), headerValue(value)]);
    }
    set(name: unknown, value: unknown): void {
      this.#values.set(headerName(name), [headerValue(value)]);
    }
    get(name: unknown): string | null {
      return this.#values.get(headerName(name))?.join(", ") ?? null;
    }
    getSetCookie(): string[] {
      return [...(this.#values.get("set-cookie") ?? [])];
    }
    has(name: unknown): boolean {
      return this.#values.has(headerName(name));
    }
    delete(name: unknown): void {
      this.#values.delete(headerName(name));
    }
    forEach(
      callback: (value: string, name: string, headers: unknown) => void,
      self?: unknown,
    ): void {
      for (const [name, value] of this) callback.call(self, value, name, this);
    }
    raw(): Record<string, string[]> {
      return Object.fromEntries(this.#values);
    }
    get [Symbol.toStringTag](): string {
      return "Headers";
    }
    [SHOWN](): string {
      const joined = [...this.#values].map(([name, values]) => [name, values.join(", ")]);
      return `Headers ${core.show(Object.fromEntries(joined))}`;
    }
    *entries(): Generator<Pair> {
      for (const name of [...this.#values.keys()].sort()) {
        // Cookies hold commas of their own.
        if (name !== "set-cookie") yield [name, this.get(name) ?? ""];
        else for (const cookie of this.getSetCookie()) yield [name, cookie];
      }
    }
    *keys(): Generator<string> {
      for (const [name] of this.entries()) yield name;
    }
    *values(): Generator<string> {
      for (const [, value] of this.entries()) yield value;
    }
    [Symbol.iterator](): Generator<Pair> {
      return this.entries();
    }
  }

  class Message extends Body {
    readonly headers: Headers;
    constructor(content: Content, headers: Headers) {
      super(content, () => headers.get("content-type"));
      this.headers = headers;
      if (content.type !== null && !headers.has("content-type")) {
        headers.set("content-type", content.type);
      }
    }
  }

  class Request extends Message {
    readonly url: string;
    readonly method: string;
    readonly redirect: string;
    readonly signal: Signal;
    constructor(input: unknown, init: Record<string, unknown> | null = {}) {
      const given = init ?? {};
      const from = input instanceof Request ? input : undefined;
      const method = String(given["method"] ?? from?.method ?? "GET").toUpperCase();
      const own = given["body"];
      const hasOwn = own !== undefined && own !== null;
      if ((hasOwn || (from && !isEmpty(from))) && (method === "GET" || method === "HEAD")) {
        throw new TypeError("Request with GET/HEAD method cannot have body");
      }
      const content = contentOf(hasOwn || from === undefined ? own : copyOf(from));
      super(content, new Headers(given["headers"] ?? from?.headers));
      this.url = from?.url ?? addressOf(input);
      this.method = method;
      this.redirect = String(given["redirect"] ?? from?.redirect ?? "follow");
      const signal = (given["signal"] ?? from?.signal) as Signal | undefined;
      this.signal = signal ?? new AbortController().signal;
    }
    clone(): Request {
      return new Request(this);
    }
    get [Symbol.toStringTag](): string {
      return "Request";
    }
  }

  class Response extends Message {
    readonly status: number;
    readonly statusText: string;
    url = "";
    redirected = false;
    type = "default";
    constructor(
      body?: unknown,
      init: { status?: number; statusText?: string; headers?: unknown } | null = {},
    ) {
      const status = Number(init?.status ?? 200);
      if (!(body instanceof CrossedBytes)) {
        if (!(status >= 200 && status <= 599)) {
          throw new RangeError(`A status has to be between 200 and 599, not ${init?.status}`);
        }
        if (EMPTY_STATUSES.has(status) && body !== undefined && body !== null) {
          throw new TypeError(`An answer of status ${status} has no body`);
        }
      }
      super(contentOf(body), new Headers(init?.headers));
      this.status = status;
      this.statusText = String(init?.statusText ?? "");
    }
    get ok(): boolean {
      return this.status >= 200 && this.status < 300;
    }
    clone(): Response {
      return answerOf(copyOf(this), this);
    }
    get [Symbol.toStringTag](): string {
      return "Response";
    }
    static json(value: unknown, init: { status?: number; headers?: unknown } = {}): Response {
      const headers = new Headers(init.headers);
      if (!headers.has("content-type")) headers.set("content-type", "application/json");
      const text = JSON.stringify(value);
      if (text === undefined) throw new TypeError("The value has no JSON");
      return new Response(text, { ...init, headers });
    }
    static redirect(target: unknown, status = 302): Response {
      return new Response(null, { status, headers: { location: addressOf(target) } });
    }
    static error(): Response {
      const nothing = { status: 0, statusText: "", headers: {}, url: "", redirected: false };
      return answerOf(new CrossedBytes(null), { ...nothing, type: "error" });
    }
  }

  function answerOf(
    bytes: CrossedBytes,
    from: Pick<Response, "status" | "statusText" | "url" | "redirected" | "type"> & {
      headers: unknown;
    },
  ): Response {
    const answer = new Response(bytes, from);
    answer.url = from.url;
    answer.redirected = from.redirected;
    answer.type = from.type;
    return answer;
  }

  function addressOf(input: unknown): string {
    try {
      return new URL(input).href;
    } catch (cause) {
      throw new TypeError(`Failed to parse URL from ${String(input)}`, { cause });
    }
  }

  /** Of that name in node-fetch, and a TypeError by the standard. */
  class FetchError extends TypeError {
    readonly type: string;
    constructor(message?: string, type = "system") {
      super(message);
      this.type = type;
      core.put(this, "name", "FetchError");
    }
  }

  async function fetch(input: unknown, init?: Record<string, unknown>): Promise<Response> {
    const request = new Request(input instanceof Request ? input : String(input), init);
    request.signal.throwIfAborted();
    const { url, method, redirect, headers } = request;
    const sent = new Headers(headers);
    if (!sent.has("accept")) sent.set("accept", "*/*");
    const latin1 = await take(request);
    const asked = core.ask("fetch", { url, method, headers: [...sent], latin1, redirect });
    const answered = asked.catch((error: unknown) => {
      const { message } = error as Error;
      throw message.startsWith("fetch failed") ? new FetchError(message) : error;
    });
    const answer = (await orGivenUp(answered, request, init?.["timeout"])) as HttpAnswer;
    const isEmptied = EMPTY_STATUSES.has(answer.status) || method === "HEAD";
    const bytes = new CrossedBytes(isEmptied ? null : answer.latin1);
    return answerOf(bytes, { ...answer, type: "basic" });
  }

  /** What is asked for, unless it is aborted or late: node-fetch bounds the time by an option. */
  function orGivenUp<T>(asked: Promise<T>, { signal, url }: Request, timeout: unknown): Promise<T> {
    return new Promise((resolve, reject) => {
      const abort = () => reject(signal.reason);
      signal.addEventListener("abort", abort, { once: true });
      const late = () => reject(new FetchError(`network timeout at: ${url}`, "request-timeout"));
      const milliseconds = Number(timeout ?? 0);
      const timer = milliseconds > 0 ? setTimeout(late, milliseconds) : undefined;
      const end = () => {
        clearTimeout(timer);
        signal.removeEventListener("abort", abort);
      };
      asked.finally(end).then(resolve, reject);
    });
  }

  const nodeFetch = Object.assign(
    (input: unknown, init?: Record<string, unknown>) =>
      (globalThis as unknown as { fetch: typeof fetch }).fetch(input, init),
    { Headers, Request, Response, AbortError: DOMException, FetchError, Blob, File, FormData },
  );
  Object.assign(nodeFetch, { default: nodeFetch, fetch: nodeFetch, __esModule: true });

  return { Headers, Request, Response, Blob, File, FormData, ReadableStream, fetch, nodeFetch };
}

function headerName(name: unknown): string {
  const text = String(name).toLowerCase();
  if (!/^[!#$%&'*+.^_`|~\w-]+$/.test(text)) throw new TypeError(`Invalid header name: ${text}`);
  return text;
}

function headerValue(value: unknown): string {
  const text = String(value).replace(/^[\t\n\r ]+|[\t\n\r ]+$/g, "");
  if (/[\0\r\n]|[^\0-\xff]/.test(text)) throw new TypeError(`Invalid header value: ${text}`);
  return text;
}
