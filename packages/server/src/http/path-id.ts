import type { FastifyRequest } from "fastify";
import { Refusal } from "./errors.ts";

/** The `:id` of a path as a record number; whatever cannot be one is an unknown id (404). */
export function pathIdOf(request: FastifyRequest): number {
  const { id } = request.params as { id?: string };
  if (id === undefined || !/^\d{1,9}$/.test(id)) throw new Refusal("not_found", "Not found.");
  return Number(id);
}
