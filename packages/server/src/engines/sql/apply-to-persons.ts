import type { LoggedEvent } from "@hedgerow/core/events/event";
import {
  LedgerPerson,
  PersonLedger,
  type StoredPerson,
} from "@hedgerow/core/persons/person-ledger";
import type { GroupUpdate, PersonUpdate } from "@hedgerow/core/persons/person-update";
import { PropertySheet, type StoredProperties } from "@hedgerow/core/persons/property-sheet";
import type { Selectable, Transaction } from "kysely";
import type { PersonOutcome } from "../../persons/person-store.ts";
import { personUuid } from "../../persons/person-uuid.ts";
import { createSlices } from "../../platform/slices.ts";
import { decodeBoolean, decodeInstant, decodeJson } from "./codec.ts";
import type { HeldPersons } from "./held-persons.ts";
import { inTurns, TURN_MS } from "./in-turns.ts";
import { lockForRun, PERSONS_CONSUMER } from "./person-lock.ts";
import type { PersonStatements } from "./person-statements.ts";
import { releasesOf } from "./released-ids.ts";
import { type LedgerChanges, type Merge, savePersonLedger } from "./save-person-ledger.ts";
import type { Schema } from "./schema.ts";

/** The events of one project in a run. */
interface ProjectRun {
  readonly projectId: number;
  /** Ids of whom nobody is held. */
  readonly unknownIds: Set<string>;
  readonly linkedIds: Set<string>;
  mentionsGroupTypes: boolean;
  readonly groups: GroupUpdate[];
  readonly merges: Merge[];
  /** `undefined` where the project does not exist any more. */
  ledger: PersonLedger | undefined;
}

interface ApplyContext {
  /** By project, of those whose persons are linked. */
  readonly continuityFlagKeys: ReadonlyMap<number, readonly string[]>;
  readonly held: HeldPersons;
  readonly statements: PersonStatements;
}

/**
 * Applies a run of events within a transaction: loads everybody they touch, lets the ledger decide,
 * saves what changed and the position. Entries at or below the stored position only read.
 * @param updates of each entry, at the same places
 */
export async function applyToPersons(
  transaction: Transaction<Schema>,
  { entries, updates }: { entries: readonly LoggedEvent[]; updates: readonly PersonUpdate[] },
  context: ApplyContext,
): Promise<{ outcomes: readonly PersonOutcome[]; changes: readonly LedgerChanges[] }> {
  const { held, statements } = context;
  const version = await lockForRun(transaction, statements);
  const { position } = version;
  held.begin(version);
  const slices = createSlices(TURN_MS);
  const runs = new Map<number, ProjectRun>();
  const repeated: number[] = [];
  for (let at = 0; at < entries.length; at++) {
    const entry = entries[at] as LoggedEvent;
    if (slices.isOver()) await slices.next();
    const { projectId } = entry.event;
    let run = runs.get(projectId);
    if (!run) {
      run = newProjectRun(projectId);
      runs.set(projectId, run);
    }
    const isFresh = entry.position > position;
    if (!isFresh) repeated.push(entry.position);
    noteNeeds(run, { update: updates[at] as PersonUpdate, isFresh, held });
  }
  const earlierMerges = await mergesOf(transaction, repeated);
  const projectIds = await knownProjects(transaction, [...runs.keys()], statements);
  for (const run of runs.values()) {
    if (projectIds.has(run.projectId)) run.ledger = await loadLedger(transaction, run, context);
  }
  const outcomes: PersonOutcome[] = [];
  for (let at = 0; at < entries.length; at++) {
    const entry = entries[at] as LoggedEvent;
    if (slices.isOver()) await slices.next();
    const update = updates[at] as PersonUpdate;
    const run = runs.get(entry.event.projectId);
    if (!run?.ledger) {
      outcomes.push(withoutProject(entry, update));
      continue;
    }
    const { ledger, merges } = run;
    if (entry.position > position) {
      const { personId, merged, warnings } = ledger.apply(entry.event, update);
      outcomes.push({ position: entry.position, personId, merged, warnings });
      if (merged) merges.push({ position: entry.position, ...merged });
    } else {
      outcomes.push({
        position: entry.position,
        personId: ledger.personId(update.distinctId),
        merged: earlierMerges.get(entry.position) ?? null,
        warnings: [],
      });
    }
  }
  const changes: LedgerChanges[] = [];
  for (const { projectId, ledger, merges } of runs.values()) {
    if (!ledger) continue;
    changes.push(
      await savePersonLedger(transaction, projectId, { ledger, merges, held, statements }),
    );
  }
  const end = Math.max(position, entries.at(-1)?.position ?? 0);
  if (end > position) {
    await statements.movePosition(transaction, [{ name: PERSONS_CONSUMER, position: end }]);
  }
  held.finish({ ...version, position: end });
  return { outcomes, changes };
}

