import { Refusal } from "../http/errors.ts";
import type { ExperimentFields, ExperimentRecord } from "./experiment-store.ts";
import type { ExperimentView } from "./experiment-view.ts";

/** How an experiment is ended. */
export interface Ending {
  readonly conclusion?: ExperimentRecord["conclusion"];
  readonly conclusionComment?: string | null;
}

/** A state as the wire and people call it. */
export type ExperimentStatus = "draft" | "running" | "paused" | "stopped";

/** What an experiment is doing: told by its dates, and while it runs by its flag. */
export function statusOf({ experiment, flag }: ExperimentView): ExperimentStatus {
  if (experiment.startDate === null) return "draft";
  if (experiment.endDate !== null) return "stopped";
  return flag.active && !flag.deleted ? "running" : "paused";
}

/** What an experiment that runs becomes when it is ended. */
export function ended(
  { startDate, endDate }: ExperimentRecord,
  ending: Ending,
  now: Date,
): Partial<ExperimentFields> {
  const start = refuseUnstarted({ startDate }, now);
  if (endDate !== null) throw wrongState("Experiment has already ended.");
  return { ...ending, endDate: new Date(Math.max(now.getTime(), start.getTime() + 1)) };
}

/** The start, which has come: an end before it would keep the experiment from being changed. */
export function refuseUnstarted(
  { startDate }: Pick<ExperimentFields, "startDate">,
  now: Date,
): Date {
  if (startDate === null) throw wrongState("Experiment has not been launched yet.");
  if (startDate > now) throw wrongState("Experiment has not started yet.");
  return startDate;
}

export function hasNoFlag(): Refusal {
  return wrongState("Experiment does not have a feature flag.");
}

export function wrongState(detail: string): Refusal {
  return new Refusal("invalid_input", detail);
}

/** Refuses an end that is not after the start. */
export function refuseBadDates({
  startDate,
  endDate,
}: Pick<ExperimentFields, "startDate" | "endDate">): void {
  if (endDate === null) return;
  if (startDate === null) {
    throw new Refusal("invalid_input", "An experiment that was not started cannot end", {
      attr: "end_date",
    });
  }
  if (endDate <= startDate)
    throw new Refusal("invalid_input", "End date must be after start date", { attr: "end_date" });
}
