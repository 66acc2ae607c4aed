import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { Json, JsonObject } from "../json.ts";
import { compileFlags } from "./compile-flags.ts";
import { evaluateFlags } from "./evaluate-flags.ts";
import type { CohortDefinition, FlagDefinition } from "./flag.ts";
import {
  dynamicCohort,
  evaluationRequest,
  flagDefinition,
  projectOf,
  staticCohort,
} from "./golden-cases.setup.ts";
import { describeForLocalEvaluation } from "./local-definitions.ts";

function leaf(key: string, rest: JsonObject = {}): JsonObject {
  return { key, value: "x", operator: "exact", type: "person", ...rest };
}

function cohortLeaf(id: number, rest: JsonObject = {}): JsonObject {
  return { key: "id", value: id, type: "cohort", ...rest };
}

function condition(properties: readonly Json[], rest: JsonObject = {}): JsonObject {
  return { properties, rollout_percentage: 100, ...rest };
}

function describeOne(
  filters: JsonObject,
  cohorts: readonly CohortDefinition[],
  sendCohorts: boolean,
) {
  const project = projectOf([flagDefinition({ key: "f", filters })], { cohorts });
  const described = describeForLocalEvaluation(project, { sendCohorts });
  const [flag] = described.flags;
  if (flag === undefined) throw new Error("the flag was left out");
  return { ...described, flag };
}

