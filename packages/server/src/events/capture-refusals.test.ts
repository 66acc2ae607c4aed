import { gzipSync } from "node:zlib";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { openCaptureApi, TOKEN } from "./capture-api.setup.ts";

/** The rows of posthog-api 9.4: what clients may look for in an answer. */
describe("[CA-66] a refusal of capture says word for word", () => {
  let api: Awaited<ReturnType<typeof openCaptureApi>>;
  beforeAll(async () => {
    api = await openCaptureApi();
  });
  afterAll(() => api.close());

  const event = { event: "visit", distinct_id: "ann" };
  const single = (fields: object) => JSON.stringify({ api_key: TOKEN, ...event, ...fields });
  const batch = (...events: unknown[]) => JSON.stringify({ api_key: TOKEN, batch: events });
  const NO_DATA =
    "No data found. Make sure to use a POST request when sending the payload in the body of the request.";
  const NO_KEY =
    "API key not provided. You can find your project API key in PostHog project settings.";

  it.each<[string, string | Buffer, number, string, string, string | RegExp]>([
    ["no body", "", 400, "validation_error", "no_data", NO_DATA],
    ["no event in the body", batch(), 400, "validation_error", "no_data", NO_DATA],
    [
      "a body that is no JSON",
      "{{{",
      400,
      "validation_error",
      "invalid_payload",
      /^Malformed request data: ./,
    ],
    [
      "a body that cannot be decompressed",
      gzipSync(single({})).subarray(0, -20),
      400,
      "validation_error",
      "invalid_payload",
      /^Malformed request data: ./,
    ],
    [
      "a sent_at that is no time",
      single({ sent_at: "soon" }),
      400,
      "validation_error",
      "invalid_payload",
      'Malformed request data, invalid sent at: "soon"',
    ],
    [
      "no distinct id",
      single({ distinct_id: undefined }),
      400,
      "validation_error",
      "invalid_payload",
      'Invalid payload: All events must have the event field "distinct_id"!',
    ],
    [
      "a blank distinct id",
      single({ distinct_id: " " }),
      400,
      "validation_error",
      "invalid_payload",
      'Invalid payload: Event field "distinct_id" should not be blank!',
    ],
    [
      "a uuid that is none",
      single({ uuid: "5" }),
      400,
      "validation_error",
      "invalid_payload",
      'Invalid payload: Event field "uuid" is not a valid UUID!',
    ],
    [
      "properties that are none",
      single({ properties: [1] }),
      400,
      "validation_error",
      "invalid_payload",
      /^Invalid payload: Properties must be a JSON object, received .+!$/,
    ],
    [
      "no name",
      single({ event: undefined }),
      400,
      "validation_error",
      "invalid_payload",
      'Invalid payload: All events must have the event field "event"!',
    ],
    ["no key", JSON.stringify(event), 401, "authentication_error", "missing_api_key", NO_KEY],
    [
      "a key that is none",
      single({ api_key: "" }),
      401,
      "authentication_error",
      "invalid_api_key",
      /^Provided API key is not valid: ./,
    ],
    [
      "events with different keys",
      JSON.stringify([
        { ...event, token: TOKEN },
        { ...event, token: "phc_another" },
      ]),
      401,
      "authentication_error",
      "invalid_api_key",
      /inconsistent api_key values/,
    ],
    [
      "more than fits",
      batch({ ...event, properties: { text: "x".repeat(21 * 1024 * 1024) } }),
      413,
      "client_error",
      "request_too_large",
      /^Request too large/,
    ],
  ])("%s", async (_title, payload, status, type, code, detail) => {
    const headers = { "content-type": "application/json" };
    for (const url of ["/e/", "/capture", "/i/v0/e/"]) {
      const answer = await api.send({ method: "POST", url, payload, headers });
      expect([answer.status, answer.body.type, answer.body.code]).toEqual([status, type, code]);
      expect(answer.body.detail).toEqual(
        typeof detail === "string" ? detail : expect.stringMatching(detail),
      );
    }
    expect(await api.captured()).toEqual([]);
  });

  it("nothing where all of it is of a kind that is not kept", async () => {
    for (const name of ["$snapshot", "$performance_event"]) {
      const payload = single({ event: name });
      const answer = await api.send({ method: "POST", url: "/e/", payload });
      expect([answer.status, answer.body]).toEqual([200, { status: 1 }]);
    }
    expect(await api.captured()).toEqual([]);
  });
});
