import type { Worker } from "node:worker_threads";
import { openThread } from "../../platform/open-thread.ts";
import type { GuestTexts } from "./guest-texts.ts";
import {
  BEAT,
  BEAT_BYTES,
  type FromThread,
  type ThreadData,
  type ToThread,
} from "./sandbox-messages.ts";
import { openCpuOf, type ThreadCpu } from "./thread-cpu.ts";

/** How often threads are looked after. */
const LOOK_EVERY_MS = 250;
/** A thread may compute for so long without a sign of life. */
const MAX_SILENT_MS = 1_250;
/** Where its CPU time is not told: time on the wall, and of one look no more than that counts. */
const MAX_SILENT_WALL_MS = 3_000;
const MAX_LOOK_MS = 2 * LOOK_EVERY_MS;

/** What a thread was doing when it was lost: whose code, and which event of its batch. */
export interface LostWork {
  readonly instance: number;
  readonly event: number;
}

export interface ThreadResources {
  readonly wasmModule: WebAssembly.Module;
  readonly guestTexts: GuestTexts;
  readonly privateNetworks: readonly string[];
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
  #lastLookAt = performance.now();
  /** Since the last sign of life: CPU time of the thread then, and time on the wall. */
  #cpu: ThreadCpu | null = null;
  #cpuAtSign = 0;
  #silentWallMs = 0;
  #isClosed = false;

  constructor(
    resources: ThreadResources,
    handlers: {
      readonly onMessage: (message: FromThread) => void;
      readonly onLost: (work: LostWork | null) => void;
    },
  ) {
    this.#beat = new Int32Array(new SharedArrayBuffer(BEAT_BYTES));
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
    // With a message that cannot be read, all that was sent with it is lost, and somebody waits for that.
    this.#worker.on("messageerror", lose);
    this.#worker.on("exit", lose);
    this.#watch = setInterval(() => {
      Atomics.add(this.#beat, BEAT.looks, 1);
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

  /** Whether it has computed for long without a sign of life; waiting for a turn is no computing. */
  #isSilent(): boolean {
    const nowMs = performance.now();
    const lookMs = Math.min(nowMs - this.#lastLookAt, MAX_LOOK_MS);
    this.#lastLookAt = nowMs;
    const count = Atomics.load(this.#beat, BEAT.count);
    const isBusy = Atomics.load(this.#beat, BEAT.instance) !== 0;
    const hasSign = !isBusy || count !== this.#lastCount;
    this.#lastCount = count;
    if (hasSign) {
      this.#silentWallMs = 0;
      return false;
    }
    this.#cpu ??= openCpuOf(Atomics.load(this.#beat, BEAT.thread));
    const cpuMs = this.#cpu?.() ?? 0;
    // The first look without a sign is the one from which on its CPU time counts.
    if (this.#silentWallMs === 0) this.#cpuAtSign = cpuMs;
    this.#silentWallMs += Math.max(1, lookMs);
    if (this.#cpu === null) return this.#silentWallMs > MAX_SILENT_WALL_MS;
    return cpuMs - this.#cpuAtSign > MAX_SILENT_MS - LOOK_EVERY_MS;
  }
}
