/** An instance may waste so much time by exceeding its limits, and gets it back slowly. */
const ALLOWED_MS = 400;
/** One native call that cannot be interrupted may cost more, but does not use up the allowance. */
const MAX_AT_ONCE_MS = 300;
const REGAINED_PER_MS = 0.02;

/** How much time of others an instance may yet waste by exceeding its limits. */
export class WasteAllowance {
  #usedMs = 0;
  #at = performance.now();

  /** Takes note of time that was wasted. */
  use(costMs: number): void {
    const nowMs = performance.now();
    const regainedMs = (nowMs - this.#at) * REGAINED_PER_MS;
    this.#usedMs = Math.max(0, this.#usedMs - regainedMs) + Math.min(costMs, MAX_AT_ONCE_MS);
    this.#at = nowMs;
  }

  get isExhausted(): boolean {
    if (this.#usedMs < ALLOWED_MS) return false;
    this.use(0);
    return this.#usedMs >= ALLOWED_MS;
  }
}
