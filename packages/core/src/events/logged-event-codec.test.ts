import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { encodeJson, holdsBigInt } from "../exact-json.ts";
import type { Json, JsonObject } from "../json.ts";
import type { CapturedEvent, Passage } from "./event.ts";
import { encodeEvent } from "./event-codec.ts";
import {
  beginsWith,
  decodeLogged,
  encodePassed,
  encodeReference,
  referenceIn,
  resolveReference,
} from "./logged-event-codec.ts";

const text = fc.string({ unit: "binary" });
const properties = fc.oneof(
  fc
    .dictionary(text, fc.jsonValue())
    .map((object) => JSON.parse(JSON.stringify(object)) as JsonObject),
  // No odd number of that size is a `number`.
  fc.bigInt({ min: 10n ** 17n, max: 10n ** 30n }).map((half) => ({ large: 2n * half + 1n })),
);
const event: fc.Arbitrary<CapturedEvent> = fc.record({
  uuid: fc.uuid(),
  projectId: fc.nat(),
  event: text,
  distinctId: text,
  properties,
  timestamp: fc.constant(new Date(5)),
  clientTimestamp: fc.constant(null),
  receivedAt: fc.constant(new Date(7)),
});
const passage: fc.Arbitrary<Passage> = fc.oneof(
  fc.record({ kind: fc.constant("kept" as const), changedBy: fc.array(text) }),
  fc.record({
    kind: fc.constant("kept" as const),
    changedBy: fc.array(text),
    renamedFrom: fc.uuid(),
  }),
  fc.record({ kind: fc.constant("dropped" as const), by: text, reason: text }),
  fc.record({ kind: fc.constant("set-aside" as const), reason: text }),
);

describe("the encoding of events that passed transformations", () => {
  it("[PI-81] is one line that reads back as the same event and what became of it", () => {
    fc.assert(
      fc.property(event, passage, fc.boolean(), (captured, became, isTextKnown) => {
        const propertiesText = encodeJson(captured.properties);
        const mayHoldBigInt = holdsBigInt(captured.properties);
        const known = isTextKnown ? { propertiesText, mayHoldBigInt } : {};
        const encoded = encodePassed(captured, became, known);
        expect(encoded).toMatchObject({ propertiesText, mayHoldBigInt });
        expect(encoded.line).not.toMatch(/[\n\r]/);
        expect(decodeLogged(encoded.line)).toEqual({
          event: captured,
          passage: became,
          propertiesText,
          mayHoldBigInt,
        });
        const added = {
          properties: { " place": became.kind },
          text: `{" place":"${became.kind}"}`,
        };
        const both = encodePassed(captured, became, { added });
        expect(both.propertiesText).toBe(propertiesText);
        expect(decodeLogged(both.line).event).toEqual({
          ...captured,
          properties: { ...captured.properties, ...added.properties },
        });
        const head = JSON.stringify([captured.projectId, captured.uuid]).slice(0, -1);
        expect(beginsWith(encoded.line, head)).toBe(true);
        expect(beginsWith(encodeEvent(captured), head)).toBe(true);
      }),
      { numRuns: 300 },
    );
  });

  it("[PI-88] says of an event that stands in a lane only what was added, and reads back as the whole", () => {
    const addition = fc.oneof(
      fc.constant(undefined),
      fc.constant({ properties: {}, text: "{}" }),
      fc.jsonValue().map((value) => {
        const given = { " added": JSON.parse(JSON.stringify(value)) as Json };
        return { properties: given, text: JSON.stringify(given) };
      }),
      fc.constant({
        properties: { " large": 12345678901234567890n },
        text: '{" large":12345678901234567890}',
      }),
    );
    fc.assert(
      fc.property(event, passage, addition, fc.nat(), (captured, became, added, place) => {
        const line = encodeReference(captured, place, added, JSON.stringify(became));
        expect(line).not.toMatch(/[\n\r]/);
        expect(referenceIn(line)).toEqual({ projectId: captured.projectId, place });
        const whole = resolveReference(line, encodeEvent(captured));
        expect(whole).toBe(encodePassed(captured, became, { added }).line);
        expect(referenceIn(whole)).toBeUndefined();
        const head = JSON.stringify([captured.projectId, captured.uuid]).slice(0, -1);
        expect(beginsWith(line, head)).toBe(true);
      }),
      { numRuns: 300 },
    );
    for (const damaged of ["=", "=[1", '=[1,"a"]{}', '=[1,"a",x]{}\t{}']) {
      expect(() => referenceIn(damaged)).toThrow(SyntaxError);
    }
    const line = '=[1,"a",2]{}\t{}';
    expect(resolveReference(line, '[1,"a",{}]')).toBe('+[1,"a",{}]\t{}');
    for (const other of ["[]", '[1,"ab",{}]', '[2,"a",{}]', "", '"a",{}]']) {
      expect(() => resolveReference(line, other)).toThrow(SyntaxError);
    }
    expect(() => resolveReference('=[1,"a",2]{}', '[1,"a",{}]')).toThrow(SyntaxError);
  });

  it("[PI-1] reads lines of events that never were in a lane", () => {
    fc.assert(
      fc.property(event, (captured) => {
        expect(decodeLogged(encodeEvent(captured))).toEqual({
          event: captured,
          propertiesText: encodeJson(captured.properties),
          mayHoldBigInt: holdsBigInt(captured.properties),
        });
      }),
    );
  });

  it.each([
    null,
    [],
    {},
    { kind: "lost" },
    { kind: "kept" },
    { kind: "kept", changedBy: [1] },
    { kind: "kept", changedBy: [], renamedFrom: "g" },
    { kind: "kept", changedBy: [], renamedBy: "g" },
    { kind: "kept", changedBy: [], renamedBy: [null] },
    { kind: "dropped", by: "x" },
    { kind: "dropped", by: 1, reason: "x" },
    { kind: "set-aside" },
  ])("[PI-58] refuses to read what became of an event from %j", (became) => {
    const [captured] = fc.sample(event, 1);
    if (!captured) throw new Error("no sample");
    const { line } = encodePassed(captured, became as unknown as Passage);
    expect(() => decodeLogged(line)).toThrow(SyntaxError);
  });
});
