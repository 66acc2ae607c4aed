import type { FastifyRequest } from "fastify";
import { type TSchema, Type } from "typebox";
import { Refusal } from "./errors.ts";
import { queryText } from "./query-text.ts";

export interface Page {
  readonly limit: number;
  readonly offset: number;
}

const DEFAULT_LIMIT = 100;
/** Page sizes are bounded; PostHog's lists are not, but a page is held in memory. */
const MAX_LIMIT = 1000;

/** The `limit` and `offset` of a list request; nonsense falls back to the defaults (posthog-api 2). */
export function pageOf(request: FastifyRequest): Page {
  const number = (name: string, atLeast: number) =>
    wholeNumber(queryText(request.query, name), atLeast);
  return {
    limit: Math.min(number("limit", 1) ?? DEFAULT_LIMIT, MAX_LIMIT),
    offset: number("offset", 0) ?? 0,
  };
}

function wholeNumber(text: string | undefined, atLeast: number): number | undefined {
  if (text === undefined || !/^\d{1,15}$/.test(text)) return undefined;
  const number = Number(text);
  return number >= atLeast ? number : undefined;
}

/** Wire schema of a list answer. */
export function ListOf<Item extends TSchema>(item: Item) {
  return Type.Object({
    count: Type.Integer(),
    next: Type.Union([Type.String(), Type.Null()]),
    previous: Type.Union([Type.String(), Type.Null()]),
    results: Type.Array(item),
  });
}

/** Query parameters of every list. */
export const PageQuery = {
  limit: Type.Optional(
    Type.String({ description: "Number of results per page, 100 unless given." }),
  ),
  offset: Type.Optional(
    Type.String({ description: "The initial index from which to return the results." }),
  ),
};

/** The list envelope with absolute links to the neighbouring pages (posthog-api 2). */
export function listAnswer<Item>(
  request: FastifyRequest,
  page: Page,
  { count, results }: { count: number; results: Item[] },
) {
  const { limit, offset } = page;
  return {
    count,
    next: offset + limit < count ? link(request, limit, offset + limit) : null,
    previous: offset > 0 ? link(request, limit, offset - limit) : null,
    results,
  };
}

/** Wire schema of an answer of {@link openListAnswer}. */
export function OpenListOf<Item extends TSchema>(item: Item) {
  const count = Type.Union([Type.Integer(), Type.Null()]);
  return Type.Object({ ...ListOf(item).properties, count });
}

/**
 * {@link listAnswer} for lists that may be too long to be counted (`count` is `null` then) and whose
 * pages may end before their limit.
 */
export function openListAnswer<Item>(
  request: FastifyRequest,
  { limit, offset }: Page,
  { count, hasMore, results }: { count: number | null; hasMore: boolean; results: Item[] },
) {
  return {
    count,
    next: hasMore ? link(request, limit, offset + results.length) : null,
    previous: offset > 0 ? link(request, limit, offset - limit) : null,
    results,
  };
}

/**
 * {@link openListAnswer} for lists that go on from a place: whatever is deleted meanwhile, nothing is
 * left out or doubled by who follows the links. `next` carries the place as `cursor`, and `offset`
 * for counting only.
 * @param cursor where the next page starts; `null` at the end
 */
export function cursorListAnswer<Item>(
  request: FastifyRequest,
  { limit, offset }: Page,
  { count, cursor, results }: { count: number | null; cursor: string | null; results: Item[] },
) {
  return {
    count,
    next: cursor === null ? null : link(request, limit, offset + results.length, cursor),
    previous: offset > 0 ? link(request, limit, offset - limit) : null,
    results,
  };
}

/** A place in a list as a `cursor`. */
export function writeCursor(place: readonly [createdAtMs: number, key: number | string]): string {
  return Buffer.from(JSON.stringify(place)).toString("base64url");
}

/** The place that a request's `cursor` names; `undefined` for none, refused where it cannot be read. */
export function cursorOf(
  request: FastifyRequest,
): readonly [createdAtMs: number, key: number | string] | undefined {
  const text = queryText(request.query, "cursor");
  if (!text) return undefined;
  try {
    const place: unknown = JSON.parse(Buffer.from(text, "base64url").toString());
    const [createdAtMs, key] = place as [unknown, unknown];
    if (
      Number.isSafeInteger(createdAtMs) &&
      (typeof key === "string" || Number.isSafeInteger(key))
    ) {
      return [createdAtMs as number, key as number | string];
    }
  } catch {
    // Refused below.
  }
  throw new Refusal("invalid_input", "Invalid cursor", { attr: "cursor" });
}

function link(request: FastifyRequest, limit: number, offset: number, cursor?: string): string {
  const text = `${request.protocol}://${request.host}${request.originalUrl}`;
  if (!URL.canParse(text)) throw new Refusal("invalid_input", "Invalid Host header.");
  const url = new URL(text);
  url.searchParams.set("limit", String(limit));
  if (offset > 0) url.searchParams.set("offset", String(offset));
  else url.searchParams.delete("offset");
  if (cursor === undefined) url.searchParams.delete("cursor");
  else url.searchParams.set("cursor", cursor);
  url.searchParams.sort();
  return url.href;
}
