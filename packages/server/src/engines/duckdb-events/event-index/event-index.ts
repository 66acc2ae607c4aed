import { randomBytes } from "node:crypto";
import { mkdir, readdir, readFile, rm } from "node:fs/promises";
import { join } from "node:path";
import { Type } from "typebox";
import { Check } from "typebox/value";
import type { Acquaintance, EventIdentity } from "../../../events/event-store.ts";
import { StoreUnavailable } from "../../../platform/store-unavailable.ts";
import { type IndexFiles, indexFiles } from "./index-files.ts";
import {
  type KeyHolder,
  positionAt,
  RECORD_WORDS,
  readHolder,
  secondsAt,
  writeHolder,
} from "./key-records.ts";
import { DamagedRun, type RunInfo } from "./key-run.ts";
import { type KeyStore, type KeyStoreOptions, openKeyStore } from "./key-store.ts";
import { createKeyTable } from "./key-table.ts";
import { type MergeRuns, mergeInThread } from "./merge-runs.ts";
import { createRecordKeys, fingerprintOf } from "./record-keys.ts";

/** An event that is to be stored, or is. */
export interface IndexedEvent {
  readonly position: number;
  readonly projectId: number;
  /** With dashes. */
  readonly uuid: string;
  readonly event: string;
  readonly distinctId: string;
  readonly clientTimestamp: Date | null;
  readonly receivedAt: Date;
  /** What the client gave as `$insert_id`. */
  readonly insertId: string | null;
  /** Whether a transformation changed it: it is then no measure of what comes again. */
  readonly isChanged: boolean;
}

/**
 * What some events are known by, as two lists of records (see `RECORD_WORDS`), one for each event. In
 * the second the position is 0 for an event without `$insert_id`.
 */
export interface EventKeys {
  readonly uuids: Uint32Array;
  readonly insertIds: Uint32Array;
}

/** How an event relates to those before it. */
export type Claim =
  | { readonly kind: "new" }
  /** The uuid is taken: by this event, or by another one. */
  | { readonly kind: "duplicate" | "conflict" }
  /** The event at a position has another uuid and the same `$insert_id`. */
  | { readonly kind: "duplicate-of"; readonly position: number };

/**
 * Which uuids and `$insert_id`s are taken, derived from the stored events. What is claimed counts as
 * taken from `keep` on, which follows the commit of its events: nothing is taken by an event that
 * was not stored. The events above `end` are to be added again when the index is opened. Looking
 * something up throws {@link DamagedRun} where a file cannot be read: the folder is then to be removed.
 */
export interface EventIndex {
  /** The position up to which the index knows every stored event. */
  readonly end: number;
  /** What its keys are made with. */
  readonly salt: string;
  /** The position of the event that has a uuid. */
  find(projectId: number, uuid: string): number | undefined;
  /** How events of a project relate to those that are stored, in order. */
  acquaint(
    projectId: number,
    events: readonly Pick<EventIdentity, "uuid" | "event" | "distinctId" | "clientTimestamp">[],
  ): readonly Acquaintance[];
  /** Makes the keys of events. They hold for every index with one salt. */
  keysOf(events: readonly IndexedEvent[]): EventKeys;
  /**
   * Waits until so many events can be kept. Rejects with `StoreUnavailable` when the files of the index
   * cannot be written.
   */
  makeRoom(events: number): Promise<void>;
  /**
   * Takes uuid and `$insert_id` for events, one after the other, or tells who has them. All are looked
   * for at once: of many, each is found faster than by itself.
   * @param start index of the first event in `keys`
   * @param end index behind the last
   */
  claim(keys: EventKeys, start: number, end: number): readonly Claim[];
  /** Takes them for events that are stored, whoever has them. */
  add(events: readonly IndexedEvent[]): void;
  /** What was claimed is stored, and so is all that there is up to a position. */
  keep(end: number): void;
  /** What was claimed was not stored. */
  forget(): void;
  /** Waits until nothing is being written. Rejects when that has failed. */
  settle(): Promise<void>;
  close(): Promise<void>;
}

