import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { Json, JsonObject } from "../json.ts";
import { compileFlags } from "./compile-flags.ts";
import { evaluateFlags } from "./evaluate-flags.ts";
import {
  dynamicCohort,
  evaluationRequest,
  flagDefinition,
  projectOf,
  staticCohort,
} from "./golden-cases.setup.ts";
import { validateFilters } from "./validate-filters.ts";

const definitions = projectOf(
  [
    flagDefinition({ id: 1, key: "mine", filters: {} }),
    flagDefinition({ id: 2, key: "other", filters: { groups: [condition([dependsOn("1")])] } }),
    flagDefinition({ id: 3, key: "third", filters: { groups: [condition([dependsOn("other")])] } }),
    flagDefinition({ id: 4, key: "free", filters: {} }),
  ],
  {
    cohorts: [
      staticCohort(5),
      {
        ...dynamicCohort(6, { type: "OR", values: [{ type: "event", key: "$pageview" }] }),
        name: "Viewers",
      },
      dynamicCohort(7, { type: "AND", values: [{ key: "id", type: "cohort", value: 6 }] }),
      dynamicCohort(8, { type: "AND", values: [filter("a", "b")] }),
    ],
  },
);

function filter(key: string, value: Json, rest: JsonObject = {}): JsonObject {
  return { key, value, operator: "exact", type: "person", ...rest };
}

function condition(properties: readonly Json[], rest: JsonObject = {}): JsonObject {
  return { properties, rollout_percentage: 100, ...rest };
}

function dependsOn(key: string, rest: JsonObject = {}): JsonObject {
  return { key, value: true, operator: "flag_evaluates_to", type: "flag", ...rest };
}

function variants(...shares: readonly Json[]): JsonObject {
  return {
    multivariate: {
      variants: shares.map((share, at) => ({ key: `v${at}`, rollout_percentage: share })),
    },
  };
}

function problems(filters: Json, id: number | null = 1) {
  return validateFilters(filters, { definitions, id, key: "mine" }).map(
    ({ attr, code, detail }) => `${attr} ${code} ${detail}`,
  );
}

const PERSON_ONLY =
  "filters invalid_input Filters are not valid (can only use person, cohort, and flag properties)";
const GROUP_ONLY = "filters invalid_input Filters are not valid (can only use group properties)";
const SUM =
  "filters invalid_input Invalid variant definitions: Variant rollout percentages must sum to 100.";

