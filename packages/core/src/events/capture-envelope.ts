import { encodeJson } from "../exact-json.ts";
import { isJsonObject, type Json, type JsonObject, ownValue } from "../json.ts";
import { readEpochMs, readMoment } from "./event-time.ts";

/** Most events of one request: looking at each costs much, a byte of a list hardly anything. */
export const MAX_EVENTS = 100_000;

/** What a capture request says before its events are looked at. */
export interface CaptureEnvelope {
  readonly token: string;
  /** The events as sent; at least one. */
  readonly events: readonly Json[];
  /** True when the body was one event rather than a list of them. */
  readonly isSingle: boolean;
  /** When the client says it sent the request, by its own clock. */
  readonly sentAt: Date | null;
}

/** Why a body is no capture request. */
export type EnvelopeFault =
  | { readonly kind: "no-data" }
  | { readonly kind: "too-many-events" }
  | { readonly kind: "not-events"; readonly detail: string; readonly field: string | null }
  | { readonly kind: "bad-sent-at"; readonly detail: string }
  | { readonly kind: "no-token" }
  | { readonly kind: "bad-token"; readonly reason: TokenFault };

export type TokenFault =
  | "empty"
  | "not_string"
  | "too_long"
  | "not_ascii"
  | "null_byte"
  | "personal_api_key"
  | "inconsistent";

/** What stands beside the body: form fields and query parameters, `undefined` where absent. */
export interface BesideBody {
  readonly token: string | undefined;
  /** Form field `sent_at`. */
  readonly formSentAt: string | undefined;
  /** Query parameters `_` or `sent_at`: milliseconds. */
  readonly querySentAt: string | undefined;
}

/**
 * Reads the envelope of a capture body: one event, an array of events, or `{ api_key, batch }`
 * (posthog-api 9.3, 9.6). The checks run in the order data, number of events,
 * token, `sent_at`.
 */
export function readEnvelope(
  body: Json | undefined,
  beside: BesideBody,
): CaptureEnvelope | EnvelopeFault {
  if (body === undefined || body === null) return { kind: "no-data" };
  if (typeof body !== "object") {
    const detail = "expected an event, a list of events or a batch";
    return { kind: "not-events", detail, field: null };
  }
  const whole = isJsonObject(body) ? body : null;
  const batch = whole ? ownValue(whole, "batch") : body;
  if (batch !== undefined && !Array.isArray(batch)) {
    return { kind: "not-events", detail: 'the field "batch" is not a list', field: "batch" };
  }
  const events: readonly Json[] = batch ?? [body];
  if (events.length === 0) return { kind: "no-data" };
  if (events.length > MAX_EVENTS) return { kind: "too-many-events" };
  const token = findToken(whole, batch === undefined ? [] : events, beside.token);
  if (typeof token !== "string") return token;
  const sentAt = findSentAt(whole, beside);
  if (sentAt !== null && !(sentAt instanceof Date)) return sentAt;
  return { token, events, isSingle: batch === undefined, sentAt };
}

function findToken(
  whole: JsonObject | null,
  events: readonly Json[],
  besideBody: string | undefined,
): string | EnvelopeFault {
  const outer = (whole && tokenIn(whole)) ?? besideBody;
  if (outer !== undefined && outer !== "") return checkToken(outer);
  const tokens = new Set<Json>();
  for (const event of events) {
    const token = isJsonObject(event) ? tokenIn(event) : undefined;
    if (token !== undefined) tokens.add(token);
  }
  if (tokens.size > 1) return { kind: "bad-token", reason: "inconsistent" };
  const [inner = outer] = tokens;
  return inner === undefined ? { kind: "no-token" } : checkToken(inner);
}

function tokenIn(object: JsonObject): Json | undefined {
  const properties = ownValue(object, "properties");
  const candidates = [
    ownValue(object, "token"),
    ownValue(object, "api_key"),
    ownValue(object, "$token"),
    isJsonObject(properties) ? ownValue(properties, "token") : undefined,
  ];
  return candidates.find((candidate) => candidate !== undefined && candidate !== null);
}

/** Shape of a project key (posthog-api 9.3). */
function checkToken(token: Json): string | EnvelopeFault {
  const reason = tokenFault(token);
  return reason ? { kind: "bad-token", reason } : (token as string);
}

function tokenFault(token: Json): TokenFault | null {
  if (typeof token !== "string") return "not_string";
  if (token === "") return "empty";
  if (token.startsWith("phx_")) return "personal_api_key";
  if (token.length > 64) return "too_long";
  // Decoding turns NUL characters into U+FFFD, so both stand for one.
  if (token.includes("\0") || token.includes("\uFFFD")) return "null_byte";
  return /^[\x20-\x7e]+$/.test(token) ? null : "not_ascii";
}

function findSentAt(whole: JsonObject | null, beside: BesideBody): Date | null | EnvelopeFault {
  const fromQuery = readEpochMs(beside.querySentAt);
  if (fromQuery) return fromQuery;
  const given = (whole && ownValue(whole, "sent_at")) ?? beside.formSentAt ?? null;
  if (given === null || given === "") return null;
  const sentAt = readEpochMs(given) ?? (typeof given === "string" ? readMoment(given) : null);
  return sentAt ?? { kind: "bad-sent-at", detail: encodeJson(given) };
}
