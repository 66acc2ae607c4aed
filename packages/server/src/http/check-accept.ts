import type { FastifyRequest } from "fastify";
import { Refusal } from "./errors.ts";

/** What management routes answer with unless they say otherwise, errors of all of them included. */
const JSON_ALONE: readonly string[] = ["application/json"];

/** Route options of a route that answers with other media types, too. */
export function answersAlso(...types: readonly string[]) {
  return { mediaTypes: [...JSON_ALONE, ...types] };
}

/**
 * Throws a 406 {@link Refusal} where `Accept` names nothing that the route answers with (posthog-api 0). As
 * the framework of PostHog's API does, it looks at no weights.
 */
export function checkAccept({ headers, routeOptions }: FastifyRequest): void {
  const { accept } = headers;
  // What nearly everybody sends.
  if (accept === undefined || accept === "" || accept.includes("*/*")) return;
  const { mediaTypes = JSON_ALONE } = routeOptions.config as Partial<
    ReturnType<typeof answersAlso>
  >;
  const ranges = accept.split(",").map((range) => range.split(";")[0]?.trim().toLowerCase());
  const isMet = (type: string) =>
    ranges.some((range) => range === type || range === `${type.split("/")[0]}/*` || range === "*");
  if (mediaTypes.some(isMet)) return;
  throw new Refusal("not_acceptable", "Could not satisfy the request Accept header.");
}
