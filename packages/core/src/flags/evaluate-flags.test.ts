import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { Json, JsonObject } from "../json.ts";
import { createSha1Bucketing } from "./bucketing.ts";
import { type CompileTools, compileFlags } from "./compile-flags.ts";
import { evaluateFlags } from "./evaluate-flags.ts";
import type { EvaluationRequest, StoredFacts } from "./evaluation-request.ts";
import type { FlagDefinition, ProjectDefinitions } from "./flag.ts";
import {
  dynamicCohort,
  evaluationRequest,
  flagDefinition,
  projectOf,
  staticCohort,
  storedPerson,
  TRUSTING_PATTERNS,
} from "./golden-cases.setup.ts";

const COMPANY = [{ index: 0, name: "company" }] as const;
const HALVES = {
  variants: [
    { key: "control", rollout_percentage: 50 },
    { key: "test", rollout_percentage: 50 },
  ],
};

function filter(key: string, value: Json, rest: JsonObject = {}): JsonObject {
  return { key, value, operator: "exact", type: "person", ...rest };
}

function cohortFilter(id: number, operator = "in"): JsonObject {
  return { key: "id", value: id, operator, type: "cohort" };
}

function dependsOn(key: string, value: Json): JsonObject {
  return { key, value, operator: "flag_evaluates_to", type: "flag" };
}

function condition(properties: readonly Json[], rest: JsonObject = {}): JsonObject {
  return { properties, rollout_percentage: 100, ...rest };
}

function everyone(rest: JsonObject = {}): JsonObject {
  return { groups: [condition([])], ...rest };
}

function evaluate(
  flags: readonly FlagDefinition[],
  request: Partial<EvaluationRequest> = {},
  rest: Partial<ProjectDefinitions> = {},
  tools: CompileTools = {},
) {
  const set = compileFlags(projectOf(flags, rest), { backtracking: TRUSTING_PATTERNS, ...tools });
  const result = evaluateFlags(set, evaluationRequest(request));
  return { ...result, byKey: new Map(result.evaluations.map((each) => [each.flag.key, each])) };
}

/** The answer for one flag with these filters. */
function answer(
  filters: JsonObject,
  request: Partial<EvaluationRequest> = {},
  flag: Partial<FlagDefinition> = {},
  rest: Partial<ProjectDefinitions> = {},
  tools: CompileTools = {},
) {
  const result = evaluate([flagDefinition({ key: "f", filters, ...flag })], request, rest, tools);
  const only = result.byKey.get(flag.key ?? "f");
  if (only === undefined) throw new Error("the flag was left out");
  return only;
}

const UNREADABLE: StoredFacts = { person: "unavailable", groups: "unavailable" };

describe("conditions and reasons", () => {
  it("[FE-4] lets the first matching condition of the stored order decide", () => {
    const filters = {
      groups: [condition([]), condition([], { variant: "test" })],
      multivariate: {
        variants: [
          { key: "a", rollout_percentage: 100 },
          { key: "test", rollout_percentage: 0 },
        ],
      },
    };
    expect(answer(filters)).toMatchObject({
      value: "a",
      reason: {
        code: "condition_match",
        conditionIndex: 0,
        description: "Matched condition set 1",
      },
    });
  });

  it("[FE-4] is off without conditions, and reads the oldest stored form as one condition", () => {
    expect(answer({ groups: [] })).toMatchObject({
      value: false,
      reason: { code: "no_group_type", conditionIndex: null },
    });
    expect(answer({}).value).toBe(false);
    expect(answer({ rollout_percentage: 100 }).value).toBe(true);
    expect(answer({ properties: [filter("a", "b")] }).value).toBe(false);
  });

  it("[FE-6] puts the empty id inside every rollout, and hashes it for holdouts", () => {
    expect(
      answer({ groups: [condition([], { rollout_percentage: 0 })] }, { distinctId: "" }).value,
    ).toBe(true);
    expect(answer(everyone({ multivariate: HALVES }), { distinctId: "" }).value).toBe("control");
    const held = (exclusion_percentage: number) =>
      answer(everyone({ holdout: { id: 7, exclusion_percentage } }), { distinctId: "" }).value;
    expect(held(92)).toBe(true);
    expect(held(93)).toBe("holdout-7");
  });

  it("[FE-7] is true, not off, for a hash beyond the last variant", () => {
    const top: CompileTools = { bucketing: { ...createSha1Bucketing(), hash: () => 1 } };
    const filters = everyone({ multivariate: HALVES, payloads: { true: "1", test: "2" } });
    expect(answer(filters, {}, {}, {}, top)).toMatchObject({
      value: true,
      payload: "1",
      failed: false,
    });
  });

  it("[FE-7] gives every id the variant that has the whole range", () => {
    const filters = everyone({
      multivariate: { variants: [{ key: "only", rollout_percentage: 100 }] },
    });
    fc.assert(
      fc.property(fc.string(), (distinctId) => {
        expect(answer(filters, { distinctId }).value).toBe("only");
      }),
    );
  });

  it("[FE-8] reports the highest reason, and of equal ones the last", () => {
    const filters = {
      groups: [
        condition([], { rollout_percentage: 0 }),
        condition([filter("a", "b")]),
        condition([], { rollout_percentage: 0 }),
        condition([], { aggregation_group_type_index: 0 }),
        condition([filter("a", "b")]),
      ],
    };
    expect(answer(filters, {}, {}, { groupTypes: COMPANY }).reason).toEqual({
      code: "out_of_rollout_bound",
      conditionIndex: 2,
      description: "Out of rollout bound",
    });
  });

  it("[FE-8] mentions conditions on groups that were skipped", () => {
    const filters = {
      groups: [condition([], { aggregation_group_type_index: 0 }), condition([filter("a", "b")])],
    };
    const { reason } = answer(filters, {}, {}, { groupTypes: COMPANY });
    expect(reason).toMatchObject({ code: "no_condition_match", conditionIndex: 1 });
    expect(reason.description).toContain("group conditions were not evaluated");
  });

  it("[FE-9] ends at a condition whose rollout excludes the id, if told to exit early", () => {
    const groups = [
      condition([filter("a", "x")]),
      condition([], { rollout_percentage: 0 }),
      condition([]),
    ];
    expect(answer({ groups }).value).toBe(true);
    expect(answer({ groups, early_exit: true })).toMatchObject({
      value: false,
      reason: { code: "out_of_rollout_bound", conditionIndex: 1 },
    });
  });

  it("[FE-5] never removes anyone when a rollout is raised, variants staying as they were", () => {
    const values = (rollout: number) => {
      const filters = {
        groups: [condition([], { rollout_percentage: rollout })],
        multivariate: HALVES,
      };
      const set = compileFlags(projectOf([flagDefinition({ key: "f", filters })]));
      return Array.from(
        { length: 400 },
        (_, id) =>
          evaluateFlags(set, evaluationRequest({ distinctId: `p${id}` })).evaluations[0]?.value,
      );
    };
    const steps = [0, 12.5, 33.34, 50, 99.9, 100].map(values);
    for (const [at, wider] of steps.slice(1).entries()) {
      for (const [person, before] of (steps[at] ?? []).entries()) {
        if (before !== false) expect(wider[person]).toBe(before);
      }
    }
    expect(steps.at(-1)).not.toContain(false);
  });

  it("[FE-26] does not depend on the order in which flags are stored", () => {
    const flags = [
      flagDefinition({ id: 1, key: "a", filters: { groups: [condition([dependsOn("2", true)])] } }),
      flagDefinition({
        id: 2,
        key: "b",
        filters: { groups: [condition([dependsOn("3", "test")])] },
      }),
      flagDefinition({ id: 3, key: "c", filters: everyone({ multivariate: HALVES }) }),
      flagDefinition({
        id: 4,
        key: "d",
        filters: { groups: [condition([dependsOn("1", false)])] },
      }),
    ];
    fc.assert(
      fc.property(
        fc.shuffledSubarray(flags, { minLength: flags.length }),
        fc.string(),
        (shuffled, distinctId) => {
          const values = (given: readonly FlagDefinition[]) =>
            [...evaluate(given, { distinctId }).byKey]
              .map(([key, { value }]) => [key, value])
              .sort();
          expect(values(shuffled)).toEqual(values(flags));
        },
      ),
    );
  });
});

