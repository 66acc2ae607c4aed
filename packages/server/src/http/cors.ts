import type { IncomingHttpHeaders } from "node:http";

/**
 * CORS for public routes, names and values in turn: nothing there depends on cookies, so any origin
 * may call. Errors carry the headers too.
 */
export function corsHeadersOf({ origin }: IncomingHttpHeaders): readonly string[] {
  if (origin === undefined) return FOR_ANYONE;
  return [
    "access-control-allow-origin",
    origin,
    "vary",
    "Origin",
    "access-control-allow-credentials",
    "true",
  ];
}

const FOR_ANYONE = ["access-control-allow-origin", "*"] as const;
