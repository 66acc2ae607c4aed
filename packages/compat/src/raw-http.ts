import { once } from "node:events";
import { type IncomingHttpHeaders, request } from "node:http";
import type { Wire } from "./management.ts";

export interface RawRequest {
  readonly method?: string;
  readonly path: string;
  /** Sent exactly as they are; no content type is added. */
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string | Uint8Array;
}

export interface RawAnswer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly text: string;
}

/** One request as bytes on the wire: no header is added but the length, no redirect is followed. */
export async function send(
  server: { readonly url: string },
  { method = "POST", path, headers = {}, body }: RawRequest,
): Promise<RawAnswer> {
  const bytes = body === undefined ? undefined : Buffer.from(body as Uint8Array | string);
  const outgoing = request(server.url + path, {
    method,
    headers: { ...headers, ...(bytes && { "content-length": String(bytes.length) }) },
  });
  // An answer may come before the body is through; the socket then breaks while writing.
  outgoing.on("error", () => {});
  outgoing.end(bytes);
  const [response] = (await Promise.race([
    once(outgoing, "response"),
    once(outgoing, "close").then(() => {
      throw new Error(`${method} ${path}: the connection closed without an answer`);
    }),
  ])) as [import("node:http").IncomingMessage];
  const chunks: Buffer[] = [];
  for await (const chunk of response) chunks.push(chunk as Buffer);
  return {
    status: response.statusCode ?? 0,
    headers: response.headers,
    text: Buffer.concat(chunks).toString("utf8"),
  };
}

/** Posts JSON as any HTTP client does, and reads the answer as an object. */
export async function postJson(
  server: { readonly url: string },
  path: string,
  body: unknown,
  headers: Readonly<Record<string, string>> = {},
): Promise<{
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: Wire;
}> {
  const answer = await send(server, {
    path,
    headers: { "content-type": "application/json", ...headers },
    body: JSON.stringify(body),
  });
  return {
    status: answer.status,
    headers: answer.headers,
    body: (answer.text === "" ? {} : JSON.parse(answer.text)) as Wire,
  };
}
