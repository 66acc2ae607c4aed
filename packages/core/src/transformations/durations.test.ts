import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { addDurations, bucketOf, type DurationCounts, durationAt } from "./durations.ts";

function countsOf(durations: readonly number[]): DurationCounts {
  const counts: Record<string, number> = {};
  for (const ms of durations) counts[bucketOf(ms)] = (counts[bucketOf(ms)] ?? 0) + 1;
  return counts;
}

describe("durations", () => {
  it("[TP-1] tell quantiles of what was counted to within five percent", () => {
    fc.assert(
      fc.property(
        fc.array(fc.double({ min: 0.02, max: 100_000, noNaN: true }), { minLength: 1 }),
        fc.constantFrom(0.5, 0.95, 1),
        (durations, share) => {
          const sorted = durations.toSorted((one, other) => one - other);
          const exact = sorted[Math.ceil(share * sorted.length) - 1] ?? Number.NaN;
          const told = durationAt(countsOf(durations), share) ?? Number.NaN;
          expect(Math.abs(told - exact) / exact).toBeLessThan(0.055);
        },
      ),
    );
  });

  it("add up whatever is counted apart", () => {
    const list = fc.array(fc.double({ min: 0, max: 1e9, noNaN: true }));
    fc.assert(
      fc.property(list, list, (some, others) => {
        const apart = addDurations(countsOf(some), countsOf(others));
        expect(apart).toEqual(countsOf([...some, ...others]));
      }),
    );
  });

  it("tell nothing of nothing", () => {
    expect(durationAt({}, 0.5)).toBeNull();
  });
});
