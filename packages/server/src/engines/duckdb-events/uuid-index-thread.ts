import { parentPort, workerData } from "node:worker_threads";
import {
  type FromUuidIndexThread,
  openUuidIndexFile,
  type ToUuidIndexThread,
} from "./uuid-index-file.ts";

/** The uuid index in a thread of its own: thousands of look-ups per batch would hold up requests. */
if (!parentPort) throw new Error("runs as a thread only");
const port = parentPort;
const answer = (message: FromUuidIndexThread) => port.postMessage(message);

const file = openUuidIndexFile(workerData as string);
answer({ kind: "opened", end: file.end });

port.on("message", (message: ToUuidIndexThread) => {
  if (message.kind === "close") {
    file.close();
    port.close();
    return;
  }
  const { id } = message;
  try {
    if (message.kind === "claim") {
      const won = file.claim(message.claims);
      answer({ kind: "claimed", id, won, end: file.end });
    } else answer({ kind: "found", id, position: file.find(message.projectId, message.uuid) });
  } catch (error) {
    answer({ kind: "failed", id, reason: error instanceof Error ? error.message : String(error) });
  }
});
