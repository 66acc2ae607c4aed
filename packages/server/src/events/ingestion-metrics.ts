import { Counter, type Registry } from "prom-client";
import type { CaptureObserver } from "./capture.ts";

/** Counts what becomes of events at the door, for whoever operates the process. */
export function countCaptures(registry: Registry): CaptureObserver {
  const registers = [registry];
  const captured = new Counter({
    name: "hedgerow_captured_events_total",
    help: "Events stored and acknowledged.",
    registers,
  });
  const rejected = new Counter({
    name: "hedgerow_rejected_events_total",
    help: "Events refused, by reason.",
    labelNames: ["code"],
    registers,
  });
  const warned = new Counter({
    name: "hedgerow_capture_warnings_total",
    help: "Events changed before they were stored, by what was done.",
    labelNames: ["warning"],
    registers,
  });
  return {
    captured: (count) => captured.inc(count),
    rejected: (code) => rejected.inc({ code }),
    warned: (warning) => warned.inc({ warning }),
  };
}
