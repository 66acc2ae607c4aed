import type { Worker } from "node:worker_threads";
import { openThread } from "../platform/open-thread.ts";
import { Refusal } from "./errors.ts";
import { type EncodedBody, LayerTooLarge, type OpenedBody } from "./open-body.ts";

/** Opens bodies in a thread of its own: those that take long to open. */
export interface BodyOpener {
  /** Like `openBody`, with what that throws; a `Refusal` with 503 where the thread is lost. */
  open(body: EncodedBody, maxBytes: number): Promise<OpenedBody>;
  /** Ends the thread; whoever waits for it is refused. */
  close(): Promise<void>;
}

/** What the thread is asked. */
export interface OpeningRequest {
  readonly body: Omit<EncodedBody, "bytes"> & { readonly bytes: Uint8Array };
  readonly maxBytes: number;
}

/** What it answers, in the order of what it was asked. */
export type OpeningAnswer =
  | {
      readonly kind: "opened";
      readonly content: Uint8Array | undefined;
      readonly form: ReadonlyMap<string, string>;
    }
  | { readonly kind: "too-large" }
  | { readonly kind: "unreadable"; readonly reason: string };

/** A thread that has nothing to do ends after so long, and gives its memory back. */
const IDLE_MS = 10_000;

interface Waiting {
  resolve(opened: OpenedBody): void;
  reject(error: Error): void;
}

/** An opener whose thread starts with the first body. */
export function createBodyOpener({ idleMs = IDLE_MS } = {}): BodyOpener {
  let thread: { readonly worker: Worker; readonly waiting: Waiting[] } | undefined;
  let idleTimer: NodeJS.Timeout | undefined;

  function start() {
    const worker = openThread(new URL("./open-body-thread.ts", import.meta.url), null);
    const started = { worker, waiting: [] as Waiting[] };
    worker.on("message", (answer: OpeningAnswer) => {
      settle(started.waiting.shift(), answer);
      if (thread !== started || started.waiting.length > 0) return;
      idleTimer = setTimeout(() => void close(), idleMs).unref();
    });
    const lose = () => {
      if (thread === started) thread = undefined;
      for (const { reject } of started.waiting.splice(0)) reject(lost());
    };
    worker.on("error", lose);
    worker.on("exit", lose);
    // It keeps nothing alive: whoever waits for it has a request that does.
    worker.unref();
    return started;
  }

  async function close(): Promise<void> {
    clearTimeout(idleTimer);
    const ending = thread;
    thread = undefined;
    await ending?.worker.terminate();
  }

  return {
    open: ({ bytes, contentType, contentEncoding, query }, maxBytes) =>
      new Promise((resolve, reject) => {
        clearTimeout(idleTimer);
        thread ??= start();
        const body = { bytes, contentType, contentEncoding, query: { ...query } };
        // First, as it may throw: answers go to those who wait by their order.
        thread.worker.postMessage({ body, maxBytes } satisfies OpeningRequest);
        thread.waiting.push({ resolve, reject });
      }),
    close,
  };
}

function lost(): Refusal {
  return new Refusal("unavailable", "The request could not be read. Please try again.", {
    headers: { "retry-after": "1" },
  });
}

function settle(waiting: Waiting | undefined, answer: OpeningAnswer): void {
  switch (answer.kind) {
    case "opened": {
      const { content, form } = answer;
      waiting?.resolve({ content: content && Buffer.from(content.buffer), form });
      break;
    }
    case "too-large":
      waiting?.reject(new LayerTooLarge());
      break;
    case "unreadable":
      waiting?.reject(new Error(answer.reason));
  }
}
