import { mkdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import Database from "libsql";

/** The folder with everything a service on embedded storage keeps, held by this process. */
export interface DataFolder {
  readonly path: string;
  /** Tells other processes of this machine where the service of the folder answers. */
  announce(url: string): void;
  /** Lets the next process in. The operating system does so itself when this one dies. */
  release(): void;
}

/** Files and folders inside of a data folder. */
export function dataFolderPaths(path: string) {
  return {
    metadata: join(path, "metadata.sqlite"),
    eventLog: join(path, "event-log.sqlite"),
    events: join(path, "events.duckdb"),
    lock: join(path, "lock.sqlite"),
    holder: join(path, "lock.json"),
    payloadKey: join(path, "payload-key"),
  };
}

/** Another process works in the folder. */
export class DataFolderInUse extends Error {
  override readonly name = "DataFolderInUse";
  /** Where it left its name. */
  readonly holder: FolderHolder | undefined;

  constructor(path: string, holder: FolderHolder | undefined) {
    const who = holder ? ` (process ${holder.pid} since ${holder.since})` : "";
    super(
      `the data folder ${path} is in use by another hedgerow${who}: stop that one, or give this one a folder of its own with --data`,
    );
    this.holder = holder;
  }
}

export interface FolderHolder {
  readonly pid: number;
  /** ISO 8601. */
  readonly since: string;
  /** Where the service answers, once it does. */
  readonly url?: string;
}

/**
 * Creates the folder where it is missing, readable by its owner only, and takes it for this
 * process. Throws {@link DataFolderInUse} when another process has it, and the file system's error
 * when it cannot be written.
 */
export function openDataFolder(path: string, now: Date): DataFolder {
  createFolder(path);
  const paths = dataFolderPaths(path);
  const release = lock(paths.lock);
  if (!release) throw new DataFolderInUse(path, readHolder(paths.holder));
  const holder: FolderHolder = { pid: process.pid, since: now.toISOString() };
  const tell = (facts: FolderHolder) => writeFileSync(paths.holder, `${JSON.stringify(facts)}\n`);
  tell(holder);
  return { path, announce: (url) => tell({ ...holder, url }), release };
}

/** The platform's own way of creating parents too never ends where the kernel has the last word (`/proc`). */
function createFolder(path: string): void {
  if (statSync(path, { throwIfNoEntry: false })?.isDirectory()) return;
  createFolder(dirname(path));
  mkdirSync(path, { mode: 0o700 });
}

/** Who holds an existing folder: nobody, a process, or one that left no name. */
export function folderHolder(path: string): FolderHolder | "nobody" | "unknown" {
  const paths = dataFolderPaths(path);
  const release = lock(paths.lock);
  if (!release) return readHolder(paths.holder) ?? "unknown";
  release();
  return "nobody";
}

/**
 * An exclusive transaction on a database of its own: a lock of the kernel, which no crash leaves
 * behind. `undefined` when someone else has it.
 */
function lock(file: string): (() => void) | undefined {
  const connection = new Database(file);
  try {
    connection.exec("pragma locking_mode = exclusive");
    connection.exec("begin exclusive");
  } catch (error) {
    connection.close();
    if (error instanceof Error && /locked|busy/i.test(error.message)) return undefined;
    throw error;
  }
  return () => connection.close();
}

function readHolder(file: string): FolderHolder | undefined {
  try {
    const holder = JSON.parse(readFileSync(file, "utf8"));
    const isHolder =
      Number.isInteger(holder?.pid) &&
      typeof holder?.since === "string" &&
      (holder.url === undefined || URL.canParse(holder.url));
    return isHolder ? holder : undefined;
  } catch {
    return undefined;
  }
}
