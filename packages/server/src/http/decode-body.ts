import { promisify } from "node:util";
import {
  brotliDecompressSync,
  gunzipSync,
  gunzip as gunzipWithCallback,
  inflateRawSync,
  inflateSync,
  type ZlibOptions,
} from "node:zlib";
import type { Json } from "@hedgerow/core/json";
import type { FastifyRequest } from "fastify";
import type { Slices } from "../platform/slices.ts";
import { decompressLzBase64 } from "./decompress-lz-base64.ts";
import { decompressZstd, isZstd } from "./decompress-zstd.ts";
import { Refusal } from "./errors.ts";
import { parseJson } from "./parse-json.ts";
import { parseJsonInSlices } from "./parse-json-in-slices.ts";
import { queryText } from "./query-text.ts";
import { readForm } from "./read-form.ts";

/** Most bytes, or characters, that any layer of a body may decode to. */
export const MAX_DECODED_BYTES = 20 * 1024 * 1024;
/** Compression, base64 and form fields inside each other: SDKs use two layers, proxies add one. */
const MAX_LAYERS = 6;

/** What is known of a body before anyone looked into it. */
export interface EncodedBody {
  /** The bytes as they arrived; empty for requests without a body. */
  readonly bytes: Buffer;
  readonly contentType: string | undefined;
  readonly contentEncoding: string | undefined;
  /** Query parameters: `compression` names an encoding; `data` is the body of a GET. */
  readonly query: Readonly<Record<string, unknown>>;
}

export interface DecodedBody {
  /** The JSON value, or `undefined` when the request carried no data at all. */
  readonly value: Json | undefined;
  /** The JSON text that was read: what the value alone no longer tells, such as digits beyond 2^53. */
  readonly text: string;
  /** Form fields beside `data` (`api_key`, `token`, `sent_at`, …); empty for bodies that are no form. */
  readonly form: ReadonlyMap<string, string>;
}

/**
 * Decodes the body of a public request as PostHog's services and SDKs of every age understand it
 * (posthog-api 8.6, 8.7, 9.7): JSON under any content type, form field or query parameter `data`,
 * gzip and zstd (labelled or not), gzip-js, deflate, br, lz64, base64, and these inside each other. Labels
 * are hints: a plain body under a wrong label is read as what it is.
 *
 * Throws a {@link Refusal}: 413 `request_too_large` when any layer decodes to more than
 * {@link MAX_DECODED_BYTES}, noticed while decoding; 400 `malformed_data` (or `refuseAs`) otherwise.
 */
export function decodeBody(
  body: EncodedBody,
  refuseAs: "malformed_data" | "invalid_payload" = "malformed_data",
): DecodedBody {
  try {
    return decode(body);
  } catch (error) {
    throw refusalFor(error, refuseAs);
  }
}

function refusalFor(error: unknown, refuseAs: "malformed_data" | "invalid_payload"): Refusal {
  if (error instanceof Refusal) return error;
  const reason = error instanceof Error ? error.message : "unreadable";
  return new Refusal(refuseAs, `Malformed request data: ${reason}`);
}

/** Decoding what is longer takes as long as dozens of requests. */
const MAX_QUICK_BYTES = 256 * 1024;

/** True for bodies that {@link decodeLargeBody} is for, as far as their first and last bytes tell. */
export function isLargeBody({ bytes }: EncodedBody): boolean {
  return (isGzip(bytes) ? saidBytesOf(bytes) : bytes.length) > MAX_QUICK_BYTES;
}

/**
 * {@link decodeBody} for large bodies: plain or gzip JSON with a list of events is decoded beside
 * other requests, and refused in the same ways; everything else as ever.
 */
export async function decodeLargeBody(
  body: EncodedBody,
  slices: Slices,
  refuseAs: "malformed_data" | "invalid_payload" = "malformed_data",
): Promise<DecodedBody> {
  try {
    const gunzipped = isGzip(body.bytes) ? await gunzipAside(body.bytes) : undefined;
    const opened = gunzipped ?? body.bytes;
    if (!looksLikeJson(opened)) return decode(body, gunzipped);
    const text = withoutMark(opened.toString("utf8"));
    const isLong = text.length > MAX_QUICK_BYTES;
    const value = isLong ? await parseJsonInSlices(text, slices) : parseJson(text);
    return { value, text, form: NO_FIELDS };
  } catch (error) {
    throw refusalFor(error, refuseAs);
  }
}

/** The body of a request to a public route, where bodies arrive as bytes. */
export function encodedBodyOf(
  request: Pick<FastifyRequest, "body" | "headers" | "query">,
): EncodedBody {
  return {
    bytes: Buffer.isBuffer(request.body) ? request.body : NO_BYTES,
    contentType: request.headers["content-type"],
    contentEncoding: request.headers["content-encoding"],
    query: request.query as Record<string, unknown>,
  };
}

const NO_BYTES = Buffer.alloc(0);
const NO_FIELDS: ReadonlyMap<string, string> = new Map();

