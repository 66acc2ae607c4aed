import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { CapturedEvent } from "../events/event.ts";
import { encodeJson } from "../exact-json.ts";
import type { Json, JsonObject } from "../json.ts";
import {
  type AnswerOutcome,
  additionOf,
  capturedEventOf,
  type EventChange,
  eventAfter,
  HOPS_PROPERTY,
  headTextOf,
  passedProperties,
  pluginEventOf,
  takeAnswer,
  takeChange,
} from "./plugin-event.ts";

function eventWith(properties: JsonObject): CapturedEvent {
  return {
    uuid: "0190c0de-0000-7000-8000-000000000001",
    projectId: 3,
    event: "$identify",
    distinctId: "ann",
    properties,
    timestamp: new Date("2024-05-01T12:00:00.123Z"),
    clientTimestamp: null,
    receivedAt: new Date("2024-05-01T12:00:01Z"),
  };
}

function answered(before: JsonObject, change: (event: Record<string, Json>) => void) {
  const event = structuredClone(before) as Record<string, Json>;
  change(event);
  return takeAnswer(before, event);
}

function changed(outcome: AnswerOutcome): JsonObject {
  if (outcome.kind !== "changed") throw new Error(outcome.reason);
  return outcome.event;
}

const seen = (properties: JsonObject) => pluginEventOf(eventWith(properties), "https://x.test");
const set = (value: Json) => ({ $set: value });
const propertiesOf = (event: JsonObject) => event.properties as JsonObject;

describe("an event before a transformation", () => {
  it("[TP-2] has the fields that PostHog shows, person fields in both places", () => {
    expect(seen({ $ip: "1.2.3.4", a: 1, $set: { email: "e" } })).toEqual({
      uuid: "0190c0de-0000-7000-8000-000000000001",
      event: "$identify",
      distinct_id: "ann",
      team_id: 3,
      ip: "1.2.3.4",
      site_url: "https://x.test",
      now: "2024-05-01T12:00:01.000Z",
      timestamp: "2024-05-01T12:00:00.123Z",
      properties: { $ip: "1.2.3.4", a: 1, $set: { email: "e" } },
      $set: { email: "e" },
    });
    expect(seen({}).ip).toBeNull();
  });
});

const isoOf = (time: Date) => time.toISOString();

describe("the text of an event before a transformation", () => {
  it("[TP-58] is what the event is written as", () => {
    const fields = fc.dictionary(
      fc.oneof(fc.constantFrom("$ip", "$set", "$set_once", "$unset", "a"), fc.string()),
      fc.oneof(fc.jsonValue(), fc.constant(2n ** 70n)),
    );
    fc.assert(
      fc.property(fields, fc.string(), fc.string(), (given, name, id) => {
        const properties = given as JsonObject;
        const event = { ...eventWith(properties), event: name, distinctId: id };
        const { properties: _, ...head } = pluginEventOf(event, 'https://x.test/"');
        expect(`${headTextOf(event, 'https://x.test/"', isoOf)}}`).toBe(encodeJson(head));
      }),
    );
  });
});

