import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { JsonObject } from "../json.ts";
import { KEYS, SpellingCheck } from "./misspelt-key.ts";

const findSlip = (object: JsonObject, known: readonly string[]) =>
  new SpellingCheck().findSlip(object, known);

describe("misspelt keys", () => {
  it.each([
    ["condition", "propertes", "properties"],
    ["condition", "property", "properties"],
    ["condition", "Properties", "properties"],
    ["condition", "porperties", "properties"],
    ["condition", "rollout_percent", "rollout_percentage"],
    ["condition", "rolloutPercentage", "rollout_percentage"],
    ["condition", "rollout", "rollout_percentage"],
    ["condition", "percentage", "rollout_percentage"],
    ["condition", "varient", "variant"],
    ["filters", "gruops", "groups"],
    ["filters", "group", "groups"],
    ["filters", "multivariant", "multivariate"],
    ["filter", "opperator", "operator"],
    ["filter", "vlaue", "value"],
    ["filter", "tpye", "type"],
    ["filter", "groupTypeIndex", "group_type_index"],
    ["multivariate", "varients", "variants"],
    ["variant", "kye", "key"],
    ["leaf", "time_vale", "time_value"],
    ["leaf", "negaton", "negation"],
  ] as const)("[FM-35] in a %s, %s is taken for %s", (place, key, meant) => {
    expect(findSlip({ [key]: null }, KEYS[place])).toEqual({ key, meant });
  });

  it.each([
    ["condition", "sort_key"],
    ["condition", "description"],
    ["condition", "users_affected"],
    ["condition", "owner"],
    ["condition", "__proto__"],
    ["condition", "constructor"],
    ["filter", "label"],
    ["filter", "values"],
    ["filter", "cohort_name"],
    ["filter", "id"],
    ["variant", "name"],
    ["filters", "note"],
    ["leaf", "seq_time_value"],
    ["leaf", "bytecode"],
    ["leaf", "conditionHash"],
  ] as const)("[FM-35] in a %s, %s is nobody's misspelling", (place, key) => {
    const object = JSON.parse(`{${JSON.stringify(key)}:null}`);
    expect(findSlip(object, KEYS[place])).toBeNull();
  });

  it("[FM-35] a letter too much, too few, wrong or swapped is found in every key that counts", () => {
    const places = fc.constantFrom(...Object.values(KEYS));
    const slips = fc.record({
      kind: fc.constantFrom("insert", "delete", "replace", "swap"),
      at: fc.nat(),
      which: fc.nat(),
    });
    fc.assert(
      fc.property(places, slips, (known: readonly string[], { kind, at, which }) => {
        const meant = known[which % known.length] ?? "";
        const spot = at % (meant.length - 1);
        const [before, here, after] = [meant.slice(0, spot), meant[spot], meant.slice(spot + 1)];
        const slip = {
          insert: `${before}x${here}${after}`,
          delete: before + after,
          replace: `${before}x${after}`,
          swap: `${before}${after[0]}${here}${after.slice(1)}`,
        }[kind];
        if (known.includes(slip)) return;
        expect(findSlip({ [slip]: null }, known)?.key).toBe(slip);
      }),
    );
  });

  it("[FM-35] a key of a million letters is nobody's misspelling", () => {
    expect(findSlip({ ["rollout_percentage".repeat(50_000)]: null }, KEYS.filter)).toBeNull();
  });

  it("[FE-38] of different unknown keys a thousand are looked at, each once, and more are refused", () => {
    const check = new SpellingCheck();
    const unknown = (count: number) =>
      Object.fromEntries(Array.from({ length: count }, (_, at) => [`zzz${at}`, null]));
    for (const path of ["first", "second"]) {
      expect(check.problemIn(unknown(1_000), KEYS.filter, path)).toBeNull();
    }
    expect(check.problemIn({ propertes: null }, KEYS.filters, "third")).toBe(
      "third: more than 1000 different fields are not known",
    );
    expect(check.problemIn(unknown(2_000), KEYS.filters, "fourth")).toBeNull();
    expect(
      new SpellingCheck().problemIn({ ...unknown(1_001), propertes: 1 }, KEYS.condition, "filters"),
    ).toBe("filters: more than 1000 different fields are not known");
  });
});
