/**
 * The URL of a server on this machine that listens at an address. Every address of the machine
 * (`0.0.0.0`, `::`) is told as `localhost`, and a port that the system chooses (0) not at all.
 * @param host a name, or an address of either version without brackets
 */
export function addressUrl(host: string, port: number): string {
  const name = host === "0.0.0.0" || host === "::" ? "localhost" : host;
  const authority = name.includes(":") ? `[${name}]` : name;
  return port === 0 ? `http://${authority}` : `http://${authority}:${port}`;
}
