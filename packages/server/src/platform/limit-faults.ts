/** What faults are told to; a logger is one. */
export interface FaultLog {
  error(fields: { readonly err: unknown }, message: string): void;
}

/** Lines that one kind of fault gets within a minute before the others are only counted. */
const MAX_LINES = 5;
const WINDOW_MS = 60_000;
/** Kinds told apart at a time; those beyond count as one. */
const MAX_KINDS = 200;
const ALL_OTHERS = "";

interface Kind {
  readonly startedMs: number;
  lines: number;
  heldBack: number;
}

/**
 * A log for faults that any request may run into: the first few of a kind are told in full, those
 * that follow within a minute are counted, and their number is told when the minute is over. So a
 * store that is down, asked by thousands of requests a second, fills no disk. A kind is a message, the
 * sort of error, and the place it was thrown at.
 * @param now milliseconds of a clock
 */
export function limitFaults(log: FaultLog, now: () => number = Date.now): FaultLog {
  const kinds = new Map<string, Kind>();

  function kindOf(key: string): Kind {
    const nowMs = now();
    const known = kinds.get(key);
    if (known && nowMs - known.startedMs < WINDOW_MS) return known;
    if (!known && kinds.size >= MAX_KINDS) {
      for (const [other, { startedMs }] of kinds) {
        if (nowMs - startedMs >= WINDOW_MS) kinds.delete(other);
      }
      if (kinds.size >= MAX_KINDS && key !== ALL_OTHERS) return kindOf(ALL_OTHERS);
    }
    const kind: Kind = { startedMs: nowMs, lines: 0, heldBack: 0 };
    kinds.set(key, kind);
    return kind;
  }

  return {
    error({ err }, message) {
      const kind = kindOf(keyOf(err, message));
      if (kind.lines < MAX_LINES) {
        kind.lines += 1;
        log.error({ err }, message);
        return;
      }
      kind.heldBack += 1;
      if (kind.heldBack > 1) return;
      const leftMs = Math.max(kind.startedMs + WINDOW_MS - now(), 0);
      setTimeout(() => {
        log.error({ err }, `${message} (${kind.heldBack} more like this in the last minute)`);
      }, leftMs).unref();
    },
  };
}

function keyOf(error: unknown, message: string): string {
  if (!(error instanceof Error)) return message;
  const place = error.stack?.split("\n").find((line) => /^\s+at /.test(line));
  return [message, error.name, place ?? error.message].join("\n");
}