describe("properties", () => {
  const gold = { groups: [condition([filter("tier", "gold")])] };

  it("[FE-16] prefers what the request sends, then the address, then the store", () => {
    const stored = storedPerson({ tier: "gold", $geoip_country_code: "US" });
    const geoProperties = { $geoip_country_code: "NL" };
    expect(answer(gold, { stored }).value).toBe(true);
    expect(answer(gold, { stored, personProperties: { tier: "free" } }).value).toBe(false);
    expect(answer(gold, { personProperties: { tier: "gold" } }).value).toBe(true);
    const inCountry = (code: string) => ({
      groups: [condition([filter("$geoip_country_code", code)])],
    });
    expect(answer(inCountry("US"), { stored }).value).toBe(true);
    expect(answer(inCountry("NL"), { stored, geoProperties }).value).toBe(true);
    const sent = { $geoip_country_code: "FR" };
    expect(answer(inCountry("FR"), { stored, geoProperties, personProperties: sent }).value).toBe(
      true,
    );
    const open = { $geoip_country_code: null };
    expect(answer(inCountry("NL"), { stored, geoProperties, personProperties: open }).value).toBe(
      true,
    );
    expect(answer(inCountry("null"), { stored, personProperties: open }).value).toBe(true);
  });

  it("[FE-16] knows the distinct id as a property", () => {
    const filters = { groups: [condition([filter("distinct_id", "user-1")])] };
    expect(answer(filters).value).toBe(true);
    expect(answer(filters, { stored: storedPerson({ distinct_id: "other" }) }).value).toBe(true);
    expect(answer(filters, { personProperties: { distinct_id: "other" } }).value).toBe(false);
  });

  it("[FE-16] takes a first value from the present one where there is none", () => {
    const filters = { groups: [condition([filter("$initial_browser", "Firefox")])] };
    expect(answer(filters, { personProperties: { $browser: "Firefox" } }).value).toBe(true);
    expect(answer(filters, { stored: storedPerson({ $browser: "Firefox" }) }).value).toBe(true);
    const stored = storedPerson({ $initial_browser: "Chrome" });
    expect(answer(filters, { stored, personProperties: { $browser: "Firefox" } }).value).toBe(
      false,
    );
    const other = { groups: [condition([filter("$initial_email", "x")])] };
    expect(answer(other, { personProperties: { email: "x" } }).value).toBe(false);
  });

  it.each(["__proto__", "constructor", "toString", "hasOwnProperty", "valueOf"])(
    "[FE-17] takes %s for a key like any other",
    (key) => {
      const isSet = { groups: [condition([filter(key, "x", { operator: "is_set" })])] };
      const sent = JSON.parse(`{${JSON.stringify(key)}: "gold"}`) as JsonObject;
      const filters = { groups: [condition([filter(key, "gold")])] };
      expect(answer(isSet).value).toBe(false);
      expect(answer(isSet, { personProperties: sent }).value).toBe(true);
      expect(answer(filters, { personProperties: sent }).value).toBe(true);
      expect(answer(filters, { stored: storedPerson(sent) }).value).toBe(true);
      const groupFilter = filter(key, "gold", { type: "group", group_type_index: 0 });
      const group = { groups: [condition([groupFilter])], aggregation_group_type_index: 0 };
      const groupTypes = [{ index: 0, name: key }];
      const groups = JSON.parse(`{${JSON.stringify(key)}: "acme"}`) as Record<string, string>;
      const groupProperties = JSON.parse(
        `{${JSON.stringify(key)}: {${JSON.stringify(key)}: "gold"}}`,
      ) as Record<string, JsonObject>;
      expect(answer(group, {}, {}, { groupTypes }).reason.code).toBe("no_group_type");
      expect(answer(group, { groups }, {}, { groupTypes }).value).toBe(false);
      expect(answer(group, { groups, groupProperties }, {}, { groupTypes }).value).toBe(true);
    },
  );

  it("[FE-16] reads created_at from the person's row, never from a property of that name", () => {
    const filters = {
      groups: [
        condition([
          filter("created_at", "2023-06-01", {
            type: "person_metadata",
            operator: "is_date_after",
          }),
        ]),
      ],
    };
    expect(answer(filters, { stored: storedPerson({}) }).value).toBe(true);
    expect(answer(filters, { personProperties: { created_at: "2099-01-01" } }).value).toBe(false);
  });
});

