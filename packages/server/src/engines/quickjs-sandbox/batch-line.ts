import type { Asker } from "./ask-bounds.ts";
import { BatchUnderWay, type TransformMessage } from "./batch-under-way.ts";
import type { Spending } from "./cpu-meter.ts";
import { ShapeTable } from "./event-shapes.ts";
import { EXHAUSTED, failedOutcome } from "./guest-failures.ts";
import type { GuestPlatform } from "./guest-platform.ts";
import type { MeteredMachine, Task } from "./metered-machine.ts";
import { OutcomeJudge } from "./outcome-judge.ts";
import { readRun } from "./run-outcomes.ts";
import {
  type GuestCause,
  type GuestFailure,
  type GuestSettings,
  NO_EVENT,
} from "./sandbox-messages.ts";
import { SET, SET_ALIKE } from "./told-sets.ts";
import type { WasteAllowance } from "./waste-allowance.ts";

/** Events that are run in one go: which one is under way, as far as is known, and what they spent. */
interface RunUnderWay {
  readonly batch: BatchUnderWay;
  event: number;
  readonly spendings: Spending[];
}

/** What the batches of an instance are given of it. */
export interface BatchLineOwner {
  readonly settings: GuestSettings;
  readonly platform: Pick<GuestPlatform, "attended" | "mustYield" | "msLeft">;
  readonly machine: MeteredMachine;
  readonly waste: WasteAllowance;
  /** Nothing of the batch has begun. */
  onBegin(): void;
  /** All events of the batch are done; false where nothing more may be run now. */
  onEnd(batch: BatchUnderWay): boolean;
  /** There may be something to do. */
  wake(): void;
}

/**
 * The batches of an instance, one after the other: gives their events to the machine, in one go where
 * that can be, and takes what became of them.
 */
export class BatchLine {
  readonly #owner: BatchLineOwner;
  readonly #line: BatchUnderWay[] = [];
  #batch: BatchUnderWay | null = null;
  /** The batch under way, or the last one: what nobody knows the beginning of hangs on that. */
  #latest: (Asker & { readonly cause: GuestCause }) | null = null;
  #run: RunUnderWay | null = null;
  #shapes = new ShapeTable();
  /** How many shapes the machine knows. */
  #shapesGiven = 0;

  constructor(owner: BatchLineOwner) {
    this.#owner = owner;
  }

  get latest(): (Asker & { readonly cause: GuestCause }) | null {
    return this.#latest;
  }

  get isEmpty(): boolean {
    return this.#batch === null && this.#line.length === 0;
  }

  /** Whether there is something to do that waits for nothing. */
  get canBegin(): boolean {
    return this.#batch === null ? this.#line.length > 0 : this.#batch.canBegin;
  }

  /** Whether an event has begun that is not done. */
  get isWaiting(): boolean {
    return this.#batch !== null && this.#batch.waiting.size > 0;
  }

  add(message: TransformMessage): void {
    this.#line.push(new BatchUnderWay(message));
  }

