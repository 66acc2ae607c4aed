import { wholeEntry } from "@hedgerow/core/events/added-properties";
import type { AddedProperties, CapturedEvent, LoggedEvent } from "@hedgerow/core/events/event";
import { createSlices } from "../../platform/slices.ts";

/** What a step makes of an event: it goes on (changed, perhaps), ends here, or is set aside. */
export type StepOutcome =
  | {
      readonly kind: "keep";
      /** The very event that the step was given, where it changes nothing. */
      readonly event: CapturedEvent;
      /** JSON text of a changed event's properties, where the step has it at hand. */
      readonly propertiesText?: string | undefined;
      /**
       * What stands behind the event's own properties now. Without it that is what stood there where
       * the event is the one that was given, and nothing where it is another one.
       */
      readonly added?: AddedProperties | undefined;
      /** Who changed the event; the step by its own name unless given. */
      readonly changedBy?: readonly string[];
      /** Who gave it another uuid, where that is fewer. */
      readonly renamedBy?: readonly string[] | undefined;
      readonly captured?: readonly CapturedEvent[];
    }
  | {
      readonly kind: "drop";
      readonly reason: string;
      /** Who dropped the event; the step by its own name unless given. */
      readonly by?: string;
      readonly captured?: readonly CapturedEvent[];
    }
  | { readonly kind: "dead-letter"; readonly reason: string };

/** How events come to a step. */
export interface StepOccasion {
  /**
   * Has lines kept in the log, in the commit with what became of the events: asked for once they are
   * on their way there. Not given where events are in no lane.
   */
  readonly whenPassing?: (give: () => readonly string[]) => void;
  /** Has something told once what became of the events is durable: they do not pass again then. */
  readonly whenDurable: (tell: () => void) => void;
  /** Has something told once it is known that what became of the events comes to nothing. */
  readonly whenUndone?: (tell: () => void) => void;
  /** Given where events may be left. */
  readonly leaving?: Leaving;
}

/** How a step leaves events where they were. */
export interface Leaving {
  /** Said once the run has been long enough: no event should begin any more. */
  readonly isOver: AbortSignal;
  /**
   * Nothing from a position on has passed: those events are given again with the next run, whatever
   * is answered for them now.
   */
  from(position: number): void;
}

/**
 * One step that events take before they are stored: in the lane of their project, or, where it is
 * built in and they are in none, between the log and the stores. It is given many events at a time,
 * all of one project, in order; those of other projects pass meanwhile.
 *
 * Answers one outcome for each event, in order. After a crash the last ones may pass again. In a lane
 * the next run may begin before one has ended, and comes to nothing where that one leaves events. There
 * a step may capture other events beside each: they go to the log in the commit with what became of
 * the event, and pass all steps from the first.
 *
 * A step that throws, or does not end in time, is given the same events once more, each by itself,
 * and all at once; those with which it fails again become dead letters. What it did with them before
 * is undone first: each attempt is an occasion of its own.
 */
export interface Step {
  readonly name: string;
  /** True for what the product itself always does: it is not told as a change of the event. */
  readonly isBuiltIn?: true;
  /** True for a step that looks after what stands behind an event's own properties; others find it among those. */
  readonly takesAdded?: true;
  run(
    entries: readonly LoggedEvent[],
    occasion: StepOccasion,
  ): readonly StepOutcome[] | Promise<readonly StepOutcome[]>;
}

/** Steps run for so long at most before requests get their turn. */
const TURN_MS = 2;

/** A step that looks at one event at a time, with promises only where something is waited for. */
export function eventStep(step: {
  readonly name: string;
  readonly isBuiltIn?: true;
  run(entry: LoggedEvent): StepOutcome | Promise<StepOutcome>;
}): Step {
  return {
    name: step.name,
    ...(step.isBuiltIn && { isBuiltIn: step.isBuiltIn }),
    async run(entries) {
      const slices = createSlices(TURN_MS);
      // All at once, though in order: a slow event costs the run its own time, whatever their number.
      const outcomes: (StepOutcome | Promise<StepOutcome>)[] = [];
      let areWaited = false;
      for (const entry of entries) {
        if (slices.isOver()) await slices.next();
        let outcome: StepOutcome | Promise<StepOutcome>;
        try {
          outcome = step.run(entry);
        } catch (error) {
          outcome = failed(step.name, error);
        }
        if (outcome instanceof Promise) {
          areWaited = true;
          outcome = outcome.catch((error: unknown) => failed(step.name, error));
        }
        outcomes.push(outcome);
      }
      return areWaited ? Promise.all(outcomes) : (outcomes as StepOutcome[]);
    },
  };
}

