import { Counter, type Registry } from "prom-client";
import type { AtWorkDeps } from "./transformations-at-work.ts";

/**
 * Counts what becomes of events in transformations: one event counts in each that it is given to,
 * as coming in and as exactly one of the others.
 */
export function countTransformations(registry: Registry): AtWorkDeps["observer"] {
  const registers = [registry];
  const events = new Counter({
    name: "hedgerow_transformation_events_total",
    help: "Events given to transformations (in = out + dropped), and those of out that failed.",
    labelNames: ["direction"],
    registers,
  });
  const disabled = new Counter({
    name: "hedgerow_transformations_disabled_total",
    help: "Transformations that were taken out of work for what they did.",
    registers,
  });
  return {
    counted({ eventsIn, eventsOut, dropped, failed }) {
      events.inc({ direction: "in" }, eventsIn);
      events.inc({ direction: "out" }, eventsOut);
      events.inc({ direction: "dropped" }, dropped);
      events.inc({ direction: "failed" }, failed);
    },
    disabled: () => disabled.inc(),
  };
}
