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
    expect(readV1Event(sent)).toMatchObject({
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
    expect(readV1Event({ event: "paid", window_id: "w" })).toMatchObject({
      properties: { $window_id: "w" },
    });
  });

  it.each([5, null, [], "event", { properties: [1], session_id: "s" }, { options: "none" }])(
    "[CA-64] leaves %j for the rules of all events",
    (sent) => {
      expect(readV1Event(sent)).toBe(sent);
    },
  );
});