describe("groups and identifiers", () => {
  const groupFlag = {
    aggregation_group_type_index: 0,
    groups: [
      condition([filter("$group_key", ["1", "8795"], { type: "group", group_type_index: 0 })]),
    ],
  };

  it("[FE-18] knows a group by its key", () => {
    const rest = { groupTypes: COMPANY };
    expect(answer(groupFlag, { groups: { company: "1" } }, {}, rest).value).toBe(true);
    const groupProperties = { company: { $group_key: "1" } };
    expect(answer(groupFlag, { groups: { company: "2" }, groupProperties }, {}, rest).value).toBe(
      false,
    );
    expect(answer(groupFlag, { groups: { company: "" } }, {}, rest).reason.code).toBe(
      "no_group_type",
    );
    expect(answer(groupFlag, { groups: { company: "1" } }).reason.code).toBe("no_group_type");
  });

  it("[FE-18] ignores properties of a group that was not sent", () => {
    const filters = {
      groups: [condition([filter("size", "big", { type: "group", group_type_index: 0 })])],
    };
    const groupProperties = { company: { size: "big" } };
    const rest = { groupTypes: COMPANY };
    expect(answer(filters, { groupProperties }, {}, rest).value).toBe(false);
    expect(answer(filters, { groupProperties, groups: { company: "a" } }, {}, rest).value).toBe(
      true,
    );
  });

  it("[FE-19] takes the group per condition: absent means the flag's, null means the person", () => {
    const rest = { groupTypes: COMPANY };
    const filters = (own: JsonObject) => ({
      aggregation_group_type_index: 0,
      groups: [condition([], own)],
    });
    expect(answer(filters({}), {}, {}, rest).reason.code).toBe("no_group_type");
    expect(answer(filters({ aggregation_group_type_index: null }), {}, {}, rest).value).toBe(true);
    const mixed = {
      groups: [
        condition([filter("plan", "pro")]),
        condition([filter("size", "big", { type: "group" })], { aggregation_group_type_index: 0 }),
      ],
    };
    const groupProperties = { company: { size: "big" } };
    expect(
      answer(mixed, { groups: { company: "a" }, groupProperties }, {}, rest).reason,
    ).toMatchObject({
      code: "condition_match",
      conditionIndex: 1,
    });
  });

  it("[FE-19] hashes the group's key for a condition on the group", () => {
    const filters = { aggregation_group_type_index: 0, ...everyone({ multivariate: HALVES }) };
    const rest = { groupTypes: COMPANY };
    const ofGroup = (company: string, distinctId: string) =>
      answer(filters, { distinctId, groups: { company } }, {}, rest).value;
    const person = (distinctId: string) =>
      answer(everyone({ multivariate: HALVES }), { distinctId }).value;
    for (let id = 0; id < 20; id += 1) {
      expect(ofGroup(`g${id}`, "someone")).toBe(person(`g${id}`));
      expect(ofGroup("g", `p${id}`)).toBe(ofGroup("g", "p"));
    }
  });

  it("[FE-20] hashes the device id where the flag says so", () => {
    const flag = { bucketingIdentifier: "device_id" } as const;
    const filters = everyone({ multivariate: HALVES });
    for (let id = 0; id < 20; id += 1) {
      const expected = answer(filters, { distinctId: `d${id}` }).value;
      expect(answer(filters, { distinctId: "p", deviceId: `d${id}` }, flag).value).toBe(expected);
      const personProperties = { $device_id: `d${id}` };
      expect(answer(filters, { distinctId: "p", personProperties }, flag).value).toBe(expected);
    }
  });

  it("[FE-20] withholds only what the missing device id would decide", () => {
    const flag = { bucketingIdentifier: "device_id" } as const;
    expect(answer(everyone(), {}, flag).value).toBe(true);
    expect(answer(everyone({ multivariate: HALVES }), {}, flag)).toMatchObject({
      value: false,
      reason: { code: "out_of_rollout_bound", conditionIndex: 0 },
    });
    const pinned = { groups: [condition([], { variant: "test" })], multivariate: HALVES };
    expect(answer(pinned, {}, flag).value).toBe("test");
    const whole = {
      variants: [
        { key: "none", rollout_percentage: 0 },
        { key: "all", rollout_percentage: 100 },
      ],
    };
    expect(answer(everyone({ multivariate: whole }), {}, flag).value).toBe("all");
    const staged = {
      early_exit: true,
      groups: [condition([], { rollout_percentage: 50 }), condition([])],
    };
    expect(answer(staged, {}, flag).value).toBe(true);
  });

  it("[FE-21] keeps the variant of the id before identification", () => {
    const flag = { ensureExperienceContinuity: true };
    const filters = everyone({ multivariate: HALVES });
    const of = (distinctId: string) => answer(filters, { distinctId }).value;
    const ids = Array.from({ length: 30 }, (_, id) => `anon-${id}`);
    for (const anonDistinctId of ids) {
      expect(answer(filters, { anonDistinctId }, flag).value).toBe(of(anonDistinctId));
      expect(answer(filters, { anonDistinctId }).value).toBe(of("user-1"));
      const stored = storedPerson({}, { hashKeyOverrides: { f: "kept" } });
      expect(answer(filters, { anonDistinctId, stored }, flag).value).toBe(of("kept"));
      expect(answer(filters, { stored }, flag).value).toBe(of("kept"));
    }
    expect(new Set(ids.map(of)).size).toBe(2);
  });

  it("[FE-21] uses what is stored for the person of the id before identification, after one's own", () => {
    const flag = { ensureExperienceContinuity: true };
    const filters = everyone({ multivariate: HALVES });
    const of = (distinctId: string) => answer(filters, { distinctId }).value;
    const keys = Array.from({ length: 10 }, (_, key) => `key-${key}`);
    for (const kept of keys) {
      const anonymousHashKeyOverrides = new Map([["f", kept]]);
      const nobody = { person: null, groups: {}, anonymousHashKeyOverrides };
      const other = { ...storedPerson({}), anonymousHashKeyOverrides };
      const own = {
        ...storedPerson({}, { hashKeyOverrides: { f: "own" } }),
        anonymousHashKeyOverrides,
      };
      const request = { anonDistinctId: "anon" };
      expect(answer(filters, { ...request, stored: nobody }, flag).value).toBe(of(kept));
      expect(answer(filters, { ...request, stored: other }, flag).value).toBe(of(kept));
      expect(answer(filters, { ...request, stored: own }, flag).value).toBe(of("own"));
    }
    expect(new Set(keys.map(of)).size).toBe(2);
  });

  it("[FE-21] never lets a stored id widen the targeting, nor decide for groups", () => {
    const flag = { ensureExperienceContinuity: true };
    const stored = storedPerson({ search: "other" }, { hashKeyOverrides: { f: "kept" } });
    const targeted = {
      groups: [condition([filter("search", ["v1", "v2"])])],
      multivariate: HALVES,
    };
    expect(answer(targeted, { stored }, flag).value).toBe(false);
    const grouped = { aggregation_group_type_index: 0, ...everyone({ multivariate: HALVES }) };
    for (let id = 0; id < 10; id += 1) {
      const request = { groups: { company: `g${id}` }, stored };
      const rest = { groupTypes: COMPANY };
      expect(answer(grouped, request, flag, rest).value).toBe(
        answer(grouped, request, {}, rest).value,
      );
    }
  });
});

