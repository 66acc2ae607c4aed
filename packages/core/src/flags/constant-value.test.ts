import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { JsonObject } from "../json.ts";
import { compileFlags } from "./compile-flags.ts";
import { constantValue } from "./constant-value.ts";
import { evaluateFlags } from "./evaluate-flags.ts";

const open = { properties: [], rollout_percentage: 100 };
const half = { properties: [], rollout_percentage: 50 };
const filtered = {
  properties: [{ key: "a", value: "b", type: "person" }],
  rollout_percentage: 100,
};
const variants = (...shares: number[]) => ({
  multivariate: {
    variants: shares.map((rollout_percentage, at) => ({ key: `v${at}`, rollout_percentage })),
  },
});

describe("the value that a flag has for everyone", () => {
  test.each<[string, JsonObject, true | string | null]>([
    ["one open condition", { groups: [open] }, true],
    ["no rollout at all means everyone", { groups: [{ properties: [] }] }, true],
    ["an open condition behind others", { groups: [filtered, half, open] }, true],
    ["a part of everyone", { groups: [half] }, null],
    ["a filter", { groups: [filtered] }, null],
    ["no conditions", { groups: [] }, null],
    ["several variants", { groups: [open], ...variants(50, 50) }, null],
    ["one variant for all", { groups: [open], ...variants(0, 100) }, "v1"],
    ["a pinned variant", { groups: [{ ...open, variant: "v0" }], ...variants(50, 50) }, "v0"],
    [
      "different variants pinned",
      {
        groups: [
          { ...open, variant: "v0" },
          { ...filtered, variant: "v1" },
        ],
        ...variants(50, 50),
      },
      null,
    ],
    ["an early exit before", { groups: [half, open], early_exit: true }, null],
    ["groups", { groups: [open], aggregation_group_type_index: 0 }, null],
    ["a holdout", { groups: [open], holdout: { id: 1, exclusion_percentage: 10 } }, null],
    ["enrolment", { groups: [open], feature_enrollment: true }, null],
    ["unreadable conditions", { groups: "x" }, null],
  ])("%s", (_, filters, expected) => {
    expect(constantValue(filters)).toBe(expected);
  });

  test("is what evaluation answers, whoever asks", () => {
    const condition = fc.record(
      {
        properties: fc.constantFrom([], filtered.properties),
        rollout_percentage: fc.constantFrom(0, 50, 100, null),
        variant: fc.constantFrom("v0", "v1", "gone"),
      },
      { requiredKeys: ["properties"] },
    );
    const filters = fc.record(
      {
        groups: fc.array(condition, { maxLength: 4 }),
        multivariate: fc.constantFrom(variants(0, 100).multivariate, variants(40, 60).multivariate),
        early_exit: fc.boolean(),
      },
      { requiredKeys: ["groups"] },
    );
    fc.assert(
      fc.property(filters, fc.string(), fc.boolean(), (made, distinctId, hasProperty) => {
        const value = constantValue(made);
        if (value === null) return;
        const flag = {
          id: 1,
          key: "f",
          name: "",
          active: true,
          version: 1,
          filters: made,
          ensureExperienceContinuity: false,
          bucketingIdentifier: "distinct_id" as const,
          evaluationRuntime: "all" as const,
          evaluationContexts: [],
          hasExperiment: false,
          isSurveyFlag: false,
        };
        const set = compileFlags({ flags: [flag], cohorts: [], groupTypes: [], timeZone: "UTC" });
        const { evaluations } = evaluateFlags(set, {
          now: new Date(0),
          distinctId,
          deviceId: null,
          anonDistinctId: null,
          groups: {},
          personProperties: hasProperty ? { a: "b" } : {},
          groupProperties: {},
          geoProperties: {},
          stored: { person: null, groups: {} },
          selection: { keys: null, contexts: null, runtime: null, onlySurveyFlags: false },
        });
        expect(evaluations[0]?.value).toBe(value);
      }),
    );
  });
});
