import type { FastifyRequest } from "fastify";
import { Refusal } from "./errors.ts";

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
