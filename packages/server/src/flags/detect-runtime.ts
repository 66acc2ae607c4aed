import type { IncomingHttpHeaders } from "node:http";

const SERVER_LIBRARIES =
  /^(posthog-(python|ruby|php|java|go|node|elixir|rust|dotnet|server)|PostHog-(php|go|Java)|python-requests|Go-http-client|node-fetch|undici|axios)\b/i;
const CLIENT_LIBRARIES =
  /^(posthog-(js|ios|android|flutter|react-native|unity)|Mozilla\/|Dart\/|okhttp\/|CFNetwork)/i;

/**
 * Where a flag request comes from, for flags limited to one runtime (flag-evaluation 12.2): official
 * SDKs name themselves in the user agent, browsers always send one of the fetch headers.
 * `null` when nothing tells.
 */
export function detectRuntime(headers: IncomingHttpHeaders): "client" | "server" | null {
  const agent = headers["user-agent"] ?? "";
  if (SERVER_LIBRARIES.test(agent)) return "server";
  if (headers.origin !== undefined || headers.referer !== undefined) return "client";
  if (headers["sec-fetch-mode"] !== undefined) return "client";
  return CLIENT_LIBRARIES.test(agent) ? "client" : null;
}
