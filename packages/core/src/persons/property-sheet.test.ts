import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { encodeJson, parseExactJson } from "../exact-json.ts";
import type { Json, JsonObject } from "../json.ts";
import type { PropertyChanges } from "./property-changes.ts";
import {
  MAX_PROPERTIES_LENGTH,
  MAX_REMEMBERED_REMOVALS,
  PropertySheet,
  type StoredProperties,
} from "./property-sheet.ts";

const changes = ({
  setOnce = {},
  set = {},
  unset = [],
}: {
  setOnce?: Record<string, Json>;
  set?: Record<string, Json>;
  unset?: string[];
}): PropertyChanges => ({
  setOnce: new Map(Object.entries(setOnce)),
  set: new Map(Object.entries(set)),
  unset,
});

const sheetAfter = (...steps: [number, Parameters<typeof changes>[0]][]) => {
  const sheet = new PropertySheet();
  for (const [at, step] of steps) sheet.apply(changes(step), at);
  return sheet;
};
const valuesAfter = (...steps: [number, Parameters<typeof changes>[0]][]) =>
  sheetAfter(...steps).state.properties;

describe("properties of a person", () => {
  it("[PE-3] take $set_once, then $set, then $unset of one event", () => {
    const all = { setOnce: { a: 1, b: 1, c: 1 }, set: { b: 2, c: 2 }, unset: ["c"] };
    expect(valuesAfter([1, all])).toEqual({ a: 1, b: 2 });
  });

  it("[PE-3] keep the first value of $set_once, and never let it replace a set one", () => {
    expect(valuesAfter([1, { setOnce: { a: 1 } }], [2, { setOnce: { a: 2 } }])).toEqual({ a: 1 });
    expect(valuesAfter([1, { set: { a: 1 } }], [2, { setOnce: { a: 2 } }])).toEqual({ a: 1 });
    expect(valuesAfter([2, { setOnce: { a: 2 } }], [1, { set: { a: 1 } }])).toEqual({ a: 1 });
    expect(valuesAfter([1, { setOnce: { a: null } }], [2, { setOnce: { a: 2 } }])).toEqual({
      a: null,
    });
  });

  it("[PE-3] are what an event asks for rather than what it says by itself, `null` as well", () => {
    const automatic = {
      names: [{ name: "$browser", initial: "$initial_browser" }],
      values: ["Firefox"],
    };
    const asked = { set: { $browser: null }, setOnce: { $initial_browser: null } };
    const sheet = new PropertySheet();
    expect(sheet.apply({ ...changes(asked), automatic }, 1)).toBe("changed");
    expect(sheet.state.properties).toEqual({ $initial_browser: null, $browser: null });
    for (const _ of ["second time", "third time", "by the short way"]) {
      expect(sheet.apply({ ...changes(asked), automatic }, 1)).toBe("unchanged");
    }
  });

  it("[PE-3] can be set once again after they were removed", () => {
    expect(
      valuesAfter([1, { set: { a: 1 } }], [2, { unset: ["a"] }], [3, { setOnce: { a: 3 } }]),
    ).toEqual({ a: 3 });
  });

  it("[PE-4] follow the times of events, not the order of arrival", () => {
    expect(valuesAfter([2, { set: { a: 2 } }], [1, { set: { a: 1, b: 1 } }])).toEqual({
      a: 2,
      b: 1,
    });
    expect(valuesAfter([2, { set: { a: 2 } }], [1, { unset: ["a"] }])).toEqual({ a: 2 });
    expect(valuesAfter([2, { unset: ["a"] }], [1, { set: { a: 1 } }])).toEqual({});
    expect(valuesAfter([2, { unset: ["a"] }], [1, { setOnce: { a: 1 } }])).toEqual({});
    expect(valuesAfter([2, { setOnce: { a: 2 } }], [1, { setOnce: { a: 1 } }])).toEqual({ a: 1 });
    expect(valuesAfter([2, { setOnce: { a: 2 } }], [1, { unset: ["a"] }])).toEqual({ a: 2 });
  });

  it("[PE-4] note that a value was confirmed later", () => {
    expect(
      valuesAfter([1, { set: { a: 1 } }], [3, { set: { a: 1 } }], [2, { set: { a: 2 } }]),
    ).toEqual({ a: 1 });
  });

  it("[PE-4] of events at the same time take the one applied last", () => {
    expect(valuesAfter([1, { set: { a: 1 } }], [1, { set: { a: 2 } }])).toEqual({ a: 2 });
    expect(valuesAfter([1, { set: { a: 1 } }], [1, { unset: ["a"] }])).toEqual({});
    expect(valuesAfter([1, { unset: ["a"] }], [1, { set: { a: 1 } }])).toEqual({ a: 1 });
  });

  it("[PE-4] set by events of different times are the same in every order of arrival", () => {
    const step = fc.record({
      at: fc.integer({ min: 0, max: 1_000_000 }),
      set: fc.dictionary(fc.constantFrom("a", "b", "__proto__"), fc.integer()),
      unset: fc.subarray(["a", "b", "__proto__"]),
    });
    fc.assert(
      fc.property(
        fc.uniqueArray(step, { selector: ({ at }) => at, maxLength: 12 }),
        fc.infiniteStream(fc.nat()),
        (steps, random) => {
          const shuffled = steps
            .map((one) => ({ one, rank: random.next().value }))
            .sort((a, b) => a.rank - b.rank)
            .map(({ one }) => one);
          const inOrder = [...steps].sort((a, b) => a.at - b.at);
          const entries = (list: typeof steps) =>
            Object.entries(
              valuesAfter(
                ...list.map(({ at, set, unset }) => [at, { set, unset }] as [number, object]),
              ),
            ).sort();
          expect(entries(shuffled)).toEqual(entries(inOrder));
        },
      ),
    );
  });

  it("say whether anything changed", () => {
    const sheet = sheetAfter([1, { set: { a: 1 } }]);
    expect(sheet.apply(changes({ set: { a: 1 } }), 1)).toBe("unchanged");
    expect(sheet.apply(changes({ set: { a: 0 } }), 0)).toBe("unchanged");
    expect(sheet.apply(changes({ setOnce: { a: 5 } }), 5)).toBe("unchanged");
    expect(sheet.apply(changes({ unset: ["a"] }), 0)).toBe("unchanged");
    expect(sheet.apply(changes({}), 9)).toBe("unchanged");
    expect(sheet.apply(changes({ set: { a: 1 } }), 2)).toBe("changed");
    expect(sheet.apply(changes({ unset: ["a"] }), 3)).toBe("changed");
    expect(sheet.apply(changes({ unset: ["a"] }), 3)).toBe("unchanged");
  });

  it("go on after being stored and read exactly as if they had not been", () => {
    const step = fc.record({
      at: fc.integer({ min: 0, max: 9 }),
      setOnce: fc.dictionary(fc.constantFrom("a", "b"), fc.jsonValue() as fc.Arbitrary<Json>),
      set: fc.dictionary(fc.constantFrom("a", "b"), fc.jsonValue() as fc.Arbitrary<Json>),
      unset: fc.subarray(["a", "b"]),
    });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 12 }), (steps) => {
        const whole = new PropertySheet();
        let stored = new PropertySheet();
        for (const { at, ...one } of steps) {
          whole.apply(changes(one), at);
          stored.apply(changes(one), at);
          const { properties, times } = JSON.parse(JSON.stringify(stored.state));
          stored = new PropertySheet({ properties, times }, JSON.stringify(properties).length);
        }
        expect(JSON.stringify(stored.state)).toBe(JSON.stringify(whole.state));
      }),
    );
  });
});

