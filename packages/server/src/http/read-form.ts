/** A part of a multipart form that came as a file. */
export interface FormFile {
  readonly fileName: string;
  readonly contentType: string;
  readonly bytes: Buffer;
}

/** Forms have a handful of fields; more is an attack on whoever splits them. */
const MAX_FIELDS = 1000;
/** Longest headers of a part that are looked at. */
export const MAX_PART_HEADER_BYTES = 16 * 1024;
const HEADERS_END = "\r\n\r\n";

/**
 * The fields of a form body, url-encoded or multipart, the first of each name; `undefined` when the
 * body is no form. The body decides more than its content type: beacons send forms as plain text,
 * and JSON arrives under every type.
 */
export function readForm(
  body: Buffer,
  contentType: string | undefined,
): ReadonlyMap<string, Buffer> | undefined {
  const type = contentType?.toLowerCase() ?? "";
  if (type.startsWith("multipart/form-data")) {
    const delimiter = delimiterOf(contentType);
    return delimiter === undefined ? undefined : readMultipart(body, delimiter);
  }
  const start = body.toString("latin1", 0, 200);
  const isForm =
    start.startsWith("data=") ||
    /^[\w$.-]+=[^&]*&/.test(start) ||
    (type.startsWith("application/x-www-form-urlencoded") && /^[\w$.-]+=[^=]/.test(start));
  return isForm ? readUrlEncoded(body.toString("utf8")) : undefined;
}

/**
 * The fields of a form as its content type says, the first of each name; `undefined` for a multipart
 * form that does not begin or end, `"no form"` for what is not url-encoded though it says so.
 */
export function readManagementForm(
  body: Buffer,
  contentType: string | undefined,
): ReadonlyMap<string, Buffer> | "no form" | undefined {
  if (!/^multipart\b/i.test(contentType ?? "")) {
    const text = body.toString("utf8");
    return /^[^\s{}[\]"=&]+=/.test(text) ? readUrlEncoded(text) : "no form";
  }
  const delimiter = delimiterOf(contentType);
  return delimiter !== undefined && body.includes(`--${delimiter}--`)
    ? readMultipart(body, delimiter)
    : undefined;
}

/** The files of a multipart form by field, the first of each name; empty for what is no such form. */
export function readFormFiles(
  body: Buffer,
  contentType: string | undefined,
): ReadonlyMap<string, FormFile> {
  const files = new Map<string, FormFile>();
  const delimiter = delimiterOf(contentType);
  if (delimiter === undefined) return files;
  for (const { name, headers, bytes } of partsOf(body, delimiter)) {
    const disposition = headers.get("content-disposition") ?? "";
    const fileName = /\bfilename="([^"]*)"/i.exec(disposition)?.[1];
    if (fileName === undefined || files.has(name)) continue;
    const contentType = headers.get("content-type") || "application/octet-stream";
    files.set(name, { fileName, contentType, bytes });
  }
  return files;
}

/** Longest of RFC 2046 (5.1.1): looking for longer ones may take as long as they have characters. */
const MAX_DELIMITER_CHARS = 70;

/** What stands between the parts of a multipart form, by its content type; `undefined` without one. */
export function delimiterOf(contentType: string | undefined): string | undefined {
  const boundary = /boundary=(?:"([^"]+)"|([^;\s]+))/i.exec(contentType ?? "");
  const delimiter = boundary?.[1] ?? boundary?.[2];
  return delimiter !== undefined && delimiter.length <= MAX_DELIMITER_CHARS ? delimiter : undefined;
}

function readUrlEncoded(text: string): ReadonlyMap<string, Buffer> {
  const fields = new Map<string, Buffer>();
  let from = 0;
  for (let count = 0; from <= text.length; count++) {
    if (count >= MAX_FIELDS) throw new Error(`more than ${MAX_FIELDS} form fields`);
    const ampersand = text.indexOf("&", from);
    const end = ampersand === -1 ? text.length : ampersand;
    for (const [name, value] of new URLSearchParams(text.slice(from, end))) {
      if (!fields.has(name)) fields.set(name, Buffer.from(value));
    }
    from = end + 1;
  }
  return fields;
}

function readMultipart(body: Buffer, boundary: string): ReadonlyMap<string, Buffer> {
  const fields = new Map<string, Buffer>();
  for (const { name, bytes } of partsOf(body, boundary)) {
    if (!fields.has(name)) fields.set(name, bytes);
  }
  return fields;
}

function* partsOf(body: Buffer, boundary: string) {
  const delimiter = Buffer.from(`--${boundary}`);
  let start = body.indexOf(delimiter);
  for (let count = 0; start !== -1; count++) {
    if (count >= MAX_FIELDS) throw new Error(`more than ${MAX_FIELDS} form fields`);
    const from = start + delimiter.length;
    const end = body.indexOf(delimiter, from);
    if (end === -1) break;
    const part = body.subarray(from, end);
    const headersEnd = part
      .subarray(0, MAX_PART_HEADER_BYTES + HEADERS_END.length)
      .indexOf(HEADERS_END);
    if (headersEnd === -1 && part.length > MAX_PART_HEADER_BYTES) {
      throw new Error(`a part with more than ${MAX_PART_HEADER_BYTES} bytes of headers`);
    }
    const headers = partHeadersOf(part.toString("utf8", 0, Math.max(headersEnd, 0)));
    const name = fieldNameOf(headers);
    if (name !== undefined) {
      const bytes = part.subarray(headersEnd + HEADERS_END.length, part.length - 2);
      yield { name, headers, bytes };
    }
    start = end;
  }
}

/** Headers of a part by their names in lower case, the first of each. */
export function partHeadersOf(text: string): ReadonlyMap<string, string> {
  const headers = new Map<string, string>();
  for (const line of text.split("\n")) {
    const colon = line.indexOf(":");
    const name = line.slice(0, Math.max(colon, 0)).trim().toLowerCase();
    if (name !== "" && !headers.has(name)) headers.set(name, line.slice(colon + 1).trim());
  }
  return headers;
}

/** The field that a part with such headers is. */
export function fieldNameOf(headers: ReadonlyMap<string, string>): string | undefined {
  return /\bname="([^"]*)"/i.exec(headers.get("content-disposition") ?? "")?.[1];
}
