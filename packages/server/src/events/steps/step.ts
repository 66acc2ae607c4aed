import type { CapturedEvent } from "@hedgerow/core/events/event";

/** What a step makes of an event: it goes on (changed, perhaps), ends here, or is set aside. */
export type StepOutcome =
  | { readonly kind: "keep"; readonly event: CapturedEvent }
  | { readonly kind: "drop"; readonly reason: string }
  | { readonly kind: "dead-letter"; readonly reason: string };

/**
 * One step between the log and the stores. Must give the same outcome for the same event: after a
 * crash the last events pass again. A step that throws makes its event a dead letter.
 */
export interface Step {
  readonly name: string;
  /** True for what the product itself always does: it is not told as a change of the event. */
  readonly isBuiltIn?: true;
  run(event: CapturedEvent): StepOutcome | Promise<StepOutcome>;
}

/** What all steps together make of an event. */
export type StepsOutcome =
  | {
      readonly kind: "keep";
      readonly event: CapturedEvent;
      /** Names of the steps that changed it; those that are built in do not count. */
      readonly changedBy: readonly string[];
    }
  /** `by`: name of the step. */
  | { readonly kind: "drop"; readonly reason: string; readonly by: string }
  | { readonly kind: "dead-letter"; readonly reason: string };

const BY_NONE: readonly string[] = Object.freeze([]);

/**
 * Runs an event through steps in order, up to the first that does not keep it. A promise only where
 * a step answers with one: turns of the event loop cost more than most steps.
 */
export function runSteps(
  steps: readonly Step[],
  captured: CapturedEvent,
): StepsOutcome | Promise<StepsOutcome> {
  let kept = keep(captured, BY_NONE);
  for (const [index, step] of steps.entries()) {
    let outcome: StepOutcome | Promise<StepOutcome>;
    try {
      outcome = step.run(kept.event);
    } catch (error) {
      return failed(step, error);
    }
    if (outcome instanceof Promise) {
      return outcome.then(
        async (settled) => {
          const next = after(step, kept, settled);
          if (next.kind !== "keep") return next;
          const rest = await runSteps(steps.slice(index + 1), next.event);
          if (rest.kind !== "keep") return rest;
          return keep(rest.event, [...next.changedBy, ...rest.changedBy]);
        },
        (error: unknown) => failed(step, error),
      );
    }
    const next = after(step, kept, outcome);
    if (next.kind !== "keep") return next;
    kept = next;
  }
  return kept;
}

type Kept = Extract<StepsOutcome, { kind: "keep" }>;

function keep(event: CapturedEvent, changedBy: readonly string[]): Kept {
  return { kind: "keep", event, changedBy };
}

function after(step: Step, { event, changedBy }: Kept, outcome: StepOutcome): StepsOutcome {
  switch (outcome.kind) {
    case "keep":
      if (outcome.event === event) return keep(event, changedBy);
      return keep(outcome.event, step.isBuiltIn ? changedBy : [...changedBy, step.name]);
    case "drop":
      return { ...outcome, by: step.name };
    case "dead-letter":
      return outcome;
  }
}

function failed(step: Step, error: unknown): StepsOutcome {
  const message = error instanceof Error ? error.message : String(error);
  return { kind: "dead-letter", reason: `step ${step.name} failed: ${message}` };
}
