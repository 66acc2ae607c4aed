import { encodeJson } from "@hedgerow/core/exact-json";
import { isJsonObject, type Json, type JsonObject, ownValue } from "@hedgerow/core/json";
import type {
  CallOutcome,
  EventOutcome,
  Instance,
  InstanceSettings,
  SandboxCall,
  SandboxEvent,
  StartOutcome,
} from "../../transformations/sandbox.ts";
import {
  type FromThread,
  type GuestSettings,
  NO_EVENT,
  type ThreadOutcome,
  type ToThread,
} from "./sandbox-messages.ts";
import type { LostWork } from "./sandbox-thread-handle.ts";

/** After so many threads that it blocked beyond interruption, an instance runs no more. */
const MAX_BLOCKED_THREADS = 3;

interface BatchRequest {
  readonly events: readonly SandboxEvent[];
  readonly lines: string;
  /** Events with integers that no number holds. */
  readonly exact: ReadonlySet<number>;
  /** Events that blocked a thread. */
  readonly blocked: Map<number, string>;
  readonly resolve: (outcomes: readonly EventOutcome[]) => void;
}

interface CallRequest {
  readonly call: SandboxCall;
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
  #ids = 0;
  readonly #batches = new Map<number, BatchRequest>();
  readonly #calls = new Map<number, CallRequest>();
  #started: ((outcome: StartOutcome) => void) | null = null;
  #blockedThreads = 0;
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

  transform(events: readonly SandboxEvent[]): Promise<readonly EventOutcome[]> {
    if (events.length === 0) return Promise.resolve([]);
    const end = this.#end;
    if (end !== null) return Promise.resolve(events.map(() => failedEvent(end, true)));
    const exact = new Set<number>();
    const lines = events.map((event, index) => {
      try {
        return JSON.stringify(event);
      } catch {
        exact.add(index);
        return encodeJson(event);
      }
    });
    return new Promise((resolve) => {
      this.#ids += 1;
      const request = { events, lines: lines.join("\n"), exact, blocked: new Map(), resolve };
      this.#batches.set(this.#ids, request);
      this.#sendBatch(this.#ids, request);
    });
  }

  call(call: SandboxCall): Promise<CallOutcome> {
    const { methods, jobs } = this.settings.program;
    const isThere =
      call.kind === "job"
        ? jobs.includes(call.name)
        : methods.includes(call.kind) ||
          (call.kind === "onEvent" && methods.includes("exportEvents"));
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
    return new Promise((resolve) => {
      this.#calls.set(id, { call, text, resolve });
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
    if (lost !== null && lost.instance === this.key) this.#blame(lost.event);
    if (this.#end !== null) return;
    this.#sendStart();
    for (const [id, request] of this.#batches) this.#sendBatch(id, request);
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
        this.#takeOutcomes(message.id, message.outcomes);
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
      case "metric":
        this.settings.host.countMetric(message.name, message.operation, message.value);
        break;
      case "log":
        this.settings.host.log(message.lines);
        break;
      case "inspected":
        break;
    }
  }

  #blame(event: number): void {
    const reason = "it blocked its thread";
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

  #sendStart(): void {
    this.#send({ kind: "start", instance: this.key, settings: this.#guestSettings });
  }

  #sendBatch(id: number, { events, lines, blocked }: BatchRequest): void {
    const skipped = [...blocked.keys()];
    const count = events.length;
    this.#send({ kind: "transform", instance: this.key, id, lines, count, skipped });
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

  #takeOutcomes(id: number, outcomes: readonly ThreadOutcome[]): void {
    const request = this.#batches.get(id);
    if (request === undefined) return;
    this.#batches.delete(id);
    const { events, exact, blocked, resolve } = request;
    resolve(
      events.map((event, index) => {
        const reason = blocked.get(index);
        const outcome = outcomes[index];
        if (reason !== undefined || outcome === undefined) {
          return failedEvent(reason ?? "it was not run", true);
        }
        return readOutcome(event, outcome, exact.has(index));
      }),
    );
  }

  #takeAsk({ ask, op, argument, cause }: Extract<FromThread, { kind: "ask" }>): void {
    const asked = this.#answer(op, argument, this.#eventOf(cause));
    asked.then(
      (value) => this.#send({ kind: "answer", instance: this.key, ask, isOk: true, value }),
      (error) => {
        const reason = error instanceof Error ? error.message : String(error);
        this.#send({ kind: "answer", instance: this.key, ask, isOk: false, value: reason });
      },
    );
  }

