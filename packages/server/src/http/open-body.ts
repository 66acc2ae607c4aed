import {
  brotliDecompressSync,
  gunzipSync,
  inflateRawSync,
  inflateSync,
  type ZlibOptions,
} from "node:zlib";
import { decompressLzBase64 } from "./decompress-lz-base64.ts";
import { decompressZstd, isZstd } from "./decompress-zstd.ts";
import { parseJson } from "./parse-json.ts";
import { queryText } from "./query-text.ts";
import { readForm } from "./read-form.ts";

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

/** What is left of a body once everything that it came wrapped in is taken off. */
export interface OpenedBody {
  /** JSON, or what cannot be taken for anything else; `undefined` when the request carried no data at all. */
  readonly content: Buffer | string | undefined;
  /** Form fields beside `data` (`api_key`, `token`, `sent_at`, …); empty for bodies that are no form. */
  readonly form: ReadonlyMap<string, string>;
}

/** A layer of a body holds more than it may. */
export class LayerTooLarge extends Error {
  override readonly name = "LayerTooLarge";
}

export const NO_FIELDS: ReadonlyMap<string, string> = new Map();

/**
 * Opens the body of a public request as PostHog's services and SDKs of every age understand it
 * (posthog-api 8.6, 8.7, 9.7): JSON under any content type, form field or query parameter `data`,
 * gzip and zstd (labelled or not), gzip-js, deflate, br, lz64, base64, and these inside each other. Labels
 * are hints: a plain body under a wrong label is read as what it is.
 * @param maxBytes bytes, or characters, that any layer may decode to; throws {@link LayerTooLarge} beyond,
 *   noticed while decoding, and an `Error` with the reason for what cannot be opened
 */
export function openBody(body: EncodedBody, maxBytes: number): OpenedBody {
  const { bytes, contentType, query } = body;
  if (isPlainJson(body)) return { content: bytes, form: NO_FIELDS };
  const labels = labelsOf(body);
  if (bytes.length > 0) {
    // A whole form may itself be compressed; its `data` field then is what the other labels are about.
    const opened = expand(bytes, labels, maxBytes) ?? readLz(bytes, labels, maxBytes) ?? bytes;
    const fields = opened instanceof Buffer ? readForm(opened, contentType) : undefined;
    if (fields) return openForm(fields, labels, maxBytes);
    return { content: openLayers(opened, labels, maxBytes), form: NO_FIELDS };
  }
  const data = queryText(query, "data");
  if (data === undefined || data === "") return { content: undefined, form: NO_FIELDS };
  return { content: openLayers(data, labels, maxBytes), form: NO_FIELDS };
}

/**
 * True for what begins like JSON and has no label of those compressions that only a label tells: some of
 * their streams begin like JSON as well.
 */
export function isPlainJson(body: EncodedBody): boolean {
  return looksLikeJson(body.bytes) && !labelsOf(body).some((label) => BY_LABEL_ONLY.has(label));
}

const BY_LABEL_ONLY: ReadonlySet<string> = new Set(["br", "deflate"]);

function labelsOf({ query, contentEncoding }: EncodedBody): readonly string[] {
  return [...namesIn(queryText(query, "compression")), ...namesIn(contentEncoding)];
}

function openForm(
  fields: ReadonlyMap<string, Buffer>,
  labels: readonly string[],
  maxBytes: number,
): OpenedBody {
  const form = new Map<string, string>();
  for (const [name, value] of fields) if (name !== "data") form.set(name, value.toString("utf8"));
  const data = fields.get("data");
  if (data === undefined || data.length === 0) return { content: undefined, form };
  const ofData = [...namesIn(form.get("compression")), ...labels];
  return { content: openLayers(data, ofData, maxBytes), form };
}

/** Takes one layer off after the other until JSON is left, or what is no layer. */
function openLayers(
  payload: Buffer | string,
  labels: readonly string[],
  maxBytes: number,
): Buffer | string {
  let layer = payload;
  for (let depth = 0; depth < MAX_LAYERS; depth++) {
    const expanded = expand(layer, labels, maxBytes);
    if (expanded === undefined && looksLikeJson(layer)) return layer;
    const inner = expanded ?? readLz(layer, labels, maxBytes) ?? fromBase64(textOf(layer));
    if (inner === undefined) return withoutQuotes(textOf(layer));
    layer = inner;
  }
  throw new Error(`encoded more than ${MAX_LAYERS} times`);
}

