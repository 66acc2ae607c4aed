import type { FastifyRequest } from "fastify";
import { type IsInNetworks, isPublicAddress, readAddress } from "../platform/network-address.ts";

function entriesOf(header: string | string[] | undefined): string[] {
  if (header === undefined) return [];
  return (typeof header === "string" ? header : header.join(",")).split(",");
}

/**
 * The address whose place a flag request is evaluated for (decision 4): the first public address of
 * a header literally named `HTTP_X_FORWARDED_FOR` (proxies may write it with hyphens), else of
 * `X-Forwarded-For`, else the peer's. Anyone may name any address here: it grants nothing.
 */
export function geoAddressOf(request: Pick<FastifyRequest, "headers" | "ip">): string | null {
  const { headers } = request;
  const literal = headers.http_x_forwarded_for ?? headers["http-x-forwarded-for"];
  const forwarded = headers["x-forwarded-for"];
  if (literal === undefined && forwarded === undefined) return readAddress(request.ip);
  for (const header of [literal, forwarded]) {
    for (const entry of entriesOf(header)) {
      const address = readAddress(entry);
      if (address !== null && isPublicAddress(address)) return address;
    }
  }
  return readAddress(request.ip);
}

/**
 * The address an event is stored with (decision 4): the peer's, or behind trusted proxies the
 * nearest hop of `X-Forwarded-For`, read from the right, that is not one of them.
 */
export function clientAddressOf(
  request: Pick<FastifyRequest, "headers" | "ip">,
  isTrustedProxy: IsInNetworks,
): string | null {
  let address = readAddress(request.ip);
  const hops = entriesOf(request.headers["x-forwarded-for"]);
  while (address !== null && isTrustedProxy(address) && hops.length > 0) {
    const hop = readAddress(hops.pop());
    // Beyond an entry nobody can read, nothing is known.
    if (hop === null) break;
    address = hop;
  }
  return address;
}
