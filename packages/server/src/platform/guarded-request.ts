import { lookup as resolveHost } from "node:dns";
import { type ClientRequest, type IncomingMessage, request as requestHttp } from "node:http";
import { request as requestHttps } from "node:https";
import { isIP, type LookupFunction } from "node:net";
import { isPublicAddress, networks, readAddress } from "./network-address.ts";
import { unpackAnswer } from "./unpack-answer.ts";

/** IPv6 addresses that lead to IPv4 ones, private ones among them. */
const isTranslated = networks(["::/96", "64:ff9b::/32", "2001::/32", "2002::/16"]);

export interface GuardedRequestOptions {
  readonly method?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string | Uint8Array;
  /** For everything, redirects included. */
  readonly timeoutMs: number;
  /** An answer with more, as it travels or unpacked, is not read to its end. */
  readonly maxBytes: number;
  /** Answers are handed over as they travelled, instead of unpacked (`content-encoding`). */
  readonly staysPacked?: boolean;
  /** Redirects that are followed. */
  readonly maxRedirects: number;
  /** As in `fetch`: redirects are followed unless given, handed over (`manual`), or refused (`error`). */
  readonly redirect?: "follow" | "manual" | "error";
  /** Whether an address that is not of the public internet may be asked; unless given, none may. */
  readonly isAllowed?: (target: { readonly url: URL; readonly address: string }) => boolean;
  /** Whether a URL, that of a redirect too, may be asked at all. */
  readonly isOpen?: (url: URL) => boolean;
}

export interface GuardedAnswer {
  readonly kind: "answered";
  readonly status: number;
  /** What the server calls the status. */
  readonly statusText: string;
  readonly headers: Readonly<Record<string, string | readonly string[] | undefined>>;
  readonly body: Buffer;
  /** Where the answer came from after redirects. */
  readonly url: string;
}

export type GuardedOutcome =
  | GuardedAnswer
  /**
   * The rules forbid it. `private`: the host is one of a network that is not open to the world;
   * `request`: its method or a header is none.
   */
  | {
      readonly kind: "refused";
      readonly reason: "private" | "url" | "request" | "redirects" | "size";
      readonly detail: string;
    }
  /** It could not be done: no such host, no connection, no answer in time. */
  | { readonly kind: "failed"; readonly detail: string };

/** Headers that say how a request travels: not for whoever asks to say. */
const OF_ITS_WAY =
  /^(?:host|connection|content-length|transfer-encoding|upgrade|expect|keep-alive|te|trailer|proxy-.*)$/;
/** Headers that a redirect to another host must not carry along. */
const SECRET_HEADERS = new Set(["authorization", "cookie", "private-token"]);
/** Headers that speak of a body, and go with it. */
const BODY_HEADERS = new Set(
  ["encoding", "language", "length", "location", "type"].map((name) => `content-${name}`),
);

/**
 * Asks an HTTP server on behalf of somebody who must not reach the inside of this network: the
 * connection is made to the very address that was checked, so that a name cannot mean another one
 * meanwhile, and each redirect is checked anew. Takes nothing from the environment: no proxy.
 */
export async function requestGuarded(
  target: string | URL,
  options: GuardedRequestOptions,
): Promise<GuardedOutcome> {
  const deadline = AbortSignal.timeout(options.timeoutMs);
  const { headers: sent = {}, method: first = "GET", body: given, ...rest } = options;
  let headers = withoutThose(sent, (name) => OF_ITS_WAY.test(name));
  let method = first;
  let body = given;
  let url: URL;
  let from: URL | undefined;
  try {
    url = new URL(target);
  } catch {
    return { kind: "refused", reason: "url", detail: "The URL cannot be read." };
  }
  for (let redirects = 0; ; redirects++) {
    const why = !/^https?:$/.test(url.protocol)
      ? "no address of http or https"
      : options.isOpen?.(url) === false
        ? "not granted"
        : undefined;
    if (why !== undefined) {
      const where = url.host === "" ? url.protocol : url.host;
      const detail = from
        ? `${shown(from)} redirected to ${where}, which is ${why}.`
        : `${where} is ${why}.`;
      return { kind: "refused", reason: "url", detail };
    }
    const answer = await ask(
      url,
      { ...rest, headers, method, ...(body !== undefined && { body }) },
      deadline,
    );
    if (answer.kind !== "answered") return answer;
    const location = [answer.headers.location].flat()[0];
    const isRedirect = [301, 302, 303, 307, 308].includes(answer.status);
    if (!isRedirect || location === undefined || options.redirect === "manual") return answer;
    if (options.redirect === "error") {
      const detail = `${shown(url)} answered an unexpected redirect.`;
      return { kind: "refused", reason: "redirects", detail };
    }
    if (redirects >= options.maxRedirects) {
      return { kind: "refused", reason: "redirects", detail: "Too many redirects." };
    }
    let next: URL;
    try {
      next = new URL(location, url);
    } catch {
      return { kind: "refused", reason: "url", detail: "The redirect leads to no URL." };
    }
    if (next.host !== url.host || next.protocol !== url.protocol) {
      headers = withoutThose(headers, (name) => SECRET_HEADERS.has(name));
    }
    if (answer.status === 303 || (answer.status < 303 && method === "POST")) {
      method = "GET";
      body = undefined;
      headers = withoutThose(headers, (name) => BODY_HEADERS.has(name));
    }
    from = url;
    url = next;
  }
}