describe("what a transformation answers", () => {
  it("comes back as it was when nothing is changed", () => {
    fc.assert(
      fc.property(fc.dictionary(fc.string(), fc.jsonValue()), (given) => {
        const properties = { ...given, $set: { a: 1 } } as JsonObject;
        const event = eventWith(JSON.parse(JSON.stringify(properties)));
        const before = pluginEventOf(event, "");
        const after = changed(takeAnswer(before, JSON.parse(JSON.stringify(before))));
        expect(capturedEventOf(event, after)).toEqual(event);
      }),
    );
  });

  it.each<[string, JsonObject | undefined, JsonObject | undefined, JsonObject | undefined]>([
    ["changed inside", { a: 1, b: 2 }, undefined, { a: 1, b: 2 }],
    ["changed at the top", undefined, { b: 2 }, { b: 2 }],
    ["changed in both", { a: 1, b: 2 }, { b: 3 }, { a: 1, b: 3 }],
  ])("[TP-3] sets on persons what it has %s", (_what, inside, beside, expected) => {
    const before = seen(set({ a: 0 }));
    const after = changed(
      answered(before, (event) => {
        if (inside) event.properties = { ...propertiesOf(event), $set: inside };
        if (beside) event.$set = beside;
      }),
    );
    expect(propertiesOf(after).$set).toEqual(expected);
    expect(after.$set).toEqual(expected);
  });

  it("[TP-3] may add person fields to an event that had none, and take them away", () => {
    const added = changed(answered(seen({}), (event) => Object.assign(event, set({ a: 1 }))));
    expect(propertiesOf(added)).toEqual(set({ a: 1 }));
    const removed = changed(
      answered(seen(set({ a: 1 })), (event) => {
        delete event.$set;
        event.properties = {};
      }),
    );
    expect(propertiesOf(removed)).toEqual({});
    const rebuilt = changed(answered(seen(set({ a: 1 })), (event) => delete event.$set));
    expect(propertiesOf(rebuilt)).toEqual(set({ a: 1 }));
  });

  it("[TP-4] changes the address in either place", () => {
    const before = seen({ $ip: "1.2.3.4" });
    const byField = changed(answered(before, (event) => Object.assign(event, { ip: null })));
    expect(byField).toMatchObject({ ip: null, properties: {} });
    expect(propertiesOf(byField)).toEqual({});
    const inside = changed(answered(before, (event) => Object.assign(event, { properties: {} })));
    expect(inside).toMatchObject({ ip: null });
    const other = changed(answered(before, (event) => Object.assign(event, { ip: "5.6.7.8" })));
    expect(propertiesOf(other)).toEqual({ $ip: "5.6.7.8" });
  });

  it.each<[string, Json]>([
    ["it tried to change team_id", { ...seen({}), team_id: 4 }],
    ["its event has no name", { ...seen({}), event: "" }],
    ["its event has no distinct_id", { ...seen({}), distinct_id: null }],
    ["the timestamp of its event is no time", { ...seen({}), timestamp: "yesterday" }],
    ["the properties of its event are no object", { ...seen({}), properties: [1] }],
    ["$set of its event is no object", { ...seen({}), $set: "a" }],
    ["it answered no event", "yes"],
    ["its event is nested too deep", { ...seen({}), properties: nested(203) }],
  ])("[TP-5] is refused as a whole when %s", (reason, answer) => {
    expect(takeAnswer(seen({}), answer)).toEqual({ kind: "refused", reason });
  });

  it.each([
    ["+275760-09-13T00:00:00.000Z", "the timestamp of its event is no time"],
    ["-000001-01-01T00:00:00.000Z", "the timestamp of its event is no time"],
    ["9999-12-31T23:59:59-10:00", "the timestamp of its event is no time"],
    ["9998-01-01T00:00:00Z", "the timestamp of its event lies too far ahead"],
    ["2024-05-02T11:00:02Z", "the timestamp of its event lies too far ahead"],
  ])("[TP-5] is refused where it says that the event happened at %s", (timestamp, reason) => {
    expect(takeAnswer(seen({}), { ...seen({}), timestamp })).toEqual({ kind: "refused", reason });
  });

  it.each([
    ["1970-01-01T00:00:00Z", "1970-01-01T00:00:00.000Z"],
    ["1969-12-31T22:00:00-02:00", "1970-01-01T00:00:00.000Z"],
    ["Thu, 01 Jan 1970 00:00:00 GMT", "1970-01-01T00:00:00.000Z"],
    ["0001-01-01T00:00:00Z", "0001-01-01T00:00:00.000Z"],
    ["2024-05-02T11:00:01Z", "2024-05-02T11:00:01.000Z"],
  ])("may say that the event happened at %s", (timestamp, kept) => {
    expect(changed(takeAnswer(seen({}), { ...seen({}), timestamp })).timestamp).toBe(kept);
  });

  it("[TP-6] keeps a changed uuid that is valid, and ignores any other", () => {
    const uuid = "0190C0DE-0000-7000-8000-00000000000F";
    const valid = changed(answered(seen({}), (event) => Object.assign(event, { uuid })));
    expect(valid.uuid).toBe(uuid.toLowerCase());
    const invalid = changed(answered(seen({}), (event) => Object.assign(event, { uuid: "x" })));
    expect(invalid.uuid).toBe(seen({}).uuid);
  });

  it("[TP-7] cannot change what the service says of the event", () => {
    const passed = passedProperties(["A (1)"], []).properties;
    const before = seen({ [HOPS_PROPERTY]: 2, ...passed });
    const after = changed(
      answered(before, (event) => {
        event.properties = { $plugins_failed: ["B (2)"], [HOPS_PROPERTY]: 0 };
      }),
    );
    expect(after.properties).toEqual({
      [HOPS_PROPERTY]: 2,
      $plugins_succeeded: ["A (1)"],
      $plugins_failed: [],
    });
    const forged = changed(
      answered(seen({}), (event) => Object.assign(event, { properties: { [HOPS_PROPERTY]: -9 } })),
    );
    expect(forged.properties).toEqual({});
  });

  it("has texts that stores can hold", () => {
    const after = changed(
      answered(seen({}), (event) => {
        event.properties = { "a\0": "\ud800" };
        event.distinct_id = 12;
        event.event = "x".repeat(300);
      }),
    );
    expect(after).toMatchObject({ distinct_id: "12", event: "x".repeat(200) });
    expect(after.properties).toEqual({ "a\uFFFD": "\uFFFD" });
  });
});

