import { ask } from "./bridge.ts";
import { stringify } from "./intrinsics.ts";

export const posthog = {
  async capture(event: unknown, properties?: Record<string, unknown>): Promise<void> {
    // What has no name is refused by the host, which tells so in the log.
    await ask("capture", [typeof event === "string" ? event : "", properties ?? {}]);
  },
  api: {
    get: callApi("GET"),
    post: callApi("POST"),
    put: callApi("PUT"),
    delete: callApi("DELETE"),
  },
};

interface ApiOptions {
  data?: Record<string, unknown>;
  headers?: Record<string, string>;
  host?: string;
  projectApiKey?: string;
  personalApiKey?: string;
}

let siteUrl = "";

/** Where `posthog.api` finds its host, unless it is told another. */
export function setSiteUrl(url: string): void {
  siteUrl = url;
}

/**
 * What PostHog's `posthog.api` does, with two differences: no key is made for transformations, so
 * that both have to be given, and the host has to be granted as for any `fetch`.
 */
function callApi(verb: string) {
  return async (path: unknown, options: ApiOptions = {}): Promise<unknown> => {
    const { data, headers, host = siteUrl, projectApiKey, personalApiKey } = options ?? {};
    if (typeof path !== "string") throw new TypeError("posthog.api needs a path");
    if (!projectApiKey || !personalApiKey) {
      throw new Error(
        "posthog.api needs the options personalApiKey and projectApiKey: no key is made for transformations",
      );
    }
    const query = new URLSearchParams({
      ...(verb === "GET" ? (data as Record<string, string>) : {}),
      token: projectApiKey,
    });
    const base = `${host.replace(/\/+$/, "")}/${path.replace(/^\/+/, "")}`;
    const hasBody = verb !== "GET" && data !== undefined;
    return fetch(`${base}${base.includes("?") ? "&" : "?"}${query}`, {
      method: verb,
      headers: {
        Authorization: `Bearer ${personalApiKey}`,
        ...(hasBody && { "Content-Type": "application/json" }),
        ...headers,
      },
      ...(hasBody && { body: stringify(data) }),
    });
  };
}
