import { setImmediate as nextTurn } from "node:timers/promises";
import {
  type BesideBody,
  type EnvelopeFault,
  MAX_EVENTS,
  readEnvelope,
  type TokenFault,
} from "@hedgerow/core/events/capture-envelope";
import type { CapturedEvent } from "@hedgerow/core/events/event";
import {
  type Acceptance,
  type CaptureWarning,
  claimedUuid,
  type EventSurroundings,
  MAX_EVENT_BYTES,
  normalizeEvent,
  type RejectionCode,
} from "@hedgerow/core/events/normalize-event";
import { encodeJson } from "@hedgerow/core/exact-json";
import { isJsonObject, type Json, ownValue } from "@hedgerow/core/json";
import { HOPS_PROPERTY } from "@hedgerow/core/transformations/plugin-event";
import { type ProjectsByToken, requireProject } from "../accounts/projects-by-token.ts";
import type { SentSizes } from "../http/decode-body.ts";
import { Refusal } from "../http/errors.ts";
import { createSlices } from "../platform/slices.ts";
import type { AppendCaptured } from "./append-captured.ts";
import { LogUnavailable } from "./event-log.ts";
import type { EventStore } from "./event-store.ts";
import type { Sdk } from "./ingestion-warning-store.ts";
import { isSameEvent, type RecentEvents } from "./recent-events.ts";
import { sdkOfProperties } from "./sdk.ts";

/** Told what becomes of events at the door; for counters, warnings and receipts. */
export interface CaptureObserver {
  captured(count: number): void;
  rejected(rejected: RejectedEvent, from: Origin): void;
  /** Not taken because its uuid is taken. */
  repeated(event: CapturedEvent, as: Repeated): void;
  warned(warning: CaptureWarning, event: CapturedEvent, from: Origin): void;
  /** A body that could not be read; of no project where only the body tells it. */
  undecodable(detail: string, from: Partial<Origin> & Pick<Origin, "sdk">): void;
}

/** Whose request it is, and what sent it. */
export interface Origin {
  readonly projectId: number;
  readonly sdk: Sdk;
}

export interface CaptureDeps {
  readonly projects: ProjectsByToken;
  readonly append: AppendCaptured;
  readonly events: Pick<EventStore, "known">;
  readonly recent: RecentEvents;
  readonly clock: () => Date;
  readonly newUuid: () => string;
  readonly observer: CaptureObserver;
}

