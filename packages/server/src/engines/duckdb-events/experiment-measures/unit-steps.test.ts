import { retentionOfUnit, stepsReached } from "@hedgerow/core/experiments/measure-unit";
import { createTimeZone } from "@hedgerow/core/flags/zoned-date";
import { describe, expect, test } from "vitest";
import { createSlices } from "../../../platform/slices.ts";
import { countUnits, type StepMetric } from "./unit-steps.ts";

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
const zone = createTimeZone("America/New_York");
const [opened, bought] = ["opened", "bought"].map((event) => ({ event, filters: [] }));
if (!opened || !bought) throw new Error("there are no events");
const common = { goal: "increase", conversionWindowMs: null } as const;
const funnelOf = (order: "ordered" | "unordered"): StepMetric => ({
  ...common,
  kind: "funnel",
  order,
  steps: [opened, bought],
});
const retention: StepMetric = {
  ...common,
  kind: "retention",
  start: opened,
  completion: bought,
  windowStart: 3,
  windowEnd: 3,
  unit: "day",
  startHandling: "last_seen",
};

/** Computing of this process so far, which a machine that runs much else does not stretch. */
function computedMs(): number {
  return process.cpuUsage().user / 1_000;
}

/** The longest computing for which others waited for their turn while something was done. */
async function longestWaitMs(act: () => Promise<void>): Promise<number> {
  let longest = 0;
  let last = computedMs();
  let isDone = false;
  const watch = () => {
    longest = Math.max(longest, computedMs() - last);
    last = computedMs();
    if (!isDone) setImmediate(watch);
  };
  setImmediate(watch);
  await act();
  isDone = true;
  watch();
  return longest;
}

describe.each([
  ["funnels in order", funnelOf("ordered")],
  ["funnels in any order", funnelOf("unordered")],
  ["retention", retention],
])("counting units by %s", (_, metric) => {
  const dayCount = 400;
  const dayStarts = Array.from({ length: dayCount }, (_, day) => day * DAY_MS);
  const count = () => {
    const slices = createSlices();
    return countUnits(metric, {
      places: [1, 2],
      zone,
      dayStarts,
      pause: () => (slices.isOver() ? slices.next() : undefined),
    });
  };
  const lists = { exposed: [0], opened: [1], bought: [2] } as const;
  const unitOf = (events: readonly (readonly [number, keyof typeof lists])[]) => ({
    number: 1,
    variant: "test",
    cell: 0,
    exposureMs: HOUR_MS,
    events: events.map(([at, kind]) => ({ at, kinds: lists[kind] })),
  });

  test("[XM-15] tells every day what its events so far come to", async () => {
    const events = [
      [HOUR_MS, "exposed"],
      [DAY_MS, "bought"],
      [2 * DAY_MS + HOUR_MS, "opened"],
      [5 * DAY_MS + 2 * HOUR_MS, "bought"],
      [9 * DAY_MS, "opened"],
      [12 * DAY_MS + HOUR_MS, "bought"],
      [13 * DAY_MS, "opened"],
    ] as const;
    const counted = count();
    await counted.add(unitOf(events));
    const days = counted.tallies().days.map((arms) => {
      const arm = arms.get("test");
      return [arm?.stepCounts ?? arm?.sums.n, arm?.sums.sum];
    });
    const places = metric.kind === "funnel" ? { exposed: 0, opened: 1, bought: 2 } : null;
    const expected = dayStarts.map((_, day) => {
      const known = events
        .filter(([at]) => at < (day + 1) * DAY_MS)
        .map(([at, kind]) => ({
          at,
          steps: [places ? places[kind] : { exposed: 9, opened: 0, bought: 1 }[kind]],
        }));
      if (metric.kind === "funnel") {
        const reached = stepsReached(known, metric);
        return [[0, 1].map((step) => (step < reached ? 1 : 0)), reached === 2 ? 1 : 0];
      }
      const { started, retained } = retentionOfUnit(known, HOUR_MS, { metric, zone });
      return [started ? 1 : 0, retained ? 1 : 0];
    });
    expect(days).toEqual(expected);
    expect(new Set(days.map((day) => JSON.stringify(day))).size).toBeGreaterThan(2);
  });

  test("[XM-15] lets others have their turn while it counts a unit with many events", async () => {
    const size = 200_000;
    const step = (dayCount * DAY_MS) / size;
    const unit = unitOf(
      Array.from({ length: size }, (_, index) => [
        HOUR_MS + Math.floor(index * step),
        index === 0 ? "exposed" : index % 2 === 0 || index < size / 2 ? "opened" : "bought",
      ]),
    );
    const startedMs = computedMs();
    const counted = count();
    const waitedMs = await longestWaitMs(() => counted.add(unit));
    expect(computedMs() - startedMs).toBeLessThan(16_000);
    expect(waitedMs).toBeLessThan(1500);
  });
});
