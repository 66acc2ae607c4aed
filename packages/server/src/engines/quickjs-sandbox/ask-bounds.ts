import { MAX_CAPTURES } from "../../transformations/sandbox.ts";
import type { GuestCause } from "./sandbox-messages.ts";

/** Questions of one instance that wait for answers at the same time, and of one of its events. */
const MAX_WAITING = 4_096;
const MAX_WAITING_OF_EVENT = 64;

interface Counts {
  waiting: number;
  captures: number;
}

/**
 * How much the work of one instance may ask of the host: bounded for each event, so that none
 * crowds out others. Refusals are counted, since nobody may wait for their promises.
 */
export class AskBounds {
  readonly #counts = new WeakMap<object, Counts>();
  readonly #refused = new Map<string, number>();

  /** Notes that a piece of work asks for something; or tells why it may not. */
  begin(
    work: { readonly cause: GuestCause | null },
    op: string,
    waiting: number,
  ): string | undefined {
    const counts = this.#counts.get(work) ?? { waiting: 0, captures: 0 };
    this.#counts.set(work, counts);
    const isEvent = work.cause !== null && work.cause.event !== null;
    if (isEvent && op === "capture" && counts.captures >= MAX_CAPTURES) {
      return this.#refuse(
        `posthog.capture was refused: one event may not capture more than ${MAX_CAPTURES}`,
      );
    }
    if (waiting >= MAX_WAITING || (isEvent && counts.waiting >= MAX_WAITING_OF_EVENT)) {
      return this.#refuse("too many questions wait for their answers");
    }
    counts.waiting += 1;
    if (op === "capture") counts.captures += 1;
    return undefined;
  }

  end(work: object): void {
    const counts = this.#counts.get(work);
    if (counts !== undefined) counts.waiting -= 1;
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
