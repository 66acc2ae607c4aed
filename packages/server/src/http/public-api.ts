import type { FastifyReply, FastifyRequest } from "fastify";
import { type App, MAX_BODY_BYTES, withMethodsChecked } from "./app.ts";

/**
 * A scope of routes for SDKs: any origin, no cookies, bodies handed over as bytes whatever their
 * content type claims (`decodeBody` finds out what they are).
 */
export function publicApi(app: App, register: (app: App) => void): void {
  app.register(async (scope) => {
    const open = scope as App;
    open.removeAllContentTypeParsers();
    open.addContentTypeParser(
      "*",
      { parseAs: "buffer", bodyLimit: MAX_BODY_BYTES },
      (_request, body, done) => done(null, body),
    );
    // Not async: every flag request would wait one more turn.
    open.addHook("onRequest", (request, reply, done) => {
      allowOrigin(request, reply);
      done();
    });
    open.addHook("onRoute", ({ url, method, schema }) => {
      if ([method].flat().includes("OPTIONS") || schema?.hide) return;
      if (open.hasRoute({ url, method: "OPTIONS" })) return;
      open.options(url, { schema: { hide: true } }, async (_request, reply) =>
        reply.code(200).send({ status: 1 }),
      );
    });
    withMethodsChecked(open, register);
  });
}

/**
 * CORS for public routes: nothing there depends on cookies, so any origin may call and any header a
 * preflight asks for is allowed (tracing tools add their own). Errors carry the headers too.
 */
function allowOrigin(request: FastifyRequest, reply: FastifyReply): void {
  const { origin } = request.headers;
  reply.header("access-control-allow-origin", origin ?? "*");
  if (origin === undefined) return;
  reply.header("vary", "Origin");
  reply.header("access-control-allow-credentials", "true");
  if (request.method !== "OPTIONS") return;
  reply.header("access-control-allow-methods", "GET, POST, OPTIONS");
  reply.header(
    "access-control-allow-headers",
    request.headers["access-control-request-headers"] ?? "X-Requested-With,Content-Type",
  );
  reply.header("access-control-max-age", "86400");
}