describe("definitions for local evaluation", () => {
  it("[FE-34] sends dynamic cohorts as bare groups, with those nested in them", () => {
    const cohorts = [
      dynamicCohort(1, {
        type: "OR",
        values: [{ type: "AND", values: [leaf("a"), cohortLeaf(2)] }],
      }),
      dynamicCohort(2, { type: "property", values: [leaf("b", { negation: true })] }),
      dynamicCohort(3, { type: "OR", values: [leaf("unused")] }),
    ];
    const { cohorts: sent, flag } = describeOne(
      { groups: [condition([cohortLeaf(1)])] },
      cohorts,
      true,
    );
    expect(Object.keys(sent)).toEqual(["1", "2"]);
    expect(sent["2"]).toEqual({ type: "AND", values: [leaf("b", { negation: true })] });
    expect(flag.filters).toEqual({ groups: [condition([cohortLeaf(1)])] });
  });

  it("[FE-34] never sends a rule for a cohort that SDKs could not decide", () => {
    const undecidable = [
      staticCohort(1),
      dynamicCohort(1, null),
      dynamicCohort(1, { type: "OR", values: [] }),
      dynamicCohort(1, { type: "OR", values: [{ type: "AND", values: [] }, leaf("a")] }),
      dynamicCohort(1, { type: "OR", values: [{ type: "behavioral", key: "$pageview" }] }),
      dynamicCohort(1, { type: "OR", values: [cohortLeaf(1)] }),
      dynamicCohort(1, { type: "SOME", values: [leaf("a")] }),
    ];
    for (const cohort of undecidable) {
      expect(describeOne({ groups: [condition([cohortLeaf(1)])] }, [cohort], true).cohorts).toEqual(
        {},
      );
      const inlined = describeOne({ groups: [condition([cohortLeaf(1)])] }, [cohort], false);
      expect(inlined.cohorts).toEqual({});
      expect(inlined.flag.filters).toEqual({ groups: [condition([cohortLeaf(1)])] });
    }
  });

  it("[FE-34] writes nested cohorts so that every SDK reads them alike", () => {
    const nested = (rest: JsonObject, type: string) => {
      const cohorts = [
        dynamicCohort(1, { type: "AND", values: [{ type, values: [cohortLeaf(2, rest)] }] }),
        dynamicCohort(2, { type: "AND", values: [leaf("a")] }),
      ];
      const { cohorts: sent } = describeOne(
        { groups: [condition([cohortLeaf(1)])] },
        cohorts,
        true,
      );
      return JSON.stringify(sent["1"]).includes('"operator":"in","negation":true');
    };
    expect(nested({}, "AND")).toBe(false);
    expect(nested({ negation: true }, "AND")).toBe(true);
    expect(nested({ negation: true }, "OR")).toBe(false);
    expect(nested({ operator: "not_in" }, "OR")).toBe(true);
    expect(nested({ operator: "not_in", negation: true }, "AND")).toBe(false);
  });

  it("[FE-34] restates not_in by a counter-cohort, where the cohort is sent", () => {
    const notIn = { groups: [condition([cohortLeaf(1, { operator: "not_in" })])] };
    const rule = dynamicCohort(1, { type: "AND", values: [leaf("a")] });
    const { flag, cohorts } = describeOne(notIn, [rule], true);
    expect(flag.filters).toEqual({
      groups: [condition([cohortLeaf(-1, { operator: "in" })])],
    });
    expect(Object.keys(cohorts).sort()).toEqual(["-1", "1"]);
    expect(cohorts["-1"]).toEqual({
      type: "AND",
      values: [cohortLeaf(1, { operator: "in", negation: true })],
    });
    expect(describeOne(notIn, [staticCohort(1)], true)).toMatchObject({
      cohorts: {},
      flag: { filters: notIn },
    });
  });

  it("[FE-35] names dependencies by key, with the chain in evaluation order", () => {
    const dependsOn = (key: string) => ({
      key,
      type: "flag",
      operator: "flag_evaluates_to",
      value: true,
    });
    const flags = [
      flagDefinition({ id: 1, key: "a", filters: { groups: [condition([dependsOn("2")])] } }),
      flagDefinition({
        id: 2,
        key: "b",
        filters: { groups: [condition([dependsOn("3")]), condition([dependsOn("4")])] },
      }),
      flagDefinition({ id: 3, key: "c", filters: { groups: [condition([dependsOn("4")])] } }),
      flagDefinition({ id: 4, key: "d", filters: {} }),
      flagDefinition({ id: 5, key: "lost", filters: { groups: [condition([dependsOn("99")])] } }),
      flagDefinition({ id: 6, key: "round", filters: { groups: [condition([dependsOn("6")])] } }),
    ];
    const described = describeForLocalEvaluation(projectOf(flags), { sendCohorts: true });
    const chains = described.flags.map(
      ({ filters }) => JSON.stringify(filters).match(/"key":[^{]*\]/)?.[0],
    );
    expect(chains[0]).toContain('"key":"b"');
    expect(chains[0]).toContain('"dependency_chain":["d","c","b"]');
    expect(chains[2]).toContain('"dependency_chain":["d"]');
    expect(chains[4]).toContain('"dependency_chain":[]');
    expect(chains[5]).toContain('"dependency_chain":[]');
  });

  it("[FE-36] restates a condition on a simple cohort as conditions on properties", () => {
    const cohorts = [
      dynamicCohort(1, {
        type: "OR",
        values: [
          { type: "AND", values: [leaf("a"), leaf("b")] },
          { type: "AND", values: [leaf("c", { negation: true })] },
        ],
      }),
    ];
    const filters = { groups: [condition([leaf("first"), cohortLeaf(1)], { variant: "test" })] };
    const { flag, cohorts: sent } = describeOne(filters, cohorts, false);
    expect(sent).toEqual({});
    expect(flag.filters).toEqual({
      groups: [
        condition([leaf("first"), leaf("a"), leaf("b")], { variant: "test" }),
        condition([leaf("first"), leaf("c", { operator: "is_not" })], { variant: "test" }),
      ],
    });
  });

  it("[FE-36] leaves a cohort where its restatement would differ or grow out of hand", () => {
    const regex = dynamicCohort(1, {
      type: "AND",
      values: [leaf("a", { operator: "regex", negation: true })],
    });
    const wide = dynamicCohort(1, {
      type: "OR",
      values: Array.from({ length: 30 }, (_, at) => leaf(`k${at}`)),
    });
    for (const cohort of [regex, wide]) {
      const filters = { groups: [condition([cohortLeaf(1)])] };
      expect(describeOne(filters, [cohort], false).flag.filters).toEqual(filters);
    }
    const plain = dynamicCohort(1, { type: "AND", values: [leaf("a")] });
    const grouped = { aggregation_group_type_index: 0, groups: [condition([cohortLeaf(1)])] };
    expect(describeOne(grouped, [plain], false).flag.filters).toEqual(grouped);
  });

  it("[FE-36] means the same before and after restating", () => {
    const operator = fc.constantFrom("exact", "is_not", "is_set", "is_not_set", "icontains");
    const property = fc.record({
      key: fc.constantFrom("a", "b", "c"),
      value: fc.constantFrom("x", "y"),
      operator,
      type: fc.constant("person"),
      negation: fc.boolean(),
    });
    const nested = fc.record({
      key: fc.constant("id"),
      type: fc.constant("cohort"),
      value: fc.constant(2),
      operator: fc.constantFrom("in", "not_in"),
      negation: fc.boolean(),
    });
    const inner = (leaves: fc.Arbitrary<JsonObject>) =>
      fc.record({
        type: fc.constantFrom("AND", "OR"),
        values: fc.array(leaves, { minLength: 1, maxLength: 3 }),
      });
    const outer = (leaves: fc.Arbitrary<JsonObject>) =>
      fc.record({
        type: fc.constantFrom("AND", "OR"),
        values: fc.array(inner(leaves), { minLength: 1, maxLength: 2 }),
      });
    const person = fc.dictionary(fc.constantFrom("a", "b", "c"), fc.constantFrom("x", "y", "xy"));
    fc.assert(
      fc.property(
        outer(fc.oneof(property, nested)),
        outer(property),
        fc.constantFrom("in", "not_in"),
        person,
        (first, second, flagOperator, personProperties) => {
          const cohorts = [dynamicCohort(1, first), dynamicCohort(2, second)];
          const filters = { groups: [condition([cohortLeaf(1, { operator: flagOperator })])] };
          const restated = describeOne(filters, cohorts, false).flag.filters;
          const value = (given: JsonObject) => {
            const set = compileFlags(
              projectOf([flagDefinition({ key: "f", filters: given })], { cohorts }),
            );
            return evaluateFlags(set, evaluationRequest({ personProperties })).evaluations[0]
              ?.value;
          };
          expect(value(restated)).toBe(value(filters));
        },
      ),
      { numRuns: 400 },
    );
  });

  it("[FE-37] marks flags that SDKs would get wrong", () => {
    const isDecidable = (filters: JsonObject) =>
      describeOne(filters, [], true).flag.isDecidableLocally;
    expect(isDecidable({ groups: [condition([leaf("a")])] })).toBe(true);
    expect(
      isDecidable({ groups: [], holdout: null, super_groups: [], feature_enrollment: false }),
    ).toBe(true);
    expect(isDecidable({ groups: [], holdout: { id: 1, exclusion_percentage: 5 } })).toBe(false);
    expect(isDecidable({ groups: [], holdout_groups: [{}] })).toBe(false);
    expect(isDecidable({ groups: [], super_groups: [condition([])] })).toBe(false);
    expect(isDecidable({ groups: [], feature_enrollment: true })).toBe(false);
    const own = { aggregation_group_type_index: 0 };
    expect(isDecidable({ groups: [condition([leaf("a")], own)] })).toBe(false);
    expect(isDecidable({ groups: [condition([leaf("a", { type: "group" })], own)] })).toBe(true);
  });

  it("[FE-37] marks flags that only newer SDKs get right", () => {
    const needsNewer = (filters: JsonObject, rest: Partial<FlagDefinition> = {}) => {
      const flag = flagDefinition({ key: "f", filters, ...rest });
      return describeForLocalEvaluation(projectOf([flag]), { sendCohorts: true }).flags[0]
        ?.needsNewerSdk;
    };
    const plain = condition([]);
    const pinned = condition([], { variant: "a" });
    expect(needsNewer({})).toBe(false);
    expect(needsNewer({ groups: [pinned, pinned, plain, condition([], { variant: null })] })).toBe(
      false,
    );
    expect(needsNewer({ groups: [plain, pinned] })).toBe(true);
    expect(needsNewer({ groups: [plain], early_exit: true })).toBe(true);
    expect(needsNewer({ groups: [plain] }, { bucketingIdentifier: "device_id" })).toBe(true);
    const grouped = (own: Json) => condition([], { aggregation_group_type_index: own });
    expect(needsNewer({ groups: [grouped(0)] })).toBe(true);
    expect(needsNewer({ groups: [grouped(null)] })).toBe(false);
    expect(needsNewer({ aggregation_group_type_index: 0, groups: [plain, grouped(0)] })).toBe(
      false,
    );
    expect(needsNewer({ aggregation_group_type_index: 0, groups: [grouped(null)] })).toBe(true);
  });
});
