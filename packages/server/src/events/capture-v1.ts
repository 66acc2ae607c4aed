import { MAX_EVENTS } from "@hedgerow/core/events/capture-envelope";
import { readV1Event } from "@hedgerow/core/events/capture-v1";
import { isJsonObject, type Json, ownValue } from "@hedgerow/core/json";
import { requireProject } from "../accounts/projects-by-token.ts";
import type { SentSizes } from "../http/decode-body.ts";
import { Refusal } from "../http/errors.ts";
import {
  type CaptureDeps,
  type ExaminedEvent,
  examine,
  store,
  tellAll,
  tooManyEvents,
} from "./capture.ts";
import { LogUnavailable } from "./event-log.ts";
import type { Sdk } from "./ingestion-warning-store.ts";

export interface CaptureV1Input {
  readonly body: Json | undefined;
  readonly sizes: SentSizes;
  /** The project key. */
  readonly token: string;
  /** When this attempt was made, by the client's clock; takes the place of `sent_at`. */
  readonly sentAt: Date | null;
  readonly clientAddress: string | null;
  readonly sdk: Sdk;
  /** The SDK that the request names in the header for it. */
  readonly library: Sdk | null;
}

/** What became of one event (posthog-api 9.11). `retry`: send it again; everything else is final. */
export interface V1Result {
  readonly result: "ok" | "warning" | "drop" | "retry";
  readonly details?: string;
}

export interface V1Answer {
  /** By uuid as sent, or by `#` and the index where an event has none. Of one uuid the first counts. */
  readonly results: ReadonlyMap<string, V1Result>;
  /** Set when some event is to be sent again. */
  readonly retryAfterSeconds: number | null;
}

/**
 * Takes a batch of capture v1 (posthog-api 9.11): the rules for events are those of every path, the
 * answer tells the result of each. Throws a {@link Refusal}: 400 when the body is no batch, 401 for
 * an unknown key.
 */
export async function captureV1(deps: CaptureDeps, input: CaptureV1Input): Promise<V1Answer> {
  const receivedAt = deps.clock();
  const found = requireProject(deps.projects, input.token);
  const project = found instanceof Promise ? await found : found;
  const sent = batchOf(input.body);
  const from = { projectId: project.id, sdk: input.sdk };
  const examined = await examine(deps, sent, {
    sizes: input.sizes,
    read: (one) => readV1Event(one, input.library),
    uuidIsRequired: true,
    surroundings: {
      projectId: project.id,
      anonymizeIps: project.anonymizeIps,
      sentAt: input.sentAt,
      receivedAt,
      clientAddress: input.clientAddress,
      nameForUnnamed: null,
      newUuid: deps.newUuid,
    },
  });
  const telling = tellAll(examined.outcomes, ({ rejected }) => {
    if (rejected) deps.observer.rejected(rejected, from);
  });
  if (telling) await telling;
  let retryAfterSeconds: number | null = null;
  try {
    await store(deps, examined, from);
  } catch (error) {
    if (!(error instanceof LogUnavailable)) throw error;
    retryAfterSeconds = error.retryAfterSeconds;
  }
  const isStored = retryAfterSeconds === null;
  const results = new Map<string, V1Result>();
  let retries = false;
  for (const [index, outcome] of examined.outcomes.entries()) {
    const key = keyOf(sent[index], index);
    if (results.has(key)) continue;
    const result = resultOf(outcome, isStored);
    if (result.result === "retry") retries = true;
    results.set(key, result);
  }
  return { results, retryAfterSeconds: retries ? retryAfterSeconds : null };
}

function batchOf(body: Json | undefined): readonly Json[] {
  if (!isJsonObject(body ?? null)) {
    throw new Refusal("invalid_payload", "Malformed request data: expected an object.");
  }
  const batch = ownValue(body as { [key: string]: Json }, "batch");
  if (!Array.isArray(batch)) {
    throw new Refusal("invalid_payload", 'Malformed request data: "batch" must be a list.', {
      attr: "batch",
    });
  }
  if (batch.length === 0) {
    throw new Refusal("invalid_payload", 'Malformed request data: "batch" has no events.', {
      attr: "batch",
    });
  }
  if (batch.length > MAX_EVENTS) throw tooManyEvents();
  return batch as readonly Json[];
}

function keyOf(sent: Json | undefined, index: number): string {
  const uuid = isJsonObject(sent) ? ownValue(sent, "uuid") : undefined;
  return typeof uuid === "string" && uuid !== "" ? uuid : `#${index}`;
}

function resultOf({ taken, rejected, repeated }: ExaminedEvent, isStored: boolean): V1Result {
  if (rejected) return { result: "drop", details: `${rejected.code}: ${rejected.detail}` };
  if (!taken) return { result: "drop", details: "not_kept: Events of this kind are not kept." };
  if (!isStored) return { result: "retry", details: "unavailable: Unable to store the event now." };
  if (repeated === "conflict") {
    return { result: "drop", details: "conflict: The uuid belongs to another event, which stays." };
  }
  if (repeated === "duplicate") {
    return { result: "ok", details: "duplicate: The event was taken before." };
  }
  return taken.warnings.length === 0
    ? { result: "ok" }
    : { result: "warning", details: taken.warnings.join(", ") };
}
