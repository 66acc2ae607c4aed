import { Registry } from "prom-client";
import { expect, it } from "vitest";
import { sampleEvent } from "./event-log.contract.ts";
import { countPreparations, showLanes, showLogBytes, showPositions } from "./ingestion-metrics.ts";

it("[PI-52][PI-9] shows the positions of every stage, the size of the log, and counts what was not stored as sent", async () => {
  const registry = new Registry();
  const observer = countPreparations(registry);
  showPositions(registry, async () => ({ captured: 12, persons: 11, stored: 7 }));
  const waiting = new Map([
    [3, 40],
    [5, 2],
  ]);
  showLanes(registry, () => waiting);
  showLogBytes(registry, async () => 4096);
  observer.dropped(3);
  observer.setAside();
  observer.setAside();
  observer.warned("invalid_group", sampleEvent());
  const lines = (await registry.metrics()).split("\n");
  expect(lines).toEqual(
    expect.arrayContaining([
      'hedgerow_log_position{stage="captured"} 12',
      'hedgerow_log_position{stage="persons"} 11',
      'hedgerow_log_position{stage="stored"} 7',
      'hedgerow_log_lag_events{stage="persons"} 1',
      'hedgerow_log_lag_events{stage="stored"} 5',
      "hedgerow_transformation_lag_events 42",
      "hedgerow_transformation_lag_projects 2",
      "hedgerow_log_bytes 4096",
      "hedgerow_dropped_events_total 3",
      "hedgerow_dead_letters_total 2",
      'hedgerow_person_warnings_total{warning="invalid_group"} 1',
    ]),
  );
});
