import { randomUUID } from "node:crypto";
import { v7 } from "uuid";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { openCaptureApi, TOKEN } from "./capture-api.setup.ts";

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
