import type { Worker } from "node:worker_threads";
import { openThread } from "../../platform/open-thread.ts";
import type { GuestTexts } from "./guest-texts.ts";
import { BEAT, type FromThread, type ThreadData, type ToThread } from "./sandbox-messages.ts";

/** How often threads are looked after, and how often in a row one may give no sign of life. */
const LOOK_EVERY_MS = 250;
const MAX_SILENT_LOOKS = 5;

/** What a thread was doing when it was lost: whose code, and which event of its batch. */
export interface LostWork {
  readonly instance: number;
  readonly event: number;
}

export interface ThreadResources {
  readonly wasmModule: WebAssembly.Module;
  readonly guestTexts: GuestTexts;
  readonly allowedPrivateHosts: readonly string[];
}

/**
 * One thread of the sandbox and the eye on it: a thread whose code cannot be interrupted is ended
 * and told as lost, with whose work it was.
 */
export class SandboxThread {
  readonly #worker: Worker;
  readonly #beat: Int32Array<SharedArrayBuffer>;
  readonly #watch: NodeJS.Timeout;
  #lastCount = 0;
  #silentLooks = 0;
  #isClosed = false;

  constructor(
    resources: ThreadResources,
    handlers: {
      readonly onMessage: (message: FromThread) => void;
      readonly onLost: (work: LostWork | null) => void;
    },
  ) {
    this.#beat = new Int32Array(new SharedArrayBuffer(12));
    const data: ThreadData = { ...resources, beat: this.#beat };
    this.#worker = openThread(new URL("./quickjs-sandbox-thread.ts", import.meta.url), data);
    this.#worker.on("message", (messages: readonly FromThread[]) => {
      for (const message of messages) handlers.onMessage(message);
    });
    const lose = () => {
      if (this.#isClosed) return;
      this.#isClosed = true;
      clearInterval(this.#watch);
      const instance = Atomics.load(this.#beat, BEAT.instance);
      const event = Atomics.load(this.#beat, BEAT.event);
      void this.#worker.terminate();
      handlers.onLost(instance === 0 ? null : { instance, event });
    };
    this.#worker.on("error", lose);
    this.#worker.on("exit", lose);
    this.#watch = setInterval(() => {
      if (this.#isSilent()) lose();
    }, LOOK_EVERY_MS);
    this.#watch.unref();
  }

  send(message: ToThread): void {
    if (!this.#isClosed) this.#worker.postMessage(message);
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    clearInterval(this.#watch);
    await this.#worker.terminate();
  }

  #isSilent(): boolean {
    const count = Atomics.load(this.#beat, BEAT.count);
    const isBusy = Atomics.load(this.#beat, BEAT.instance) !== 0;
    if (!isBusy || count !== this.#lastCount) this.#silentLooks = 0;
    else this.#silentLooks += 1;
    this.#lastCount = count;
    return this.#silentLooks >= MAX_SILENT_LOOKS;
  }
}