/** @param gunzipped what the bytes hold, where they are gzip and were opened already */
function decode(
  { bytes, contentType, contentEncoding, query }: EncodedBody,
  gunzipped?: Buffer,
): DecodedBody {
  // The common case first: plain JSON, whatever its labels say.
  if (looksLikeJson(bytes)) return parsed(bytes.toString("utf8"), NO_FIELDS);
  const labels = [...namesIn(queryText(query, "compression")), ...namesIn(contentEncoding)];
  if (bytes.length > 0) {
    const opened = gunzipped ?? openEncodings(bytes, labels);
    if (opened instanceof Buffer) {
      const fields = readForm(opened, contentType);
      if (fields) return decodeForm(fields, labels);
      return decodeLayers(opened, labels, NO_FIELDS);
    }
    return decodeLayers(opened, labels, NO_FIELDS);
  }
  const data = queryText(query, "data");
  if (data === undefined || data === "") return { value: undefined, text: "", form: NO_FIELDS };
  return decodeLayers(data, labels, NO_FIELDS);
}

/** A whole form may itself be compressed; its `data` field then is what the other labels are about. */
function openEncodings(bytes: Buffer, labels: readonly string[]): Buffer | string {
  return isGzip(bytes) ? gunzip(bytes) : (undress(bytes, labels) ?? bytes);
}

function decodeForm(fields: ReadonlyMap<string, Buffer>, labels: readonly string[]): DecodedBody {
  const form = new Map<string, string>();
  for (const [name, value] of fields) if (name !== "data") form.set(name, value.toString("utf8"));
  const data = fields.get("data");
  if (data === undefined || data.length === 0) return { value: undefined, text: "", form };
  return decodeLayers(data, [...namesIn(form.get("compression")), ...labels], form);
}

/** Takes one layer off after the other until JSON is left. */
function decodeLayers(
  payload: Buffer | string,
  labels: readonly string[],
  form: ReadonlyMap<string, string>,
): DecodedBody {
  let layer = payload;
  for (let depth = 0; depth < MAX_LAYERS; depth++) {
    if (looksLikeJson(layer)) return parsed(textOf(layer), form);
    const inner = undress(layer, labels) ?? fromBase64(textOf(layer));
    if (inner === undefined) return parsed(textOf(layer), form);
    layer = inner;
  }
  throw new Error(`encoded more than ${MAX_LAYERS} times`);
}

/** The content of a compressed layer; `undefined` when it is not compressed in any way we know. */
function undress(layer: Buffer | string, labels: readonly string[]): Buffer | string | undefined {
  if (typeof layer !== "string") {
    if (isGzip(layer)) return gunzip(layer);
    if (isZstd(layer)) {
      return decompress((bytes) => decompressZstd(bytes, MAX_DECODED_BYTES), layer);
    }
    if (labels.includes("deflate")) {
      const hasHeader = (layer.readUInt8(0) & 0x0f) === 8 && layer.length > 1;
      const zlib = hasHeader && layer.readUInt16BE(0) % 31 === 0 ? inflateSync : inflateRawSync;
      const inflated = tryDecompress(zlib, layer);
      if (inflated) return inflated;
    }
    if (labels.includes("br")) {
      const expanded = tryDecompress(brotliDecompressSync, layer);
      if (expanded) return expanded;
    }
  }
  if (labels.includes("lz64")) {
    const text = textOf(layer).trim().replaceAll(" ", "+");
    const opened = decompressLzBase64(text, MAX_DECODED_BYTES);
    if (opened === "too-large") throw tooLarge();
    // Much base64 is a stream of codes by accident: only one that holds JSON counts.
    if (opened !== "not-lz" && (looksLikeJson(opened.text) || opened.text.startsWith('"'))) {
      return opened.text;
    }
  }
  return undefined;
}

/** Bounds of the pieces that content is decompressed in. */
const MIN_PIECE_BYTES = 1024;
const MAX_PIECE_BYTES = 256 * 1024;

/** Gzip says at its end how much it holds: that is decompressed in one piece, where it is true. */
function pieceBytesOf(bytes: Buffer): number {
  return Math.min(Math.max(saidBytesOf(bytes) + 1, MIN_PIECE_BYTES), MAX_PIECE_BYTES);
}

function saidBytesOf(bytes: Buffer): number {
  return bytes.length < 4 ? 0 : bytes.readUInt32LE(bytes.length - 4);
}

function gunzip(bytes: Buffer): Buffer {
  const chunkSize = pieceBytesOf(bytes);
  return decompress((content, options) => gunzipSync(content, { ...options, chunkSize }), bytes);
}

/** In another thread. */
async function gunzipAside(bytes: Buffer): Promise<Buffer> {
  const options = { maxOutputLength: MAX_DECODED_BYTES, chunkSize: MAX_PIECE_BYTES };
  try {
    return await promisify<Buffer, ZlibOptions, Buffer>(gunzipWithCallback)(bytes, options);
  } catch (error) {
    throw whyNotOpened(error);
  }
}

