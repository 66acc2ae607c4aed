import { expect, it } from "vitest";
import { methodOf } from "./stats-config.schemas.ts";

it("[XR-12] reads how to compare, and refuses what is no way to", () => {
  expect(methodOf(null)).toEqual({ method: "bayesian", level: 0.95, difference: "relative" });
  expect(methodOf({ bayesian: { ci_level: 0.9, difference_type: "absolute" } })).toEqual({
    method: "bayesian",
    level: 0.9,
    difference: "absolute",
  });
  const frequentist = { sequential_testing_enabled: true, sequential_tuning_parameter: 100 };
  expect(methodOf({ method: "frequentist", frequentist })).toEqual({
    method: "frequentist",
    level: 0.95,
    difference: "relative",
    sequentialTuning: 100,
  });
  const attr = "stats_config__bayesian__ci_level";
  for (const ci_level of [0, 1, 95, "0.9"])
    expect(() => methodOf({ bayesian: { ci_level } })).toThrow(expect.objectContaining({ attr }));
});
