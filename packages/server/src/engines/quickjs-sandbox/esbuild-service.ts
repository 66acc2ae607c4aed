import type { ChildProcess } from "node:child_process";
import { subscribe } from "node:diagnostics_channel";
import { readFileSync } from "node:fs";
import { stop } from "esbuild";
import { withResolvers } from "../../platform/with-resolvers.ts";

const IDLE_MS = 5_000;
const MAX_TRIES = 3;
const GONE = /^The service (?:was stopped|is no longer running)/;
/** Memory of the process beyond which what it builds is given up: large sources take a tenth of it. */
const MAX_MEMORY_MIB = 1024;
const LOOK_MS = 20;
/** Bytes of a page of memory, as nearly every Linux has them. */
const PAGE = 4096;

/** Thrown for a build that takes more memory than it may. */
export class TooMuchMemory extends Error {}

/**
 * The bundler's process. The library keeps one for the whole process and leaves builds that are
 * under way unanswered for ever when it is stopped, so that all who build count here: it is put to
 * rest only when nobody's build is under way. Its memory is watched where the platform tells it: a
 * line of constants that each join the one before twice would take all there is.
 */
class EsbuildService {
  #underWay = 0;
  /** Grows whenever the process is put to rest. */
  #generation = 0;
  #idle: NodeJS.Timeout | undefined;
  #child: ChildProcess | undefined;
  #watch: NodeJS.Timeout | undefined;
  /** The generation that was ended for its memory. */
  #ended = -1;
  /** The builds that have the process for themselves, one after the other, and how many there are. */
  #turns: Promise<unknown> = Promise.resolve();
  #inTurns = 0;

  constructor() {
    // The library tells nobody of its process.
    subscribe("child_process", (message) => {
      const { process: child } = message as { process: ChildProcess };
      child.once("spawn", () => {
        if (child.spawnargs.some((argument) => argument.startsWith("--service="))) {
          this.#child = child;
        }
      });
    });
  }

  /**
   * Runs a build; once more in a new process where the one at work ended. Throws
   * {@link TooMuchMemory} for one that took too much.
   */
  async run<T>(build: () => Promise<T>): Promise<T> {
    this.#underWay += 1;
    clearTimeout(this.#idle);
    this.#watch ??= setInterval(() => this.#look(), LOOK_MS).unref();
    try {
      return await (this.#inTurns > 0 ? this.#alone(build) : this.#retry(build, MAX_TRIES));
    } finally {
      this.#underWay -= 1;
      if (this.#underWay === 0) {
        clearInterval(this.#watch);
        this.#watch = undefined;
        this.#idle = setTimeout(() => this.#stop(), IDLE_MS);
        this.#idle.unref();
      }
    }
  }

  /** Ends the process now, unless somebody needs it. */
  rest(): void {
    if (this.#underWay > 0) return;
    clearTimeout(this.#idle);
    this.#stop();
  }

  async #retry<T>(build: () => Promise<T>, tries: number, isAlone = false): Promise<T> {
    const generation = this.#generation;
    try {
      return await build();
    } catch (error) {
      const isGone = error instanceof Error && GONE.test(error.message);
      if (!isGone) throw error;
      // All builds of a process that ended fail: only the first of them makes room for the next one.
      if (generation === this.#generation) this.#stop();
      if (generation === this.#ended) {
        if (isAlone) throw new TooMuchMemory();
        // One of those that it was at is to blame, and shows by itself which.
        return this.#alone(build);
      }
      if (tries <= 1) throw error;
      return this.#retry(build, tries - 1, isAlone);
    }
  }

  /** Runs a build when it is its turn, while no other is under way. */
  async #alone<T>(build: () => Promise<T>): Promise<T> {
    this.#inTurns += 1;
    const before = this.#turns;
    const turn = withResolvers();
    this.#turns = turn.promise;
    await before;
    try {
      return await this.#retry(build, MAX_TRIES, true);
    } finally {
      this.#inTurns -= 1;
      turn.resolve();
    }
  }

  #look(): void {
    const { pid } = this.#child ?? {};
    if (pid === undefined || memoryMiB(pid) <= MAX_MEMORY_MIB) return;
    this.#ended = this.#generation;
    this.#child?.kill("SIGKILL");
    this.#child = undefined;
  }

  #stop(): void {
    this.#generation += 1;
    void stop();
  }
}

/** What a process holds of memory; 0 where that is not told. */
function memoryMiB(pid: number): number {
  try {
    const pages = readFileSync(`/proc/${pid}/statm`, "latin1").split(" ")[1];
    return (Number(pages) * PAGE) / 2 ** 20;
  } catch {
    return 0;
  }
}

/** One for the process, as the library has it. */
export const esbuildService = new EsbuildService();
