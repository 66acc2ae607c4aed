import { existsSync } from "node:fs";
import { statfs } from "node:fs/promises";
import { dirname } from "node:path";

const MEGABYTE = 1024 ** 2;
/** With less room, a fault of storage comes of that, whatever it says. */
const HARDLY_ANY_BYTES = 16 * MEGABYTE;
/** What a start takes, and events until somebody looks again. */
const NEEDED_MEGABYTES = 200;

/** How files, SQLite and DuckDB say that nothing more can be written. */
const FULL = /\bENOSPC\b|\bEDQUOT\b|SQLITE_FULL|No space left|disk is full/;
/** How they say that something could not be done with a file. */
const STORAGE_FAULT = /SQLITE_(?:IOERR|CANTOPEN)|\bEIO\b|IO Error|disk I\/O error/;

/**
 * That the disk of a data folder is full, and what to do, where a failure comes of that; `undefined` for
 * all others. The folder need not exist.
 */
export async function fullDiskReason(error: unknown, folder: string): Promise<string | undefined> {
  const told = textsOf(error).join("\n");
  if (!FULL.test(told) && !STORAGE_FAULT.test(told)) return undefined;
  const freeBytes = await freeBytesOf(folder);
  if (!FULL.test(told) && freeBytes >= HARDLY_ANY_BYTES) return undefined;
  const free = (freeBytes / MEGABYTE).toFixed(1);
  return `the disk of the data folder ${folder} is full (${free} MB free): make room for ${NEEDED_MEGABYTES} MB at least, or choose another folder with --data; what is stored is unharmed`;
}

/** Codes and messages of a failure and its causes; those from threads are objects of no class. */
function textsOf(error: unknown): string[] {
  if (typeof error !== "object" || error === null) return [String(error)];
  const { code, message, cause } = error as { code?: unknown; message?: unknown; cause?: unknown };
  return [`${code} ${message}`, ...(cause === undefined ? [] : textsOf(cause))];
}

async function freeBytesOf(folder: string): Promise<number> {
  let nearest = folder;
  while (!existsSync(nearest) && dirname(nearest) !== nearest) nearest = dirname(nearest);
  const { bavail, bsize } = await statfs(nearest);
  return bavail * bsize;
}
