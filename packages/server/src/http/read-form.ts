/** A part of a multipart form that came as a file. */
export interface FormFile {
  readonly fileName: string;
  readonly contentType: string;
  readonly bytes: Buffer;
}

/** Forms have a handful of fields; more is an attack on whoever splits them. */
const MAX_FIELDS = 1000;

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
    const fileName = /\bfilename="([^"]*)"/i.exec(headers)?.[1];
    if (fileName === undefined || files.has(name)) continue;
    const type = /^content-type:\s*([^\r\n]+?)\s*$/im.exec(headers)?.[1];
    files.set(name, { fileName, contentType: type ?? "application/octet-stream", bytes });
  }
  return files;
}

/** What stands between the parts of a multipart form, by its content type. */
export function delimiterOf(contentType: string | undefined): string | undefined {
  const boundary = /boundary=(?:"([^"]+)"|([^;\s]+))/i.exec(contentType ?? "");
  return boundary?.[1] ?? boundary?.[2];
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
    const headersEnd = part.indexOf("\r\n\r\n");
    const headers = part.toString("utf8", 0, Math.max(headersEnd, 0));
    const name = /\bname="([^"]*)"/i.exec(headers)?.[1];
    if (name !== undefined) {
      yield { name, headers, bytes: part.subarray(headersEnd + 4, part.length - 2) };
    }
    start = end;
  }
}
