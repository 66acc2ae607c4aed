import { cleanText } from "@hedgerow/core/events/clean-json";

/**
 * A parameter of a query string, as text that stores can hold: the last one where it stands more
 * than once, `undefined` where it is absent.
 * @param query what Fastify parsed: texts, and lists of them for repeated parameters
 */
export function queryText(query: unknown, name: string): string | undefined {
  const value = (query as Readonly<Record<string, unknown>>)[name];
  const last = Array.isArray(value) ? value.at(-1) : value;
  return typeof last === "string" ? cleanText(last) : undefined;
}
