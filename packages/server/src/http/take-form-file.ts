import { PassThrough } from "node:stream";
import type { FastifyRequest, RequestPayload } from "fastify";
import { MAX_BODY_BYTES } from "./app.ts";
import { bearerOf } from "./credentials.ts";
import { Refusal } from "./errors.ts";
import { delimiterOf, fieldNameOf, MAX_PART_HEADER_BYTES, partHeadersOf } from "./read-form.ts";

/** Where the bytes of a file go as they come, with a pause for whoever takes them. */
export type TakeBytes = (bytes: Buffer) => Promise<void>;

/** A field of a form that is a file, and what begins to read it when it is there. */
export interface FileField {
  readonly field: string;
  /** Answers where the bytes go. */
  readonly begin: (request: FastifyRequest) => TakeBytes;
}

const HEADERS_END = "\r\n\r\n";
const NO_BYTES = Buffer.alloc(0);

/**
 * Hands the bytes of one field of a multipart form on while they arrive, so that its file is never
 * held, and leaves the rest of the form to whoever reads forms. Bodies that are no such form pass
 * through, as do those of callers who are not known from their headers.
 */
export async function takeFormFile(
  { field, begin }: FileField,
  request: FastifyRequest,
  payload: RequestPayload,
): Promise<RequestPayload> {
  const { "content-type": type, "content-length": length } = request.headers;
  const delimiter = /^multipart\/form-data\b/i.test(type ?? "") ? delimiterOf(type) : undefined;
  const isTaken =
    delimiter !== undefined &&
    bearerOf(request) !== undefined &&
    !(Number(length ?? 0) > MAX_BODY_BYTES);
  if (!isTaken) return payload;
  const { rest, received } = await splitForm(
    payload as AsyncIterable<Buffer>,
    `--${delimiter}`,
    field,
    () => begin(request),
  );
  const body = Object.assign(new PassThrough(), { receivedEncodedLength: received });
  body.end(rest);
  return body;
}

/** The form without a field, whose bytes are handed on; and how long it was with it. */
async function splitForm(
  payload: AsyncIterable<Buffer>,
  boundary: string,
  field: string,
  begin: () => TakeBytes,
): Promise<{ readonly rest: Buffer; readonly received: number }> {
  const delimiter = Buffer.from(boundary);
  const rest: Buffer[] = [];
  let received = 0;
  let take: TakeBytes | undefined;
  /** Whether what is held begins with a delimiter, and whether bytes go to the field. */
  let isAtDelimiter = false;
  let isInFile = false;
  let held: Buffer = NO_BYTES;

  /** Goes as far as the bytes that are held tell. */
  async function advance(): Promise<void> {
    for (;;) {
      if (isAtDelimiter) {
        const headersEnd = held.indexOf(HEADERS_END, delimiter.length);
        if (headersEnd === -1 && held.length < MAX_PART_HEADER_BYTES) return;
        const headers = held.toString("utf8", delimiter.length, Math.max(headersEnd, 0));
        isAtDelimiter = false;
        isInFile = take === undefined && fieldNameOf(partHeadersOf(headers)) === field;
        if (isInFile) {
          take = begin();
          held = held.subarray(headersEnd + HEADERS_END.length);
        } else {
          rest.push(held.subarray(0, delimiter.length));
          held = held.subarray(delimiter.length);
        }
      }
      const next = held.indexOf(delimiter);
      // The last bytes may begin a delimiter, with a line end before it that belongs to no field.
      const end = next === -1 ? held.length - delimiter.length - 1 : next - (isInFile ? 2 : 0);
      if (end > 0) {
        const bytes = held.subarray(0, end);
        if (!isInFile) rest.push(bytes);
        else if (take) await take(bytes);
      }
      if (next === -1) {
        held = held.subarray(Math.max(end, 0));
        return;
      }
      held = held.subarray(next);
      isAtDelimiter = true;
      isInFile = false;
    }
  }

  for await (const chunk of payload) {
    received += chunk.length;
    if (received > MAX_BODY_BYTES) {
      throw new Refusal(
        "request_too_large",
        `Request too large: the body exceeds ${MAX_BODY_BYTES} bytes.`,
      );
    }
    held = held.length === 0 ? chunk : Buffer.concat([held, chunk]);
    await advance();
  }
  // A field without its end is as good as a form that cannot be read.
  if (isInFile) throw new Refusal("parse_error", "Multipart form parse error");
  rest.push(held);
  return { rest: Buffer.concat(rest), received };
}
