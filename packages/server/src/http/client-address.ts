import { BlockList, isIP } from "node:net";
import type { FastifyRequest } from "fastify";

/** Networks whose addresses say nothing about a place, or cannot be reached from outside (RFC 6890). */
const PRIVATE_NETWORKS = [
  "0.0.0.0/8",
  "10.0.0.0/8",
  "100.64.0.0/10",
  "127.0.0.0/8",
  "169.254.0.0/16",
  "172.16.0.0/12",
  "192.0.0.0/24",
  "192.0.2.0/24",
  "192.168.0.0/16",
  "198.18.0.0/15",
  "198.51.100.0/24",
  "203.0.113.0/24",
  "224.0.0.0/3",
  "::/127",
  "100::/64",
  "2001:db8::/32",
  "fc00::/7",
  "fe80::/10",
  "ff00::/8",
];

const privateNetworks = networks(PRIVATE_NETWORKS);

/** Tells whether an address lies in one of some networks. */
export type IsInNetworks = (address: string) => boolean;

/** Prepares IP addresses and CIDR ranges, already checked, for quick membership tests. */
export function networks(ranges: readonly string[]): IsInNetworks {
  if (ranges.length === 0) return () => false;
  const list = new BlockList();
  for (const range of ranges) {
    const [address = "", bits] = range.split("/");
    const family = isIP(address) === 6 ? "ipv6" : "ipv4";
    if (bits === undefined) list.addAddress(address, family);
    else list.addSubnet(address, Number(bits), family);
  }
  return (address) => list.check(address, isIP(address) === 6 ? "ipv6" : "ipv4");
}

/** True for addresses of the public internet. */
export function isPublicAddress(address: string): boolean {
  return isIP(address) !== 0 && !privateNetworks(address);
}

/**
 * The bare address in a forwarding entry: without brackets, port and zone, and an IPv4 address that
 * is written as an IPv6 one as what it is. `null` for anything that is no address.
 */
export function readAddress(entry: string | undefined): string | null {
  if (entry === undefined) return null;
  const text = entry.trim().replace(/^"|"$/g, "");
  const bracketed = /^\[([^\]]+)\](?::\d+)?$/.exec(text)?.[1];
  const bare = bracketed ?? (/^[\d.]+:\d+$/.test(text) ? text.slice(0, text.indexOf(":")) : text);
  const address = bare.replace(/%.*$/, "").replace(/^::ffff:(?=\d+\.\d+\.\d+\.\d+$)/i, "");
  return isIP(address) === 0 ? null : address;
}

function entriesOf(header: string | string[] | undefined): string[] {
  if (header === undefined) return [];
  return (typeof header === "string" ? header : header.join(",")).split(",");
}

/**
 * The address whose place a flag request is evaluated for (decision 4): the first public address of
 * a header literally named `HTTP_X_FORWARDED_FOR` (proxies may write it with hyphens), else of
 * `X-Forwarded-For`, else the peer's. Anyone may name any address here: it grants nothing.
 */
export function geoAddressOf(request: FastifyRequest): string | null {
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
  request: FastifyRequest,
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