describe("enrolment and holdouts", () => {
  it("[FE-22] lets enrolment decide alone, with the payload attached either way", () => {
    const filters = {
      groups: [condition([], { rollout_percentage: 0 })],
      feature_enrollment: true,
      payloads: { true: "1" },
    };
    const enrolled = (value: Json) =>
      answer(filters, { personProperties: { "$feature_enrollment/f": value } });
    const reason = {
      code: "super_condition_value",
      conditionIndex: 0,
      description: "Super condition value",
    };
    for (const value of [true, "true"]) {
      expect(enrolled(value)).toMatchObject({ value: true, payload: "1", reason });
    }
    for (const value of [false, "false", "TRUE", null, 1]) {
      expect(enrolled(value)).toMatchObject({ value: false, payload: "1", reason });
    }
    expect(answer(filters).reason.code).toBe("out_of_rollout_bound");
  });

  it("[FE-22] reads the older form from the first of its conditions", () => {
    const filters = {
      groups: [condition([])],
      super_groups: [condition([filter("$feature_enrollment/f", ["true"])]), condition([])],
    };
    const enrolled = (value: Json) =>
      answer(filters, { personProperties: { "$feature_enrollment/f": value } });
    expect(enrolled("true")).toMatchObject({
      value: true,
      reason: { code: "super_condition_value" },
    });
    expect(enrolled("false")).toMatchObject({
      value: false,
      reason: { code: "super_condition_value" },
    });
    expect(answer(filters).reason.code).toBe("condition_match");
    expect(answer({ ...filters, super_groups: [condition([])] }).reason.code).toBe(
      "condition_match",
    );
    const both = { ...filters, feature_enrollment: true };
    expect(answer(both, { personProperties: { "$feature_enrollment/f": "no" } }).value).toBe(false);
  });

  it("[FE-23] holds out before any condition, by either form", () => {
    const payloads = { "holdout-3": "held" };
    const newer = { groups: [], payloads, holdout: { id: 3, exclusion_percentage: 100 } };
    const older = {
      groups: [],
      payloads,
      holdout_groups: [{ variant: "holdout-3", rollout_percentage: 100 }],
    };
    for (const filters of [newer, older, { ...older, ...newer }]) {
      expect(answer(filters)).toMatchObject({
        value: "holdout-3",
        payload: "held",
        reason: { code: "holdout_condition_value", conditionIndex: null },
      });
    }
    const lifted = { ...older, ...everyone(), holdout: { id: 4, exclusion_percentage: -5 } };
    expect(answer(lifted).value).toBe(true);
  });

  it("[FE-23] holds the same people out of every flag, by anonymous but not by stored id", () => {
    const filters = everyone({ holdout: { id: 3, exclusion_percentage: 50 } });
    const flag = { ensureExperienceContinuity: true };
    for (let id = 0; id < 20; id += 1) {
      const plain = answer(filters, { distinctId: `p${id}` }).value;
      expect(answer(filters, { distinctId: `p${id}` }, { key: "other" }).value).toBe(plain);
      expect(answer(filters, { distinctId: "x", anonDistinctId: `p${id}` }, flag).value).toBe(
        plain,
      );
      const stored = storedPerson({}, { hashKeyOverrides: { f: "kept" } });
      expect(answer(filters, { distinctId: `p${id}`, stored }, flag).value).toBe(plain);
    }
  });
});

