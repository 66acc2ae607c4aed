import { describe, expect, it } from "vitest";
import type { Json, JsonObject } from "../json.ts";
import { compileFlags } from "./compile-flags.ts";
import type { EvaluationRequest } from "./evaluation-request.ts";
import type { FlagDefinition } from "./flag.ts";
import {
  dynamicCohort,
  evaluationRequest,
  flagDefinition,
  projectOf,
  staticCohort,
} from "./golden-cases.setup.ts";
import { continuityKeysToStore, requirementsOf } from "./requirements.ts";

function filter(key: string, rest: JsonObject = {}): JsonObject {
  return { key, value: "x", operator: "exact", type: "person", ...rest };
}

function flag(
  properties: readonly Json[],
  rest: Partial<FlagDefinition> = {},
  filters: JsonObject = {},
) {
  return flagDefinition({
    key: "f",
    filters: { groups: [{ properties, rollout_percentage: 100 }], ...filters },
    ...rest,
  });
}

const cohorts = [
  staticCohort(1),
  dynamicCohort(2, { type: "AND", values: [filter("tier")] }),
  dynamicCohort(3, { type: "AND", values: [{ key: "id", type: "cohort", value: 1 }] }),
];

function needs(flags: readonly FlagDefinition[], request: Partial<EvaluationRequest> = {}) {
  const groupTypes = [{ index: 0, name: "company" }];
  const set = compileFlags(projectOf(flags, { cohorts, groupTypes }));
  return requirementsOf(set, evaluationRequest(request));
}

const NOTHING = { person: false, staticCohorts: false, hashKeyOverrides: false, groups: {} };

