import { isJsonObject, type Json, ownValue } from "@hedgerow/core/json";
import { isGrantedHost } from "../../platform/granted-hosts.ts";
import { requestGuarded } from "../../platform/guarded-request.ts";
import type { IsInNetworks } from "../../platform/network-address.ts";
import type { GuestSettings } from "./sandbox-messages.ts";

const MAX_REDIRECTS = 5;
const MAX_BODY_CHARS = 4_000_000;

/**
 * What `fetch` in the sandbox does: asks a granted host, and none of a private network unless the
 * operator opened that.
 * @param argument `{ url, method, headers, latin1, redirect }` as it came from the sandbox
 */
export async function fetchGranted(
  argument: Json,
  { allowedHosts, limits }: GuestSettings,
  isNetworkOpen: IsInNetworks,
): Promise<Json> {
  const asked = isJsonObject(argument) ? argument : {};
  const url = new URL(String(ownValue(asked, "url")));
  if (!/^https?:$/.test(url.protocol)) {
    throw new Error(`TypeError: only http and https can be fetched, not ${url.protocol}`);
  }
  if (!isGrantedHost(url, allowedHosts)) {
    throw new Error(`TypeError: fetch of ${url.host} is not granted to this transformation`);
  }
  const latin1 = String(ownValue(asked, "latin1") ?? "");
  if (latin1.length > MAX_BODY_CHARS) throw new Error("TypeError: the body is too large");
  const headers: Record<string, string> = {};
  for (const pair of (ownValue(asked, "headers") ?? []) as readonly (readonly string[])[]) {
    headers[String(pair[0]).toLowerCase()] = String(pair[1]);
  }
  const method = String(ownValue(asked, "method") ?? "GET");
  if (!/^[A-Z]{1,20}$/.test(method) || method === "CONNECT" || method === "TRACE") {
    throw new Error(`TypeError: the method ${method.slice(0, 20)} cannot be used`);
  }
  const redirect = ownValue(asked, "redirect") ?? "follow";
  if (redirect !== "follow" && redirect !== "manual" && redirect !== "error") {
    const given = String(redirect).slice(0, 20);
    throw new Error(`TypeError: redirect has to be follow, manual or error, not ${given}`);
  }
  const outcome = await requestGuarded(url, {
    method,
    headers,
    ...(latin1 !== "" && { body: Buffer.from(latin1, "latin1") }),
    timeoutMs: limits.fetchMs,
    maxBytes: limits.fetchBytes,
    maxRedirects: MAX_REDIRECTS,
    redirect,
    isOpen: (target) => isGrantedHost(target, allowedHosts),
    isAllowed: ({ address }) => isNetworkOpen(address),
  });
  if (outcome.kind !== "answered") throw new Error(`TypeError: fetch failed: ${outcome.detail}`);
  return {
    status: outcome.status,
    statusText: outcome.statusText,
    url: outcome.url,
    redirected: outcome.url !== url.href,
    headers: Object.entries(outcome.headers).flatMap(([name, value]) =>
      [value ?? []].flat().map((item) => [name, item]),
    ),
    latin1: outcome.body.toString("latin1"),
  };
}