export interface CaptureInput {
  /** The decoded body; `undefined` where there was none. */
  readonly body: Json | undefined;
  readonly sizes: SentSizes;
  readonly beside: BesideBody;
  /** Where the events came from; stored as `$ip`. */
  readonly clientAddress: string | null;
  /** Name of events that have none: `$identify` on `/engage`, `null` elsewhere. */
  readonly nameForUnnamed: string | null;
  /** What the request itself names as its sender; events may name another. */
  readonly sdk: Sdk;
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

/** `duplicate`: the same event again. `conflict`: another event with its uuid; the first wins. */
export type Repeated = "duplicate" | "conflict";

/** An event that was not taken because its uuid is taken (decision 17): a success. */
export interface RepeatedEvent {
  readonly index: number;
  readonly uuid: string;
  readonly code: Repeated;
}

/** What became of the events of a request beside those that were taken. */
export interface Captured {
  readonly rejected: readonly RejectedEvent[];
  readonly duplicates: readonly RepeatedEvent[];
}

/**
 * Takes the events of one request (decision 14): every valid one is stored, whatever the others
 * are. Resolves once what was taken would survive a crash, with what was not.
 *
 * Throws a {@link Refusal}: 400 when the body is no capture request or none of its events could be
 * taken, 413 when it is their size alone, 401 by decision 15, 503 when the log takes nothing.
 */
export async function capture(deps: CaptureDeps, input: CaptureInput): Promise<Captured> {
  const receivedAt = deps.clock();
  const { project, envelope } = await openEnvelope(deps.projects, input);
  const from = { projectId: project.id, sdk: input.sdk };
  const examined = await examine(deps, envelope.events, {
    sizes: input.sizes,
    surroundings: {
      projectId: project.id,
      anonymizeIps: project.anonymizeIps,
      sentAt: envelope.sentAt,
      receivedAt,
      clientAddress: input.clientAddress,
      nameForUnnamed: input.nameForUnnamed,
      newUuid: deps.newUuid,
    },
  });
  const rejected = rejectedOf(examined);
  const telling = tellAll(rejected, (one) => deps.observer.rejected(one, from));
  if (telling) await telling;
  if (rejected.length === envelope.events.length) throw nothingTaken(rejected, envelope.isSingle);
  // Not awaited here, so that the body can be given up before its events are stored.
  return finish(deps, examined, from);
}

async function finish(deps: CaptureDeps, examined: Examined, from: Origin): Promise<Captured> {
  try {
    await store(deps, examined, from);
  } catch (error) {
    if (!(error instanceof LogUnavailable)) throw error;
    throw new Refusal("unavailable", "Unable to store event. Please try again.", {
      headers: { "retry-after": String(error.retryAfterSeconds) },
    });
  }
  return { rejected: rejectedOf(examined), duplicates: duplicatesOf(examined) };
}

function rejectedOf({ outcomes }: Examined): readonly RejectedEvent[] {
  const rejected: RejectedEvent[] = [];
  for (const outcome of outcomes) if (outcome.rejected) rejected.push(outcome.rejected);
  return rejected;
}

function duplicatesOf({ outcomes }: Examined): readonly RepeatedEvent[] {
  const duplicates: RepeatedEvent[] = [];
  for (let index = 0; index < outcomes.length; index++) {
    const { taken, repeated } = outcomes[index] as ExaminedEvent;
    if (taken && repeated) duplicates.push({ index, uuid: taken.event.uuid, code: repeated });
  }
  return duplicates;
}

/** What examining one event gave: at most one of the first two; neither where it is not kept. */
export interface ExaminedEvent {
  readonly taken?: Acceptance;
  readonly rejected?: RejectedEvent;
  /** Set where a taken event's uuid is taken already, durably or by an earlier event of the request. */
  repeated?: Repeated;
}

export interface Examined {
  /** By index as sent. */
  readonly outcomes: readonly ExaminedEvent[];
}

/** Events examined without letting other requests run in between: a few milliseconds, unless they are large. */
const EVENTS_PER_TURN = 500;
/** Those of longer texts are examined for so long before others get their turn, however few they are. */
const LONG_TEXT_CHARS = 256 * 1024;
const SLICE_MS = 5;

/** Checks and completes the events of a request and finds those that came before; stores nothing. */
export async function examine(
  { events, recent }: Pick<CaptureDeps, "events" | "recent">,
  sent: readonly Json[],
  request: {
    readonly surroundings: EventSurroundings;
    readonly sizes: SentSizes;
    /** What an event is in the form of `capture`, where it is sent in another. */
    readonly read?: (sent: Json) => Json;
    /** True where an event without a uuid is refused. */
    readonly uuidIsRequired?: true;
  },
): Promise<Examined> {
  const { surroundings, sizes, read = (one) => one, uuidIsRequired = false } = request;
  const { projectId } = surroundings;
  const outcomes: ExaminedEvent[] = [];
  const firsts = new Map<string, CapturedEvent>();
  let unsure: { outcome: ExaminedEvent; event: CapturedEvent }[] = [];
  const slices = createSlices(SLICE_MS);
  // What is short keeps its place among others, however long the machine takes for it.
  const isTurnOver = (index: number) =>
    index % EVENTS_PER_TURN === 0 || (sizes.chars > LONG_TEXT_CHARS && slices.isOver());
  for (let index = 0; index < sent.length; index++) {
    const one = sent[index] as Json;
    if (index > 0 && isTurnOver(index)) {
      ask(unsure);
      unsure = [];
      await slices.next();
    }
    const result = sizes.exceeds(one, MAX_EVENT_BYTES)
      ? TOO_LARGE
      : uuidIsRequired && lacksUuid(one)
        ? NO_UUID
        : normalizeEvent(read(one), surroundings);
    if (result.kind === "discarded") outcomes.push({});
    else if (result.kind === "rejected") {
      const { code, field, detail } = result;
      outcomes.push({ rejected: { index, uuid: claimedUuid(one), code, field, detail } });
    } else {
      const taken = withoutHops(result);
      const { event } = taken;
      const outcome: ExaminedEvent = { taken };
      outcomes.push(outcome);
      const first = firsts.get(event.uuid);
      const repeated = first
        ? isSameEvent(first, event)
          ? "duplicate"
          : "conflict"
        : recent.compare(projectId, event);
      if (repeated) outcome.repeated = repeated;
      else {
        firsts.set(event.uuid, event);
        if (!result.hasNewUuid) unsure.push({ outcome, event });
      }
    }
  }
  ask(unsure);
  return { outcomes };

  function ask(unsure: readonly { outcome: ExaminedEvent; event: CapturedEvent }[]): void {
    const known = events.known(
      projectId,
      unsure.map(({ event }) => event),
    );
    for (const [index, { outcome }] of unsure.entries()) {
      const acquaintance = known[index];
      if (acquaintance === "duplicate" || acquaintance === "conflict") {
        outcome.repeated = acquaintance;
      }
    }
  }
}

/** One event as capture takes it, or why it does not; for what only looks at it. */
export function normalizeAlone(
  sent: Json,
  surroundings: EventSurroundings,
): ReturnType<typeof normalizeEvent> {
  const result = isTooLarge(sent) ? TOO_LARGE : normalizeEvent(sent, surroundings);
  return result.kind === "accepted" ? withoutHops(result) : result;
}

/** Only the service says how deep an event was captured by transformations. */
function withoutHops(taken: Acceptance): Acceptance {
  const { event } = taken;
  if (!Object.hasOwn(event.properties, HOPS_PROPERTY)) return taken;
  const { [HOPS_PROPERTY]: _, ...properties } = event.properties;
  return { ...taken, event: { ...event, properties } };
}

/**
 * Stores what was taken and was not there before, and tells the observer. Resolves when it would
 * survive a crash. Rejects with {@link LogUnavailable}; nothing is stored then.
 */
export async function store(
  { append, observer, recent }: Pick<CaptureDeps, "append" | "observer" | "recent">,
  { outcomes }: Examined,
  from: Origin,
): Promise<void> {
  const { projectId } = from;
  for (let left = outcomes; ; ) {
    const events: CapturedEvent[] = [];
    const repeated: ExaminedEvent[] = [];
    for (const outcome of left) {
      if (!outcome.taken) continue;
      const { event } = outcome.taken;
      // Since it was examined, what had come before may be lost, and another request may have brought it.
      if (outcome.repeated && recent.isForgotten(projectId, event)) delete outcome.repeated;
      const known = outcome.repeated ?? recent.add(projectId, event);
      if (known) repeated.push(Object.assign(outcome, { repeated: known }));
      else events.push(event);
    }
    // What is told to have come before has to be durable as well.
    const others = repeated.length > 0 ? recent.underWay(projectId) : undefined;
    if (events.length > 0) {
      const appending = append(events);
      recent.addedWith(appending, projectId, events);
      const { keptUp } = await appending;
      if (keptUp) await keptUp;
      observer.captured(events.length);
    }
    const lost = await others;
    if (!lost) break;
    left = repeated.filter(({ taken }) => taken && lost.has(taken.event.uuid));
    if (left.length === 0) break;
    for (const outcome of left) delete outcome.repeated;
  }
  const telling = tellAll(outcomes, ({ taken, repeated }) => {
    if (!taken) return;
    const { event, warnings } = taken;
    if (repeated) observer.repeated(event, repeated);
    else for (const warning of warnings) observer.warned(warning, event, originOf(event, from));
  });
  if (telling) await telling;
}

/** Told without letting other requests run in between. */
const TOLD_PER_TURN = 1000;

/** Tells of each; of some at once, of many in turns with requests. */
export function tellAll<Item>(
  items: readonly Item[],
  tell: (item: Item) => void,
  start = 0,
): Promise<void> | undefined {
  const end = Math.min(start + TOLD_PER_TURN, items.length);
  for (let index = start; index < end; index++) tell(items[index] as Item);
  return end < items.length ? nextTurn().then(() => tellAll(items, tell, end)) : undefined;
}

/** Events tell best what sent them. */
function originOf({ properties }: CapturedEvent, { projectId, sdk }: Origin): Origin {
  return { projectId, sdk: sdkOfProperties(properties) ?? sdk };
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

const TOO_LARGE = {
  kind: "rejected",
  code: "event_too_large",
  field: null,
  detail: `An event must not be larger than ${MAX_EVENT_BYTES} bytes of JSON!`,
} as const;

const NO_UUID = {
  kind: "rejected",
  code: "invalid_uuid",
  field: "uuid",
  detail: 'All events must have the event field "uuid"!',
} as const;

function lacksUuid(sent: Json): boolean {
  return isJsonObject(sent) && ["", null].includes((ownValue(sent, "uuid") ?? null) as null);
}

function isTooLarge(sent: Json): boolean {
  return Buffer.byteLength(encodeJson(sent)) > MAX_EVENT_BYTES;
}

/** Told by 413, after which SDKs send the halves. */
export function tooManyEvents(): Refusal {
  return new Refusal(
    "request_too_large",
    `Request too large: it must not have more than ${MAX_EVENTS} events!`,
  );
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
    case "too-many-events":
      return tooManyEvents();
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