describe("cohorts and dependencies", () => {
  it("[FE-24] knows static members at once, and nobody else", () => {
    const rest = { cohorts: [staticCohort(5)] };
    const inside = { groups: [condition([cohortFilter(5)])] };
    const outside = { groups: [condition([cohortFilter(5, "not_in")])] };
    const stored = storedPerson({}, { staticCohortIds: [5] });
    expect(answer(inside, { stored }, {}, rest).value).toBe(true);
    expect(answer(outside, { stored }, {}, rest).value).toBe(false);
    expect(answer(inside, {}, {}, rest).value).toBe(false);
    expect(answer(outside, {}, {}, rest).value).toBe(true);
    const odd = { groups: [condition([cohortFilter(5, "exact")])] };
    expect(answer(odd, { stored }, {}, rest).value).toBe(false);
  });

  it("[FE-24] tests the person in a condition on a group", () => {
    const rest = {
      groupTypes: COMPANY,
      cohorts: [dynamicCohort(5, { type: "AND", values: [filter("plan", "pro")] })],
    };
    const filters = { aggregation_group_type_index: 0, groups: [condition([cohortFilter(5)])] };
    const request = { groups: { company: "a" }, personProperties: { plan: "pro" } };
    expect(answer(filters, request, {}, rest).value).toBe(true);
  });

  it("[FE-25] fails the flags that reach an undecidable cohort, and no others", () => {
    const cohorts = [
      dynamicCohort(1, { type: "OR", values: [{ type: "AND", values: [cohortFilter(2)] }] }),
      dynamicCohort(2, { type: "OR", values: [{ type: "AND", values: [cohortFilter(1)] }] }),
      dynamicCohort(3, { type: "OR", values: [{ type: "AND", values: [cohortFilter(1)] }] }),
      dynamicCohort(4, { type: "AND", values: [cohortFilter(99)] }),
      dynamicCohort(5, { type: "NEITHER", values: [] }),
      dynamicCohort(6, { type: "AND", values: [filter("a", "b", { operator: "resembles" })] }),
    ];
    const codes = [1, 2, 3, 4, 5, 6, 7].map((id) => {
      const flags = [
        flagDefinition({ id: 1, key: "f", filters: { groups: [condition([cohortFilter(id)])] } }),
        flagDefinition({ id: 2, key: "g", filters: everyone() }),
      ];
      const result = evaluate(flags, {}, { cohorts });
      expect(result.byKey.get("g")?.value).toBe(true);
      expect(result).toMatchObject({ errorsWhileComputing: true, failedKeys: ["f"] });
      expect(result.byKey.get("f")).toMatchObject({ value: false, failed: true, payload: null });
      return result.byKey.get("f")?.reason.code;
    });
    expect(codes).toEqual([
      "dependency_cycle_cohort",
      "dependency_cycle_cohort",
      "dependency_cycle_cohort",
      "dependency_not_found_cohort",
      "cohort_filters_parsing_error",
      "cohort_filters_parsing_error",
      "dependency_not_found_cohort",
    ]);
  });

  it("[FE-25] asks a cohort only when the other filters have passed", () => {
    const filters = { groups: [condition([cohortFilter(99), filter("a", "b")]), condition([])] };
    expect(answer(filters)).toMatchObject({ value: true, failed: false });
  });

  it("[FE-26] compares what another flag came to", () => {
    const target = flagDefinition({
      id: 7,
      key: "t",
      filters: { groups: [condition([], { variant: "test" })], multivariate: HALVES },
    });
    const value = (expected: Json, operator = "flag_evaluates_to", key = "7") =>
      evaluate([
        target,
        flagDefinition({
          id: 8,
          key: "f",
          filters: { groups: [condition([{ ...dependsOn(key, expected), operator }])] },
        }),
      ]).byKey.get("f")?.value;
    expect(value(true)).toBe(true);
    expect(value("test")).toBe(true);
    expect(value("test", "flag_evaluates_to", "t")).toBe(true);
    expect(value("Test")).toBe(false);
    expect(value(false)).toBe(false);
    expect(value(null)).toBe(false);
    expect(value("test", "exact")).toBe(false);
  });

  it("[FE-26] counts flags that are off or filtered out as false", () => {
    const dependent = flagDefinition({
      id: 8,
      key: "f",
      filters: { groups: [condition([dependsOn("7", false)])] },
    });
    const off = flagDefinition({ id: 7, key: "t", active: false, filters: everyone() });
    expect(evaluate([off, dependent]).byKey.get("f")?.value).toBe(true);
    expect(evaluate([off, dependent]).byKey.has("t")).toBe(false);
    const elsewhere = flagDefinition({
      id: 7,
      key: "t",
      evaluationRuntime: "client",
      filters: everyone(),
    });
    const selection = {
      keys: null,
      contexts: null,
      runtime: "server",
      onlySurveyFlags: false,
    } as const;
    expect(evaluate([elsewhere, dependent], { selection }).byKey.get("f")?.value).toBe(true);
  });

  it("[FE-26] matches nothing on a flag that failed", () => {
    const broken = flagDefinition({ id: 7, key: "t", filters: { groups: 5 } });
    for (const expected of [true, false, "x"]) {
      const dependent = flagDefinition({
        id: 8,
        key: "f",
        filters: { groups: [condition([dependsOn("7", expected)])] },
      });
      const result = evaluate([broken, dependent]);
      expect(result.byKey.get("f")).toMatchObject({ value: false, failed: false });
      expect(result.failedKeys).toEqual(["t"]);
    }
  });

  it("[FE-27] leaves out flags on a cycle and what depends on them, and says so", () => {
    const flag = (id: number, on: string) =>
      flagDefinition({
        id,
        key: `k${id}`,
        filters: { groups: [condition([dependsOn(on, true)]), condition([])] },
      });
    const result = evaluate([
      flag(1, "2"),
      flag(2, "1"),
      flag(3, "1"),
      flag(4, "4"),
      flagDefinition({ id: 5, key: "k5", filters: everyone() }),
    ]);
    expect([...result.byKey.keys()]).toEqual(["k5"]);
    expect(result.failedKeys).toEqual(["k1", "k2", "k3", "k4"]);
    expect(result.errorsWhileComputing).toBe(true);
  });

  it("[FE-27] is off, without an error, where a dependency does not exist, along the whole chain", () => {
    const flag = (id: number, on: string) =>
      flagDefinition({
        id,
        key: `k${id}`,
        filters: { groups: [condition([]), condition([dependsOn(on, true)])] },
      });
    const result = evaluate([flag(1, "99"), flag(2, "1"), flag(3, "2")]);
    for (const key of ["k1", "k2", "k3"]) {
      expect(result.byKey.get(key)).toMatchObject({
        value: false,
        failed: false,
        reason: { code: "missing_dependency", conditionIndex: null },
      });
    }
    expect(result.errorsWhileComputing).toBe(false);
  });
});