export interface EventIndexOptions {
  readonly folder: string;
  /** The position up to which events are stored: an index that knows of more is not theirs. */
  readonly stored: number;
  readonly files?: IndexFiles;
  readonly merge?: MergeRuns;
  /** What the keys of a new index are made with; random unless given. */
  readonly salt?: string;
  /** Events in memory before they are written to a run; 32,768 unless given. */
  readonly runRecords?: number;
}

/** Two events with one `$insert_id` are one within this time. */
export const INSERT_ID_SECONDS = 48 * 60 * 60;
/** They are kept a little longer: events may be stored late. */
export const KEPT_INSERT_ID_SECONDS = INSERT_ID_SECONDS + 24 * 60 * 60;

const NEW: Claim = { kind: "new" };
/** What a record says that is only looked for. */
const SOUGHT: KeyHolder = { position: 1, fingerprint: 0, receivedSeconds: 0 };

/** Most events that may be kept at a time. */
export const MOST_CLAIMS = 8192;
const RUN_RECORDS = 32_768;
const VERSION = 2;
const MANIFEST = "manifest.json";
const DRAFT = "manifest.json.tmp";

const Count = Type.Integer({ minimum: 0 });
const Runs = Type.Array(
  Type.Object({
    file: Type.String({ pattern: "^\\d+\\.run$" }),
    count: Count,
    filterWords: Count,
    checksum: Count,
    lastSecond: Count,
  }),
);
const ManifestSchema = Type.Object({
  version: Type.Literal(VERSION),
  salt: Type.String({ minLength: 1 }),
  end: Count,
  nextFile: Count,
  uuids: Runs,
  insertIds: Runs,
});

/** What the files of an index are. */
interface Manifest {
  readonly version: typeof VERSION;
  readonly salt: string;
  /** The runs know all events up to here. */
  readonly end: number;
  /** Number of the file to write next. */
  readonly nextFile: number;
  readonly uuids: readonly RunInfo[];
  readonly insertIds: readonly RunInfo[];
}

