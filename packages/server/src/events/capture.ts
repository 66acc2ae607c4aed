import {
  type BesideBody,
  type EnvelopeFault,
  readEnvelope,
  type TokenFault,
} from "@hedgerow/core/events/capture-envelope";
import type { CapturedEvent } from "@hedgerow/core/events/event";
import {
  type CaptureWarning,
  claimedUuid,
  MAX_EVENT_BYTES,
  normalizeEvent,
  type RejectionCode,
} from "@hedgerow/core/events/normalize-event";
import { encodeJson } from "@hedgerow/core/exact-json";
import type { Json } from "@hedgerow/core/json";
import { type ProjectsByToken, requireProject } from "../accounts/projects-by-token.ts";
import { Refusal } from "../http/errors.ts";
import { type EventLog, LogUnavailable } from "./event-log.ts";
import type { PendingPersons } from "./pending-persons.ts";

/** Told what becomes of events at the door; for counters. */
export interface CaptureObserver {
  captured(count: number): void;
  rejected(code: RejectionCode): void;
  warned(warning: CaptureWarning): void;
}

export interface CaptureDeps {
  readonly projects: ProjectsByToken;
  readonly log: Pick<EventLog, "append">;
  readonly pendingPersons: Pick<PendingPersons, "add">;
  readonly clock: () => Date;
  readonly newUuid: () => string;
  readonly observer: CaptureObserver;
}

export interface CaptureInput {
  /** The decoded body; `undefined` where there was none. */
  readonly body: Json | undefined;
  /** The JSON text it was decoded from: bounds the size of its events. */
  readonly text: string;
  readonly beside: BesideBody;
  /** Where the events came from; stored as `$ip`. */
  readonly clientAddress: string | null;
  /** Name of events that have none: `$identify` on `/engage`, `null` elsewhere. */
  readonly nameForUnnamed: string | null;
}

/** An event of a request that was not taken, though others were. */
export interface RejectedEvent {
  /** Index in the batch as sent. */
  readonly index: number;
  /** As sent, where it is one. */
  readonly uuid: string | undefined;
  readonly code: RejectionCode;
  readonly field: string | null;
  readonly detail: string;
}

/**
 * Takes the events of one request (decision 14): every valid one is stored, whatever the others
 * are. Resolves once what was taken would survive a crash, with what was not.
 *
 * Throws a {@link Refusal}: 400 when the body is no capture request or none of its events could be
 * taken, 413 when it is their size alone, 401 by decision 15, 503 when the log takes nothing.
 */
export async function capture(
  deps: CaptureDeps,
  input: CaptureInput,
): Promise<readonly RejectedEvent[]> {
  const receivedAt = deps.clock();
  const { project, envelope } = await openEnvelope(deps.projects, input);
  const surroundings = {
    projectId: project.id,
    anonymizeIps: project.anonymizeIps,
    sentAt: envelope.sentAt,
    receivedAt,
    clientAddress: input.clientAddress,
    nameForUnnamed: input.nameForUnnamed,
    newUuid: deps.newUuid,
  };
  const mayHoldLargeEvents = input.text.length * MAX_BYTES_PER_UNIT > MAX_EVENT_BYTES;
  const taken: CapturedEvent[] = [];
  const rejected: RejectedEvent[] = [];
  for (const [index, sent] of envelope.events.entries()) {
    const outcome =
      mayHoldLargeEvents && isTooLarge(sent) ? TOO_LARGE : normalizeEvent(sent, surroundings);
    switch (outcome.kind) {
      case "accepted":
        taken.push(outcome.event);
        for (const warning of outcome.warnings) deps.observer.warned(warning);
        break;
      case "rejected": {
        const { code, field, detail } = outcome;
        rejected.push({ index, uuid: claimedUuid(sent), code, field, detail });
        deps.observer.rejected(code);
        break;
      }
      case "discarded":
        break;
    }
  }
  if (rejected.length === envelope.events.length) throw nothingTaken(rejected, envelope.isSingle);
  await store(deps, taken);
  return rejected;
}

/**
 * Checks that a request carries data and the key of a project, and forgets the data: recordings are
 * understood, and not kept. Refuses like {@link capture}.
 */
