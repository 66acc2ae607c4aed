import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { PERSON_A, PERSON_B, PERSON_C, sampleRow } from "../events/event-store.contract.ts";
import type { EventRow, EventStore } from "../events/event-store.ts";
import type { FlagCalls } from "./flag-calls.ts";

const PERSON_D = "dddddddd-0000-5000-8000-000000000000";

/** What every {@link FlagCalls} must do; it reads what the store it comes with is given. */
export function describeFlagCalls(
  title: string,
  open: () => Promise<{
    store: EventStore & FlagCalls;
    remove: () => void;
    /** Closes the store and opens it again. */
    reopen: () => Promise<EventStore & FlagCalls>;
  }>,
): void {
  describe(title, () => {
    let place: Awaited<ReturnType<typeof open>>;
    let store: EventStore & FlagCalls;
    let position = 0;
    beforeEach(async () => {
      place = await open();
      store = place.store;
      position = 0;
    });
    afterEach(async () => {
      await store.close();
      place.remove();
    });

    const call = (
      value: string | boolean | null,
      fields: {
        flag?: string;
        at?: string;
        person?: string;
        distinctId?: string;
        session?: string;
        event?: string;
        projectId?: number;
      } = {},
    ): EventRow => {
      position += 1;
      const uuid = `00000000-0000-4000-8000-${String(position).padStart(12, "0")}`;
      return sampleRow(
        position,
        {
          uuid,
          event: fields.event ?? "$feature_flag_called",
          projectId: fields.projectId ?? 1,
          distinctId: fields.distinctId ?? "someone",
          timestamp: new Date(fields.at ?? "2026-03-01T12:00:00Z"),
          properties: {
            $feature_flag: fields.flag ?? "a-flag",
            ...(value === null ? {} : { $feature_flag_response: value }),
            ...(fields.session ? { $session_id: fields.session } : {}),
          },
        },
        fields.person ?? PERSON_A,
      );
    };
    const insert = (rows: readonly EventRow[]) =>
      store.insert({ rows, merges: [], drops: [], deadLetters: [], end: position });
    const within = {
      projectId: 1,
      from: new Date("2026-03-01T00:00:00Z"),
      to: new Date("2026-03-08T00:00:00Z"),
    };

    test("[FU-1] counts calls by day and value, each event once however often it comes", async () => {
      const first = call("blue");
      await insert([
        first,
        call("blue", { person: PERSON_B }),
        call("blue", { at: "2026-03-02T00:00:00Z" }),
        call(true),
        call(null),
        call("blue", { flag: "another" }),
        call("blue", { event: "$pageview" }),
        call("blue", { projectId: 2 }),
        call("blue", { at: "2026-02-28T23:59:59Z" }),
        call("blue", { at: "2026-03-08T00:00:00Z" }),
      ]);
      position += 1;
      await insert([{ ...first, position }]);
      const expected = [
        { day: "2026-03-01", value: null, calls: 1, persons: 1 },
        { day: "2026-03-01", value: "blue", calls: 2, persons: 2 },
        { day: "2026-03-01", value: "true", calls: 1, persons: 1 },
        { day: "2026-03-02", value: "blue", calls: 1, persons: 1 },
      ];
      expect(await store.callsByDay({ ...within, flagKey: "a-flag" })).toEqual(expected);
      store = await place.reopen();
      expect(await store.callsByDay({ ...within, flagKey: "a-flag" })).toEqual(expected);
    });

    test("[FU-2] counts persons who got different answers, merged persons as one", async () => {
      await insert([
        call("a", { person: PERSON_A }),
        call("b", { person: PERSON_A }),
        call("a", { person: PERSON_B }),
        call("a", { person: PERSON_C }),
        call("a", { person: PERSON_D, session: "s" }),
        call("b", { person: PERSON_D, session: "s" }),
        call("c", { person: PERSON_D, session: "t" }),
        call(true, { flag: "steady" }),
        call(true, { flag: "steady" }),
      ]);
      const query = { ...within, limit: 10 };
      expect(await store.drift(query)).toEqual([
        { flagKey: "a-flag", persons: 4, drifting: 2, driftingInSession: 1 },
        { flagKey: "steady", persons: 1, drifting: 0, driftingInSession: 0 },
      ]);
      position += 1;
      const rows = [call("b", { person: PERSON_C })];
      await store.insert({
        rows,
        merges: [{ position: position, projectId: 1, from: PERSON_C, into: PERSON_B }],
        drops: [],
        deadLetters: [],
        end: position,
      });
      expect(await store.drift({ ...query, flagKey: "a-flag" })).toEqual([
        { flagKey: "a-flag", persons: 3, drifting: 3, driftingInSession: 1 },
      ]);
    });

    test("[FU-2] shows the journeys of those persons, equal calls in a row as one step", async () => {
      const at = (minute: number) => `2026-03-01T12:0${minute}:00.000Z`;
      await insert([
        call("b", { at: at(3), distinctId: "user", session: "s" }),
        call("a", { at: at(1), distinctId: "anonymous", session: "s" }),
        call("a", { at: at(2), distinctId: "anonymous", session: "s" }),
        call("a", { at: at(4), person: PERSON_B }),
        call("b", { at: at(5), person: PERSON_C }),
        call("a", { at: at(6), person: PERSON_C }),
      ]);
      const journeys = await store.journeys({ ...within, flagKey: "a-flag", limit: 10 });
      expect(journeys.map(({ personId }) => personId)).toEqual([PERSON_C, PERSON_A]);
      expect(journeys[1]?.steps).toEqual([
        {
          value: "a",
          distinctId: "anonymous",
          sessionId: "s",
          first: new Date(at(1)),
          last: new Date(at(2)),
          calls: 2,
        },
        {
          value: "b",
          distinctId: "user",
          sessionId: "s",
          first: new Date(at(3)),
          last: new Date(at(3)),
          calls: 1,
        },
      ]);
      expect(await store.journeys({ ...within, flagKey: "a-flag", limit: 1 })).toHaveLength(1);
    });

    test("tells the newest call of each flag among those stored lately", async () => {
      await insert([
        call(true, { at: "2026-03-02T00:00:00Z" }),
        call(true, { at: "2026-03-01T00:00:00Z" }),
        call(true, { flag: "other", projectId: 2 }),
      ]);
      const calls = await store.lastCalls(new Date(Date.now() - 60_000));
      expect(calls.toSorted((a, b) => a.projectId - b.projectId)).toEqual([
        { projectId: 1, flagKey: "a-flag", at: new Date("2026-03-02T00:00:00Z") },
        { projectId: 2, flagKey: "other", at: new Date("2026-03-01T12:00:00Z") },
      ]);
      expect(await store.lastCalls(new Date(Date.now() + 60_000))).toEqual([]);
    });
  });
}
