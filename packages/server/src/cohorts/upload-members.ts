import { Refusal } from "../http/errors.ts";
import { isUuid } from "../http/wire-uuid.ts";
import type { Slices } from "../platform/slices.ts";
import type { MembershipChange } from "./cohort-store.ts";
import { type FillTools, fillCohort } from "./fill-cohort.ts";
import { createCsvReader } from "./read-csv.ts";

/** The names in a file of members, in order, repeated ones too. */
export interface MemberFile {
  readonly uuids: readonly string[];
  readonly distinctIds: readonly string[];
}

/** What a file of members did. */
export interface MemberUpload extends MembershipChange {
  /** Names in the file, repeated ones too. */
  readonly rows: number;
  /** How many of them belong to nobody; only the first ones are listed. */
  readonly unknownCount: number;
}

/** Names looked up and added in one transaction. */
const BATCH_ROWS = 2_000;
/** Names in one file: all of them are read before the first is added. */
const MAX_NAMES = 1_000_000;
/** Names of nobody that an answer lists. */
const MAX_LISTED = 1_000;

/** Columns by what they hold; others are ignored where one of these is there. */
const COLUMNS: ReadonlyMap<string, keyof MemberFile> = new Map([
  ["person_id", "uuids"],
  ["person_uuid", "uuids"],
  ["uuid", "uuids"],
  ["distinct_id", "distinctIds"],
  ["distinct-id", "distinctIds"],
  ["distinct id", "distinctIds"],
]);

/** Adds the persons of a file to a static cohort: see {@link fillCohort}. */
export async function uploadMembers(
  cohort: { readonly projectId: number; readonly id: number },
  file: MemberFile,
  tools: FillTools,
): Promise<MemberUpload> {
  const unknown = { uuids: [] as string[], distinctIds: [] as string[] };
  let changed = 0;
  let unknownCount = 0;
  await fillCohort(cohort, batchesOf(file), tools, (added, { malformed }) => {
    changed += added.changed;
    for (const kind of ["uuids", "distinctIds"] as const) {
      const strangers = [...added.unknown[kind], ...(kind === "uuids" ? malformed : [])];
      unknownCount += strangers.length;
      unknown[kind].push(...strangers.slice(0, MAX_LISTED - unknown[kind].length));
    }
  });
  return { rows: file.uuids.length + file.distinctIds.length, changed, unknown, unknownCount };
}

/** Reads a file of members as it comes; what is wrong with it is thrown at its end. */
export interface MemberFileReader {
  /** Takes the next bytes of the CSV text, which is UTF-8. */
  push(bytes: Uint8Array): Promise<void>;
  end(): Promise<MemberFile>;
}

/**
 * Reads a file of members, of which it holds the names alone, in slices that keep nobody waiting. The
 * first line may name the columns (`person_id`, `distinct_id`); a single column without that holds
 * distinct ids. The end throws a {@link Refusal} for a text that {@link createCsvReader} refuses, for
 * a file without any name, one of too many names, and one of several columns of which none is known
 * to hold names.
 */
export function createMemberFileReader(slices?: Slices): MemberFileReader {
  const names = { uuids: [] as string[], distinctIds: [] as string[] };
  let columns: readonly (readonly [number, keyof MemberFile])[] | undefined;
  const takeRow = (row: readonly string[]) => {
    if (columns === undefined) {
      columns = columnsOf(row);
      if (columns.length > 0) return;
      // Taken for persons, the titles and first fields of a list of something else would be nobody.
      if (row.filter((title) => title.trim() !== "").length > 1) throw NO_COLUMN();
      columns = [[0, "distinctIds"]];
    }
    for (const [at, kind] of columns) {
      const name = row[at]?.trim() ?? "";
      if (name !== "") names[kind].push(name);
    }
    if (names.uuids.length + names.distinctIds.length > MAX_NAMES) {
      throw refusal(`The file holds more than ${MAX_NAMES} names. Send it in parts.`);
    }
  };
  const reader = createCsvReader(takeRow, slices);
  // The byte order mark is the reader's to skip.
  const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
  let problem: unknown;
  const attempt = async (read: () => Promise<void>) => {
    if (problem !== undefined) return;
    try {
      await read();
    } catch (error) {
      problem = error instanceof TypeError ? refusal("The text is not valid UTF-8.") : error;
    }
  };
  return {
    push: (bytes) => attempt(() => reader.push(decoder.decode(bytes, { stream: true }))),
    async end() {
      await attempt(async () => {
        await reader.push(decoder.decode());
        await reader.end();
        if (names.uuids.length + names.distinctIds.length === 0) {
          throw refusal("The file names nobody.");
        }
      });
      if (problem !== undefined) throw problem;
      return names;
    },
  };
}

/** The same of a text. */
export async function readMemberFile(csv: string): Promise<MemberFile> {
  const reader = createMemberFileReader();
  await reader.push(new TextEncoder().encode(csv));
  return await reader.end();
}

/** The columns that a first row names. */
function columnsOf(titles: readonly string[]) {
  return titles.flatMap((title, at) => {
    const kind = COLUMNS.get(title.trim().toLowerCase());
    return kind === undefined ? [] : [[at, kind] as const];
  });
}

const NO_COLUMN = () =>
  refusal(
    "The file has no column distinct_id or person_id. A file of several columns must name one of them in its first line.",
  );

function refusal(detail: string): Refusal {
  return new Refusal("invalid_input", detail, { attr: "csv" });
}

/** The names, each once in a batch. */
function* batchesOf({ uuids, distinctIds }: MemberFile) {
  for (let start = 0; start < uuids.length; start += BATCH_ROWS) {
    const batch = uuids.slice(start, start + BATCH_ROWS);
    yield {
      uuids: [...new Set(batch.filter(isUuid))],
      distinctIds: [],
      malformed: batch.filter((name) => !isUuid(name)),
    };
  }
  for (let start = 0; start < distinctIds.length; start += BATCH_ROWS) {
    const batch = new Set(distinctIds.slice(start, start + BATCH_ROWS));
    yield { uuids: [], distinctIds: [...batch], malformed: [] };
  }
}