/** Opens an index, an empty one where there is none that can be used. */
export async function openEventIndex(options: EventIndexOptions): Promise<EventIndex> {
  const { folder, files = indexFiles, merge = mergeInThread, runRecords = RUN_RECORDS } = options;
  const mostClaims = Math.min(MOST_CLAIMS, runRecords);
  // Full enough for a run, a table takes half as much again while that is written.
  const capacity = Math.ceil(1.5 * runRecords) + mostClaims;
  const salt = options.salt ?? randomBytes(32).toString("hex");
  const storeOptions = { folder, files, capacity, runRecords };
  const { manifest, uuids, insertIds } = await openStores(options.stored, salt, storeOptions);
  const stores = [uuids, insertIds];
  const keys = createRecordKeys(manifest.salt);
  const claimedUuids = createKeyTable(mostClaims);
  const claimedInsertIds = createKeyTable(mostClaims);
  const closing = new AbortController();

  let { end, nextFile } = manifest;
  /** The runs of the stores know all events up to here. */
  let runsEnd = end;
  let newestSecond = 0;
  let writing: Promise<void> | undefined;
  let merging: Promise<void> | undefined;
  let saving: Promise<void> = Promise.resolve();
  /** The end when records were set apart, for as long as they are. */
  let apartEnd: number | undefined;
  let listed = filesOf(manifest);

  const newFile = () => `${String(nextFile++).padStart(8, "0")}.run`;

  /** Saves which files make up the index, one after the other; then removes those that do no longer. */
  function saveManifest(): Promise<void> {
    const run = saving.then(async () => {
      const content: Manifest = {
        version: VERSION,
        salt: manifest.salt,
        end: runsEnd,
        nextFile,
        uuids: uuids.runs,
        insertIds: insertIds.runs,
      };
      await files.write(join(folder, DRAFT), [Buffer.from(JSON.stringify(content))]);
      await files.move(join(folder, DRAFT), join(folder, MANIFEST));
      const before = listed;
      listed = filesOf(content);
      for (const file of before) if (!listed.has(file)) await files.remove(join(folder, file));
    });
    saving = run.catch(() => {});
    return run;
  }

  async function writeRuns(): Promise<void> {
    if (apartEnd === undefined) {
      for (const store of stores) store.setApart();
      apartEnd = end;
    }
    for (const store of stores) await store.writeRun(newFile());
    runsEnd = apartEnd;
    apartEnd = undefined;
    if (!merging) insertIds.dropBefore(newestSecond - KEPT_INSERT_ID_SECONDS);
    await saveManifest();
    startMerging();
  }

  /** Starts writing what is in memory, unless that is being done. */
  function startWriting(): Promise<void> {
    writing ??= writeRuns().finally(() => {
      writing = undefined;
    });
    return writing;
  }

  function startMerging(): void {
    if (merging || closing.signal.aborted) return;
    const store = stores.find((store) => store.mergeable());
    const inputs = store?.mergeable();
    if (!store || !inputs) return;
    merging = mergeSome(store, inputs).then(
      () => {
        merging = undefined;
        startMerging();
      },
      () => {
        // The runs are as good as before; the next one that is written gives occasion to try again.
        merging = undefined;
      },
    );
  }

  async function mergeSome(store: KeyStore, inputs: readonly RunInfo[]): Promise<void> {
    const sinceSecond = store === insertIds ? newestSecond - KEPT_INSERT_ID_SECONDS : 0;
    const merged = await merge({ folder, inputs, file: newFile(), sinceSecond }, closing.signal);
    if (closing.signal.aborted) return;
    store.replace(inputs, merged);
    await saveManifest();
  }

  function keysOf(events: readonly IndexedEvent[]): EventKeys {
    const uuidRecords = new Uint32Array(RECORD_WORDS * events.length);
    const insertIdRecords = new Uint32Array(RECORD_WORDS * events.length);
    for (let index = 0; index < events.length; index++) {
      const event = events[index] as IndexedEvent;
      const at = RECORD_WORDS * index;
      const holder = {
        position: event.position,
        fingerprint: event.isChanged ? 0 : fingerprintOf(event),
        receivedSeconds: Math.max(0, Math.floor(event.receivedAt.getTime() / 1000)),
      };
      keys.ofUuid(uuidRecords, at, event.projectId, event.uuid);
      writeHolder(uuidRecords, index, holder);
      if (event.insertId === null) continue;
      keys.ofInsertId(insertIdRecords, at, event, event.insertId);
      writeHolder(insertIdRecords, index, holder);
    }
    return { uuids: uuidRecords, insertIds: insertIdRecords };
  }

  /** Records with the keys of uuids, of use to look for them. */
  function soughtUuids(projectId: number, sought: readonly string[]): Uint32Array {
    const records = new Uint32Array(RECORD_WORDS * sought.length);
    for (let index = 0; index < sought.length; index++) {
      keys.ofUuid(records, RECORD_WORDS * index, projectId, sought[index] as string);
      writeHolder(records, index, SOUGHT);
    }
    return records;
  }

  function clearClaims(): void {
    claimedUuids.clear();
    claimedInsertIds.clear();
  }

  return {
    get end() {
      return end;
    },

    salt: manifest.salt,

    find(projectId, uuid) {
      const [holder] = uuids.findAll(soughtUuids(projectId, [uuid]), 0, 1);
      return holder?.position;
    },

    acquaint(projectId, events) {
      const sought = soughtUuids(
        projectId,
        events.map(({ uuid }) => uuid),
      );
      const holders = uuids.findAll(sought, 0, events.length);
      return events.map((event, index) => {
        const holder = holders[index];
        return holder ? comparedWith(holder, fingerprintOf(event)) : "new";
      });
    },

    keysOf,

    async makeRoom(events) {
      if (events > mostClaims) throw new Error("more events than can be claimed at a time");
      while (stores.some(({ fresh }) => fresh.size + events > capacity)) {
        await startWriting().catch((cause: unknown) => {
          const reason = cause instanceof Error ? cause.message : String(cause);
          throw new StoreUnavailable(`the index of events cannot be written: ${reason}`, { cause });
        });
      }
    },

    claim(claimed, start, end) {
      const uuidHolders = uuids.findAll(claimed.uuids, start, end);
      const insertIdHolders = insertIds.findAll(claimed.insertIds, start, end);
      const claims: Claim[] = [];
      for (let index = start; index < end; index++) {
        const known = claimedUuids.find(claimed.uuids, index) ?? uuidHolders[index - start];
        if (known) {
          const { fingerprint } = readHolder(claimed.uuids, index);
          claims.push({ kind: comparedWith(known, fingerprint) });
          continue;
        }
        if (positionAt(claimed.insertIds, index) > 0) {
          const first =
            claimedInsertIds.find(claimed.insertIds, index) ?? insertIdHolders[index - start];
          const second = secondsAt(claimed.insertIds, index);
          if (first && second - first.receivedSeconds <= INSERT_ID_SECONDS) {
            claims.push({ kind: "duplicate-of", position: first.position });
            continue;
          }
          claimedInsertIds.put(claimed.insertIds, index);
        }
        claimedUuids.put(claimed.uuids, index);
        claims.push(NEW);
      }
      return claims;
    },

    add(events) {
      const added = keysOf(events);
      for (let index = 0; index < events.length; index++) {
        claimedUuids.put(added.uuids, index);
        if (positionAt(added.insertIds, index) > 0) claimedInsertIds.put(added.insertIds, index);
      }
    },

    keep(upTo) {
      end = Math.max(end, upTo);
      newestSecond = Math.max(newestSecond, claimedUuids.lastSecond);
      uuids.fresh.putAll(claimedUuids);
      insertIds.fresh.putAll(claimedInsertIds);
      clearClaims();
      // Whoever needs room learns whether it worked.
      if (stores.some(({ fresh }) => fresh.size >= runRecords)) startWriting().catch(() => {});
    },

    forget: clearClaims,

    async settle() {
      while (writing || merging) {
        await writing;
        await merging;
      }
      await saving;
    },

    async close() {
      closing.abort();
      await writing?.catch(() => {});
      await merging;
      await saving;
      for (const store of stores) store.close();
    },
  };
}

