import type { CapturedEvent, LoggedEvent } from "@hedgerow/core/events/event";
import type { JsonObject } from "@hedgerow/core/json";
import type { PropertyChanges } from "@hedgerow/core/persons/property-changes";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import {
  type FactsQuery,
  MAX_TOLD_DISTINCT_IDS,
  type PersonOutcome,
  type PersonStore,
} from "./person-store.ts";
import { personUuid } from "./person-uuid.ts";

/** A store over a fresh database, and the things of other features that it reads. */
export interface PersonStoreFixture {
  readonly store: PersonStore;
  /** The store of another process on the same database; the same store where there can be none. */
  readonly secondStore: PersonStore;
  /** Makes `store` another one on the same database, as if the process had begun anew. */
  restart(): void;
  /** Changes properties of an id's person by hand; nothing where nobody has the id. */
  changeByHand(
    projectId: number,
    distinctId: string,
    change: { readonly changes: PropertyChanges; readonly now: Date },
  ): Promise<void>;
  /** The project ids told to `onGroupTypeAdded`, in order. */
  readonly groupTypeNotices: readonly number[];
  /** What `continuityFlagKeys` answers, by project. */
  readonly continuityFlagKeys: Map<number, readonly string[]>;
  newProject(): Promise<number>;
  deleteProject(id: number): Promise<void>;
  /** The revision of a project's definitions. */
  revision(projectId: number): Promise<number>;
  newStaticCohort(projectId: number, personIds: readonly number[]): Promise<number>;
  /** Makes every later statement fail. */
  breakStore(): Promise<void>;
  close(): Promise<void>;
}

const start = Date.parse("2026-05-01T12:00:00Z");

type EventFields = Partial<CapturedEvent> & { readonly second?: number };

/** An event that happened and arrived `second` seconds into the test. */
export function someEvent(fields: EventFields & { readonly projectId: number }): CapturedEvent {
  const { second = 0, ...rest } = fields;
  return {
    uuid: "0192a000-0000-7000-8000-000000000000",
    event: "clicked",
    distinctId: "ada",
    properties: {},
    timestamp: new Date(start + second * 1000),
    clientTimestamp: null,
    receivedAt: new Date(start + 1_000_000_000),
    ...rest,
  };
}

