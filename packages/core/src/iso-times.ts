const MINUTE_MS = 60_000;
/** Minutes that are remembered at a time. */
const MAX_MINUTES = 1_000;

/**
 * Writes times as `Date.prototype.toISOString` does, for many that lie near each other: each minute is
 * written once for all that lie in it.
 */
export function createIsoWriter(): (time: Date) => string {
  const prefixes = new Map<number, string>();

  /** Up to the seconds, however many digits the year has. Throws what `toISOString` throws. */
  function prefixOf(minute: number, time: Date): string {
    let prefix = prefixes.get(minute);
    if (prefix === undefined) {
      prefix = time.toISOString().slice(0, -"00.000Z".length);
      if (prefixes.size >= MAX_MINUTES) prefixes.clear();
      prefixes.set(minute, prefix);
    }
    return prefix;
  }

  return (time) => {
    const ms = time.getTime();
    const minute = Math.floor(ms / MINUTE_MS);
    const prefix = prefixOf(minute, time);
    const rest = ms - minute * MINUTE_MS;
    const seconds = Math.floor(rest / 1000);
    const millis = rest - seconds * 1000;
    return `${prefix}${PAIRS[seconds]}.${millis < 100 ? `0${PAIRS[millis]}` : millis}Z`;
  };
}

const PAIRS = Array.from({ length: 100 }, (_, number) => String(number).padStart(2, "0"));
