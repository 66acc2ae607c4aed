import type { FastifyRequest } from "fastify";
import { Refusal } from "./errors.ts";
import { queryText } from "./query-text.ts";

/** A record number as the wire writes it; `undefined` for a text that cannot be one. */
export function readId(text: string | null | undefined): number | undefined {
  return text && /^\d{1,9}$/.test(text) ? Number(text) : undefined;
}

/** The `:id` of a path as a record number; whatever cannot be one is an unknown id (404). */
export function pathIdOf(request: FastifyRequest): number {
  const id = readId((request.params as { id?: string }).id);
  if (id === undefined) throw new Refusal("not_found", "Not found.");
  return id;
}

/**
 * A record number that a query names; `undefined` where it names none. Throws a {@link Refusal} for
 * a text that cannot be one.
 */
export function queryId(request: FastifyRequest, name: string): number | undefined {
  const text = queryText(request.query, name);
  if (text === undefined || text === "") return undefined;
  const id = readId(text);
  if (id === undefined) {
    throw new Refusal("invalid_input", "A valid integer is required.", { attr: name });
  }
  return id;
}