/** @param isOne told the names in lower case */
function withoutThose(
  headers: Readonly<Record<string, string>>,
  isOne: (name: string) => boolean,
): Readonly<Record<string, string>> {
  return Object.fromEntries(Object.entries(headers).filter(([name]) => !isOne(name.toLowerCase())));
}

class PrivateAddress extends Error {}

function ask(
  url: URL,
  { isAllowed, headers, method, body, maxBytes, staysPacked = false }: GuardedRequestOptions,
  deadline: AbortSignal,
): Promise<GuardedOutcome> {
  const isReachable = (address: string): boolean => {
    const bare = readAddress(address) ?? address;
    return (
      (isPublicAddress(bare) && !isTranslated(bare)) || isAllowed?.({ url, address: bare }) === true
    );
  };
  const host = url.hostname.replace(/^\[|\]$/g, "");
  const refusal = {
    kind: "refused",
    reason: "private",
    detail: `${shown(url)} is not on the public internet.`,
  } as const;
  const tooLarge = {
    kind: "refused",
    reason: "size",
    detail: `${shown(url)} answered more than ${maxBytes} bytes.`,
  } as const;
  // Names are resolved by the connection itself, addresses are not.
  if (isIP(host) !== 0 && !isReachable(host)) return Promise.resolve(refusal);

  const lookup: LookupFunction = (hostname, lookupOptions, done) => {
    resolveHost(hostname, { ...lookupOptions, all: true }, (error, addresses) => {
      if (error) return done(error, []);
      const reachable = addresses.filter(({ address }) => isReachable(address));
      const [first] = reachable;
      if (!first) return done(new PrivateAddress(hostname), []);
      if (lookupOptions.all) return done(null, reachable);
      done(null, first.address, first.family);
    });
  };

  return new Promise((resolve) => {
    const fail = (error: Error) =>
      resolve(
        error instanceof PrivateAddress
          ? refusal
          : {
              kind: "failed",
              detail: deadline.aborted
                ? `${shown(url)} did not answer in time.`
                : `${shown(url)} cannot be reached (${codeOf(error)}).`,
            },
      );
    const read = (response: IncomingMessage) => {
      const chunks: Buffer[] = [];
      let bytes = 0;
      response.on("data", (chunk: Buffer) => {
        bytes += chunk.byteLength;
        if (bytes <= maxBytes) return void chunks.push(chunk);
        response.destroy();
        resolve(tooLarge);
      });
      response.on("error", fail);
      response.on("end", async () => {
        const { statusCode: status = 0, statusMessage: statusText = "", headers } = response;
        const encoding = staysPacked ? undefined : headers["content-encoding"];
        const unpacked = await unpackAnswer(Buffer.concat(chunks), encoding, maxBytes);
        if (unpacked === "too-large") return resolve(tooLarge);
        if (unpacked === "unreadable") {
          const detail = `${shown(url)}: its answer cannot be unpacked (${encoding}).`;
          return resolve({ kind: "failed", detail });
        }
        const answer = { status, statusText, headers, body: unpacked, url: url.href };
        resolve({ kind: "answered", ...answer });
      });
    };
    const send = url.protocol === "https:" ? requestHttps : requestHttp;
    let request: ClientRequest;
    try {
      request = send(
        url,
        {
          method: method ?? "GET",
          headers: {
            "user-agent": "hedgerow",
            "accept-encoding": "identity",
            ...headers,
            ...(body !== undefined && { "content-length": String(Buffer.byteLength(body)) }),
          },
          lookup,
          // A connection of its own: a kept one could lead to an address that nobody checked.
          agent: false,
          signal: deadline,
        },
        read,
      );
    } catch (error) {
      // Node.js names the header or the method, and tells no values.
      const why = error instanceof Error ? error.message : String(error);
      const detail = `${shown(url)} cannot be asked: ${why}.`;
      return resolve({ kind: "refused", reason: "request", detail });
    }
    request.on("error", fail);
    request.end(body);
  });
}

/** A URL as it may be told: without name, password and query, which may be secret. */
function shown(url: URL): string {
  return `${url.protocol}//${url.host}${url.pathname}`;
}

function codeOf(error: Error): string {
  const inner = error instanceof AggregateError ? error.errors[0] : error;
  return (inner as NodeJS.ErrnoException).code ?? inner.message;
}
