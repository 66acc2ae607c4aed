import type { LoggedEvent } from "@hedgerow/core/events/event";
import {
  type LedgerPerson,
  PersonLedger,
  type StoredPerson,
} from "@hedgerow/core/persons/person-ledger";
import type { PersonUpdate } from "@hedgerow/core/persons/person-update";
import { PropertySheet, type StoredProperties } from "@hedgerow/core/persons/property-sheet";
import type { Selectable, Transaction } from "kysely";
import type { PersonOutcome } from "../../persons/person-store.ts";
import { personUuid } from "../../persons/person-uuid.ts";
import { decodeBoolean, decodeInstant, decodeJson } from "./codec.ts";
import type { HeldPersons } from "./held-persons.ts";
import { inTurns } from "./in-turns.ts";
import { lockForEvents, PERSONS_CONSUMER } from "./person-lock.ts";
import type { PersonStatements } from "./person-statements.ts";
import { releasesOf } from "./released-ids.ts";
import { type LedgerChanges, type Merge, savePersonLedger } from "./save-person-ledger.ts";
import type { Schema } from "./schema.ts";

interface Entry {
  readonly entry: LoggedEvent;
  readonly update: PersonUpdate;
}

/**
 * Applies a run of events within a transaction: loads everybody they touch, lets the ledger decide,
 * saves what changed and the position. Entries at or below the stored position only read.
 */
export async function applyToPersons(
  transaction: Transaction<Schema>,
  entries: readonly Entry[],
  {
    continuityFlagKeys,
    held,
    statements,
  }: {
    /** By project, of those whose persons are linked. */
    readonly continuityFlagKeys: ReadonlyMap<number, readonly string[]>;
    readonly held: HeldPersons;
    readonly statements: PersonStatements;
  },
): Promise<{ outcomes: readonly PersonOutcome[]; changes: readonly LedgerChanges[] }> {
  const version = await lockForEvents(transaction);
  const { position } = version;
  held.begin(version);
  const byProject = new Map<number, Entry[]>();
  for (const one of entries) {
    const { projectId } = one.entry.event;
    const others = byProject.get(projectId);
    if (others) others.push(one);
    else byProject.set(projectId, [one]);
  }
  const projectIds = await knownProjects(transaction, [...byProject.keys()], statements);
  const earlierMerges = await mergesOf(
    transaction,
    entries.flatMap(({ entry }) => (entry.position <= position ? entry.position : [])),
  );
  const outcomes = new Map<number, PersonOutcome>();
  const changes: LedgerChanges[] = [];
  for (const [projectId, all] of byProject) {
    if (!projectIds.has(projectId)) {
      for (const one of all) outcomes.set(one.entry.position, withoutProject(one));
      continue;
    }
    const fresh = all.filter(({ entry }) => entry.position > position);
    const ledger = await loadLedger(transaction, projectId, {
      all,
      fresh,
      continuityFlagKeys: continuityFlagKeys.get(projectId) ?? [],
      held,
      statements,
    });
    const merges: Merge[] = [];
    for await (const some of inTurns(all)) {
      for (const { entry, update } of some) {
        if (entry.position > position) {
          const applied = ledger.apply(entry.event, update);
          outcomes.set(entry.position, { position: entry.position, ...applied });
          if (applied.merged) merges.push({ position: entry.position, ...applied.merged });
        } else {
          outcomes.set(entry.position, {
            position: entry.position,
            personId: ledger.personId(update.distinctId),
            merged: earlierMerges.get(entry.position) ?? null,
            warnings: [],
          });
        }
      }
    }
    changes.push(
      await savePersonLedger(transaction, projectId, { ledger, merges, held, statements }),
    );
  }
  const end = Math.max(position, entries.at(-1)?.entry.position ?? 0);
  if (end > position) {
    await statements.movePosition(transaction, [{ name: PERSONS_CONSUMER, position: end }]);
  }
  held.finish({ ...version, position: end });
  return {
    outcomes: entries.flatMap(({ entry }) => outcomes.get(entry.position) ?? []),
    changes,
  };
}

