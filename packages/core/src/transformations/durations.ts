/** How often something took how long, by bucket: the bucket's number as text, and how often. */
export type DurationCounts = Readonly<Record<string, number>>;

/** Each bucket reaches this much further than the one before: what is told is off by less than 5 %. */
const GROWTH = 1.1;
/** The first bucket ends here. */
const SMALLEST_MS = 0.01;
/** Buckets above stand for all that is longer: about an hour. */
const MAX_BUCKET = 207;

/** The bucket of a duration. */
export function bucketOf(durationMs: number): number {
  if (!(durationMs > SMALLEST_MS)) return 0;
  return Math.min(MAX_BUCKET, Math.ceil(Math.log(durationMs / SMALLEST_MS) / Math.log(GROWTH)));
}

/** Counts of both. */
export function addDurations(one: DurationCounts, other: DurationCounts): DurationCounts {
  const sum: Record<string, number> = { ...one };
  for (const [bucket, count] of Object.entries(other)) sum[bucket] = (sum[bucket] ?? 0) + count;
  return sum;
}

/**
 * The duration that a share of all did not exceed, in milliseconds; `null` where there are none.
 * @param share from 0 to 1: 0.5 for the median
 */
export function durationAt(counts: DurationCounts, share: number): number | null {
  const buckets = Object.entries(counts)
    .map(([bucket, count]) => [Number(bucket), count] as const)
    .sort(([one], [other]) => one - other);
  const total = buckets.reduce((sum, [, count]) => sum + count, 0);
  if (total === 0) return null;
  const rank = Math.max(1, Math.ceil(share * total));
  let seen = 0;
  for (const [bucket, count] of buckets) {
    seen += count;
    if (seen >= rank) return middleOf(bucket);
  }
  return null;
}

/** Halfway, by ratio, through a bucket. */
function middleOf(bucket: number): number {
  const ms = bucket === 0 ? SMALLEST_MS / 2 : SMALLEST_MS * GROWTH ** (bucket - 0.5);
  return Number(ms.toPrecision(3));
}
