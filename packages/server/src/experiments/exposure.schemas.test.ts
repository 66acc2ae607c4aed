import { expect, it } from "vitest";
import { exposureCriteriaOf } from "./exposure.schemas.ts";

it("[XR-12] reads how to expose, and refuses what is no way to", () => {
  expect(exposureCriteriaOf(null, "UTC")).toEqual({ marker: null, severalVariants: "exclude" });
  const config = { kind: "ExperimentEventExposureConfig", event: "seen", properties: [] };
  expect(
    exposureCriteriaOf({ exposure_config: config, multiple_variant_handling: "first_seen" }, "UTC"),
  ).toEqual({ marker: { event: "seen", filters: [] }, severalVariants: "first-seen" });
  const action = { exposure_config: { kind: "ActionsNode", id: 1 } };
  const attr = "exposure_criteria__exposure_config__steps";
  expect(() => exposureCriteriaOf(action, "UTC")).toThrow(expect.objectContaining({ attr }));
});
