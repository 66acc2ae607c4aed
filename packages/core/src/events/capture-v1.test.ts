import { describe, expect, it } from "vitest";
import { readV1Event } from "./capture-v1.ts";

describe("readV1Event", () => {
  it("[CA-64] turns session, window and options into properties, which win", () => {
    const sent = {
      event: "paid",
      session_id: "s1",
      window_id: null,
      options: {
        cookieless_mode: true,
        disable_skew_correction: true,
        process_person_profile: false,
        product_tour_id: "t1",
        unknown: 1,
      },
      properties: { $session_id: "other", price: 3 },
    };
    expect(readV1Event(sent, null)).toMatchObject({
      event: "paid",
      properties: {
        $session_id: "s1",
        $cookieless_mode: true,
        $ignore_sent_at: true,
        $process_person_profile: false,
        $product_tour_id: "t1",
        price: 3,
      },
    });
    expect(readV1Event({ event: "paid", window_id: "w" }, null)).toMatchObject({
      properties: { $window_id: "w" },
    });
  });

  it("[CA-64] names the library of the request where the event names none", () => {
    const library = { name: "posthog-node", version: "5.70.0" };
    expect(readV1Event({ event: "paid", properties: { price: 3 } }, library)).toMatchObject({
      properties: { $lib: "posthog-node", $lib_version: "5.70.0", price: 3 },
    });
    const named = { event: "paid", properties: { $lib: "own" } };
    expect(readV1Event(named, library)).toEqual(named);
  });

  it.each([5, null, [], "event", { properties: [1], session_id: "s" }, { options: "none" }])(
    "[CA-64] leaves %j for the rules of all events",
    (sent) => {
      expect(readV1Event(sent, null)).toBe(sent);
    },
  );
});
