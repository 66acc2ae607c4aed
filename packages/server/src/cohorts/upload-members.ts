import { Refusal } from "../http/errors.ts";
import { isUuid } from "../http/wire-uuid.ts";
import type { CohortStore, MembershipChange } from "./cohort-store.ts";
import type { MembershipStore } from "./membership-store.ts";
import { readCsv } from "./read-csv.ts";

/** What a file of members did. */
export interface MemberUpload extends MembershipChange {
  /** Names in the file, repeated ones too. */
  readonly rows: number;
  /** How many of them belong to nobody; only the first ones are listed. */
  readonly unknownCount: number;
}

/** Names looked up and added in one transaction. */
const BATCH_ROWS = 2_000;
/** Names of nobody that an answer lists. */
const MAX_LISTED = 1_000;
/** What was begun before a crash is over after this time. */
const LEASE_MS = 10 * 60_000;
const DAY_MS = 24 * 60 * 60_000;

/** Columns by what they hold; others are ignored where one of these is there. */
const COLUMNS: ReadonlyMap<string, "uuids" | "distinctIds"> = new Map([
  ["person_id", "uuids"],
  ["person_uuid", "uuids"],
  ["uuid", "uuids"],
  ["distinct_id", "distinctIds"],
  ["distinct-id", "distinctIds"],
  ["distinct id", "distinctIds"],
]);

/**
 * Adds the persons of a CSV file to a static cohort, some thousand at a time: meanwhile the cohort is
 * shown as being calculated, with as many members as it has by then. The first line may name the
 * columns (`person_id`, `distinct_id`); a single column without that holds distinct ids. The same
 * file again changes nothing more, so that an upload that was broken off can be repeated.
 */
export async function uploadMembers(
  cohort: { readonly projectId: number; readonly id: number },
  csv: string,
  {
    cohortStore,
    memberships,
    clock,
  }: {
    readonly cohortStore: Pick<CohortStore, "addMembers">;
    readonly memberships: Pick<MembershipStore, "request" | "settle">;
    readonly clock: () => Date;
  },
): Promise<MemberUpload> {
  const { projectId, id } = cohort;
  const after = (ms: number) => new Date(clock().getTime() + ms);
  refuseUnfitFile(csv);
  await memberships.request(projectId, [id], after(LEASE_MS));
  const unknown = { uuids: [] as string[], distinctIds: [] as string[] };
  let rows = 0;
  let changed = 0;
  let unknownCount = 0;
  try {
    for (const batch of batchesOf(namesIn(csv))) {
      rows += batch.rows;
      const named = { uuids: [...batch.uuids], distinctIds: [...batch.distinctIds] };
      const added = await cohortStore.addMembers(projectId, id, named, clock());
      if (!added) throw new Refusal("not_found", "Not found.");
      changed += added.changed;
      for (const kind of ["uuids", "distinctIds"] as const) {
        const strangers = [...added.unknown[kind], ...(kind === "uuids" ? batch.malformed : [])];
        unknownCount += strangers.length;
        unknown[kind].push(...strangers.slice(0, MAX_LISTED - unknown[kind].length));
      }
    }
  } finally {
    await memberships.settle(projectId, id, after(DAY_MS));
  }
  return { rows, changed, unknown, unknownCount };
}

const NO_COLUMN = () =>
  new Refusal(
    "invalid_input",
    "The file has no column distinct_id or person_id. A file of several columns must name one of them in its first line.",
    { attr: "csv" },
  );

type Name = readonly [kind: "uuids" | "distinctIds", name: string];

/** Throws a {@link Refusal} for a file without any name, and for one of several columns of which none is known to hold names. */
export function refuseUnfitFile(csv: string): void {
  if (namesIn(csv).next().done) {
    throw new Refusal("invalid_input", "The file names nobody.", { attr: "csv" });
  }
}

/** The names in a file, in order. */
function* namesIn(csv: string): Generator<Name> {
  let columns: readonly (readonly [number, Name[0]])[] | undefined;
  for (const row of readCsv(csv)) {
    if (columns === undefined) {
      columns = row.flatMap((title, at) => {
        const kind = COLUMNS.get(title.trim().toLowerCase());
        return kind === undefined ? [] : [[at, kind] as const];
      });
      if (columns.length > 0) continue;
      // Taken for persons, the titles and first fields of a list of something else would be nobody.
      if (row.filter((title) => title.trim() !== "").length > 1) throw NO_COLUMN();
      columns = [[0, "distinctIds"]];
    }
    for (const [at, kind] of columns) {
      const name = row[at]?.trim() ?? "";
      if (name !== "") yield [kind, name];
    }
  }
}

/** Names as they are read, so that a long file keeps nobody waiting. */
function* batchesOf(names: Iterable<Name>) {
  let batch = emptyBatch();
  for (const [kind, name] of names) {
    batch.rows++;
    if (kind === "distinctIds") batch.distinctIds.add(name);
    else if (isUuid(name)) batch.uuids.add(name);
    else batch.malformed.push(name);
    if (batch.rows < BATCH_ROWS) continue;
    yield batch;
    batch = emptyBatch();
  }
  if (batch.rows > 0) yield batch;
}

function emptyBatch() {
  return {
    rows: 0,
    uuids: new Set<string>(),
    distinctIds: new Set<string>(),
    malformed: [] as string[],
  };
}