describe("properties as text", () => {
  const names = fc.constantFrom("a", "b", "$os", "$initial_os", "1", "0x", "__proto__", 'é"', "");
  const value = fc.oneof(
    fc.jsonValue() as fc.Arbitrary<Json>,
    // No odd number of that size is a `number`.
    fc.bigInt({ min: 2n ** 59n, max: 2n ** 69n }).map((half) => 2n * half + 1n),
  );
  const step = (name: fc.Arbitrary<string>) =>
    fc.record({
      at: fc.integer({ min: 0, max: 9 }),
      automatic: fc.uniqueArray(fc.constantFrom("$os", "$browser", "a"), { maxLength: 3 }),
      value,
      setOnce: fc.dictionary(name, value, { maxKeys: 2 }),
      set: fc.dictionary(name, value, { maxKeys: 2 }),
      unset: fc.uniqueArray(name, { maxLength: 1 }),
      isPlain: fc.boolean(),
      isWritten: fc.boolean(),
    });
  const AUTOMATIC = new Map(
    ["$os", "$browser", "a"].map((name) => [name, { name, initial: `$initial_${name.slice(1)}` }]),
  );
  type Step = typeof step extends (name: never) => fc.Arbitrary<infer One> ? One : never;
  const changesOf = ({ automatic, value, isPlain, ...asked }: Step): PropertyChanges => ({
    ...changes(isPlain ? {} : asked),
    automatic: {
      names: automatic.flatMap((name) => AUTOMATIC.get(name) ?? []),
      values: automatic.map(() => value),
    },
  });

  it("[PE-3] say what the properties are, whichever of them were written before", () => {
    fc.assert(
      fc.property(fc.array(step(names), { maxLength: 12 }), (steps) => {
        const sheet = new PropertySheet();
        for (const one of steps) {
          sheet.apply(changesOf(one), one.at);
          if (!one.isWritten) continue;
          // As text, not as object: the order of names counts.
          const { properties } = sheet.state;
          const text = sheet.propertiesText;
          expect(parseExactJson(text)).toEqual(properties);
          if (text !== "{}") expect(sheet.textLength).toBe(text.length);
          expect(encodeJson(parseExactJson(text))).toBe(encodeJson(properties));
        }
      }),
    );
  });

  it("[PE-4] go on after being stored as text and read exactly as if they had not been", () => {
    fc.assert(
      fc.property(fc.array(step(names), { maxLength: 12 }), (steps) => {
        const whole = new PropertySheet();
        let stored = new PropertySheet();
        for (const one of steps) {
          expect(stored.apply(changesOf(one), one.at)).toBe(whole.apply(changesOf(one), one.at));
          if (!one.isWritten) continue;
          const { propertiesText, timesText } = stored;
          stored = new PropertySheet(
            {
              properties: parseExactJson(propertiesText) as JsonObject,
              times: parseExactJson(timesText) as unknown as StoredProperties["times"],
            },
            propertiesText.length,
          );
          expect(encodeJson(stored.state)).toBe(encodeJson(whole.state));
        }
      }),
    );
  });

  it("[PE-4] name no property for its time, but those removed", () => {
    const sheet = sheetAfter([7, { set: { a: 1, b: 2, c: 3 }, setOnce: { d: 4 } }]);
    expect(sheet.timesText).toBe('{"runs":[1,2,7,3,1,7],"removed":{}}');
    sheet.apply(changes({ set: { b: 5 }, unset: ["a"] }), 8);
    expect(sheet.timesText).toBe('{"runs":[1,2,7,1,1,8,1,1,7],"removed":{"a":8}}');
    sheet.apply(changes({ set: { "1": 6 } }), 9);
    const times = { set: { "1": 9, a: 8, b: 8, c: 7 }, setOnce: { d: 7 } };
    expect(JSON.parse(sheet.timesText)).toEqual(times);
  });

  it("[PE-31] are read as earlier versions stored them", () => {
    const old = new PropertySheet({
      properties: { a: 1, b: 2, c: 3, d: 4 },
      times: { set: { a: 5, gone: 6 }, setOnce: { b: 7 } },
    });
    const times = { set: { a: 5, gone: 6 }, setOnce: { b: 7 } };
    expect(old.state).toEqual({ properties: { a: 1, b: 2, c: 3, d: 4 }, times });
    expect(old.timesText).toBe('{"runs":[1,1,5,1,2,7,2,0,0],"removed":{"gone":6}}');
  });
});

