import { Refusal } from "../http/errors.ts";
import { isUuid } from "../http/wire-uuid.ts";
import type { CohortStore, MembershipChange, NamedPersons } from "./cohort-store.ts";
import type { MembershipStore } from "./membership-store.ts";
import { readCsv } from "./read-csv.ts";

/** What a file of members did. */
export interface MemberUpload extends MembershipChange {
  /** Names in the file, repeated ones too. */
  readonly rows: number;
  /** How many of them belong to nobody; only the first ones are listed. */
  readonly unknownCount: number;
}

const MAX_ROWS = 1_000_000;
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
 * columns (`person_id`, `distinct_id`); without that the first column holds distinct ids. The same
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
  const names = namesIn(csv);
  await memberships.request(projectId, [id], after(LEASE_MS));
  const unknown = { uuids: [] as string[], distinctIds: [] as string[] };
  let rows = 0;
  let changed = 0;
  let unknownCount = 0;
  try {
    for (const batch of batchesOf(names)) {
      rows += batch.rows;
      const added = await cohortStore.addMembers(projectId, id, batch.named, clock());
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

type Name = readonly [kind: "uuids" | "distinctIds", name: string];

/** The names in a file, in order; throws a {@link Refusal} for a file without any, or with too many. */
function namesIn(csv: string): readonly Name[] {
  const names: Name[] = [];
  let columns: readonly (readonly [number, Name[0]])[] | undefined;
  for (const row of readCsv(csv)) {
    if (columns === undefined) {
      columns = row.flatMap((title, at) => {
        const kind = COLUMNS.get(title.trim().toLowerCase());
        return kind === undefined ? [] : [[at, kind] as const];
      });
      if (columns.length > 0) continue;
      columns = [[0, "distinctIds"]];
    }
    for (const [at, kind] of columns) {
      const name = row[at]?.trim() ?? "";
      if (name !== "") names.push([kind, name]);
    }
    if (names.length > MAX_ROWS) {
      throw new Refusal("invalid_input", `A file may have ${MAX_ROWS} rows at most.`, {
        attr: "csv",
      });
    }
  }
  if (names.length === 0) {
    throw new Refusal("invalid_input", "The file names nobody.", { attr: "csv" });
  }
  return names;
}

function* batchesOf(names: readonly Name[]) {
  for (let start = 0; start < names.length; start += BATCH_ROWS) {
    const batch = names.slice(start, start + BATCH_ROWS);
    const uuids = new Set<string>();
    const distinctIds = new Set<string>();
    const malformed: string[] = [];
    for (const [kind, name] of batch) {
      if (kind === "distinctIds") distinctIds.add(name);
      else if (isUuid(name)) uuids.add(name);
      else malformed.push(name);
    }
    const named: NamedPersons = { uuids: [...uuids], distinctIds: [...distinctIds] };
    yield { rows: batch.length, named, malformed };
  }
}
