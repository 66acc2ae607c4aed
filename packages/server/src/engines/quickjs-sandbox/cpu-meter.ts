import type { ThreadCpu } from "./thread-cpu.ts";

/** After so much time the share of the processor that the thread had is looked up. */
const LOOK_UP_EVERY_MS = 10;
/** Where no share is told, one step between two looks counts at most so much. */
const MAX_STEP_MS = 8;
/** Where no share is told: however little was counted, this many times the limit is too long. */
const WALL_FACTOR = 20;

/** What a piece of work has cost so far. */
export interface Spending {
  cpuMs: number;
  wallMs: number;
}

export function nothingSpent(): Spending {
  return { cpuMs: 0, wallMs: 0 };
}

/**
 * Measures what code costs while it is looked at every few hundred microseconds. Time on the wall is
 * cheap to tell and too much on a busy machine, so every few milliseconds, and whenever a limit seems
 * exceeded, it is corrected by the CPU time that the thread really had. Where the platform does not
 * tell that, long steps between two looks, when others had the processor, count little.
 */
export class CpuMeter {
  readonly #threadCpu: ThreadCpu | null;
  #spending: Spending = nothingSpent();
  #limitMs = Number.POSITIVE_INFINITY;
  #at = 0;
  /** CPU time of the thread up to which time on the wall has been corrected. */
  #correctedTo = 0;
  /** Time on the wall since then: all of it, and that of the present work. */
  #uncorrectedMs = 0;
  #ownUncorrectedMs = 0;

  constructor(threadCpu: ThreadCpu | null) {
    this.#threadCpu = threadCpu;
  }

  /** From now on, what is spent is that of this work. */
  switchTo(spending: Spending, limitMs: number, nowMs = performance.now()): void {
    this.settle(nowMs);
    this.#spending = spending;
    this.#limitMs = limitMs;
    this.#ownUncorrectedMs = 0;
  }

  /** Takes what has passed into account; true when the limit is exceeded. */
  settle(nowMs = performance.now()): boolean {
    const stepMs = Math.max(0, nowMs - this.#at);
    this.#at = Math.max(this.#at, nowMs);
    const spending = this.#spending;
    spending.wallMs += stepMs;
    const threadCpu = this.#threadCpu;
    if (threadCpu === null) {
      spending.cpuMs += Math.min(stepMs, MAX_STEP_MS);
      return spending.cpuMs > this.#limitMs || spending.wallMs > this.#limitMs * WALL_FACTOR;
    }
    spending.cpuMs += stepMs;
    this.#uncorrectedMs += stepMs;
    this.#ownUncorrectedMs += stepMs;
    if (this.#uncorrectedMs >= LOOK_UP_EVERY_MS || spending.cpuMs > this.#limitMs) {
      this.#correct(threadCpu());
    }
    return spending.cpuMs > this.#limitMs;
  }

  /** Time passes without anybody's cost. */
  rest(): void {
    this.switchTo(nothingSpent(), Number.POSITIVE_INFINITY);
  }

  /** Ends a rest. */
  wake(nowMs = performance.now()): void {
    this.#at = nowMs;
    this.#correctedTo = this.#threadCpu?.() ?? 0;
    this.#uncorrectedMs = 0;
    this.#ownUncorrectedMs = 0;
  }

  #correct(cpuMs: number): void {
    if (this.#uncorrectedMs <= 0) return;
    // What is told in steps may come late: more than the time that passed is left for the next time.
    const hadMs = Math.min(Math.max(0, cpuMs - this.#correctedTo), this.#uncorrectedMs);
    this.#spending.cpuMs -= this.#ownUncorrectedMs * (1 - hadMs / this.#uncorrectedMs);
    this.#correctedTo += hadMs;
    this.#uncorrectedMs = 0;
    this.#ownUncorrectedMs = 0;
  }
}