describe("selection", () => {
  const select = (
    flags: readonly FlagDefinition[],
    selection: Partial<EvaluationRequest["selection"]>,
  ) =>
    evaluate(flags, {
      selection: {
        keys: null,
        contexts: null,
        runtime: null,
        onlySurveyFlags: false,
        ...selection,
      },
    })
      .evaluations.map((each) => each.flag.key)
      .sort();

  it("[FE-28] evaluates named flags together with what they depend on", () => {
    const flags = [
      flagDefinition({ id: 1, key: "a", filters: { groups: [condition([dependsOn("2", true)])] } }),
      flagDefinition({ id: 2, key: "b", filters: { groups: [condition([dependsOn("3", true)])] } }),
      flagDefinition({ id: 3, key: "c", filters: everyone() }),
      flagDefinition({ id: 4, key: "d", filters: { groups: 7 } }),
    ];
    expect(select(flags, { keys: ["a", "unknown", "constructor"] })).toEqual(["a", "b", "c"]);
    expect(select(flags, { keys: ["c"] })).toEqual(["c"]);
    expect(select(flags, { keys: [] })).toEqual([]);
    const result = evaluate(flags, {
      selection: { keys: ["a"], contexts: null, runtime: null, onlySurveyFlags: false },
    });
    expect(result.byKey.get("a")?.value).toBe(true);
    expect(result.errorsWhileComputing).toBe(false);
  });

  it("[FE-28] keeps flags of the request's runtime, contexts and kind", () => {
    const flags = [
      flagDefinition({ id: 1, key: "all" }),
      flagDefinition({ id: 2, key: "client", evaluationRuntime: "client" }),
      flagDefinition({ id: 3, key: "server", evaluationRuntime: "server" }),
      flagDefinition({ id: 4, key: "shop", evaluationContexts: ["shop", "app"] }),
      flagDefinition({ id: 5, key: "survey", isSurveyFlag: true }),
      flagDefinition({ id: 6, key: "off", active: false }),
    ];
    expect(select(flags, {})).toEqual(["all", "shop", "survey"]);
    expect(select(flags, { runtime: "client" })).toEqual(["all", "client", "shop", "survey"]);
    expect(select(flags, { contexts: ["docs"] })).toEqual(["all", "survey"]);
    expect(select(flags, { contexts: ["docs", "app"] })).toEqual(["all", "shop", "survey"]);
    expect(select(flags, { onlySurveyFlags: true })).toEqual(["survey"]);
  });
});

