import { fromLatin1, type GuestCore, toLatin1, utf8, viewOf } from "./part.ts";

type Pair = [string, string];
interface UrlFields {
  href: string;
  origin: string;
  protocol: string;
  username: string;
  password: string;
  host: string;
  hostname: string;
  port: string;
  pathname: string;
  search: string;
  hash: string;
}
interface HttpAnswer {
  status: number;
  statusText: string;
  url: string;
  redirected: boolean;
  headers: Pair[];
  latin1: string;
}

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

/** The web's interfaces that QuickJS lacks. Rules of URLs and encodings are the host's. */
export function makePart(core: GuestCore): Record<string, unknown> {
  const { call, ask } = core;

  class URLSearchParams {
    #pairs: Pair[] = [];
    #changed: (() => void) | undefined;

    constructor(init?: unknown) {
      if (init === undefined || init === null) return;
      if (typeof init === "object") {
        const pairs =
          Symbol.iterator in init ? [...(init as Iterable<unknown>)] : Object.entries(init);
        this.#pairs = pairs.map((pair) => {
          const both = [...(pair as Iterable<unknown>)];
          if (both.length !== 2) {
            throw new TypeError("Each query pair must be an iterable [name, value] tuple");
          }
          const [name, value] = both.map((item) => String(item).toWellFormed()) as Pair;
          return [name, value];
        });
      } else this.#pairs = call("url", ["query", String(init).replace(/^\?/, "")]) as Pair[];
    }

    static watch(params: URLSearchParams, changed: () => void): void {
      params.#changed = changed;
    }

    static reset(params: URLSearchParams, search: string): void {
      params.#pairs = call("url", ["query", search.replace(/^\?/, "")]) as Pair[];
    }

    get size(): number {
      return this.#pairs.length;
    }
    append(name: unknown, value: unknown): void {
      this.#pairs.push([String(name).toWellFormed(), String(value).toWellFormed()]);
      this.#changed?.();
    }
    delete(name: unknown, value?: unknown): void {
      this.#pairs = this.#pairs.filter(
        ([own, held]) => own !== String(name) || (value !== undefined && held !== String(value)),
      );
      this.#changed?.();
    }
    get(name: unknown): string | null {
      return this.#pairs.find(([own]) => own === String(name))?.[1] ?? null;
    }
    getAll(name: unknown): string[] {
      return this.#pairs.filter(([own]) => own === String(name)).map(([, value]) => value);
    }
    has(name: unknown, value?: unknown): boolean {
      return this.#pairs.some(
        ([own, held]) => own === String(name) && (value === undefined || held === String(value)),
      );
    }
    set(name: unknown, value: unknown): void {
      const key = String(name).toWellFormed();
      const first = this.#pairs.findIndex(([own]) => own === key);
      if (first === -1) this.#pairs.push([key, String(value).toWellFormed()]);
      else {
        this.#pairs = this.#pairs.filter(([own], index) => own !== key || index === first);
        this.#pairs[first] = [key, String(value).toWellFormed()];
      }
      this.#changed?.();
    }
    sort(): void {
      this.#pairs.sort(([left], [right]) => (left < right ? -1 : left > right ? 1 : 0));
      this.#changed?.();
    }
    forEach(
      callback: (value: string, name: string, params: unknown) => void,
      self?: unknown,
    ): void {
      for (const [name, value] of this) callback.call(self, value, name, this);
    }
    *entries(): Generator<Pair> {
      for (let index = 0; index < this.#pairs.length; index += 1) {
        yield [...(this.#pairs[index] as Pair)];
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
    toString(): string {
      return call("url", ["format", this.#pairs]) as string;
    }
    get [Symbol.toStringTag](): string {
      return "URLSearchParams";
    }
  }
  const { watch, reset } = URLSearchParams;
  Reflect.deleteProperty(URLSearchParams, "watch");
  Reflect.deleteProperty(URLSearchParams, "reset");

  class URL {
    #fields: UrlFields;
    #params: URLSearchParams | undefined;

    constructor(input: unknown, base?: unknown) {
      this.#fields = parseUrl(input, base);
    }
    static canParse(input: unknown, base?: unknown): boolean {
      return URL.parse(input, base) !== null;
    }
    static parse(input: unknown, base?: unknown): URL | null {
      try {
        return new URL(input, base);
      } catch {
        return null;
      }
    }

    #set(part: string, value: unknown): void {
      this.#fields = call("url", ["set", this.#fields.href, part, String(value)]) as UrlFields;
      if (this.#params !== undefined && (part === "search" || part === "href")) {
        reset(this.#params, this.#fields.search);
      }
    }
    get href(): string {
      return this.#fields.href;
    }
    set href(value: unknown) {
      this.#fields = parseUrl(value);
      if (this.#params !== undefined) reset(this.#params, this.#fields.search);
    }
    get origin(): string {
      return this.#fields.origin;
    }
    get protocol(): string {
      return this.#fields.protocol;
    }
    set protocol(value: unknown) {
      this.#set("protocol", value);
    }
    get username(): string {
      return this.#fields.username;
    }
    set username(value: unknown) {
      this.#set("username", value);
    }
    get password(): string {
      return this.#fields.password;
    }
    set password(value: unknown) {
      this.#set("password", value);
    }
    get host(): string {
      return this.#fields.host;
    }
    set host(value: unknown) {
      this.#set("host", value);
    }
    get hostname(): string {
      return this.#fields.hostname;
    }
    set hostname(value: unknown) {
      this.#set("hostname", value);
    }
    get port(): string {
      return this.#fields.port;
    }
    set port(value: unknown) {
      this.#set("port", value);
    }
    get pathname(): string {
      return this.#fields.pathname;
    }
    set pathname(value: unknown) {
      this.#set("pathname", value);
    }
    get search(): string {
      return this.#fields.search;
    }
    set search(value: unknown) {
      this.#set("search", value);
    }
    get hash(): string {
      return this.#fields.hash;
    }
    set hash(value: unknown) {
      this.#set("hash", value);
    }
    get searchParams(): URLSearchParams {
      if (this.#params === undefined) {
        const params = new URLSearchParams(this.#fields.search);
        watch(params, () => {
          const search = params.toString();
          this.#fields = call("url", ["set", this.#fields.href, "search", search]) as UrlFields;
        });
        this.#params = params;
      }
      return this.#params;
    }
    toString(): string {
      return this.#fields.href;
    }
    toJSON(): string {
      return this.#fields.href;
    }
    get [Symbol.toStringTag](): string {
      return "URL";
    }
  }

  function parseUrl(input: unknown, base?: unknown): UrlFields {
    const given = base === undefined ? null : String(base);
    const fields = call("url", ["parse", String(input), given]) as UrlFields | null;
    if (fields !== null) return fields;
    const error = new TypeError("Invalid URL") as TypeError & { code: string; input: string };
    error.code = "ERR_INVALID_URL";
    error.input = String(input);
    throw error;
  }

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
    #waiting = "";

    constructor(label: unknown = "utf-8", options: { fatal?: boolean; ignoreBOM?: boolean } = {}) {
      this.encoding = call("decode", ["label", String(label)]) as string;
      this.fatal = options.fatal === true;
      this.ignoreBOM = options.ignoreBOM === true;
    }
    decode(input?: unknown, options: { stream?: boolean } = {}): string {
      const latin1 = this.#waiting + (input === undefined ? "" : toLatin1(viewOf(input), core));
      const { encoding, fatal, ignoreBOM } = this;
      // A sequence that is not whole yet waits for the rest of the stream.
      const tail = options.stream === true && encoding === "utf-8" ? incompleteTail(latin1) : 0;
      this.#waiting = latin1.slice(latin1.length - tail);
      const whole = latin1.slice(0, latin1.length - tail);
      return call("decode", ["text", whole, { encoding, fatal, ignoreBOM }]) as string;
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
    target: unknown = null;
    defaultPrevented = false;
    constructor(type: string) {
      this.type = String(type);
    }
    preventDefault(): void {
      this.defaultPrevented = true;
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
      const listeners = this.#listeners.get(type) ?? new Map<Listener, boolean>();
      listeners.set(listener, typeof options === "object" && options.once === true);
      this.#listeners.set(type, listeners);
    }
    removeEventListener(type: string, listener: Listener): void {
      this.#listeners.get(type)?.delete(listener);
    }
    dispatchEvent(event: Event): boolean {
      event.target = this;
      const handler = (this as unknown as Record<string, unknown>)[`on${event.type}`];
      if (typeof handler === "function") handler.call(this, event);
      for (const [listener, once] of [...(this.#listeners.get(event.type) ?? [])]) {
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

  class Headers {
    readonly #values = new Map<string, string[]>();
    constructor(init?: unknown) {
      if (init === undefined || init === null) return;
      const pairs =
        Symbol.iterator in (init as object) ? [...(init as Iterable<Pair>)] : Object.entries(init);
      for (const [name, value] of pairs) {
        for (const item of Array.isArray(value) ? value : [value]) this.append(name, item);
      }
    }
    append(name: unknown, value: unknown): void {
      const key = headerName(name);
      this.#values.set(key, [...(this.#values.get(key) ?? []), String(value).trim()]);
    }
    set(name: unknown, value: unknown): void {
      this.#values.set(headerName(name), [String(value).trim()]);
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
    forEach(callback: (value: string, name: string, headers: unknown) => void): void {
      for (const [name, value] of this) callback(value, name, this);
    }
    raw(): Record<string, string[]> {
      return Object.fromEntries(this.#values);
    }
    get [Symbol.toStringTag](): string {
      return "Headers";
    }
    *entries(): Generator<Pair> {
      for (const name of [...this.#values.keys()].sort()) yield [name, this.get(name) ?? ""];
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

  function headerName(name: unknown): string {
    const text = String(name).toLowerCase();
    if (!/^[!#$%&'*+.^_`|~\w-]+$/.test(text)) throw new TypeError(`Invalid header name: ${text}`);
    return text;
  }

  class Blob {
    readonly #latin1: string;
    readonly type: string;
    constructor(parts: unknown[] = [], options: { type?: string } = {}) {
      this.#latin1 = parts.map((part) => bodyOf(part).latin1).join("");
      this.type = String(options.type ?? "");
    }
    get size(): number {
      return this.#latin1.length;
    }
    async text(): Promise<string> {
      return decodeUtf8(this.#latin1);
    }
    async arrayBuffer(): Promise<ArrayBuffer> {
      return fromLatin1(this.#latin1).buffer;
    }
    static bytes(blob: Blob): string {
      return blob.#latin1;
    }
  }
  const bytesOfBlob = Blob.bytes;
  Reflect.deleteProperty(Blob, "bytes");

  /** Fields of text, which are kept as those of a query are. */
  class FormData {
    readonly #fields = new URLSearchParams();
    append(name: unknown, value: unknown): void {
      refuseFile(value);
      this.#fields.append(name, value);
    }
    set(name: unknown, value: unknown): void {
      refuseFile(value);
      this.#fields.set(name, value);
    }
    delete(name: unknown): void {
      this.#fields.delete(name);
    }
    get(name: unknown): string | null {
      return this.#fields.get(name);
    }
    getAll(name: unknown): string[] {
      return this.#fields.getAll(name);
    }
    has(name: unknown): boolean {
      return this.#fields.has(name);
    }
    forEach(callback: (value: string, name: string, form: unknown) => void): void {
      for (const [name, value] of this) callback(value, name, this);
    }
    entries(): Generator<Pair> {
      return this.#fields.entries();
    }
    keys(): Generator<string> {
      return this.#fields.keys();
    }
    values(): Generator<string> {
      return this.#fields.values();
    }
    [Symbol.iterator](): Generator<Pair> {
      return this.entries();
    }
    get [Symbol.toStringTag](): string {
      return "FormData";
    }
  }

  function refuseFile(value: unknown): void {
    if (value instanceof Blob) throw new TypeError("FormData with files is not available here");
  }

  /** Bytes as they crossed the border: taken over as they are, since loops over them take long. */
  class CrossedBytes {
    readonly latin1: string;
    constructor(latin1: string) {
      this.latin1 = latin1;
    }
  }

  function decodeUtf8(latin1: string): string {
    const options = { encoding: "utf-8", fatal: false, ignoreBOM: false };
    return call("decode", ["text", latin1, options]) as string;
  }

  /** A body as the bytes that are sent, and the type it has by itself. */
  function bodyOf(body: unknown): { latin1: string; type: string | null } {
    if (body === undefined || body === null) return { latin1: "", type: null };
    if (body instanceof CrossedBytes) return { latin1: body.latin1, type: null };
    if (body instanceof URLSearchParams) {
      return { latin1: body.toString(), type: "application/x-www-form-urlencoded;charset=UTF-8" };
    }
    if (body instanceof Blob) return { latin1: bytesOfBlob(body), type: body.type || null };
    if (body instanceof FormData) {
      const boundary = `----form${Math.random().toString(36).slice(2)}`;
      const fields = [...body].map(
        ([name, value]) =>
          `--${boundary}\r\nContent-Disposition: form-data; name="${name.replace(/"/g, "%22")}"\r\n\r\n${value}\r\n`,
      );
      const latin1 = utf8(`${fields.join("")}--${boundary}--\r\n`);
      return { latin1, type: `multipart/form-data; boundary=${boundary}` };
    }
    if (body instanceof ArrayBuffer || ArrayBuffer.isView(body)) {
      return { latin1: toLatin1(viewOf(body), core), type: null };
    }
    return { latin1: utf8(String(body)), type: "text/plain;charset=UTF-8" };
  }

  class Body {
    readonly #latin1: string;
    bodyUsed = false;
    constructor(latin1: string) {
      this.#latin1 = latin1;
    }
    get body(): null {
      return null;
    }
    #take(): string {
      if (this.bodyUsed) throw new TypeError("Body is unusable: Body has already been read");
      this.bodyUsed = true;
      return this.#latin1;
    }
    async text(): Promise<string> {
      return decodeUtf8(this.#take());
    }
    async json(): Promise<unknown> {
      return JSON.parse(await this.text());
    }
    async arrayBuffer(): Promise<ArrayBuffer> {
      return fromLatin1(this.#take()).buffer;
    }
    async bytes(): Promise<Uint8Array> {
      return fromLatin1(this.#take());
    }
    async blob(): Promise<Blob> {
      return new Blob([fromLatin1(this.#take())]);
    }
    async buffer(): Promise<unknown> {
      const { Buffer } = core.part("buffer") as { Buffer: { from(bytes: Uint8Array): unknown } };
      return Buffer.from(fromLatin1(this.#take()));
    }
    static peek(body: Body): string {
      return body.#latin1;
    }
  }
  const peek = Body.peek;
  Reflect.deleteProperty(Body, "peek");

  class Request extends Body {
    readonly url: string;
    readonly method: string;
    readonly headers: Headers;
    readonly redirect: string;
    readonly signal: AbortSignal | undefined;
    constructor(input: unknown, init: Record<string, unknown> = {}) {
      const from = input instanceof Request ? input : undefined;
      const given = init["body"] === undefined ? undefined : bodyOf(init["body"]);
      super(given?.latin1 ?? (from === undefined ? "" : peek(from)));
      this.url = from?.url ?? new URL(input).href;
      this.method = String(init["method"] ?? from?.method ?? "GET").toUpperCase();
      this.headers = new Headers(init["headers"] ?? from?.headers);
      if (given?.type && !this.headers.has("content-type"))
        this.headers.set("content-type", given.type);
      this.redirect = String(init["redirect"] ?? from?.redirect ?? "follow");
      this.signal = (init["signal"] ?? from?.signal ?? undefined) as AbortSignal | undefined;
    }
  }

  class Response extends Body {
    readonly status: number;
    readonly statusText: string;
    readonly headers: Headers;
    url = "";
    redirected = false;
    readonly type = "basic";
    constructor(
      body?: unknown,
      init: { status?: number; statusText?: string; headers?: unknown } = {},
    ) {
      const { latin1, type } = bodyOf(body);
      super(latin1);
      this.status = Number(init.status ?? 200);
      this.statusText = String(init.statusText ?? "");
      this.headers = new Headers(init.headers);
      if (type !== null && !this.headers.has("content-type"))
        this.headers.set("content-type", type);
    }
    get ok(): boolean {
      return this.status >= 200 && this.status < 300;
    }
    clone(): Response {
      const copy = new Response(new CrossedBytes(peek(this)), this);
      copy.url = this.url;
      copy.redirected = this.redirected;
      return copy;
    }
    static json(value: unknown, init: { status?: number; headers?: unknown } = {}): Response {
      const headers = new Headers(init.headers);
      if (!headers.has("content-type")) headers.set("content-type", "application/json");
      return new Response(JSON.stringify(value), { ...init, headers });
    }
  }

  /** Of that name in node-fetch, and a TypeError by the standard. */
  class FetchError extends TypeError {
    readonly type = "system";
    constructor(message?: string) {
      super(message);
      core.put(this, "name", "FetchError");
    }
  }

  async function fetch(input: unknown, init?: Record<string, unknown>): Promise<Response> {
    const request = new Request(input instanceof Request ? input : String(input), init ?? {});
    const { signal } = request;
    signal?.throwIfAborted();
    const asked = ask("fetch", {
      url: request.url,
      method: request.method,
      headers: [...request.headers],
      latin1: peek(request),
      redirect: request.redirect,
    });
    const answered = asked.catch((error: unknown) => {
      const { message } = error as Error;
      throw message.startsWith("fetch failed") ? new FetchError(message) : error;
    });
    const answer = (await (signal === undefined
      ? answered
      : orAborted(answered, signal))) as HttpAnswer;
    const response = new Response(new CrossedBytes(answer.latin1), answer);
    response.url = answer.url;
    response.redirected = answer.redirected;
    return response;
  }

  function orAborted<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
    return new Promise((resolve, reject) => {
      signal.addEventListener("abort", () => reject(signal.reason), { once: true });
      promise.then(resolve, reject);
    });
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

  const startedAt = Date.now();
  const nodeFetch = Object.assign(
    (input: unknown, init?: Record<string, unknown>) =>
      (globalThis as unknown as { fetch: typeof fetch }).fetch(input, init),
    { Headers, Request, Response, AbortError: DOMException, FetchError },
  );
  Object.assign(nodeFetch, { default: nodeFetch, fetch: nodeFetch, __esModule: true });

  const queryString = {
    parse: (text: unknown, separator?: unknown, equals?: unknown) =>
      call("url", ["parseQuery", String(text), separator ?? null, equals ?? null]),
    stringify: (values: unknown, separator?: unknown, equals?: unknown) =>
      call("url", ["formatQuery", values ?? {}, separator ?? null, equals ?? null]),
    escape: (text: unknown) => encodeURIComponent(String(text)),
    unescape: (text: unknown) => decodeURIComponent(String(text)),
  };
  const nodeUrl = {
    URL,
    URLSearchParams,
    parse: (text: unknown, withQuery?: boolean) =>
      call("url", ["legacyParse", String(text), withQuery === true]),
    format: (value: unknown) =>
      value instanceof URL ? value.href : call("url", ["legacyFormat", value]),
    resolve: (from: unknown, to: unknown) =>
      call("url", ["legacyResolve", String(from), String(to)]),
    domainToASCII: (domain: unknown) => call("url", ["toAscii", String(domain)]),
    domainToUnicode: (domain: unknown) => call("url", ["toUnicode", String(domain)]),
  };
  return {
    URL,
    URLSearchParams,
    TextEncoder,
    TextDecoder,
    DOMException,
    Event,
    EventTarget,
    AbortSignal,
    AbortController,
    Headers,
    Request,
    Response,
    Blob,
    FormData,
    fetch,
    structuredClone,
    atob: (text: unknown) => base64("decode", text),
    btoa: (text: unknown) => base64("encode", text),
    performance: { now: () => Date.now() - startedAt, timeOrigin: startedAt },
    nodeFetch,
    nodeUrl,
    queryString,
  };
}