describe("what events say by themselves", () => {
  const os = { name: "$os", initial: "$initial_os" };
  const browser = { name: "$browser", initial: "$initial_browser" };
  const said = (at: number, ...values: Json[]) =>
    [
      { ...changes({}), automatic: { names: [os, browser].slice(0, values.length), values } },
      at,
    ] as const;

  it("[PE-3] is the same by the short way, which the third event takes, as by the long one", () => {
    const asked = fc.constantFrom("$os", "$initial_os", "$browser", "plan");
    const one = fc.record({
      at: fc.integer({ min: 0, max: 6 }),
      values: fc.array(fc.constantFrom<Json>("x", "y", 1, null, [1]), {
        minLength: 1,
        maxLength: 2,
      }),
      asked: fc.option(
        fc.record({
          set: fc.dictionary(asked, fc.constantFrom<Json>("x", "z", 2), { maxKeys: 2 }),
          setOnce: fc.dictionary(asked, fc.constantFrom<Json>("x", "z", 2), { maxKeys: 2 }),
          unset: fc.subarray(["$os", "plan"]),
        }),
        { freq: 3, nil: {} },
      ),
    });
    fc.assert(
      fc.property(fc.array(one, { minLength: 3, maxLength: 15 }), (events) => {
        const sheet = new PropertySheet();
        for (const { at, values, asked } of events) {
          // What was read anew has seen no event: it goes the long way.
          const fresh = new PropertySheet(sheet.state);
          const step = [{ ...said(at, ...values)[0], ...changes(asked) }, at] as const;
          expect(sheet.apply(...step)).toBe(fresh.apply(...step));
          expect(encodeJson(sheet.state)).toBe(encodeJson(fresh.state));
          expect(sheet.textLength).toBe(fresh.textLength);
        }
      }),
    );
  });

  it("[PE-10] is refused where it grows too long, by the short way as well", () => {
    const sheet = new PropertySheet();
    for (const at of [1, 2, 3]) sheet.apply(...said(at, "x", at));
    sheet.apply(...said(4, "x".repeat(MAX_PROPERTIES_LENGTH - 200), 4));
    expect(sheet.apply(...said(5, "x".repeat(MAX_PROPERTIES_LENGTH), 5))).toBe("too-long");
    expect(sheet.state.properties.$browser).toBe(4);
  });
});

