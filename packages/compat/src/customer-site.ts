import { once } from "node:events";
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { PROJECT_KEY } from "./server-under-test.ts";

/** The ways in which a site can carry the browser SDK. */
export const SDK_PAGES = ["snippet", "npm", "npm-2024"] as const;
export type SdkPage = (typeof SDK_PAGES)[number];

/** What the SDK offers to pages, as far as tests use it. */
export interface PageSdk {
  capture(event: string, properties?: Record<string, unknown>): void;
  identify(distinctId: string, properties?: Record<string, unknown>): void;
  group(type: string, key: string, properties?: Record<string, unknown>): void;
  reset(): void;
  get_distinct_id(): string;
  getFeatureFlag(key: string): string | boolean | undefined;
  getFeatureFlagPayload(key: string): unknown;
  isFeatureEnabled(key: string): boolean | undefined;
  reloadFeatureFlags(): void;
  onFeatureFlags(callback: (flags: string[], values: Record<string, unknown>) => void): void;
  setPersonPropertiesForFlags(properties: Record<string, unknown>): void;
  setGroupPropertiesForFlags(properties: Record<string, Record<string, unknown>>): void;
  updateEarlyAccessFeatureEnrollment(key: string, isEnrolled: boolean): void;
  getEarlyAccessFeatures(
    callback: (features: readonly Record<string, unknown>[]) => void,
    forceReload?: boolean,
  ): void;
  readonly LIB_VERSION?: string;
  readonly __loaded?: boolean;
}

declare global {
  interface Window {
    posthog: PageSdk;
    /** What `onFeatureFlags` was called with, call by call. */
    flagCalls: { flags: string[]; values: Record<string, unknown> }[];
  }
}

/** A small site of a customer, on another origin than the product. */
export interface CustomerSite {
  readonly origin: string;
  /** The address of a page that carries the SDK, started with these settings for a project. */
  page(sdk: SdkPage, settings?: Record<string, unknown>, projectKey?: string): string;
  /** A page without the SDK. */
  readonly emptyPage: string;
  close(): Promise<void>;
}

/** Serves pages whose SDK talks to the product at `api`. */
export async function openCustomerSite(api: string): Promise<CustomerSite> {
  const modules: Readonly<Record<string, Buffer>> = {
    "/npm.js": readDistFile("posthog-js", "module.mjs"),
    "/npm-2024.js": readDistFile("posthog-js-2024", "es.js"),
  };
  const site = createServer((request, response) => {
    const url = new URL(request.url ?? "/", "http://localhost");
    const module = modules[url.pathname];
    if (module) {
      response.setHeader("content-type", "text/javascript; charset=utf-8");
      response.end(module);
      return;
    }
    response.setHeader("content-type", "text/html; charset=utf-8");
    const sdk = SDK_PAGES.find((name) => url.pathname === `/${name}`);
    const [key, settings] = ["key", "settings"].map((name) => url.searchParams.get(name) ?? "");
    response.end(htmlOf(sdk ? scriptsOf(sdk, { key: key ?? "", settings: settings ?? "" }) : ""));
  });
  site.listen(0, "127.0.0.1");
  await once(site, "listening");
  const address = site.address();
  if (address === null || typeof address === "string") throw new Error("no port was given");
  // Another host name than the product's, so that browsers see another site and not just a port.
  const origin = `http://localhost:${address.port}`;
  return {
    origin,
    emptyPage: `${origin}/empty`,
    page(sdk, settings = {}, key = PROJECT_KEY) {
      const all = JSON.stringify({ api_host: api, ...SETTINGS, ...settings });
      return `${origin}/${sdk}?${new URLSearchParams({ key, settings: all })}`;
    },
    async close() {
      site.close();
      site.closeAllConnections();
      await once(site, "close");
    },
  };
}

// The SDK takes a driven browser for a robot and would keep its events to itself; it gives up flags
// after three seconds, in which a machine that runs much else may not have answered.
const SETTINGS = { opt_out_useragent_filter: true, feature_flag_request_timeout_ms: 60_000 };

function readDistFile(packageName: string, file: string): Buffer {
  const manifest = createRequire(import.meta.url).resolve(`${packageName}/package.json`);
  return readFileSync(join(dirname(manifest), "dist", file));
}

function htmlOf(scripts: string): string {
  return `<!doctype html><html lang="en"><head><meta charset="utf-8"><title>A site</title>
<link rel="icon" href="data:,">${scripts}</head><body><button id="buy">Buy</button></body></html>`;
}

function scriptsOf(
  sdk: SdkPage,
  { key, settings }: { readonly key: string; readonly settings: string },
): string {
  const start = `posthog.init(${JSON.stringify(key)}, ${settings.replaceAll("<", "\\u003c")});
  posthog.onFeatureFlags((flags, values) => window.flagCalls.push({ flags, values }));`;
  const prepare = "<script>window.flagCalls = [];</script>";
  if (sdk !== "snippet") {
    return `${prepare}<script type="module">
  import posthog from "/${sdk}.js";
  window.posthog = posthog;
  ${start}
</script>`;
  }
  return `${prepare}<script>
  ${SNIPPET}
  ${start}
  posthog.capture("captured before the SDK was there", { early: true });
</script>`;
}

/**
 * What a site pastes into its head: a stand-in that keeps calls in a list until the SDK, loaded from
 * the product, works them off. The SDK expects an array with `_i` (calls of `init`), `__SV` and `people`.
 */
const SNIPPET = `
  (function () {
    if (window.posthog && window.posthog.__SV) return;
    const waiting = (window.posthog = []);
    waiting._i = [];
    waiting.__SV = 1;
    waiting.people = [];
    const methods =
      "capture identify group register reset reloadFeatureFlags onFeatureFlags setPersonPropertiesForFlags";
    for (const method of methods.split(" ")) {
      waiting[method] = (...args) => waiting.push([method, ...args]);
    }
    waiting.init = (token, settings, name) => {
      const script = document.createElement("script");
      script.async = true;
      script.crossOrigin = "anonymous";
      script.src = settings.api_host + "/static/array.js";
      document.head.append(script);
      waiting._i.push([token, settings, name ?? "posthog"]);
    };
  })();`;