/** The document in a JSON string: an SDK serialized twice. Any other text as it is. */
function withoutQuotes(text: string): string {
  if (!/^\uFEFF?\s*["']/.test(text)) return text;
  const value = parseJson(withoutMark(text));
  if (typeof value !== "string") return text;
  const inner = value.trim();
  if (looksLikeJson(inner)) return inner;
  const opened = fromBase64(inner);
  return opened !== undefined && looksLikeJson(opened) ? textOf(opened) : text;
}

/** The content of compressed bytes; `undefined` when they are not compressed in any way we know. */
function expand(
  layer: Buffer | string,
  labels: readonly string[],
  maxBytes: number,
): Buffer | undefined {
  if (typeof layer === "string") return undefined;
  if (isGzip(layer)) return gunzip(layer, maxBytes);
  if (isZstd(layer)) return decompress((bytes) => decompressZstd(bytes, maxBytes), layer, maxBytes);
  if (labels.includes("deflate")) {
    const hasHeader = layer.length > 1 && (layer.readUInt8(0) & 0x0f) === 8;
    const zlib = hasHeader && layer.readUInt16BE(0) % 31 === 0 ? inflateSync : inflateRawSync;
    const inflated = tryDecompress(zlib, layer, maxBytes);
    if (inflated) return inflated;
  }
  return labels.includes("br") ? tryDecompress(brotliDecompressSync, layer, maxBytes) : undefined;
}

/** The text in a stream of lz-string under its label. */
function readLz(
  layer: Buffer | string,
  labels: readonly string[],
  maxBytes: number,
): string | undefined {
  if (!labels.includes("lz64")) return undefined;
  const text = textOf(layer).trim().replaceAll(" ", "+");
  const opened = decompressLzBase64(text, maxBytes);
  if (opened === "too-large") throw new LayerTooLarge();
  // Much base64 is a stream of codes by accident: only one that holds JSON counts.
  const isMeant =
    opened !== "not-lz" && (looksLikeJson(opened.text) || opened.text.startsWith('"'));
  return isMeant ? opened.text : undefined;
}

/** Bounds of the pieces that content is decompressed in. */
const MIN_PIECE_BYTES = 1024;
const MAX_PIECE_BYTES = 256 * 1024;

/** Gzip says at its end how much it holds: that is decompressed in one piece, where it is true. */
function pieceBytesOf(bytes: Buffer): number {
  return Math.min(Math.max(saidBytesOf(bytes) + 1, MIN_PIECE_BYTES), MAX_PIECE_BYTES);
}

/** The size that gzip tells of its last member. */
export function saidBytesOf(bytes: Buffer): number {
  return bytes.length < 4 ? 0 : bytes.readUInt32LE(bytes.length - 4);
}

function gunzip(bytes: Buffer, maxBytes: number): Buffer {
  const chunkSize = pieceBytesOf(bytes);
  const zlib: Decompress = (content, options) => gunzipSync(content, { ...options, chunkSize });
  return decompress(zlib, bytes, maxBytes);
}

type Decompress = (bytes: Buffer, options: ZlibOptions) => Buffer;

function decompress(zlib: Decompress, bytes: Buffer, maxBytes: number): Buffer {
  try {
    return zlib(bytes, { maxOutputLength: maxBytes });
  } catch (error) {
    throw whyNotOpened(error);
  }
}

/** @param error of a decompressor that was given the most it may make */
export function whyNotOpened(error: unknown): Error {
  if (error instanceof RangeError) return new LayerTooLarge();
  return new Error(
    `failed to decompress (${error instanceof Error ? error.message : "unknown reason"})`,
  );
}

function tryDecompress(zlib: Decompress, bytes: Buffer, maxBytes: number): Buffer | undefined {
  try {
    return decompress(zlib, bytes, maxBytes);
  } catch (error) {
    if (error instanceof LayerTooLarge) throw error;
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

/** Without the byte order mark that some put first. */
export function withoutMark(text: string): string {
  return text.charCodeAt(0) === 0xfeff ? text.slice(1) : text;
}

/** True when the first character that is not white space (or a byte order mark) opens an object or array. */
export function looksLikeJson(layer: Buffer | string): boolean {
  const first = typeof layer === "string" ? layer.charCodeAt(0) : layer[0];
  if (first === 0x7b || first === 0x5b) return true;
  const start = typeof layer === "string" ? layer.slice(0, 64) : layer.toString("latin1", 0, 64);
  return /^(?:\uFEFF|ï»¿)?\s*[[{]/.test(start);
}

export function isGzip(bytes: Buffer): boolean {
  return bytes.length > 2 && bytes[0] === 0x1f && bytes[1] === 0x8b;
}

export function textOf(layer: Buffer | string): string {
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
