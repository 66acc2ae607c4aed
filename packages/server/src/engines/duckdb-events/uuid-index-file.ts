import Database from "libsql";

/** Log positions that want uuids for their events, side by side: cheap to hand to a thread. */
export interface Claims {
  readonly projectIds: Float64Array;
  readonly positions: Float64Array;
  /** 16 bytes each. */
  readonly uuids: Uint8Array;
}

export type ToUuidIndexThread =
  | { readonly kind: "claim"; readonly id: number; readonly claims: Claims }
  | {
      readonly kind: "find";
      readonly id: number;
      readonly projectId: number;
      readonly uuid: Uint8Array;
    }
  | { readonly kind: "close" };

export type FromUuidIndexThread =
  | { readonly kind: "opened"; readonly end: number }
  /** Which of the claims won, in order: 1 or 0 each. */
  | {
      readonly kind: "claimed";
      readonly id: number;
      readonly won: Uint8Array;
      readonly end: number;
    }
  | { readonly kind: "found"; readonly id: number; readonly position: number | undefined }
  | { readonly kind: "failed"; readonly id: number; readonly reason: string };

/** Which position has which uuid of which project, on disk. Synchronous. */
export interface UuidIndexFile {
  /** Greatest position that ever claimed anything. */
  readonly end: number;
  /** 1 for each position that has its uuid, else 0. */
  claim(claims: Claims): Uint8Array;
  /** The position that has a uuid. */
  find(projectId: number, uuid: Uint8Array): number | undefined;
  close(): void;
}

/** Opens an index, creating its file where it is missing. Throws when that fails. */
export function openUuidIndexFile(path: string): UuidIndexFile {
  const database = new Database(path);
  database.exec("pragma journal_mode = wal");
  database.exec("pragma synchronous = full");
  database.exec("pragma cache_size = -32768");
  database.exec(
    `create table if not exists uuids (
      project_id integer not null,
      uuid blob not null,
      position integer not null,
      primary key (project_id, uuid)
    ) without rowid`,
  );
  database.exec(
    "create table if not exists progress (id integer primary key check (id = 1), end integer not null)",
  );
  const find = database.prepare("select position from uuids where project_id = ? and uuid = ?");
  const insert = database.prepare(
    "insert into uuids (project_id, uuid, position) values (?, ?, ?) on conflict do nothing",
  );
  const saveEnd = database.prepare("insert or replace into progress (id, end) values (1, ?)");
  const [row] = database.prepare("select end from progress").all() as { end: number }[];
  let end = row?.end ?? 0;

  function ownerOf(projectId: number, uuid: Uint8Array): number | undefined {
    const [owner] = find.all(projectId, uuid) as { position: number }[];
    return owner?.position;
  }

  function claimOne(projectId: number, uuid: Uint8Array, position: number): boolean {
    if (insert.run(projectId, uuid, position).changes === 1) return true;
    // Claimed before by the same position: the store did not get as far, and tries again.
    return ownerOf(projectId, uuid) === position;
  }

  return {
    get end() {
      return end;
    },
    claim({ projectIds, positions, uuids }) {
      const bytes = Buffer.from(uuids.buffer, uuids.byteOffset, uuids.byteLength);
      const won = new Uint8Array(positions.length);
      let last = end;
      database.exec("begin immediate");
      try {
        for (const [index, position] of positions.entries()) {
          const uuid = bytes.subarray(16 * index, 16 * index + 16);
          won[index] = claimOne(projectIds[index] ?? 0, uuid, position) ? 1 : 0;
          last = Math.max(last, position);
        }
        saveEnd.run(last);
        database.exec("commit");
      } catch (error) {
        if (database.inTransaction) database.exec("rollback");
        throw error;
      }
      end = last;
      return won;
    },
    find: (projectId, uuid) => ownerOf(projectId, Buffer.from(uuid)),
    close: () => database.close(),
  };
}
