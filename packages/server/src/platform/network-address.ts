import { BlockList, isIP } from "node:net";

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
  const address = bare.replace(/%.*$/, "");
  const family = isIP(address);
  if (family === 0) return null;
  return (family === 6 && /ffff:/i.test(address) && mappedIpv4(address)) || address;
}

/** The IPv4 address that an IPv6 one stands for, however it is written. */
function mappedIpv4(address: string): string | undefined {
  const { hostname } = new URL(`http://[${address}]`);
  const words = /^\[::ffff:([0-9a-f]{1,4}):([0-9a-f]{1,4})\]$/.exec(hostname);
  if (!words) return undefined;
  return words
    .slice(1)
    .map((word) => Number.parseInt(word, 16))
    .flatMap((word) => [word >> 8, word & 255])
    .join(".");
}
