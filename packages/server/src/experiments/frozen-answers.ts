/** An answer of an ended experiment as it was first given. */
export interface FrozenAnswer {
  /** Tells what was asked: the window, the metric and how it is compared. */
  readonly key: string;
  readonly body: string;
  readonly computedAt: Date;
}

/** Answers kept of one experiment at most, and what they may come to in UTF-16 units. */
export const MAX_FROZEN_ANSWERS = 1000;
export const MAX_FROZEN_CHARS = 16 * 1024 * 1024;

/** Answers that stay as they are, of all ended experiments. */
export interface FrozenAnswers {
  /** Those that are kept under the keys, in no order. */
  find(experimentId: number, keys: readonly string[]): Promise<readonly FrozenAnswer[]>;

  /**
   * Keeps answers under keys that have none, all or nothing and durably, and answers what is kept under
   * all of their keys then: of two that come at once the first. Answers of other windows than this one
   * are forgotten. What exceeds the bounds is not kept.
   */
  freeze(
    experimentId: number,
    window: string,
    answers: readonly FrozenAnswer[],
  ): Promise<readonly FrozenAnswer[]>;
}
