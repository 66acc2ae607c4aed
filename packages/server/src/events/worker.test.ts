import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { sampleEvent } from "./event-log.contract.ts";
import type { EventStore } from "./event-store.ts";
import { temporaryPipeline } from "./pipeline.setup.ts";

const DOWN = new Error("the store is down");

describe("the worker", () => {
  let pipeline: ReturnType<typeof temporaryPipeline>;
  beforeEach(() => {
    pipeline = temporaryPipeline();
  });
  afterEach(() => pipeline.remove());

  async function namesIn(events: EventStore, projectId: number) {
    const page = await events.events({ projectId, limit: 1000, offset: 0, order: "oldest-first" });
    return page.events.map(({ event }) => event);
  }
  const at = (second: number) => new Date(Date.UTC(2024, 0, 1, 0, 0, second));

  it("[PI-40] stores events under their persons and follows merges", async () => {
    const run = await pipeline.start();
    const projectId = await run.newProject();
    const event = (name: string, distinctId: string, second: number, properties = {}) =>
      sampleEvent({ projectId, event: name, distinctId, timestamp: at(second), properties });
    await run.append([event("before", "anon", 1), event("other", "bob", 2)]);
    await run.append([event("$identify", "ann", 3, { $anon_distinct_id: "anon" })]);
    await run.append([event("after", "ann", 4)]);
    await run.settle();
    const ann = await run.persons.personByDistinctId(projectId, "ann");
    expect(ann?.distinctIds.toSorted()).toEqual(["ann", "anon"]);
    const { events } = await run.events.events({
      projectId,
      personId: ann?.uuid ?? "",
      limit: 10,
      offset: 0,
      order: "oldest-first",
    });
    expect(events.map((found) => found.event)).toEqual(["before", "$identify", "after"]);
    await run.stop();
  });

  it("[PI-41] applies person changes without waiting for the event store", async () => {
    let release = () => {};
    const blocked = new Promise<void>((resolve) => {
      release = resolve;
    });
    const run = await pipeline.start({
      events: (real) => ({
        ...real,
        insert: async (batch) => {
          await blocked;
          return real.insert(batch);
        },
      }),
    });
    const projectId = await run.newProject();
    for (const plan of ["free", "pro"]) {
      await run.append([
        sampleEvent({ projectId, distinctId: "a", properties: { $set: { plan } } }),
      ]);
      await run.pendingPersons.settled(projectId, { distinctIds: ["a"] });
      const person = await run.persons.personByDistinctId(projectId, "a");
      expect(person?.properties).toMatchObject({ plan });
    }
    expect(await namesIn(run.events, projectId)).toEqual([]);
    release();
    await run.settle();
    expect((await namesIn(run.events, projectId)).length).toBe(2);
    await run.stop();
  });

  it("[PI-42] stores everything once when the event store was down for a while, in order", async () => {
    let failures = 20;
    const run = await pipeline.start({
      events: (real) => ({
        ...real,
        insert: async (batch) => {
          if (failures-- > 0) throw DOWN;
          return real.insert(batch);
        },
      }),
    });
    const projectId = await run.newProject();
    const names = Array.from({ length: 50 }, (_, index) => `e${index}`);
    for (const [second, event] of names.entries()) {
      await run.append([sampleEvent({ projectId, event, timestamp: at(second) })]);
    }
    await run.settle();
    expect(await namesIn(run.events, projectId)).toEqual(names);
    expect(await run.events.deadLetters(10)).toEqual([]);
    expect(run.logged.length).toBeGreaterThan(0);
    await run.stop();
  });

  it("[PI-42] applies everything once when the person store was down for a while", async () => {
    let failures = 20;
    const run = await pipeline.start({
      persons: (real) => ({
        ...real,
        applyEvents: async (entries) => {
          if (failures-- > 0) throw DOWN;
          return real.applyEvents(entries);
        },
        groupTypes: (projectId) => real.groupTypes(projectId),
      }),
    });
    const projectId = await run.newProject();
    const ids = Array.from({ length: 10 }, (_, index) => `u${index}`);
    await run.append(
      ids.map((distinctId) =>
        sampleEvent({ projectId, distinctId, properties: { $set: { id: distinctId } } }),
      ),
    );
    await run.settle();
    for (const id of ids) {
      const person = await run.persons.personByDistinctId(projectId, id);
      expect(person?.properties).toMatchObject({ id });
    }
    expect(await run.events.deadLetters(10)).toEqual([]);
    await run.stop();
  });

  it("[PI-43] sets aside events whose person changes fail, stores them, and holds up nobody", async () => {
    const run = await pipeline.start({
      persons: (real) => ({
        ...real,
        applyEvents: async (entries) => {
          if (entries.some(({ event }) => event.event === "poison")) throw new Error("poisoned");
          return real.applyEvents(entries);
        },
        groupTypes: (projectId) => real.groupTypes(projectId),
      }),
    });
    const projectId = await run.newProject();
    const names = Array.from({ length: 40 }, (_, index) =>
      index % 13 === 5 ? "poison" : `e${index}`,
    );
    await run.append(
      names.map((event, second) => sampleEvent({ projectId, event, timestamp: at(second) })),
    );
    await run.settle();
    expect(await namesIn(run.events, projectId)).toEqual(names);
    expect(run.counts.setAside).toBe(3);
    const letters = await run.events.deadLetters(10);
    expect(letters.map(({ event }) => event.event)).toEqual(["poison", "poison", "poison"]);
    expect(letters[0]?.reason).toContain("poisoned");
    await run.stop();
  });

  it("[PI-43] sets aside events that cannot be stored, and only those", async () => {
    const run = await pipeline.start({
      events: (real) => ({
        ...real,
        insert: async (batch) => {
          if (batch.rows.some(({ event }) => event.event === "poison")) throw new Error("poisoned");
          return real.insert(batch);
        },
      }),
    });
    const projectId = await run.newProject();
    const names = ["a", "poison", "b", "c", "poison", "d"];
    await run.append(
      names.map((event, second) => sampleEvent({ projectId, event, timestamp: at(second) })),
    );
    await run.settle();
    expect(await namesIn(run.events, projectId)).toEqual(["a", "b", "c", "d"]);
    expect((await run.events.deadLetters(10)).map(({ reason }) => reason)).toEqual([
      "it could not be stored: poisoned",
      "it could not be stored: poisoned",
    ]);
    await run.stop();
  });

  it("[PI-44] lets steps change, drop and set aside events; one that throws sets its event aside", async () => {
    const run = await pipeline.start({
      steps: () => [
        {
          name: "shout",
          run: (event) => ({ kind: "keep", event: { ...event, event: event.event.toUpperCase() } }),
        },
        {
          name: "sort out",
          run: async (event) => {
            if (event.event === "SPAM") return { kind: "drop", reason: "unwanted" };
            if (event.event === "ODD") return { kind: "dead-letter", reason: "odd" };
            if (event.event === "BUG") throw new Error("bug");
            return { kind: "keep", event };
          },
        },
      ],
    });
    const projectId = await run.newProject();
    await run.append(
      ["a", "spam", "odd", "bug", "b"].map((event, second) =>
        sampleEvent({ projectId, event, timestamp: at(second) }),
      ),
    );
    await run.settle();
    expect(await namesIn(run.events, projectId)).toEqual(["A", "B"]);
    expect((await run.events.deadLetters(10)).map(({ reason }) => reason)).toEqual([
      "odd",
      "step sort out failed: bug",
    ]);
    await run.stop();
  });

  it("[PI-45] adds the place of an address, unless told not to or told better", async () => {
    const place = { $geoip_country_code: "NZ", $geoip_city_name: "Nelson" };
    const run = await pipeline.start({
      geoIp: () => ({ lookup: (address) => (address === "203.0.113.9" ? place : {}) }),
    });
    const projectId = await run.newProject();
    const $ip = "203.0.113.9";
    const sent = [
      { $ip },
      { $ip, $geoip_disable: true },
      { $ip, $geoip_country_code: "FR" },
      { $ip: "10.0.0.1" },
      { $ip: 5 },
    ];
    await run.append(
      sent.map((properties, second) =>
        sampleEvent({ projectId, distinctId: `u${second}`, properties, timestamp: at(second) }),
      ),
    );
    await run.settle();
    const page = await run.events.events({
      projectId,
      limit: 10,
      offset: 0,
      order: "oldest-first",
    });
    expect(page.events.map(({ properties }) => properties)).toEqual([
      { $ip, ...place },
      { $ip, $geoip_disable: true },
      { $ip, $geoip_country_code: "FR", $geoip_city_name: "Nelson" },
      { $ip: "10.0.0.1" },
      { $ip: 5 },
    ]);
    const person = await run.persons.personByDistinctId(projectId, "u0");
    expect(person?.properties).toMatchObject(place);
    await run.stop();
  });

  it("[PI-46] finishes after a restart what it had not done, persons before anybody asks", async () => {
    const stores = await pipeline.openStores();
    const projectId = await stores.newProject();
    const events = Array.from({ length: 1500 }, (_, index) =>
      sampleEvent({ projectId, distinctId: `u${index % 7}`, properties: { $set: { index } } }),
    );
    await stores.log.append(events);
    await stores.closeStores();
    const run = await pipeline.start();
    await run.pendingPersons.settled(projectId, { distinctIds: ["u3"] });
    const person = await run.persons.personByDistinctId(projectId, "u3");
    expect(person?.properties).toMatchObject({ index: 1494 });
    await run.settle();
    expect((await namesIn(run.events, projectId)).length).toBe(1000);
    await run.stop();
  });

  it("[PI-47] stores what the log holds before it closes", async () => {
    const run = await pipeline.start({}, { storeEveryMs: 200 });
    const projectId = await run.newProject();
    await run.append([sampleEvent({ projectId, event: "first" })]);
    await run.append([sampleEvent({ projectId, event: "last" })]);
    await run.worker.close();
    expect((await namesIn(run.events, projectId)).toSorted()).toEqual(["first", "last"]);
    await run.stop();
  });

  it("[PI-48] remembers no more rows than fit and reads the others again", async () => {
    let isDown = true;
    const run = await pipeline.start({
      events: (real) => ({
        ...real,
        insert: async (batch) => {
          if (isDown) throw DOWN;
          return real.insert(batch);
        },
      }),
    });
    const projectId = await run.newProject();
    for (let batch = 0; batch < 25; batch++) {
      await run.append(
        Array.from({ length: 1000 }, (_, index) =>
          sampleEvent({ projectId, distinctId: `u${index % 10}`, properties: { batch } }),
        ),
      );
    }
    await run.pendingPersons.settled(projectId, { distinctIds: ["u1"] });
    isDown = false;
    await run.settle();
    const seen = new Set<string>();
    for (let offset = 0; offset < 25_000; offset += 1000) {
      const query = { projectId, limit: 1000, offset, order: "oldest-first" } as const;
      for (const { uuid } of (await run.events.events(query)).events) seen.add(uuid);
    }
    expect(seen.size).toBe(25_000);
    await run.stop();
  }, 60_000);
});