  /** What has not begun of a batch is left. */
  cut(id: number): void {
    const batch = [this.#batch, ...this.#line].find((one) => one?.id === id) ?? null;
    batch?.cut();
    if (batch?.left === 0 && this.#batch === batch) this.#end(batch);
    else if (batch !== null) this.#owner.wake();
  }

  clear(): void {
    this.#line.length = 0;
    this.#batch = null;
  }

  /** All that waits has failed. */
  failAll({ reason, isLimit }: GuestFailure): void {
    for (;;) {
      this.#batch ??= this.#line.shift() ?? null;
      const batch = this.#batch;
      if (batch === null) return;
      batch.failRest(reason, isLimit);
      this.#end(batch);
    }
  }

  /** What the next machine is told is told piece by piece again. */
  forgetShapes(): void {
    this.#shapes = new ShapeTable();
    this.#shapesGiven = 0;
  }

  /** The machine was lost: tells which events of which batch begin again. */
  beginAnew(): { readonly id: number; readonly events: readonly number[] } | null {
    const batch = this.#batch;
    if (batch === null) return null;
    const events = [...batch.waiting.keys()];
    batch.beginAnew();
    return { id: batch.id, events };
  }

  /** Runs what can begin, as long as the turn lasts. */
  work(): void {
    const { platform, waste, machine } = this.#owner;
    for (;;) {
      this.#batch ??= this.#line.shift() ?? null;
      const batch = this.#batch;
      if (batch === null) return;
      if (!batch.isAccepted) this.#accept(batch);
      while (batch.canBegin) {
        if (waste.isExhausted) batch.failRest(EXHAUSTED.reason);
        else {
          const from = batch.runFrom;
          if (from >= 0) this.#runAll(batch, from);
          else machine.enter(machine.taskOf(NO_EVENT.other, null), (guest) => guest.run("work"));
        }
        if (platform.mustYield()) break;
      }
      if (batch.left > 0 || this.#batch !== batch) return;
      if (!this.#end(batch) || platform.mustYield()) return;
    }
  }

  #accept(batch: BatchUnderWay): void {
    batch.isAccepted = true;
    if (this.#latest?.cause.id !== batch.id) {
      this.#latest = { events: batch.outcomes.length, cause: { id: batch.id, event: null } };
    }
    this.#owner.onBegin();
    if (this.#owner.waste.isExhausted) batch.failRest(EXHAUSTED.reason);
    else if (batch.left > 0) this.#give(batch);
  }

  /** Gives the guest a batch, and the shapes that it does not know. */
  #give(batch: BatchUnderWay): void {
    const { machine } = this.#owner;
    if (this.#shapes.isFull) this.forgetShapes();
    if (batch.scanned?.shapes !== this.#shapes) batch.scanned = this.#shapes.scan(batch.text);
    const { texts, numbers } = batch.scanned;
    const added = batch.hasShapes ? this.#shapes.someFrom(this.#shapesGiven) : [];
    const told = added.map(({ keys, lengths }) => [keys, lengths]);
    const shapes = JSON.stringify([this.#shapesGiven + 1, ...told]);
    this.#shapesGiven += added.length;
    const task = machine.taskOf(NO_EVENT.other, null);
    try {
      machine.enter(task, (guest) => guest.run("accept", ...texts, numbers, shapes));
    } catch (error) {
      // Events whose shapes are not known are read as a whole.
      batch.hasShapes = false;
      throw error;
    }
  }

  /**
   * Runs events one after the other within one call, until the turn is over or one of them waits. Who
   * is under way is seen by a mark in the guest's memory, when the engine is interrupted.
   */
  #runAll(batch: BatchUnderWay, from: number): void {
    const { machine, platform } = this.#owner;
    const { left } = batch;
    const task = machine.taskOf(NO_EVENT.run, null);
    const run = { batch, event: -1, spendings: [task.spending] };
    this.#run = run;
    const untilMs = Date.now() + platform.msLeft();
    try {
      let text = machine.enter(task, (guest) => guest.run("startRun", from, untilMs));
      this.#endRun();
      const last = machine.current;
      if (text === "") {
        const other = machine.taskOf(NO_EVENT.other, null);
        text = machine.enter(other, (guest) => guest.run("collect"));
      }
      const isWaiting = this.#takeRun(run, from, text, last);
      // The next run would tell as little, and the one after it.
      if (!isWaiting && batch.left === left) batch.failRest("it does not tell what became of them");
    } catch (error) {
      if (this.#run === null) {
        // It was no event but all of them together: each by itself may go well.
        batch.isCareful = true;
        throw error;
      }
      this.#endRun();
      this.#takeRun(run, from, machine.salvage(), machine.current);
      throw error;
    }
  }

  #endRun(): void {
    this.lookAtMark();
    this.#owner.machine.settle();
    this.#run = null;
  }

  /** Finds out which event of a run is under way; what is spent from then on is its own. */
  lookAtMark(nowMs = performance.now()): void {
    const run = this.#run;
    if (run === null) return;
    const { machine } = this.#owner;
    const { mark } = machine;
    if (mark === null || mark.event === run.event) return;
    const { event } = mark;
    const isEvent = event >= 0 && event < run.batch.outcomes.length;
    run.event = isEvent ? event : -1;
    const task = machine.taskOf(NO_EVENT.run, isEvent ? { id: run.batch.id, event } : null);
    run.spendings.push(task.spending);
    machine.switchTo(task, Math.min(nowMs, mark.sinceMs - performance.timeOrigin));
  }

  /** Takes what a run came to; true where an event of it, which was under way last, waits. */
  #takeRun(
    { batch, event, spendings }: RunUnderWay,
    from: number,
    text: string,
    last: Task,
  ): boolean {
    const { texts, sets, cpuMsOf } = readRun(text, spendings);
    const judge = this.#judgeOf(batch);
    for (const [at, told] of texts.entries()) {
      const index = from + at;
      if (index >= batch.outcomes.length || batch.outcomes[index] !== undefined) break;
      const cpuMs = cpuMsOf(index);
      batch.end(
        index,
        told === SET || told === SET_ALIKE
          ? judge.judgeSets(sets, told, index, cpuMs)
          : judge.judge(told, index, cpuMs),
      );
    }
    if (event < 0 || batch.outcomes[event] !== undefined) return false;
    this.#await(batch, event, last);
    return true;
  }

  #judgeOf(batch: BatchUnderWay): OutcomeJudge {
    const { machine, settings } = this.#owner;
    const { exceeded } = machine;
    const stopped = exceeded?.id === batch.id ? exceeded.event : null;
    return new OutcomeJudge(batch.scanned, settings.limits, stopped);
  }

  #await(batch: BatchUnderWay, index: number, task: Task, nowMs = performance.now()): void {
    const { platform, settings } = this.#owner;
    const until = platform.attended.read(nowMs) + settings.limits.waitMs;
    batch.waiting.set(index, { task, until });
  }

  /** Called by the guest for the next event that it runs by itself; tells what became of the last one. */
  begin(done: number, outcome: string): number {
    const { machine, platform, waste } = this.#owner;
    const nowMs = performance.now();
    machine.settle(nowMs);
    const batch = this.#batch;
    if (batch === null) return -1;
    if (done >= 0) {
      const waiting = batch.waiting.get(done);
      if (waiting !== undefined) {
        batch.end(done, this.#judgeOf(batch).judge(outcome, done, waiting.task.spending.cpuMs));
      }
      // The rest is run in one go.
      if (batch.runFrom >= 0) return this.#endLane(nowMs);
    }
    if (platform.mustYield() || batch.isFull) return this.#endLane(nowMs);
    if (waste.isExhausted) {
      batch.failRest(EXHAUSTED.reason);
      return this.#endLane(nowMs);
    }
    const index = batch.next();
    if (index < 0) return this.#endLane(nowMs);
    const task = machine.taskOf(index, { id: batch.id, event: index });
    this.#await(batch, index, task, nowMs);
    machine.switchTo(task, nowMs);
    return index;
  }

  #endLane(nowMs: number): -1 {
    const { machine } = this.#owner;
    machine.switchTo(machine.taskOf(NO_EVENT.other, null), nowMs);
    return -1;
  }

  #end(batch: BatchUnderWay): boolean {
    this.#batch = null;
    return this.#owner.onEnd(batch);
  }

  isUnderWay({ id, event }: GuestCause): boolean {
    const batch = this.#batch;
    return batch?.id === id && event !== null && batch.waiting.has(event);
  }

  /**
   * The event that waits longest: what is asked for when it is not known whose code runs (another event
   * has just ended, and what waited for it goes on) is durable no later than the event that it is of.
   */
  get oldestWaiting(): GuestCause | null {
    const batch = this.#batch;
    if (batch === null) return null;
    const [event] = batch.waiting.keys();
    return event === undefined ? null : { id: batch.id, event };
  }

  /** Whether several events wait. */
  get isShared(): boolean {
    return (this.#batch?.waiting.size ?? 0) > 1;
  }

  /** An event that waits has failed. */
  giveUp(cause: GuestCause, reason: string): void {
    const batch = this.#batch;
    if (batch !== null && batch.id === cause.id && cause.event !== null) {
      this.#giveUp(batch, cause.event, reason);
    }
  }

  /** Events that wait have failed: those whose time has come by then. */
  giveUpAll(reason: string, nowMs = Number.POSITIVE_INFINITY): void {
    const batch = this.#batch;
    for (const [index, { until }] of [...(batch?.waiting ?? [])]) {
      if (batch !== null && until <= nowMs) this.#giveUp(batch, index, reason);
    }
  }

  #giveUp(batch: BatchUnderWay, index: number, reason: string): void {
    const waiting = batch.waiting.get(index);
    if (waiting === undefined) return;
    batch.end(index, failedOutcome(reason, true, waiting.task.spending.cpuMs));
    if (batch.left === 0 && this.#batch === batch) this.#end(batch);
    else this.#owner.wake();
  }
}
