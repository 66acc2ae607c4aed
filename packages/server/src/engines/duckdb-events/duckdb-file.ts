import { type DuckDBConnection, DuckDBInstance } from "@duckdb/node-api";
import { StoreUnavailable } from "../../platform/store-unavailable.ts";
import { createTurns } from "./turns.ts";

export interface DuckDbFileOptions {
  readonly path: string;
  readonly settings: Readonly<Record<string, string>>;
  /** Prepares the writing connection, each time the file is opened. */
  readonly prepare: (writer: DuckDBConnection) => Promise<void>;
  /** Queries at a time. */
  readonly maxReaders: number;
}

/**
 * One DuckDB file. After some faults (no room on the disk, no memory for a checkpoint) DuckDB refuses
 * all work until the file is opened anew: the next call does so, once all others have ended.
 */
export interface DuckDbFile {
  /** Work on the writing connection, one at a time; all of it is one transaction. */
  write<Result>(work: (writer: DuckDBConnection) => Promise<Result>): Promise<Result>;
  /** Work on a connection of its own. */
  read<Result>(work: (connection: DuckDBConnection) => Promise<Result>): Promise<Result>;
  close(): Promise<void>;
}

/**
 * Rows that stand together on the disk. A checkpoint writes the last of these groups anew, so that
 * small ones take less work; DuckDB makes 122,880 of it unless told.
 */
const ROW_GROUP_SIZE = 30_720;
/** What new files are made for: the first version that knows the compression of texts. */
const STORAGE_VERSION = "v1.2.0";
/** Name by which DuckDB knows the file. */
const DATABASE = "hedgerow";

interface Opened {
  readonly instance: DuckDBInstance;
  readonly writer: DuckDBConnection;
}

/** Opens a file, creating it where it is missing. Rejects when it cannot be opened or prepared. */
export async function openDuckDbFile(options: DuckDbFileOptions): Promise<DuckDbFile> {
  const takeWritingTurn = createTurns(1);
  const takeReadingTurn = createTurns(options.maxReaders);
  const underWay = new Set<Promise<unknown>>();
  let current: Promise<Opened> = open(options);
  let isBroken = false;
  await current;

  function opened(): Promise<Opened> {
    if (isBroken) {
      isBroken = false;
      const broken = current;
      current = Promise.allSettled([broken, ...underWay]).then(async ([previous]) => {
        if (previous.status === "fulfilled") close(previous.value);
        return open(options);
      });
      current.catch(() => {
        isBroken = true;
      });
    }
    return current;
  }

  async function run<Result>(work: (file: Opened) => Promise<Result>): Promise<Result> {
    const file = await opened();
    const running = work(file);
    underWay.add(running);
    try {
      return await running;
    } catch (error) {
      if (needsReopening(error)) isBroken = true;
      throw isOutage(error)
        ? new StoreUnavailable(`the event store is out of order: ${messageOf(error)}`, {
            cause: error,
          })
        : error;
    } finally {
      underWay.delete(running);
    }
  }

  return {
    write: (work) =>
      takeWritingTurn(() => run(({ writer }) => inTransaction(writer, () => work(writer)))),

    read: (work) =>
      takeReadingTurn(() =>
        run(async ({ instance }) => {
          const connection = await connect(instance);
          try {
            return await work(connection);
          } finally {
            connection.closeSync();
          }
        }),
      ),

    async close() {
      await Promise.allSettled(underWay);
      close(await current);
    },
  };
}

async function open({ path, settings, prepare }: DuckDbFileOptions): Promise<Opened> {
  const instance = await DuckDBInstance.create(":memory:", { ...settings });
  try {
    const opening = await instance.connect();
    await opening.run(
      `attach '${path.replaceAll("'", "''")}' as ${DATABASE}
        (storage_version '${STORAGE_VERSION}', row_group_size ${ROW_GROUP_SIZE})`,
    );
    opening.closeSync();
    const writer = await connect(instance);
    await prepare(writer);
    return { instance, writer };
  } catch (error) {
    instance.closeSync();
    throw error;
  }
}

/** A connection on which names of tables are those of the file. */
async function connect(instance: DuckDBInstance): Promise<DuckDBConnection> {
  const connection = await instance.connect();
  try {
    await connection.run(`use ${DATABASE}`);
    return connection;
  } catch (error) {
    connection.closeSync();
    throw error;
  }
}

function close({ instance, writer }: Opened): void {
  writer.closeSync();
  instance.closeSync();
}

async function inTransaction<Result>(
  connection: DuckDBConnection,
  work: () => Promise<Result>,
): Promise<Result> {
  await connection.run("begin transaction");
  try {
    const result = await work();
    await connection.run("commit");
    return result;
  } catch (error) {
    // A commit that failed has ended the transaction already.
    await connection.run("rollback").catch(() => {});
    throw error;
  }
}

const BROKEN = /\bFATAL\b|has been invalidated/;
/** A disk that is full, fails or may not be written: nothing that a statement is to blame for. */
const OUTAGE = /\bIO Error\b|No space left|Input\/output error/;

function needsReopening(error: unknown): boolean {
  return BROKEN.test(messageOf(error));
}

function isOutage(error: unknown): boolean {
  return BROKEN.test(messageOf(error)) || OUTAGE.test(messageOf(error));
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
