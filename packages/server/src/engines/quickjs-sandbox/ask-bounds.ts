import { MAX_CAPTURES } from "../../transformations/sandbox.ts";
import { nestsDeeper } from "./read-depth.ts";

/** Questions of one instance that wait for answers at the same time, and of one of its events. */
const MAX_WAITING = 4_096;
const MAX_WAITING_OF_EVENT = 64;
/** Characters of all questions of one instance that wait. */
const MAX_WAITING_LENGTH = 8_000_000;

/** How deep what is asked may nest, as an event may, and how deep a question lies around it. */
const MAX_DEPTH = 200;
const OWN_DEPTH = 3;

/** What questions hang on: events, however many; none for what is done beside events. */
export interface Asker {
  readonly events: number;
}

/** A question that was let through. */
export interface Question {
  readonly asker: Asker;
  readonly length: number;
}

interface Counts {
  waiting: number;
  captures: number;
}

/**
 * How much the work of one instance may ask of the host: bounded for each event, so that none
 * crowds out others. Refusals are counted, since nobody may wait for their promises.
 */
export class AskBounds {
  #counts = new WeakMap<Asker, Counts>();
  readonly #refused = new Map<string, number>();
  #waiting = 0;
  #waitingLength = 0;

  /** Notes that a piece of work asks for something; or tells why it may not. */
  begin({ asker, length }: Question, op: string): string | undefined {
    const counts = this.#counts.get(asker) ?? { waiting: 0, captures: 0 };
    this.#counts.set(asker, counts);
    const { events } = asker;
    if (events > 0 && op === "capture" && counts.captures >= MAX_CAPTURES * events) {
      return this.#refuse(
        `posthog.capture was refused: one event may not capture more than ${MAX_CAPTURES}`,
      );
    }
    if (
      this.#waiting >= MAX_WAITING ||
      (events > 0 && counts.waiting >= MAX_WAITING_OF_EVENT * events)
    ) {
      return this.#refuse("too many questions wait for their answers");
    }
    if (this.#waitingLength + length > MAX_WAITING_LENGTH) {
      return this.#refuse(
        `more than ${MAX_WAITING_LENGTH} characters of questions wait for their answers`,
      );
    }
    this.#waiting += 1;
    this.#waitingLength += length;
    counts.waiting += 1;
    if (op === "capture") counts.captures += 1;
    return undefined;
  }

  /** Tells why a question, as JSON, may not be read: no thread reads what nests too deep. */
  refuseDeep(text: string): string | undefined {
    if (!nestsDeeper(text, MAX_DEPTH + OWN_DEPTH)) return undefined;
    return this.#refuse(`what was asked was refused: it is nested deeper than ${MAX_DEPTH}`);
  }

  end({ asker, length }: Question): void {
    this.#waiting -= 1;
    this.#waitingLength -= length;
    const counts = this.#counts.get(asker);
    if (counts !== undefined) counts.waiting -= 1;
  }

  /** Nothing that was asked waits any more. */
  endAll(): void {
    this.#waiting = 0;
    this.#waitingLength = 0;
    this.#counts = new WeakMap();
  }

  /** What was refused since this was asked last, in words. */
  takeRefusals(): readonly string[] {
    const told = [...this.#refused].map(([reason, times]) => `${reason} (${times} times)`);
    this.#refused.clear();
    return told;
  }

  #refuse(reason: string): string {
    this.#refused.set(reason, (this.#refused.get(reason) ?? 0) + 1);
    return reason;
  }
}
