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
    const boundary = /boundary=(?:"([^"]+)"|([^;\s]+))/i.exec(contentType ?? "");
    const delimiter = boundary?.[1] ?? boundary?.[2];
    return delimiter === undefined ? undefined : readMultipart(body, delimiter);
  }
  const start = body.toString("latin1", 0, 200);
  const isForm =
    start.startsWith("data=") ||
    /^[\w$.-]+=[^&]*&/.test(start) ||
    (type.startsWith("application/x-www-form-urlencoded") && /^[\w$.-]+=[^=]/.test(start));
  return isForm ? readUrlEncoded(body.toString("utf8")) : undefined;
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
  const delimiter = Buffer.from(`--${boundary}`);
  let start = body.indexOf(delimiter);
  for (let count = 0; start !== -1; count++) {
    if (count >= MAX_FIELDS) throw new Error(`more than ${MAX_FIELDS} form fields`);
    const from = start + delimiter.length;
    const end = body.indexOf(delimiter, from);
    if (end === -1) break;
    const part = body.subarray(from, end);
    const headersEnd = part.indexOf("\r\n\r\n");
    const name = /\bname="([^"]*)"/i.exec(part.toString("utf8", 0, Math.max(headersEnd, 0)))?.[1];
    if (name !== undefined && !fields.has(name)) {
      fields.set(name, part.subarray(headersEnd + 4, part.length - 2));
    }
    start = end;
  }
  return fields;
}
