import type { FastifyRequest } from "fastify";
import { Refusal } from "./errors.ts";
import { queryText } from "./query-text.ts";

const DEFAULT_LIMIT = 10;
const MAX_LIMIT = 1000;
const MAX_PAGE = 1_000_000;

/** The `page` (from 1) and `limit` of lists that are paged by number; nonsense means the defaults (posthog-api 2). */
export function pageNumberOf(request: FastifyRequest): { page: number; limit: number } {
  const number = (name: string) => {
    const text = queryText(request.query, name) ?? "";
    return /^[1-9]\d{0,8}$/.test(text) ? Number(text) : undefined;
  };
  return {
    page: Math.min(number("page") ?? 1, MAX_PAGE),
    limit: Math.min(number("limit") ?? DEFAULT_LIMIT, MAX_LIMIT),
  };
}

/** Absolute links to the neighbouring pages, other parameters kept. */
export function pageNumberLinks(
  request: FastifyRequest,
  { page, hasMore }: { page: number; hasMore: boolean },
): { next: string | null; previous: string | null } {
  const link = (number: number) => {
    const text = `${request.protocol}://${request.host}${request.originalUrl}`;
    if (!URL.canParse(text)) throw new Refusal("invalid_input", "Invalid Host header.");
    const url = new URL(text);
    url.searchParams.set("page", String(number));
    url.searchParams.sort();
    return url.href;
  };
  return { next: hasMore ? link(page + 1) : null, previous: page > 1 ? link(page - 1) : null };
}
