import type { Json, JsonObject } from "@hedgerow/core/json";
import { describe, expect, test } from "vitest";
import { namesFlag, referencesOf } from "./definition-references.ts";

const flag = (key: Json) => ({ type: "flag", key, operator: "flag_evaluates_to", value: true });
const cohort = (value: Json, type = "cohort") => ({ type, key: "id", value });

describe("what a definition names", () => {
  test("conditions and super groups of a flag name flags and cohorts", () => {
    const { flagNames, cohortIds } = referencesOf({
      groups: [
        { properties: [flag("7"), cohort(1), { type: "person", key: "9", value: 9 }] },
        { properties: [cohort("2", "static-cohort")] },
      ],
      super_groups: [{ properties: [cohort(3)] }],
    });
    expect([...flagNames]).toEqual(["7"]);
    expect([...cohortIds]).toEqual([1, 2, 3]);
  });

  test("a cohort names others at every depth", () => {
    const properties = {
      type: "OR",
      values: [{ type: "AND", values: [cohort(1), { type: "AND", values: [cohort(2)] }] }],
    };
    expect([...referencesOf({ properties }).cohortIds]).toEqual([1, 2]);
  });

  test.each([
    [{}],
    [{ groups: null }],
    [{ groups: [null, 1, "x", []] }],
    [{ groups: [{ properties: [cohort("x"), cohort(null), cohort(1.5), cohort({})] }] }],
  ])("%j names nothing", (filters) => {
    expect(referencesOf(filters as JsonObject)).toEqual({
      flagNames: new Set(),
      cohortIds: new Set(),
    });
  });

  test("a flag is named by its id and by its key", () => {
    const base = { id: 7, key: "base" };
    const naming = (key: Json) => namesFlag({ groups: [{ properties: [flag(key)] }] }, base);
    expect([naming("7"), naming(7), naming("base"), naming("8"), naming("Base")]).toEqual([
      true,
      true,
      true,
      false,
      false,
    ]);
  });
});
