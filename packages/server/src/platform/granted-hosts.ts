const USUAL_PORTS: Readonly<Record<string, string>> = { "http:": "80", "https:": "443" };

const GRANT = /^(\*\.)?([a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?)(?::([0-9]{1,5}))?$/i;

/** Why a text grants no host as {@link isGrantedHost} takes it, for whom wrote it; `undefined` where it does. */
export function grantFault(text: string): string | undefined {
  const match = GRANT.exec(text);
  if (!match) {
    return "Expected a host such as api.example.com or *.example.com, with a port perhaps.";
  }
  const [, star, name = "", port] = match;
  if (port !== undefined && (Number(port) < 1 || Number(port) > 65_535)) {
    return "Ports are whole numbers from 1 to 65535.";
  }
  const labels = name.split(".");
  if (labels.includes("")) return "A host has no empty names between its dots.";
  if (star === undefined) return undefined;
  // Of an address, what stands behind is the narrower part.
  if (labels.length < 2 || /^[0-9]+$/.test(labels.at(-1) ?? "")) {
    return "A star needs two names behind it, such as *.example.com, and no address.";
  }
  return undefined;
}

/**
 * Whether a URL's host is among those that were granted: by name, or below one that is granted as
 * `*.name`; with its port where that is not the usual one.
 */
export function isGrantedHost(url: URL, granted: readonly string[]): boolean {
  const usual = USUAL_PORTS[url.protocol];
  if (usual === undefined) return false;
  const host = url.hostname.toLowerCase();
  const port = url.port === "" ? usual : url.port;
  return granted.some((one) => {
    const match = /^(.*?)(?::(\d+))?$/.exec(one.toLowerCase());
    const [, name = "", grantedPort] = match ?? [];
    if (grantedPort === undefined ? port !== usual : port !== grantedPort) return false;
    return name.startsWith("*.") ? host.endsWith(name.slice(1)) : host === name;
  });
}