describe("validation of filters", () => {
  it.each([
    [{ groups: [] }],
    [{}],
    [{ groups: [condition([])] }],
    [
      {
        groups: [{}],
        multivariate: null,
        payloads: {},
        super_groups: null,
        aggregation_group_type_index: null,
      },
    ],
    [{ groups: [condition([filter("a", "b")], { rollout_percentage: 33.33, variant: null })] }],
    [{ groups: [condition([], { rollout_percentage: null })], ...variants(33.33, 33.33, 33.34) }],
    [{ groups: [condition([], { variant: "v1" })], ...variants(10.1, 89.9) }],
    [
      {
        groups: [
          condition([
            { key: "id", type: "cohort", value: 5, operator: "not_in" },
            { key: "id", type: "cohort", value: "8" },
          ]),
        ],
      },
    ],
    [{ groups: [condition([dependsOn("4"), dependsOn("free", { value: "x" })])] }],
    [
      {
        aggregation_group_type_index: 0,
        groups: [
          condition([filter("a", "b", { type: "group", group_type_index: 0 }), dependsOn("4")]),
        ],
      },
    ],
    [
      {
        groups: [
          condition([filter("a", "b", { type: "group" }), filter("a", "b")], {
            aggregation_group_type_index: 1,
          }),
          condition([filter("a", "b")]),
        ],
      },
    ],
    [
      {
        groups: [
          condition([
            filter("n", 5, { operator: "gt" }),
            filter("n", "5.5", { operator: "lte" }),
            filter("n", [1, "2"], { operator: "between" }),
          ]),
        ],
      },
    ],
    [
      {
        groups: [
          condition([
            filter("d", "-7d", { operator: "is_date_after" }),
            filter("d", "2024-06-01", { operator: "is_date_exact" }),
          ]),
        ],
      },
    ],
    [
      {
        groups: [
          condition([
            filter("v", "1.2", { operator: "semver_gt" }),
            filter("v", "1.*", { operator: "semver_wildcard" }),
          ]),
        ],
      },
    ],
    [
      {
        groups: [
          condition([
            { key: "a", type: "person", operator: "is_set" },
            filter("e", "(?i)^x(?=y)", { operator: "regex" }),
          ]),
        ],
      },
    ],
    [{ groups: [], payloads: { true: '{"a":1}' } }],
    [{ groups: [], payloads: { true: "" } }],
    [{ groups: [], payloads: { true: { a: 1 } } }],
    [
      {
        groups: [],
        payloads: { v0: "1", "holdout-9": "2" },
        ...variants(100),
        holdout: { id: 9, exclusion_percentage: 12.5 },
      },
    ],
    [{ groups: [], feature_enrollment: true, payloads: { true: "1" }, ...variants(100) }],
    [{ groups: [], super_groups: [condition([filter("$feature_enrollment/mine", ["true"])])] }],
  ] as [JsonObject][])("[FE-38] passes %j", (filters) => {
    expect(problems(filters)).toEqual([]);
  });

  it.each([
    [{ groups: [condition([filter("a", "b", { type: "event" })])] }, PERSON_ONLY],
    [
      { groups: [condition([filter("a", "b", { type: "group", group_type_index: 0 })])] },
      PERSON_ONLY,
    ],
    [{ aggregation_group_type_index: 0, groups: [condition([filter("a", "b")])] }, GROUP_ONLY],
    [
      {
        aggregation_group_type_index: 0,
        groups: [condition([filter("a", "b", { type: "group", group_type_index: 1 })])],
      },
      GROUP_ONLY,
    ],
    [{ groups: [], ...variants(50, 49.999) }, SUM],
    [{ groups: [], ...variants(50, 51) }, SUM],
    [
      { groups: [condition([], { variant: "gone" })], ...variants(100) },
      "filters invalid_input Filters are not valid (variant override does not exist)",
    ],
    [
      { groups: [condition([], { variant: "gone" })] },
      "filters invalid_input Filters are not valid (variant override does not exist)",
    ],
    [
      { groups: [condition([{ key: "id", type: "cohort", value: 99 }])] },
      "filters cohort_does_not_exist Cohort with id 99 does not exist",
    ],
    [
      { groups: [condition([{ key: "id", type: "cohort", value: 6 }])] },
      "filters behavioral_cohort_found Cohort 'Viewers' with filters on events cannot be used in feature flags.",
    ],
    [
      { groups: [condition([{ key: "id", type: "cohort", value: 7 }])] },
      "filters behavioral_cohort_found Cohort 'Viewers' with filters on events cannot be used in feature flags.",
    ],
    [
      { groups: [condition([{ key: "id", type: "cohort", value: 5, operator: "exact" }])] },
      "filters invalid_operator Invalid operator: exact",
    ],
    [
      { groups: [condition([filter("d", "someday", { operator: "is_date_before" })])] },
      "filters invalid_date Invalid date value: someday",
    ],
    [
      { groups: [condition([filter("d", 5, { operator: "is_date_exact" })])] },
      "filters invalid_date Invalid date value: 5",
    ],
    [
      { groups: [condition([filter("a", 5, { operator: "icontains" })])] },
      "filters invalid_value Invalid value for operator icontains: 5",
    ],
    [
      { groups: [condition([filter("a", ["x"], { operator: "regex" })])] },
      'filters invalid_value Invalid value for operator regex: ["x"]',
    ],
    [
      { groups: [condition([filter("a", "(", { operator: "not_regex" })])] },
      "filters invalid_value Invalid value for operator not_regex: (",
    ],
    [
      { groups: [condition([filter("a", "many", { operator: "gt" })])] },
      "filters invalid_value Invalid value for operator gt: many",
    ],
    [
      { groups: [condition([filter("a", [3, 1], { operator: "between" })])] },
      "filters invalid_value Invalid value for operator between: [3,1]",
    ],
    [
      { groups: [condition([filter("a", "1.2.3.4", { operator: "semver_eq" })])] },
      "filters invalid_value Invalid value for operator semver_eq: 1.2.3.4",
    ],
    [
      { groups: [condition([filter("a", "1.*.3", { operator: "semver_wildcard" })])] },
      "filters invalid_value Invalid value for operator semver_wildcard: 1.*.3",
    ],
    [
      { groups: [condition([filter("a", "b", { operator: "resembles" })])] },
      "filters invalid_operator Invalid operator: resembles",
    ],
    [
      { groups: [condition([filter("a", "b", { operator: "in" })])] },
      "filters invalid_operator Invalid operator: in",
    ],
    [
      { groups: [condition([filter("a", null)])] },
      "filters invalid_value Invalid value for operator exact: null",
    ],
    [
      { groups: [condition([filter("a", new Array(1001).fill("x"))])] },
      "filters invalid_input Property group expressions of type a cannot contain more than 1000 values.",
    ],
    [
      { groups: [], payloads: { true: "{bad" } },
      "filters invalid_input Payload value is not valid JSON: see 'true'",
    ],
    [
      { groups: [], payloads: { other: "1" } },
      "filters invalid_input Payload keys must be 'true' for boolean flags",
    ],
    [
      { groups: [], payloads: { true: "1" }, ...variants(100) },
      "filters invalid_input Payload keys must match a variant key for multivariate flags",
    ],
    [
      { groups: [], payloads: ["1"] },
      "filters invalid_input Payloads must be passed as a dictionary",
    ],
    [
      { groups: [condition([dependsOn("1")])] },
      "filters invalid_input Feature flag 'mine' cannot depend on itself",
    ],
    [
      { groups: [condition([dependsOn("mine")])] },
      "filters invalid_input Feature flag 'mine' cannot depend on itself",
    ],
    [
      { groups: [condition([dependsOn("2")])] },
      "filters invalid_input Circular dependency detected: mine → other → mine",
    ],
    [
      { groups: [condition([dependsOn("3")])] },
      "filters invalid_input Circular dependency detected: mine → third → other → mine",
    ],
    [
      { groups: [condition([dependsOn("77")])] },
      "filters invalid_input Flag dependency references non-existent flag with ID 77",
    ],
    [
      { groups: [condition([dependsOn("nobody")])] },
      "filters invalid_input Flag dependencies must reference flag IDs (integers), not flag keys. Invalid reference: 'nobody'",
    ],
    [
      { groups: [condition([dependsOn("4", { operator: "exact" })])] },
      "filters invalid_operator Invalid operator: exact",
    ],
    [
      { groups: [condition([dependsOn("4", { value: 5 })])] },
      "filters invalid_value Invalid value for operator flag_evaluates_to: 5",
    ],
    [[], "filters invalid_input filters must be an object"],
    [{ groups: {} }, "filters invalid_input filters.groups must be a list"],
    [{ groups: ["x"] }, "filters invalid_input filters.groups[0] must be an object"],
    [
      { groups: [{ properties: "x" }] },
      "filters invalid_input filters.groups[0].properties must be a list",
    ],
    [
      { groups: [{ properties: [null] }] },
      "filters invalid_input filters.groups[0].properties[0] must be an object",
    ],
    [
      { groups: [condition([], { rollout_percentage: 101 })] },
      "filters invalid_input filters.groups[0].rollout_percentage must be a number from 0 to 100, not 101",
    ],
    [
      { groups: [condition([], { rollout_percentage: -0.1 })] },
      "filters invalid_input filters.groups[0].rollout_percentage must be a number from 0 to 100, not -0.1",
    ],
    [
      { groups: [condition([], { rollout_percentage: "50" })] },
      "filters invalid_input filters.groups[0].rollout_percentage must be a number from 0 to 100, not 50",
    ],
    [
      { groups: [condition([], { rollout_percentage: Number.NaN })] },
      "filters invalid_input filters.groups[0].rollout_percentage must be a number from 0 to 100, not null",
    ],
    [
      { groups: [], aggregation_group_type_index: 5 },
      "filters invalid_input filters.aggregation_group_type_index must be an integer from 0 to 4",
    ],
    [
      { groups: [condition([], { aggregation_group_type_index: 1.5 })] },
      "filters invalid_input filters.groups[0].aggregation_group_type_index must be an integer from 0 to 4",
    ],
    [
      { groups: [], multivariate: { variants: [{ key: "", rollout_percentage: 100 }] } },
      "filters invalid_input filters.multivariate.variants[0].key must be text and may not be blank",
    ],
    [
      { groups: [], multivariate: { variants: [{ key: 5, rollout_percentage: 100 }] } },
      "filters invalid_input filters.multivariate.variants[0].key must be text and may not be blank",
    ],
    [
      {
        groups: [],
        multivariate: {
          variants: [
            { key: "a", rollout_percentage: 50 },
            { key: "a", rollout_percentage: 50 },
          ],
        },
      },
      "filters invalid_input filters.multivariate.variants[1].key: 'a' is used twice",
    ],
    [
      { groups: [], ...variants("100") },
      "filters invalid_input filters.multivariate.variants[0].rollout_percentage must be a number from 0 to 100, not 100",
    ],
    [
      { groups: [], ...variants(100, null) },
      "filters invalid_input filters.multivariate.variants[1].rollout_percentage must be a number from 0 to 100, not null",
    ],
    [
      { groups: [], holdout: { id: "x", exclusion_percentage: 10 } },
      "filters invalid_input filters.holdout.id must be an integer",
    ],
    [
      { groups: [], feature_enrollment: "yes" },
      "filters invalid_input filters.feature_enrollment must be true or false",
    ],
    [{ groups: [], version: 2 }, "filters invalid_input filters.version must be 1, not 2"],
  ] as [Json, string][])("[FE-38] refuses %j", (filters, expected) => {
    expect(problems(filters)[0]).toBe(expected);
  });

  it.each([
    [
      { groups: [{ propertes: [] }] },
      "filters.groups[0].propertes is not a known field. Did you mean properties?",
    ],
    [
      { groups: [condition([], { rollout_percent: 5 })] },
      "filters.groups[0].rollout_percent is not a known field. Did you mean rollout_percentage?",
    ],
    [
      { groups: [condition([{ key: "a", type: "person", vlaue: "b" }])] },
      "filters.groups[0].properties[0].vlaue is not a known field. Did you mean value?",
    ],
    [
      { groups: [condition([{ key: "a", tpye: "group", value: "b" }])] },
      "filters.groups[0].properties[0].tpye is not a known field. Did you mean type?",
    ],
    [
      { groups: [], super_groups: [condition([], { varient: "x" })] },
      "filters.super_groups[0].varient is not a known field. Did you mean variant?",
    ],
    [{ group: [condition([])] }, "filters.group is not a known field. Did you mean groups?"],
    [
      { groups: [], multivariate: { varients: [] } },
      "filters.multivariate.varients is not a known field. Did you mean variants?",
    ],
    [
      { groups: [], multivariate: { variants: [{ key: "a", rolloutPercentage: 100 }] } },
      "filters.multivariate.variants[0].rolloutPercentage is not a known field. Did you mean rollout_percentage?",
    ],
    [
      { groups: [{ when: [] }] },
      "filters.groups[0] has none of the fields properties, rollout_percentage, variant, aggregation_group_type_index",
    ],
  ] as [Json, string][])("[FM-35] refuses %j", (filters, expected) => {
    expect(problems(filters)[0]).toBe(`filters invalid_input ${expected}`);
  });

  it("[FM-35] passes keys that PostHog's clients add, and others", () => {
    const extra = { sort_key: "a", description: "b", users_affected: 5, owner: "c" };
    const named = filter("a", "b", { label: "A", cohort_name: "x", negation: false });
    const filters = { groups: [condition([named], extra)], note: "d", ...variants(100) };
    expect(problems(filters)).toEqual([]);
  });

  it("[FE-38] lets a new flag depend on any, since none can depend on it yet", () => {
    const filters = { groups: [condition([dependsOn("4")])] };
    expect(validateFilters(filters, { definitions, id: null, key: "new" })).toEqual([]);
  });

  it("[FE-38] refuses flags of a size that would hold up every request", () => {
    const context = { definitions, id: null, key: "large" };
    const details = (groups: readonly Json[]) =>
      validateFilters({ groups }, context).map(({ detail }) => detail);
    const times = <Item>(count: number, item: Item) => Array.from({ length: count }, () => item);
    expect(details(times(1_000, condition(times(5, filter("a", "b")))))).toEqual([]);
    expect(details(times(1_001, condition([])))).toEqual([
      "filters.groups cannot have more than 1000 conditions.",
    ]);
    expect(details([condition(times(5_001, filter("a", "b")))])).toEqual([
      "A flag cannot have more than 5000 filters.",
    ]);
  });

  it.each([
    [
      "conditions of enrolment",
      { super_groups: Array(1_001).fill({}) },
      "filters.super_groups cannot have more than 1000 conditions.",
    ],
    [
      "conditions of holdouts",
      { holdout_groups: Array(1_001).fill({}) },
      "filters.holdout_groups cannot have more than 1000 conditions.",
    ],
    [
      "filters over all of them",
      {
        groups: [condition(Array(3_000).fill(filter("a", "b")))],
        super_groups: [condition(Array(2_001).fill(filter("a", "b")))],
      },
      "A flag cannot have more than 5000 filters.",
    ],
    [
      "variants",
      { multivariate: { variants: Array(1_001).fill({ key: "a", rollout_percentage: 1 }) } },
      "A flag cannot have more than 1000 variants.",
    ],
    [
      "values in payloads",
      {
        payloads: { true: `[${"1,".repeat(60_000)}1]`, "holdout-1": `[${"[],".repeat(20_000)}1]` },
      },
      "Payloads cannot have more than 100000 values in sum: see 'holdout-1'",
    ],
    [
      "characters of patterns",
      {
        groups: [
          condition(Array(100).fill(filter("a", "(ab)".repeat(750), { operator: "regex" }))),
        ],
      },
      "filters.groups[0].properties[83]: the regular expressions of a flag cannot have more than 250000 characters in sum.",
    ],
  ])("[FE-38] refuses too many %s", (_, filters, detail) => {
    const found = validateFilters(filters, { definitions, id: null, key: "large" });
    expect(found.map((one) => one.detail)).toContain(detail);
  });

  it("[FE-38] tells twenty problems at most", () => {
    for (const filters of [
      { groups: Array(1_000).fill(5) },
      { groups: Array(900).fill({ rollout_percentage: 101 }) },
      { groups: [condition(Array(900).fill(filter("a", "(", { operator: "regex" })))] },
      { multivariate: { variants: Array(900).fill({ key: 5 }) } },
      { groups: [condition(Array.from({ length: 900 }, (_, at) => dependsOn(`none ${at}`)))] },
    ]) {
      const found = validateFilters(filters, { definitions, id: null, key: "wrong" });
      expect(found.length).toBeGreaterThanOrEqual(1);
      expect(found.length).toBeLessThanOrEqual(21);
    }
  });

  it("[FE-38] names prototype keys like any others", () => {
    const filters = JSON.parse(
      '{"groups":[{"properties":[{"key":"__proto__","value":"x","type":"person"}],"variant":"constructor"}],"payloads":{"__proto__":"1"},"multivariate":{"variants":[{"key":"toString","rollout_percentage":100}]}}',
    ) as JsonObject;
    expect(problems(filters)).toEqual([
      "filters invalid_input Filters are not valid (variant override does not exist)",
      "filters invalid_input Payload keys must match a variant key for multivariate flags",
    ]);
  });

  it("[FE-51] bounds what the patterns of a flag weigh together, and names the filter that is too much", () => {
    const flagOf = (pattern: string) => ({
      groups: Array.from({ length: 25 }, (_, group) =>
        condition(
          Array.from({ length: 40 }, (_, at) =>
            filter("s", `${pattern}${group}_${at}`, { operator: at % 2 ? "regex" : "not_regex" }),
          ),
        ),
      ),
    });
    const context = { definitions, id: 1, key: "mine" };
    expect(validateFilters(flagOf("^user_\\d+@example\\.(com|org)$"), context)).toEqual([]);
    expect(validateFilters(flagOf("((a{1,50}){1,5}b|[^c]{3,9}x){1,9}"), context)).toEqual([
      {
        attr: "filters",
        code: "invalid_input",
        detail: expect.stringMatching(
          /^filters\.groups\[0\]\.properties\[37\]: the regular expressions of a flag cannot be larger in sum/,
        ),
      },
    ]);
  });

  it("[FE-38] passes nothing that evaluation cannot read, whatever JSON it is given", () => {
    const word = fc.constantFrom<Json>(
      ...["person", "group", "cohort", "flag", "exact", "regex", "between", "gt", "1", "x", 5, 8],
      ...[0, 4, 50, 100, null, true, "free", "is_date_after", "-7d", "semver_gt", "1.2"],
    );
    // Mostly what belongs there, sometimes anything.
    const mostly = <T>(...fitting: readonly T[]): fc.Arbitrary<T | Json> =>
      fc.oneof(
        { weight: 9, arbitrary: fc.constantFrom(...fitting) },
        { weight: 1, arbitrary: word },
      );
    const property = fc.record(
      {
        key: mostly("1", "x", "free", "4"),
        type: mostly("person", "person", "cohort", "flag", "group"),
        operator: mostly("exact", "regex", "between", "is_date_after", "flag_evaluates_to", null),
        value: fc.oneof(mostly<Json>("x", "-7d", 8, [1, 2], true), fc.array(word)),
        group_type_index: mostly<Json>(null, 0),
      },
      { requiredKeys: ["key", "type", "value"] },
    );
    const group = fc.record(
      {
        properties: fc.oneof(
          { weight: 9, arbitrary: fc.array(property, { maxLength: 2 }) },
          { weight: 1, arbitrary: word },
        ),
        rollout_percentage: mostly<Json>(null, 50, 100),
        variant: mostly<Json>(null, "x"),
        aggregation_group_type_index: mostly<Json>(null, 0),
      },
      { requiredKeys: [] },
    );
    const variant = fc.record({ key: mostly("x"), rollout_percentage: mostly(100) });
    const filters = fc.record(
      {
        groups: fc.array(group, { maxLength: 2 }),
        multivariate: fc.oneof(
          mostly(null),
          fc.record({ variants: fc.array(variant, { maxLength: 2 }) }),
        ),
        holdout: fc.oneof(
          mostly(null),
          fc.record({ id: mostly(1), exclusion_percentage: mostly(50) }),
        ),
        aggregation_group_type_index: mostly<Json>(null, 0),
        payloads: fc.oneof(mostly(null), fc.dictionary(fc.constantFrom("true", "x"), word)),
        super_groups: fc.oneof(mostly(null), fc.array(group, { maxLength: 1 })),
        version: mostly<Json>(null, 1),
      },
      { requiredKeys: [] },
    );
    let passed = 0;
    fc.assert(
      fc.property(filters, (given) => {
        if (problems(given as JsonObject).length > 0) return;
        passed += 1;
        const flags = [
          flagDefinition({ id: 1, key: "mine", filters: given as JsonObject }),
          flagDefinition({ id: 4, key: "free" }),
        ];
        const set = compileFlags(projectOf(flags, { cohorts: definitions.cohorts }));
        expect(evaluateFlags(set, evaluationRequest()).failedKeys).toEqual([]);
      }),
      { numRuns: 2000 },
    );
    expect(passed).toBeGreaterThan(100);
  });
});
