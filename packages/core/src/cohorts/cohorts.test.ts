import { describe, expect, it } from "vitest";
import type { CohortDefinition } from "../flags/flag.ts";
import {
  dynamicCohort,
  evaluationRequest,
  projectOf,
  staticCohort,
  storedPerson,
  TRUSTING_PATTERNS,
} from "../flags/golden-cases.setup.ts";
import { PersonView, UNAVAILABLE } from "../flags/person-view.ts";
import { createTimeZone } from "../flags/zoned-date.ts";
import type { Json, JsonObject } from "../json.ts";
import { compileCohorts } from "./compile-cohorts.ts";
import { matchCohort } from "./match-cohort.ts";
import { validateCohortFilters } from "./validate-cohort.ts";

const tools = { timeZone: createTimeZone("UTC"), backtracking: TRUSTING_PATTERNS };

function leaf(key: string, value: Json, rest: JsonObject = {}): JsonObject {
  return { key, value, operator: "exact", type: "person", ...rest };
}

function cohortLeaf(id: number, rest: JsonObject = {}): JsonObject {
  return { key: "id", value: id, type: "cohort", ...rest };
}

function all(...values: readonly Json[]): JsonObject {
  return { type: "AND", values };
}

function any(...values: readonly Json[]): JsonObject {
  return { type: "OR", values };
}

function isMember(
  cohorts: readonly CohortDefinition[],
  personProperties: JsonObject,
  stored = storedPerson({}),
) {
  const compiled = compileCohorts(cohorts, tools);
  const first = compiled.get(cohorts[0]?.id ?? Number.NaN);
  if (first === undefined) throw new Error("no cohort given");
  expect(first.failure).toBeNull();
  const person = new PersonView(evaluationRequest({ personProperties, stored }));
  return matchCohort(first, compiled, person);
}

describe("cohorts", () => {
  it("[FE-24] matches outer and inner groups of leaves", () => {
    const cohort = dynamicCohort(
      1,
      any(all(leaf("a", "1"), leaf("b", "2")), { type: "property", values: [leaf("c", "3")] }),
    );
    expect(isMember([cohort], { a: 1, b: 2 })).toBe(true);
    expect(isMember([cohort], { a: 1 })).toBe(false);
    expect(isMember([cohort], { c: "3" })).toBe(true);
    expect(isMember([cohort], {})).toBe(false);
  });

  it("[FE-24] matches groups nested deeper than two levels, and leaves without an inner group", () => {
    const cohort = dynamicCohort(
      1,
      all(leaf("a", "1"), any(all(any(leaf("b", "2"), leaf("c", "3"))))),
    );
    expect(isMember([cohort], { a: "1", c: "3" })).toBe(true);
    expect(isMember([cohort], { a: "1" })).toBe(false);
  });

  it("[FE-24] holds nobody where there is no rule", () => {
    for (const properties of [null, {}, any(), any(all()), all(any(), leaf("a", "1"))]) {
      expect(isMember([dynamicCohort(1, properties)], { a: "1" })).toBe(false);
    }
    expect(isMember([{ ...dynamicCohort(1, null), filters: {} }], {})).toBe(false);
  });

  it("[FE-24] negates a leaf after an error has become no match", () => {
    const cohort = dynamicCohort(1, any(all(leaf("n", "5", { operator: "gt", negation: true }))));
    expect(isMember([cohort], { n: "word" })).toBe(true);
    expect(isMember([cohort], { n: 6 })).toBe(false);
    expect(isMember([cohort], {})).toBe(true);
  });

  it("[FE-24] compares stored numbers with rules given as text", () => {
    const cohort = dynamicCohort(1, all(leaf("tenant_id", "100000000", { operator: "lt" })));
    expect(isMember([cohort], {}, storedPerson({ tenant_id: 3426 }))).toBe(true);
  });

  it("[FE-24] applies the negation of a nested cohort in an AND group, not in an OR group", () => {
    const inner = dynamicCohort(2, all(leaf("a", "1")));
    const nested = (group: JsonObject) => [dynamicCohort(1, any(group)), inner];
    expect(isMember(nested(all(cohortLeaf(2, { negation: true }))), { a: "1" })).toBe(false);
    expect(isMember(nested(all(cohortLeaf(2, { negation: true }))), {})).toBe(true);
    expect(isMember(nested(any(cohortLeaf(2, { negation: true }))), { a: "1" })).toBe(true);
    expect(isMember(nested(all(cohortLeaf(2, { operator: "not_in" }))), { a: "1" })).toBe(false);
    expect(
      isMember(nested(all(cohortLeaf(2, { operator: "not_in", negation: true }))), { a: "1" }),
    ).toBe(true);
  });

  it("[FE-25] looks up who is in a cohort that asks for past behavior, as for a static one", () => {
    const behavior = dynamicCohort(
      1,
      any(any({ type: "behavioral", key: "$pageview", negation: true }), all(leaf("a", "1"))),
    );
    expect(isMember([behavior], { a: "1" })).toBe(false);
    expect(isMember([behavior], {}, storedPerson({}, { staticCohortIds: [1] }))).toBe(true);
    const outside = dynamicCohort(2, all(cohortLeaf(1, { operator: "not_in" })));
    expect(isMember([outside, behavior], {})).toBe(true);
    expect(isMember([outside, behavior], {}, storedPerson({}, { staticCohortIds: [1] }))).toBe(
      false,
    );
  });

  it("[FE-25] evaluates long chains of cohorts", () => {
    const length = 20_000;
    const chain = Array.from({ length }, (_, at) =>
      at === length - 1
        ? dynamicCohort(at, all(leaf("a", "1")))
        : dynamicCohort(at, all(cohortLeaf(at + 1))),
    );
    const compiled = compileCohorts(chain, tools);
    expect(compiled.get(0)?.failure).toBeNull();
    expect(compiled.get(0)?.needs.personProperties.map((property) => property.text)).toEqual(["a"]);
  });

  it("[FE-29] says so when a stored fact could not be read", () => {
    const unreadable = { person: "unavailable", groups: {} } as const;
    expect(isMember([staticCohort(1)], {}, unreadable)).toBe(UNAVAILABLE);
    const cohort = dynamicCohort(1, any(all(leaf("a", "1", { negation: true }))));
    expect(isMember([cohort], {}, unreadable)).toBe(UNAVAILABLE);
    expect(isMember([cohort], { a: "1" }, unreadable)).toBe(false);
  });
});

