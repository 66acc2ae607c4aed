import { describe, expect, it } from "vitest";
import { compileFlags } from "./compile-flags.ts";
import { evaluateFlags } from "./evaluate-flags.ts";
import type { FlagDefinition } from "./flag.ts";
import {
  dynamicCohort,
  evaluationRequest,
  flagDefinition,
  projectOf,
  staticCohort,
} from "./golden-cases.setup.ts";

const rollout = (percentage: number) => ({
  groups: [{ properties: [], rollout_percentage: percentage }],
});

function flag(key: string, id: number, filters = rollout(100)): FlagDefinition {
  return flagDefinition({ key, id, filters });
}

const values = (set: ReturnType<typeof compileFlags>) =>
  new Map(
    evaluateFlags(set, evaluationRequest({})).evaluations.map(({ flag: { key }, value }) => [
      key,
      value,
    ]),
  );

describe("compiling after a change", () => {
  it("[FE-49] keeps flags whose definition is the same and takes in those that changed", () => {
    const [a, b] = [flag("a", 1), flag("b", 2)];
    const before = compileFlags(projectOf([a, b]));
    const after = compileFlags(projectOf([a, flag("b", 2, rollout(0)), flag("c", 3)]), {}, before);
    expect(after.byKey.get("a")).toBe(before.byKey.get("a"));
    expect(values(after)).toEqual(
      new Map([
        ["a", true],
        ["b", false],
        ["c", true],
      ]),
    );
  });

  it("[FE-49] compiles the flags that read a changed cohort, also one inside others, and no others", () => {
    const reading = (key: string, id: number, cohortId: number) =>
      flagDefinition({
        key,
        id,
        filters: {
          groups: [{ properties: [{ key: "id", type: "cohort", value: cohortId }] }],
        },
      });
    const rule = (id: number, value: string) =>
      dynamicCohort(id, {
        type: "AND",
        values: [{ key: "plan", type: "person", operator: "exact", value }],
      });
    const outer = dynamicCohort(2, {
      type: "AND",
      values: [{ key: "id", type: "cohort", value: 1 }],
    });
    const flags = [reading("inner", 1, 1), reading("outer", 2, 2), reading("other", 3, 3)];
    const other = rule(3, "free");
    const before = compileFlags(projectOf(flags, { cohorts: [rule(1, "pro"), outer, other] }));
    const after = compileFlags(
      projectOf(flags, { cohorts: [rule(1, "team"), outer, other] }),
      {},
      before,
    );
    const isKept = (key: string) => after.byKey.get(key) === before.byKey.get(key);
    expect(["inner", "outer", "other"].map(isKept)).toEqual([false, false, true]);
    expect(after.cohorts.get(3)).toBe(before.cohorts.get(3));
    const removed = compileFlags(projectOf(flags, { cohorts: [outer, other] }), {}, after);
    expect(removed.byKey.get("other")).toBe(before.byKey.get("other"));
    expect(removed.cohorts.get(2)?.failure).toBe("dependency_not_found_cohort");
    const added = compileFlags(
      projectOf(flags, { cohorts: [rule(1, "pro"), outer, other] }),
      {},
      removed,
    );
    expect(added.cohorts.get(2)?.failure).toBeNull();
  });

  it("[FE-49] sees what changed around a kept flag: the flags and cohorts it refers to", () => {
    const dependant = flagDefinition({
      key: "dependant",
      id: 2,
      filters: {
        groups: [
          {
            properties: [{ key: "1", type: "flag", operator: "flag_evaluates_to", value: true }],
            rollout_percentage: 100,
          },
        ],
      },
    });
    const inCohort = flagDefinition({
      key: "member",
      id: 3,
      filters: {
        groups: [
          { properties: [{ key: "id", type: "cohort", value: 7 }], rollout_percentage: 100 },
        ],
      },
    });
    const rule = dynamicCohort(7, {
      type: "AND",
      values: [{ key: "plan", type: "person", operator: "is_not_set", value: "is_not_set" }],
    });
    const before = compileFlags(
      projectOf([flag("base", 1), dependant, inCohort], { cohorts: [rule] }),
    );
    expect(values(before)).toEqual(
      new Map([
        ["base", true],
        ["dependant", true],
        ["member", true],
      ]),
    );
    const after = compileFlags(
      projectOf([flag("base", 1, rollout(0)), dependant, inCohort], { cohorts: [staticCohort(7)] }),
      {},
      before,
    );
    expect(values(after)).toEqual(
      new Map([
        ["base", false],
        ["dependant", false],
        ["member", false],
      ]),
    );
  });

  it("[FE-51] compiles no pattern of what is stored, however many, until it is run, and then few", () => {
    const properties = Array.from({ length: 2_000 }, (_, at) => ({
      key: "s",
      type: "person",
      operator: "not_regex",
      value: `((a{1,50}){1,5}b|[^c]{3,9}x){1,9}${at}`,
    }));
    let compiledCount = 0;
    const compilePattern = () => {
      compiledCount += 1;
      return { test: () => false };
    };
    const set = compileFlags(
      projectOf([flagDefinition({ key: "heavy", id: 1, filters: { groups: [{ properties }] } })], {
        cohorts: [dynamicCohort(2, { type: "OR", values: properties })],
      }),
      { compilePattern },
    );
    expect(compiledCount).toBe(0);
    const { evaluations } = evaluateFlags(set, evaluationRequest({ personProperties: { s: "x" } }));
    expect(evaluations.map(({ value }) => value)).toEqual([false]);
    expect(compiledCount).toBeGreaterThan(100);
    expect(compiledCount).toBeLessThan(200);
  });
});
