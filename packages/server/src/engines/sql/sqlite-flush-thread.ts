import { closeSync, fdatasyncSync, openSync } from "node:fs";
import { parentPort, workerData } from "node:worker_threads";
import Database from "libsql";
import type { FlushAnswer } from "./sqlite-flusher.ts";

/** Waits for the disk, so that the thread that answers requests need not. */
if (!parentPort) throw new Error("runs as a thread only");
const port = parentPort;
const path = workerData as string;
const answer = (message: FlushAnswer) => port.postMessage(message);
const database = new Database(path);
database.exec("pragma busy_timeout = 5000");
database.exec("pragma synchronous = full");
const checkpoint = database.prepare("pragma wal_checkpoint(passive)");

/** Each pass takes in what was written during the one before: ever less. */
const MAX_PASSES = 5;

/**
 * What is not in the write-ahead log any more is in the database file, and was synced there before
 * the log could be used anew: syncing the log is enough.
 */
function syncLog(): void {
  const file = openSync(`${path}-wal`, "r+");
  try {
    fdatasyncSync(file);
  } finally {
    closeSync(file);
  }
}

/**
 * Takes the log into the database file, as far as nobody reads or writes what is older, so that
 * commits need not: once it is taken in whole, writers begin it anew.
 */
function takeLogIn(): void {
  for (let pass = 0; pass < MAX_PASSES; pass++) {
    const [row] = checkpoint.all() as { busy: number; log: number; checkpointed: number }[];
    if (row?.busy !== 0 || row.checkpointed >= row.log) return;
  }
}

port.on("message", (message: "flush" | "close") => {
  if (message === "close") {
    database.close();
    port.close();
    return;
  }
  try {
    syncLog();
    takeLogIn();
    answer({ error: null });
  } catch (error) {
    answer({ error: error instanceof Error ? error.message : String(error) });
  }
});