type Decompress = (bytes: Buffer, options: ZlibOptions) => Buffer;

function decompress(zlib: Decompress, bytes: Buffer): Buffer {
  try {
    return zlib(bytes, { maxOutputLength: MAX_DECODED_BYTES });
  } catch (error) {
    throw whyNotOpened(error);
  }
}

function whyNotOpened(error: unknown): Error {
  if (error instanceof RangeError) return tooLarge();
  return new Error(
    `failed to decompress (${error instanceof Error ? error.message : "unknown reason"})`,
  );
}

function tryDecompress(zlib: Decompress, bytes: Buffer): Buffer | undefined {
  try {
    return decompress(zlib, bytes);
  } catch (error) {
    if (error instanceof Refusal) throw error;
    return undefined;
  }
}

/**
 * Base64 in any dress: standard or URL-safe alphabet, padding or none, `+` turned into spaces by a
 * form, percent-encoded by an eager client. `undefined` for anything else.
 */
function fromBase64(text: string): Buffer | string | undefined {
  const trimmed = text.trim();
  if (/^%(?:7B|5B|22)/i.test(trimmed) || /^[\w+/-]{8,}%/.test(trimmed)) {
    return decodeURIComponent(trimmed);
  }
  const joined = trimmed.replaceAll(" ", "+").replace(/[\r\n]+/g, "");
  if (joined.length < 4 || !/^[\w+/-]+={0,2}$/.test(joined)) return undefined;
  const bytes = Buffer.from(joined, "base64");
  // Short words are base64 too: only what decodes to something is taken for it.
  const holdsMore = isGzip(bytes) || isZstd(bytes) || looksLikeJson(bytes) || isBase64Text(bytes);
  return holdsMore ? bytes : undefined;
}

function isBase64Text(bytes: Buffer): boolean {
  return bytes.length >= 4 && /^[\w+/-]+={0,2}\s*$/.test(bytes.toString("latin1"));
}

function parsed(text: string, form: ReadonlyMap<string, string>): DecodedBody {
  if (text.length < 20 && text.trim() === "undefined") {
    throw new Error(
      "data being loaded from the request body for decompression is the literal string 'undefined'",
    );
  }
  const json = withoutMark(text);
  const value = parseJson(json);
  if (typeof value !== "string") return { value, text: json, form };
  // A JSON string that holds the document: an SDK serialized twice.
  const inner = value.trim();
  if (looksLikeJson(inner)) return { value: parseJson(inner), text: inner, form };
  const opened = fromBase64(inner);
  if (opened !== undefined && looksLikeJson(opened)) {
    return { value: parseJson(textOf(opened)), text: textOf(opened), form };
  }
  return { value, text: json, form };
}

/** Without the byte order mark that some put first. */
function withoutMark(text: string): string {
  return text.charCodeAt(0) === 0xfeff ? text.slice(1) : text;
}

/** True when the first character that is not white space (or a byte order mark) opens an object or array. */
function looksLikeJson(layer: Buffer | string): boolean {
  const first = typeof layer === "string" ? layer.charCodeAt(0) : layer[0];
  if (first === 0x7b || first === 0x5b) return true;
  const start = typeof layer === "string" ? layer.slice(0, 64) : layer.toString("latin1", 0, 64);
  return /^(?:\uFEFF|ï»¿)?\s*[[{]/.test(start);
}

function isGzip(bytes: Buffer): boolean {
  return bytes.length > 2 && bytes[0] === 0x1f && bytes[1] === 0x8b;
}

function textOf(layer: Buffer | string): string {
  return typeof layer === "string" ? layer : layer.toString("utf8");
}

const KNOWN_ENCODINGS: Readonly<Record<string, string>> = {
  gzip: "gzip",
  "x-gzip": "gzip",
  "gzip-js": "gzip",
  deflate: "deflate",
  br: "br",
  zstd: "zstd",
  identity: "identity",
  lz64: "lz64",
  "lz-string": "lz64",
  base64: "base64",
  b64: "base64",
};

/** The encodings a label names. Unknown names are no obstacle: the body itself decides. */
function namesIn(label: string | undefined): string[] {
  if (label === undefined) return [];
  return label.split(",").flatMap((name) => {
    const known = name.trim().toLowerCase();
    return Object.hasOwn(KNOWN_ENCODINGS, known) ? [KNOWN_ENCODINGS[known] ?? known] : [];
  });
}

/** True when a `Content-Encoding` names an encoding that no body is read in. */
export function namesUnknownEncoding(contentEncoding: string | undefined): boolean {
  return (contentEncoding ?? "")
    .split(",")
    .some((name) => name.trim() !== "" && namesIn(name).length === 0);
}

function tooLarge(): Refusal {
  return new Refusal(
    "request_too_large",
    `Request too large: the decoded body exceeds ${MAX_DECODED_BYTES} bytes.`,
  );
}