/** What all steps together make of an entry. */
export type StepsOutcome =
  | {
      readonly kind: "keep";
      readonly entry: LoggedEvent;
      /** Who changed it; steps that are built in do not count. */
      readonly changedBy: readonly string[];
      /** Who gave it another uuid, where steps have told. */
      readonly renamedBy?: readonly string[] | undefined;
      readonly captured: readonly CapturedEvent[];
    }
  | {
      readonly kind: "drop";
      readonly reason: string;
      readonly by: string;
      readonly captured: readonly CapturedEvent[];
    }
  | { readonly kind: "dead-letter"; readonly reason: string };

export interface StepsRun extends StepOccasion {
  /**
   * Longest that a step may take for one event, and for a batch beside {@link BATCH_MS} for each: for
   * steps that have no closer limits of their own.
   */
  readonly limitMs?: number;
  /** Where another run of the same project may still be in the steps. */
  readonly order?: StepsOrder;
}

/** Keeps runs that are in the steps at the same time in their order. */
export interface StepsOrder {
  /** Resolves once the run before has been given to a step. */
  turn(step: number): Promise<void>;
  /** This run has been given to a step. */
  given(step: number): void;
}

/** What a batch may take longer for each of its events. */
const BATCH_MS = 100;

/** Takes entries through steps in order, each up to the first that does not keep it. Never rejects. */
export async function runSteps(
  steps: readonly Step[],
  entries: readonly LoggedEvent[],
  run: StepsRun,
): Promise<readonly StepsOutcome[]> {
  const outcomes: StepsOutcome[] = [];
  const byProject = new Map<number, number[]>();
  for (let index = 0; index < entries.length; index++) {
    const entry = entries[index] as LoggedEvent;
    if (entry.fault !== undefined) {
      outcomes[index] = { kind: "dead-letter", reason: entry.fault };
      continue;
    }
    outcomes[index] = { kind: "keep", entry, changedBy: NONE, captured: NONE };
    const { projectId } = entry.event;
    const indexes = byProject.get(projectId);
    if (indexes) indexes.push(index);
    else byProject.set(projectId, [index]);
  }
  await Promise.all([...byProject.values()].map((indexes) => passSteps(outcomes, indexes)));
  return outcomes;

  /** Replaces the outcomes at some places, all of one project, by those after all steps. */
  async function passSteps(outcomes: StepsOutcome[], indexes: readonly number[]): Promise<void> {
    for (const [number, step] of steps.entries()) {
      const places: number[] = [];
      const passing: Kept[] = [];
      for (const index of indexes) {
        const outcome = outcomes[index];
        if (outcome?.kind !== "keep") continue;
        places.push(index);
        passing.push(step.takesAdded ? outcome : whole(outcome));
      }
      if (passing.length === 0) return;
      await run.order?.turn(number);
      const making = attempt(
        step,
        passing.map(({ entry }) => entry),
      );
      run.order?.given(number);
      const made = await making;
      for (let at = 0; at < passing.length; at++) {
        const place = places[at] as number;
        outcomes[place] = follow(step, passing[at] as Kept, made[at] as StepOutcome);
      }
    }
  }

  async function attempt(
    step: Step,
    entries: readonly LoggedEvent[],
  ): Promise<readonly StepOutcome[]> {
    const isAlone = entries.length === 1;
    const limitMs = run.limitMs && run.limitMs + (isAlone ? 0 : entries.length * BATCH_MS);
    const { occasion, accept, undo } = occasionOf(run);
    try {
      const running = step.run(entries, occasion);
      const outcomes = running instanceof Promise ? await withinLimit(running, limitMs) : running;
      if (outcomes.length !== entries.length) {
        throw new Error(`${outcomes.length} outcomes for ${entries.length} events`);
      }
      accept();
      return outcomes;
    } catch (error) {
      undo();
      if (isAlone) return [failed(step.name, error)];
      return (await Promise.all(entries.map((entry) => attempt(step, [entry])))).flat();
    }
  }
}

