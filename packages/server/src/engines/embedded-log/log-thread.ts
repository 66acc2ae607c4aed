import { parentPort, workerData } from "node:worker_threads";
import { openLogFile } from "./log-file.ts";
import type { FromLogThread, LogFileOptions, ToLogThread } from "./log-messages.ts";

/** The log's writing half: commits block this thread, never the one that answers requests. */
if (!parentPort) throw new Error("runs as a thread only");
const port = parentPort;
const answer = (message: FromLogThread) => port.postMessage(message);

const file = openLogFile(workerData as LogFileOptions);
answer({ kind: "opened", end: file.end, lanes: file.lanes });

port.on("message", (message: ToLogThread) => {
  switch (message.kind) {
    case "append":
      try {
        answer({ kind: "appended", end: file.append(message), isShort: file.isDiskShort() });
      } catch (error) {
        answer({ kind: "refused", reason: error instanceof Error ? error.message : String(error) });
      }
      return;
    case "release":
      file.release(message.upTo);
      return;
    case "forget-effects":
      file.forgetEffects(message.upTo);
      return;
    case "close":
      file.close();
      answer({ kind: "closed" });
      port.close();
  }
});
