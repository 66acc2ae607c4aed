import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { Json, JsonObject } from "../json.ts";
import { compileFlags } from "./compile-flags.ts";
import { evaluateFlags } from "./evaluate-flags.ts";
import type { EvaluationRequest } from "./evaluation-request.ts";
import { explainFlag, type FlagExplanation } from "./explain-flag.ts";
import { explainInWords } from "./explain-text.ts";
import type { FlagDefinition } from "./flag.ts";
import {
  dynamicCohort,
  evaluationRequest,
  flagDefinition,
  projectOf,
  staticCohort,
  storedPerson,
} from "./golden-cases.setup.ts";

const REST = {
  groupTypes: [{ index: 0, name: "company" }],
  cohorts: [
    staticCohort(1),
    dynamicCohort(2, {
      type: "AND",
      values: [{ key: "plan", type: "person", operator: "exact", value: ["pro"] }],
    }),
  ],
};

function explain(
  flags: readonly FlagDefinition[],
  key: string,
  request: Partial<EvaluationRequest> = {},
) {
  const definitions = projectOf(flags, REST);
  const set = compileFlags(definitions);
  const definition = definitions.flags.find((flag) => flag.key === key);
  if (definition === undefined) throw new Error(key);
  return explainFlag(definition, { set, definitions, request: evaluationRequest(request) });
}

