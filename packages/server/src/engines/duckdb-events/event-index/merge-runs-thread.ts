import { parentPort, workerData } from "node:worker_threads";
import { type Merge, type Merged, mergeRuns } from "./merge-runs.ts";

/** Merges runs in a thread of its own, and ends. */
if (!parentPort) throw new Error("runs as a thread only");
const merged: Merged = await mergeRuns(workerData as Merge);
const { pageStarts, filter } = merged.summary;
parentPort.postMessage(merged, [pageStarts.buffer as ArrayBuffer, filter.buffer as ArrayBuffer]);
