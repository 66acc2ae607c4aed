const USUAL_PORTS: Readonly<Record<string, string>> = { "http:": "80", "https:": "443" };

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
