import type { GuestCore } from "./part.ts";

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
/** By which objects say themselves how they are shown. */
const SHOWN = Symbol.for("nodejs.util.inspect.custom");

/** The web's addresses and those of Node.js, by the host's rules. */
export function makePart({ call, show }: GuestCore): Record<string, unknown> {
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
    [SHOWN](): string {
      const shown = this.#pairs.map((pair) => pair.map((text) => show(text, 1)).join(" => "));
      return `URLSearchParams {${shown.length === 0 ? "" : ` ${shown.join(", ")} `}}`;
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
    [SHOWN](): string {
      const { href, origin, protocol, username, password, host, hostname, port } = this;
      const { pathname, search, searchParams, hash } = this;
      const first = { href, origin, protocol, username, password, host, hostname, port };
      return `URL ${show({ ...first, pathname, search, searchParams, hash })}`;
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

  const parseQuery = (text: unknown, separator?: unknown, equals?: unknown) =>
    call("url", ["parseQuery", String(text), separator ?? null, equals ?? null]);
  const formatQuery = (values: unknown, separator?: unknown, equals?: unknown) =>
    call("url", ["formatQuery", plainQuery(values), separator ?? null, equals ?? null]);
  const queryString = {
    parse: parseQuery,
    decode: parseQuery,
    stringify: formatQuery,
    encode: formatQuery,
    escape: (text: unknown) => encodeURIComponent(String(text)),
    unescape: (text: unknown) => call("url", ["unescape", String(text)]),
  };
  const nodeUrl = {
    URL,
    URLSearchParams,
    parse: (text: unknown, withQuery?: boolean, withHost?: boolean) =>
      call("url", ["legacyParse", textOf(text), withQuery === true, withHost === true]),
    format: (value: unknown, options?: unknown) =>
      value instanceof URL
        ? call("url", ["formatUrl", value.href, options ?? {}])
        : call("url", ["legacyFormat", value]),
    resolve: (from: unknown, to: unknown) =>
      call("url", ["legacyResolve", textOf(from), textOf(to)]),
    fileURLToPath: (value: unknown) => {
      const url = value instanceof URL ? value : new URL(String(value));
      if (url.protocol !== "file:") throw new TypeError("The URL must be of scheme file");
      return decodeURIComponent(url.pathname);
    },
    pathToFileURL: (path: unknown) =>
      new URL(encodeURI(String(path)).replace(/[?#]/g, encodeURIComponent), "file:///"),
    domainToASCII: (domain: unknown) => call("url", ["toAscii", String(domain)]),
    domainToUnicode: (domain: unknown) => call("url", ["toUnicode", String(domain)]),
  };
  return { URL, URLSearchParams, nodeUrl, queryString };
}

/** What Node.js takes for an address of old. */
function textOf(url: unknown): string {
  if (typeof url === "string") return url;
  const error = new TypeError('The "url" argument must be of type string');
  throw Object.assign(error, { code: "ERR_INVALID_ARG_TYPE" });
}

/** The values of a query as texts: what is neither text, number nor yes or no is empty. */
function plainQuery(values: unknown): Record<string, string | string[]> {
  if (typeof values !== "object" || values === null) return {};
  const plain = (value: unknown): string => {
    const isWritten = ["string", "bigint", "boolean"].includes(typeof value);
    return isWritten || Number.isFinite(value) ? String(value) : "";
  };
  return Object.fromEntries(
    Object.entries(values).map(([name, value]) => [
      name,
      Array.isArray(value) ? value.map(plain) : plain(value),
    ]),
  );
}
