/** One step between two looks counts at most so much: longer ones were spent waiting for a turn. */
const MAX_STEP_MS = 8;
/** However little was counted, this many times the limit is too long. */
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
 * Measures what code costs while it is looked at every few hundred microseconds. The platform tells
 * no CPU time of a thread; on a busy machine a clock on the wall would stop innocent code, so long
 * steps between two looks, when others had the processor, count little.
 */
export class CpuMeter {
  #spending: Spending = nothingSpent();
  #limitMs = Number.POSITIVE_INFINITY;
  #at = 0;

  /** From now on, what is spent is that of this work. */
  switchTo(spending: Spending, limitMs: number, nowMs = performance.now()): void {
    this.settle(nowMs);
    this.#spending = spending;
    this.#limitMs = limitMs;
    this.#at = nowMs;
  }

  /** Takes what has passed into account; true when the limit is exceeded. */
  settle(nowMs = performance.now()): boolean {
    const stepMs = Math.max(0, nowMs - this.#at);
    this.#at = nowMs;
    const spending = this.#spending;
    spending.cpuMs += Math.min(stepMs, MAX_STEP_MS);
    spending.wallMs += stepMs;
    return spending.cpuMs > this.#limitMs || spending.wallMs > this.#limitMs * WALL_FACTOR;
  }

  /** Time passes without anybody's cost. */
  rest(): void {
    this.switchTo(nothingSpent(), Number.POSITIVE_INFINITY);
  }

  /** Ends a rest. */
  wake(nowMs = performance.now()): void {
    this.#at = nowMs;
  }
}
