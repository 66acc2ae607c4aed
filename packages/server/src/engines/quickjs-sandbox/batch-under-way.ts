import type { ScannedLines } from "./event-shapes.ts";
import { failedOutcome } from "./guest-failures.ts";
import type { Task } from "./metered-machine.ts";
import { SEPARATOR, type ThreadOutcome, type ToThread } from "./sandbox-messages.ts";

/** Events of one instance that wait for answers at the same time. */
const MAX_WAITING_EVENTS = 32;
/** A batch may lose its machine so often without getting on. */
const MAX_LOSSES = 3;
const NOT_RUN: ThreadOutcome = { text: "?", isLimit: false, cpuMs: 0 };
const OUT_OF_MEMORY = '!"InternalError: out of memory';

export type TransformMessage = Extract<ToThread, { kind: "transform" }>;

/** An event that has begun: its work, and when it is given up. */
export interface WaitingEvent {
  readonly task: Task;
  readonly until: number;
}

/** The events of a batch: which of them are done, under way or left. */
export class BatchUnderWay {
  readonly id: number;
  readonly text: string;
  /** The lines of the text, once they are looked through. */
  scanned: ScannedLines | null = null;
  /** True where it has to be known which event is under way. */
  isCareful: boolean;
  /** False where the shapes of its events were too much for the machine. */
  hasShapes = true;
  /** True once the machine has it. */
  isAccepted = false;
  readonly outcomes: (ThreadOutcome | undefined)[];
  /** Events begun and not done. */
  readonly waiting = new Map<number, WaitingEvent>();
  #left: number;
  /** Where to look for the next event. */
  #next = 0;
  /** Ids of persons by event, read once several events wait at a time. */
  #persons: readonly string[] | null = null;
  /** How often its machine was lost since one of its events was done, and how many were left then. */
  #losses = 0;
  #leftAtLoss: number;

  constructor({ id, lines, count, skipped, isCareful }: TransformMessage) {
    this.id = id;
    this.text = lines;
    this.isCareful = isCareful;
    this.outcomes = Array.from({ length: count });
    for (const index of skipped) this.outcomes[index] = failedOutcome("it was skipped", true, 0);
    this.#left = count - skipped.length;
    this.#leftAtLoss = count;
  }

  /** How many events are not done. */
  get left(): number {
    return this.#left;
  }

  get isFull(): boolean {
    return this.waiting.size >= MAX_WAITING_EVENTS;
  }

  /** Whether there is something to do that waits for nothing. */
  get canBegin(): boolean {
    if (this.#left > 0 && !this.isAccepted) return true;
    if (this.#left === 0) return !this.isAccepted;
    return !this.isFull && this.next() >= 0;
  }

  /** The first of the events that are all that is left, or -1 where those cannot be run in one go. */
  get runFrom(): number {
    if (this.isCareful || this.waiting.size > 0) return -1;
    const from = this.next();
    if (from < 0) return -1;
    for (let index = from; index < this.outcomes.length; index += 1) {
      if (this.outcomes[index] !== undefined) return -1;
    }
    return from;
  }

  /** The next event that may begin, or -1: events of one person wait for each other. */
  next(): number {
    const { outcomes, waiting } = this;
    while (
      this.#next < outcomes.length &&
      (outcomes[this.#next] !== undefined || waiting.has(this.#next))
    ) {
      this.#next += 1;
    }
    if (waiting.size === 0) return this.#next < outcomes.length ? this.#next : -1;
    this.#persons ??= this.text.split("\n").map(readPerson);
    const persons = this.#persons;
    const busy = new Set([...waiting.keys()].map((index) => persons[index]));
    for (let index = this.#next; index < outcomes.length; index += 1) {
      if (outcomes[index] !== undefined || waiting.has(index)) continue;
      if (!busy.has(persons[index])) return index;
    }
    return -1;
  }

  /** An event is done that is not done yet. */
  end(index: number, outcome: ThreadOutcome): void {
    if (this.waiting.size > 0) this.waiting.delete(index);
    this.outcomes[index] = outcome;
    this.#left -= 1;
  }

  /** Whatever has not begun fails. */
  failRest(reason: string, isLimit = true): void {
    this.#endRest(failedOutcome(reason, isLimit, 0));
  }

  /** Whatever has not begun is left as it is. */
  cut(): void {
    this.#endRest(NOT_RUN);
  }

  #endRest(outcome: ThreadOutcome): void {
    for (let index = 0; index < this.outcomes.length; index += 1) {
      if (this.outcomes[index] === undefined && !this.waiting.has(index)) this.end(index, outcome);
    }
  }

  /**
   * Its machine was lost: what was waiting has lost its memory, and begins again. A batch that loses it
   * again and again and gets nowhere is run event by event; then one of its events fails each time,
   * whoever is to blame, so that it comes to an end.
   */
  beginAnew(): void {
    this.waiting.clear();
    this.#next = 0;
    this.isAccepted = false;
    this.#losses = this.#left < this.#leftAtLoss ? 0 : this.#losses + 1;
    if (this.#losses > 0) this.isCareful = true;
    const next = this.next();
    if (this.#losses >= MAX_LOSSES && next >= 0) {
      this.end(next, failedOutcome("its machine was lost again and again", true, 0));
      this.#losses -= 1;
    }
    this.#leftAtLoss = this.#left;
  }

  /** Whether an event came upon the end of the memory. */
  get wasOutOfMemory(): boolean {
    return this.outcomes.some((outcome) => outcome?.text.startsWith(OUT_OF_MEMORY));
  }

  /** What became of all events, as the main thread is told. */
  tell(): { texts: string; cpuMs: Float64Array; limits: number[] } {
    const texts: string[] = [];
    const cpuMs = new Float64Array(this.outcomes.length);
    const limits: number[] = [];
    for (let index = 0; index < this.outcomes.length; index += 1) {
      const outcome = this.outcomes[index] ?? failedOutcome("it was not run", false, 0);
      texts.push(outcome.text);
      cpuMs[index] = outcome.cpuMs;
      if (outcome.isLimit) limits.push(index);
    }
    return { texts: texts.join(SEPARATOR), cpuMs, limits };
  }
}

function readPerson(line: string): string {
  const { distinct_id: id } = JSON.parse(line) as { distinct_id?: unknown };
  return String(id);
}