describe("the explanation of a flag", () => {
  it("[EX-1] tells of every filter what it saw and where that came from", () => {
    const filter = (key: string, value: Json = ["x"], rest: JsonObject = {}) => ({
      key,
      value,
      type: "person",
      operator: "exact",
      ...rest,
    });
    const filters = {
      groups: [
        {
          properties: [
            { key: "id", value: 1, type: "cohort", operator: "in" },
            filter("sent"),
            filter("kept"),
            filter("$geoip_city_name"),
            filter("distinct_id"),
            filter("nowhere"),
          ],
        },
        {
          aggregation_group_type_index: 0,
          properties: [
            filter("$group_key", ["acme"], { type: "group", group_type_index: 0 }),
            filter("tier", ["gold"], { type: "group", group_type_index: 0 }),
          ],
        },
      ],
    };
    const explanation = explain([flagDefinition({ id: 5, key: "f", filters })], "f", {
      distinctId: "u1",
      personProperties: { sent: "x" },
      geoProperties: { $geoip_city_name: "Bern" },
      groups: { company: "acme" },
      stored: {
        ...storedPerson({ kept: 7, sent: "old" }),
        groups: { company: { tier: "gold" } },
      },
    });
    const told = explanation.conditions.map(({ filters }) =>
      filters.map(({ key, value, source, outcome }) => [key, value, source, outcome === "match"]),
    );
    expect(told).toEqual([
      [
        ["sent", "x", "override", true],
        ["kept", 7, "stored", false],
        ["$geoip_city_name", "Bern", "geo", false],
        ["distinct_id", "u1", "request", false],
        ["nowhere", null, "missing", false],
        ["id", false, "derived", false],
      ],
      [
        ["$group_key", "acme", "request", true],
        ["tier", "gold", "stored", true],
      ],
    ]);
    expect(explanation).toMatchObject({ value: true, reason: { conditionIndex: 1 } });
  });

  it("[EX-2] tells the hash, the bound it is compared with, and the part of the variant", () => {
    const filters = {
      groups: [
        { properties: [], rollout_percentage: 10 },
        { properties: [], rollout_percentage: 60 },
      ],
      multivariate: {
        variants: [
          { key: "control", rollout_percentage: 50 },
          { key: "test", rollout_percentage: 50 },
        ],
      },
      holdout: { id: 3, exclusion_percentage: 0 },
    };
    const flag = flagDefinition({ key: "multivariate-flag", filters });
    const explanation = explain([flag], flag.key, { distinctId: "distinct_id_0" });
    expect(explanation.conditions.map(({ rollout, outcome }) => [rollout, outcome])).toEqual([
      [
        {
          percentage: 10,
          identifier: "distinct_id_0",
          hash: 0.502037796130735,
          bound: 0.1,
          isInside: false,
        },
        "out_of_rollout_bound",
      ],
      [expect.objectContaining({ hash: 0.502037796130735, bound: 0.6, isInside: true }), "match"],
    ]);
    expect(explanation.variant).toEqual({
      identifier: "distinct_id_0",
      hash: 0.6186454537930379,
      shares: [
        { key: "control", from: 0, to: 0.5 },
        { key: "test", from: 0.5, to: 1 },
      ],
      chosen: "test",
    });
    expect(explanation.holdout).toMatchObject({ percentage: 0, bound: 0, isInside: false });
    expect(explainInWords(explanation, "distinct_id_0")).toBe(
      '"multivariate-flag" is "test" for "distinct_id_0": Matched condition set 2. ' +
        `Not held out: hash ${explanation.holdout?.hash} is beyond 0 (0 %). ` +
        "Condition 1 passed its filters but not its rollout: hash 0.502037796130735 is beyond 0.1 (10 %). " +
        "Condition 2 matched: hash 0.502037796130735 is within 0.6 (60 %). " +
        'The variant hash 0.6186454537930379 is in the part of "test", from 0.5 to 1.',
    );
  });

  it("[EX-6] says that a flag has no conditions, with the reason that evaluation gives it", () => {
    for (const filters of [{ groups: [] }, {}]) {
      const explanation = explain([flagDefinition({ key: "empty", filters })], "empty");
      expect(explanation.reason.code).toBe("no_group_type");
      expect(explainInWords(explanation, "u")).toBe(
        '"empty" is false for "u": It has no conditions.',
      );
    }
  });

  it("[EX-3] explains dependencies in turn, switched-off flags and cycles included", () => {
    const needing = (id: number) => ({
      groups: [
        {
          properties: [
            { key: String(id), value: true, type: "flag", operator: "flag_evaluates_to" },
          ],
        },
      ],
    });
    const flags = [
      flagDefinition({ id: 1, key: "top", filters: needing(2) }),
      flagDefinition({ id: 2, key: "middle", filters: needing(3) }),
      flagDefinition({ id: 3, key: "off", active: false, filters: { groups: [{}] } }),
      flagDefinition({ id: 4, key: "one", filters: needing(5) }),
      flagDefinition({ id: 5, key: "other", filters: needing(4) }),
    ];
    const top = explain(flags, "top");
    expect(top).toMatchObject({
      value: false,
      conditions: [{ filters: [{ key: "middle", value: false, source: "derived" }] }],
      dependencies: [
        {
          flag: { key: "middle" },
          dependencies: [
            { flag: { key: "off" }, active: false, reason: { code: "flag_disabled" } },
          ],
        },
      ],
    });
    expect(explainInWords(top, "u")).toContain('It depends on other flags: "middle" is false.');
    expect(explain(flags, "one")).toMatchObject({
      failed: true,
      reason: { code: "dependency_cycle_flag" },
      dependencies: [{ flag: { key: "other" }, dependencies: [] }],
    });
  });

  it("[EX-3] explains what a flag depends on once, by however many ways, and leaves out what is too much", () => {
    const needing = (...ids: readonly number[]) => ({
      groups: ids.map((id) => ({
        properties: [{ key: String(id), value: true, type: "flag", operator: "flag_evaluates_to" }],
      })),
    });
    // Each of forty steps has two flags, which both depend on both of the next step.
    const steps = Array.from({ length: 40 }, (_, step) =>
      [1, 2].map((side) =>
        flagDefinition({
          id: 2 * step + side,
          key: `step-${step}-${side}`,
          filters: step < 39 ? needing(2 * step + 3, 2 * step + 4) : { groups: [{}] },
        }),
      ),
    ).flat();
    const keysIn = ({ flag, dependencies }: FlagExplanation): string[] => [
      flag.key,
      ...dependencies.flatMap(keysIn),
    ];
    const told = keysIn(explain(steps, "step-0-1"));
    expect(new Set(told).size).toBe(79);
    expect(told.length).toBe(1 + 39 * 4 - 2);
    const large = Array.from({ length: 30 }, (_, at) =>
      flagDefinition({
        id: at + 2,
        key: `large-${at}`,
        filters: { groups: Array(1_000).fill({ properties: [] }) },
      }),
    );
    const top = flagDefinition({
      id: 1,
      key: "top",
      filters: needing(...large.map(({ id }) => id)),
    });
    expect(keysIn(explain([top, ...large], "top")).length).toBe(1 + 19);
  });

  it("[EX-4] never disagrees with the evaluation", () => {
    const value = fc.constantFrom<Json>("pro", "free", "10", 7, true, null, ["pro", "x"]);
    const property = fc.constantFrom("plan", "level", "nowhere", "distinct_id", "__proto__");
    const personFilter = fc.record({
      key: property,
      type: fc.constant("person"),
      operator: fc.constantFrom("exact", "is_not", "gt", "icontains", "is_set", "regex"),
      value,
    });
    const groupFilter = fc.record({
      key: fc.constantFrom("$group_key", "tier"),
      type: fc.constant("group"),
      group_type_index: fc.constant(0),
      operator: fc.constantFrom("exact", "is_not"),
      value,
    });
    const cohortFilter = fc.record({
      key: fc.constant("id"),
      type: fc.constant("cohort"),
      operator: fc.constantFrom("in", "not_in"),
      value: fc.constantFrom(1, 2, 99),
    });
    const flagFilter = fc.record({
      key: fc.constantFrom("1", "2", "3", "4", "77"),
      type: fc.constant("flag"),
      operator: fc.constant("flag_evaluates_to"),
      value: fc.constantFrom<Json>(true, false, "a"),
    });
    const condition = fc.record(
      {
        properties: fc.array(
          fc.oneof(
            { weight: 5, arbitrary: personFilter },
            { weight: 2, arbitrary: groupFilter },
            { weight: 1, arbitrary: cohortFilter },
            { weight: 1, arbitrary: flagFilter },
          ),
          { maxLength: 3 },
        ),
        rollout_percentage: fc.constantFrom<Json>(null, 0, 33.3, 50, 100),
        variant: fc.constantFrom<Json>(null, "a", "gone"),
        aggregation_group_type_index: fc.constantFrom<Json>(null, 0, 4),
      },
      { requiredKeys: ["properties"] },
    );
    const filters = fc.record(
      {
        groups: fc.array(condition, { maxLength: 4 }),
        multivariate: fc.constantFrom<Json>(null, {
          variants: [
            { key: "a", rollout_percentage: 40 },
            { key: "b", rollout_percentage: 60 },
          ],
        }),
        early_exit: fc.boolean(),
        feature_enrollment: fc.boolean(),
        super_groups: fc.constantFrom<Json>(null, [
          { properties: [{ key: "plan", type: "person", operator: "exact", value: ["pro"] }] },
        ]),
        holdout: fc.constantFrom<Json>(null, { id: 1, exclusion_percentage: 30 }),
        payloads: fc.constantFrom<Json>({}, { true: "1", a: "2" }),
      },
      { requiredKeys: ["groups"] },
    );
    const flag = fc.record({
      active: fc.oneof({ weight: 4, arbitrary: fc.constant(true) }, fc.constant(false)),
      ensureExperienceContinuity: fc.boolean(),
      bucketingIdentifier: fc.constantFrom("distinct_id", "device_id"),
      filters,
    });
    const properties = fc.dictionary(property, value, { maxKeys: 3 });
    const request = fc.record({
      distinctId: fc.constantFrom("", "u1", "u2", "ключ"),
      deviceId: fc.constantFrom(null, "d1"),
      anonDistinctId: fc.constantFrom(null, "anon"),
      groups: fc.constantFrom<Record<string, string>>({}, { company: "pro" }, { company: "" }),
      personProperties: properties,
      groupProperties: fc.constantFrom<Record<string, JsonObject>>({}, { company: { tier: "x" } }),
      stored: fc.record({
        person: fc.oneof(
          fc.constant(null),
          fc.constant("unavailable" as const),
          properties.map((kept) => storedPerson(kept, { staticCohortIds: [1] }).person),
        ),
        groups: fc.constantFrom<"unavailable" | Record<string, JsonObject>>(
          "unavailable",
          {},
          { company: { tier: "pro" } },
        ),
      }),
    });
    fc.assert(
      fc.property(fc.array(flag, { minLength: 1, maxLength: 4 }), request, (shapes, requested) => {
        const flags = shapes.map((shape, at) =>
          flagDefinition({
            ...shape,
            filters: shape.filters as unknown as JsonObject,
            id: at + 1,
            key: `flag-${at + 1}`,
          }),
        );
        const definitions = projectOf(flags, REST);
        const set = compileFlags(definitions);
        const asked = evaluationRequest(requested);
        const { evaluations, failedKeys } = evaluateFlags(set, asked);
        for (const definition of flags) {
          const told = explainFlag(definition, { set, definitions, request: asked });
          const answer = evaluations.find(({ flag: { id } }) => id === definition.id);
          if (answer === undefined) {
            expect(told.value).toBe(false);
            expect(told.failed).toBe(failedKeys.includes(definition.key));
            continue;
          }
          const { value, payload, reason, failed } = told;
          const same: object = { value, payload, reason, failed, flag: told.flag };
          expect(answer).toEqual(expect.objectContaining(same));
          const reached = told.conditions.filter(({ isReached }) => isReached);
          const matches = reached.filter(({ outcome }) => outcome === "match");
          if (reason.code === "condition_match") {
            expect(matches.map(({ index }) => index)).toEqual([reason.conditionIndex]);
            if (told.variant) expect(told.variant.chosen).toBe(value === true ? null : value);
          } else if (!failed) expect(matches).toEqual([]);
          const isEmpty = told.conditions.length === 0 && reason.code === "no_group_type";
          const why = isEmpty ? "It has no conditions" : reason.description;
          expect(explainInWords(told, asked.distinctId)).toContain(why);
        }
      }),
      { numRuns: 300 },
    );
  });
});
