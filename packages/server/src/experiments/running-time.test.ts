import fc from "fast-check";
import { expect, test } from "vitest";
import { Refusal } from "../http/errors.ts";
import { runningTimeQuestionOf, wireRunningTime } from "./running-time.schemas.ts";
import { planRunningTime } from "./running-time.ts";

/** Numbers of every size, the odd ones among them. */
const anyNumber = fc.oneof(
  fc.double({ noNaN: true, noDefaultInfinity: true }),
  fc.double({ min: -10, max: 1000, noNaN: true }),
  fc.constantFrom(0, 1, 5, 1e-300, 1e300, 0.05),
);
const maybe = <Value>(value: fc.Arbitrary<Value>) => fc.option(value, { nil: null });

function isFiniteThroughout(value: unknown): boolean {
  if (typeof value === "number") return Number.isFinite(value);
  return (
    typeof value !== "object" || value === null || Object.values(value).every(isFiniteThroughout)
  );
}

test("[XP-17] plans of all numbers are finite, or refused", () => {
  let planned = 0;
  fc.assert(
    fc.property(
      fc.record({
        metric_type: fc.constantFrom("funnel", "mean_count", "mean_sum_or_avg", "mean", "ratio"),
        baseline_value: fc.oneof(anyNumber, fc.double({ min: 0.01, max: 0.9, noNaN: true })),
        baseline_variance: maybe(fc.oneof(anyNumber, fc.constant(3))),
        minimum_detectable_effect: maybe(anyNumber),
        sample_size: maybe(fc.oneof(anyNumber, fc.constant(10_000))),
        number_of_variants: maybe(fc.integer({ min: 2, max: 20 })),
        exposure_rate_per_day: maybe(fc.oneof(anyNumber, fc.constant(100))),
        sequential: maybe(fc.boolean()),
        covariate_correlation: maybe(fc.double({ min: -0.99, max: 0.99, noNaN: true })),
        current: maybe(
          fc.record({
            control_units: fc.integer({ min: 2, max: 1_000_000 }),
            treatment_units: fc.integer({ min: 2, max: 1_000_000 }),
            standard_error: maybe(anyNumber),
          }),
        ),
      }),
      (body) => {
        try {
          const answer = wireRunningTime(planRunningTime(runningTimeQuestionOf(body as never)));
          planned += 1;
          expect(isFiniteThroughout(answer), JSON.stringify(answer)).toBe(true);
        } catch (error) {
          if (!(error instanceof Refusal)) throw error;
          expect(error.attr).not.toBeNull();
        }
      },
    ),
    { numRuns: 5000 },
  );
  expect(planned).toBeGreaterThan(50);
});