describe("failures", () => {
  it("[FE-29] fails only flags that reach a fact that could not be read", () => {
    const flags = [
      flagDefinition({ id: 1, key: "plain", filters: everyone() }),
      flagDefinition({
        id: 2,
        key: "sent",
        filters: { groups: [condition([filter("plan", "pro")])] },
      }),
      flagDefinition({
        id: 3,
        key: "stored",
        filters: { groups: [condition([filter("tier", "gold")])] },
      }),
      flagDefinition({ id: 4, key: "cohort", filters: { groups: [condition([cohortFilter(5)])] } }),
      flagDefinition({
        id: 5,
        key: "created",
        filters: {
          groups: [
            condition([
              filter("created_at", "1d", { type: "person_metadata", operator: "is_date_after" }),
            ]),
          ],
        },
      }),
      flagDefinition({
        id: 6,
        key: "group",
        filters: {
          aggregation_group_type_index: 0,
          groups: [condition([filter("size", "big", { type: "group" })])],
        },
      }),
      flagDefinition({
        id: 7,
        key: "initial",
        filters: { groups: [condition([filter("$initial_browser", "x")])] },
      }),
      flagDefinition({ id: 8, key: "enrolling", filters: everyone({ feature_enrollment: true }) }),
      flagDefinition({
        id: 9,
        key: "super",
        filters: everyone({ super_groups: [condition([filter("e", "true")])] }),
      }),
      flagDefinition({
        id: 10,
        key: "decided",
        filters: {
          groups: [condition([filter("plan", "pro")]), condition([filter("tier", "gold")])],
        },
      }),
      flagDefinition({
        id: 11,
        key: "id",
        filters: { groups: [condition([filter("distinct_id", "user-1")])] },
      }),
      flagDefinition({
        id: 12,
        key: "group-key",
        filters: {
          aggregation_group_type_index: 0,
          groups: [condition([filter("$group_key", "a", { type: "group" })])],
        },
      }),
    ];
    const result = evaluate(
      flags,
      {
        stored: UNREADABLE,
        personProperties: { plan: "pro", $browser: "x" },
        groups: { company: "a" },
      },
      { cohorts: [staticCohort(5)], groupTypes: COMPANY },
    );
    expect(result.failedKeys).toEqual([
      "stored",
      "cohort",
      "created",
      "group",
      "initial",
      "enrolling",
      "super",
    ]);
    for (const key of result.failedKeys) {
      expect(result.byKey.get(key)).toMatchObject({
        value: false,
        failed: true,
        payload: null,
        reason: { code: "database_error" },
      });
    }
    for (const key of ["plain", "sent", "decided", "id", "group-key"]) {
      expect([key, result.byKey.get(key)?.value]).toEqual([key, true]);
    }
  });

  it("[FE-29] fails a continuity flag whose stored hash key is unknown, if the hash decides", () => {
    const flag = { ensureExperienceContinuity: true };
    const person = storedPerson({}).person;
    if (person === null || person === "unavailable") throw new Error("expected a person");
    const stored: StoredFacts = {
      person: { ...person, hashKeyOverrides: "unavailable" },
      groups: {},
    };
    const anonymous: StoredFacts = {
      ...storedPerson({}, { hashKeyOverrides: { f: "kept" } }),
      anonymousHashKeyOverrides: "unavailable",
    };
    for (const given of [stored, anonymous, UNREADABLE]) {
      expect(answer(everyone({ multivariate: HALVES }), { stored: given }, flag)).toMatchObject({
        failed: true,
        reason: { code: "hash_key_override_error" },
      });
      expect(answer(everyone(), { stored: given }, flag).value).toBe(true);
    }
  });

  it.each([
    { groups: 5 },
    { groups: [null] },
    { groups: [condition([], { rollout_percentage: "50" })] },
    { groups: [condition([], { variant: 3 })] },
    { groups: [condition([], { aggregation_group_type_index: "0" })] },
    { groups: [{ properties: {} }] },
    { groups: [condition([filter("a", "b", { operator: "resembles" })])] },
    { groups: [condition([filter("a", "b", { type: "event" })])] },
    { groups: [condition([{ value: "b", type: "person" }])] },
    { groups: [condition([cohortFilter(Number.NaN)])] },
    { groups: [], version: 2 },
    { groups: [], payloads: [] },
    { groups: [], multivariate: { variants: [{ key: "a" }] } },
    { groups: [], holdout: { id: 1 } },
  ] as JsonObject[])("[FE-30] fails alone for the unreadable definition %j", (filters) => {
    const result = evaluate([
      flagDefinition({ id: 1, key: "broken", filters }),
      flagDefinition({ id: 2, key: "fine", filters: everyone() }),
    ]);
    expect(result.byKey.get("broken")).toMatchObject({
      value: false,
      failed: true,
      reason: { code: "flag_data_parsing_error" },
    });
    expect(result.byKey.get("fine")?.value).toBe(true);
    expect(result.failedKeys).toEqual(["broken"]);
  });

  it("[FE-30] never throws, whatever JSON the filters, cohorts and properties are", () => {
    const key = fc.constantFrom(
      ...["groups", "properties", "type", "key", "value", "operator", "variant", "payloads", "id"],
      ...["multivariate", "variants", "rollout_percentage", "holdout", "super_groups", "values"],
      ...["holdout_groups", "feature_enrollment", "__proto__", "negation", "group_type_index"],
    );
    const scalar = fc.constantFrom<Json>(
      ...[null, true, false, 0, 1, 50, -1, 1e21, "", "true", "x", "person", "cohort", "flag"],
      ...["exact", "regex", "gt", "between", "is_date_after", "semver_gt", "in", "AND", "OR", "1"],
    );
    const { json } = fc.letrec<{ json: Json }>((tie) => ({
      json: fc.oneof(
        { depthSize: "medium", withCrossShrink: true },
        scalar,
        fc.array(tie("json"), { maxLength: 3 }),
        fc
          .array(fc.tuple(key, tie("json")), { maxLength: 6 })
          .map((entries) => Object.fromEntries(entries) as Json),
      ),
    }));
    const object = fc
      .array(fc.tuple(key, json), { maxLength: 6 })
      .map((entries) => Object.fromEntries(entries) as JsonObject);
    fc.assert(
      fc.property(
        fc.array(object, { maxLength: 3 }),
        fc.array(object, { maxLength: 2 }),
        object,
        (filters, cohorts, personProperties) => {
          const result = evaluate(
            filters.map((each, at) => flagDefinition({ id: at, key: `k${at}`, filters: each })),
            { personProperties, groups: { company: "a" } },
            { cohorts: cohorts.map((each, at) => ({ ...dynamicCohort(at, null), filters: each })) },
          );
          expect(result.faults).toEqual([]);
          expect(result.evaluations.length + result.failedKeys.length).toBeGreaterThanOrEqual(
            filters.length,
          );
        },
      ),
      { numRuns: 300 },
    );
  });

  it("[FE-30] never throws, whatever values well-formed filters compare", () => {
    const operator = fc.constantFrom(
      ...["exact", "is_not", "is_set", "icontains_multi", "regex", "not_regex", "gt", "between"],
      ...["not_between", "is_date_exact", "is_date_before", "semver_eq", "semver_caret"],
      ...["semver_wildcard", "semver_tilde", "in", "flag_evaluates_to", "starts_with"],
    );
    fc.assert(
      fc.property(operator, fc.jsonValue(), fc.jsonValue(), (name, value, property) => {
        const filters = {
          groups: [condition([filter("a", value as Json, { operator: name })])],
        };
        const result = evaluate([flagDefinition({ key: "f", filters })], {
          personProperties: { a: property as Json },
        });
        expect(result.faults).toEqual([]);
        expect(result.evaluations).toHaveLength(1);
      }),
      { numRuns: 500 },
    );
  });

  it("[FE-30] answers the other flags when one hits a bug of ours", () => {
    const faulty: CompileTools = {
      bucketing: {
        ...createSha1Bucketing(),
        hash: () => {
          throw new Error("bug");
        },
      },
    };
    const flags = [
      flagDefinition({ id: 1, key: "hashed", filters: everyone({ multivariate: HALVES }) }),
      flagDefinition({ id: 2, key: "plain", filters: everyone() }),
    ];
    const result = evaluate(flags, {}, {}, faulty);
    expect(result.byKey.get("plain")?.value).toBe(true);
    expect(result.byKey.get("hashed")?.reason.code).toBe("evaluation_fault");
    expect(result.faults.map(({ key }) => key)).toEqual(["hashed"]);
  });
});

