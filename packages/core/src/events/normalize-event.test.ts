import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { Json, JsonObject } from "../json.ts";
import {
  type Acceptance,
  claimedUuid,
  type EventSurroundings,
  normalizeEvent,
  type Rejection,
} from "./normalize-event.ts";

const NEW_UUID = "01890000-0000-7000-8000-000000000001";
const receivedAt = new Date("2024-05-01T10:00:00.000Z");
const surroundings: EventSurroundings = {
  projectId: 7,
  receivedAt,
  sentAt: null,
  clientAddress: null,
  anonymizeIps: false,
  nameForUnnamed: null,
  newUuid: () => NEW_UUID,
};

const valid = { event: "visit", distinct_id: "ann" } as const;

function accepted(sent: Json, given: Partial<EventSurroundings> = {}): Acceptance {
  const outcome = normalizeEvent(sent, { ...surroundings, ...given });
  if (outcome.kind !== "accepted") throw new Error(JSON.stringify(outcome));
  return outcome;
}

function rejected(sent: Json): Rejection {
  const outcome = normalizeEvent(sent, surroundings);
  if (outcome.kind !== "rejected") throw new Error(JSON.stringify(outcome));
  return outcome;
}

/** JSON as it comes off the wire: names like `__proto__` are own keys. */
const wire = (text: string) => JSON.parse(text) as JsonObject;

