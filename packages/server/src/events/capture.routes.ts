import type { FastifyReply, FastifyRequest } from "fastify";
import type { App } from "../http/app.ts";
import { clientAddressOf } from "../http/client-address.ts";
import { decodeBody, encodedBodyOf } from "../http/decode-body.ts";
import { queryText } from "../http/query-text.ts";
import { networks } from "../platform/network-address.ts";
import { CaptureAnswer, CaptureQuery, wireRejected } from "./capture.schemas.ts";
import { type CaptureDeps, type CaptureInput, capture, discard } from "./capture.ts";

const tags = ["events"];

/** Paths of one meaning: SDKs of every age have their own (posthog-api 9.1). */
const CAPTURE_PATHS = [
  "/capture",
  "/e",
  "/track",
  "/batch",
  "/i/v0/e",
  "/i/v0/ai",
  "/i/v0/ai/batch",
] as const;

export interface CaptureRouteDeps extends CaptureDeps {
  /** Addresses and networks of proxies whose `X-Forwarded-For` is believed. */
  readonly trustedProxies: readonly string[];
}

/** The routes that take events from SDKs (posthog-api 9, decisions 14 and 15). */
export function captureRoutes(app: App, deps: CaptureRouteDeps): void {
  const isTrustedProxy = networks(deps.trustedProxies);

  const captureAs =
    (nameForUnnamed: string | null) => async (request: FastifyRequest, reply: FastifyReply) => {
      const input = readRequest(request);
      const clientAddress = clientAddressOf(request, isTrustedProxy);
      const rejected = await capture(deps, { ...input, clientAddress, nameForUnnamed });
      if (isBeacon(request)) return reply.code(204).send();
      return rejected.length === 0
        ? { status: 1 as const }
        : { status: 1 as const, rejected: rejected.map(wireRejected) };
    };

  async function takeRecording(request: FastifyRequest, reply: FastifyReply) {
    await discard(deps.projects, readRequest(request));
    return isBeacon(request) ? reply.code(204).send() : { status: 1 as const };
  }

  const schema = (summary: string) => ({
    tags,
    summary,
    querystring: CaptureQuery,
    response: { 200: CaptureAnswer },
  });

  const method = ["GET", "POST"];
  for (const url of CAPTURE_PATHS) {
    const summary = "Capture one event, a list of events or a batch";
    app.route({ method, url, schema: schema(summary), handler: captureAs(null) });
  }
  app.route({
    method,
    url: "/engage",
    schema: schema("Capture events; those without a name set properties of their person"),
    handler: captureAs("$identify"),
  });
  app.route({
    method,
    url: "/s",
    schema: schema("Accept session recordings, which are not kept"),
    handler: takeRecording,
  });
}

function readRequest(request: FastifyRequest): Pick<CaptureInput, "body" | "text" | "beside"> {
  const { value, text, form } = decodeBody(encodedBodyOf(request), "invalid_payload");
  const { query } = request;
  const beside = {
    token:
      form.get("api_key") ??
      form.get("token") ??
      queryText(query, "api_key") ??
      queryText(query, "token"),
    formSentAt: form.get("sent_at"),
    querySentAt: queryText(query, "sent_at") ?? queryText(query, "_"),
  };
  return { body: value, text, beside };
}

function isBeacon(request: FastifyRequest): boolean {
  return queryText(request.query, "beacon") === "1";
}