describe("answers", () => {
  it("[FE-31] carries the stored payload of the value, and none for an empty text", () => {
    const filters = (variant: string | null) => ({
      groups: [condition([], { variant })],
      multivariate: HALVES,
      payloads: { control: '{"a":1}', test: "", true: "9" },
    });
    expect(answer(filters("control")).payload).toBe('{"a":1}');
    expect(answer(filters("test")).payload).toBeNull();
    expect(answer(everyone({ payloads: { true: { a: 1 } } })).payload).toEqual({ a: 1 });
    expect(answer({ groups: [], payloads: { true: "1" } }).payload).toBeNull();
  });

  it("[FE-40] is the same object for the same outcome", () => {
    const set = compileFlags(
      projectOf([flagDefinition({ key: "f", filters: everyone({ multivariate: HALVES }) })]),
    );
    const seen = new Set<unknown>();
    for (let id = 0; id < 200; id += 1) {
      seen.add(evaluateFlags(set, evaluationRequest({ distinctId: `p${id}` })).evaluations[0]);
    }
    expect(seen.size).toBe(2);
  });
});

describe("filters that several flags share", () => {
  const flags = [
    flagDefinition({ id: 1, key: "a", filters: { groups: [condition([filter("plan", "pro")])] } }),
    flagDefinition({
      id: 2,
      key: "b",
      filters: {
        groups: [
          condition([filter("plan", "pro"), filter("seats", "5", { operator: "gt" })]),
          condition([filter("plan", "free")], { rollout_percentage: 0 }),
        ],
      },
    }),
    flagDefinition({
      id: 3,
      key: "c",
      filters: { groups: [condition([filter("plan", "pro", { operator: "is_not" })])] },
    }),
  ];
  const request = fc.record({
    personProperties: fc.record(
      { plan: fc.constantFrom<Json>("pro", "free", "Pro", null), seats: fc.constantFrom(4, 6) },
      { requiredKeys: [] },
    ),
    stored: fc.constantFrom<StoredFacts>(UNREADABLE, { person: null, groups: {} }),
  });

  it("[FE-50] answer each request as if every flag had filters of its own", () => {
    const together = compileFlags(projectOf(flags));
    const alone = flags.map((flag) => compileFlags(projectOf([flag])));
    fc.assert(
      fc.property(fc.array(request, { minLength: 2, maxLength: 5 }), (requests) => {
        for (const one of requests.map(evaluationRequest)) {
          const answers = evaluateFlags(together, one).evaluations;
          const expected = alone.flatMap((set) => evaluateFlags(set, one).evaluations);
          expect(answers).toEqual(expected);
        }
      }),
    );
  });

  it("[FE-50] are compiled once, also by a change that brings the same filter again", () => {
    const [first, ...others] = flags;
    if (first === undefined) throw new Error("no flag");
    const before = compileFlags(projectOf([first]));
    const after = compileFlags(projectOf([...others, first]), {}, before);
    const [shared] = before.byKey.get("a")?.conditions[0]?.filters ?? [];
    expect(after.byKey.get("b")?.conditions[0]?.filters[0]).toBe(shared);
    expect([...after.personFilters.keys()]).toHaveLength(4);
    expect(compileFlags(projectOf([]), {}, after).personFilters.size).toBe(0);
  });
});
