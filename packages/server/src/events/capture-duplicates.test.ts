import { randomUUID } from "node:crypto";
import { v7 } from "uuid";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { withResolvers } from "../platform/with-resolvers.ts";
import { type ExaminedEvent, store } from "./capture.ts";
import { openCaptureApi, TOKEN } from "./capture-api.setup.ts";
import { sampleEvent } from "./event-log.contract.ts";
import { LogUnavailable } from "./event-log.ts";
import { createRecentEvents } from "./recent-events.ts";

describe("events that come again", () => {
  let api: Awaited<ReturnType<typeof openCaptureApi>>;
  beforeAll(async () => {
    api = await openCaptureApi();
  });
  afterAll(() => api.close());
  beforeEach(async () => {
    await api.captured();
  });

  const send = (...events: object[]) =>
    api.send({ method: "POST", url: "/batch/", payload: { api_key: TOKEN, batch: events } });
  const paid = (uuid: string, fields: object = {}) => ({
    event: "paid",
    distinct_id: "ann",
    uuid,
    ...fields,
  });

  it.each([
    ["a time-ordered uuid", v7()],
    ["a random uuid", randomUUID()],
  ])(
    "[CA-60] a webhook handled twice is stored once, and told so, across a restart, with %s (UR-61)",
    async (_title, uuid) => {
      expect((await send(paid(uuid))).body).toEqual({ status: 1 });
      const again = { status: 1, duplicates: [{ index: 0, uuid, code: "duplicate" }] };
      expect(await send(paid(uuid))).toMatchObject({ status: 200, body: again });
      expect((await api.captured()).map((event) => event.uuid)).toEqual([uuid]);
      await api.restart();
      expect(await send(paid(uuid.toUpperCase()))).toMatchObject({ status: 200, body: again });
      expect(await api.captured()).toEqual([]);
    },
  );

  it("[CA-60] events that are sent several times at once are taken once, and the others told so", async () => {
    const uuids = Array.from({ length: 20 }, () => randomUUID());
    const sending = Array.from({ length: 4 }, () => send(...uuids.map((uuid) => paid(uuid))));
    const answers = await Promise.all(sending);
    const told = answers.flatMap(({ body }) => body.duplicates ?? []);
    expect(told).toHaveLength(60);
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 200]);
    expect((await api.captured()).map((event) => event.uuid)).toEqual(uuids);
  });

  it("[CA-60] what could not be stored is taken from another request that brought it meanwhile", async () => {
    const event = sampleEvent();
    const [first, appended] = [withResolvers(), [] as string[]];
    const deps = {
      recent: createRecentEvents(),
      observer: { captured() {}, rejected() {}, repeated() {}, warned() {}, undecodable() {} },
      append: async (events: readonly { uuid: string }[]) => {
        appended.push(...events.map(({ uuid }) => uuid));
        if (appended.length === 1) {
          await first.promise;
          throw new LogUnavailable("the disk is full", { retryAfterSeconds: 1 });
        }
        return { keptUp: undefined };
      },
    };
    const sent = () => {
      const taken = { kind: "accepted", event, warnings: [], hasNewUuid: false } as const;
      const outcome: ExaminedEvent = { taken };
      const from = { projectId: event.projectId, sdk: { name: "", version: "" } };
      return { outcome, stored: store(deps, { outcomes: [outcome] }, from) };
    };
    const [one, other] = [sent(), sent()];
    expect([one, other].map(({ outcome }) => outcome.repeated)).toEqual([undefined, "duplicate"]);
    first.resolve();
    await expect(one.stored).rejects.toThrow("the disk is full");
    await other.stored;
    expect(other.outcome.repeated).toBeUndefined();
    expect(appended).toEqual([event.uuid, event.uuid]);
    // And what comes now is told as ever.
    const third = sent();
    await third.stored;
    expect(third.outcome.repeated).toBe("duplicate");
    expect(appended).toHaveLength(2);
  });

  it("[CA-60] what was lost after it was found to have come before is taken", async () => {
    const event = sampleEvent();
    const recent = createRecentEvents();
    const appended: string[] = [];
    const deps = {
      recent,
      observer: { captured() {}, rejected() {}, repeated() {}, warned() {}, undecodable() {} },
      append: async (events: readonly { uuid: string }[]) => {
        appended.push(...events.map(({ uuid }) => uuid));
        if (appended.length > 1) return { keptUp: undefined };
        throw new LogUnavailable("the disk is full", { retryAfterSeconds: 1 });
      },
    };
    const taken = { kind: "accepted", event, warnings: [], hasNewUuid: false } as const;
    const from = { projectId: event.projectId, sdk: { name: "", version: "" } };
    const losing = store(deps, { outcomes: [{ taken }] }, from);
    const repeated = recent.compare(event.projectId, event);
    expect(repeated).toBe("duplicate");
    await expect(losing).rejects.toThrow("the disk is full");
    const outcome: ExaminedEvent = { taken, ...(repeated && { repeated }) };
    await store(deps, { outcomes: [outcome] }, from);
    expect(outcome.repeated).toBeUndefined();
    expect(appended).toEqual([event.uuid, event.uuid]);
  });

  it("[CA-60] another event with a known uuid is a conflict, and the first stays (UR-62)", async () => {
    const [uuid, other] = [randomUUID(), randomUUID()];
    await send(paid(uuid));
    const { body } = await send(
      paid(other),
      paid(uuid, { event: "refunded" }),
      paid(uuid, { distinct_id: "bob" }),
      paid(uuid),
    );
    expect(body).toEqual({
      status: 1,
      duplicates: [
        { index: 1, uuid, code: "conflict" },
        { index: 2, uuid, code: "conflict" },
        { index: 3, uuid, code: "duplicate" },
      ],
    });
    expect((await api.captured()).map((event) => [event.uuid, event.event])).toEqual([
      [uuid, "paid"],
      [other, "paid"],
    ]);
  });

  it("[CA-60] the first of one request wins, and refused events are told beside it", async () => {
    const uuid = randomUUID();
    const { status, body } = await send(
      paid(uuid, { distinct_id: "" }),
      paid(uuid),
      paid(uuid, { properties: { more: 1 } }),
      paid(uuid, { timestamp: "2026-01-15T11:00:00Z" }),
    );
    expect(status).toBe(200);
    expect(body.rejected).toEqual([expect.objectContaining({ index: 0, uuid })]);
    expect(body.duplicates).toEqual([
      { index: 2, uuid, code: "duplicate" },
      { index: 3, uuid, code: "conflict" },
    ]);
    const [event, ...more] = await api.captured();
    expect([event?.properties.more, more]).toEqual([undefined, []]);
  });

  it("[CA-60] uuids are unique within a project only, and events without one never repeat", async () => {
    const event = { event: "visit", distinct_id: "ann" };
    expect((await send(event, event)).body).toEqual({ status: 1 });
    expect((await send(event)).body).toEqual({ status: 1 });
    expect(await api.captured()).toHaveLength(3);
  });
});
