import { isJsonObject } from "@hedgerow/core/json";
import type { FastifyRequest } from "fastify";
import { queryText } from "./query-text.ts";

export interface Credential {
  readonly key: string;
  /** In the words of the refusal it may lead to. */
  readonly source: "Authorization header" | "body" | "query string";
}

/**
 * Where a key is looked for: the header `Authorization: Bearer`, then a field of the body, then of
 * the query. The first place that holds anything decides; the others are not tried
 * (posthog-api 1.2).
 */
export function findCredential(
  request: FastifyRequest,
  field: "personal_api_key" | "secret_api_key",
): Credential | undefined {
  const bearer = bearerOf(request);
  if (bearer !== undefined) return { key: bearer, source: "Authorization header" };
  if (isJsonObject(request.body) && Object.hasOwn(request.body, field)) {
    return { key: textOf(request.body[field]), source: "body" };
  }
  const inQuery = queryText(request.query, field);
  return inQuery === undefined ? undefined : { key: inQuery, source: "query string" };
}

/** The key in the `Authorization` header, if there is one. */
export function bearerOf(request: Pick<FastifyRequest, "headers">): string | undefined {
  return /^Bearer +(\S.*)$/i.exec(request.headers.authorization ?? "")?.[1]?.trim();
}

/** Whether a key has the form of a secret project key, `phs_…`. */
export function isSecretProjectKey(key: string): boolean {
  return /^phs_[\w-]{1,200}$/.test(key);
}

/** What is no text is no key either: it is looked up as one that nobody has. */
function textOf(value: unknown): string {
  return typeof value === "string" ? value : "";
}
