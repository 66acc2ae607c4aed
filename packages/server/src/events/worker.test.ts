import { copyFileSync, readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import type { CapturedEvent } from "@hedgerow/core/events/event";
import type { JsonObject } from "@hedgerow/core/json";
import Database from "libsql";
import { afterAll, afterEach, describe, expect, it } from "vitest";
import { StoreUnavailable } from "../platform/store-unavailable.ts";
import { withResolvers } from "../platform/with-resolvers.ts";
import { sampleEvent } from "./event-log.contract.ts";
import type { EventStore } from "./event-store.ts";
import { temporaryPipeline } from "./pipeline.setup.ts";
import { eventStep, type Step } from "./steps/step.ts";

const DOWN = new Error("the store is down");

describe("the worker", () => {
  const pipeline = temporaryPipeline();
  afterEach(() => pipeline.stopWorker());
  afterAll(() => pipeline.remove());

  async function namesIn(events: EventStore, projectId: number) {
    const page = await events.events({ projectId, limit: 1000, offset: 0, order: "oldest-first" });
    return page.events.map(({ event }) => event);
  }
  async function lettersIn(events: EventStore, projectId: number) {
    const letters = await events.deadLetters({ limit: 1000 });
    return letters.filter(({ event }) => event.projectId === projectId);
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
  });

  it("[PI-41] applies person changes without waiting for the event store", async () => {
    const { promise: blocked, resolve: release } = withResolvers();
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
  });

  it("[PI-41] lets nobody who waits for person changes wait for the packing of rows", async () => {
    const { promise: blocked, resolve: release } = withResolvers();
    const run = await pipeline.start({
      events: (real) => ({
        ...real,
        pack: async (rows) => {
          await blocked;
          return real.pack(rows);
        },
      }),
    });
    const projectId = await run.newProject();
    await run.append([
      sampleEvent({ projectId, distinctId: "a", properties: { $set: { plan: "pro" } } }),
    ]);
    await run.pendingPersons.settled(projectId, { distinctIds: ["a"] });
    const person = await run.persons.personByDistinctId(projectId, "a");
    expect(person?.properties).toMatchObject({ plan: "pro" });
    release();
    await run.settle();
  });

  it("[PI-66] lets the log forget only what the person store has secured", async () => {
    let secured = 0;
    const released: number[] = [];
    const run = await pipeline.start(
      {
        persons: (real) => ({
          position: real.position,
          applyEvents: real.applyEvents,
          groupTypes: real.groupTypes,
          secure: async () => Math.min(secured, await real.secure()),
        }),
        log: (real) => ({
          read: real.read,
          end: real.end,
          release: async (upTo) => {
            released.push(upTo);
            await real.release(upTo);
          },
        }),
      },
      { releaseEveryMs: 1 },
    );
    const projectId = await run.newProject();
    const releasedUpTo = async (position: number) => {
      const before = released.length;
      await expect.poll(() => released.slice(before)).toContain(position);
    };
    await run.append([sampleEvent({ projectId })]);
    const first = await run.log.end();
    secured = first - 1;
    await run.settle();
    await releasedUpTo(first - 1);
    secured = first + 1;
    await run.append([sampleEvent({ projectId }), sampleEvent({ projectId })]);
    await run.settle();
    await releasedUpTo(first + 1);
    expect(Math.max(...released)).toBe(first + 1);
  });

  it("[PI-66] applies again what the person store lost with the machine", async () => {
    const file = join(pipeline.folder, "metadata.sqlite");
    let run = await pipeline.start();
    const projectId = await run.newProject();
    const event = (distinctId: string, second: number, properties = {}, name = "seen") =>
      sampleEvent({ projectId, event: name, distinctId, timestamp: at(second), properties });
    await run.append([event("anon", 1, { $set: { first: 1 } }), event("ann", 2)]);
    await run.settle();
    await pipeline.closeStores();
    copyFileSync(file, `${file}.earlier`);
    run = await pipeline.start();
    await run.append([event("ann", 3, { $anon_distinct_id: "anon" }, "$identify")]);
    await run.append([event("new", 4, { $set: { a: 1 } }), event("ann", 5, { $set: { last: 2 } })]);
    await run.settle();
    const persons = () =>
      Promise.all(
        ["ann", "new"].map(async (id) => {
          const person = await run.persons.personByDistinctId(projectId, id);
          return { ...person, id: 0 };
        }),
      );
    const expected = await persons();
    expect(expected).toMatchObject([
      { distinctIds: ["ann", "anon"], properties: { first: 1, last: 2 } },
      { properties: { a: 1 } },
    ]);
    await pipeline.closeStores();
    copyFileSync(`${file}.earlier`, file);
    run = await pipeline.start();
    await run.pendingPersons.settled(projectId, { distinctIds: ["ann", "new"] });
    expect(await persons()).toEqual(expected);
    expect((await namesIn(run.events, projectId)).toSorted()).toEqual([
      "$identify",
      "seen",
      "seen",
      "seen",
      "seen",
    ]);
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
    expect(await lettersIn(run.events, projectId)).toEqual([]);
    expect(run.logged.length).toBeGreaterThan(0);
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
    expect(await lettersIn(run.events, projectId)).toEqual([]);
  });

  it("[PI-42] suspects no event while a store says that it is out of order, though it takes others", async () => {
    const failures = { persons: 12, events: 12 };
    const failFor = (store: keyof typeof failures, events: readonly CapturedEvent[]) => {
      const isLarge = events.some(({ event }) => event === "too large for what is left");
      if (isLarge && failures[store]-- > 0) throw new StoreUnavailable("the disk is full");
    };
    const run = await pipeline.start({
      persons: (real) => ({
        ...real,
        position: () => real.position(),
        groupTypes: (projectId) => real.groupTypes(projectId),
        applyEvents: async (entries) => {
          failFor(
            "persons",
            entries.map(({ event }) => event),
          );
          return real.applyEvents(entries);
        },
      }),
      events: (real) => ({
        ...real,
        insert: async (batch) => {
          failFor(
            "events",
            [...batch.rows].map(({ event }) => event),
          );
          return real.insert(batch);
        },
      }),
    });
    const projectId = await run.newProject();
    const names = ["a", "too large for what is left", "b"];
    await run.append(
      names.map((event, second) => sampleEvent({ projectId, event, timestamp: at(second) })),
    );
    await run.settle();
    expect(Math.max(failures.persons, failures.events)).toBeLessThan(0);
    expect(await namesIn(run.events, projectId)).toEqual(names);
    expect(await lettersIn(run.events, projectId)).toEqual([]);
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
    const letters = await lettersIn(run.events, projectId);
    expect(letters.map(({ event }) => event.event)).toEqual(["poison", "poison", "poison"]);
    expect(letters[0]?.reason).toContain("poisoned");
  });

  it("[PI-43] sets aside events that cannot be stored, and only those", async () => {
    const run = await pipeline.start({
      events: (real) => ({
        ...real,
        insert: async (batch) => {
          if ([...batch.rows].some(({ event }) => event.event === "poison"))
            throw new Error("poisoned");
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
    expect((await lettersIn(run.events, projectId)).map(({ reason }) => reason)).toEqual([
      "it could not be stored: poisoned",
      "it could not be stored: poisoned",
    ]);
  });

  it("[PI-43] gets past a project of which every event fails, and past a failing event that is alone", async () => {
    const run = await pipeline.start({
      persons: (real) => ({
        ...real,
        position: () => real.position(),
        groupTypes: (projectId) => real.groupTypes(projectId),
        applyEvents: async (entries) => {
          if (entries.some(({ event }) => event.event === "poison")) throw new Error("poisoned");
          return real.applyEvents(entries);
        },
      }),
    });
    const [bad, good] = [await run.newProject(), await run.newProject()];
    await run.append([sampleEvent({ projectId: bad, event: "poison" })]);
    await run.settle();
    await run.append(
      Array.from({ length: 30 }, (_, index) =>
        index % 10 === 9
          ? sampleEvent({ projectId: good, event: "fine" })
          : sampleEvent({ projectId: bad, event: "poison" }),
      ),
    );
    await run.settle();
    expect(await namesIn(run.events, good)).toEqual(["fine", "fine", "fine"]);
    expect((await lettersIn(run.events, good)).length).toBe(0);
    expect((await lettersIn(run.events, bad)).length).toBe(28);
  });

  it("[PI-43] does not make others wait for retries with each of a project's failing events", async () => {
    const run = await pipeline.start(
      {
        persons: (real) => ({
          ...real,
          applyEvents: async (entries) => {
            if (entries.some(({ event }) => event.event === "poison")) throw new Error("poisoned");
            return real.applyEvents(entries);
          },
        }),
      },
      // Not shortened: with the pauses between retries every time, this would take minutes.
      { retryMs: 100, longestRetryMs: 5000 },
    );
    const [bad, good] = [await run.newProject(), await run.newProject()];
    await run.append(
      Array.from({ length: 100 }, () => sampleEvent({ projectId: bad, event: "poison" })),
    );
    await run.append([sampleEvent({ projectId: good, event: "fine" })]);
    await run.settle();
    expect(await namesIn(run.events, good)).toEqual(["fine"]);
    expect((await lettersIn(run.events, bad)).length).toBe(100);
    expect(run.logged.filter((message) => message.includes("is tried again")).length).toBe(3);
  });

  it("[PI-59] keeps the order of events whose steps take longer than those of later ones", async () => {
    const run = await pipeline.start({
      steps: [
        eventStep({
          name: "any time",
          run: ({ event }) => delay(Math.random() * 20, { kind: "keep" as const, event }),
        }),
      ],
    });
    const projectId = await run.newProject();
    const events = Array.from({ length: 200 }, (_, index) =>
      sampleEvent({
        ...{ projectId, distinctId: `u${index % 3}`, event: `e${index}`, timestamp: at(0) },
        properties: { $set: { last: index } },
      }),
    );
    for (const event of events) await run.append([event]);
    await run.settle();
    // Events of one instant are listed in the order of the log.
    expect(await namesIn(run.events, projectId)).toEqual(events.map(({ event }) => event));
    for (const [id, last] of [
      ["u0", 198],
      ["u1", 199],
      ["u2", 197],
    ] as const) {
      const person = await run.persons.personByDistinctId(projectId, id);
      expect(person?.properties).toMatchObject({ last });
    }
  });

  it("[PI-59] sets aside an event whose steps never end", async () => {
    const run = await pipeline.start(
      {
        geoIp: () => ({
          lookup: (address) => (address === "203.0.113.9" ? new Promise(() => {}) : {}),
        }),
      },
      { stepLimitMs: 100 },
    );
    const projectId = await run.newProject();
    const names = ["a", "poison", "b"];
    await run.append(
      names.map((event, second) =>
        sampleEvent({
          ...{ projectId, event, timestamp: at(second) },
          properties: { $ip: event === "poison" ? "203.0.113.9" : "203.0.113.8" },
        }),
      ),
    );
    await run.settle();
    expect(await namesIn(run.events, projectId)).toEqual(["a", "b"]);
    expect((await lettersIn(run.events, projectId)).map(({ reason }) => reason)).toEqual([
      "step add geo properties failed: it did not end within 100 ms",
    ]);
  });

  it("[PI-71] gives steps many events of one project at a time, and repeats alone what failed together", async () => {
    const given: string[][] = [];
    const step: Step = {
      name: "together",
      run: async (entries) => {
        given.push(entries.map(({ event }) => event.event));
        const isPoisoned = entries.some(({ event }) => event.event === "poison");
        if (isPoisoned) throw new Error("poisoned");
        return entries.map(({ event }) =>
          event.event === "spam"
            ? { kind: "drop", reason: "unwanted", by: "a filter" }
            : keep(event),
        );
      },
    };
    const keep = (event: CapturedEvent) => ({ kind: "keep" as const, event });
    const run = await pipeline.start({ steps: [step] });
    const [one, other] = [await run.newProject(), await run.newProject()];
    const events = [
      sampleEvent({ projectId: one, event: "a1", timestamp: at(0) }),
      sampleEvent({ projectId: other, event: "poison" }),
      sampleEvent({ projectId: one, event: "spam" }),
      sampleEvent({ projectId: other, event: "b1", timestamp: at(0) }),
      sampleEvent({ projectId: one, event: "a2", timestamp: at(1) }),
      sampleEvent({ projectId: other, event: "b2", timestamp: at(1) }),
    ];
    await run.append(events);
    await run.settle();
    expect(given).toEqual([
      ["a1", "spam", "a2"],
      ["poison", "b1", "b2"],
      ["poison"],
      ["b1"],
      ["b2"],
    ]);
    expect(await namesIn(run.events, one)).toEqual(["a1", "a2"]);
    expect(await namesIn(run.events, other)).toEqual(["b1", "b2"]);
    expect((await lettersIn(run.events, other)).map(({ reason }) => reason)).toEqual([
      "step together failed: poisoned",
    ]);
    expect(await run.events.receipt(one, events[2]?.uuid ?? "")).toMatchObject({ by: "a filter" });
    expect(await run.events.receipt(one, events[0]?.uuid ?? "")).toMatchObject({ changedBy: [] });
  });

  it("[PI-72] stores what steps capture beside an event once, after all steps, whatever fails meanwhile", async () => {
    let runs = 0;
    let faults = 2;
    const run = await pipeline.start({
      persons: (real) => ({
        ...real,
        applyEvents: async (entries) => {
          if (faults-- > 0) throw new Error("not now");
          return real.applyEvents(entries);
        },
      }),
      steps: [
        eventStep({
          name: "echo",
          run: ({ event }) => {
            if (event.event !== "call") return { kind: "keep", event };
            runs++;
            const echo = sampleEvent({
              ...{ projectId: event.projectId, event: "echo", timestamp: at(1) },
              uuid: `${event.uuid.slice(0, -1)}0`,
            });
            return { kind: "keep", event, captured: [echo] };
          },
        }),
        eventStep({
          name: "shout",
          run: ({ event }) => ({ kind: "keep", event: { ...event, event: `${event.event}!` } }),
        }),
      ],
    });
    const projectId = await run.newProject();
    const uuid = "0190c0de-0000-7000-8000-00000000000f";
    await run.append([sampleEvent({ projectId, event: "call", uuid, timestamp: at(0) })]);
    await run.settle();
    await run.settle();
    expect(await namesIn(run.events, projectId)).toEqual(["call!", "echo!"]);
    expect(runs).toBe(1);
  });

  it("[PI-44] lets steps change, drop and set aside events; one that throws sets its event aside", async () => {
    const run = await pipeline.start({
      steps: [
        eventStep({
          name: "shout",
          run: ({ event }) => ({
            kind: "keep",
            event: { ...event, event: event.event.toUpperCase() },
          }),
        }),
        eventStep({
          name: "sort out",
          run: async ({ event }) => {
            if (event.event === "SPAM") return { kind: "drop", reason: "unwanted" };
            if (event.event === "ODD") return { kind: "dead-letter", reason: "odd" };
            if (event.event === "BUG") throw new Error("bug");
            return { kind: "keep", event };
          },
        }),
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
    expect((await lettersIn(run.events, projectId)).map(({ reason }) => reason)).toEqual([
      "odd",
      "step sort out failed: bug",
    ]);
    expect(run.counts).toMatchObject({ dropped: 1, setAside: 2 });
  });

  it("[PI-44] tells which steps changed or dropped an event, and what was stored", async () => {
    const told: string[] = [];
    const run = await pipeline.start({
      geoIp: () => ({ lookup: () => ({ $geoip_country_code: "NZ" }) }),
      steps: [
        eventStep({
          name: "first",
          run: ({ event }) =>
            event.event === "a" ? { kind: "keep", event: { ...event } } : { kind: "keep", event },
        }),
        eventStep({
          name: "second",
          run: async ({ event }) =>
            event.event === "spam"
              ? { kind: "drop", reason: "unwanted" }
              : { kind: "keep", event: event.event === "b" ? event : { ...event } },
        }),
      ],
      onStored: () => (rows) => {
        for (const { event, changedBy } of rows) told.push(`${event.event}: ${changedBy.join()}`);
        throw new Error("whoever is told may fail");
      },
    });
    const projectId = await run.newProject();
    const events = ["a", "b", "c", "spam"].map((event) =>
      sampleEvent({ projectId, event, properties: { $ip: "203.0.113.9" } }),
    );
    await run.append(events);
    await run.settle();
    await expect.poll(() => told).toEqual(["a: first,second", "b: ", "c: second"]);
    const receipts = await Promise.all(
      events.map(({ uuid }) => run.events.receipt(projectId, uuid)),
    );
    expect(receipts).toMatchObject([
      { outcome: "stored", changedBy: ["first", "second"] },
      { outcome: "stored", changedBy: [] },
      { outcome: "stored", changedBy: ["second"] },
      { outcome: "dropped", by: "second", reason: "unwanted" },
    ]);
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
  });

  it("[PI-45] tells whoever follows events of the place as well, also where they were read again", async () => {
    const place = { $geoip_city_name: "Rome" };
    const geoIp = () => ({ lookup: () => place });
    const insert = () => Promise.reject(new Error("down"));
    const first = await pipeline.start(
      { geoIp, events: (real) => ({ ...real, insert }) },
      { drainMs: 100 },
    );
    const projectId = await first.newProject();
    const properties = { $ip: "203.0.113.9" };
    await first.append([sampleEvent({ projectId, properties })]);
    await expect.poll(() => first.persons.position()).toBeGreaterThan(0);
    await pipeline.closeStores();

    const told: JsonObject[] = [];
    const second = await pipeline.start({
      geoIp,
      onStored: () => (rows) => {
        for (const { event } of rows) told.push(event.properties);
      },
    });
    await second.append([sampleEvent({ projectId, properties })]);
    await second.settle();
    await expect
      .poll(() => told)
      .toEqual([
        { ...properties, ...place },
        { ...properties, ...place },
      ]);
  });

  it("[PI-45] keeps the place in the letter of an event whose person changes fail", async () => {
    const place = { $geoip_city_name: "Rome" };
    const run = await pipeline.start({
      geoIp: () => ({ lookup: () => place }),
      persons: (real) => ({
        ...real,
        async applyEvents(entries) {
          if (entries.some(({ event }) => "bad" in event.properties)) throw new Error("no");
          return real.applyEvents(entries);
        },
      }),
    });
    const projectId = await run.newProject();
    const properties = { $ip: "203.0.113.9", bad: 1 };
    await run.append([sampleEvent({ projectId, properties })]);
    await run.settle();
    const [letter] = await lettersIn(run.events, projectId);
    expect(letter?.event.properties).toEqual({ ...properties, ...place });
  });

  it("[PI-46] finishes after a restart what it had not done, persons before anybody asks", async () => {
    const stores = await pipeline.openStores();
    const projectId = await stores.newProject();
    const events = Array.from({ length: 1500 }, (_, index) =>
      sampleEvent({ projectId, distinctId: `u${index % 7}`, properties: { $set: { index } } }),
    );
    await stores.log.append(events);
    const run = await pipeline.start();
    await run.pendingPersons.settled(projectId, { distinctIds: ["u3"] });
    const person = await run.persons.personByDistinctId(projectId, "u3");
    expect(person?.properties).toMatchObject({ index: 1494 });
    await run.settle();
    expect((await namesIn(run.events, projectId)).length).toBe(1000);
  });

  it("[PI-8] lets the log forget what was passed before a restart, though nothing new comes", async () => {
    const before = await pipeline.start();
    await before.append([sampleEvent({ projectId: await before.newProject() })]);
    await before.settle();
    await pipeline.stopWorker();
    const released: number[] = [];
    const run = await pipeline.start({
      log: (real) => ({
        ...real,
        release: (upTo) => {
          released.push(upTo);
          return real.release(upTo);
        },
      }),
    });
    expect(released).toEqual([await run.log.end()]);
  });

  it("[PI-46] goes on where person changes are lost that the log no longer holds", async () => {
    const restored = temporaryPipeline();
    const before = await restored.start();
    await before.append([sampleEvent({ projectId: await before.newProject() })]);
    await before.settle();
    await restored.closeStores();
    for (const file of readdirSync(restored.folder)) {
      if (/^(?:log|metadata)\.sqlite/.test(file)) rmSync(join(restored.folder, file));
    }
    const run = await restored.start();
    expect(run.pendingPersons.settled(1, { distinctIds: ["a"] })).toBeUndefined();
    const projectId = await run.newProject();
    await run.append([sampleEvent({ projectId, distinctId: "a" })]);
    await run.settle();
    expect(await run.persons.personByDistinctId(projectId, "a")).toBeDefined();
    await restored.remove();
  });

  it("[PI-47] stores what the log holds before it closes", async () => {
    const run = await pipeline.start({}, { storeEveryMs: 200 });
    const projectId = await run.newProject();
    await run.append([sampleEvent({ projectId, event: "first" })]);
    await run.append([sampleEvent({ projectId, event: "last" })]);
    await pipeline.stopWorker();
    expect((await namesIn(run.events, projectId)).toSorted()).toEqual(["first", "last"]);
  });

  it("[PI-47] closes in time when a store is down, and loses nothing", async () => {
    let attempts = 0;
    const { promise: reached, resolve: reach } = withResolvers();
    const down = await pipeline.start(
      {
        events: (real) => ({
          ...real,
          insert: async () => {
            attempts++;
            reach();
            throw DOWN;
          },
        }),
      },
      { drainMs: 1, retryMs: 200, longestRetryMs: 200 },
    );
    const projectId = await down.newProject();
    await down.append([sampleEvent({ projectId, event: "kept" })]);
    await reached;
    const before = attempts;
    await pipeline.stopWorker();
    // Waiting longer than it was told to would have meant trying again and again.
    expect(attempts - before).toBeLessThan(3);
    expect(await namesIn(down.events, projectId)).toEqual([]);
    const run = await pipeline.start();
    await run.settle();
    expect(await namesIn(run.events, projectId)).toEqual(["kept"]);
  });

  it("[PI-49] stores a uuid once per project: in a request, between requests, after a restart", async () => {
    const uuid = crypto.randomUUID();
    const first = await pipeline.start();
    const [projectId, another] = [await first.newProject(), await first.newProject()];
    const named = (event: string, project = projectId) =>
      sampleEvent({ uuid, projectId: project, event });
    await first.append([named("first"), named("in the same request")]);
    await first.append([named("in the next"), named("elsewhere", another)]);
    await first.settle();
    await first.append([named("later")]);
    await first.settle();
    await pipeline.closeStores();
    const second = await pipeline.start();
    await second.append([named("after a restart"), sampleEvent({ projectId, event: "new" })]);
    await second.settle();
    expect((await namesIn(second.events, projectId)).toSorted()).toEqual(["first", "new"]);
    expect(await namesIn(second.events, another)).toEqual(["elsewhere"]);
  });

  it("[PI-51] goes on after a crash between person changes and storage as if there was none", async () => {
    const crashing = await pipeline.start(
      { events: (real) => ({ ...real, insert: () => new Promise(() => {}) }) },
      { drainMs: 20 },
    );
    const projectId = await crashing.newProject();
    const event = (name: string, distinctId: string, second: number, properties = {}) =>
      sampleEvent({ projectId, event: name, distinctId, timestamp: at(second), properties });
    await crashing.append([
      event("before", "anon", 1, { $set_once: { first: "anon" } }),
      event("$identify", "ann", 2, { $anon_distinct_id: "anon", $set: { plan: "pro" } }),
      event("other", "bob", 3),
      event("after", "ann", 4, { $unset: ["plan"] }),
    ]);
    await crashing.pendingPersons.settled(projectId, { distinctIds: ["ann", "bob"] });
    const before = await crashing.persons.personByDistinctId(projectId, "ann");
    expect(before?.distinctIds.toSorted()).toEqual(["ann", "anon"]);
    expect(before?.properties).toMatchObject({ first: "anon" });
    expect(before?.properties).not.toHaveProperty("plan");
    await pipeline.closeStores();

    const run = await pipeline.start();
    await run.settle();
    const ann = await run.persons.personByDistinctId(projectId, "ann");
    expect(ann).toEqual(before);
    const history = await run.events.events({
      projectId,
      personId: ann?.uuid ?? "",
      limit: 10,
      offset: 0,
      order: "oldest-first",
    });
    expect(history.events.map((found) => found.event)).toEqual(["before", "$identify", "after"]);
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
  });

  it("[PI-75] leaves the store alone for twice as long after a batch of many events", async () => {
    const storeEveryMs = 400;
    const starts: { readonly atMs: number; readonly rows: number }[] = [];
    const run = await pipeline.start(
      {
        events: (real) => ({
          ...real,
          insert: async (batch) => {
            starts.push({ atMs: performance.now(), rows: batch.rows.length });
            return real.insert(batch);
          },
        }),
      },
      { storeEveryMs },
    );
    const projectId = await run.newProject();
    const beforeMs = performance.now();
    await run.append(Array.from({ length: 300 }, () => sampleEvent({ projectId })));
    await run.settle();
    await run.append([sampleEvent({ projectId })]);
    await run.settle();
    expect(starts.map(({ rows }) => rows)).toEqual([300, 1]);
    expect((starts[1]?.atMs ?? 0) - beforeMs).toBeGreaterThan(2 * storeEveryMs - 10);
  });

  it("[PI-48] stores packed rows, tells of them before and after, and takes them apart where one is at fault", async () => {
    const told: { prepared: string[]; stored: string[] } = { prepared: [], stored: [] };
    const packed: boolean[] = [];
    const run = await pipeline.start({
      events: (real) => ({
        ...real,
        insert: async (batch) => {
          packed.push(!Array.isArray(batch.rows));
          if ([...batch.rows].some(({ event }) => event.event === "poison")) throw new Error("no");
          return real.insert(batch);
        },
      }),
      onPrepared: () => (rows) => {
        for (const { event } of rows) told.prepared.push(event.event);
        throw new Error("whoever is told may fail");
      },
      onStored: () => (rows) => {
        for (const { event } of rows) told.stored.push(event.event);
      },
    });
    const projectId = await run.newProject();
    await run.append(
      ["a", "poison", "b"].map((event, second) =>
        sampleEvent({ projectId, event, timestamp: at(second) }),
      ),
    );
    await run.settle();
    expect(packed[0]).toBe(true);
    expect(await namesIn(run.events, projectId)).toEqual(["a", "b"]);
    expect(told.prepared).toEqual(["a", "poison", "b"]);
    await expect.poll(() => told.stored).toEqual(["a", "b"]);
    expect(run.logged).toContain("somebody could not be told of events");
    const letters = await run.events.deadLetters({ projectId, limit: 10 });
    expect(letters.map(({ event }) => event.event)).toEqual(["poison"]);
  });

  it("[PI-58] sets aside what is damaged in the log, with what is left of it, and goes on", async () => {
    const damaged = temporaryPipeline();
    const stores = await damaged.openStores();
    const projectId = await stores.newProject();
    const events = ["a", "b", "c", "d"].map((event) => sampleEvent({ projectId, event }));
    for (const event of events) await stores.log.append([event]);
    await damaged.closeStores();
    const file = new Database(join(damaged.folder, "log.sqlite"));
    file.exec("update segments set lines = substr(lines, 1, 60) where last = 2");
    file.exec("update segments set lines = x'ff00', count = 1 where last = 3");
    file.close();
    const run = await damaged.start();
    await run.settle();
    expect((await namesIn(run.events, projectId)).toSorted()).toEqual(["a", "d"]);
    const letters = await run.events.deadLetters({ limit: 10 });
    expect(letters.map(({ position }) => position)).toEqual([2, 3]);
    expect(letters[0]).toMatchObject({
      reason: expect.stringContaining("it cannot be read from the log"),
      event: { projectId, uuid: events[1]?.uuid, event: "$unreadable" },
    });
    expect(letters[0]?.event.properties.text).toContain(events[1]?.uuid);
    await damaged.remove();
  });

  it("[PI-58] sets aside entries that are lists of eight and no events, and goes on", async () => {
    const damaged = temporaryPipeline();
    const stores = await damaged.openStores();
    const projectId = await stores.newProject();
    const damages: ((line: string) => string)[] = [
      (line) => line.replace(/-[\da-f]{12}"/, '-00000000000g"'),
      (line) => line.replace(/-[\da-f]{12}"/, '"'),
      (line) => line.replace(/^\[\d+/, "[4294967296"),
      (line) => line.replace(/^\[\d+/, "[2147483647"),
      (line) => line.replace('"damaged"', "5"),
      (line) => line.replace(/\d{12,}/, "9999999999999999"),
      (line) => line.replace(/\{.*\}/s, "[]"),
      (line) => `+${line}\t{"kind":"kept"}`,
      (line) =>
        `+${line}\t{"kind":"dropped","by":"x","reason":"x"}`.replace(/-[\da-f]{12}"/, '-x"'),
    ];
    for (const damage of damages) {
      void damage;
      await stores.log.append([sampleEvent({ projectId, event: "damaged" })]);
      await stores.log.append([sampleEvent({ projectId, event: "good" })]);
    }
    await damaged.closeStores();
    const file = new Database(join(damaged.folder, "log.sqlite"));
    for (const [index, damage] of damages.entries()) {
      const last = 2 * index + 1;
      const segment = file.prepare("select lines from segments where last = ?").get(last);
      const { lines } = segment as { lines: string };
      const text = damage(lines);
      if (text === lines) throw new Error(`nothing damaged in ${lines}`);
      file.prepare("update segments set lines = ? where last = ?").run([text, last]);
    }
    file.close();
    const run = await damaged.start();
    await run.settle();
    expect(await namesIn(run.events, projectId)).toEqual(damages.map(() => "good"));
    const letters = await run.events.deadLetters({ limit: 100 });
    // The fourth names another project, as far as its line tells.
    const aside = damages.map((_, index) => 2 * index + 1).filter((position) => position !== 7);
    expect(letters.map(({ position }) => position)).toEqual(aside);
    expect(await namesIn(run.events, 2147483647)).toEqual(["damaged"]);
    await damaged.remove();
  });
});
