import type { Json } from "@hedgerow/core/json";
import type { SandboxLogLine } from "../../transformations/sandbox.ts";

const LEVELS = ["debug", "log", "info", "warn", "error"] as const;
const MAX_LINE_LENGTH = 8_000;

/** The lines that an instance logs: so many for each batch or call, and what is said of it. */
export class InstanceLog {
  readonly #maxLines: number;
  #lines: SandboxLogLine[] = [];
  #keptLines = 0;
  #unkeptLines = 0;

  /** @param maxLines of one batch or call */
  constructor(maxLines: number) {
    this.#maxLines = maxLines;
  }

  /** A batch or a call begins. */
  open(): void {
    this.#keptLines = 0;
  }

  /** Takes what the guest logs, `[level, text]` or nothing; `full` where it need not write more of it. */
  take(argument: string): "full" | undefined {
    if (argument === "" || this.#keptLines >= this.#maxLines) {
      this.#unkeptLines += 1;
      return "full";
    }
    this.#keptLines += 1;
    const told = JSON.parse(argument) as Json;
    const [level, message] = Array.isArray(told) ? told : [];
    const text = typeof message === "string" ? message : String(JSON.stringify(message));
    this.#lines.push({
      at: new Date(),
      source: "console",
      level: LEVELS.find((known) => known === level) ?? "log",
      message: text.slice(0, MAX_LINE_LENGTH),
    });
    return this.#keptLines >= this.#maxLines ? "full" : undefined;
  }

  /** Adds what the service itself says. */
  say(level: "warn" | "error", message: string): void {
    this.#lines.push({ at: new Date(), source: "system", level, message });
  }

  /** What has come since this was asked for. */
  takeLines(): readonly SandboxLogLine[] {
    if (this.#unkeptLines > 0) {
      this.say("warn", `${this.#unkeptLines} more lines were not kept`);
      this.#unkeptLines = 0;
    }
    const lines = this.#lines;
    this.#lines = [];
    return lines;
  }
}
