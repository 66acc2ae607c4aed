import { encodeJson } from "@hedgerow/core/exact-json";
import { extendJsonText } from "@hedgerow/core/extend-json";
import type { Json, JsonObject } from "@hedgerow/core/json";
import {
  type EventChange,
  eventAfter,
  FAILED_PROPERTY,
} from "@hedgerow/core/transformations/plugin-event";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { ToldSets, tellChange } from "../event-changes.ts";
import { HEAD, type Shape, ShapeTable } from "../event-shapes.ts";
import { createOutcomeReader } from "../outcome-reader.ts";
import { SET, SET_ALIKE } from "../told-sets.ts";
import { beginningOf, PLAIN_TEXT } from "../value-places.ts";
import {
  endPlainly,
  type LazyShape,
  lazyEvent,
  lazyShape,
  release,
  SELF,
  startSets,
  takeSets,
} from "./lazy-event.ts";
import { writeAnswer } from "./write-answer.ts";

type Plain = Record<string, unknown>;

/** A shape as the guest knows it. */
function known(shape: Shape): LazyShape {
  return lazyShape(shape.keys, shape.lengths);
}

/** An event as the guest is given it: lazy, since its keys have come before. */
function giveLazily(event: JsonObject) {
  const shapes = new ShapeTable();
  const line = encodeJson(event);
  for (let times = 0; times < 3; times += 1) shapes.scan(line);
  const scanned = shapes.scan(`${line}\n${line}`);
  const place = scanned.numbers[1] ?? 0;
  const shape = shapes.shapeOf(scanned.numbers[place + HEAD.shape]);
  if (shape === null) return undefined;
  const inner = shapes.shapeOf(scanned.numbers[place + HEAD.innerShape]);
  const batch = { places: scanned.numbers };
  const lazy = lazyEvent(
    known(shape),
    line,
    batch,
    place + HEAD.length,
    inner === null ? null : known(inner),
  );
  return { lazy, proxy: lazy[SELF] as Plain, line, batch, scanned };
}

/** The event after a transformation, as it is told to the main thread and read there. */
function afterwards(
  before: JsonObject,
  given: NonNullable<ReturnType<typeof giveLazily>>,
  answer: unknown,
) {
  const written = writeAnswer(answer as Plain, given.lazy);
  const told = written === "=" ? written : tellChange(written, given.scanned, 1);
  const read = createOutcomeReader();
  const outcome = read({ event: before, line: given.line, hops: 0 }, told, false, 0);
  const change: EventChange | undefined = outcome.kind === "keep" ? outcome.change : undefined;
  return { change, event: change === undefined ? before : eventAfter(before, change) };
}

const keys = fc.constantFrom(
  ...[
    "a",
    "b",
    "c",
    "d",
    "e",
    "$set",
    "ü",
    "constructor",
    "toString",
    "toJSON",
    "length",
    "with space",
    "7",
    "x",
  ],
);
const values = fc.oneof(
  fc.jsonValue({ maxDepth: 2 }),
  fc.constantFrom<unknown>("text", 1, null, true, [], {}, { deep: [1] }, undefined),
);
const jsonObjects = fc
  .dictionary(keys, fc.jsonValue({ maxDepth: 2 }), { maxKeys: 9 })
  .map((object) => JSON.parse(JSON.stringify(object)) as JsonObject);

/** Objects with integers that no number holds: as no odd one of that size. */
const digits = fc.oneof(
  {
    arbitrary: fc.bigInt({ min: 2n ** 53n, max: 2n ** 70n }).map((half) => 2n * half + 1n),
    weight: 3,
  },
  fc.constantFrom(10n ** 400n, 1n - 10n ** 999n),
);
const digitObjects = fc.dictionary(
  keys.filter((key) => key !== "toJSON"),
  fc.oneof(
    fc.jsonValue({ maxDepth: 1 }).map((value) => JSON.parse(JSON.stringify(value)) as Json),
    digits,
    fc.record({ id: digits, n: fc.constant(1) }),
    fc.array(fc.oneof(digits, fc.constant("text")), { maxLength: 3 }),
  ),
  { maxKeys: 9 },
) as fc.Arbitrary<JsonObject>;

/** As JSON, with the digits that numbers hold. */
function inNumbers(value: Json): string {
  return JSON.stringify(JSON.parse(encodeJson(value)));
}

