import { gzipSync } from "node:zlib";
import lzString from "lz-string";
import type { RawRequest } from "./raw-http.ts";

/** A way in which some SDK, beacon, proxy or hand puts JSON into a request. */
export interface Encoding {
  readonly name: string;
  /** The parts of a request to `path` that carries the value. */
  encode(path: string, value: unknown): RawRequest;
}

const FORM = "application/x-www-form-urlencoded";
const json = JSON.stringify;
const base64 = (text: string) => Buffer.from(text).toString("base64");
const lz64 = (text: string) => lzString.compressToBase64(text);
const form = (fields: Readonly<Record<string, string>>) => new URLSearchParams(fields).toString();

function withQuery(path: string, query: string): string {
  return `${path}${path.includes("?") ? "&" : "?"}${query}`;
}

function encoding(
  name: string,
  { type, query, contentEncoding }: { type?: string; query?: string; contentEncoding?: string },
  body: (text: string) => string | Uint8Array,
): Encoding {
  return {
    name,
    encode: (path, value) => ({
      path: query === undefined ? path : withQuery(path, query),
      headers: {
        ...(type !== undefined && { "content-type": type }),
        ...(contentEncoding !== undefined && { "content-encoding": contentEncoding }),
      },
      body: body(json(value)),
    }),
  };
}

const plain = (text: string) => text;

/** Every encoding of posthog-api 8.7 and 9.7 that has a body. */
export const ENCODINGS: readonly Encoding[] = [
  encoding("JSON", { type: "application/json" }, plain),
  encoding("JSON with a charset", { type: "application/json; charset=UTF-8" }, plain),
  encoding("JSON as plain text, as beacons send it", { type: "text/plain;charset=UTF-8" }, plain),
  encoding("JSON without a content type", {}, plain),
  encoding("JSON in a form", { type: FORM }, (text) => form({ data: text })),
  encoding("base64 in a form", { type: FORM }, (text) => form({ data: base64(text) })),
  encoding("base64 in a form that says so", { type: FORM }, (text) =>
    form({ data: base64(text), compression: "base64" }),
  ),
  encoding(
    "base64 in a form, named in the query",
    { type: FORM, query: "compression=base64" },
    (text) => form({ data: base64(text) }),
  ),
  encoding(
    "base64 in a form whose plus signs became spaces",
    { type: FORM, query: "compression=base64" },
    (text) => `data=${base64(text).replaceAll("=", "%3D")}`,
  ),
  encoding("base64 as the body", { type: "text/plain", query: "compression=base64" }, base64),
  encoding(
    "gzip by Content-Encoding",
    { type: "application/json", contentEncoding: "gzip" },
    gzipSync,
  ),
  encoding("gzip named in the query", { type: "text/plain", query: "compression=gzip" }, gzipSync),
  encoding(
    "gzip-js named in the query",
    { type: "text/plain", query: "compression=gzip-js" },
    gzipSync,
  ),
  encoding("gzip nobody names", { type: "text/plain" }, gzipSync),
  encoding("gzip nobody names, without a content type", {}, gzipSync),
  encoding(
    "JSON under the name of gzip",
    { type: "text/plain", query: "compression=gzip-js" },
    plain,
  ),
  encoding("lz64 as the body", { type: "text/plain", query: "compression=lz64" }, lz64),
  encoding("lz64 in a form", { type: FORM, query: "compression=lz64" }, (text) =>
    form({ data: lz64(text) }),
  ),
  encoding("lz64 in a form that says so", { type: FORM }, (text) =>
    form({ data: lz64(text), compression: "lz64" }),
  ),
];