function newProjectRun(projectId: number): ProjectRun {
  return {
    projectId,
    unknownIds: new Set(),
    linkedIds: new Set(),
    mentionsGroupTypes: false,
    groups: [],
    merges: [],
    ledger: undefined,
  };
}

/** Notes what an event needs to be loaded. */
function noteNeeds(
  run: ProjectRun,
  { update, isFresh, held }: { update: PersonUpdate; isFresh: boolean; held: HeldPersons },
): void {
  const { projectId, unknownIds, linkedIds } = run;
  const { distinctId, link } = update;
  if (held.find(projectId, distinctId) === undefined) unknownIds.add(distinctId);
  if (link) {
    if (held.find(projectId, link.otherId) === undefined) unknownIds.add(link.otherId);
    linkedIds.add(link.otherId).add(distinctId);
  }
  if (!isFresh) return;
  if (update.groupTypes.length > 0) run.mentionsGroupTypes = true;
  if (update.group) run.groups.push(update.group);
}

/** Events of a project that is gone change nothing, and must not hold up the others. */
function withoutProject(entry: LoggedEvent, update: PersonUpdate): PersonOutcome {
  return {
    position: entry.position,
    personId: personUuid(entry.event.projectId, update.distinctId),
    merged: null,
    warnings: ["unknown_project"],
  };
}

async function knownProjects(
  transaction: Transaction<Schema>,
  ids: readonly number[],
  statements: PersonStatements,
): Promise<ReadonlySet<number>> {
  const known = new Set<number>();
  for await (const some of inTurns(ids)) {
    const rows = await statements.findProjects(
      transaction,
      some.map((id) => ({ id })),
    );
    for (const { id } of rows) known.add(id);
  }
  return known;
}

/** The merges that already applied events carried out, by position. */
async function mergesOf(
  transaction: Transaction<Schema>,
  positions: readonly number[],
): Promise<ReadonlyMap<number, { from: string; into: string }>> {
  const merges = new Map<number, { from: string; into: string }>();
  for await (const some of inTurns(positions)) {
    const rows = await transaction
      .selectFrom("person_merges")
      .select(["position", "from_uuid", "into_uuid"])
      .where("position", "in", some)
      .execute();
    for (const row of rows) {
      merges.set(row.position, { from: row.from_uuid, into: row.into_uuid });
    }
  }
  return merges;
}

/** A ledger for which everything stored is held or admitted that the events may touch. */
async function loadLedger(
  transaction: Transaction<Schema>,
  { projectId, unknownIds, linkedIds, mentionsGroupTypes, groups }: ProjectRun,
  { continuityFlagKeys, held, statements }: ApplyContext,
): Promise<PersonLedger> {
  const groupTypes = mentionsGroupTypes
    ? await transaction
        .selectFrom("group_types")
        .select(["index", "name"])
        .where("project_id", "=", projectId)
        .execute()
    : [];
  await holdPersons(transaction, projectId, { unknownIds, held, statements });
  const findStored = (distinctId: string) => held.find(projectId, distinctId) ?? undefined;
  const ledger = new PersonLedger({
    uuidOf(distinctId) {
      const uuid = held.uuidOfNobody(projectId, distinctId);
      if (uuid === undefined) throw new Error("an id was not looked for before it was used");
      return uuid;
    },
    findStored,
    continuityFlagKeys: continuityFlagKeys.get(projectId) ?? [],
    groupTypes,
  });
  const linked = new Map<number, LedgerPerson>();
  for (const distinctId of linkedIds) {
    const person = findStored(distinctId);
    if (person && person.row !== null) linked.set(person.row, person);
  }
  await admitHashKeys(transaction, linked);
  if (groups.length === 0) return ledger;
  for (const { index, name } of groupTypes) {
    const keys = new Set(groups.flatMap(({ type, key }) => (type === name ? key : [])));
    await admitGroups(transaction, projectId, { ledger, typeIndex: index, keys });
  }
  return ledger;
}

