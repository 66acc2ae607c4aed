import type { ChildProcess } from "node:child_process";
import { subscribe } from "node:diagnostics_channel";
import { readFileSync } from "node:fs";
import { stop } from "esbuild";
import { endWithUs } from "../../platform/end-with-us.ts";
import { withResolvers } from "../../platform/with-resolvers.ts";

const IDLE_MS = 5_000;
const MAX_TRIES = 3;
const GONE = /^The service (?:was stopped|is no longer running)/;
/** Memory of the process beyond which what it builds is given up: large sources take a tenth of it, */
const MAX_MEMORY_MIB = 1024;
/** and time of the processor: the largest sources take half of it. */
const MAX_CPU_MS = 8_000;
const LOOK_MS = 20;
/** Bytes of a page of memory, as nearly every Linux has them. */
const PAGE = 4096;
/** How Linux counts a process's time. */
const TICK_MS = 10;

/** What a build may take too much of. */
type Resource = "memory" | "time";

/** Thrown for a build that takes more than it may. */
export class TakesTooMuch extends Error {
  readonly resource: Resource;

  constructor(resource: Resource) {
    super(`too much ${resource}`);
    this.resource = resource;
  }
}

/**
 * The bundler's process. The library keeps one for the whole process and leaves builds that are
 * under way unanswered for ever when it is stopped, so that all who build count here: it is put to
 * rest only when nobody's build is under way. Its memory and time are watched where the platform
 * tells them: a line of constants that each join the one before twice would take all the memory there
 * is, and arrows that may be types of what stands before them (`a ? (b) : c => (`) have its parser try
 * twice at each, for ever where a few dozen stand in each other.
 */
class EsbuildService {
  #underWay = 0;
  /** Grows whenever the process is put to rest. */
  #generation = 0;
  #idle: NodeJS.Timeout | undefined;
  #child: ChildProcess | undefined;
  #watch: NodeJS.Timeout | undefined;
  /** The generation that was ended for what it took, and of what that was too much. */
  #ended = -1;
  #endedFor: Resource = "memory";
  /** For each build in the process, what that had taken of the processor when it began. */
  readonly #begunAtMs = new Set<{ readonly cpuMs: number }>();
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
          // At the end of its input it finishes what it builds, however long that takes.
          endWithUs(child);
        }
      });
    });
  }

  /**
   * Runs a build; once more in a new process where the one at work ended. Throws
   * {@link TakesTooMuch} for one that does.
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
    const begun = { cpuMs: cpuMsOf(this.#child?.pid) };
    this.#begunAtMs.add(begun);
    try {
      return await build();
    } catch (error) {
      const isGone = error instanceof Error && GONE.test(error.message);
      if (!isGone) throw error;
      // All builds of a process that ended fail: only the first of them makes room for the next one.
      if (generation === this.#generation) this.#stop();
      if (generation === this.#ended) {
        if (isAlone) throw new TakesTooMuch(this.#endedFor);
        // One of those that it was at is to blame, and shows by itself which.
        return this.#alone(build);
      }
      if (tries <= 1) throw error;
      return this.#retry(build, tries - 1, isAlone);
    } finally {
      this.#begunAtMs.delete(begun);
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
    const pid = this.#child?.pid;
    const excess = this.#excessOf(pid);
    if (excess === null) return;
    this.#ended = this.#generation;
    this.#endedFor = excess;
    this.#child?.kill("SIGKILL");
    this.#child = undefined;
  }

  #excessOf(pid: number | undefined): Resource | null {
    if (memoryMiBOf(pid) > MAX_MEMORY_MIB) return "memory";
    // Whoever is beside it is charged with it as well, and shows to be innocent when alone.
    const cpuMs = cpuMsOf(pid);
    const isTooLong = [...this.#begunAtMs].some((begun) => cpuMs - begun.cpuMs > MAX_CPU_MS);
    return isTooLong ? "time" : null;
  }

  #stop(): void {
    this.#generation += 1;
    this.#child = undefined;
    void stop();
  }
}

/** What a process holds of memory; 0 where that is not told. */
function memoryMiBOf(pid: number | undefined): number {
  const pages = readProcess(pid, "statm").split(" ")[1] ?? 0;
  return (Number(pages) * PAGE) / 2 ** 20;
}

/** What a process has taken of the processor; 0 where that is not told. */
function cpuMsOf(pid: number | undefined): number {
  // The name of the program, which comes second, may hold anything.
  const fields = readProcess(pid, "stat")
    .replace(/^.*\) /s, "")
    .split(" ");
  return (Number(fields[11] ?? 0) + Number(fields[12] ?? 0)) * TICK_MS;
}

function readProcess(pid: number | undefined, file: "stat" | "statm"): string {
  if (pid === undefined) return "";
  try {
    return readFileSync(`/proc/${pid}/${file}`, "latin1");
  } catch {
    return "";
  }
}

/** One for the process, as the library has it. */
export const esbuildService = new EsbuildService();
