import { encodeJson } from "@hedgerow/core/exact-json";
import type { Json } from "@hedgerow/core/json";
import { AskBounds, type Question } from "./ask-bounds.ts";
import type { BatchLine } from "./batch-line.ts";
import type { GuestPlatform } from "./guest-platform.ts";
import type { MeteredMachine, Task } from "./metered-machine.ts";
import { type GuestCause, type GuestSettings, NO_EVENT } from "./sandbox-messages.ts";

/** As many as come together where each event sets one that outlives it by seconds (`AbortSignal.timeout`). */
const MAX_TIMERS = 10_000;

/** Questions whose effect is to be durable with an event. */
const OF_EVENTS: ReadonlySet<string> = new Set(["set", "delete", "job", "capture"]);

interface Asked extends Question {
  /** By which number the guest knows it. */
  readonly guestNumber: number;
  readonly task: Task;
}

/** What questions are given of their instance. */
export interface OpenQuestionsOwner {
  readonly key: number;
  readonly settings: GuestSettings;
  readonly platform: Pick<GuestPlatform, "send" | "fetch">;
  readonly machine: MeteredMachine;
  /** Whether what asked for something has not ended. */
  isUnderWay(cause: GuestCause): boolean;
  /** Whether it is being loaded and set up. */
  isStarting(): boolean;
  readonly batches: Pick<BatchLine, "latest" | "oldestWaiting" | "isShared">;
  /** There may be something to do. */
  wake(): void;
}

/** What the machine waits for: answers and timers that are on their way, or have come and are to be told. */
export class OpenQuestions {
  readonly #owner: OpenQuestionsOwner;
  readonly #bounds = new AskBounds();
  /** By numbers that are never given again, so that answers to one machine do not reach the next. */
  readonly #asks = new Map<number, Asked>();
  #askCount = 0;
  readonly #timers = new Map<number, NodeJS.Timeout>();
  #arrived: (() => void)[] = [];

  constructor(owner: OpenQuestionsOwner) {
    this.#owner = owner;
  }

  get hasArrived(): boolean {
    return this.#arrived.length > 0;
  }

  /** Nothing is on its way. */
  get isEmpty(): boolean {
    return this.#asks.size === 0 && this.#timers.size === 0 && this.#arrived.length === 0;
  }

  /** Tells the machine what has come first. */
  tellNext(): void {
    this.#arrived.shift()?.();
  }

  /** The machine is there no more. */
  drop(): void {
    this.#asks.clear();
    this.#bounds.endAll();
    this.#arrived = [];
    for (const timer of this.#timers.values()) clearTimeout(timer);
    this.#timers.clear();
  }

  /** What was refused since this was asked last, in words. */
  takeRefusals(): readonly string[] {
    return this.#bounds.takeRefusals();
  }

  /** Takes what the guest asks, `[number, op, argument]`; throws where it may not. */
  ask(text: string): void {
    const tooDeep = this.#bounds.refuseDeep(text);
    if (tooDeep !== undefined) throw new Error(tooDeep);
    const [guestNumber, op, argument] = JSON.parse(text) as [number, string, Json];
    const { key, settings, platform, machine, batches } = this.#owner;
    const { length } = text;
    const task = machine.current;
    const cause = task.cause ?? (OF_EVENTS.has(op) ? batches.oldestWaiting : null);
    const begun = task.cause !== null ? task : (task.origin ?? batches.latest ?? task);
    // Where several events wait, code that follows from another's may run as the work of any of them.
    const isCertain = task.cause !== null && (task.cause.event === null || !batches.isShared);
    const asker = op === "capture" && !isCertain ? (batches.latest ?? begun) : begun;
    const refusal = this.#bounds.begin({ asker, length }, op);
    if (refusal !== undefined) throw new Error(refusal);
    this.#askCount += 1;
    const ask = this.#askCount;
    this.#asks.set(ask, { guestNumber, task, asker, length });
    if (op !== "fetch") {
      const origin = isCertain ? null : begun.cause;
      platform.send({ kind: "ask", instance: key, ask, op, argument, cause, origin }, length);
      return;
    }
    platform.fetch(argument, settings).then(
      (answer) => this.answer(ask, true, answer),
      (error: unknown) => this.answer(ask, false, (error as Error).message),
    );
  }

  /** An answer has come. */
  answer(ask: number, isOk: boolean, value: Json | undefined): void {
    const asked = this.#asks.get(ask);
    if (asked === undefined) return;
    this.#asks.delete(ask);
    const text = encodeJson([asked.guestNumber, isOk, value ?? null]);
    this.#arrive(asked.task, () => {
      this.#bounds.end(asked);
      return ["settle", text];
    });
  }

  /** Sets a timer of the guest's, or ends it: `[number, milliseconds or null]`. */
  setTimer([id, delayMs]: [number, number | null]): void {
    clearTimeout(this.#timers.get(id));
    this.#timers.delete(id);
    if (delayMs === null) return;
    if (this.#timers.size >= MAX_TIMERS) throw new Error("too many timers are set");
    const task = this.#owner.machine.current;
    const timer = setTimeout(() => {
      this.#arrive(task, () => {
        this.#timers.delete(id);
        return ["fire", id];
      });
    }, delayMs);
    this.#timers.set(id, timer);
  }

  #arrive(task: Task, tell: () => ["settle", string] | ["fire", number]): void {
    const { machine } = this.#owner;
    this.#arrived.push(() => {
      const [name, value] = tell();
      machine.enter(this.#stillOf(task), (guest) => guest.run(name, value));
    });
    this.#owner.wake();
  }

  /** The work that something was begun for, or one of its own when that has ended. */
  #stillOf(task: Task): Task {
    const { machine } = this.#owner;
    const { cause } = task;
    const isOfStart = task.beat === NO_EVENT.start;
    const isUnderWay = isOfStart
      ? this.#owner.isStarting()
      : cause !== null && this.#owner.isUnderWay(cause);
    if (isUnderWay) return task;
    return machine.taskOf(NO_EVENT.other, null, cause === null ? task.origin : task);
  }
}