/** Reads who has some ids, and holds them, as well as that nobody has one. */
async function holdPersons(
  transaction: Transaction<Schema>,
  projectId: number,
  {
    unknownIds,
    held,
    statements,
  }: {
    unknownIds: ReadonlySet<string>;
    held: HeldPersons;
    statements: PersonStatements;
  },
): Promise<void> {
  if (unknownIds.size === 0) return;
  const nobodys = new Set(unknownIds);
  for await (const some of inTurns([...unknownIds])) {
    const rows = await statements.findPersons(
      transaction,
      some.map((distinctId) => ({ project_id: projectId, distinct_id: distinctId })),
    );
    for (const row of rows) {
      held.keep(projectId, row.distinct_id, held.byRow(row.id) ?? decodePerson(row));
      nobodys.delete(row.distinct_id);
    }
  }
  const releases = await releasesOf(transaction, projectId, [...nobodys]);
  for (const distinctId of nobodys) {
    const uuid = personUuid(projectId, distinctId, releases.get(distinctId));
    held.keepNobody(projectId, distinctId, uuid);
  }
}

function decodePerson(
  row: Pick<
    Selectable<Schema["persons"]>,
    "id" | "uuid" | "properties" | "property_times" | "created_at" | "is_identified"
  > & { has_times_apart: number | boolean },
): LedgerPerson {
  const createdAt = decodeInstant(row.created_at);
  const stored: StoredPerson = {
    id: row.id,
    uuid: row.uuid,
    createdAt,
    isIdentified: decodeBoolean(row.is_identified),
    hasTimesApart: Boolean(row.has_times_apart),
    readProperties: () => decodeSheet(row),
    textLength: row.properties.length,
  };
  return new LedgerPerson(stored, row.uuid, createdAt);
}

async function admitHashKeys(
  transaction: Transaction<Schema>,
  persons: ReadonlyMap<number, LedgerPerson>,
): Promise<void> {
  if (persons.size === 0) return;
  const hashKeys = new Map<number, Map<string, string>>();
  for await (const some of inTurns([...persons.keys()])) {
    const rows = await transaction
      .selectFrom("flag_hash_key_overrides")
      .selectAll()
      .where("person_id", "in", some)
      .execute();
    for (const row of rows) {
      const ofPerson = hashKeys.get(row.person_id) ?? new Map<string, string>();
      hashKeys.set(row.person_id, ofPerson.set(row.flag_key, row.hash_key));
    }
  }
  for (const [row, person] of persons) person.admitHashKeys(hashKeys.get(row) ?? new Map());
}

async function admitGroups(
  transaction: Transaction<Schema>,
  projectId: number,
  {
    ledger,
    typeIndex,
    keys,
  }: { ledger: PersonLedger; typeIndex: number; keys: ReadonlySet<string> },
): Promise<void> {
  for await (const some of inTurns([...keys])) {
    const rows = await transaction
      .selectFrom("groups")
      .select(["group_key", "properties", "property_times", "created_at"])
      .where("project_id", "=", projectId)
      .where("group_type_index", "=", typeIndex)
      .where("group_key", "in", some)
      .execute();
    for (const row of rows) {
      ledger.admitGroup({
        typeIndex,
        key: row.group_key,
        createdAt: decodeInstant(row.created_at),
        sheet: decodeSheet(row),
      });
    }
  }
}

/** A person's or group's properties as they are stored. */
export function decodeSheet(row: { properties: string; property_times: string }): PropertySheet {
  return new PropertySheet(
    {
      properties: decodeJson(row.properties),
      times: decodeJson<StoredProperties["times"]>(row.property_times),
    },
    row.properties.length,
  );
}
