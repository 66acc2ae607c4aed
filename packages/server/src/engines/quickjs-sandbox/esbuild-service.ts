import { stop } from "esbuild";

const IDLE_MS = 5_000;
const MAX_TRIES = 3;
const GONE = /^The service (?:was stopped|is no longer running)/;

/**
 * The bundler's process. The library keeps one for the whole process and leaves builds that are
 * under way unanswered for ever when it is stopped, so that all who build count here: it is put to
 * rest only when nobody's build is under way.
 */
class EsbuildService {
  #underWay = 0;
  /** Grows whenever the process is put to rest. */
  #generation = 0;
  #idle: NodeJS.Timeout | undefined;

  /** Runs a build; once more in a new process where the one at work ended. */
  async run<T>(build: () => Promise<T>): Promise<T> {
    this.#underWay += 1;
    clearTimeout(this.#idle);
    try {
      return await this.#retry(build, MAX_TRIES);
    } finally {
      this.#underWay -= 1;
      if (this.#underWay === 0) {
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

  async #retry<T>(build: () => Promise<T>, tries: number): Promise<T> {
    const generation = this.#generation;
    try {
      return await build();
    } catch (error) {
      const isGone = error instanceof Error && GONE.test(error.message);
      if (!isGone || tries <= 1) throw error;
      // All builds of a process that ended fail: only the first of them makes room for the next one.
      if (generation === this.#generation) this.#stop();
      return this.#retry(build, tries - 1);
    }
  }

  #stop(): void {
    this.#generation += 1;
    void stop();
  }
}

/** One for the process, as the library has it. */
export const esbuildService = new EsbuildService();