/** Events of a project that is gone change nothing, and must not hold up the others. */
function withoutProject({ entry, update }: Entry): PersonOutcome {
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

/** A ledger with everything stored that the events may touch. */
async function loadLedger(
  transaction: Transaction<Schema>,
  projectId: number,
  {
    all,
    fresh,
    continuityFlagKeys,
    held,
    statements,
  }: {
    all: readonly Entry[];
    fresh: readonly Entry[];
    continuityFlagKeys: readonly string[];
    held: HeldPersons;
    statements: PersonStatements;
  },
): Promise<PersonLedger> {
  const groupTypes = fresh.some(({ update }) => update.groupTypes.length > 0)
    ? await transaction
        .selectFrom("group_types")
        .select(["index", "name"])
        .where("project_id", "=", projectId)
        .execute()
    : [];
  let releases: ReadonlyMap<string, number> = new Map();
  const ledger = new PersonLedger({
    uuidOf: (distinctId) => personUuid(projectId, distinctId, releases.get(distinctId)),
    continuityFlagKeys,
    groupTypes,
  });
  const distinctIds = new Set<string>();
  const linkedIds = new Set<string>();
  for (const { update } of all) {
    distinctIds.add(update.distinctId);
    if (!update.link) continue;
    distinctIds.add(update.link.otherId);
    linkedIds.add(update.link.otherId).add(update.distinctId);
  }
  const persons = await admitPersons(transaction, projectId, {
    ledger,
    distinctIds,
    held,
    statements,
  });
  releases = await releasesOf(
    transaction,
    projectId,
    [...distinctIds].filter((distinctId) => !persons.has(distinctId)),
  );
  const linked = new Map<number, LedgerPerson>();
  for (const distinctId of linkedIds) {
    const person = persons.get(distinctId);
    if (person?.stored) linked.set(person.stored.id, person);
  }
  await admitHashKeys(transaction, linked);
  for (const { index, name } of groupTypes) {
    const keys = new Set(
      fresh.flatMap(({ update }) => (update.group?.type === name ? update.group.key : [])),
    );
    await admitGroups(transaction, projectId, { ledger, typeIndex: index, keys });
  }
  return ledger;
}

/** Admits the persons of the ids; returns them by id. */
async function admitPersons(
  transaction: Transaction<Schema>,
  projectId: number,
  {
    ledger,
    distinctIds,
    held,
    statements,
  }: {
    ledger: PersonLedger;
    distinctIds: ReadonlySet<string>;
    held: HeldPersons;
    statements: PersonStatements;
  },
): Promise<ReadonlyMap<string, LedgerPerson>> {
  const persons = new Map<number, LedgerPerson>();
  const byDistinctId = new Map<string, LedgerPerson>();
  const admit = (distinctId: string, id: number, stored: () => StoredPerson) => {
    let person = persons.get(id);
    if (!person) {
      person = ledger.admitPerson(stored());
      persons.set(id, person);
    }
    ledger.admitDistinctId(distinctId, person);
    byDistinctId.set(distinctId, person);
  };
  const unknown: string[] = [];
  for (const distinctId of distinctIds) {
    const known = held.find(projectId, distinctId);
    if (known) admit(distinctId, known.id, () => known);
    else unknown.push(distinctId);
  }
  for await (const some of inTurns(unknown)) {
    const rows = await statements.findPersons(
      transaction,
      some.map((distinctId) => ({ project_id: projectId, distinct_id: distinctId })),
    );
    for (const row of rows) {
      const stored = () => held.byId(row.id) ?? decodePerson(row);
      admit(row.distinct_id, row.id, stored);
    }
  }
  return byDistinctId;
}

function decodePerson(
  row: Pick<
    Selectable<Schema["persons"]>,
    "id" | "uuid" | "properties" | "property_times" | "created_at" | "is_identified"
  >,
): StoredPerson {
  return {
    id: row.id,
    uuid: row.uuid,
    createdAt: decodeInstant(row.created_at),
    isIdentified: decodeBoolean(row.is_identified),
    readProperties: () => decodeSheet(row),
    textLength: row.properties.length,
  };
}

async function admitHashKeys(
  transaction: Transaction<Schema>,
  persons: ReadonlyMap<number, LedgerPerson>,
): Promise<void> {
  for await (const some of inTurns([...persons.keys()])) {
    const rows = await transaction
      .selectFrom("flag_hash_key_overrides")
      .selectAll()
      .where("person_id", "in", some)
      .execute();
    for (const row of rows) persons.get(row.person_id)?.admitHashKey(row.flag_key, row.hash_key);
  }
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
