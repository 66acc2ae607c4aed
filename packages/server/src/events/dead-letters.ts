import { Refusal } from "../http/errors.ts";
import type { AppendCaptured } from "./append-captured.ts";
import { type EventLog, LogUnavailable } from "./event-log.ts";
import type { DeadLetter, DeadLetterQuery, EventStore } from "./event-store.ts";

export interface DeadLetterDeps {
  readonly events: Pick<EventStore, "deadLetters" | "deadLetter" | "removeDeadLetters">;
  readonly log: Pick<EventLog, "end">;
  readonly append: AppendCaptured;
}

/** Which letters: by position in the log or by uuid of their event, or all there are. */
export type ChosenLetters = readonly (number | string)[] | "all";

/** What a replay did. */
export interface Replay {
  readonly replayed: number;
  /** Of those chosen, the ones that are no letters (any more). */
  readonly unknown: readonly (number | string)[];
}

/** Events that could not be processed, kept for an operator. */
export interface DeadLetters {
  /** Oldest first. */
  list(query: DeadLetterQuery): Promise<readonly DeadLetter[]>;
  /**
   * Captures the events of letters once more, of one project or of all, then removes the letters: an
   * event that fails again becomes a new letter, and one that was stored all the same stays one
   * event. Refuses (503) when the log takes nothing.
   */
  replay(chosen: ChosenLetters, projectId?: number): Promise<Replay>;
}

/** Letters handled at a time: their events may be large. */
const LETTERS_PER_TURN = 100;

/** {@link DeadLetters} over the store. */
export function createDeadLetters({ events, log, append }: DeadLetterDeps): DeadLetters {
  /** In this order: what dies in between is captured twice at worst, and stored once by its uuid. */
  async function captureAgain(letters: readonly DeadLetter[]): Promise<void> {
    if (letters.length === 0) return;
    await append(letters.map(({ event }) => event));
    await events.removeDeadLetters(letters.map(({ position }) => position));
  }

  /** Every letter of a scope up to a position, in short lists. */
  async function* lettersUpTo(end: number, scope: Pick<DeadLetterQuery, "projectId">) {
    let after = 0;
    while (after < end) {
      const letters = await events.deadLetters({ ...scope, after, limit: LETTERS_PER_TURN });
      const last = letters.at(-1)?.position;
      if (last === undefined) return;
      yield letters.filter(({ position }) => position <= end);
      after = last;
    }
  }

  async function replayAll(scope: Pick<DeadLetterQuery, "projectId">): Promise<Replay> {
    // Letters of what is replayed now come later: it is not tried again and again.
    const end = await log.end();
    let replayed = 0;
    for await (const letters of lettersUpTo(end, scope)) {
      await captureAgain(letters);
      replayed += letters.length;
    }
    return { replayed, unknown: [] };
  }

  async function replayChosen(
    chosen: readonly (number | string)[],
    scope: Pick<DeadLetterQuery, "projectId">,
  ): Promise<Replay> {
    const found = new Set<number | string>();
    let replayed = 0;
    const isInScope = ({ event }: DeadLetter) =>
      scope.projectId === undefined || event.projectId === scope.projectId;
    for (const position of new Set(chosen)) {
      if (typeof position !== "number") continue;
      const letter = await events.deadLetter(position);
      if (!letter || !isInScope(letter)) continue;
      await captureAgain([letter]);
      found.add(position);
      replayed++;
    }
    const uuids = new Set(chosen.flatMap((one) => (typeof one === "string" ? one : [])));
    if (uuids.size > 0) {
      for await (const letters of lettersUpTo(await log.end(), scope)) {
        const named = letters.filter(({ event }) => uuids.has(event.uuid));
        await captureAgain(named);
        for (const { event } of named) found.add(event.uuid);
        replayed += named.length;
      }
    }
    return { replayed, unknown: [...new Set(chosen)].filter((one) => !found.has(one)) };
  }

  return {
    list: (query) => events.deadLetters(query),

    async replay(chosen, projectId) {
      const scope = projectId === undefined ? {} : { projectId };
      try {
        return await (chosen === "all" ? replayAll(scope) : replayChosen(chosen, scope));
      } catch (error) {
        if (!(error instanceof LogUnavailable)) throw error;
        throw new Refusal("unavailable", "Events cannot be captured now. Please try again.", {
          headers: { "retry-after": String(error.retryAfterSeconds) },
        });
      }
    },
  };
}
