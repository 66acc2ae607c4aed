import { encodeJson } from "@hedgerow/core/exact-json";
import { isJsonObject, type Json, type JsonObject } from "@hedgerow/core/json";
import { eventAfter } from "@hedgerow/core/transformations/plugin-event";
import type {
  CallOutcome,
  EventOutcome,
  GivenEvent,
  Instance,
  InstanceSettings,
  SandboxCall,
  SandboxCause,
  SandboxEvent,
  StartOutcome,
  TextOutcome,
} from "../../transformations/sandbox.ts";
import { createOutcomeReader } from "./outcome-reader.ts";
import { depthOf, PassedDepths } from "./passed-depths.ts";
import {
  type FromThread,
  type GuestSettings,
  NO_EVENT,
  SEPARATOR,
  type ToThread,
} from "./sandbox-messages.ts";
import type { LostWork } from "./sandbox-thread-handle.ts";

/** After so many threads that it blocked beyond interruption, an instance runs no more. */
const MAX_BLOCKED_THREADS = 3;

/**
 * So often events are sent to a new thread when theirs was lost. More than one instance can lose before
 * it is ended, since others of the same thread lose it too.
 */
const MAX_LOSSES = 20;

/**
 * A message takes so much text at most, but for a single event that has more: longer texts cost more
 * for each of their characters.
 */
const MAX_TEXT_LENGTH = 96 * 1024;

interface BatchRequest {
  readonly events: readonly GivenEvent[];
  readonly lines: string;
  /** Events that blocked a thread. */
  readonly blocked: Map<number, string>;
  /** How often it was sent again since its thread was lost. */
  losses: number;
  readonly cut: AbortSignal | undefined;
  readonly resolve: (outcomes: readonly TextOutcome[]) => void;
}

interface CallRequest {
  /** What it is about. */
  readonly event: GivenEvent | null;
  readonly text: string;
  readonly resolve: (outcome: CallOutcome) => void;
}

/** The main thread's side of an instance: what was asked of it, and whom it asks. */
export class SandboxInstance implements Instance {
  readonly key: number;
  readonly settings: InstanceSettings;
  readonly #guestSettings: GuestSettings;
  readonly #onStop: (instance: SandboxInstance) => void;
  #send: (message: ToThread) => void;
  /** How many threads it has moved to. */
  #threads = 0;
  #ids = 0;
  readonly #batches = new Map<number, BatchRequest>();
  readonly #calls = new Map<number, CallRequest>();
  readonly #depths = new PassedDepths();
  readonly #read = createOutcomeReader();
  #started: ((outcome: StartOutcome) => void) | null = null;
  #blockedThreads = 0;
  /** Set once it has blocked a thread: from then on it is known which event is under way. */
  #isCareful = false;
  #end: string | null = null;
  /** Reads and writes of the storage follow each other, awaited or not. */
  #storage: Promise<unknown> = Promise.resolve();

