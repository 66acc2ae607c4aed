import fc from "fast-check";
import { expect, it } from "vitest";
import { extendedLength, extendJson, extendJsonText, missingIn } from "./extend-json.ts";
import type { JsonObject } from "./json.ts";

const objects = fc.dictionary(
  fc.oneof(fc.constantFrom("a", "b", "__proto__", "constructor", "1"), fc.string()),
  fc.jsonValue({ maxDepth: 1 }),
  { noNullPrototype: true },
) as fc.Arbitrary<JsonObject>;

it("[PI-45] an object is extended by what it lacks, with keys of any name, and stays as it was", () => {
  fc.assert(
    fc.property(objects, objects, (object, added) => {
      const before = JSON.stringify(object);
      const extended = extendJson(object, added);
      const missing = Object.entries(added).filter(([key]) => !Object.hasOwn(object, key));
      const expected = Object.fromEntries([...Object.entries(object), ...missing]);
      expect(JSON.stringify(extended)).toBe(JSON.stringify(expected));
      expect(Object.getPrototypeOf(extended)).toBe(Object.getPrototypeOf({}));
      expect(JSON.stringify(object)).toBe(before);
      if (missing.length === 0) expect(extended).toBe(object);
    }),
  );
});

it("[PI-45] the text of an object is extended without reading it", () => {
  fc.assert(
    fc.property(objects, objects, (object, added) => {
      const missing = missingIn(object, added);
      const text = extendJsonText(JSON.stringify(object), JSON.stringify(missing));
      const extended = JSON.stringify(extendJson(object, added));
      expect(text).toHaveLength(extendedLength(JSON.stringify(object), JSON.stringify(missing)));
      expect(JSON.stringify(JSON.parse(text))).toBe(JSON.stringify(JSON.parse(extended)));
    }),
  );
});
