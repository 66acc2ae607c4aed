import type { App } from "../http/app.ts";
import { clientAddressOf } from "../http/client-address.ts";
import { bearerOf } from "../http/credentials.ts";
import { type DecodedBody, encodedBodyOf } from "../http/decode-body.ts";
import type { Refusal } from "../http/errors.ts";
import type { PlainHandler, PlainRequest } from "../http/front-door.ts";
import { takePlain } from "../http/public-api.ts";
import { queryText } from "../http/query-text.ts";
import { networks } from "../platform/network-address.ts";
import { CaptureAnswer, CaptureQuery, wireCaptured } from "./capture.schemas.ts";
import { type CaptureDeps, type CaptureInput, capture, discard } from "./capture.ts";
import type { CaptureBodies } from "./capture-bodies.ts";
import { sdkOfRequest } from "./sdk.ts";

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
  readonly bodies: CaptureBodies;
  /** Addresses and networks of proxies whose `X-Forwarded-For` is believed. */
  readonly trustedProxies: readonly string[];
}

/** The routes that take events from SDKs (posthog-api 9, decisions 14 and 15). */
export function captureRoutes(app: App, deps: CaptureRouteDeps): void {
  const isTrustedProxy = networks(deps.trustedProxies);

  const captureAs =
    (nameForUnnamed: string | null): PlainHandler =>
    async (request) => {
      const captured = await openBody(deps, request, (decoded) =>
        capture(deps, {
          ...readBody(request, decoded),
          clientAddress: clientAddressOf(request, isTrustedProxy),
          nameForUnnamed,
          sdk: sdkOfRequest(request),
        }),
      );
      return isBeacon(request) ? "" : JSON.stringify(wireCaptured(captured));
    };

  const takeRecording: PlainHandler = async (request) => {
    await openBody(deps, request, (decoded) => discard(deps.projects, readBody(request, decoded)));
    return isBeacon(request) ? "" : JSON.stringify({ status: 1 });
  };

  const schema = (summary: string) => ({
    tags,
    summary,
    querystring: CaptureQuery,
    response: { 200: CaptureAnswer },
  });

  for (const path of CAPTURE_PATHS) {
    takePlain(app, path, {
      schema: schema("Capture one event, a list of events or a batch"),
      handler: captureAs(null),
    });
  }
  takePlain(app, "/engage", {
    schema: schema("Capture events; those without a name set properties of their person"),
    handler: captureAs("$identify"),
  });
  takePlain(app, "/s", {
    schema: schema("Accept session recordings, which are not kept"),
    handler: takeRecording,
  });
}

function readBody(
  { query }: PlainRequest,
  { value, sizes, form }: DecodedBody,
): Pick<CaptureInput, "body" | "sizes" | "beside"> {
  const beside = {
    token:
      form.get("api_key") ??
      form.get("token") ??
      queryText(query, "api_key") ??
      queryText(query, "token"),
    formSentAt: form.get("sent_at"),
    querySentAt: queryText(query, "sent_at") ?? queryText(query, "_"),
  };
  return { body: value, sizes, beside };
}

/** What `work` makes of a request's body; who observes is told where it cannot be read. */
export function openBody<Result>(
  deps: CaptureRouteDeps,
  request: PlainRequest,
  work: (decoded: DecodedBody) => Promise<Result>,
): Promise<Result> {
  return deps.bodies.open(encodedBodyOf(request), work, (refusal) =>
    tellUndecodable(deps, request, refusal),
  );
}

/** A body that cannot be read may be of a project all the same: the one that the query or a header names. */
function tellUndecodable(
  { projects, observer }: Pick<CaptureDeps, "projects" | "observer">,
  request: PlainRequest,
  refusal: Refusal,
): void {
  const { query } = request;
  const token = queryText(query, "api_key") ?? queryText(query, "token") ?? bearerOf(request);
  const sdk = sdkOfRequest(request);
  const tell = (projectId: number | undefined) =>
    observer.undecodable(refusal.body.detail, {
      sdk,
      ...(projectId !== undefined && { projectId }),
    });
  const found = token === undefined || token === "" ? undefined : projects.find(token);
  if (found instanceof Promise) {
    found.then(
      (project) => tell(project?.id),
      () => tell(undefined),
    );
  } else tell(found?.id);
}

function isBeacon(request: PlainRequest): boolean {
  return queryText(request.query, "beacon") === "1";
}