/** What every {@link PersonStore} must do. */
export function personStoreContract(open: () => Promise<PersonStoreFixture>): void {
  let fixture: PersonStoreFixture;
  let store: PersonStore;
  let projectId: number;
  let position = 0;
  let second = 0;

  beforeAll(async () => {
    fixture = await open();
    store = fixture.store;
  });
  afterAll(() => fixture.close());
  beforeEach(async () => {
    projectId = await fixture.newProject();
  });

  const logged = (fields: EventFields = {}): LoggedEvent => ({
    position: ++position,
    event: someEvent({ projectId, second: fields.second ?? ++second, ...fields }),
  });
  const apply = async (...events: EventFields[]): Promise<readonly PersonOutcome[]> =>
    await store.applyEvents(events.map(logged));
  const identify = (anonymous: string, distinctId: string, properties: JsonObject = {}) => ({
    event: "$identify",
    distinctId,
    properties: { $anon_distinct_id: anonymous, ...properties },
  });
  const groupIdentify = (type: string, key: string | number, set: JsonObject) => ({
    event: "$groupidentify",
    distinctId: `$${type}_${key}`,
    properties: { $group_type: type, $group_key: key, $group_set: set },
  });
  const query = (fields: Partial<FactsQuery> = {}): FactsQuery => ({
    projectId,
    distinctId: "ada",
    anonDistinctId: null,
    person: true,
    staticCohorts: false,
    hashKeyOverrides: false,
    groups: {},
    ...fields,
  });
  const personFacts = async (fields: Partial<FactsQuery> = {}) => {
    const { person } = await store.factsFor(query(fields));
    if (person === "unavailable") throw new Error("the store is unavailable");
    return person;
  };
  const overrides = async (distinctId: string) => {
    const facts = await personFacts({ distinctId, hashKeyOverrides: true });
    return facts && Object.fromEntries(facts.hashKeyOverrides as ReadonlyMap<string, string>);
  };
  const propertiesOf = async (distinctId: string) =>
    (await store.personByDistinctId(projectId, distinctId))?.properties;

  describe("persons", () => {
    test("[PE-1] the first event of an id creates its person, under a UUID that the id alone decides", async () => {
      const [outcome] = await apply({ distinctId: "ada" });
      const person = await store.personByDistinctId(projectId, "ada");
      expect(person).toMatchObject({
        projectId,
        uuid: personUuid(projectId, "ada"),
        distinctIds: ["ada"],
        properties: {},
        createdAt: new Date(start + second * 1000),
        isIdentified: false,
      });
      expect(outcome).toEqual({
        position,
        personId: person?.uuid,
        merged: null,
        warnings: [],
      });
    });

    test("[PE-2] a personless event creates and changes nobody, and names the person it would be", async () => {
      const quiet = { $process_person_profile: false, $set: { plan: "gold" } };
      const [first] = await apply({ properties: quiet });
      expect(first?.personId).toBe(personUuid(projectId, "ada"));
      expect(await store.personByDistinctId(projectId, "ada")).toBeUndefined();

      await apply(identify("ada", "countess"));
      const [second] = await apply({ properties: quiet });
      const person = await store.personByDistinctId(projectId, "ada");
      expect(second?.personId).toBe(person?.uuid);
      expect(person?.properties).toEqual({});
    });

    test("[PE-3] a property set by an event is read by the next flag request", async () => {
      await apply({ properties: { $set: { plan: "gold", "a.b": [1, { c: null }] } } });
      expect(await personFacts()).toEqual({
        properties: { plan: "gold", "a.b": [1, { c: null }] },
        createdAt: new Date(start + second * 1000),
        staticCohortIds: new Set(),
        hashKeyOverrides: new Map(),
      });
      await apply({ properties: { $set: { plan: "free" }, $unset: ["a.b"] } });
      expect((await personFacts())?.properties).toEqual({ plan: "free" });
    });

    test("[PE-4] an older value that arrives late does not replace a newer one", async () => {
      await apply({ second: 100, properties: { $set: { plan: "gold" } } });
      await apply({ second: 50, properties: { $set: { plan: "free", seats: 3 } } });
      expect(await propertiesOf("ada")).toEqual({ plan: "gold", seats: 3 });
    });

    test("keys named like object internals are just keys", async () => {
      const set = JSON.parse('{"__proto__": {"x": 1}, "constructor": "c", "toString": 2}');
      await apply({ distinctId: "__proto__", properties: { $set: set } });
      const stored = await propertiesOf("__proto__");
      expect(JSON.stringify(stored)).toBe(JSON.stringify(set));
      const facts = await personFacts({ distinctId: "__proto__" });
      expect(JSON.stringify(facts?.properties)).toBe(JSON.stringify(set));
    });

    test("ids and values that no UTF-8 can hold are stored with replacement characters", async () => {
      const broken = "a\0b\ud800";
      expect(await personFacts({ distinctId: broken })).toBeNull();
      await apply({ distinctId: broken, properties: { $set: { name: "x\0\ud800" } } });
      await apply({ distinctId: broken, properties: { $set: { again: true } } });
      expect(await store.personByDistinctId(projectId, broken)).toMatchObject({
        distinctIds: ["a\uFFFDb\uFFFD"],
        properties: { again: true },
      });
      expect(await personFacts({ distinctId: broken })).not.toBeNull();
      expect(await personFacts({ distinctId: "x", anonDistinctId: broken })).toBeNull();
    });

    test("[PE-17] one project's ids, groups and types are unknown in another", async () => {
      await apply(
        { properties: { $set: { plan: "gold" } } },
        groupIdentify("company", "acme", { a: 1 }),
      );
      const other = await fixture.newProject();
      expect(await store.personByDistinctId(other, "ada")).toBeUndefined();
      expect(await store.groupTypes(other)).toEqual([]);
      expect(
        await store.factsFor(query({ projectId: other, groups: { company: "acme" } })),
      ).toEqual({ person: null, groups: {} });
    });

    test("[PE-18] events of a project that is gone change nothing and hold nobody up", async () => {
      const gone = await fixture.newProject();
      await fixture.deleteProject(gone);
      const outcomes = await apply({ projectId: gone }, { distinctId: "ada" });
      expect(outcomes).toMatchObject([
        { personId: personUuid(gone, "ada"), warnings: ["unknown_project"] },
        { personId: personUuid(projectId, "ada"), warnings: [] },
      ]);
      expect(await store.personByDistinctId(projectId, "ada")).toBeDefined();
    });

    test("long runs of events are applied whole", async () => {
      const ids = Array.from({ length: 1200 }, (_, index) => `user-${index}`);
      await apply(...ids.map((distinctId) => ({ distinctId })));
      await apply(...ids.map((id) => identify(id, `known-${id}`, { $set: { id } })));
      expect(await propertiesOf("user-1199")).toEqual({ id: "user-1199" });
      expect(await propertiesOf("known-user-0")).toEqual({ id: "user-0" });
    });
  });

  describe("merges", () => {
    test("[PE-7] $identify joins the anonymous person into the identified one", async () => {
      await apply(
        { distinctId: "anon", properties: { $set: { plan: "free", theme: "dark" } } },
        { distinctId: "ada", properties: { $set: { plan: "gold" } } },
      );
      const before = await store.personByDistinctId(projectId, "anon");
      const [outcome] = await apply(identify("anon", "ada", { $set: { name: "Ada" } }));
      const after = await store.personByDistinctId(projectId, "anon");
      expect(after).toEqual({
        ...(await store.personByDistinctId(projectId, "ada")),
        uuid: personUuid(projectId, "ada"),
        distinctIds: ["ada", "anon"],
        properties: { plan: "gold", theme: "dark", name: "Ada" },
        createdAt: before?.createdAt,
        isIdentified: true,
      });
      expect(outcome).toMatchObject({
        personId: after?.uuid,
        merged: { from: before?.uuid, into: after?.uuid },
        warnings: [],
      });
    });

    test("[PE-7] an id without a person joins the other's; its personless history follows", async () => {
      const [, outcome] = await apply({ distinctId: "anon" }, identify("anon", "ada"));
      const person = await store.personByDistinctId(projectId, "ada");
      expect(person?.uuid).toBe(personUuid(projectId, "anon"));
      expect(outcome).toMatchObject({
        personId: person?.uuid,
        merged: { from: personUuid(projectId, "ada"), into: person?.uuid },
      });

      const [fresh] = await apply(identify("anon-2", "bea"));
      expect(fresh?.merged).toEqual({
        from: personUuid(projectId, "anon-2"),
        into: personUuid(projectId, "bea"),
      });
      expect((await store.personByDistinctId(projectId, "anon-2"))?.distinctIds).toEqual([
        "anon-2",
        "bea",
      ]);
    });

    test("[PE-7] chains of merges within one run end in one person", async () => {
      await apply({ distinctId: "a" }, { distinctId: "b" }, { distinctId: "c" });
      const merge = (alias: string, distinctId: string) => ({
        event: "$merge_dangerously",
        distinctId,
        properties: { alias },
      });
      const outcomes = await apply(merge("a", "b"), merge("b", "c"), merge("new", "a"), {
        distinctId: "a",
        properties: { $set: { last: true } },
      });
      const person = await store.personByDistinctId(projectId, "new");
      expect(person).toMatchObject({
        uuid: personUuid(projectId, "c"),
        distinctIds: ["a", "b", "c", "new"],
        properties: { last: true },
      });
      expect(outcomes.map(({ merged }) => merged)).toEqual([
        { from: personUuid(projectId, "a"), into: personUuid(projectId, "b") },
        { from: personUuid(projectId, "b"), into: personUuid(projectId, "c") },
        { from: personUuid(projectId, "new"), into: personUuid(projectId, "c") },
        null,
      ]);
    });

    test("[PE-8] a person who is identified is not taken away, unless dangerously", async () => {
      await apply(identify("anon", "ada"), { distinctId: "bea" });
      const [refused] = await apply(identify("anon", "bea", { $set: { name: "Bea" } }));
      expect(refused).toMatchObject({
        personId: personUuid(projectId, "bea"),
        merged: null,
        warnings: ["cannot_merge_already_identified"],
      });
      expect((await store.personByDistinctId(projectId, "anon"))?.distinctIds).toEqual([
        "ada",
        "anon",
      ]);
      expect(await propertiesOf("bea")).toEqual({ name: "Bea" });

      await apply({
        event: "$merge_dangerously",
        distinctId: "bea",
        properties: { alias: "anon" },
      });
      expect((await store.personByDistinctId(projectId, "bea"))?.distinctIds).toEqual([
        "ada",
        "anon",
        "bea",
      ]);
    });

    test("[PE-12] static cohorts and overrides move to the survivor, whose own overrides stay", async () => {
      await apply({ distinctId: "anon" }, { distinctId: "ada" }, { distinctId: "bea" });
      const idOf = async (id: string) => (await store.personByDistinctId(projectId, id))?.id ?? 0;
      const first = await fixture.newStaticCohort(projectId, [
        await idOf("anon"),
        await idOf("ada"),
      ]);
      const second = await fixture.newStaticCohort(projectId, [await idOf("anon")]);
      const third = await fixture.newStaticCohort(projectId, [await idOf("bea")]);
      const store1 = (distinctId: string, anonDistinctId: string, flagKeys: string[]) =>
        store.storeHashKeyOverrides(projectId, { distinctId, anonDistinctId }, flagKeys);
      await store1("anon", "device", ["f", "g"]);
      await store1("ada", "tablet", ["g", "h"]);

      await apply(identify("anon", "ada"));
      expect(await overrides("anon")).toEqual({ f: "device", g: "tablet", h: "tablet" });
      const facts = await personFacts({ staticCohorts: true });
      expect(facts?.staticCohortIds).toEqual(new Set([first, second]));
      expect(
        (await personFacts({ distinctId: "bea", staticCohorts: true }))?.staticCohortIds,
      ).toEqual(new Set([third]));
    });
  });

  describe("exactly once", () => {
    test("[PE-11] entries applied before change nothing, and are answered as before", async () => {
      const run = [
        logged({ distinctId: "anon", properties: { $set: { n: 1 } } }),
        logged(identify("anon", "ada")),
        logged({ distinctId: "ada", properties: { $set: { n: 2 } } }),
      ];
      const outcomes = await store.applyEvents(run);
      const person = await store.personByDistinctId(projectId, "ada");
      await apply({ properties: { $set: { n: 3 } } });

      const again = await store.applyEvents(run);
      expect(again.map(({ merged }) => merged)).toEqual(outcomes.map(({ merged }) => merged));
      expect(new Set(again.map(({ personId }) => personId))).toEqual(new Set([person?.uuid]));
      expect(await propertiesOf("ada")).toEqual({ n: 3 });
      expect(await store.applyEvents([])).toEqual([]);
    });

    test("[PE-11] a run that overlaps the last one applies only what is new", async () => {
      const first = logged({ properties: { $set: { a: 1 } } });
      const second = logged({ properties: { $unset: ["a"], $set: { b: 2 } } });
      await store.applyEvents([first, second]);
      const third = logged({ properties: { $set: { c: 3 } } });
      const outcomes = await store.applyEvents([first, second, third]);
      expect(outcomes.map((outcome) => outcome.position)).toEqual([
        first.position,
        second.position,
        third.position,
      ]);
      expect(await propertiesOf("ada")).toEqual({ b: 2, c: 3 });
    });

    test("[PE-11] two processes that apply the same entries at once apply them once", async () => {
      const run = Array.from({ length: 40 }, (_, index) =>
        logged(index % 2 ? identify(`anon-${index - 1}`, "ada") : { distinctId: `anon-${index}` }),
      );
      const [one, other] = await Promise.all([
        store.applyEvents(run),
        fixture.secondStore.applyEvents(run),
      ]);
      expect(one.map(({ merged }) => merged)).toEqual(other.map(({ merged }) => merged));
      expect((await store.personByDistinctId(projectId, "ada"))?.distinctIds).toHaveLength(21);
    });
  });

  describe("experience continuity", () => {
    test("[PE-14] overrides are stored once for the persons of both ids, and never for nobody", async () => {
      const request = { distinctId: "ada", anonDistinctId: "anon" };
      await store.storeHashKeyOverrides(projectId, request, ["f"]);
      await apply({ distinctId: "ada" });
      expect(await overrides("ada")).toEqual({});

      await store.storeHashKeyOverrides(projectId, request, ["f"]);
      await store.storeHashKeyOverrides(projectId, { ...request, anonDistinctId: "later" }, [
        "f",
        "g",
      ]);
      expect(await overrides("ada")).toEqual({ f: "anon", g: "later" });

      await apply({ distinctId: "anon-2" }, { distinctId: "bea" });
      await store.storeHashKeyOverrides(
        projectId,
        { distinctId: "bea", anonDistinctId: "anon-2" },
        ["f"],
      );
      expect(await overrides("anon-2")).toEqual({ f: "anon-2" });
    });

    test("[PE-14] the overrides of two persons are told apart, of one person they are its own", async () => {
      await apply({ distinctId: "ada" }, { distinctId: "anon" });
      const request = { distinctId: "ada", anonDistinctId: "anon", hashKeyOverrides: true };
      const both = async () => {
        const { person, anonymousHashKeyOverrides } = await store.factsFor(query(request));
        if (person === "unavailable") throw new Error("the store is unavailable");
        return { own: person?.hashKeyOverrides, anonymous: anonymousHashKeyOverrides };
      };
      expect(await both()).toEqual({ own: new Map(), anonymous: new Map() });
      await store.storeHashKeyOverrides(projectId, { distinctId: "ada", anonDistinctId: "x" }, [
        "f",
      ]);
      await store.storeHashKeyOverrides(projectId, { distinctId: "anon", anonDistinctId: "y" }, [
        "f",
        "g",
      ]);
      expect(await both()).toEqual({
        own: new Map([["f", "x"]]),
        anonymous: new Map([
          ["f", "y"],
          ["g", "y"],
        ]),
      });
      expect(
        await store.factsFor(query({ ...request, hashKeyOverrides: false })),
      ).not.toHaveProperty("anonymousHashKeyOverrides");
      await apply(identify("anon", "ada"));
      expect(await both()).toEqual({
        own: new Map([
          ["f", "x"],
          ["g", "y"],
        ]),
        anonymous: undefined,
      });
    });

    test("[PE-14] where only the anonymous id has a person, its overrides alone are read", async () => {
      await apply({ distinctId: "anon", properties: { $set: { plan: "gold" } } });
      const { id = 0 } = (await store.personByDistinctId(projectId, "anon")) ?? {};
      await fixture.newStaticCohort(projectId, [id]);
      await store.storeHashKeyOverrides(projectId, { distinctId: "anon", anonDistinctId: "x" }, [
        "f",
      ]);
      for (const person of [true, false]) {
        const facts = await store.factsFor(
          query({ anonDistinctId: "anon", person, staticCohorts: true, hashKeyOverrides: true }),
        );
        expect(facts).toEqual({
          person: null,
          groups: {},
          anonymousHashKeyOverrides: new Map([["f", "x"]]),
        });
      }
    });

    test("[PE-13] a captured $identify alone keeps the anonymous id's variant", async () => {
      fixture.continuityFlagKeys.set(projectId, ["f", "g"]);
      await apply({ distinctId: "ada" });
      await store.storeHashKeyOverrides(projectId, { distinctId: "ada", anonDistinctId: "old" }, [
        "g",
      ]);
      await apply(identify("anon", "ada"));
      expect(await overrides("ada")).toEqual({ f: "anon", g: "old" });
    });

    test("[PE-13] an alias keeps the variant of the id that was known first", async () => {
      fixture.continuityFlagKeys.set(projectId, ["f"]);
      const alias = (other: string, distinctId: string) => ({
        event: "$create_alias",
        distinctId,
        properties: { alias: other },
      });
      await apply({ distinctId: "main" }, alias("second", "main"));
      expect(await overrides("second")).toEqual({ f: "main" });
      await apply({ distinctId: "known" }, alias("known", "newcomer"));
      expect(await overrides("newcomer")).toEqual({ f: "known" });
    });

    test("[PE-13] a refused merge teaches nothing", async () => {
      await apply(identify("anon", "ada"), { distinctId: "bea" });
      fixture.continuityFlagKeys.set(projectId, ["f"]);
      await apply(identify("anon", "bea"), identify("undefined", "bea"));
      expect(await overrides("bea")).toEqual({});
    });

    test("overrides stored while a merge runs are neither lost nor left behind", async () => {
      for (let round = 0; round < 10; round++) {
        const anonymous = `anon-${round}`;
        const known = `known-${round}`;
        await apply({ distinctId: anonymous }, { distinctId: known });
        await Promise.all([
          store.applyEvents([logged(identify(anonymous, known))]),
          fixture.secondStore.storeHashKeyOverrides(
            projectId,
            { distinctId: known, anonDistinctId: anonymous },
            ["f"],
          ),
        ]);
        expect(await overrides(known)).toEqual({ f: anonymous });
      }
    });
  });

  describe("groups", () => {
    test("[PE-16] $groupidentify stores properties of a group, numbers as keys included", async () => {
      const outcomes = await apply(
        groupIdentify("company", "acme", { seats: 3, plan: "free" }),
        groupIdentify("company", "acme", { plan: "gold" }),
        groupIdentify("instance", 7, { region: "eu" }),
      );
      expect(outcomes.flatMap(({ warnings }) => warnings)).toEqual([]);
      const { groups } = await store.factsFor(
        query({ person: false, groups: { company: "acme", instance: "7", unknown: "x" } }),
      );
      expect(groups).toEqual({ company: { seats: 3, plan: "gold" }, instance: { region: "eu" } });
      await apply(groupIdentify("company", "acme", { seats: 4 }));
      expect(
        (await store.factsFor(query({ person: true, groups: { company: "acme" } }))).groups,
      ).toEqual({ company: { seats: 4, plan: "gold" } });
      expect(await store.personByDistinctId(projectId, "$company_acme")).toBeUndefined();
    });

    test("[PE-15] a project has five group types; the sixth is refused with a warning", async () => {
      const before = await fixture.revision(projectId);
      const groups = Object.fromEntries(["a", "b", "c", "d"].map((type) => [type, "key"]));
      await apply({ properties: { $groups: groups } });
      expect(await fixture.revision(projectId)).toBeGreaterThan(before);
      expect(fixture.groupTypeNotices.at(-1)).toBe(projectId);

      const known = fixture.groupTypeNotices.length;
      const outcomes = await apply(
        groupIdentify("e", "key", {}),
        groupIdentify("f", "key", { lost: true }),
        { properties: { $groups: { f: "key", a: "key" } } },
      );
      expect(outcomes.map(({ warnings }) => warnings)).toEqual([
        [],
        ["group_type_limit_reached"],
        ["group_type_limit_reached"],
      ]);
      expect(fixture.groupTypeNotices).toHaveLength(known + 1);
      expect(await store.groupTypes(projectId)).toEqual(
        ["a", "b", "c", "d", "e"].map((name, index) => ({ index, name })),
      );
    });
  });

  describe("facts", () => {
    test("[PE-19] only what is asked for is read", async () => {
      await apply({ properties: { $set: { plan: "gold" } } });
      const person = await store.personByDistinctId(projectId, "ada");
      const cohort = await fixture.newStaticCohort(projectId, [person?.id ?? 0]);
      expect((await store.factsFor(query({ person: false }))).person).toBeNull();
      expect(await personFacts({ person: false, staticCohorts: true })).toMatchObject({
        properties: {},
        staticCohortIds: new Set([cohort]),
      });
      expect(await store.factsFor(query({ distinctId: "nobody", staticCohorts: true }))).toEqual({
        person: null,
        groups: {},
      });
    });

    test("[PE-19] every read after a change sees it, through whichever id it is asked", async () => {
      await apply({ distinctId: "ada" }, identify("anon", "ada"));
      for (const id of ["ada", "anon", "new"]) await personFacts({ distinctId: id });
      await apply({ distinctId: "anon", properties: { $set: { n: 1 } } });
      expect((await personFacts({ distinctId: "ada" }))?.properties).toEqual({ n: 1 });
      await apply({
        event: "$merge_dangerously",
        distinctId: "bea",
        properties: { alias: "ada", $set: { n: 2 } },
      });
      await apply(identify("new", "bea"));
      for (const distinctId of ["ada", "anon", "bea", "new"]) {
        expect((await personFacts({ distinctId }))?.properties).toEqual({ n: 2 });
      }
    });

    test("[PE-20] all ids of a person are told, through whichever id they are asked", async () => {
      const idsOf = async (id: string) => {
        const ids = await store.distinctIdsOf(projectId, id);
        return ids === "too-many" ? ids : ids.toSorted();
      };
      const ids = ["ada", "anon", "broken\uFFFD", "later", "merged"];
      for (const id of ids) expect(await idsOf(id)).toEqual([]);
      await apply(identify("anon", "ada"));
      for (const id of ["ada", "anon"]) {
        await personFacts({ distinctId: id });
        for (const _again of [1, 2]) expect(await idsOf(id)).toEqual(["ada", "anon"]);
        expect((await personFacts({ distinctId: id }))?.properties).toEqual({});
      }
      // Changes nothing but the ids of a person that is remembered.
      await apply(identify("later", "ada"));
      for (const id of ["anon", "later"]) {
        expect(await idsOf(id)).toEqual(["ada", "anon", "later"]);
      }
      await apply({ distinctId: "merged" }, identify("broken\0", "merged"));
      for (const id of ["merged", "broken\0"]) {
        await personFacts({ distinctId: id });
        expect(await idsOf(id)).toEqual(["broken\uFFFD", "merged"]);
      }
      await apply({
        event: "$merge_dangerously",
        distinctId: "ada",
        properties: { alias: "merged" },
      });
      for (const id of ids) expect(await idsOf(id)).toEqual(ids);
      expect(await store.distinctIdsOf(await fixture.newProject(), "ada")).toEqual([]);
    });

    test("[PE-20] of a person with very many ids only that is told", async () => {
      const links = (from: number, to: number) =>
        Array.from({ length: to - from }, (_, at) => identify(`anon-${from + at}`, "ada"));
      await apply(...links(1, MAX_TOLD_DISTINCT_IDS));
      await personFacts();
      for (const _again of [1, 2]) {
        expect(await store.distinctIdsOf(projectId, "ada")).toHaveLength(MAX_TOLD_DISTINCT_IDS);
      }
      await apply(...links(MAX_TOLD_DISTINCT_IDS, MAX_TOLD_DISTINCT_IDS + 1));
      await personFacts();
      for (const _again of [1, 2]) {
        expect(await store.distinctIdsOf(projectId, "anon-7")).toBe("too-many");
      }
    });

    test("[PE-19] reads while events are applied never go back in time", async () => {
      let done = false;
      let last = -1;
      const reading = (async () => {
        while (!done) {
          const n = Number((await personFacts())?.properties.n ?? 0);
          expect(n).toBeGreaterThanOrEqual(last);
          last = n;
          // What is remembered is answered at once: without this nothing else would ever get its turn.
          await new Promise((resolve) => setImmediate(resolve));
        }
      })();
      for (let n = 1; n <= 30; n++) {
        await apply({ properties: { $set: { n } } });
        expect((await personFacts())?.properties).toEqual({ n });
      }
      done = true;
      await reading;
    });
  });
}

/** What a {@link PersonStore} answers when its database fails; breaks the store for good. */
export function brokenPersonStoreContract(open: () => Promise<PersonStoreFixture>): void {
  test("[PE-19] facts that cannot be read are unavailable, each part that was asked for", async () => {
    const fixture = await open();
    const projectId = await fixture.newProject();
    await fixture.breakStore();
    const asked = { projectId, distinctId: "ada", anonDistinctId: null };
    expect(
      await fixture.store.factsFor({
        ...asked,
        person: true,
        staticCohorts: false,
        hashKeyOverrides: false,
        groups: {},
      }),
    ).toEqual({ person: "unavailable", groups: {} });
    expect(
      await fixture.store.factsFor({
        ...asked,
        person: false,
        staticCohorts: false,
        hashKeyOverrides: false,
        groups: { company: "acme" },
      }),
    ).toEqual({ person: null, groups: "unavailable" });
    await expect(
      fixture.store.applyEvents([{ position: 1, event: someEvent({ projectId }) }]),
    ).rejects.toThrow();
    await fixture.close().catch(() => {});
  });
}