describe("properties that grow too long", () => {
  const big = "x".repeat(MAX_PROPERTIES_LENGTH / 2);

  it("[PE-10] are refused event by event, and stay as they were", () => {
    const sheet = sheetAfter([1, { set: { a: big, n: 1 } }]);
    expect(sheet.apply(changes({ set: { b: big, n: 2 }, unset: ["a2"] }), 2)).toBe("too-long");
    expect(sheet.state.properties).toEqual({ a: big, n: 1 });
    expect(sheet.apply(changes({ set: { b: big, n: 2 }, unset: ["a"] }), 2)).toBe("changed");
    expect(Object.keys(sheet.state.properties)).toEqual(["n", "b"]);
  });

  it("[PE-10] are measured the same before and after being stored", () => {
    const value = fc.oneof(fc.string({ unit: "binary" }), fc.integer(), fc.constant([{ a: "\n" }]));
    const step = fc.record({
      set: fc.dictionary(fc.constantFrom("a", "é", '"'), value),
      unset: fc.subarray(["a", "é"]),
    });
    fc.assert(
      fc.property(fc.array(step, { minLength: 1, maxLength: 6 }), (steps) => {
        const sheet = sheetAfter(
          ...steps.map((one, index) => [index, one] as [number, typeof one]),
        );
        const room = (one: PropertySheet) => {
          let low = 0;
          let high = MAX_PROPERTIES_LENGTH;
          while (low < high) {
            const middle = Math.ceil((low + high) / 2);
            const { state } = one;
            const trial = new PropertySheet(state, JSON.stringify(state.properties).length);
            const fits =
              trial.apply(changes({ set: { zz: "z".repeat(middle) } }), 99) === "changed";
            if (fits) low = middle;
            else high = middle - 1;
          }
          return low;
        };
        const { state } = sheet;
        const longest = "z".repeat(room(sheet));
        const direct = sheet.apply(changes({ set: { zz: longest } }), 99);
        expect(direct).toBe("changed");
        const text = JSON.stringify(sheet.state.properties);
        expect(text.length).toBe(MAX_PROPERTIES_LENGTH);
        expect(Object.keys(state.properties)).not.toContain("zz");
      }),
      { numRuns: 10 },
    );
  });

  it("[PE-10] do not stop a merge: what does not fit is left behind", () => {
    const sheet = sheetAfter([1, { set: { a: big } }]);
    const other = sheetAfter([1, { set: { a: 1, b: big, c: 1 } }]);
    expect(sheet.absorb(other)).toBe("too-long");
    expect(sheet.state.properties).toEqual({ a: big, c: 1 });
  });

  it("[PE-4] forgets the oldest removals first once there are very many", () => {
    const sheet = new PropertySheet();
    const count = MAX_REMEMBERED_REMOVALS + 1;
    for (let at = 1; at <= count; at++) sheet.apply(changes({ unset: [`p${at}`] }), at);
    expect(Object.keys(sheet.state.times.set)).toHaveLength(MAX_REMEMBERED_REMOVALS);
    sheet.apply(changes({ set: { p1: "late", p2: "late" } }), 0);
    expect(sheet.state.properties).toEqual({ p1: "late" });
  });
});

describe("properties of two persons who become one", () => {
  it("[PE-7] are the survivor's where both have one, the other's elsewhere", () => {
    const survivor = sheetAfter([1, { set: { a: 1 }, setOnce: { d: 1 } }]);
    const other = sheetAfter([2, { set: { a: 2, b: 2, d: 2 }, setOnce: { c: 2 } }]);
    expect(survivor.absorb(other)).toBe("changed");
    expect(survivor.state).toEqual({
      properties: { a: 1, d: 1, b: 2, c: 2 },
      times: { set: { a: 1, b: 2 }, setOnce: { d: 1, c: 2 } },
    });
    expect(survivor.absorb(new PropertySheet())).toBe("unchanged");
  });

  it("[PE-4] stay removed where the removal is the later one", () => {
    const removed = sheetAfter([5, { unset: ["a", "b"] }]);
    removed.absorb(sheetAfter([4, { set: { a: 1 } }], [6, { set: { b: 1 } }]));
    expect(removed.state.properties).toEqual({ b: 1 });
    const empty = sheetAfter([2, { unset: ["c"] }]);
    empty.absorb(sheetAfter([3, { unset: ["a", "c"] }]));
    empty.apply(changes({ set: { a: 1, c: 1 } }), 2);
    expect(empty.state.properties).toEqual({});
  });
});