export async function discard(
  projects: ProjectsByToken,
  input: Pick<CaptureInput, "body" | "beside">,
): Promise<void> {
  await openEnvelope(projects, input);
}

async function openEnvelope(
  projects: ProjectsByToken,
  { body, beside }: Pick<CaptureInput, "body" | "beside">,
) {
  const envelope = readEnvelope(body, beside);
  if ("kind" in envelope) throw refusalOf(envelope);
  const found = requireProject(projects, envelope.token);
  return { project: found instanceof Promise ? await found : found, envelope };
}

async function store(
  { log, pendingPersons, observer }: CaptureDeps,
  events: readonly CapturedEvent[],
): Promise<void> {
  if (events.length === 0) return;
  let positions: readonly number[];
  try {
    positions = await log.append(events);
  } catch (error) {
    if (!(error instanceof LogUnavailable)) throw error;
    throw new Refusal("unavailable", "Unable to store event. Please try again.", {
      headers: { "retry-after": String(error.retryAfterSeconds) },
    });
  }
  // Before the answer: whoever has it may ask for flags and must find what was captured.
  pendingPersons.add(
    events.map((event, index) => ({ position: positions[index] ?? Number.NaN, event })),
  );
  observer.captured(events.length);
}

/** No UTF-16 unit takes more in UTF-8. */
const MAX_BYTES_PER_UNIT = 3;

const TOO_LARGE = {
  kind: "rejected",
  code: "event_too_large",
  field: null,
  detail: `An event must not be larger than ${MAX_EVENT_BYTES} bytes of JSON!`,
} as const;

function isTooLarge(sent: Json): boolean {
  const text = encodeJson(sent);
  if (text.length > MAX_EVENT_BYTES) return true;
  if (text.length * MAX_BYTES_PER_UNIT <= MAX_EVENT_BYTES) return false;
  return new TextEncoder().encode(text).length > MAX_EVENT_BYTES;
}

function nothingTaken(rejected: readonly RejectedEvent[], isSingle: boolean): Refusal {
  if (rejected.every(({ code }) => code === "event_too_large")) {
    return new Refusal("request_too_large", `Request too large: ${TOO_LARGE.detail}`);
  }
  const [first] = rejected;
  const more = rejected.length > 1 ? ` (and ${rejected.length - 1} more refused events)` : "";
  const attr = [
    ...(isSingle ? [] : ["batch", first?.index]),
    ...(first?.field ? [first.field] : []),
  ].join("__");
  return new Refusal("invalid_payload", `Invalid payload: ${first?.detail}${more}`, {
    attr: attr === "" ? null : attr,
  });
}

const TOKEN_FAULTS: Readonly<Record<Exclude<TokenFault, "inconsistent">, string>> = {
  empty: "it is empty",
  not_string: "it is not a string",
  too_long: "it is longer than 64 characters",
  not_ascii: "it has characters beyond ASCII",
  null_byte: "it has NUL characters",
  personal_api_key:
    "this is a personal API key (phx_…). Events are captured with the project API key (phc_…)",
};

/** posthog-api 9.4, decision 15. */
function refusalOf(fault: EnvelopeFault): Refusal {
  switch (fault.kind) {
    case "no-data":
      return new Refusal(
        "no_data",
        "No data found. Make sure to use a POST request when sending the payload in the body of the request.",
      );
    case "not-events":
      return new Refusal("invalid_payload", `Malformed request data: ${fault.detail}.`, {
        attr: fault.field,
      });
    case "bad-sent-at":
      return new Refusal(
        "invalid_payload",
        `Malformed request data, invalid sent at: ${fault.detail.slice(0, 100)}`,
        { attr: "sent_at" },
      );
    case "no-token":
      return new Refusal(
        "missing_api_key",
        "API key not provided. You can find your project API key in PostHog project settings.",
      );
    case "bad-token": {
      const { reason } = fault;
      if (reason === "inconsistent") {
        const detail = "The events of the batch were submitted with inconsistent api_key values.";
        return new Refusal("invalid_api_key", detail);
      }
      const code = reason === "personal_api_key" ? "personal_api_key" : "invalid_api_key";
      return new Refusal(code, `Provided API key is not valid: ${TOKEN_FAULTS[reason]}.`);
    }
  }
}