/** What code may do with an event; answers what it saw. */
type Deed = (event: Plain, key: string, value: unknown) => unknown;
const own = (event: Plain): Plain => event["properties"] as Plain;
const DEEDS: Record<string, Deed> = {
  read: (event, key) => own(event)[key],
  readField: (event) => [event["event"], event["uuid"], event["absent"], typeof event["valueOf"]],
  set(event, key, value) {
    own(event)[key] = value;
  },
  setField(event, _key, value) {
    event["event"] = value;
  },
  delete: (event, key) => delete own(event)[key],
  deleteField: (event) => delete event["event"],
  isIn: (event, key) => [key in own(event), Object.hasOwn(own(event), key)],
  inherited: (event, key) => [
    Object.hasOwn(own(event), key),
    Object.hasOwn(own(event), key),
    Object.prototype.propertyIsEnumerable.call(own(event), key),
  ],
  keys: (event) => Object.keys(own(event)),
  fieldKeys: (event) => Object.keys(event),
  entries: (event) => Object.entries(own(event)),
  spread: (event) => ({ ...own(event) }),
  text: (event) => JSON.stringify(own(event)),
  loop(event) {
    const seen: string[] = [];
    for (const key in own(event)) seen.push(key);
    return seen;
  },
  assign: (event, key, value) =>
    JSON.stringify(Object.assign(own(event), { [key]: value, more: 1 })),
  change(event, key) {
    const value = own(event)[key];
    if (Array.isArray(value)) value.push("more");
    else if (typeof value === "object" && value !== null) (value as Plain)["more"] = 1;
  },
  defineProperty: (event, key, value) =>
    Reflect.defineProperty(own(event), key, {
      value,
      writable: true,
      enumerable: key !== "a",
      configurable: true,
    }),
  describe: (event, key) => Object.getOwnPropertyDescriptor(own(event), key),
  freeze(event) {
    Object.freeze(own(event));
    return Object.isFrozen(own(event));
  },
  inherit(event, key, value) {
    const child = Object.create(own(event)) as Plain;
    child[key] = value;
    return [Object.keys(child), child["a"]];
  },
  replace(event, key, value) {
    event["properties"] = { [key]: value };
  },
  same(event) {
    event["properties"] = own(event);
  },
  twice(event, key) {
    const [first, all] = [own(event)[key], own(event)];
    return own(event)[key] === first && own(event) === all;
  },
  prototype: (event) => [
    Object.getPrototypeOf(own(event)) === Object.prototype,
    Array.isArray(own(event)),
    String(Object.prototype.toString.call(own(event))),
  ],
  strange(event) {
    Object.setPrototypeOf(own(event), { inherited: 1 });
    return own(event)["inherited"];
  },
};

interface Act {
  readonly name: string;
  readonly key: string;
  readonly value: unknown;
}
const acts = fc.array(
  fc.record<Act>({ name: fc.constantFrom(...Object.keys(DEEDS)), key: keys, value: values }),
  { maxLength: 8 },
);

/** Does what is to be done; everything it saw, an error as its kind. */
function perform(event: Plain, all: readonly Act[]): unknown[] {
  return all.map(({ name, key, value }) => {
    try {
      const copy = value === undefined ? undefined : (JSON.parse(JSON.stringify(value)) as unknown);
      return JSON.stringify(DEEDS[name]?.(event, key, copy));
    } catch (error) {
      return (error as Error).name;
    }
  });
}

const ANSWERS: Record<string, (event: Plain) => Plain> = {
  itself: (event) => event,
  copy: (event) => ({ ...event }),
  "a copy with another field": (event) => ({ ...event, event: "other", more: [1] }),
  "a copy of all": (event) => ({ ...event, properties: { ...own(event), copied: true } }),
  "a part": (event) => ({ event: event["event"], properties: event["properties"] }),
};

