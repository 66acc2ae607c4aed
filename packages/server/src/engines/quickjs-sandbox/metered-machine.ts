import type { Asker } from "./ask-bounds.ts";
import { CpuMeter, nothingSpent, type Spending } from "./cpu-meter.ts";
import type { GuestPlatform } from "./guest-platform.ts";
import { BEAT, type GuestCause, NO_EVENT } from "./sandbox-messages.ts";
import type { VirtualMachine } from "./virtual-machine.ts";

/** A piece of work whose cost is measured and limited by itself. */
export interface Task extends Asker {
  readonly spending: Spending;
  readonly limitMs: number;
  readonly beat: number;
  readonly cause: GuestCause | null;
  /** What has ended and had set this going. */
  readonly origin: Task | null;
}

/**
 * The machine of an instance, and whose work it does: what it spends is that task's. Shows both to
 * whoever watches the thread.
 */
export class MeteredMachine {
  readonly #key: number;
  readonly #beat: Int32Array<SharedArrayBuffer>;
  readonly #meter: CpuMeter;
  readonly #limitMs: number;
  #machine: VirtualMachine | null = null;
  #current: Task;
  #exceeded: GuestCause | null = null;

  /** @param limitMs what a task may spend unless it says otherwise */
  constructor(
    key: number,
    limitMs: number,
    { beat, threadCpu }: Pick<GuestPlatform, "beat" | "threadCpu">,
  ) {
    this.#key = key;
    this.#beat = beat;
    this.#meter = new CpuMeter(threadCpu);
    this.#limitMs = limitMs;
    this.#current = this.taskOf(NO_EVENT.other, null);
  }

  /** Whose work is done, or was done last. */
  get current(): Task {
    return this.#current;
  }

  /** What the machine was stopped for, until there is a new one. */
  get exceeded(): GuestCause | null {
    return this.#exceeded;
  }

  /** Which event of a run the guest says is under way, and since when. */
  get mark(): VirtualMachine["mark"] | null {
    return this.#machine?.mark ?? null;
  }

  use(machine: VirtualMachine): void {
    this.#machine = machine;
  }

  /** Lets the machine go. */
  drop(): void {
    this.#machine = null;
    this.#exceeded = null;
  }

  /** What a run came to that a fault has ended. */
  salvage(): string {
    return this.#machine?.salvage() ?? "";
  }

  taskOf(beat: number, cause: GuestCause | null, origin: Task | null = null): Task {
    const events = cause === null || cause.event === null ? 0 : 1;
    const spending = nothingSpent();
    return { spending, limitMs: this.#limitMs, beat, cause, origin, events };
  }

  /** Runs something in the machine as the work of a task. */
  enter(task: Task, work: (machine: VirtualMachine) => string): string {
    const machine = this.#machine;
    if (machine === null) return "";
    Atomics.store(this.#beat, BEAT.instance, this.#key);
    this.switchTo(task, performance.now());
    return work(machine);
  }

  /** What is spent from then on is that task's. */
  switchTo(task: Task, nowMs: number): void {
    Atomics.store(this.#beat, BEAT.event, task.beat);
    this.showLife();
    this.#current = task;
    this.#meter.switchTo(task.spending, task.limitMs, nowMs);
  }

  /** The thread is not blocked. */
  showLife(): void {
    Atomics.add(this.#beat, BEAT.count, 1);
  }

  /** Time counts from here on. */
  wake(): void {
    this.#meter.wake();
  }

  /** Nobody's work is done. */
  rest(): void {
    this.#meter.rest();
    Atomics.store(this.#beat, BEAT.instance, 0);
  }

  /** Takes what has passed into account; true when the task has used up its time. */
  settle(nowMs = performance.now()): boolean {
    return this.#meter.settle(nowMs);
  }

  /** The same, for code that is stopped then. */
  mustStop(): boolean {
    this.showLife();
    const isExceeded = this.settle();
    if (isExceeded) this.#exceeded ??= this.#current.cause;
    return isExceeded;
  }
}