describe("differences that a transformation makes", () => {
  const names = fc.constantFrom(
    ...[
      "a",
      "b",
      "$set",
      "$unset",
      "$ip",
      "$plugins_failed",
      HOPS_PROPERTY,
      "__proto__",
      "7",
      "\0",
    ],
  );
  // No odd number of that size is a `number`.
  const digits = fc.bigInt({ min: 2n ** 53n, max: 2n ** 70n }).map((half) => 2n * half + 1n);
  const json = fc.oneof(
    { weight: 3, arbitrary: fc.jsonValue({ maxDepth: 2 }) as fc.Arbitrary<Json> },
    { weight: 1, arbitrary: fc.oneof(digits, fc.array(digits), fc.record({ id: digits })) },
  );
  const objects = fc
    .array(fc.tuple(names, fc.oneof(json, fc.constant({ plan: "pro" }))), { maxLength: 5 })
    .map((members) => Object.fromEntries(members) as JsonObject);
  const fields = fc
    .array(
      fc.tuple(
        fc.constantFrom("event", "distinct_id", "uuid", "team_id", "ip", "$set", "timestamp"),
        fc.oneof(json, fc.constantFrom<Json>("name", "2024-05-01T10:00:00Z", 3, { plan: "pro" })),
      ),
      { maxLength: 2 },
    )
    .map((members) => Object.fromEntries(members) as JsonObject);
  const changes: fc.Arbitrary<EventChange> = fc.oneof(
    fc.record({
      kind: fc.constant("parts" as const),
      fields: fc.oneof(fc.constant({}), fields),
      removedFields: fc.oneof(fc.constant([]), fc.subarray(["ip", "timestamp", "event", "$set"])),
      set: objects,
      removed: fc.array(names, { maxLength: 2 }),
    }),
    fc.record({
      kind: fc.constant("properties" as const),
      fields,
      removedFields: fc.constant([]),
      properties: fc.oneof(objects, json),
    }),
  );

  it("[TP-58] are taken as the whole event would be", () => {
    fc.assert(
      fc.property(objects, changes, (properties, change) => {
        const before = seen(cleaned(properties));
        const [part, whole] = [
          takeChange(before, change),
          takeAnswer(before, eventAfter(before, change)),
        ];
        expect(part).toEqual(whole);
        const texts = [part, whole].map((taken) =>
          taken.kind === "changed" ? encodeJson(taken.event["properties"]) : taken.reason,
        );
        expect(texts[0]).toBe(texts[1]);
      }),
      { numRuns: 500 },
    );
  });

  it("[TP-58] keep the text of the properties where only plain ones changed", () => {
    const before = seen({ a: 1 });
    const change = { fields: {}, removedFields: [], removed: [], propertiesText: '{"a":1,"b":2}' };
    const text = (set: JsonObject) => {
      const taken = takeChange(before, { kind: "parts", ...change, set });
      return "propertiesText" in taken ? taken.propertiesText : undefined;
    };
    expect(text({ b: 2 })).toBe('{"a":1,"b":2}');
    expect(text({ b: "\0" })).toBeUndefined();
    expect(text({ $set: {} })).toBeUndefined();
  });

  it("[TP-58] are no more than an addition where plain properties came behind the others", () => {
    const change = { kind: "parts", fields: {}, removedFields: [], removed: [] } as const;
    const addition = (set: JsonObject, more: object = { addedText: JSON.stringify(set) }) =>
      additionOf({ ...change, set, ...more });
    expect(addition({ b: 2 })).toEqual({ properties: { b: 2 }, text: '{"b":2}' });
    expect(addition({ b: 2 }, {})).toBeUndefined();
    const read = ["$set", "$ip", "$plugins_failed", "$groups", "$os_name", "$insert_id", "alias"];
    const others = read.map((name) => ({ [name]: {} }));
    for (const set of [{ b: "\0" }, ...others, { b: 2, $session_id: "s" }]) {
      expect(addition(set)).toBeUndefined();
    }
    expect(addition({ b: 2 }, { addedText: '{"b":2}', removed: ["c", "$ip"] })).toBeUndefined();
    const deep = JSON.parse(`${"[".repeat(300)}${"]".repeat(300)}`);
    expect(addition({ deep })).toBeUndefined();
  });
});

/** As events are when they were captured: person fields are objects. */
function cleaned(properties: JsonObject): JsonObject {
  const { $set, $unset, "\0": _, ...rest } = properties;
  return {
    ...rest,
    ...(typeof $set === "object" && $set !== null && !Array.isArray($set) && { $set: { ...$set } }),
    ...(Array.isArray($unset) && { $unset: ["a"] }),
  };
}

function nested(depth: number): JsonObject {
  let value: JsonObject = {};
  for (let level = 0; level < depth; level++) value = { a: value };
  return value;
}
