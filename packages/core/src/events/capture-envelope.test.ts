import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { Json, JsonObject } from "../json.ts";
import { type BesideBody, readEnvelope } from "./capture-envelope.ts";

const NOTHING: BesideBody = { token: undefined, formSentAt: undefined, querySentAt: undefined };
const read = (body: Json | undefined, beside: Partial<BesideBody> = {}) =>
  readEnvelope(body, { ...NOTHING, ...beside });

const event = { event: "e", distinct_id: "a" };

describe("readEnvelope", () => {
  it("[CA-1] takes one event, a list of events and a batch", () => {
    const single = { ...event, api_key: "phc_1" };
    expect(read(single)).toEqual({
      token: "phc_1",
      events: [single],
      isSingle: true,
      sentAt: null,
    });
    const list = [{ ...event, token: "phc_1" }, event];
    expect(read(list)).toEqual({ token: "phc_1", events: list, isSingle: false, sentAt: null });
    const batch = { api_key: "phc_1", batch: [event, 5, null], historical_migration: true };
    expect(read(batch)).toMatchObject({
      token: "phc_1",
      events: [event, 5, null],
      isSingle: false,
    });
  });

  it.each([[undefined], [null], [[]], [{ api_key: "phc_1", batch: [] }]])(
    "[CA-1] finds no data in %j",
    (body) => {
      expect(read(body)).toEqual({ kind: "no-data" });
    },
  );

  it.each([["text"], [5], [true], [{ api_key: "phc_1", batch: {} }], [{ batch: null }]])(
    "[CA-1] finds no events in %j",
    (body) => {
      expect(read(body)).toMatchObject({ kind: "not-events" });
    },
  );

  describe("[CA-2] the project key", () => {
    it.each([
      [{ token: "phc_1" }],
      [{ api_key: "phc_1" }],
      [{ $token: "phc_1" }],
      [{ properties: { token: "phc_1" } }],
      [{ token: null, api_key: "phc_1" }],
    ])("is found in an event: %j", (fields: JsonObject) => {
      expect(read({ ...event, ...fields })).toMatchObject({ token: "phc_1" });
      expect(read([event, { ...event, ...fields }])).toMatchObject({ token: "phc_1" });
      expect(read({ batch: [{ ...event, ...fields }] })).toMatchObject({ token: "phc_1" });
    });

    it("of a batch wins over those of its events, and the body's over what stands beside it", () => {
      const batch = [{ ...event, token: "phc_2" }];
      expect(read({ token: "phc_1", batch })).toMatchObject({ token: "phc_1" });
      expect(read({ batch }, { token: "phc_3" })).toMatchObject({ token: "phc_3" });
      expect(read({ ...event, token: "phc_1" }, { token: "phc_3" })).toMatchObject({
        token: "phc_1",
      });
      expect(read(event, { token: "phc_3" })).toMatchObject({ token: "phc_3" });
    });

    it("is missing", () => {
      expect(read(event)).toEqual({ kind: "no-token" });
      expect(read([event, 5, null])).toEqual({ kind: "no-token" });
    });

    it.each([
      ["", "empty"],
      [5, "not_string"],
      [{}, "not_string"],
      ["x".repeat(65), "too_long"],
      ["phc_é", "not_ascii"],
      ["phc_\n", "not_ascii"],
      ["phc_\0", "null_byte"],
      ["phc_\uFFFD", "null_byte"],
      ["phx_secret", "personal_api_key"],
    ])("%j is refused as %s", (token, reason) => {
      expect(read({ ...event, token })).toEqual({ kind: "bad-token", reason });
    });

    it("must be one for all events", () => {
      const batch = [
        { ...event, token: "phc_1" },
        { ...event, token: "phc_2" },
      ];
      expect(read({ batch })).toEqual({ kind: "bad-token", reason: "inconsistent" });
      expect(read(batch)).toEqual({ kind: "bad-token", reason: "inconsistent" });
    });
  });

  describe("[CA-3] when it was sent", () => {
    const sentAt = new Date("2024-05-01T10:00:00.000Z");
    const body = { ...event, token: "phc_1" };
    const ms = String(sentAt.getTime());

    it.each<[JsonObject, Partial<BesideBody>]>([
      [{ sent_at: "2024-05-01T12:00:00+02:00" }, {}],
      [{ sent_at: sentAt.getTime() }, {}],
      [{ sent_at: ms }, {}],
      [{}, { formSentAt: "2024-05-01T10:00:00Z" }],
      [{}, { querySentAt: ms }],
      [{ sent_at: "2020-01-01T00:00:00Z" }, { querySentAt: ms }],
      [{ sent_at: "2024-05-01T10:00:00Z" }, { querySentAt: "17" }],
    ])("is read from %j and %j", (fields, beside) => {
      expect(read({ ...body, ...fields }, beside)).toMatchObject({ sentAt });
    });

    it.each<[JsonObject, Partial<BesideBody>]>([
      [{}, {}],
      [{ sent_at: null }, {}],
      [{ sent_at: "" }, {}],
      [{}, { querySentAt: "cache-buster" }],
    ])("is unknown for %j and %j", (fields, beside) => {
      expect(read({ ...body, ...fields }, beside)).toMatchObject({ sentAt: null });
    });

    it.each([["yesterday"], [17], [{}]])("is refused: %j", (sent_at) => {
      expect(read({ ...body, sent_at })).toEqual({
        kind: "bad-sent-at",
        detail: JSON.stringify(sent_at),
      });
    });
  });

  it("[CA-1] answers any JSON", () => {
    fc.assert(
      fc.property(fc.option(fc.jsonValue(), { nil: undefined }), (body) => {
        const outcome = read(body as Json | undefined);
        expect("kind" in outcome || outcome.events.length > 0).toBe(true);
      }),
    );
  });
});