function comparedWith(holder: KeyHolder, fingerprint: number): "duplicate" | "conflict" {
  const isOther =
    holder.fingerprint !== 0 && fingerprint !== 0 && holder.fingerprint !== fingerprint;
  return isOther ? "conflict" : "duplicate";
}

function filesOf({ uuids, insertIds }: Pick<Manifest, "uuids" | "insertIds">): ReadonlySet<string> {
  return new Set([...uuids, ...insertIds].map(({ file }) => file));
}

type StoreOptions = Omit<KeyStoreOptions, "runs">;

/**
 * Opens what the manifest lists and removes everything else; starts anew, with a salt, where that
 * cannot be used.
 */
async function openStores(stored: number, salt: string, options: StoreOptions) {
  const { folder } = options;
  await mkdir(folder, { recursive: true });
  const found = await readManifest(join(folder, MANIFEST));
  const usable = found && found.end <= stored ? openListed(found, options) : undefined;
  const manifest = usable?.manifest ?? {
    version: VERSION,
    salt,
    end: 0,
    nextFile: 1,
    uuids: [],
    insertIds: [],
  };
  const kept = filesOf(manifest);
  for (const name of await readdir(folder)) {
    if (kept.has(name) || (usable && name === MANIFEST)) continue;
    await rm(join(folder, name), { recursive: true, force: true });
  }
  return usable ?? { manifest, ...openAll(manifest, options) };
}

function openListed(manifest: Manifest, options: StoreOptions) {
  try {
    return { manifest, ...openAll(manifest, options) };
  } catch (error) {
    if (error instanceof DamagedRun) return undefined;
    throw error;
  }
}

function openAll(manifest: Manifest, options: StoreOptions) {
  const uuids = openKeyStore({ ...options, runs: manifest.uuids });
  try {
    return { uuids, insertIds: openKeyStore({ ...options, runs: manifest.insertIds }) };
  } catch (error) {
    uuids.close();
    throw error;
  }
}

/** The manifest of a folder, where there is one that can be read. */
async function readManifest(path: string): Promise<Manifest | undefined> {
  let text: string;
  try {
    text = await readFile(path, "utf8");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw error;
  }
  try {
    const content: unknown = JSON.parse(text);
    return Check(ManifestSchema, content) ? content : undefined;
  } catch {
    return undefined;
  }
}
