const MINUTE_MS = 60_000;

/**
 * Writes times as `Date.prototype.toISOString` does, for many that lie near each other: the minute is
 * written once for all that follow within it.
 */
export function createIsoWriter(): (time: Date) => string {
  let minute = Number.NaN;
  let prefix = "";
  return (time) => {
    const ms = time.getTime();
    const timeMinute = Math.floor(ms / MINUTE_MS);
    if (timeMinute !== minute) {
      // Up to the seconds, however many digits the year has. Throws what `toISOString` throws.
      prefix = time.toISOString().slice(0, -"00.000Z".length);
      minute = timeMinute;
    }
    const rest = ms - timeMinute * MINUTE_MS;
    const seconds = Math.floor(rest / 1000);
    const millis = rest - seconds * 1000;
    return `${prefix}${PAIRS[seconds]}.${millis < 100 ? `0${PAIRS[millis]}` : millis}Z`;
  };
}

const PAIRS = Array.from({ length: 100 }, (_, number) => String(number).padStart(2, "0"));
