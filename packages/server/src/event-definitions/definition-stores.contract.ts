import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import type { ActivityLog } from "../activity/activity-log.ts";
import type {
  DefinitionWrite,
  EventDefinition,
  EventDefinitionFields,
  EventDefinitionQuery,
  EventDefinitionStore,
} from "./event-definition-store.ts";
import type {
  PropertyDefinitionQuery,
  PropertyDefinitionStore,
} from "./property-definition-store.ts";
import {
  type EventSighting,
  MAX_EVENT_DEFINITIONS,
  MAX_PROPERTY_DEFINITIONS,
  type PropertySighting,
  type SightingStore,
  type Sightings,
} from "./sighting-store.ts";

/** Stores over one fresh database. */
export interface DefinitionStoresFixture {
  readonly sightings: SightingStore;
  readonly events: EventDefinitionStore;
  readonly properties: PropertyDefinitionStore;
  readonly activityLog: ActivityLog;
  newProject(): Promise<number>;
  newUser(): Promise<number>;
  close(): Promise<void>;
}

const at = (time: string) => new Date(`2026-03-01T${time}Z`);
const now = at("12:00:00.123");

const untouched: EventDefinitionFields = {
  description: null,
  ownerId: null,
  verified: false,
  verifiedAt: null,
  verifiedById: null,
  hidden: false,
  tags: [],
  defaultColumns: [],
  postToSlack: false,
};
const anyEvent: EventDefinitionQuery = {
  words: [],
  origin: null,
  excludeHidden: false,
  verified: null,
  tags: null,
  excludedNames: [],
  order: [],
  limit: 100,
  offset: 0,
};
const anyProperty: PropertyDefinitionQuery = {
  subject: { kind: "event" },
  words: [],
  names: null,
  excludedNames: [],
  eventNames: null,
  onlySeenOnEvents: false,
  isFlagValue: null,
  isNumerical: null,
  excludeOfficial: false,
  excludeHidden: false,
  verified: null,
  tags: null,
  limit: 100,
  offset: 0,
};

