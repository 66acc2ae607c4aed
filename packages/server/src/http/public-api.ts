import type { FastifyReply, FastifyRequest, FastifySchema, RouteHandler } from "fastify";
import {
  type App,
  arrivingBodiesOf,
  frontDoorOf,
  MAX_BODY_BYTES,
  withMethodsChecked,
} from "./app.ts";
import { countArriving } from "./arriving-bodies.ts";
import { corsHeadersOf } from "./cors.ts";
import { JSON_TYPE } from "./errors.ts";
import type { PlainAnswer, PlainHandler } from "./front-door.ts";

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
    const arriving = arrivingBodiesOf(open);
    open.addHook("preParsing", (request, _reply, payload, done) => {
      done(null, countArriving(arriving, request.headers, { payload, maxBytes: MAX_BODY_BYTES }));
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

/** What the description of the API tells of routes that read flag definitions, with a key of two kinds. */
export const DEFINITIONS_SECURITY = [{ secretKey: [] }, { personalKey: ["feature_flag:read"] }];

interface PlainRoute {
  readonly schema: FastifySchema;
  readonly handler: PlainHandler;
}

/**
 * A `POST` route of a public scope that is asked too often for the framework's life cycle: the front
 * door answers it, and the framework whatever the front door leaves alone.
 */
export function postPlain(app: App, path: string, { schema, handler }: PlainRoute): void {
  frontDoorOf(app).add(path, { handler, isPatient: false });
  app.post(path, { schema }, inFramework(handler));
}

/**
 * The same for data that is taken in: it may wait for those who ask. With `GET` beside it: the
 * framework's alone, nobody uses it often.
 */
export function takePlain(app: App, path: string, { schema, handler }: PlainRoute): void {
  frontDoorOf(app).add(path, { handler, isPatient: true });
  app.route({ method: ["GET", "POST"], url: path, schema, handler: inFramework(handler) });
}

function inFramework(handler: PlainHandler): RouteHandler {
  return (request, reply) => {
    const send = (text: PlainAnswer) => {
      if (text === "") return reply.code(204).send();
      reply.header("content-type", JSON_TYPE);
      if (typeof text === "string") return reply.send(text);
      reply.raw.once("finish", text.release);
      return reply.send(text.bytes);
    };
    const answer = handler(request);
    return answer instanceof Promise ? answer.then(send) : send(answer);
  };
}

/** CORS; any header a preflight asks for is allowed (tracing tools add their own). */
function allowOrigin({ method, headers }: FastifyRequest, reply: FastifyReply): void {
  const fields = corsHeadersOf(headers);
  for (let at = 0; at < fields.length; at += 2) reply.header(fields[at] ?? "", fields[at + 1]);
  if (method !== "OPTIONS" || headers.origin === undefined) return;
  reply.header("access-control-allow-methods", "GET, POST, OPTIONS");
  reply.header(
    "access-control-allow-headers",
    headers["access-control-request-headers"] ?? "X-Requested-With,Content-Type",
  );
  reply.header("access-control-max-age", "86400");
}