describe("requirements", () => {
  it("[FE-32] needs nothing stored where no flag reads anything", () => {
    expect(needs([flag([]), flag([], { key: "g" })])).toEqual({ geo: false, stored: null });
    expect(needs([flag([filter("tier")], { active: false })])).toEqual({
      geo: false,
      stored: null,
    });
  });

  it("[FE-32] needs the person only for properties the request leaves open", () => {
    const flags = [flag([filter("tier"), filter("distinct_id")])];
    expect(needs(flags).stored).toEqual({ ...NOTHING, person: true });
    expect(needs(flags, { personProperties: { tier: null } }).stored).toBeNull();
    const initial = [flag([filter("$initial_browser")])];
    expect(needs(initial, { personProperties: { $browser: "x" } }).stored?.person).toBe(true);
    expect(needs(initial, { personProperties: { $initial_browser: "x" } }).stored).toBeNull();
    expect(needs([flag([], {}, { feature_enrollment: true })]).stored?.person).toBe(true);
    expect(needs([flag([filter("created_at", { type: "person_metadata" })])]).stored?.person).toBe(
      true,
    );
  });

  it("[FE-32] needs the address for places the request leaves open", () => {
    const flags = [flag([filter("$geoip_country_code")])];
    expect(needs(flags)).toEqual({ geo: true, stored: { ...NOTHING, person: true } });
    const sent = { $geoip_country_code: "NL" };
    expect(needs(flags, { personProperties: sent })).toEqual({ geo: false, stored: null });
    expect(needs(flags, { geoProperties: sent })).toEqual({ geo: false, stored: null });
    const open = { $geoip_country_code: null };
    expect(needs(flags, { personProperties: open })).toEqual({ geo: true, stored: null });
  });

  it("[FE-32] needs what cohorts read, nested ones included", () => {
    const cohort = (id: number) => [flag([{ key: "id", type: "cohort", value: id }])];
    expect(needs(cohort(1)).stored).toEqual({ ...NOTHING, staticCohorts: true });
    expect(needs(cohort(2)).stored).toEqual({ ...NOTHING, person: true });
    expect(needs(cohort(2), { personProperties: { tier: "x" } }).stored).toBeNull();
    expect(needs(cohort(3)).stored).toEqual({ ...NOTHING, staticCohorts: true });
  });

  it("[FE-32] needs groups that were sent, for properties that were not", () => {
    const flags = [
      flag([filter("size", { type: "group" })], {}, { aggregation_group_type_index: 0 }),
    ];
    const groups = { company: "acme" };
    expect(needs(flags).stored).toBeNull();
    expect(needs(flags, { groups }).stored).toEqual({ ...NOTHING, groups });
    expect(needs(flags, { groups, groupProperties: { company: { size: 1 } } }).stored).toBeNull();
    const byKey = [flag([filter("$group_key", { type: "group", group_type_index: 0 })])];
    expect(needs(byKey, { groups }).stored).toBeNull();
  });

  it("[FE-32] needs stored hash keys only where the hash decides", () => {
    const continuous = { ensureExperienceContinuity: true };
    const halves = {
      multivariate: {
        variants: [
          { key: "a", rollout_percentage: 50 },
          { key: "b", rollout_percentage: 50 },
        ],
      },
    };
    expect(needs([flag([], continuous)]).stored).toBeNull();
    expect(needs([flag([], continuous, halves)]).stored).toEqual({
      ...NOTHING,
      hashKeyOverrides: true,
    });
    expect(needs([flag([], {}, halves)]).stored).toBeNull();
    const grouped = { ...halves, aggregation_group_type_index: 0 };
    expect(needs([flag([], continuous, grouped)]).stored).toBeNull();
    const onDevice = { ...continuous, bucketingIdentifier: "device_id" } as const;
    expect(needs([flag([], onDevice, halves)]).stored).toBeNull();
  });

  it("[FE-32] looks only at flags that the request gets, and those they depend on", () => {
    const dependency = { key: "2", value: true, operator: "flag_evaluates_to", type: "flag" };
    const flags = [
      flag([dependency], { id: 1, key: "a" }),
      flag([filter("tier")], { id: 2, key: "b" }),
      flag([], { id: 3, key: "c" }),
      flag([filter("other")], { id: 4, key: "d", evaluationRuntime: "client" }),
    ];
    const selection = {
      keys: null,
      contexts: null,
      runtime: "server",
      onlySurveyFlags: false,
    } as const;
    expect(needs(flags, { selection: { ...selection, keys: ["a"] } }).stored?.person).toBe(true);
    expect(needs(flags, { selection: { ...selection, keys: ["c"] } }).stored).toBeNull();
    const personProperties = { tier: "x" };
    expect(needs(flags, { selection, personProperties }).stored).toBeNull();
  });

  it("[FE-33] stores hash keys of eligible flags that one of the persons lacks", () => {
    const continuous = { ensureExperienceContinuity: true };
    const set = compileFlags(
      projectOf([
        flag([], { id: 1, key: "a", ...continuous }),
        flag([], { id: 2, key: "b", ...continuous }),
        flag([], { id: 3, key: "plain" }),
        flag([], { id: 4, key: "off", active: false, ...continuous }),
        flag([], { id: 5, key: "device", bucketingIdentifier: "device_id", ...continuous }),
        flag([], { id: 6, key: "group", ...continuous }, { aggregation_group_type_index: 0 }),
      ]),
    );
    expect(continuityKeysToStore(set, { anonDistinctId: "anon" })).toEqual(["a", "b"]);
    expect(continuityKeysToStore(set, { anonDistinctId: null })).toEqual([]);
    expect(continuityKeysToStore(set, { anonDistinctId: "" })).toEqual([]);
    const all = new Map([
      ["a", "x"],
      ["b", "x"],
    ]);
    const some = new Map([["a", "x"]]);
    expect(continuityKeysToStore(set, { anonDistinctId: "anon" }, [all, some])).toEqual(["b"]);
    expect(continuityKeysToStore(set, { anonDistinctId: "anon" }, [all])).toEqual([]);
    expect(continuityKeysToStore(set, { anonDistinctId: "anon" }, [])).toEqual([]);
  });
});
