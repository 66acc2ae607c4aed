import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { Json, JsonObject } from "../json.ts";
import { configFieldsOf, validateConfig, withDefaults } from "./config-schema.ts";

const faults = (schema: Json, config: JsonObject, attachments: readonly string[] = []) =>
  validateConfig(config, configFieldsOf(schema), new Set(attachments)).map(({ key, kind }) => [
    key,
    kind,
  ]);

describe("declared settings", () => {
  it("[TM-10] are a list or an object by key; items without a key are text between them", () => {
    const list = [
      { markdown: "Some words" },
      { key: "a", name: "A", type: "string", secret: true },
      { key: "b", type: "choice", choices: ["x", 2, "y"] },
    ];
    expect(configFieldsOf(list).map(({ key, name, secret }) => [key, name, secret])).toEqual([
      ["a", "A", true],
      ["b", "b", false],
    ]);
    expect(configFieldsOf(list)[1]?.choices).toEqual(["x", "2", "y"]);
    const { key: _, ...a } = list[1] as JsonObject;
    expect(configFieldsOf({ a, __proto__x: {} }).map(({ key }) => key)).toEqual([
      "a",
      "__proto__x",
    ]);
  });

  it("[TM-10] are secret and required by whatever is true, as in PostHog's forms", () => {
    for (const [value, is] of [
      ...([true, 1, "true", "yes"] as const).map((one) => [one, true] as const),
      ...([false, 0, "", null] as const).map((one) => [one, false] as const),
    ]) {
      const [field] = configFieldsOf([{ key: "a", secret: value, required: value }]);
      expect([value, field?.secret, field?.required]).toEqual([value, is, is]);
    }
  });

  it("[TM-10] can be anything without harm: what is malformed is left out", () => {
    fc.assert(
      fc.property(fc.jsonValue(), fc.dictionary(fc.string(), fc.jsonValue()), (schema, config) => {
        const fields = configFieldsOf(schema as Json);
        for (const { key } of validateConfig(config as JsonObject, fields)) {
          expect(fields.some((field) => field.key === key)).toBe(true);
        }
      }),
    );
  });

  it.each([
    ["a condition in place of a list of them", ["mode", "x"]],
    ["a name", ["mode"]],
    ["an empty condition", [[]]],
    ["null", [null]],
    ["no condition at all", []],
    ["a condition beside what is none", [["mode", "x"], 5]],
    ["a text", "mode"],
    ["an object", { mode: "x" }],
  ])("[TM-10] have no condition where it is malformed: %s", (_what, conditions) => {
    const schema = [
      { key: "n", type: "string", required_if: conditions },
      { key: "shown", type: "string", required: true, visible_if: conditions },
    ];
    for (const mode of ["q", "x"]) {
      expect(faults(schema, { mode })).toEqual([["shown", "required"]]);
    }
  });

  it("give their defaults to what is left out", () => {
    const fields = configFieldsOf([
      { key: "a", default: "x" },
      { key: "b", default: false },
      { key: "c" },
    ]);
    expect(withDefaults({ a: "", z: 1 }, fields)).toEqual({ a: "", z: 1, b: false });
    expect(withDefaults({ a: null }, fields)).toEqual({ a: "x", b: false });
    expect(
      withDefaults({ constructor: "x" }, configFieldsOf([{ key: "toString", default: 1 }])),
    ).toEqual({ constructor: "x", toString: 1 });
  });
});

describe("settings", () => {
  it("[TM-11] have to be given where they are required; an empty text is given, null is not", () => {
    const schema = [{ key: "a", required: true, type: "string" }];
    expect(faults(schema, {})).toEqual([["a", "required"]]);
    expect(faults(schema, { a: null })).toEqual([["a", "required"]]);
    expect(faults(schema, { a: "" })).toEqual([]);
    expect(faults([{ key: "a", required: true, default: "d" }], {})).toEqual([]);
    expect(faults([{ key: "f", type: "attachment", required: true }], {})).toEqual([
      ["f", "required"],
    ]);
    expect(faults([{ key: "f", type: "attachment", required: true }], {}, ["f"])).toEqual([]);
  });

  it("[TM-11] are required where required_if holds in all its parts", () => {
    const schema = [
      { key: "mode", type: "choice", choices: ["plain", "signed"] },
      { key: "zone", type: "string" },
      {
        key: "secret",
        type: "string",
        required_if: [["mode", "signed"], ["zone"]],
      },
    ];
    expect(faults(schema, { mode: "plain", zone: "z" })).toEqual([]);
    expect(faults(schema, { mode: "signed" })).toEqual([]);
    expect(faults(schema, { mode: "signed", zone: "" })).toEqual([]);
    expect(faults(schema, { mode: "signed", zone: "z" })).toEqual([["secret", "required"]]);
    expect(faults(schema, { mode: "signed", zone: "z", secret: "" })).toEqual([]);
  });

  it("[TM-11] may name the empty value as the condition, and defaults count", () => {
    const schema = [
      { key: "mode", default: "on" },
      { key: "a", required_if: [["mode", "on"]] },
      { key: "b", required_if: [["c", ""]] },
    ];
    expect(faults(schema, {})).toEqual([
      ["a", "required"],
      ["b", "required"],
    ]);
    expect(faults(schema, { mode: "off", c: "given" })).toEqual([]);
  });

  it("[TM-11] that are hidden by visible_if are not required", () => {
    const schema = [{ key: "mode" }, { key: "a", required: true, visible_if: [["mode", "on"]] }];
    expect(faults(schema, {})).toEqual([]);
    expect(faults(schema, { mode: "on" })).toEqual([["a", "required"]]);
  });

  it("[TM-12] have the type that is declared", () => {
    const schema = [
      { key: "text", type: "string" },
      { key: "choice", type: "choice", choices: ["x", "y"] },
      { key: "json", type: "json" },
      { key: "other", type: "colour" },
    ];
    expect(faults(schema, { text: {}, choice: "z", json: "{", other: [1] })).toEqual([
      ["text", "invalid"],
      ["choice", "choice"],
      ["json", "invalid"],
    ]);
    expect(faults(schema, { text: 5, choice: "x", json: '{"a":1}', unknown: {} })).toEqual([]);
    expect(faults(schema, { choice: "", json: "" })).toEqual([]);
    expect(faults(schema, { json: { a: 1 }, choice: "constructor" })).toEqual([
      ["choice", "choice"],
    ]);
  });

  it("[TM-12] may be one of numbers and truth values, as such or as texts", () => {
    const choices = { type: "choice", choices: [1, 2.5, true, null, { a: 1 }] };
    const free = { type: "choice" };
    for (const value of [1, "1", 2.5, "2.5", true, "true", ""]) {
      expect([value, faults({ choices }, { choices: value })]).toEqual([value, []]);
    }
    for (const value of [2, "one", false, [1], { a: 1 }, "null"]) {
      expect(faults({ choices }, { choices: value })).toEqual([["choices", "choice"]]);
    }
    // Nothing to choose from rules nothing out.
    expect(faults({ free }, { free: "x" })).toEqual([]);
    const told = (value: Json) =>
      validateConfig(
        { choices: value },
        configFieldsOf({ choices }),
        new Set(),
        new Set(["choices"]),
      );
    expect(told(3)[0]?.message).toBe('"3" is not a valid choice. Possible is 1, 2.5, true.');
    expect(told([3n])[0]?.message).toContain("[3] is not a valid choice.");
  });
});