describe("validation of cohorts", () => {
  const definitions = projectOf([], {
    cohorts: [
      dynamicCohort(1, all(leaf("a", "1"))),
      dynamicCohort(2, all(cohortLeaf(1))),
      dynamicCohort(3, all(cohortLeaf(2))),
      staticCohort(4),
    ],
  });

  function problems(properties: Json, id: number | null = 1) {
    return validateCohortFilters({ properties }, { definitions, id }).map(
      ({ attr, code, detail }) => `${attr} ${code} ${detail}`,
    );
  }

  it.each([
    [null],
    [{}],
    [any()],
    [any(all(leaf("a", "1"), leaf("b", ["x", 2], { negation: true })))],
    [all(cohortLeaf(4), any(all(leaf("n", 5, { operator: "gte" }))))],
    [any({ type: "behavioral", key: "$pageview", value: "performed_event" })],
  ] as [Json][])("[FE-39] passes %j", (properties) => {
    expect(problems(properties)).toEqual([]);
  });

  it.each([
    [[], "filters invalid_input properties must be an object"],
    [{ type: "OR", values: {} }, "filters invalid_input values must be a list"],
    [{ type: "OR", values: [5] }, "filters invalid_input every entry of values must be an object"],
    [
      { type: "XOR", values: [] },
      'filters invalid_input a group\'s type must be AND or OR, not "XOR"',
    ],
    [
      any(leaf("a", "1", { operator: "resembles" })),
      "filters invalid_operator Invalid operator: resembles",
    ],
    [
      any(leaf("a", "many", { operator: "gt" })),
      "filters invalid_value Invalid value for operator gt: many",
    ],
    [any({ type: "person", value: "1" }), "filters invalid_input a condition needs a key"],
    [
      any(leaf("a", "1", { type: "group" })),
      'filters invalid_input conditions of type "group" are not supported',
    ],
    [any(cohortLeaf(99)), "filters cohort_does_not_exist Cohort with id 99 does not exist"],
    [
      any({ type: "cohort", value: "x" }),
      "filters invalid_input a cohort condition's value must be a cohort id",
    ],
    [
      any(cohortLeaf(1)),
      "filters invalid_input Cohorts cannot reference other cohorts in a loop: this cohort → this cohort (ID: 1).",
    ],
    [
      any(cohortLeaf(3)),
      "filters invalid_input Cohorts cannot reference other cohorts in a loop: this cohort → cohort 3 (ID: 3) → cohort 2 (ID: 2) → this cohort (ID: 1).",
    ],
    [
      any({ type: "event", key: "$pageview" }),
      'filters invalid_input conditions of type "event" are not supported',
    ],
    ...(
      [
        [{ value: "performed_event_at_night" }, "behavioral conditions of kind"],
        [{ event_type: "actions" }, 'event_type must be "events", not "actions"'],
        [{ key: 7 }, "a behavioral condition needs a key"],
        [{ time_value: "many" }, "time_value must be a whole number from 1 to 9999"],
        [{ time_value: 0 }, "time_value must be a whole number from 1 to 9999"],
        [{ time_value: 1, time_interval: "fortnight" }, "time_interval must be minute"],
        [{ explicit_datetime: "soon" }, "explicit_datetime is no date"],
        [{ explicit_datetime: "-1d", explicit_datetime_to: 5 }, "explicit_datetime_to is no date"],
        [
          { value: "performed_event_multiple", operator: "gte", operator_value: 0 },
          "operator_value must be a whole number from 1",
        ],
        [
          { value: "performed_event_multiple", operator: "about", operator_value: 2 },
          'Invalid operator: "about"',
        ],
        [
          { value: "performed_event_multiple", operator: "lt", operator_value: 1 },
          "operator lt needs an operator_value of at least 2",
        ],
        [{ event_filters: "a" }, "event_filters must be a list"],
        [{ event_filters: [{ key: "a", operator: "resembles" }] }, "event_filters on a: Invalid"],
        [{ event_filters: [{ key: "a", type: "person" }] }, "event_filters of type"],
      ] as [JsonObject, string][]
    ).map(([parts, expected]) => [
      any({ type: "behavioral", key: "bought", value: "performed_event", ...parts }),
      `filters invalid_input ${expected}`,
    ]),
  ] as [Json, string][])("[FE-39] refuses %j", (properties, expected) => {
    expect(problems(properties)[0]?.slice(0, expected.length)).toBe(expected);
  });

  it.each([
    [
      any(all({ key: "a", type: "person", vlaue: "b" })),
      "filters.properties.values[0].values[0].vlaue is not a known field. Did you mean value?",
    ],
    [
      any({ kye: "a", value: "b" }),
      "filters.properties.values[0].kye is not a known field. Did you mean key?",
    ],
    [
      any({ type: "behavioral", key: "bought", value: "performed_event", timeValue: 7 }),
      "filters.properties.values[0].timeValue is not a known field. Did you mean time_value?",
    ],
    [
      any({ type: "behavioral", key: "bought", event_filters: [{ key: "a", opperator: "gt" }] }),
      "filters.properties.values[0].event_filters[0].opperator is not a known field. Did you mean operator?",
    ],
    [
      { type: "OR", valeus: [] },
      "filters.properties.valeus is not a known field. Did you mean values?",
    ],
  ] as [Json, string][])("[CO-30] refuses %j", (properties, expected) => {
    expect(problems(properties)[0]).toBe(`filters invalid_input ${expected}`);
  });

  it("[CO-30] refuses misspelt properties, and passes what PostHog adds", () => {
    const context = { definitions, id: null };
    expect(validateCohortFilters({ propertes: any(leaf("a", "b")) }, context)).toMatchObject([
      { detail: "filters.propertes is not a known field. Did you mean properties?" },
    ]);
    const added = { bytecode: [], conditionHash: "x", seq_time_value: null, note: "n" };
    const properties = { ...any(all(leaf("a", "b", added))), id: "g" };
    expect(validateCohortFilters({ properties }, context)).toEqual([]);
  });

  it("[FE-39] refuses a cohort of a size that would hold up everybody", () => {
    const leaves = (count: number) => any(...Array.from({ length: count }, () => leaf("a", "b")));
    expect(problems(leaves(5_999))).toEqual([]);
    const detail = "A cohort cannot have more than 6000 groups and conditions.";
    expect(problems(leaves(6_000))).toEqual([`filters invalid_input ${detail}`]);
    const event = { event_filters: Array(6_000).fill(leaf("a", "b")) };
    expect(problems(any(leaf("a", "b", event)))).toEqual([`filters invalid_input ${detail}`]);
  });

  it("[FE-51] bounds what the patterns of a cohort weigh together, those on events included", () => {
    const simple = Array.from({ length: 1_000 }, (_, at) =>
      leaf("mail", `^user_${at}\\d+@example\\.(com|org)$`, { operator: "regex" }),
    );
    expect(problems(any(...simple))).toEqual([]);
    const heavy = Array.from({ length: 200 }, (_, at) =>
      leaf("s", `((a{1,50}){1,5}b|[^c]{3,9}x){1,9}${at}`, { operator: "regex" }),
    );
    expect(problems(any(...heavy))).toEqual([
      expect.stringMatching(
        /^filters invalid_input filters\.properties\.values\[37\]: the regular expressions of a cohort cannot be larger/,
      ),
    ]);
    const viewed = heavy.slice(0, 40).map(({ value = "" }) => ({
      key: "$pageview",
      type: "behavioral",
      event_filters: [{ key: "s", type: "event", operator: "regex", value }],
    }));
    expect(problems(any(...viewed))).toEqual([
      expect.stringContaining("filters.properties.values[37].event_filters[0]: the regular"),
    ]);
  });

  it("[FE-39] bounds the nesting of groups", () => {
    let nested: JsonObject = leaf("a", "1");
    for (let depth = 0; depth < 100; depth += 1) nested = any(nested);
    expect(problems(nested)[0]).toContain("nested deeper");
  });
});
