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
  run(event: CapturedEvent): StepOutcome | Promise<StepOutcome>;
}

/** Runs an event through steps in order, up to the first that does not keep it. */
export async function runSteps(
  steps: readonly Step[],
  captured: CapturedEvent,
): Promise<StepOutcome> {
  let event = captured;
  for (const step of steps) {
    try {
      const outcome = await step.run(event);
      if (outcome.kind !== "keep") return outcome;
      event = outcome.event;
    } catch (error) {
      const message = error instanceof Error ? error.message : String(error);
      return { kind: "dead-letter", reason: `step ${step.name} failed: ${message}` };
    }
  }
  return { kind: "keep", event };
}
