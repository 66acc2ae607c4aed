import type { Worker } from "node:worker_threads";
import { openThread } from "../../platform/open-thread.ts";

export interface SqliteFlusher {
  /** Resolves once everything committed before the call is on the disk. Rejects when that fails. */
  flush(): Promise<void>;
  close(): Promise<void>;
}

/** What the thread answers each request with. */
export type FlushAnswer = { readonly error: string | null };

/**
 * Brings a database's write-ahead log to the disk and takes it into the file, in a thread that is
 * started with the first flush: both wait for the disk, some milliseconds that requests would wait too.
 */
export function createSqliteFlusher(path: string): SqliteFlusher {
  let thread: Worker | undefined;
  let waiting: { resolve(): void; reject(error: Error): void }[] = [];

  function start(): Worker {
    const worker = openThread(new URL("./sqlite-flush-thread.ts", import.meta.url), path);
    worker.on("message", ({ error }: FlushAnswer) => {
      const [first, ...others] = waiting;
      waiting = others;
      if (error === null) first?.resolve();
      else first?.reject(new Error(`the metadata database could not be flushed: ${error}`));
    });
    const lose = (error: Error) => {
      if (thread === worker) thread = undefined;
      const lost = waiting;
      waiting = [];
      for (const { reject } of lost) reject(error);
    };
    worker.on("error", lose);
    worker.on("exit", () => lose(new Error("the thread that flushes the database ended")));
    // It keeps nothing alive: whoever waits for it has something else that does.
    worker.unref();
    return worker;
  }

  return {
    flush: () =>
      new Promise((resolve, reject) => {
        thread ??= start();
        waiting.push({ resolve, reject });
        thread.postMessage("flush");
      }),
    async close() {
      const worker = thread;
      if (!worker) return;
      const exited = new Promise((resolve) => worker.once("exit", resolve));
      worker.ref();
      worker.postMessage("close");
      await exited;
    },
  };
}