/** What the stores of definitions must do together. */
export function definitionStoresContract(open: () => Promise<DefinitionStoresFixture>): void {
  let fixture: DefinitionStoresFixture;
  let projectId: number;

  beforeAll(async () => {
    fixture = await open();
  });
  afterAll(() => fixture.close());
  beforeEach(async () => {
    projectId = await fixture.newProject();
  });

  const seenEvent = (name: string, seenAt = now): EventSighting => ({
    name,
    firstSeenAt: seenAt,
    lastSeenAt: seenAt,
  });
  const seenProperty = (
    name: string,
    type: PropertySighting["type"] = "String",
    subject: PropertySighting["subject"] = { kind: "event" },
  ): PropertySighting => ({ subject, name, type, seenAt: now });
  const record = (sightings: Partial<Sightings>) =>
    fixture.sightings.record({
      projectId,
      events: [],
      properties: [],
      pairs: new Map(),
      ...sightings,
    });
  const eventNames = async (query: Partial<EventDefinitionQuery> = {}) => {
    const { definitions } = await fixture.events.list(projectId, { ...anyEvent, ...query });
    return definitions.map(({ name }) => name);
  };
  const propertyNames = async (query: Partial<PropertyDefinitionQuery> = {}) => {
    const { properties } = await fixture.properties.list(projectId, { ...anyProperty, ...query });
    return properties.map(({ definition }) => definition.name);
  };
  const byName = async (name: string): Promise<EventDefinition> => {
    const found = await fixture.events.definitionByName(projectId, name);
    if (!found) throw new Error(`no definition of ${name}`);
    return found;
  };
  const property = async (
    name: string,
    subject: PropertySighting["subject"] = { kind: "event" },
  ) => {
    const query = { ...anyProperty, subject, names: [name] };
    const [found] = (await fixture.properties.list(projectId, query)).properties;
    if (!found) throw new Error(`no definition of ${name}`);
    return found.definition;
  };
  const authorship = async () => ({ authorId: await fixture.newUser(), now });
  const many = (count: number) => Array.from({ length: count }, (_, index) => `n${index}`);

  describe("recording", () => {
    test("[ED-1] makes definitions of events, which nobody has touched", async () => {
      await record({ events: [{ name: "paid", firstSeenAt: at("10:00:00"), lastSeenAt: now }] });
      expect(await byName("paid")).toEqual({
        ...untouched,
        id: expect.stringMatching(/^[\da-f-]{36}$/),
        projectId,
        name: "paid",
        createdAt: at("10:00:00"),
        updatedAt: null,
        updatedById: null,
        lastSeenAt: now,
      });
    });

    test("[ED-2] moves the time an event was last seen on, never back, and keeps the rest", async () => {
      await record({ events: [seenEvent("paid", at("10:00:00"))] });
      const first = await byName("paid");
      await record({ events: [seenEvent("paid", at("11:00:00"))] });
      await record({ events: [seenEvent("paid", at("09:00:00"))] });
      expect(await byName("paid")).toEqual({ ...first, lastSeenAt: at("11:00:00") });
    });

    test("[PD-4] the first type stays, and a property without one gets the next that comes", async () => {
      await record({ properties: [seenProperty("price", "Numeric"), seenProperty("note", null)] });
      expect(await property("price")).toMatchObject({ type: "Numeric", isNumerical: true });
      expect(await property("note")).toMatchObject({ type: null, isNumerical: false });
      await record({ properties: [seenProperty("price", "String"), seenProperty("note", null)] });
      expect(await property("note")).toMatchObject({ type: null });
      await record({ properties: [seenProperty("price", null), seenProperty("note", "Numeric")] });
      expect(await property("price")).toMatchObject({ type: "Numeric", isNumerical: true });
      expect(await property("note")).toMatchObject({ type: "Numeric", isNumerical: true });
    });

    test("[PD-5] properties of events, persons and groups of each type are apart", async () => {
      const company = { kind: "group", groupTypeIndex: 0 } as const;
      const team = { kind: "group", groupTypeIndex: 1 } as const;
      await record({
        properties: [
          seenProperty("name", "String"),
          seenProperty("name", "Numeric", { kind: "person" }),
          seenProperty("name", "Boolean", company),
          seenProperty("size", "Numeric", team),
        ],
      });
      expect(await property("name")).toMatchObject({ subject: { kind: "event" }, type: "String" });
      expect(await property("name", { kind: "person" })).toMatchObject({ type: "Numeric" });
      expect(await property("name", company)).toMatchObject({ subject: company, type: "Boolean" });
      expect(await propertyNames({ subject: team })).toEqual(["size"]);
    });

    test("[PD-6] tells which properties came with which events", async () => {
      await record({
        events: [seenEvent("a"), seenEvent("b")],
        properties: ["x", "y", "z"].map((name) => seenProperty(name)),
        pairs: new Map([
          ["a", new Set(["y", "z"])],
          ["b", new Set(["x"])],
          ["unknown", new Set(["x"])],
        ]),
      });
      const { properties } = await fixture.properties.list(projectId, {
        ...anyProperty,
        eventNames: ["a", "nothing"],
      });
      expect(properties.map((one) => [one.definition.name, one.isSeenOnEvents])).toEqual([
        ["y", true],
        ["z", true],
        ["x", false],
      ]);
      expect(await propertyNames({ eventNames: ["b"], onlySeenOnEvents: true })).toEqual(["x"]);
      expect(await propertyNames({ eventNames: [], onlySeenOnEvents: true })).toEqual([]);
    });

    test("may be repeated", async () => {
      const sightings = {
        events: many(120).map((name) => seenEvent(name)),
        properties: many(700).map((name) => seenProperty(name)),
        pairs: new Map([["n0", new Set(many(700))]]),
      };
      expect(await record(sightings)).toEqual({ events: 0, properties: 0, pairs: 0 });
      const first = await fixture.events.list(projectId, { ...anyEvent, limit: 1000 });
      expect(await record(sightings)).toEqual({ events: 0, properties: 0, pairs: 0 });
      expect(await fixture.events.list(projectId, { ...anyEvent, limit: 1000 })).toEqual(first);
      expect(first.count).toBe(120);
      const seen = { eventNames: ["n0"], onlySeenOnEvents: true };
      expect(await fixture.properties.list(projectId, { ...anyProperty, ...seen })).toMatchObject({
        count: 700,
      });
    });

    test("leaves out sightings of a project that is gone", async () => {
      const sightings = { projectId: 999_999, events: [seenEvent("a")], pairs: new Map() };
      expect(
        await fixture.sightings.record({ ...sightings, properties: [seenProperty("x")] }),
      ).toEqual({ events: 0, properties: 0, pairs: 0 });
    });

    test("[ED-3] a project has a bounded number of definitions; known ones go on", async () => {
      const names = many(MAX_EVENT_DEFINITIONS - 1);
      await record({ events: names.map((name) => seenEvent(name, at("10:00:00"))) });
      const more = ["n0", "o1", "o2", "o3"].map((name) => seenEvent(name));
      expect(await record({ events: more })).toMatchObject({ events: 2 });
      expect(await byName("n0")).toMatchObject({ lastSeenAt: now });
      expect(await fixture.events.definitionByName(projectId, "o1")).toBeDefined();
      expect(await fixture.events.definitionByName(projectId, "o2")).toBeUndefined();
      expect(await fixture.events.declare(projectId, "p", untouched, await authorship())).toBe(
        "limit-reached",
      );
      const properties = many(MAX_PROPERTY_DEFINITIONS + 2).map((name) => seenProperty(name));
      expect(await record({ properties })).toMatchObject({ properties: 2 });
    });

    test("keeps the position it was moved to, and never goes back", async () => {
      const { sightings } = fixture;
      expect(await sightings.position()).toBe(0);
      await sightings.moveTo(12);
      await sightings.moveTo(7);
      expect(await sightings.position()).toBe(12);
    });
  });

  describe("events", () => {
    test("[ED-4] a declared event is there before it comes, and joins up when it comes", async () => {
      const { authorId } = await authorship();
      const fields = {
        ...untouched,
        description: "What it is",
        ownerId: authorId,
        tags: ["core"],
        defaultColumns: ["price"],
        postToSlack: true,
      };
      const declared = await fixture.events.declare(projectId, "paid", fields, { authorId, now });
      expect(declared).toEqual({
        ...fields,
        id: expect.any(String),
        projectId,
        name: "paid",
        createdAt: now,
        updatedAt: now,
        updatedById: authorId,
        lastSeenAt: null,
      });
      expect(await byName("paid")).toEqual(declared);
      await record({ events: [seenEvent("paid", at("13:00:00"))] });
      expect(await byName("paid")).toEqual({
        ...(declared as EventDefinition),
        lastSeenAt: at("13:00:00"),
      });
    });

    test("[ED-4] a name is declared once in a project", async () => {
      const declare = async (project = projectId) =>
        fixture.events.declare(project, "paid", untouched, await authorship());
      await record({ events: [seenEvent("paid")] });
      expect(await declare()).toBe("duplicate-name");
      expect(await declare(await fixture.newProject())).toMatchObject({ name: "paid" });
    });

    test("changes the given fields and tells who changed them", async () => {
      await record({ events: [seenEvent("paid")] });
      const before = await byName("paid");
      const { authorId } = await authorship();
      const change = { verified: true, verifiedAt: now, verifiedById: authorId, hidden: false };
      const after = { ...before, ...change, updatedAt: now, updatedById: authorId };
      const update = (project: number, id: string) =>
        fixture.events.update(project, id, change, { authorId, now });
      expect(await update(projectId, before.id)).toEqual(after);
      expect(await fixture.events.definition(projectId, before.id)).toEqual(after);
      expect(await update(projectId, randomUUID())).toBeUndefined();
      expect(await update(await fixture.newProject(), before.id)).toBeUndefined();
    });

    test("[ED-5] deletes an event with its pairs, in its own project only; it may come again", async () => {
      await record({
        events: [seenEvent("paid")],
        properties: [seenProperty("x")],
        pairs: new Map([["paid", new Set(["x"])]]),
      });
      const { id } = await byName("paid");
      const other = await fixture.newProject();
      const who = await authorship();
      expect(await fixture.events.delete(other, id, who)).toBe(false);
      expect(await fixture.events.definition(other, id)).toBeUndefined();
      expect(await fixture.events.delete(projectId, id, who)).toBe(true);
      expect(await fixture.events.delete(projectId, id, who)).toBe(false);
      expect(await fixture.events.definition(projectId, id)).toBeUndefined();
      await record({ events: [seenEvent("paid")] });
      expect((await byName("paid")).id).not.toBe(id);
      expect(await propertyNames({ eventNames: ["paid"], onlySeenOnEvents: true })).toEqual([]);
    });

    test("[ED-6] lists by words, origin, tags, names left out, hidden and verified", async () => {
      const names = ["$pageview", "Application Opened", "paid_order", "Paid invoice", "100%_off"];
      await record({ events: names.map((name) => seenEvent(name)) });
      const who = await authorship();
      const { id } = await byName("paid_order");
      await fixture.events.update(projectId, id, { tags: ['a"b', "core"], hidden: true }, who);
      const other = (await byName("100%_off")).id;
      await fixture.events.update(projectId, other, { tags: ["cor"], verified: true }, who);
      expect(await eventNames({ words: ["PAID"] })).toHaveLength(2);
      expect(await eventNames({ words: ["order", "pai"] })).toEqual(["paid_order"]);
      expect(await eventNames({ words: ["0%_o"] })).toEqual(["100%_off"]);
      expect(await eventNames({ words: ["a_d"] })).toEqual([]);
      expect(await eventNames({ origin: "official" })).toEqual(["$pageview", "Application Opened"]);
      expect(await eventNames({ origin: "custom" })).toHaveLength(3);
      expect(await eventNames({ excludedNames: ["$pageview", "paid_order"] })).toHaveLength(3);
      expect(await eventNames({ excludeHidden: true })).toHaveLength(4);
      expect(await eventNames({ verified: true })).toEqual(["100%_off"]);
      expect(await eventNames({ tags: ["core"] })).toEqual(["paid_order"]);
      expect(await eventNames({ tags: ['a"b', "cor"] })).toHaveLength(2);
      expect(await eventNames({ tags: [] })).toEqual([]);
    });

    test("[ED-7] orders by several fields, unknown instants last, and pages", async () => {
      await record({
        events: [
          seenEvent("c", new Date("2026-03-01T10:00:00Z")),
          seenEvent("b", new Date("2026-03-01T09:00:00Z")),
          seenEvent("a", new Date("2026-02-28T23:00:00Z")),
        ],
      });
      await fixture.events.declare(projectId, "d", untouched, await authorship());
      const seen = (descending: boolean) => ({ by: "lastSeenAt", descending }) as const;
      const byDay = { by: "lastSeenDay", descending: true } as const;
      expect(await eventNames()).toEqual(["a", "b", "c", "d"]);
      expect(await eventNames({ order: [seen(true)] })).toEqual(["c", "b", "a", "d"]);
      expect(await eventNames({ order: [seen(false)] })).toEqual(["a", "b", "c", "d"]);
      expect(await eventNames({ order: [byDay] })).toEqual(["b", "c", "a", "d"]);
      expect(await eventNames({ order: [byDay, { by: "name", descending: true }] })).toEqual([
        "c",
        "b",
        "a",
        "d",
      ]);
      const page = { ...anyEvent, order: [seen(true)], limit: 2, offset: 1 };
      const { count, definitions } = await fixture.events.list(projectId, page);
      expect([count, definitions.map(({ name }) => name)]).toEqual([4, ["b", "a"]]);
    });
  });

  describe("properties", () => {
    test("changes the given fields and tells who changed them", async () => {
      await record({ properties: [seenProperty("price", "String")] });
      const before = await property("price");
      const { authorId } = await authorship();
      const change = { type: "Numeric", isNumerical: true, tags: ["money"], hidden: true } as const;
      const after = { ...before, ...change, updatedAt: now, updatedById: authorId };
      const update = (project: number, id: string) =>
        fixture.properties.update(project, id, change, { authorId, now });
      expect(await update(projectId, before.id)).toEqual(after);
      expect(await fixture.properties.definition(projectId, before.id)).toEqual(after);
      expect(await update(projectId, randomUUID())).toBeUndefined();
      expect(await update(await fixture.newProject(), before.id)).toBeUndefined();
    });

    test("deletes a property in its own project only", async () => {
      await record({ properties: [seenProperty("x")] });
      const { id } = await property("x");
      const who = await authorship();
      expect(await fixture.properties.delete(await fixture.newProject(), id, who)).toBe(false);
      expect(await fixture.properties.delete(projectId, id, who)).toBe(true);
      expect(await fixture.properties.delete(projectId, id, who)).toBe(false);
      expect(await fixture.properties.definition(projectId, id)).toBeUndefined();
    });

    test("[PD-7] lists by words, names, kind of value, origin, tags, hidden and verified", async () => {
      const texts = ["$browser", "utm_source", "$feature/new-ui", "plan"];
      await record({
        properties: [...texts.map((name) => seenProperty(name)), seenProperty("price", "Numeric")],
      });
      const who = await authorship();
      const { id } = await property("plan");
      await fixture.properties.update(projectId, id, { hidden: true, tags: ["core"] }, who);
      const other = (await property("price")).id;
      await fixture.properties.update(projectId, other, { verified: true }, who);
      expect(await propertyNames({ words: ["P"] })).toEqual(["plan", "price"]);
      expect(await propertyNames({ names: ["plan", "nothing"] })).toEqual(["plan"]);
      expect(await propertyNames({ names: [] })).toEqual([]);
      expect(await propertyNames({ excludedNames: ["plan"] })).toHaveLength(4);
      expect(await propertyNames({ isFlagValue: true })).toEqual(["$feature/new-ui"]);
      expect(await propertyNames({ isFlagValue: false })).toHaveLength(4);
      expect(await propertyNames({ isNumerical: true })).toEqual(["price"]);
      expect(await propertyNames({ isNumerical: false })).toHaveLength(4);
      expect(await propertyNames({ excludeOfficial: true })).toEqual(["plan", "price"]);
      expect(await propertyNames({ excludeHidden: true })).toHaveLength(4);
      expect(await propertyNames({ verified: true })).toEqual(["price"]);
      expect(await propertyNames({ verified: false })).toHaveLength(4);
      expect(await propertyNames({ tags: ["core"] })).toEqual(["plan"]);
      const page = { ...anyProperty, excludedNames: ["$browser", "$feature/new-ui"] };
      const { count, properties } = await fixture.properties.list(projectId, {
        ...page,
        limit: 1,
        offset: 1,
      });
      expect([count, properties.map(({ definition }) => definition.name)]).toEqual([3, ["price"]]);
    });
  });

  test("[ED-13] a change is kept with its activity, and one that fails leaves none", async () => {
    const { authorId } = await authorship();
    const describeName: DefinitionWrite<{ id: string; name: string }>["describe"] = (
      before,
      after,
    ) => ({
      scope: "EventDefinition",
      itemId: (after ?? before)?.id ?? "",
      itemVersion: null,
      activity: !before ? "created" : after ? "updated" : "deleted",
      name: (after ?? before)?.name ?? "",
      changes: [{ field: "hidden", before: null, after: true }],
    });
    const write = { authorId, now, describe: describeName };
    const declared = await fixture.events.declare(projectId, "paid", untouched, write);
    expect(await fixture.events.declare(projectId, "paid", untouched, write)).toBe(
      "duplicate-name",
    );
    const { id } = declared as EventDefinition;
    await fixture.events.update(projectId, id, { hidden: true }, write);
    await fixture.events.update(projectId, randomUUID(), { hidden: true }, write);
    await fixture.events.update(
      projectId,
      id,
      { hidden: false },
      { ...write, describe: () => null },
    );
    await record({ properties: [seenProperty("x")] });
    const x = (await property("x")).id;
    await fixture.properties.update(projectId, x, { hidden: true }, write);
    await fixture.properties.delete(projectId, x, write);
    await fixture.events.delete(projectId, id, write);
    await fixture.events.delete(projectId, id, write);
    const everything = { scope: null, itemId: null, authorId: null, limit: 100, offset: 0 };
    const { activities } = await fixture.activityLog.list(projectId, everything);
    expect(activities.map(({ activity, name, itemId }) => [activity, name, itemId])).toEqual([
      ["deleted", "paid", id],
      ["deleted", "x", x],
      ["updated", "x", x],
      ["updated", "paid", id],
      ["created", "paid", id],
    ]);
  });
}
