import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Metric } from "@hedgerow/core/experiments/metric";
import { createTimeZone } from "@hedgerow/core/flags/zoned-date";
import { expect, test } from "vitest";
import { sampleRow } from "../../events/event-store.contract.ts";
import { QueryTooLong } from "../../events/event-store.ts";
import { describeExperimentMeasures } from "../../experiments/experiment-measures.contract.ts";
import { openDuckDbEvents } from "./duckdb-events.ts";

describeExperimentMeasures("ExperimentMeasures on DuckDB", async () => {
  const folder = mkdtempSync(join(tmpdir(), "hedgerow-measures-"));
  return {
    store: await openDuckDbEvents(join(folder, "events.duckdb")),
    remove: () => rmSync(folder, { recursive: true, force: true }),
  };
});

test("[XM-15] gives up what there is no memory for, and goes on with what there is", async () => {
  const folder = mkdtempSync(join(tmpdir(), "hedgerow-measures-"));
  const path = join(folder, "events.duckdb");
  const from = new Date("2026-03-01T00:00:00Z");
  const to = new Date("2026-03-02T00:00:00Z");
  const filling = await openDuckDbEvents(path);
  const events = 60_000;
  const rows = Array.from({ length: events }, (_, index) => {
    const person = `aaaaaaaa-0000-5000-8000-${String(index >> 1).padStart(12, "0")}`;
    const properties =
      index % 2 === 0
        ? { $feature_flag: "button", $feature_flag_response: "test" }
        : { value: `${index}`.repeat(20) };
    const event = index % 2 === 0 ? "$feature_flag_called" : "bought";
    return sampleRow(index + 1, { event, timestamp: from, properties }, person);
  });
  for (let start = 0; start < events; start += 10_000) {
    const part = rows.slice(start, start + 10_000);
    const end = start + part.length;
    await filling.insert({ rows: part, merges: [], drops: [], deadLetters: [], end });
  }
  await filling.close();
  const store = await openDuckDbEvents(path, { memoryLimitMiB: 12, maxTemporaryMiB: 1 });
  try {
    const query = {
      projectId: 1,
      flagKey: "button",
      groupTypeIndex: null,
      variants: ["control", "test"],
      from,
      to,
      zone: createTimeZone("UTC"),
      days: [{ day: "2026-03-01", from }],
      marker: null,
      severalVariants: "exclude" as const,
      everyEvent: [],
      exceptPersons: [],
      conditionOf: () => ({ requiredNames: [], matches: () => true }),
    };
    const metric: Metric = {
      kind: "mean",
      goal: "increase",
      conversionWindowMs: null,
      winsorization: { lowerPercentile: 0.1, upperPercentile: 0.9, ignoreZeros: false },
      source: {
        events: { event: "bought", filters: [] },
        measure: { kind: "unique-values", property: "value" },
      },
    };
    const options = { lookbackMs: null, breakdown: null, byDay: true, level: 0.95 };
    const measured = store.measure(query, [metric], options);
    await expect(measured).rejects.toThrow(QueryTooLong);
    const later = { ...query, from: new Date("2026-03-01T12:00:00Z") };
    expect(await store.exposures(later)).toEqual([]);
  } finally {
    await store.close();
    rmSync(folder, { recursive: true, force: true });
  }
});
