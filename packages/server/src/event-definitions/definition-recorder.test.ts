import { detectPropertyType, type PropertyType } from "@hedgerow/core/events/property-type";
import type { JsonObject } from "@hedgerow/core/json";
import fc from "fast-check";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { createEventDefinitionStore } from "../engines/sql/event-definition-store.ts";
import { plainPersonStore } from "../engines/sql/plain-person-store.setup.ts";
import { projectsAndUsers } from "../engines/sql/projects-and-users.setup.ts";
import { createPropertyDefinitionStore } from "../engines/sql/property-definition-store.ts";
import { createSightingStore } from "../engines/sql/sighting-store.ts";
import { openTemporarySqlite } from "../engines/sql/sql-engines.contract.ts";
import { sampleEvent } from "../events/event-log.contract.ts";
import type { PlacedEvent } from "../events/event-store.ts";
import { type DefinitionRecorder, startDefinitionRecorder } from "./definition-recorder.ts";
import type { PropertyDefinitionQuery } from "./property-definition-store.ts";
import type { PropertySubject, SightingStore, Sightings } from "./sighting-store.ts";

const START = new Date("2026-03-01T10:00:00Z");
const after = (ms: number) => new Date(START.getTime() + ms);
const MINUTE_MS = 60_000;

async function open() {
  const database = await openTemporarySqlite();
  const newUuid = () => crypto.randomUUID();
  const store = createSightingStore(database, { newUuid });
  const persons = plainPersonStore(database);
  const events = createEventDefinitionStore(database, { newUuid });
  const properties = createPropertyDefinitionStore(database);
  const { newProject, newUser } = await projectsAndUsers(database);
  const projectId = await newProject();
  const authorId = await newUser();
  /** What the store of events holds. */
  const stored: PlacedEvent[] = [];
  const recorded: Sightings[] = [];
  const faults: unknown[] = [];
  const warned: string[] = [];
  const clock = { now: START };
  /** Set while nothing can be written, and no stored event read. */
  let outage: Error | undefined;
  const recorders: DefinitionRecorder[] = [];
  /** How often stored events were read. */
  let asked = 0;

  const sightings: SightingStore = {
    ...store,
    async record(seen) {
      if (outage) throw outage;
      recorded.push(seen);
      return await store.record(seen);
    },
  };

  return {
    projectId,
    newProject,
    persons,
    events,
    properties,
    stored,
    recorded,
    faults,
    warned,
    clock,
    write: { authorId, now: START },
    /** Waits until stored events were read twice more: whatever the first reading led to is done. */
    async hasAskedAgain() {
      const before = asked;
      await eventually(async () => asked >= before + 2);
    },
    position: () => store.position(),
    fail: (error: Error | undefined) => {
      outage = error;
    },
    /** A recorder over these stores; what one before has not written is lost as in a crash. */
    async start() {
      const recorder = await startDefinitionRecorder({
        sightings,
        events: {
          position: async () => stored.at(-1)?.position ?? 0,
          async eventsAfter(position, limit) {
            if (outage) throw outage;
            asked++;
            return stored.filter((row) => row.position > position).slice(0, limit);
          },
        },
        persons,
        warnings: { note: (_project, { type }) => void warned.push(type) },
        clock: () => clock.now,
        reportFault: (error) => void faults.push(error),
        flushEveryMs: 3_600_000,
      });
      recorders.push(recorder);
      return recorder;
    },
    event(name: string, properties: JsonObject = {}, fields: { at?: Date; project?: number } = {}) {
      const position = (stored.at(-1)?.position ?? 0) + 1;
      const { at: receivedAt = START, project = projectId } = fields;
      const event = sampleEvent({ event: name, properties, receivedAt, projectId: project });
      const row = { position, event };
      stored.push(row);
      return row;
    },
    async eventNames(project = projectId) {
      const query = {
        words: [],
        origin: null,
        excludeHidden: false,
        verified: null,
        tags: null,
        excludedNames: [],
        order: [],
        limit: 1000,
        offset: 0,
      };
      return (await events.list(project, query)).definitions.map(({ name }) => name);
    },
    async types(subject: PropertySubject = { kind: "event" }, eventNames: string[] | null = null) {
      const query: PropertyDefinitionQuery = {
        subject,
        words: [],
        names: null,
        excludedNames: [],
        eventNames,
        onlySeenOnEvents: eventNames !== null,
        isFlagValue: null,
        isNumerical: null,
        excludeOfficial: false,
        excludeHidden: false,
        verified: null,
        tags: null,
        limit: 1000,
        offset: 0,
      };
      const { properties: found } = await properties.list(projectId, query);
      return Object.fromEntries(found.map(({ definition: { name, type } }) => [name, type]));
    },
    async close() {
      for (const recorder of recorders) await recorder.close();
      await database.close();
    },
  };
}