/**
 * The occasion of one attempt. Whom the step wants told is passed on to the run once the attempt is
 * accepted; of one that failed, what is to be told when it comes to nothing is told at once, and for
 * one that goes on after its time as soon as it asks.
 */
function occasionOf(run: StepsRun) {
  let state: "under way" | "accepted" | "undone" = "under way";
  const passing: (() => readonly string[])[] = [];
  const durable: (() => void)[] = [];
  const undone: (() => void)[] = [];
  const { leaving } = run;
  let leftFrom: number | undefined;
  const occasion: StepOccasion = {
    ...(leaving && {
      leaving: {
        isOver: leaving.isOver,
        from(position) {
          leftFrom = Math.min(leftFrom ?? position, position);
        },
      },
    }),
    ...(run.whenPassing && {
      whenPassing(give) {
        if (state === "accepted") run.whenPassing?.(give);
        else if (state === "under way") passing.push(give);
      },
    }),
    whenDurable(tell) {
      if (state === "accepted") run.whenDurable(tell);
      else if (state === "under way") durable.push(tell);
    },
    whenUndone(tell) {
      if (state === "accepted") run.whenUndone?.(tell);
      else if (state === "under way") undone.push(tell);
      else tell();
    },
  };
  return {
    occasion,
    accept() {
      state = "accepted";
      if (leftFrom !== undefined) leaving?.from(leftFrom);
      for (const give of passing) run.whenPassing?.(give);
      for (const tell of durable) run.whenDurable(tell);
      for (const tell of undone) run.whenUndone?.(tell);
    },
    undo() {
      state = "undone";
      for (const tell of undone) tell();
    },
  };
}

type Kept = Extract<StepsOutcome, { kind: "keep" }>;

const NONE: readonly never[] = Object.freeze([]);

/** As steps are given events that may change them. */
function whole(kept: Kept): Kept {
  const entry = wholeEntry(kept.entry);
  return entry === kept.entry ? kept : { ...kept, entry };
}

function follow(step: Step, before: Kept, outcome: StepOutcome): StepsOutcome {
  switch (outcome.kind) {
    case "keep": {
      const { event, propertiesText, added, changedBy = [step.name], renamedBy } = outcome;
      const captured = joined(before.captured, outcome.captured);
      const isSame = event === before.entry.event;
      if (isSame && added === undefined) {
        return captured === before.captured ? before : { ...before, captured };
      }
      const { position } = before.entry;
      const text = isSame ? before.entry.propertiesText : propertiesText;
      const entry: LoggedEvent = { position, event, propertiesText: text, added };
      return {
        kind: "keep",
        entry,
        changedBy: step.isBuiltIn ? before.changedBy : joined(before.changedBy, changedBy),
        renamedBy: renamedBy ? joined(before.renamedBy ?? NONE, renamedBy) : before.renamedBy,
        captured,
      };
    }
    case "drop": {
      const { reason, by = step.name } = outcome;
      return { kind: "drop", reason, by, captured: joined(before.captured, outcome.captured) };
    }
    case "dead-letter":
      return outcome;
  }
}

function joined<Item>(some: readonly Item[], more: readonly Item[] = NONE): readonly Item[] {
  if (more.length === 0) return some;
  return some.length === 0 ? more : [...some, ...more];
}

async function withinLimit<Result>(
  running: Promise<Result>,
  limitMs: number | undefined,
): Promise<Result> {
  if (limitMs === undefined) return running;
  let timer: NodeJS.Timeout | undefined;
  const timeUp = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(() => reject(new Error(`it did not end within ${limitMs} ms`)), limitMs);
  });
  try {
    return await Promise.race([running, timeUp]);
  } finally {
    clearTimeout(timer);
  }
}

function failed(name: string, error: unknown): StepOutcome {
  const message = error instanceof Error ? error.message : String(error);
  return { kind: "dead-letter", reason: `step ${name} failed: ${message}` };
}