describe("lazy events", () => {
  it("[TS-30] behave as plain objects do, and leave the same event behind", () => {
    fc.assert(
      fc.property(
        jsonObjects,
        fc.option(jsonObjects, { nil: undefined }),
        acts,
        fc.constantFrom(...Object.keys(ANSWERS)),
        (properties, set, all, answer) => {
          const before: JsonObject = {
            ...{ uuid: "u", event: "e", distinct_id: "d", properties },
            ...(set !== undefined && { $set: set }),
          };
          const given = giveLazily(before);
          if (given === undefined) throw new Error("it is not lazy");
          const plain = JSON.parse(given.line) as Plain;
          expect(perform(given.proxy, all)).toEqual(perform(plain, all));
          const answerOf = ANSWERS[answer] as (event: Plain) => Plain;
          let expected: string;
          try {
            expected = JSON.stringify(answerOf(plain));
          } catch {
            return;
          }
          const { change, event } = afterwards(before, given, answerOf(given.proxy));
          const { properties: ours, ...fields } = JSON.parse(JSON.stringify(event)) as Plain;
          const { properties: theirs, ...others } = JSON.parse(expected) as Plain;
          expect(fields).toEqual(others);
          expect(JSON.stringify(ours)).toBe(JSON.stringify(theirs));
          if (change?.kind === "parts" && change.propertiesText !== undefined) {
            expect(change.propertiesText).toBe(JSON.stringify(event["properties"]));
          }
          if (change?.kind === "parts" && change.addedText !== undefined) {
            const own = JSON.stringify(before["properties"]);
            expect(extendJsonText(own, change.addedText)).toBe(JSON.stringify(event["properties"]));
          }
        },
      ),
      { numRuns: 3_000 },
    );
  });

  it("[TP-58] keep the digits that numbers cannot hold, in the event and in the text of its properties", () => {
    fc.assert(
      fc.property(digitObjects, acts, (properties, all) => {
        const before: JsonObject = { uuid: "u", event: "e", distinct_id: "d", properties };
        const given = giveLazily(before);
        if (given === undefined) throw new Error("it is not lazy");
        const plain = JSON.parse(given.line) as Plain;
        perform(given.proxy, all);
        perform(plain, all);
        let expected: Plain;
        try {
          expected = JSON.parse(JSON.stringify(plain["properties"])) as Plain;
        } catch {
          return;
        }
        const { change, event } = afterwards(before, given, given.proxy);
        const after = event["properties"] as JsonObject;
        expect(inNumbers(after)).toBe(JSON.stringify(expected));
        for (const [key, value] of Object.entries(properties)) {
          if (Object.hasOwn(expected, key) && inNumbers(value) === JSON.stringify(expected[key])) {
            expect(encodeJson(after[key])).toBe(encodeJson(value));
          }
        }
        if (change?.kind === "parts" && change.propertiesText !== undefined) {
          expect(change.propertiesText).toBe(encodeJson(after));
        }
        if (change?.kind === "parts" && change.addedText !== undefined) {
          expect(extendJsonText(encodeJson(properties), change.addedText)).toBe(encodeJson(after));
        }
      }),
      { numRuns: 1_000 },
    );
  });

  it("[TS-30] go on to be usable when their batch is over", () => {
    fc.assert(
      fc.property(jsonObjects, acts, acts, (properties, during, later) => {
        const before: JsonObject = { uuid: "u", event: "e", properties };
        const given = giveLazily(before);
        if (given === undefined) throw new Error("it is not lazy");
        const plain = JSON.parse(given.line) as Plain;
        perform(given.proxy, during);
        perform(plain, during);
        release(given.lazy);
        given.batch.places = null as never;
        expect(perform(given.proxy, later)).toEqual(perform(plain, later));
      }),
      { numRuns: 1_000 },
    );
  });

  it("[TS-30] are told the same in the list of a run and one by one", () => {
    const fewKeys = fc.constantFrom(
      "a",
      "b",
      "$set",
      "ü",
      "toJSON",
      "then",
      "7",
      FAILED_PROPERTY,
      "x",
    );
    const fewValues = fc.oneof(
      fc.string({ unit: "binary" }),
      fc.double(),
      fc.constantFrom<unknown>(null, true, "\u001e", "\ud800", -0, 1e21, {}, undefined, 5n),
    );
    const acts = fc.record<Act>({
      name: fc.constantFrom("set", "set", "set", "read", "delete", "delete", "setField", "keys"),
      key: fc.oneof(fewKeys, { arbitrary: fc.constantFrom("a", "b"), weight: 2 }),
      value: fewValues,
    });
    /** Code comes back to the event before, which is over. */
    const backActs = fc.record<Act>({
      name: fc.constantFrom("read", "read", "delete", "delete", "set", "change", "keys"),
      key: fc.constantFrom("a", "b"),
      value: fc.constantFrom<unknown>("back", 1, {}),
    });
    const alike = fc.constant<JsonObject>({ a: { x: 1 }, b: { x: 2 }, x: null });
    const given = fc.record({
      properties: fc.oneof(jsonObjects, alike),
      back: fc.array(backActs, { maxLength: 2 }),
      all: fc.array(acts, { maxLength: 4 }),
    });
    let listed = 0;
    fc.assert(
      fc.property(fc.array(given, { minLength: 1, maxLength: 6 }), (events) => {
        startSets();
        const told: { readonly text: string; readonly expected: string; readonly at: number }[] =
          [];
        let last: Plain | null = null;
        const places = events.map(({ properties, all, back }, at) => {
          const before: JsonObject = { uuid: "u", event: "e", distinct_id: "d", properties };
          const [listedOne, other] = [giveLazily(before), giveLazily(before)];
          if (listedOne === undefined || other === undefined) throw new Error("it is not lazy");
          for (const { name, key, value } of last === null ? [] : back) {
            DEEDS[name]?.(last as unknown as Plain, key, value);
          }
          last = listedOne.proxy;
          for (const { name, key, value } of all) {
            for (const { proxy } of [listedOne, other]) {
              // A text is set as it is given: there is no JSON of some.
              DEEDS[name]?.(proxy, key, value);
            }
          }
          const text = endPlainly(listedOne.proxy, listedOne.lazy);
          if (text === "") {
            release(listedOne.lazy);
            return listedOne;
          }
          const written = writeAnswer(other.proxy, other.lazy);
          const expected = written === "=" ? written : tellChange(written, other.scanned, 1);
          told.push({ text, expected, at });
          return listedOne;
        });
        const sets = new ToldSets(takeSets());
        for (const { text, expected, at } of told) {
          const { scanned } = places[at] as (typeof places)[number];
          if (text !== SET && text !== SET_ALIKE) expect(text).toBe(expected);
          else {
            listed += 1;
            expect(sets.tell(sets.next(text), scanned, 1)).toBe(expected);
          }
        }
      }),
      { numRuns: 1_000 },
    );
    expect(listed).toBeGreaterThan(200);
  });

  it.each([
    ["read", "inside", (before: Plain) => before["inside"]],
    ["deleted", "b", (before: Plain) => delete before["b"]],
  ])(
    "[TS-30] are told with keys of their own when something of the event before is %s",
    (_, key, comeBack) => {
      startSets();
      const one = giveLazily({ event: "e", properties: { b: 1, inside: { x: 1 } } });
      const other = giveLazily({ event: "e", properties: { b: 2, inside: { x: 2 } } });
      if (one === undefined || other === undefined) throw new Error("it is not lazy");
      own(one.proxy)["a"] = "first";
      const told = [endPlainly(one.proxy, one.lazy)];
      comeBack(own(one.proxy));
      own(other.proxy)["a"] = "second";
      own(other.proxy)[key] = "set";
      told.push(endPlainly(other.proxy, other.lazy));
      expect(told).toEqual([SET, SET]);
      const sets = new ToldSets(takeSets());
      expect(sets.next(SET)).toBe('~{"p":{"a":"first"}}');
      expect(sets.next(SET)).toBe(`~{"p":{"a":"second","${key}":"set"}}`);
    },
  );

  it.each([
    ["nothing", ""],
    ["no list", "{}"],
    ["an empty list", "[]"],
    ["no number of keys", '["a","b",1]'],
    ["less than nothing", '[-1,"a",1]'],
    ["a part of a key", '[0.5,"a",1]'],
    ["more keys than there are", '[9,"a",1]'],
    ["keys that are none", "[1,2,3]"],
    ["no value", '[1,"a"]'],
    ["a value that holds others", '[1,"a",{"b":1}]'],
    ["a number without end", '[1,"a",1e999]'],
    ["a list that holds something", '[1,"a",[1]]'],
  ])("[TS-33] are not read from a list that is forged: %s", (_, text) => {
    expect(() => new ToldSets(text).next(SET)).toThrow(TypeError);
    expect(() => new ToldSets(text).next(SET_ALIKE)).toThrow(TypeError);
  });

  it.each([
    ["keys twice", '[2,"b","b",1,2]', '~{"p":{"b":2}}\n{"a":1,"b":2}'],
    ["a key in the order of numbers", '[2,"b","7",1,2]', '~{"p":{"7":2,"b":1}}'],
    ["a key of its own", '[1,"a",2]', '~{"p":{"a":2}}\n{"a":2}'],
    [
      "that what is not there is gone",
      '[2,"b","c",[],1]',
      '~{"p":{"c":1},"q":["b"]}\n{"a":1,"c":1}',
    ],
    ["what no transformation changes", `[1,"${FAILED_PROPERTY}",2]`, "="],
  ])("[TS-33] are told as whoever reads them takes them: %s", (_, text, expected) => {
    const given = giveLazily({ event: "e", properties: { a: 1 } });
    if (given === undefined) throw new Error("it is not lazy");
    const sets = new ToldSets(text);
    expect(sets.tell(sets.next(SET), given.scanned, 1)).toContain(expected);
  });

  it("[TS-30] are told as unchanged where they are", () => {
    const before = { uuid: "u", event: "e", properties: { a: { b: [1] }, c: "text" } };
    const given = giveLazily(before);
    if (given === undefined) throw new Error("it is not lazy");
    const { a } = own(given.proxy) as { a: { b: number[] } };
    expect(a.b).toEqual([1]);
    own(given.proxy)["c"] = "text";
    expect(writeAnswer(given.proxy, given.lazy)).toBe("=");
    expect(writeAnswer({ ...given.proxy }, given.lazy)).not.toBe("=");
    expect(afterwards(before, given, { ...given.proxy }).change).toBeUndefined();
  });

  it.each([
    ['{"a":1,"a":2}', "keys that come twice"],
    ['{"2":1,"1":2}', "keys that are ordered by their number"],
    ['{"__proto__":1}', "the key of the prototype"],
    ['{"\\u0061":1}', "keys that are written otherwise"],
    ['{ "a": 1 }', "spaces"],
  ])("[TS-30] are plain from the beginning with %s: %s", (properties) => {
    const shapes = new ShapeTable();
    const line = `{"event":"e","properties":${properties}}`;
    for (let times = 0; times < 3; times += 1) shapes.scan(line);
    const { numbers } = shapes.scan(line);
    expect(numbers[(numbers[0] ?? 0) + HEAD.innerShape]).toBe(0);
  });

  it("[TS-30] keep digits that no number holds where they are left alone", () => {
    const line =
      '{"event":"e","properties":{"id":12345678901234567891,"list":[12345678901234567891]}}';
    const shapes = new ShapeTable();
    for (let times = 0; times < 3; times += 1) shapes.scan(line);
    const scanned = shapes.scan(line);
    const place = scanned.numbers[0] ?? 0;
    const [shape, inner] = [HEAD.shape, HEAD.innerShape].map((at) =>
      shapes.shapeOf(scanned.numbers[place + at]),
    );
    if (!shape || !inner) throw new Error("it is not lazy");
    const batch = { places: scanned.numbers };
    const lazy = lazyEvent(known(shape), line, batch, place + HEAD.length, known(inner));
    const event = lazy[SELF] as Plain;
    expect(own(event)["list"]).toEqual([Number("12345678901234567891")]);
    own(event)["more"] = 1;
    const told = tellChange(writeAnswer(event, lazy), scanned, 0);
    expect(told).toBe(
      '~{"p":{"more":1}}\n{"id":12345678901234567891,"list":[12345678901234567891],"more":1}',
    );
  });

  it("[TS-30] end where the text says, whatever stands in it", () => {
    fc.assert(
      fc.property(
        fc.array(fc.dictionary(fc.string(), fc.jsonValue({ maxDepth: 3 }), { maxKeys: 12 }), {
          minLength: 1,
          maxLength: 5,
        }),
        (objects) => {
          const shapes = new ShapeTable();
          const lines = objects.map((properties) => JSON.stringify({ event: "e", properties }));
          shapes.scan(lines.join("\n"));
          const { numbers } = shapes.scan(lines.join("\n"));
          for (const [index, line] of lines.entries()) {
            const place = numbers[index] ?? 0;
            const shape = shapes.shapeOf(numbers[place + HEAD.shape]);
            const inner = shapes.shapeOf(numbers[place + HEAD.innerShape]);
            if (shape === null || inner === null) continue;
            const { properties } = JSON.parse(line) as { properties: JsonObject };
            expect(inner.keys).toEqual(Object.keys(properties));
            for (const [slot, key] of inner.keys.entries()) {
              const at = place + HEAD.length + 2 * (shape.keys.length + slot);
              const end = numbers[at + 1] ?? 0;
              const text = JSON.stringify(properties[key]);
              expect(line.slice(beginningOf(numbers[at] ?? 0), end)).toBe(text);
              const isPlainText = typeof properties[key] === "string" && !line.includes("\\");
              if (isPlainText) expect(numbers[at]).toBeGreaterThan(PLAIN_TEXT);
              if (text.includes("\\")) expect(numbers[at]).toBeLessThan(PLAIN_TEXT);
            }
          }
        },
      ),
    );
  });
});