let world: Awaited<ReturnType<typeof open>>;
let recorder: DefinitionRecorder;

beforeEach(async () => {
  world = await open();
  recorder = await world.start();
});
afterEach(() => world.close());

/** Resolves once a claim holds. */
async function eventually(claim: () => Promise<boolean>): Promise<void> {
  const deadline = Date.now() + 30_000;
  while (!(await claim())) {
    if (Date.now() > deadline) throw new Error("it did not come about");
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

describe("the recorder of definitions", () => {
  test("[ED-8] makes definitions from the first event, with types and with what came together", async () => {
    recorder.note([
      world.event("paid", {
        price: 12.5,
        coupon: null,
        $browser: "Firefox",
        $set: { plan: "pro" },
      }),
      world.event("left", { price: 3, at: "2026-01-01", $set_once: { first: true } }),
    ]);
    await recorder.flush();
    expect(await world.eventNames()).toEqual(["left", "paid"]);
    expect(await world.types()).toEqual({
      $browser: "String",
      at: "DateTime",
      coupon: null,
      price: "Numeric",
    });
    expect(await world.types({ kind: "event" }, ["paid"])).toEqual({
      $browser: "String",
      coupon: null,
      price: "Numeric",
    });
    expect(await world.types({ kind: "person" })).toEqual({ plan: "String", first: "Boolean" });
  });

  test("[ED-8] learns of properties that were added to events as of their own", async () => {
    const properties = { $geoip_city_name: "Köln", $geoip_latitude: 51 };
    const added = { properties, text: JSON.stringify(properties) };
    recorder.note([{ ...world.event("paid", { price: 1 }), added }]);
    await recorder.flush();
    expect(await world.types()).toEqual({
      ...{ price: "Numeric", $geoip_city_name: "String", $geoip_latitude: "Numeric" },
    });
  });

  test("[ED-8] gives a property its type when a value that has one comes", async () => {
    recorder.note([world.event("paid", { coupon: null, price: 1 })]);
    await recorder.flush();
    recorder.note([world.event("paid", { coupon: null }), world.event("paid", { coupon: [] })]);
    await recorder.flush();
    expect(world.recorded.length).toBe(1);
    recorder.note([world.event("paid", { coupon: "SPRING" }), world.event("paid", { coupon: 7 })]);
    recorder.note([world.event("paid", { price: "free" })]);
    await recorder.flush();
    expect(await world.types()).toEqual({ coupon: "String", price: "Numeric" });
    expect(world.recorded.length).toBe(2);
  });

  test("[ED-8] tells properties of groups by their type, and nothing of types without room", async () => {
    const events = ["company", "team"].map((type, index) => ({
      position: index + 1,
      event: sampleEvent({
        projectId: world.projectId,
        event: "$groupidentify",
        properties: { $group_type: type, $group_key: "k", $group_set: { [`${type}_size`]: 3 } },
      }),
    }));
    await world.persons.applyEvents(events);
    recorder.note(events);
    recorder.note([
      world.event("$groupidentify", { $group_type: "sixth", $group_set: { nothing: 1 } }),
    ]);
    await recorder.flush();
    const [company, team] = await world.persons.groupTypes(world.projectId);
    expect([company?.name, team?.name]).toEqual(["company", "team"]);
    const typesOf = (index: number | undefined) =>
      world.types({ kind: "group", groupTypeIndex: index ?? -1 });
    expect(await typesOf(company?.index)).toEqual({ company_size: "Numeric" });
    expect(await typesOf(team?.index)).toEqual({ team_size: "Numeric" });
    expect(await world.types()).toEqual({});
    expect(await world.eventNames()).toEqual(["$groupidentify"]);
  });

  test("[ED-9] writes a handful of times for many events, and moves last-seen times on", async () => {
    const lastSeen = async () =>
      (await world.events.definitionByName(world.projectId, "paid"))?.lastSeenAt;
    for (let second = 0; second < 600; second++) {
      const at = after(second * 1000);
      recorder.note(Array.from({ length: 20 }, () => world.event("paid", { price: 1 }, { at })));
      if (second % 5 === 0) await recorder.flush();
    }
    await recorder.flush();
    expect(world.recorded.length).toBeLessThan(5);
    const seen = (await lastSeen())?.getTime() ?? 0;
    expect(after(600_000).getTime() - seen).toBeLessThanOrEqual(5 * MINUTE_MS);
    const { createdAt } = (await world.events.definitionByName(world.projectId, "paid")) ?? {};
    expect(createdAt).toEqual(START);
  });

  test("[ED-10] reads again at the start what was stored and not recorded", async () => {
    recorder.note([world.event("early", { a: 1 })]);
    await recorder.close();
    expect(await world.position()).toBe(1);
    for (let index = 0; index < 1200; index++) world.event(`late_${index % 3}`, { b: "x" });
    const next = await world.start();
    await eventually(async () => {
      await next.flush();
      return (await world.position()) === 1201;
    });
    expect(await world.eventNames()).toEqual(["early", "late_0", "late_1", "late_2"]);
    expect(await world.types()).toEqual({ a: "Numeric", b: "String" });
  });

  test("[ED-10] loses nothing of an outage, and reports it", async () => {
    world.fail(new Error("the database is down"));
    recorder.note([world.event("paid", { price: 1, coupon: null })]);
    await expect(recorder.flush()).rejects.toThrow("the database is down");
    recorder.note([
      world.event("paid", { price: 2, coupon: "A" }, { at: after(1000) }),
      world.event("left"),
    ]);
    await expect(recorder.flush()).rejects.toThrow();
    expect(await world.position()).toBe(0);
    world.fail(undefined);
    await recorder.flush();
    expect(await world.position()).toBe(3);
    expect(await world.eventNames()).toEqual(["left", "paid"]);
    expect(await world.types()).toEqual({ price: "Numeric", coupon: "String" });
    const paid = await world.events.definitionByName(world.projectId, "paid");
    expect([paid?.createdAt, paid?.lastSeenAt]).toEqual([START, after(1000)]);
  });

  test("[ED-10] holds a bounded number of sightings; what does not fit is read again", async () => {
    const other = await world.newProject();
    const many = (from: number) =>
      Object.fromEntries(Array.from({ length: 4000 }, (_, index) => [`p${from + index}`, 1]));
    recorder.note(
      [0, 4000, 8000, 12_000, 16_000].map((from, index) => world.event(`e${index}`, many(from))),
    );
    recorder.note([world.event("left", {}, { project: other })]);
    await eventually(async () => {
      await recorder.flush();
      return (await world.position()) === 6;
    });
    expect(await world.eventNames(other)).toEqual(["left"]);
    expect(world.recorded.some(({ properties }) => properties.length > 16_000)).toBe(false);
    expect(world.warned).toContain("too_many_property_definitions");
  });

  test("[ED-10] reads again what it had no room for before it was stored, once it is", async () => {
    const many = (from: number) =>
      Object.fromEntries(Array.from({ length: 4000 }, (_, index) => [`p${from + index}`, 1]));
    const rows = [0, 4000, 8000, 12_000].map((from, index) => world.event(`e${index}`, many(from)));
    const waiting = [...rows, world.event("last")];
    world.stored.length = 0;
    recorder.note(waiting);
    await recorder.flush();
    expect(await world.eventNames()).not.toContain("last");
    // Asks for what it missed, and finds that nothing of it is stored.
    await world.hasAskedAgain();
    expect(await world.position()).toBeLessThan(5);
    world.stored.push(...waiting);
    await eventually(async () => {
      await recorder.flush();
      return (await world.position()) === 5;
    });
    expect(await world.eventNames()).toContain("last");
  });

  test("[ED-10] passes nothing over that it could not read again yet", async () => {
    for (let index = 0; index < 3; index++) world.event(`stored_${index}`);
    world.fail(new Error("the store is down"));
    const next = await world.start();
    next.note([world.event("live")]);
    await expect(next.flush()).rejects.toThrow("the store is down");
    await eventually(async () => world.faults.length > 0);
    expect(await world.position()).toBe(0);
    world.fail(undefined);
    await next.flush();
    expect(await world.eventNames()).toEqual(["live"]);
    expect(await world.position()).toBe(0);
    await eventually(async () => {
      await next.flush();
      return (await world.position()) === 4;
    });
    expect(await world.eventNames()).toEqual(["live", "stored_0", "stored_1", "stored_2"]);
  });

  test("[ED-11] new names that a project has no room for are left alone for a while", async () => {
    const names = (from: number, count: number) =>
      Array.from({ length: count }, (_, index) => world.event(`e${from + index}`, { a: 1 }));
    recorder.note(names(0, 10_001));
    await recorder.flush();
    expect(world.warned).toEqual(["too_many_event_definitions"]);
    const writes = world.recorded.length;
    recorder.note(names(20_000, 100));
    await recorder.flush();
    expect(world.recorded.length).toBe(writes);
    world.clock.now = after(11 * MINUTE_MS);
    recorder.note(names(30_000, 100));
    await recorder.flush();
    expect(world.warned.length).toBe(2);
  });

  test("[ED-12] what is deleted comes back with the next event, and not before", async () => {
    recorder.note([world.event("paid", { price: 1 })]);
    await recorder.flush();
    const { id } = (await world.events.definitionByName(world.projectId, "paid")) ?? {};
    recorder.note([world.event("paid", { price: 1, late: 1 }, { at: after(10 * MINUTE_MS) })]);
    await recorder.around(world.projectId, () =>
      world.events.delete(world.projectId, id ?? "", world.write),
    );
    await recorder.flush();
    expect(await world.eventNames()).toEqual([]);
    recorder.note([world.event("paid", { price: 1 })]);
    await recorder.flush();
    expect(await world.eventNames()).toEqual(["paid"]);
    expect(await world.types({ kind: "event" }, ["paid"])).toEqual({ price: "Numeric" });
  });

  test("names that get no definition and names of every kind do no harm", async () => {
    const strange = JSON.parse('{"__proto__":1,"constructor":2,"toString":{"a":1},"":3}');
    recorder.note([
      world.event("x".repeat(201), { a: 1 }),
      world.event("constructor", { ...strange, [`y${"y".repeat(200)}`]: 1 }),
      world.event("$groupidentify", { $group_type: 7, $group_set: { a: 1 } }),
      world.event("paid", { $set: "text", $set_once: [1] }),
    ]);
    await recorder.flush();
    expect(await world.eventNames()).toEqual(["$groupidentify", "constructor", "paid"]);
    expect(Object.entries(await world.types())).toContainEqual(["constructor", "Numeric"]);
    expect(Object.keys(await world.types()).length).toBe(3);
    expect(world.faults).toEqual([]);
  });
});

describe("whatever happens in between", () => {
  const value = fc.constantFrom<JsonObject[string]>(null, [], 1, "text", true, "2026-01-01");
  const step = fc.oneof(
    {
      weight: 6,
      arbitrary: fc.record({
        event: fc.constantFrom("a", "b", "c"),
        properties: fc.dictionary(fc.constantFrom("x", "y", "z", "toString"), value, {
          maxKeys: 3,
        }),
      }),
    },
    { weight: 2, arbitrary: fc.constant("flush" as const) },
    { weight: 2, arbitrary: fc.constant("outage" as const) },
    { weight: 1, arbitrary: fc.constant("crash" as const) },
  );

  test("[ED-10] definitions are those of a single look at all events in order", async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 40 }), async (steps) => {
        const run = await open();
        try {
          let current = await run.start();
          const events = new Set<string>();
          /** Types that the values of a property spoke for: any of them, after a crash. */
          const types = new Map<string, Set<PropertyType | null>>();
          const pairs = new Set<string>();
          for (const step of steps) {
            if (step === "flush") {
              await current.flush();
            } else if (step === "outage") {
              run.fail(new Error("down"));
              await current.flush().catch(() => {});
              run.fail(undefined);
            } else if (step === "crash") {
              // What it has not written is lost with it; what is stored is not.
              current = await run.start();
            } else {
              current.note([run.event(step.event, step.properties)]);
              events.add(step.event);
              for (const [name, given] of Object.entries(step.properties)) {
                const seen = types.get(name) ?? new Set();
                types.set(name, seen.add(detectPropertyType(name, given)));
                pairs.add(`${step.event} ${name}`);
              }
            }
          }
          await eventually(async () => {
            await current.flush();
            return (await run.position()) === run.stored.length;
          });
          expect(await run.eventNames()).toEqual([...events].toSorted());
          const found = Object.entries(await run.types());
          expect(found.map(([name]) => name)).toEqual([...types.keys()].toSorted());
          for (const [name, type] of found) {
            const seen = types.get(name) ?? new Set();
            if (seen.size > 1) seen.delete(null);
            expect([...seen]).toContain(type);
          }
          for (const event of ["a", "b", "c"]) {
            for (const name of Object.keys(await run.types({ kind: "event" }, [event]))) {
              expect(pairs.delete(`${event} ${name}`)).toBe(true);
            }
          }
          expect([...pairs]).toEqual([]);
        } finally {
          await run.close();
        }
      }),
      { numRuns: 40 },
    );
  });
});
