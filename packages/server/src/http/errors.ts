import type { FastifyError, FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import type { FaultLog } from "../platform/limit-faults.ts";
import { StoreUnavailable } from "../platform/store-unavailable.ts";

/** The media type of every answer in JSON. */
export const JSON_TYPE = "application/json; charset=utf-8";

/** Closed list of refusal codes: status and wire `type` of each (posthog-api 0.1, 8.4, 9.4). */
const REFUSALS = {
  // authentication and access
  not_authenticated: [401, "authentication_error"],
  authentication_failed: [401, "authentication_error"],
  missing_api_key: [401, "authentication_error"],
  invalid_api_key: [401, "authentication_error"],
  personal_api_key: [401, "authentication_error"],
  permission_denied: [403, "authentication_error"],
  // the request as a whole
  not_found: [404, "invalid_request"],
  method_not_allowed: [405, "invalid_request"],
  not_acceptable: [406, "invalid_request"],
  unsupported_media_type: [415, "invalid_request"],
  parse_error: [400, "invalid_request"],
  request_timeout: [408, "invalid_request"],
  header_too_large: [431, "invalid_request"],
  conflict: [409, "server_error"],
  throttled: [429, "throttled_error"],
  request_too_large: [413, "client_error"],
  unavailable: [503, "server_error"],
  // fields
  required: [400, "validation_error"],
  null: [400, "validation_error"],
  blank: [400, "validation_error"],
  empty: [400, "validation_error"],
  max_length: [400, "validation_error"],
  invalid_input: [400, "validation_error"],
  invalid_choice: [400, "validation_error"],
  unique: [400, "validation_error"],
  does_not_exist: [400, "validation_error"],
  // flags
  invalid_key: [400, "validation_error"],
  behavioral_cohort_found: [400, "validation_error"],
  cohort_does_not_exist: [400, "validation_error"],
  invalid_date: [400, "validation_error"],
  invalid_value: [400, "validation_error"],
  invalid_operator: [400, "validation_error"],
  missing_distinct_id: [400, "validation_error"],
  malformed_data: [400, "validation_error"],
  // capture
  no_data: [400, "validation_error"],
  invalid_payload: [400, "validation_error"],
  // experiments
  "no-results": [400, "validation_error"],
} as const satisfies Record<string, readonly [status: number, type: string]>;

export type RefusalCode = keyof typeof REFUSALS;

/** Whether a text is one of the refusal codes. */
export function isRefusalCode(text: string): text is RefusalCode {
  return Object.hasOwn(REFUSALS, text);
}

/** The four-field error body of every refusal. */
export interface ErrorBody {
  readonly type: string;
  readonly code: string;
  readonly detail: string;
  readonly attr: string | null;
}

/** For whoever is refused for now, unless the refusal knows better (posthog-api 0.1). */
const SOON = { "retry-after": "1" };

/**
 * The caller's mistake. `attr` names the field at fault, path joined by double underscores
 * (`filters__groups__0`), or `null` when no single field is to blame.
 */
export class Refusal extends Error {
  override readonly name = "Refusal";
  readonly code: RefusalCode;
  readonly attr: string | null;
  readonly headers: Readonly<Record<string, string>>;

  constructor(
    code: RefusalCode,
    detail: string,
    options: { attr?: string | null; headers?: Readonly<Record<string, string>> } = {},
  ) {
    super(cut(detail, MAX_DETAIL_CHARS));
    this.code = code;
    this.attr = cut(options.attr ?? null, MAX_ATTR_CHARS);
    this.headers = { ...(code === "throttled" && SOON), ...options.headers };
  }

  get status(): number {
    return REFUSALS[this.code][0];
  }

  get body(): ErrorBody {
    return {
      type: REFUSALS[this.code][1],
      code: this.code,
      detail: this.message,
      attr: this.attr,
    };
  }
}

/** What was sent may be told, and the name of the field be part of it: both may be megabytes. */
const MAX_DETAIL_CHARS = 10_000;
const MAX_ATTR_CHARS = 1_000;

function cut<Text extends string | null>(text: Text, chars: number): Text | string {
  return text !== null && text.length > chars ? `${text.slice(0, chars)}…` : text;
}

/** What a request that came to nothing is answered with. */
export interface Failure {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  /** The four-field body as JSON. */
  readonly text: string;
}

/**
 * A refusal with its body; a fault, which is logged, as a 503 while a store is out of order and
 * otherwise as a 500, both of which tell nothing of the inside.
 */
export function failureOf(error: unknown, faults: FaultLog): Failure {
  if (error instanceof Refusal) return refused(error);
  faults.error({ err: error }, "request failed");
  if (error instanceof StoreUnavailable) return refused(OUTAGE);
  return { status: 500, headers: {}, text: FAULT };
}

/** A refusal with its body. */
export function refused(refusal: Refusal): Failure {
  return { status: refusal.status, headers: refusal.headers, text: JSON.stringify(refusal.body) };
}

/** How long a client waits before it tries again what an outage kept from being done. */
const RETRY_AFTER_SECONDS = "5";

const OUTAGE = new Refusal(
  "unavailable",
  "The server cannot store or read this now. Try again later.",
  {
    headers: { "retry-after": RETRY_AFTER_SECONDS },
  },
);

const FAULT = JSON.stringify({
  type: "server_error",
  code: "error",
  detail: "A server error occurred.",
  attr: null,
} satisfies ErrorBody);

/** Answers refusals and faults as {@link failureOf} says. */
export function answerErrors(app: FastifyInstance, faults: FaultLog): void {
  app.setErrorHandler((error: FastifyError | Refusal, request, reply) => {
    const refusal = error instanceof Refusal ? error : refusalOf(error, request);
    // The framework would close the connection on a client that still sends, and most clients then
    // report a broken pipe instead of this answer. What they send is read on and thrown away, within
    // the time that every request has.
    const isUnread = refusal?.code === "request_too_large" || !request.raw.complete;
    if (refusal && isUnread && reply.hasHeader("connection")) reply.removeHeader("connection");
    return sendFailure(reply, failureOf(refusal ?? error, faults));
  });
  app.setNotFoundHandler((_request, reply) =>
    sendFailure(reply, refused(new Refusal("not_found", "Endpoint not found."))),
  );
}

/** Answers what no route could be looked for: a path with a broken escape, or with a part too long to name anything. */
export function refuseUnroutable(
  error: FastifyError,
  _request: FastifyRequest,
  reply: FastifyReply,
): void {
  const refusal =
    error.code === "FST_ERR_BAD_URL"
      ? new Refusal("invalid_input", "The path is not percent-encoded UTF-8.")
      : new Refusal("not_found", "Endpoint not found.");
  sendFailure(reply, refused(refusal));
}

function sendFailure(reply: FastifyReply, { status, headers, text }: Failure): FastifyReply {
  return reply.code(status).headers(headers).header("content-type", JSON_TYPE).send(text);
}

/** What the framework itself refuses, in our words; `undefined` for faults. */
function refusalOf(error: FastifyError, request: FastifyRequest): Refusal | undefined {
  switch (error.code) {
    case "FST_ERR_CTP_BODY_TOO_LARGE":
      return new Refusal(
        "request_too_large",
        `Request too large: the body exceeds ${request.routeOptions.bodyLimit} bytes.`,
      );
    case "FST_ERR_CTP_INVALID_MEDIA_TYPE":
      return new Refusal(
        "unsupported_media_type",
        `Unsupported media type "${request.headers["content-type"] ?? ""}" in request.`,
      );
    case "FST_ERR_CTP_INVALID_CONTENT_LENGTH":
    case "FST_ERR_CTP_EMPTY_JSON_BODY":
    case "FST_ERR_CTP_INVALID_JSON_BODY":
      return new Refusal("parse_error", `JSON parse error - ${error.message}`);
    default:
      break;
  }
  if (error.statusCode === 429) return new Refusal("throttled", error.message);
  if (error.statusCode !== undefined && error.statusCode >= 400 && error.statusCode < 500) {
    return new Refusal("invalid_input", error.message);
  }
  return undefined;
}
