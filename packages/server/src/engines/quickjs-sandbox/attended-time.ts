/** How often time is looked at while something waits. */
export const LOOK_MS = 100;
/** Between two looks counts at most so much: what is longer, the thread itself had no turn. */
const MAX_STEP_MS = 2 * LOOK_MS;
/** So long after the last sign of life of the main thread, time counts no more. */
const GRACE_MS = 1_000;

/**
 * Time in which answers could come: it stands still while this thread, or the main thread, which
 * answers, has no turn. Limits of waiting are in such time, since otherwise a machine that is busy
 * for some seconds would fail whatever waits.
 */
export class AttendedTime {
  readonly #signs: () => number;
  #ms = 0;
  #at: number;
  #lastSigns: number;
  #lastSignAt: number;

  /** @param signs grows several times in a second while the main thread has its turns */
  constructor(signs: () => number, nowMs: number) {
    this.#signs = signs;
    this.#at = nowMs;
    this.#lastSigns = signs();
    this.#lastSignAt = nowMs;
  }

  /** Milliseconds of it that have passed; to be asked every {@link LOOK_MS} while something waits. */
  read(nowMs: number): number {
    const stepMs = Math.max(0, nowMs - this.#at);
    this.#at = nowMs;
    const signs = this.#signs();
    if (signs !== this.#lastSigns) {
      this.#lastSigns = signs;
      this.#lastSignAt = nowMs;
    } else if (nowMs - this.#lastSignAt > GRACE_MS) return this.#ms;
    this.#ms += Math.min(stepMs, MAX_STEP_MS);
    return this.#ms;
  }
}
