/** When a person who started counts as retained. */
export interface RetentionRule {
  /** From the start, in units, both inclusive. */
  readonly windowStart: number;
  readonly windowEnd: number;
  /** In the unit of the times. */
  readonly unit: number;
  /**
   * The beginning of the day or hour that holds a time, for units that are compared by the calendar; the
   * time itself for others.
   */
  readonly startOfUnit: (at: number) => number;
  readonly startHandling: "first_seen" | "last_seen";
}

/** Whether a person started, and came back. */
export interface Retention {
  readonly started: boolean;
  readonly retained: boolean;
}

/**
 * Retention of one person (statistics 1.2): the first or last start event at or after the exposure, and
 * a completion between `windowStart` and `windowEnd` units later.
 */
export function retentionOf(
  starts: readonly number[],
  completions: readonly number[],
  exposure: number,
  rule: RetentionRule,
): Retention {
  const counted = starts.filter((at) => at >= exposure);
  if (counted.length === 0) return { started: false, retained: false };
  const start = rule.startHandling === "first_seen" ? Math.min(...counted) : Math.max(...counted);
  const begun = completions.map(rule.startOfUnit);
  return { started: true, retained: comesBack(rule.startOfUnit(start), begun, rule) };
}

/** Whether a completion lies in the window after a start, all told by the beginnings of their units. */
export function comesBack(
  start: number,
  completions: readonly number[],
  { unit, windowStart, windowEnd }: Pick<RetentionRule, "unit" | "windowStart" | "windowEnd">,
): boolean {
  return completions.some((completion) => {
    const units = (completion - start) / unit;
    return units >= windowStart && units <= windowEnd;
  });
}
