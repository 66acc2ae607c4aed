import type { JsonObject } from "../json.ts";

/** The keys that count, by the place where they do (posthog-api 4.2, flag-evaluation 10). */
export const KEYS = {
  filters: [
    "groups",
    "super_groups",
    "holdout_groups",
    "holdout",
    "multivariate",
    "payloads",
    "aggregation_group_type_index",
    "early_exit",
    "feature_enrollment",
    "version",
    "properties",
    "rollout_percentage",
  ],
  condition: ["properties", "rollout_percentage", "variant", "aggregation_group_type_index"],
  filter: ["key", "type", "operator", "value", "group_type_index", "negation"],
  multivariate: ["variants"],
  variant: ["key", "rollout_percentage"],
  cohortFilters: ["properties"],
  cohortGroup: ["type", "values"],
  leaf: [
    "key",
    "type",
    "operator",
    "value",
    "negation",
    "event_type",
    "event_filters",
    "time_value",
    "time_interval",
    "explicit_datetime",
    "explicit_datetime_to",
    "operator_value",
    "seq_event",
    "seq_event_type",
    "seq_time_value",
    "seq_time_interval",
    "total_periods",
    "min_periods",
  ],
} as const satisfies Readonly<Record<string, readonly string[]>>;

/** Keys that PostHog and its clients use somewhere in filters: none of them is a misspelling. */
const USED: ReadonlySet<string> = new Set([
  ...Object.values(KEYS).flat(),
  ...["sort_key", "description", "users_affected", "name", "uuid", "id", "label", "payload"],
  ...["split_percent", "cohort_name", "group_key_names", "bytecode", "conditionHash"],
  ...["event", "disabled", "dependency_chain"],
]);

/** The keys that count, without case and separators. */
const FOLDED: ReadonlyMap<string, string> = new Map(
  Object.values(KEYS).flatMap((keys) => keys.map((key) => [key, fold(key)] as const)),
);

/** Shares are easily called by half of their name, and without one a condition is for everyone. */
const HALF_NAMES = new Set(["rollout", "percent", "percentage"]);
const SHARE = "rollout_percentage";

/** How many letters may be wrong: in words as short as `type` two make another word. */
const limitFor = (known: string): number => (known.length <= 4 ? 1 : 2);
/** Endings are mixed up as a whole (`property`, `rollout_percent`) in words of this length. */
const LONG = 10;
const MAX_ENDING = 3;

/** Most different keys of no known meaning that are looked at; each takes some microseconds. */
const MAX_UNKNOWN_KEYS = 1_000;

/** Looks for slips in what one author wrote: the same key is looked at once, however often it stands there. */
export class SpellingCheck {
  readonly #meant = new Map<readonly string[], Map<string, string | null>>();
  #unknownKeys = 0;
  #toldTooMany = false;

  /** What to say of the first slip among the keys of an object, or, once, of too many to look at; `null` without. */
  problemIn(object: JsonObject, known: readonly string[], path: string): string | null {
    const slip = this.findSlip(object, known);
    if (slip !== null) {
      return `${path}.${slip.key} is not a known field. Did you mean ${slip.meant}?`;
    }
    if (this.#unknownKeys <= MAX_UNKNOWN_KEYS || this.#toldTooMany) return null;
    this.#toldTooMany = true;
    return `${path}: more than ${MAX_UNKNOWN_KEYS} different fields are not known`;
  }

  /**
   * The first key of an object that can only be a slip for one of `known`, and the one meant: letters
   * are wrong, missing, added or swapped, or the ending differs; case and separators are left aside.
   * `null` where all keys are known, used by PostHog elsewhere, or far from every known one.
   */
  findSlip(
    object: JsonObject,
    known: readonly string[],
  ): { readonly key: string; readonly meant: string } | null {
    const seen = this.#meant.get(known) ?? new Map<string, string | null>();
    this.#meant.set(known, seen);
    for (const key of Object.keys(object)) {
      if (USED.has(key)) continue;
      let meant = seen.get(key);
      if (meant === undefined) {
        if (++this.#unknownKeys > MAX_UNKNOWN_KEYS) return null;
        meant = meantBy(key, known);
        seen.set(key, meant);
      }
      if (meant !== null) return { key, meant };
    }
    return null;
  }
}

function meantBy(key: string, known: readonly string[]): string | null {
  if (key.length > 100) return null;
  const written = fold(key);
  if (HALF_NAMES.has(written) && known.includes(SHARE)) return SHARE;
  let nearest: string | null = null;
  let least = Number.POSITIVE_INFINITY;
  for (const candidate of known) {
    const folded = FOLDED.get(candidate) ?? fold(candidate);
    const distance = differsInEnding(written, folded)
      ? MAX_ENDING
      : distanceBetween(written, folded, limitFor(folded));
    if (distance >= least || distance > MAX_ENDING) continue;
    nearest = candidate;
    least = distance;
  }
  return nearest;
}

function fold(key: string): string {
  return key.toLowerCase().replaceAll(/[_\s-]/g, "");
}

function differsInEnding(written: string, known: string): boolean {
  if (known.length < LONG) return false;
  const rest = Math.max(written.length, known.length) - commonStart(written, known);
  return rest <= MAX_ENDING;
}

function commonStart(one: string, other: string): number {
  let at = 0;
  while (at < one.length && one[at] === other[at]) at += 1;
  return at;
}

/**
 * Letters to insert, delete, replace or swap with their neighbor to get from one text to the other;
 * infinite where it is more than `limit`.
 */
function distanceBetween(one: string, other: string, limit: number): number {
  if (Math.abs(one.length - other.length) > limit) return Number.POSITIVE_INFINITY;
  let beforeLast: number[] = [];
  let last = Array.from({ length: other.length + 1 }, (_, at) => at);
  for (let i = 1; i <= one.length; i += 1) {
    const row = [i];
    for (let j = 1; j <= other.length; j += 1) {
      const isSame = one[i - 1] === other[j - 1];
      let cost = Math.min(at(last, j) + 1, at(row, j - 1) + 1, at(last, j - 1) + (isSame ? 0 : 1));
      if (i > 1 && j > 1 && one[i - 1] === other[j - 2] && one[i - 2] === other[j - 1]) {
        cost = Math.min(cost, at(beforeLast, j - 2) + 1);
      }
      row.push(cost);
    }
    if (Math.min(...row) > limit && Math.min(...last) > limit) return Number.POSITIVE_INFINITY;
    beforeLast = last;
    last = row;
  }
  const distance = at(last, other.length);
  return distance <= limit ? distance : Number.POSITIVE_INFINITY;
}

function at(row: readonly number[], index: number): number {
  return row[index] ?? Number.POSITIVE_INFINITY;
}
