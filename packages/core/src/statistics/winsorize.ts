/** Which shares of the values are cut off, as numbers between 0 and 1; absent for none. */
export interface WinsorSettings {
  readonly lowerPercentile?: number;
  readonly upperPercentile?: number;
  /** Zeros do not count for the upper bound. */
  readonly ignoreZeros: boolean;
}

/** Values below and above are set to these. */
export interface WinsorBounds {
  readonly lower: number;
  readonly upper: number;
}

/**
 * The bounds from the values of all arms together: never per arm, which would hide an effect
 * (statistics 5.10). Quantiles interpolate between order statistics at (n - 1) q.
 */
export function winsorBounds(values: readonly number[], settings: WinsorSettings): WinsorBounds {
  const sorted = [...values].sort((left, right) => left - right);
  const counted = settings.ignoreZeros ? sorted.filter((value) => value !== 0) : sorted;
  return {
    lower:
      settings.lowerPercentile === undefined
        ? Number.NEGATIVE_INFINITY
        : interpolatedQuantile(sorted, settings.lowerPercentile),
    upper:
      settings.upperPercentile === undefined
        ? Number.POSITIVE_INFINITY
        : interpolatedQuantile(counted.length > 0 ? counted : sorted, settings.upperPercentile),
  };
}

/** A value inside the bounds. */
export function winsorize(value: number, { lower, upper }: WinsorBounds): number {
  return Math.min(upper, Math.max(lower, value));
}

/** The quantile of sorted values, linear between neighbours; NaN of none. */
function interpolatedQuantile(sorted: readonly number[], q: number): number {
  const at = (sorted.length - 1) * q;
  const below = sorted[Math.floor(at)] ?? Number.NaN;
  const above = sorted[Math.ceil(at)] ?? Number.NaN;
  return below === above ? below : below + (above - below) * (at - Math.floor(at));
}
