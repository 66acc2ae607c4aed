import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { createTimeZone } from "../flags/zoned-date.ts";
import { type FunnelEvent, stepsDoneInAnyOrder } from "./funnel.ts";
import { retentionOfUnit, stepsReached } from "./measure-unit.ts";
import { type FunnelMetric, type RetentionMetric, startOfUnit, TIME_UNIT_MS } from "./metric.ts";

const ANY = { event: "x", filters: [] };
const funnel = (more: Partial<FunnelMetric>): FunnelMetric => ({
  kind: "funnel",
  goal: "increase",
  conversionWindowMs: null,
  steps: [ANY, ANY],
  order: "ordered",
  ...more,
});
const retention = (more: Partial<RetentionMetric> = {}): RetentionMetric => ({
  kind: "retention",
  goal: "increase",
  conversionWindowMs: null,
  start: ANY,
  completion: ANY,
  windowStart: 1,
  windowEnd: 2,
  unit: "day",
  startHandling: "first_seen",
  ...more,
});
const HOUR = TIME_UNIT_MS.hour;

describe("measuring one unit", () => {
  it("counts a funnel's steps in order, or in any, inside the window of an exposure", () => {
    const events = [
      { at: 0, steps: [0] },
      { at: 5, steps: [2] },
      { at: 20, steps: [0] },
      { at: 25, steps: [1] },
      { at: 30, steps: [2] },
    ];
    expect(stepsReached(events, funnel({}))).toBe(2);
    expect(stepsReached(events, funnel({ conversionWindowMs: 5 }))).toBe(1);
    expect(stepsReached(events.slice(0, 2), funnel({}))).toBe(0);
    expect(stepsReached(events.slice(0, 2), funnel({ order: "unordered" }))).toBe(1);
    const windowed = funnel({ order: "unordered", conversionWindowMs: 10 });
    expect(stepsReached(events, windowed)).toBe(2);
    expect(stepsReached(events.slice(0, 4), windowed)).toBe(1);
  });

  it("counts what happens at the very time of an exposure, also where another follows", () => {
    const events = [
      { at: 7, steps: [1, 2] },
      { at: 7, steps: [0] },
      { at: 8, steps: [0] },
    ];
    const metric = funnel({ order: "unordered", conversionWindowMs: 0 });
    expect(stepsReached(events, metric)).toBe(1);
  });

  it("leaves repeated exposures out without a difference to steps in any order", () => {
    const event: fc.Arbitrary<FunnelEvent> = fc.record({
      at: fc.integer({ min: 0, max: 12 }),
      steps: fc.constantFrom([0], [0], [1], [2], [0, 1], [1, 2]),
    });
    fc.assert(
      fc.property(
        fc.array(event, { maxLength: 9 }),
        fc.integer({ min: 0, max: 8 }),
        (events, ms) => {
          const metric = funnel({ order: "unordered", conversionWindowMs: ms });
          const all = stepsDoneInAnyOrder(events, { stepCount: 3, window: ms });
          expect(stepsReached(events, metric)).toBe(Math.max(0, all));
        },
      ),
    );
  });

  it("finds steps in any order as trying every window does", () => {
    const event: fc.Arbitrary<FunnelEvent> = fc.record({
      at: fc.integer({ min: 0, max: 12 }),
      steps: fc.constantFrom([0], [0], [1], [2], [3], [0, 1], [1, 2], [1, 2], [2, 3]),
    });
    const tried = (events: readonly FunnelEvent[], window: number): number => {
      const most = (steps: readonly number[], left: readonly FunnelEvent[]): number => {
        const [step, ...others] = steps;
        if (step === undefined) return 0;
        const served = left
          .filter((one) => one.steps.includes(step))
          .map(
            (one) =>
              1 +
              most(
                others,
                left.filter((other) => other !== one),
              ),
          );
        return Math.max(most(others, left), ...served);
      };
      const windows = events
        .filter(({ steps }) => steps.includes(0))
        .map((exposure) =>
          most(
            [1, 2, 3],
            events.filter(
              (one) => one !== exposure && one.at >= exposure.at && one.at - exposure.at <= window,
            ),
          ),
        );
      return Math.max(-1, ...windows);
    };
    fc.assert(
      fc.property(
        fc.array(event, { maxLength: 9 }),
        fc.integer({ min: 0, max: 8 }),
        (events, window) => {
          expect(stepsDoneInAnyOrder(events, { stepCount: 4, window })).toBe(tried(events, window));
        },
      ),
      { numRuns: 500 },
    );
  });

  it("goes through a unit with very many events in a moment", () => {
    const events = Array.from({ length: 200_000 }, (_, index) => ({
      at: index,
      steps: [index % 2],
    }));
    const metric = funnel({ order: "unordered", conversionWindowMs: 100_000 });
    const before = process.cpuUsage();
    expect(stepsReached(events, metric)).toBe(1);
    expect(process.cpuUsage(before).user / 1_000).toBeLessThan(10_000);
  });

  it("counts as retained who comes back on the days of the window, by the calendar", () => {
    const events = (returnHours: number) => [
      { at: 0, steps: [0] },
      { at: 23 * HOUR, steps: [0] },
      { at: returnHours * HOUR, steps: [1] },
    ];
    const retained = (hours: number, metric = retention()) =>
      retentionOfUnit(events(hours), 12 * HOUR, { metric, zone: createTimeZone("UTC") });
    expect(retained(24)).toEqual({ started: true, retained: true });
    expect(retained(71)).toEqual({ started: true, retained: true });
    expect(retained(72)).toEqual({ started: true, retained: false });
    expect(retained(23)).toEqual({ started: true, retained: false });
    const unstarted = { started: false, retained: false };
    expect(retained(24, retention({ conversionWindowMs: 11 * HOUR }))).toEqual(unstarted);
  });

  it("[XM-13] knows the hours and days of a zone", () => {
    const berlin = createTimeZone("Europe/Berlin");
    const at = (text: string) => Date.parse(text);
    const day = startOfUnit("day", berlin);
    // The night in which clocks are set forward is one day later all the same.
    expect(day(at("2026-03-29T22:00:00Z")) - day(at("2026-03-28T22:59:00Z"))).toBe(48 * HOUR);
    expect(day(at("2026-03-29T21:59:00Z")) - day(at("2026-03-28T23:00:00Z"))).toBe(0);
    const hour = startOfUnit("hour", createTimeZone("Asia/Kolkata"));
    expect(hour(at("2026-03-01T00:29:00Z"))).toBe(at("2026-02-28T23:30:00Z"));
    expect(startOfUnit("week", berlin)(5)).toBe(5);
    const events = [
      { at: at("2026-03-01T22:30:00Z"), steps: [0] },
      { at: at("2026-03-01T23:30:00Z"), steps: [1] },
    ];
    const metric = retention();
    const retained = (zone: string) =>
      retentionOfUnit(events, 0, { metric, zone: createTimeZone(zone) }).retained;
    expect([retained("UTC"), retained("Europe/Berlin")]).toEqual([false, true]);
  });

  it("ends a way through a funnel by what is excluded between its steps, as trying all ways does", () => {
    const event: fc.Arbitrary<FunnelEvent> = fc.record({
      at: fc.integer({ min: 0, max: 9 }),
      steps: fc.constantFrom([0], [1], [2], [3], [1, 2], [4], [4], [5], [2, 4]),
    });
    const exclusion = fc
      .tuple(fc.integer({ min: 0, max: 2 }), fc.integer({ min: 1, max: 3 }))
      .filter(([from, to]) => from < to)
      .map(([from, to]) => ({ events: ANY, from, to }));
    const window = fc.constantFrom(null, 4);
    fc.assert(
      fc.property(
        fc.array(event, { maxLength: 8 }),
        fc.array(exclusion, { minLength: 1, maxLength: 2 }),
        window,
        (events, exclusions, conversionWindowMs) => {
          const metric = funnel({ steps: [ANY, ANY, ANY], exclusions, conversionWindowMs });
          expect(stepsReached(events, metric)).toBe(reachedByTrying(events, metric));
        },
      ),
      { numRuns: 1000 },
    );
  });
});

/** The furthest step of all chains, each tried. */
function reachedByTrying(events: readonly FunnelEvent[], metric: FunnelMetric): number {
  const window = metric.conversionWindowMs ?? Number.POSITIVE_INFINITY;
  const isCut = (times: readonly number[]) =>
    (metric.exclusions ?? []).some(({ from, to }, index) => {
      const [start, end] = [times[from], times[Math.min(to, times.length - 1)]];
      return events.some(
        ({ at, steps }) =>
          start !== undefined &&
          end !== undefined &&
          steps.includes(4 + index) &&
          at > start &&
          at < end,
      );
    });
  const extend = (used: readonly FunnelEvent[]): number => {
    let furthest = used.length - 1;
    if (used.length === 4) return furthest;
    for (const event of events) {
      const times = [...used, event].map(({ at }) => at);
      const isNext =
        !used.includes(event) &&
        event.steps.includes(used.length) &&
        event.at >= (used.at(-1)?.at ?? 0) &&
        event.at - (times[0] ?? 0) <= window;
      if (isNext && !isCut(times)) furthest = Math.max(furthest, extend([...used, event]));
    }
    return furthest;
  };
  return Math.max(0, extend([]));
}
