import { date, type Entry, nameText } from "./property-entry.ts";

/** When each property got its value, in milliseconds since the epoch; every name is in one of the two. */
export interface PropertyTimes {
  /** Names last set or removed; a name without a value was removed then. */
  readonly set: Readonly<Record<string, number>>;
  /** Names whose value comes from `$set_once`. */
  readonly setOnce: Readonly<Record<string, number>>;
}

/**
 * The same in its short form: `runs` has three numbers for each stretch of properties, in their
 * order, that share a source and a time: how many they are, the source (0 unknown, 1 set, 2 set
 * once) and the time. Removed names are apart. Only where no name looks like an index: objects order
 * those anew.
 */
export interface PropertyTimeRuns {
  readonly runs: readonly number[];
  readonly removed: Readonly<Record<string, number>>;
}

const SOURCES = ["unknown", "set", "setOnce"] as const;

/** Dates properties by the `runs` of {@link PropertyTimeRuns}. */
export function dateByRuns(entries: Iterable<Entry>, runs: readonly number[]): void {
  let at = 0;
  let left = runs[0] ?? 0;
  for (const entry of entries) {
    while (left === 0 && at < runs.length) {
      at += 3;
      left = runs[at] ?? 0;
    }
    if (left === 0) break;
    left--;
    const source = SOURCES[runs[at + 1] ?? 0] ?? "unknown";
    if (source !== "unknown") date(entry, source, runs[at + 2] ?? 0);
  }
}

/** {@link PropertyTimeRuns} of properties as JSON text. */
export function runsTextOf(entries: Iterable<Entry>): string {
  let runs = "";
  let removed = "";
  let count = 0;
  let lastSource: Entry["source"] = "unknown";
  let lastMs = 0;
  for (const { name, value, source, atMs } of entries) {
    if (value === undefined) {
      removed += `,${nameText(name)}${atMs}`;
      continue;
    }
    const ms = source === "unknown" ? 0 : atMs;
    if (count > 0 && (source !== lastSource || ms !== lastMs)) {
      runs += runText(count, lastSource, lastMs);
      count = 0;
    }
    count++;
    lastSource = source;
    lastMs = ms;
  }
  if (count > 0) runs += runText(count, lastSource, lastMs);
  return `{"runs":[${runs.slice(1)}],"removed":{${removed.slice(1)}}}`;
}

function runText(count: number, source: Entry["source"], atMs: number): string {
  return `,${count},${SOURCES.indexOf(source)},${atMs}`;
}
