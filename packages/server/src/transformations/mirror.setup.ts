import { createServer } from "node:http";
import type { AddressInfo } from "node:net";

/** What a {@link openMirror} answers for a path: a body, a redirect, or nothing (404). */
export type MirrorAnswer = string | Buffer | { readonly redirect: string };

/** A server that stands in for GitHub, GitLab and npm. Paths are looked up with their query, then without. */
export async function openMirror() {
  const answers = new Map<string, MirrorAnswer>();
  const asked: { path: string; headers: Readonly<Record<string, unknown>> }[] = [];
  const server = createServer((request, response) => {
    const path = request.url ?? "/";
    asked.push({ path, headers: request.headers });
    const answer = answers.get(path) ?? answers.get(path.split("?")[0] ?? "");
    if (answer === undefined) {
      response.writeHead(404, { "content-type": "text/html" }).end("<html>no such thing</html>");
    } else if (typeof answer === "string" || Buffer.isBuffer(answer)) {
      response.end(answer);
    } else {
      response.writeHead(302, { location: answer.redirect }).end();
    }
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    answers,
    asked,
    close: async () => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
