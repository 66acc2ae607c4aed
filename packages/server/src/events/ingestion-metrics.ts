import { Counter, Gauge, type Registry } from "prom-client";
import type { CaptureObserver } from "./capture.ts";
import type { PreparationObserver } from "./prepare-run.ts";

/** Whoever sends may say any name: no more of them than this are counted each. */
const MAX_SDK_LABELS = 50;

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
  const repeated = new Counter({
    name: "hedgerow_repeated_events_total",
    help: "Events that were not taken because their uuid was taken, by what they were.",
    labelNames: ["as"],
    registers,
  });
  const undecodable = new Counter({
    name: "hedgerow_undecodable_bodies_total",
    help: "Bodies of capture requests that could not be read, by what sent them.",
    labelNames: ["sdk"],
    registers,
  });
  const sdks = new Set<string>();
  const sdkLabel = (name: string): string => {
    if (name === "") return "unknown";
    if (sdks.size < MAX_SDK_LABELS) sdks.add(name);
    return sdks.has(name) ? name : "other";
  };
  return {
    captured: (count) => captured.inc(count),
    rejected: ({ code }) => rejected.inc({ code }),
    repeated: (_event, as) => repeated.inc({ as }),
    warned: (warning) => warned.inc({ warning }),
    undecodable: (_detail, { sdk }) => undecodable.inc({ sdk: sdkLabel(sdk.name) }),
  };
}

/** Counts what becomes of events between the log and the stores. */
export function countPreparations(registry: Registry): PreparationObserver {
  const registers = [registry];
  const dropped = new Counter({
    name: "hedgerow_dropped_events_total",
    help: "Events that a step dropped.",
    registers,
  });
  const setAside = new Counter({
    name: "hedgerow_dead_letters_total",
    help: "Events that could not be processed and were set aside.",
    registers,
  });
  const warned = new Counter({
    name: "hedgerow_person_warnings_total",
    help: "Person and group changes that were left out, by reason.",
    labelNames: ["warning"],
    registers,
  });
  return {
    dropped: (count) => dropped.inc(count),
    setAside: () => setAside.inc(),
    warned: (warning) => warned.inc({ warning }),
  };
}

/** Positions in the log by what they mean, and how many events each stage lags behind. */
export function showPositions(
  registry: Registry,
  positions: () => Promise<{ captured: number; persons: number; stored: number }>,
): void {
  const registers = [registry];
  new Gauge({
    name: "hedgerow_log_position",
    help: "Events captured, applied to persons, and stored, counted by position in the log.",
    labelNames: ["stage"],
    registers,
    async collect() {
      for (const [stage, position] of Object.entries(await positions())) {
        this.set({ stage }, position);
      }
    },
  });
  new Gauge({
    name: "hedgerow_log_lag_events",
    help: "Captured events that are not applied to persons, or not stored, yet.",
    labelNames: ["stage"],
    registers,
    async collect() {
      const { captured, ...stages } = await positions();
      for (const [stage, position] of Object.entries(stages)) {
        this.set({ stage }, Math.max(0, captured - position));
      }
    },
  });
}

/** How many events wait for the transformations of their projects. */
export function showLanes(registry: Registry, waiting: () => ReadonlyMap<number, number>): void {
  const registers = [registry];
  const sums = () => {
    const counts = [...waiting().values()];
    return { events: counts.reduce((sum, count) => sum + count, 0), projects: counts.length };
  };
  new Gauge({
    name: "hedgerow_transformation_lag_events",
    help: "Captured events that are not through the transformations of their project yet.",
    registers,
    collect() {
      this.set(sums().events);
    },
  });
  new Gauge({
    name: "hedgerow_transformation_lag_projects",
    help: "Projects of which any event is not through its transformations yet.",
    registers,
    collect() {
      this.set(sums().projects);
    },
  });
}

/** How much of its disk the log takes. */
export function showLogBytes(registry: Registry, bytes: () => Promise<number>): void {
  new Gauge({
    name: "hedgerow_log_bytes",
    help: "Bytes of the log's files.",
    registers: [registry],
    async collect() {
      this.set(await bytes());
    },
  });
}