  #eventOf(cause: Extract<FromThread, { kind: "ask" }>["cause"]): SandboxEvent | null {
    if (cause === null) return null;
    if (cause.event !== null) return this.#batches.get(cause.id)?.events[cause.event] ?? null;
    const call = this.#calls.get(cause.id)?.call;
    return call !== undefined && "event" in call ? call.event : null;
  }

  async #answer(op: string, argument: Json, event: SandboxEvent | null): Promise<Json | undefined> {
    const { host } = this.settings;
    const [first, second, third] = Array.isArray(argument) ? argument : [];
    switch (op) {
      case "get":
        return this.#inOrder(async () => {
          const value = await host.readStored(String(first));
          return value === undefined ? [] : [value];
        });
      case "set":
        return this.#inOrder(() => host.writeStored(String(first), second ?? null));
      case "delete":
        return this.#inOrder(() => host.deleteStored(String(first)));
      case "locate":
        return host.locate(String(first));
      case "job":
        await host.enqueueJob(String(first), second ?? null, new Date(Number(third)));
        return undefined;
      case "capture": {
        const properties = isJsonObject(second) ? { ...second } : {};
        const { distinct_id: distinctId, timestamp } = properties as Record<string, Json>;
        await host.capture(
          {
            event: String(first),
            distinctId: typeof distinctId === "string" ? distinctId : null,
            properties,
            timestamp: typeof timestamp === "string" ? timestamp : null,
          },
          { event },
        );
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

function setupOf({ config, attachments }: InstanceSettings): string {
  const files = Object.fromEntries(
    Object.entries(attachments).map(([key, { contentType, fileName }]) => [
      key,
      { contentType, fileName },
    ]),
  );
  return encodeJson({ config, attachments: files });
}

function failedEvent(reason: string, isLimit: boolean): EventOutcome {
  return { kind: "failed", reason, isLimit, cpuMs: 0 };
}

function readOutcome(
  before: SandboxEvent,
  { text, isLimit, cpuMs }: ThreadOutcome,
  isExact: boolean,
): EventOutcome {
  switch (text[0]) {
    case "=":
      return { kind: "keep", cpuMs };
    case "-":
      return { kind: "drop", cpuMs };
    case "+": {
      const event = JSON.parse(text.slice(1)) as JsonObject;
      return {
        kind: "keep",
        event: isExact ? (restoreIntegers(before, event) as JsonObject) : event,
        cpuMs,
      };
    }
    default:
      return { kind: "failed", reason: String(JSON.parse(text.slice(1))), isLimit, cpuMs };
  }
}

/** Integers that lost digits on their way through the sandbox, where they were not changed there. */
function restoreIntegers(before: Json | undefined, after: Json): Json {
  if (typeof before === "bigint") return Number(before) === after ? before : after;
  if (Array.isArray(after)) {
    const known = Array.isArray(before) ? (before as readonly Json[]) : [];
    return after.map((item, index) => restoreIntegers(known[index], item));
  }
  if (!isJsonObject(after) || !isJsonObject(before)) return after;
  for (const key of Object.keys(after)) {
    Object.defineProperty(after, key, {
      value: restoreIntegers(ownValue(before, key), after[key] as Json),
      writable: true,
      enumerable: true,
      configurable: true,
    });
  }
  return after;
}
