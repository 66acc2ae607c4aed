import { readMoment } from "@hedgerow/core/events/event-time";
import type { FastifyRequest } from "fastify";
import { Type } from "typebox";
import type { App } from "../http/app.ts";
import { clientAddressOf } from "../http/client-address.ts";
import { bearerOf } from "../http/credentials.ts";
import { Refusal } from "../http/errors.ts";
import { namesUnknownEncoding } from "../http/open-body.ts";
import { MapOf } from "../http/wire-schemas.ts";
import { networks } from "../platform/network-address.ts";
import { type CaptureRouteDeps, openBody } from "./capture.routes.ts";
import { captureV1 } from "./capture-v1.ts";
import type { Sdk } from "./ingestion-warning-store.ts";
import { sdkOfRequest } from "./sdk.ts";

const Results = Type.Object({
  results: MapOf(
    Type.Object({
      result: Type.Union(
        [
          Type.Literal("ok"),
          Type.Literal("warning"),
          Type.Literal("limited"),
          Type.Literal("drop"),
          Type.Literal("retry"),
        ],
        { description: "Events that say `retry` are to be sent again; all else is final." },
      ),
      details: Type.Optional(Type.String()),
    }),
    { description: "By uuid of the event as sent." },
  ),
});

/** Capture v1: one path, the key in a header, a result for each event (posthog-api 9.11). */
export function captureV1Routes(app: App, deps: CaptureRouteDeps): void {
  const isTrustedProxy = networks(deps.trustedProxies);

  app.post(
    "/i/v1/analytics/events",
    {
      schema: {
        tags: ["events"],
        summary: "Capture a batch of events and tell the result of each",
        response: { 200: Results },
      },
    },
    async (request, reply) => {
      const requestId = request.headers["posthog-request-id"];
      if (typeof requestId === "string") reply.header("posthog-request-id", requestId);
      reply.header("access-control-expose-headers", "PostHog-Request-Id, Retry-After, Date");
      const token = tokenOf(request);
      refuseUnknownEncoding(request);
      const { results, retryAfterSeconds } = await openBody(deps, request, ({ value, sizes }) =>
        captureV1(deps, {
          body: value,
          sizes,
          token,
          sentAt: sentAtOf(request),
          clientAddress: clientAddressOf(request, isTrustedProxy),
          sdk: sdkOfRequest(request),
          library: request.headers["posthog-sdk-info"] ? namedSdk(sdkOfRequest(request)) : null,
        }),
      );
      if (retryAfterSeconds !== null) reply.header("retry-after", String(retryAfterSeconds));
      return { results: Object.fromEntries(results) };
    },
  );
}

function namedSdk(sdk: Sdk): Sdk | null {
  return sdk.name === "" ? null : sdk;
}

function tokenOf(request: FastifyRequest): string {
  const token = bearerOf(request);
  if (token === undefined) {
    throw new Refusal(
      "missing_api_key",
      "API key not provided. Send your project API key as `Authorization: Bearer`.",
    );
  }
  if (token.startsWith("phx_")) {
    throw new Refusal(
      "personal_api_key",
      "Provided API key is not valid: this is a personal API key (phx_…). Events are captured with the project API key (phc_…).",
    );
  }
  return token;
}

function refuseUnknownEncoding({ headers }: FastifyRequest): void {
  const encoding = headers["content-encoding"];
  if (!namesUnknownEncoding(encoding)) return;
  throw new Refusal(
    "unsupported_media_type",
    `Unsupported content encoding "${encoding}": use gzip, deflate, br or zstd.`,
  );
}

function sentAtOf({ headers }: FastifyRequest): Date | null {
  const given = headers["posthog-request-timestamp"];
  if (given === undefined || given === "") return null;
  const sentAt = typeof given === "string" ? readMoment(given) : null;
  if (sentAt) return sentAt;
  throw new Refusal(
    "invalid_payload",
    "Malformed request data: PostHog-Request-Timestamp is not an ISO 8601 date and time.",
    { attr: "PostHog-Request-Timestamp" },
  );
}