describe("normalizeEvent", () => {
  it("[CA-10] completes a minimal event", () => {
    expect(accepted(valid).event).toEqual({
      uuid: NEW_UUID,
      projectId: 7,
      event: "visit",
      distinctId: "ann",
      properties: {},
      timestamp: receivedAt,
      clientTimestamp: null,
      receivedAt,
    });
    expect(accepted(valid).warnings).toEqual([]);
  });

  describe("[CA-11] what is no event", () => {
    it.each([[null], [5], ["text"], [true], [[]], [[valid]]])("is refused: %j", (sent) => {
      expect(rejected(sent)).toMatchObject({ code: "not_an_object", field: null });
    });
  });

  describe("[CA-12] the name", () => {
    it.each([
      [{}, "missing_event"],
      [{ event: null }, "missing_event"],
      [{ event: "" }, "invalid_event"],
      [{ event: " \t" }, "invalid_event"],
      [{ event: 5 }, "invalid_event"],
      [{ event: { a: 1 } }, "invalid_event"],
      [{ event: ["x"] }, "invalid_event"],
    ])("is refused: %j", (fields, code) => {
      expect(rejected({ distinct_id: "ann", ...fields })).toMatchObject({ code, field: "event" });
    });

    it("stands in for a missing one where the route has one", () => {
      const given = { nameForUnnamed: "$identify" };
      expect(accepted({ distinct_id: "a", $set: { b: 1 } }, given).event.event).toBe("$identify");
      expect(accepted({ event: "x", distinct_id: "a" }, given).event.event).toBe("x");
    });

    it("is kept as it is, blanks around it included, and cut at 200 characters with a warning", () => {
      expect(accepted({ ...valid, event: " x " }).event.event).toBe(" x ");
      const { event, warnings } = accepted({ ...valid, event: "🦔".repeat(201) });
      expect(event.event).toBe("🦔".repeat(200));
      expect(warnings).toEqual(["event_name_truncated"]);
      expect(accepted({ ...valid, event: "🦔".repeat(200) }).warnings).toEqual([]);
    });

    it.each(["$performance_event", "$snapshot"])("%s is understood and not kept", (event) => {
      expect(normalizeEvent({ event }, surroundings)).toEqual({ kind: "discarded" });
    });
  });

  describe("[CA-13] the distinct id", () => {
    const idOf = (fields: JsonObject) => accepted({ event: "e", ...fields }).event.distinctId;

    it("is looked for at the top level first, then in the properties", () => {
      expect(idOf({ distinct_id: "a", properties: { distinct_id: "b" } })).toBe("a");
      expect(idOf({ $distinct_id: "a", properties: { distinct_id: "b" } })).toBe("a");
      expect(idOf({ distinct_id: null, properties: { distinct_id: "b" } })).toBe("b");
      expect(idOf({ properties: { $distinct_id: "c" } })).toBe("c");
    });

    it.each([
      [5, "5"],
      [-1.5, "-1.5"],
      [true, "true"],
      [{ a: 1 }, '{"a":1}'],
      [["x", 1], '["x",1]'],
      [" x ", " x "],
    ])("%j counts as %s", (distinct_id, text) => {
      expect(idOf({ distinct_id })).toBe(text);
    });

    it.each([[{}], [{ distinct_id: null }], [{ properties: {} }]])("is missing: %j", (fields) => {
      expect(rejected({ event: "e", ...fields })).toMatchObject({
        code: "missing_distinct_id",
        field: "distinct_id",
        detail: 'All events must have the event field "distinct_id"!',
      });
    });

    it.each([[""], ["   "], ["\n"]])("is blank: %j", (distinct_id) => {
      const properties = { distinct_id: "b" };
      expect(rejected({ event: "e", distinct_id, properties })).toMatchObject({
        code: "blank_distinct_id",
        detail: 'Event field "distinct_id" should not be blank!',
      });
    });

    it("is cut at 200 characters with a warning", () => {
      const { event, warnings } = accepted({ ...valid, distinct_id: `${"é".repeat(200)}tail` });
      expect(event.distinctId).toBe("é".repeat(200));
      expect(warnings).toEqual(["distinct_id_truncated"]);
    });
  });

  describe("[CA-14] the uuid", () => {
    const uuid = "0189AAAA-1111-7222-8333-444455556666";
    const lower = uuid.toLowerCase();

    it.each([uuid, lower, lower.replaceAll("-", "")])("is taken in lower case: %s", (given) => {
      expect(accepted({ ...valid, uuid: given }).event.uuid).toBe(lower);
      expect(claimedUuid({ uuid: given })).toBe(lower);
    });

    it.each([undefined, null, ""])("is made where it is %j", (given) => {
      const sent = given === undefined ? valid : { ...valid, uuid: given };
      expect(accepted(sent).event.uuid).toBe(NEW_UUID);
      expect(claimedUuid(sent)).toBeUndefined();
    });

    it.each([["nonsense"], [5], [{}], [`${lower}0`], [` ${lower}`]])("is refused: %j", (given) => {
      expect(rejected({ ...valid, uuid: given })).toMatchObject({
        code: "invalid_uuid",
        field: "uuid",
        detail: 'Event field "uuid" is not a valid UUID!',
      });
      expect(claimedUuid({ uuid: given })).toBeUndefined();
    });
  });

  describe("[CA-15] the properties", () => {
    const propertiesOf = (fields: JsonObject) => accepted({ ...valid, ...fields }).event.properties;

    it("are kept as sent", () => {
      const properties = wire('{"b":[1,{"c":null}],"__proto__":{"x":1},"constructor":"y"}');
      expect(propertiesOf({ properties })).toEqual(properties);
      expect(Object.keys(propertiesOf({ properties }))).toEqual(["b", "__proto__", "constructor"]);
    });

    it.each([[null], [[]]])("may be %j for none", (properties) => {
      expect(propertiesOf({ properties })).toEqual({});
    });

    it.each([["text"], [5], [[1]], [true]])("are refused: %j", (properties) => {
      expect(rejected({ ...valid, properties })).toMatchObject({
        code: "invalid_properties",
        field: "properties",
        detail: expect.stringMatching(/^Properties must be a JSON object, received .+!$/),
      });
    });

    it("take in $set, $set_once and $unset of the top level, which win", () => {
      const sent = {
        $set: { a: 1, b: 1 },
        $set_once: { c: 1 },
        $unset: ["d"],
        properties: { $set: { b: 2, e: 2 }, $unset: { f: true }, x: 1 },
      };
      expect(propertiesOf(sent)).toEqual({
        $set: { a: 1, b: 1, e: 2 },
        $set_once: { c: 1 },
        $unset: ["f", "d"],
        x: 1,
      });
    });

    it("keep __proto__ in folded $set a plain key", () => {
      const $set = propertiesOf({
        $set: wire('{"__proto__":{"polluted":1}}'),
        properties: { $set: { a: 1 } },
      }).$set as JsonObject;
      expect(Object.keys($set)).toEqual(["a", "__proto__"]);
      expect("polluted" in $set).toBe(false);
    });

    it.each([
      ["$set", "x"],
      ["$set", [1]],
      ["$set_once", 5],
      ["$unset", "name"],
    ])("are refused for a %s that is %j, at the top level and inside", (field, value) => {
      const expected = { code: "invalid_properties", field };
      expect(rejected({ ...valid, [field]: value })).toMatchObject(expected);
      expect(rejected({ ...valid, properties: { [field]: value } })).toMatchObject(expected);
    });

    it("may have empty lists and null for no $set", () => {
      expect(propertiesOf({ $set: [], properties: { $set_once: null } })).toMatchObject({
        $set: [],
      });
    });
  });

  describe("[CA-16] the address", () => {
    const ipOf = (properties: JsonObject, given: Partial<EventSurroundings>) =>
      accepted({ ...valid, properties }, given).event.properties.$ip;

    it("is the client's unless the event has one, `null` included", () => {
      expect(ipOf({}, { clientAddress: "203.0.113.1" })).toBe("203.0.113.1");
      expect(ipOf({ $ip: "198.51.100.2" }, { clientAddress: "203.0.113.1" })).toBe("198.51.100.2");
      expect(ipOf({ $ip: null }, { clientAddress: "203.0.113.1" })).toBeNull();
      expect(ipOf({}, { clientAddress: null })).toBeUndefined();
    });

    it("is left out, and taken out, where the project anonymizes", () => {
      const given = { anonymizeIps: true, clientAddress: "203.0.113.1" };
      expect(
        accepted({ ...valid, properties: { $ip: "1.2.3.4", a: 1 } }, given).event.properties,
      ).toEqual({ a: 1 });
      expect(ipOf({}, given)).toBeUndefined();
    });
  });

  describe("[CA-17] the time", () => {
    const timeOf = (fields: JsonObject, sentAt: Date | null = null) => {
      const { event, warnings } = accepted({ ...valid, ...fields }, { sentAt });
      return [event.timestamp.toISOString(), ...warnings];
    };

    it("is the client's, read without a zone as UTC", () => {
      expect(timeOf({ timestamp: "2024-05-01T09:30:00.123+02:00" })).toEqual([
        "2024-05-01T07:30:00.123Z",
      ]);
      expect(timeOf({ timestamp: "2024-05-01 09:30:00" })).toEqual(["2024-05-01T09:30:00.000Z"]);
    });

    it("lies `offset` milliseconds before the arrival where there is no timestamp", () => {
      expect(timeOf({ offset: 1500 })).toEqual(["2024-05-01T09:59:58.500Z"]);
      expect(timeOf({ offset: "1500" })).toEqual(["2024-05-01T09:59:58.500Z"]);
      expect(timeOf({ offset: 1500, timestamp: "2024-05-01T09:00:00Z" })).toEqual([
        "2024-05-01T09:00:00.000Z",
      ]);
    });

    it("is moved by a client clock that is more than a minute off, and both times are kept", () => {
      const sent = { timestamp: "2024-05-31T10:00:00Z" };
      const sentAt = new Date("2024-05-31T10:00:05Z");
      expect(timeOf(sent, sentAt)).toEqual(["2024-05-01T09:59:55.000Z", "clock_skew_corrected"]);
      expect(accepted({ ...valid, ...sent }, { sentAt }).event.clientTimestamp).toEqual(
        new Date("2024-05-31T10:00:00Z"),
      );
    });

    it("is kept for slow deliveries of less than a minute", () => {
      const timestamp = "2024-05-01T09:59:20Z";
      expect(timeOf({ timestamp }, new Date("2024-05-01T09:59:28Z"))).toEqual([
        "2024-05-01T09:59:20.000Z",
      ]);
    });

    it("is kept where the event says $ignore_sent_at", () => {
      const timestamp = "2024-05-01T08:00:00Z";
      const properties = { $ignore_sent_at: true };
      expect(timeOf({ timestamp, properties }, new Date("2020-01-01T00:00:00Z"))).toEqual([
        "2024-05-01T08:00:00.000Z",
      ]);
    });

    it("is the arrival, with a warning, for what would lie more than 23 hours ahead", () => {
      expect(timeOf({ timestamp: "2024-05-31T10:00:00Z" })).toEqual([
        "2024-05-01T10:00:00.000Z",
        "timestamp_in_future",
      ]);
      expect(timeOf({ timestamp: "2024-05-02T09:00:00Z" })).toEqual(["2024-05-02T09:00:00.000Z"]);
      expect(timeOf({ offset: -24 * 3_600_000 })).toEqual([
        "2024-05-01T10:00:00.000Z",
        "timestamp_in_future",
      ]);
    });

    it.each([
      ["timestamp", "yesterday"],
      ["timestamp", 1714557600],
      ["timestamp", true],
      ["timestamp", "2024-02-30T00:00:00Z"],
      ["offset", "soon"],
      ["offset", {}],
      ["offset", true],
    ])("is refused for a %s of %j", (field, value) => {
      expect(rejected({ ...valid, [field]: value })).toMatchObject({
        code: "invalid_timestamp",
        field,
      });
    });

    it.each([[null], [""]])("is the arrival for a timestamp of %j", (timestamp) => {
      expect(timeOf({ timestamp })).toEqual(["2024-05-01T10:00:00.000Z"]);
    });
  });

  it("[CA-18] answers any JSON with one of its outcomes, within the limits", () => {
    const names = fc.constantFrom(
      "event",
      "distinct_id",
      "$distinct_id",
      "uuid",
      "timestamp",
      "offset",
      "properties",
      "$set",
      "$set_once",
      "$unset",
      "__proto__",
    );
    const sent = fc.oneof(
      fc.jsonValue(),
      fc
        .array(fc.tuple(names, fc.jsonValue({ maxDepth: 2 })))
        .map((entries) => Object.fromEntries(entries) as JsonObject),
    );
    fc.assert(
      fc.property(sent, (value) => {
        const outcome = normalizeEvent(value as Json, { ...surroundings, clientAddress: "::1" });
        if (outcome.kind !== "accepted") return;
        const { event } = outcome;
        expect(event.uuid).toMatch(/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/);
        expect([...event.distinctId].length).toBeLessThanOrEqual(200);
        expect(event.distinctId.trim()).not.toBe("");
        expect(Number.isNaN(event.timestamp.getTime())).toBe(false);
        expect(event.timestamp.getTime()).toBeLessThanOrEqual(
          receivedAt.getTime() + 23 * 3_600_000,
        );
      }),
      { numRuns: 2000 },
    );
  });
});
