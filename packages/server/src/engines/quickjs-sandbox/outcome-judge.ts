import type { SandboxLimits } from "../../transformations/sandbox.ts";
import { type ToldSets, tellChange } from "./event-changes.ts";
import type { ScannedLines } from "./event-shapes.ts";
import { failedOutcome, isLimitReason } from "./guest-failures.ts";
import { nestsDeeper } from "./read-depth.ts";
import { ADDED, type TextChange, type ThreadOutcome } from "./sandbox-messages.ts";
import type { SET, SET_ALIKE } from "./told-sets.ts";

const MAX_DEPTH = 200;
/** How outcomes begin that the guest may tell. */
const GUEST_OUTCOMES = "=-+~!";
/** So many characters may be added to an event that has more than one may become. */
const MAX_ADDED_LENGTH = 25_000;
const UNREADABLE = "it answered what cannot be read";
/** How the failure begins that an error inside of the sandbox has become. */
const FAILURE = '!"';

/**
 * Makes of what the guest tells of the events of a batch what the main thread is told: within the
 * limits, and of changes what really differs.
 */
export class OutcomeJudge {
  readonly #scanned: ScannedLines | null;
  readonly #limits: SandboxLimits;
  readonly #stopped: number | null;

  /** @param stopped the event that the machine was stopped for, if any */
  constructor(scanned: ScannedLines | null, limits: SandboxLimits, stopped: number | null) {
    this.#scanned = scanned;
    this.#limits = limits;
    this.#stopped = stopped;
  }

  judge(text: string, index: number, cpuMs: number): ThreadOutcome {
    const { outputLength, eventCpuMs } = this.#limits;
    if (text.length > outputLength) {
      return failedOutcome(`the event became larger than ${outputLength} characters`, true, cpuMs);
    }
    if (!GUEST_OUTCOMES.includes(text.slice(0, 1) || " ")) {
      return failedOutcome(UNREADABLE, true, cpuMs);
    }
    const isChanged = text.startsWith("+") || text.startsWith("~");
    if (!isChanged) {
      // What is interrupted fails with whatever the engine then comes upon.
      if (index === this.#stopped && text.startsWith("!")) {
        return failedOutcome(`it computed for longer than ${eventCpuMs} ms`, true, cpuMs);
      }
      const isLimit = text.startsWith(FAILURE) && isLimitReason(text.slice(FAILURE.length));
      return { text, isLimit, cpuMs };
    }
    if (nestsDeeper(text, MAX_DEPTH)) {
      return failedOutcome(`the event became nested deeper than ${MAX_DEPTH}`, true, cpuMs);
    }
    if (this.#scanned === null) return { text, isLimit: false, cpuMs };
    try {
      return this.#tell(tellChange(text, this.#scanned, index), this.#scanned, index, cpuMs);
    } catch {
      return failedOutcome(UNREADABLE, true, cpuMs);
    }
  }

  /** The same for an event of which it was noted what it set. */
  judgeSets(
    sets: ToldSets,
    kind: typeof SET | typeof SET_ALIKE,
    index: number,
    cpuMs: number,
  ): ThreadOutcome {
    const scanned = this.#scanned;
    try {
      const text = sets.next(kind);
      if (text.length > this.#limits.outputLength || scanned === null) {
        return this.judge(text, index, cpuMs);
      }
      return this.#tell(sets.tell(text, scanned, index), scanned, index, cpuMs);
    } catch {
      return failedOutcome(UNREADABLE, true, cpuMs);
    }
  }

  /** A failure where an event has become too long, and not only because it was so before. */
  #tell(text: string, { lines }: ScannedLines, index: number, cpuMs: number): ThreadOutcome {
    const { eventLength } = this.#limits;
    const before = lines[index]?.length ?? 0;
    if (
      text.length + before > eventLength &&
      lengthAfter(text, before) > Math.max(eventLength, before + MAX_ADDED_LENGTH)
    ) {
      return failedOutcome(`the event became larger than ${eventLength} characters`, true, cpuMs);
    }
    return { text, isLimit: false, cpuMs };
  }
}

/** How long an event is, about, with what is told of it. */
function lengthAfter(told: string, before: number): number {
  if (told === "=") return 0;
  if (told.endsWith(`\n${ADDED}`)) return before + told.length;
  // All properties stand behind the change, where they are known.
  const end = told.startsWith("~") ? told.indexOf("\n") : told.length - 1;
  const properties = told.length - end - 1;
  if (properties === 0) return told.length;
  const { e: fields = {} } = JSON.parse(told.slice(1, end)) as TextChange;
  return properties + JSON.stringify(fields).length;
}
