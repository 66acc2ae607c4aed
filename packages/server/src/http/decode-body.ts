import { promisify } from "node:util";
import { gunzip, type ZlibOptions } from "node:zlib";
import type { Json } from "@hedgerow/core/json";
import type { FastifyRequest } from "fastify";
import type { Slices } from "../platform/slices.ts";
import type { BodyOpener } from "./body-opener.ts";
import { Refusal } from "./errors.ts";
import {
  type EncodedBody,
  isGzip,
  isPlainJson,
  LayerTooLarge,
  NO_FIELDS,
  type OpenedBody,
  openBody,
  saidBytesOf,
  textOf,
  whyNotOpened,
  withoutMark,
} from "./open-body.ts";
import { parseJson } from "./parse-json.ts";
import { parseJsonInSlices, type Stretch } from "./parse-json-in-slices.ts";

/** Most bytes, or characters, that any layer of a body may decode to. */
export const MAX_DECODED_BYTES = 20 * 1024 * 1024;
/** Decoding what is longer, in whatever layer, takes as long as dozens of requests. */
const MAX_QUICK_BYTES = 256 * 1024;

export interface DecodedBody {
  /** The JSON value, or `undefined` when the request carried no data at all. */
  readonly value: Json | undefined;
  readonly sizes: SentSizes;
  /** Form fields beside `data` (`api_key`, `token`, `sent_at`, …); empty for bodies that are no form. */
  readonly form: ReadonlyMap<string, string>;
}

/** How large JSON was as it was sent, white space and all. */
export interface SentSizes {
  readonly chars: number;
  /** Whether an object or list in it has more bytes; for bounds of a MiB or more: what is short is not measured. */
  exceeds(value: Json, bytes: number): boolean;
}

/** Code of the refusal of what cannot be read. */
export type UnreadableCode = "malformed_data" | "invalid_payload";

/**
 * Decodes the body of a public request, as {@link openBody} opens it, at once. Answers `"large"` for one that
 * {@link decodeLargeBody} is for: any of its layers is long, which is noticed while decoding.
 *
 * Throws a {@link Refusal} with 400 and the code for what cannot be read.
 */
export function decodeSmallBody(
  body: EncodedBody,
  refuseAs: UnreadableCode,
): DecodedBody | "large" {
  const { bytes } = body;
  if ((isGzip(bytes) ? saidBytesOf(bytes) : bytes.length) > MAX_QUICK_BYTES) return "large";
  try {
    return parsed(openBody(body, MAX_QUICK_BYTES));
  } catch (error) {
    if (error instanceof LayerTooLarge) return "large";
    throw refusalFor(error, refuseAs);
  }
}

/**
 * The same for bodies of any length: opened in other threads, and JSON with a list of events parsed beside
 * other requests.
 *
 * Rejects with a {@link Refusal}: 413 `request_too_large` when any layer decodes to more than
 * {@link MAX_DECODED_BYTES}, noticed while decoding; 400 with the code otherwise.
 */
export async function decodeLargeBody(
  body: EncodedBody,
  { slices, opener }: { readonly slices: Slices; readonly opener: Pick<BodyOpener, "open"> },
  refuseAs: UnreadableCode,
): Promise<DecodedBody> {
  try {
    return await parsedInSlices(await openAside(body, opener), slices);
  } catch (error) {
    throw refusalFor(error, refuseAs);
  }
}

/** What bodies mostly are needs no thread of ours: plain JSON is open, and for gzip Node.js has its own. */
async function openAside(body: EncodedBody, opener: Pick<BodyOpener, "open">): Promise<OpenedBody> {
  const bytes = isGzip(body.bytes) ? await gunzipAside(body.bytes) : body.bytes;
  const opened = { ...body, bytes };
  if (isPlainJson(opened)) return { content: bytes, form: NO_FIELDS };
  return opener.open(opened, MAX_DECODED_BYTES);
}

/** Content is decompressed in pieces of so much. */
const PIECE_BYTES = 256 * 1024;

async function gunzipAside(bytes: Buffer): Promise<Buffer> {
  const options = { maxOutputLength: MAX_DECODED_BYTES, chunkSize: PIECE_BYTES };
  try {
    return await promisify<Buffer, ZlibOptions, Buffer>(gunzip)(bytes, options);
  } catch (error) {
    throw whyNotOpened(error);
  }
}

function refusalFor(error: unknown, refuseAs: UnreadableCode): Refusal {
  if (error instanceof Refusal) return error;
  if (error instanceof LayerTooLarge) {
    return new Refusal(
      "request_too_large",
      `Request too large: the decoded body exceeds ${MAX_DECODED_BYTES} bytes.`,
    );
  }
  const reason = error instanceof Error ? error.message : "unreadable";
  return new Refusal(refuseAs, `Malformed request data: ${reason}`);
}

function parsed({ content, form }: OpenedBody): DecodedBody {
  if (content === undefined) return { value: undefined, sizes: sizesIn(""), form };
  const text = textToParse(content);
  return { value: parseJson(text), sizes: sizesIn(text), form };
}

async function parsedInSlices({ content, form }: OpenedBody, slices: Slices): Promise<DecodedBody> {
  const text = content === undefined ? "" : textToParse(content);
  if (text.length <= MAX_QUICK_BYTES) return parsed({ content, form });
  const { value, stretches } = await parseJsonInSlices(text, slices);
  return { value, sizes: sizesIn(text, stretches), form };
}

/** No UTF-16 unit takes more in UTF-8. */
const MAX_BYTES_PER_UNIT = 3;

/** @param stretches where that of the text stands which is not short */
function sizesIn(text: string, stretches?: ReadonlyMap<Json, Stretch>): SentSizes {
  return {
    chars: text.length,
    exceeds(value, bytes) {
      const stretch = stretches?.get(value);
      if (!stretch) return false;
      const { start, end } = stretch;
      if (end - start > bytes) return true;
      if ((end - start) * MAX_BYTES_PER_UNIT <= bytes) return false;
      return Buffer.byteLength(text.slice(start, end)) > bytes;
    },
  };
}

function textToParse(content: Buffer | string): string {
  const text = textOf(content);
  if (text.length < 20 && text.trim() === "undefined") {
    throw new Error(
      "data being loaded from the request body for decompression is the literal string 'undefined'",
    );
  }
  return withoutMark(text);
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
