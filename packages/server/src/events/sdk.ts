import { type JsonObject, ownValue } from "@hedgerow/core/json";
import type { FastifyRequest } from "fastify";
import { queryText } from "../http/query-text.ts";
import type { Sdk } from "./ingestion-warning-store.ts";

const MAX_CHARACTERS = 60;

/** The SDK that an event names in its properties; `undefined` where it names none. */
export function sdkOfProperties(properties: JsonObject): Sdk | undefined {
  const name = ownValue(properties, "$lib");
  if (typeof name !== "string" || name === "") return undefined;
  const version = ownValue(properties, "$lib_version");
  return sdk(name, typeof version === "string" ? version : "");
}

/** The SDK that a request names beside its body: in headers, or the query's version of posthog-js. */
export function sdkOfRequest({ headers, query }: Pick<FastifyRequest, "headers" | "query">): Sdk {
  const info = headers["posthog-sdk-info"];
  const named = typeof info === "string" ? info : (headers["user-agent"] ?? "");
  const [, name, version = ""] = /^([\w.@-]+)\/([\w.+-]+)/.exec(named) ?? [];
  const inQuery = queryText(query, "lib_version") ?? queryText(query, "ver");
  // Only browsers say it in the query, and their user agent tells the browser.
  if (inQuery !== undefined) return sdk("web", inQuery);
  return name === undefined || name === "Mozilla" ? sdk("", "") : sdk(name, version);
}

function sdk(name: string, version: string): Sdk {
  return { name: name.slice(0, MAX_CHARACTERS), version: version.slice(0, MAX_CHARACTERS) };
}