  constructor(
    key: number,
    settings: InstanceSettings,
    send: (message: ToThread) => void,
    onStop: (instance: SandboxInstance) => void,
  ) {
    this.key = key;
    this.settings = settings;
    this.#send = send;
    this.#onStop = onStop;
    this.#guestSettings = {
      projectId: settings.projectId,
      code: settings.program.code,
      setup: setupOf(settings),
      // Copies: a view of a larger buffer would take all of that along.
      attachments: new Map(
        Object.entries(settings.attachments).map(([key, { contents }]) => [
          key,
          new Uint8Array(contents),
        ]),
      ),
      allowedHosts: settings.allowedHosts,
      limits: settings.limits,
    };
  }

  start(): Promise<StartOutcome> {
    return new Promise((resolve) => {
      this.#started = resolve;
      this.#sendStart();
    });
  }

  async transform(events: readonly SandboxEvent[]): Promise<readonly EventOutcome[]> {
    const outcomes = await this.pass(
      events.map((event) => ({ event, line: encodeJson(event), hops: depthOf(event) })),
    );
    return outcomes.map((outcome, index) => {
      if (outcome.kind === "not-run") return failedEvent("it was not run", false);
      if (outcome.kind !== "keep") return outcome;
      const { change, cpuMs } = outcome;
      if (change === undefined) return { kind: "keep", cpuMs };
      return { kind: "keep", event: eventAfter(events[index] ?? {}, change), cpuMs };
    });
  }

  async pass(events: readonly GivenEvent[], cut?: AbortSignal): Promise<readonly TextOutcome[]> {
    if (events.length === 0) return [];
    if (cut?.aborted) return events.map(() => ({ kind: "not-run" }));
    const end = this.#end;
    if (end !== null) return events.map(() => failedEvent(end, true));
    const parts: Promise<readonly TextOutcome[]>[] = [];
    for (let from = 0; from < events.length; ) {
      let length = 0;
      let to = from;
      while (to < events.length) {
        length += events[to]?.line.length ?? 0;
        if (length > MAX_TEXT_LENGTH && to > from) break;
        to += 1;
      }
      const isAll = from === 0 && to === events.length;
      parts.push(this.#passPart(isAll ? events : events.slice(from, to), cut));
      from = to;
    }
    const sendCuts = () => this.#sendCuts();
    cut?.addEventListener("abort", sendCuts);
    try {
      const outcomes = await Promise.all(parts);
      return outcomes.length === 1 ? (outcomes[0] ?? []) : outcomes.flat();
    } finally {
      cut?.removeEventListener("abort", sendCuts);
    }
  }

  #passPart(
    events: readonly GivenEvent[],
    cut: AbortSignal | undefined,
  ): Promise<readonly TextOutcome[]> {
    const lines = events.map(({ line }) => line).join("\n");
    this.#ids += 1;
    const id = this.#ids;
    return new Promise((resolve) => {
      const request = { events, lines, blocked: new Map(), losses: 0, resolve, cut };
      this.#batches.set(id, request);
      this.#depths.note(id, events);
      this.#sendBatch(id, request);
    });
  }

  call(call: SandboxCall): Promise<CallOutcome> {
    const { methods, jobs } = this.settings.program;
    const isThere = call.kind === "job" ? jobs.includes(call.name) : methods.includes(call.kind);
    if (!isThere) return Promise.resolve({ kind: "absent" });
    if (this.#end !== null) {
      return Promise.resolve({
        kind: "failed",
        reason: this.#end,
        isLimit: true,
        wantsRetry: false,
        cpuMs: 0,
      });
    }
    this.#ids += 1;
    const id = this.#ids;
    const text = encodeJson({ ...call, id });
    const event =
      "event" in call ? { event: call.event, line: "", hops: depthOf(call.event) } : null;
    if (event) this.#depths.note(id, [event]);
    return new Promise((resolve) => {
      this.#calls.set(id, { event, text, resolve });
      this.#send({ kind: "call", instance: this.key, id, call: text });
    });
  }

  async stop(): Promise<void> {
    if (this.#end !== null && this.#batches.size === 0 && this.#calls.size === 0) {
      this.#onStop(this);
      return;
    }
    this.#send({ kind: "stop", instance: this.key });
    this.endWith("it was stopped");
    this.#onStop(this);
  }

  /** Nothing runs any more; all that was asked fails. */
  endWith(reason: string): void {
    this.#end = reason;
    for (const { events, resolve } of this.#batches.values()) {
      resolve(events.map(() => failedEvent(reason, false)));
    }
    this.#batches.clear();
    for (const { resolve } of this.#calls.values()) {
      resolve({ kind: "failed", reason, isLimit: false, wantsRetry: false, cpuMs: 0 });
    }
    this.#calls.clear();
    this.#started?.({ kind: "failed", reason, isLimit: false });
    this.#started = null;
  }

  /** Its thread was lost: what was asked is asked again of the next one, but for what lost it. */
  moveTo(send: (message: ToThread) => void, lost: LostWork | null): void {
    this.#send = send;
    this.#threads += 1;
    if (lost !== null && lost.instance === this.key) this.#blame(lost.event);
    if (this.#end !== null) return;
    this.#sendStart();
    for (const [id, request] of this.#batches) {
      request.losses += 1;
      if (request.losses > MAX_LOSSES) {
        this.#batches.delete(id);
        request.resolve(
          request.events.map(() => failedEvent("its thread was lost again and again", true)),
        );
        continue;
      }
      this.#beginAnew(request.events);
      this.#sendBatch(id, request);
    }
    this.#sendCuts();
    for (const [id, { text }] of this.#calls) {
      this.#send({ kind: "call", instance: this.key, id, call: text });
    }
  }

  receive(message: FromThread): void {
    switch (message.kind) {
      case "started":
        this.#takeStarted(message);
        break;
      case "transformed":
        this.#takeOutcomes(message);
        break;
      case "called": {
        const request = this.#calls.get(message.id);
        this.#calls.delete(message.id);
        const { cpuMs, failure, text } = message;
        request?.resolve(
          failure === null
            ? { kind: "answered", value: JSON.parse(text) as Json, cpuMs }
            : { kind: "failed", ...failure, cpuMs },
        );
        break;
      }
      case "ask":
        this.#takeAsk(message);
        break;
      case "metric": {
        const { name, operation, value, cause } = message;
        this.settings.host.countMetric(name, operation, value, { event: this.#eventOf(cause) });
        break;
      }
      case "log":
        this.settings.host.log(message.lines);
        break;
      case "anew": {
        const given = this.#batches.get(message.id)?.events ?? [];
        this.#beginAnew(given.filter((_, index) => message.events.includes(index)));
        break;
      }
      case "inspected":
        break;
    }
  }

  #blame(event: number): void {
    const reason = "it blocked its thread";
    if (event === NO_EVENT.run && !this.#isCareful) {
      // Which event it was is seen when it happens again.
      this.#isCareful = true;
      return;
    }
    this.#blockedThreads += 1;
    this.settings.host.log([
      { at: new Date(), source: "system", level: "error", message: `Stopped: ${reason}` },
    ]);
    if (event === NO_EVENT.start && this.#started !== null) {
      this.#started({ kind: "failed", reason, isLimit: true });
      this.#started = null;
      this.#end = reason;
      this.#onStop(this);
      return;
    }
    if (event >= 0) {
      // Batches run in their order: the first is the one that was under way.
      const [first] = this.#batches.values();
      first?.blocked.set(event, reason);
    } else {
      for (const { resolve } of this.#calls.values()) {
        resolve({ kind: "failed", reason, isLimit: true, wantsRetry: false, cpuMs: 0 });
      }
      this.#calls.clear();
    }
    if (this.#blockedThreads >= MAX_BLOCKED_THREADS) {
      for (const { events, resolve } of this.#batches.values()) {
        resolve(events.map(() => failedEvent(reason, true)));
      }
      this.#batches.clear();
      this.endWith("it has blocked its thread again and again");
    }
  }

  #beginAnew(events: readonly GivenEvent[]): void {
    const { host } = this.settings;
    host.beginAnew?.(events);
    void this.#inOrder(async () => host.undoStored?.(events));
  }

  #sendStart(): void {
    this.#send({ kind: "start", instance: this.key, settings: this.#guestSettings });
  }

  /** Cuts what has to be cut, the last first: none may begin when one before it has ended early. */
  #sendCuts(): void {
    for (const [id, { cut }] of [...this.#batches].reverse()) {
      if (cut?.aborted) this.#send({ kind: "cut", instance: this.key, id });
    }
  }

  #sendBatch(id: number, { events, lines, blocked }: BatchRequest): void {
    const skipped = [...blocked.keys()];
    const count = events.length;
    const isCareful = this.#isCareful;
    this.#send({ kind: "transform", instance: this.key, id, lines, count, skipped, isCareful });
  }

  #takeStarted({ failure }: Extract<FromThread, { kind: "started" }>): void {
    const started = this.#started;
    this.#started = null;
    if (started === null) return;
    if (failure === null) {
      started({ kind: "started", instance: this });
      return;
    }
    started({ kind: "failed", ...failure });
    void this.stop();
  }

  #takeOutcomes({ id, texts, cpuMs, limits }: Extract<FromThread, { kind: "transformed" }>): void {
    const request = this.#batches.get(id);
    if (request === undefined) return;
    this.#batches.delete(id);
    const { events, blocked, resolve } = request;
    const outcomes = texts.split(SEPARATOR);
    const limited = new Set(limits);
    resolve(
      events.map((given, index) => {
        const reason = blocked.get(index);
        const text = outcomes[index];
        if (reason !== undefined || text === undefined) {
          return failedEvent(reason ?? "it was not run", true);
        }
        try {
          return this.#read(given, text, limited.has(index), cpuMs[index] ?? 0);
        } catch {
          // What code in the sandbox has a hand in must not throw here, where everybody's events pass.
          return failedEvent("it answered what cannot be read", true);
        }
      }),
    );
  }

  #takeAsk(message: Extract<FromThread, { kind: "ask" }>): void {
    const { ask, op, argument } = message;
    const thread = this.#threads;
    const answer = (isOk: boolean, value: Json | undefined) => {
      // The next thread asks again, and counts its questions anew.
      if (thread !== this.#threads) return;
      this.#send({ kind: "answer", instance: this.key, ask, isOk, value });
    };
    this.#answer(op, argument, this.#causeOf(message)).then(
      (value) => answer(true, value),
      (error) => answer(false, error instanceof Error ? error.message : String(error)),
    );
  }

  #causeOf({ cause, origin }: Extract<FromThread, { kind: "ask" }>): SandboxCause {
    const event = this.#eventOf(cause);
    const isLikely = event !== null && origin !== null;
    const begun = origin ?? cause;
    if (begun === null || (event !== null && !isLikely)) return { event };
    return { event, hops: this.#depths.of(begun), ...(isLikely && { isLikely }) };
  }

  #eventOf(cause: Extract<FromThread, { kind: "ask" }>["cause"]): GivenEvent | null {
    if (cause === null) return null;
    if (cause.event !== null) return this.#batches.get(cause.id)?.events[cause.event] ?? null;
    return this.#calls.get(cause.id)?.event ?? null;
  }

  async #answer(op: string, argument: Json, cause: SandboxCause): Promise<Json | undefined> {
    const { host } = this.settings;
    const [first, second, third] = Array.isArray(argument) ? argument : [];
    switch (op) {
      case "get":
        return this.#inOrder(async () => {
          const value = await host.readStored(String(first));
          return value === undefined ? [] : [value];
        });
      case "set":
        return this.#inOrder(() => host.writeStored(String(first), second ?? null, cause));
      case "delete":
        return this.#inOrder(() => host.deleteStored(String(first), cause));
      case "locate":
        return host.locate(String(first));
      case "job":
        await host.enqueueJob(String(first), second ?? null, new Date(Number(third)), cause);
        return undefined;
      case "capture": {
        const given: JsonObject = isJsonObject(second) ? second : {};
        const { timestamp, ...properties } = given;
        const { distinct_id: distinctId } = properties;
        const isNamed = typeof distinctId === "string" || typeof distinctId === "number";
        const told = isNamed ? String(distinctId) : null;
        const captured = { event: String(first), distinctId: told, properties };
        await host.capture({ ...captured, timestamp: momentOf(timestamp) }, cause);
        return undefined;
      }
      default:
        throw new Error(`there is no ${op}`);
    }
  }

  #inOrder(work: () => Promise<unknown>): Promise<Json | undefined> {
    const done = this.#storage.then(work);
    this.#storage = done.catch(() => {});
    return done.then((value) => value as Json | undefined);
  }
}

/** When something happened by what code says: a text, or milliseconds since 1970. */
function momentOf(timestamp: Json | undefined): string | null {
  if (typeof timestamp === "string") return timestamp;
  const moment = new Date(typeof timestamp === "number" ? timestamp : Number.NaN);
  return Number.isNaN(moment.getTime()) ? null : moment.toISOString();
}

function setupOf({ config, attachments, host: { siteUrl } }: InstanceSettings): string {
  const files = Object.fromEntries(
    Object.entries(attachments).map(([key, { contentType, fileName }]) => [
      key,
      { contentType, fileName },
    ]),
  );
  return encodeJson({ config, attachments: files, ...(siteUrl !== undefined && { siteUrl }) });
}

function failedEvent(reason: string, isLimit: boolean): Extract<TextOutcome, { kind: "failed" }> {
  return { kind: "failed", reason, isLimit, cpuMs: 0 };
}
