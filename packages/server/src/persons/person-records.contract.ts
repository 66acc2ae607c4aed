import type { CapturedEvent } from "@hedgerow/core/events/event";
import type { JsonObject } from "@hedgerow/core/json";
import type { PropertyChanges } from "@hedgerow/core/persons/property-changes";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import type { PersonCondition, PersonMark, PersonQuery, PersonRecords } from "./person-records.ts";
import { someEvent } from "./person-store.contract.ts";
import type { Person, PersonOutcome, PersonStore } from "./person-store.ts";
import { personUuid } from "./person-uuid.ts";

/** Records of a fresh database, beside the store that writes its persons. */
export interface PersonRecordsFixture {
  readonly store: PersonStore;
  readonly records: PersonRecords;
  newProject(): Promise<number>;
  newStaticCohort(projectId: number, personIds: readonly number[]): Promise<number>;
  close(): Promise<void>;
}

/** What all {@link PersonRecords} must do. */
export function personRecordsContract(open: () => Promise<PersonRecordsFixture>): void {
  let fixture: PersonRecordsFixture;
  let records: PersonRecords;
  let projectId: number;
  let position = 0;
  let second = 0;
  beforeAll(async () => {
    fixture = await open();
    records = fixture.records;
    position = await fixture.store.position();
  });
  afterAll(() => fixture.close());
  beforeEach(async () => {
    projectId = await fixture.newProject();
  });

  const now = new Date("2026-06-01T00:00:00Z");
  const apply = (
    ...events: readonly (Partial<CapturedEvent> & { second?: number })[]
  ): Promise<readonly PersonOutcome[]> =>
    fixture.store.applyEvents(
      events.map((fields) => ({
        position: ++position,
        event: someEvent({ projectId, second: ++second, ...fields }),
      })),
    );
  const set = (distinctId: string, properties: JsonObject) => ({
    distinctId,
    properties: { $set: properties },
  });
  const alias = (distinctId: string, other: string) => ({
    event: "$create_alias",
    distinctId,
    properties: { alias: other },
  });
  const find = async (query: Partial<PersonQuery> = {}) => {
    const { persons, next } = await records.list({ projectId, limit: 100, offset: 0, ...query });
    return { ids: persons.map(({ distinctIds }) => distinctIds[0]), next };
  };
  const idsOf = async (query: Partial<PersonQuery>) => (await find(query)).ids;
  const named = (distinctId: string) => records.person(projectId, { distinctId });
  const existing = async (distinctId: string): Promise<Person> => {
    const person = await named(distinctId);
    if (!person) throw new Error(`nobody has ${distinctId}`);
    return person;
  };
  const setting = (properties: JsonObject): PropertyChanges => ({
    set: new Map(Object.entries(properties)),
    setOnce: new Map(),
    unset: [],
  });
  const factsOf = (distinctId: string) =>
    fixture.store.factsFor({
      projectId,
      distinctId,
      anonDistinctId: null,
      person: true,
      staticCohorts: true,
      hashKeyOverrides: true,
      groups: {},
    });
  /** The properties that flags see. */
  const flagged = async (distinctId: string) => {
    const { person } = await factsOf(distinctId);
    return person === "unavailable" ? person : person?.properties;
  };

  describe("large persons", () => {
    const LARGE = 600_000;
    const PERSONS = 40;
    beforeEach(async () => {
      for (let number = 0; number < PERSONS; number += 1) {
        await apply(set(`large-${number}`, { text: "x".repeat(LARGE), number }));
      }
    });

    test("[PR-2] end a page before its limit, and the next one goes on", async () => {
      const met: (string | undefined)[] = [];
      const pages: number[] = [];
      let after: PersonMark | undefined;
      do {
        const { ids, next } = await find({ limit: 1000, ...(after && { after }) });
        pages.push(ids.length);
        met.push(...ids);
        after = next ?? undefined;
      } while (after && pages.length < PERSONS);
      expect(Math.max(...pages)).toBeLessThan(30);
      expect(Math.min(...pages)).toBeGreaterThan(0);
      expect(met).toEqual(Array.from({ length: PERSONS }, (_, at) => `large-${39 - at}`));
      expect((await find({ limit: 2, offset: 37 })).ids).toEqual(["large-2", "large-1"]);
      const uuids = (await records.list({ projectId, limit: 1000, offset: 0 })).persons.map(
        ({ uuid }) => uuid,
      );
      expect((await find({ limit: 1000, uuids: uuids.slice(0, 3) })).ids).toEqual(met.slice(0, 3));
    });

    test("are read a few at a time, and only so many are looked at for what there is", async () => {
      const runs: number[] = [];
      for await (const run of records.properties(projectId, { name: "text", maxPersons: 1000 })) {
        runs.push(run.length);
      }
      expect(Math.max(...runs)).toBe(1);
      expect(runs.length).toBeGreaterThan(20);
      expect(runs.length).toBeLessThan(PERSONS);
    });
  });

  test("[PM-3] lets others have their turn between persons whose condition takes long", async () => {
    for (const distinctId of ["a", "b", "c", "d"]) await apply(set(distinctId, { number: 1 }));
    let turns = 0;
    let isDone = false;
    const count = () => {
      turns += 1;
      if (!isDone) setImmediate(count);
    };
    setImmediate(count);
    const turnOf: number[] = [];
    const condition: PersonCondition = {
      requiredNames: [],
      needsStaticCohorts: false,
      matches() {
        const endMs = performance.now() + 15;
        while (performance.now() < endMs);
        turnOf.push(turns);
        return true;
      },
    };
    const { ids } = await find({ condition });
    isDone = true;
    expect(ids).toHaveLength(4);
    expect(new Set(turnOf).size).toBe(4);
  });

  describe("the list", () => {
    test("[PM-1] has the persons of a project, newest first, each with their ids", async () => {
      await apply({ distinctId: "a" }, { distinctId: "b" }, { distinctId: "late", second: -50 });
      await apply(alias("b", "b2"));
      const other = await fixture.newProject();
      const { persons, next } = await records.list({ projectId, limit: 10, offset: 0 });
      expect(persons.map((person) => person.distinctIds)).toEqual([["b", "b2"], ["a"], ["late"]]);
      expect(persons[0]).toEqual(await existing("b"));
      expect(next).toBeNull();
      expect(await records.count(projectId)).toBe(3);
      expect(await records.list({ projectId: other, limit: 10, offset: 0 })).toEqual({
        persons: [],
        next: null,
      });
      expect(await records.count(other)).toBe(0);
    });

    test("[PM-3] goes on from a place without skipping or doubling anybody, whoever was deleted", async () => {
      const all = Array.from({ length: 7 }, (_, index) => `p${index}`);
      await apply(...all.map((distinctId) => ({ distinctId, second: 5 })));
      const first = await find({ limit: 3 });
      expect(first.ids).toEqual(["p6", "p5", "p4"]);
      await records.deletePersons(projectId, [(await existing("p5")).uuid], {
        withEvents: false,
        now,
      });
      const second = await find({ limit: 3, ...(first.next && { after: first.next }) });
      expect(second.ids).toEqual(["p3", "p2", "p1"]);
      const third = await find({ limit: 3, ...(second.next && { after: second.next }) });
      expect(third).toEqual({ ids: ["p0"], next: null });
      expect(await idsOf({ limit: 2, offset: 2 })).toEqual(["p3", "p2"]);
    });

    test("[PM-4] finds by a distinct id, by uuids and by mail address, exactly", async () => {
      await apply(
        set("a", { email: 'a_"%@example.org' }),
        set("b", { email: 'A_"%@example.org', other: 'a_"%@example.org' }),
        set("c", { plan: { email: 'a_"%@example.org' } }),
      );
      await apply(alias("a", "a2"));
      expect(await idsOf({ distinctId: "a2" })).toEqual(["a"]);
      expect(await idsOf({ distinctId: "A" })).toEqual([]);
      expect(await idsOf({ email: 'a_"%@example.org' })).toEqual(["a"]);
      const uuids = [(await existing("c")).uuid, (await existing("a")).uuid];
      expect(await idsOf({ uuids })).toEqual(["c", "a"]);
      expect(await idsOf({ uuids, distinctId: "a2" })).toEqual(["a"]);
      expect(await idsOf({ uuids: [] })).toEqual([]);
      expect(await idsOf({ uuids, limit: 1, offset: 1 })).toEqual(["a"]);
    });

    test("[PM-5] searches for an id as a whole and for a part of a name, whatever the case", async () => {
      await apply(
        set("a", { email: "ADA@example.org" }),
        set("ada", { plan: "pro" }),
        set("ada2", { plan: "adamant" }),
        set("d", { name: 'Åsa "The\\Ad%a"' }),
      );
      expect(await idsOf({ search: "ada" })).toEqual(["ada", "a"]);
      expect(await idsOf({ search: "EXAMPLE.ORG" })).toEqual(["a"]);
      expect(await idsOf({ search: "åSA" })).toEqual(["d"]);
      expect(await idsOf({ search: 'e\\ad%a"' })).toEqual(["d"]);
      expect(await idsOf({ search: "a%a" })).toEqual([]);
      expect(await idsOf({ search: (await existing("d")).uuid.toUpperCase() })).toEqual(["d"]);
      expect(await idsOf({ search: "ada", limit: 1, offset: 1 })).toEqual(["a"]);
    });

    test("[PM-6] finds the members of a static cohort, and by conditions", async () => {
      await apply(set("a", { age: 3 }), set("b", { age: 30 }), set("c", { rage: 40 }));
      const cohortId = await fixture.newStaticCohort(projectId, [
        (await existing("a")).id,
        (await existing("c")).id,
      ]);
      expect(await idsOf({ memberOf: cohortId })).toEqual(["c", "a"]);
      expect(await idsOf({ memberOf: cohortId + 1000 })).toEqual([]);
      const condition: PersonCondition = {
        requiredNames: ["age"],
        needsStaticCohorts: true,
        matches: ({ properties, staticCohortIds }) =>
          Number(properties.age) > 5 || staticCohortIds.has(cohortId),
      };
      expect(await idsOf({ condition })).toEqual(["b", "a"]);
      expect(await idsOf({ condition, memberOf: cohortId })).toEqual(["a"]);
    });

    test("[PM-3] searches long lists in stretches, and goes on where a page ended", async () => {
      const all = Array.from({ length: 1203 }, (_, index) => `p${index}`);
      await apply(...all.map((id, index) => ({ ...set(id, { index }), second: index % 7 })));
      const condition: PersonCondition = {
        requiredNames: ["index"],
        needsStaticCohorts: false,
        matches: ({ properties }) => Number(properties.index) % 100 === 3,
      };
      const found: unknown[] = [];
      let after: PersonQuery["after"];
      for (let pages = 0; pages < 20; pages++) {
        const page = await find({ condition, limit: 5, ...(after && { after }) });
        found.push(...page.ids);
        if (!page.next) break;
        after = page.next;
      }
      const every = await idsOf({ condition });
      expect(every).toHaveLength(12);
      expect(found).toEqual(every);
      const runs: JsonObject[] = [];
      for await (const run of records.properties(projectId, { name: "index", maxPersons: 1000 })) {
        runs.push(...run);
      }
      expect(runs).toHaveLength(1000);
    });
  });

  test("[PM-7] a person is found by number, uuid and any distinct id, in their project alone", async () => {
    await apply({ distinctId: "a" }, alias("a", "b"));
    const person = await existing("b");
    expect(person.distinctIds).toEqual(["a", "b"]);
    expect(await records.person(projectId, { id: person.id })).toEqual(person);
    expect(await records.person(projectId, { uuid: person.uuid })).toEqual(person);
    const other = await fixture.newProject();
    expect(await records.person(other, { id: person.id })).toBeUndefined();
    expect(await records.person(other, { uuid: person.uuid })).toBeUndefined();
    expect(await records.person(other, { distinctId: "a" })).toBeUndefined();
    expect([...(await records.byUuids(projectId, [person.uuid, projectUuid]))]).toEqual([
      [person.uuid, person],
    ]);
    expect([...(await records.byDistinctIds(projectId, ["b", "nobody", "a"]))].sort()).toEqual([
      ["a", person],
      ["b", person],
    ]);
  });
  const projectUuid = "0192a000-0000-7000-8000-00000000ffff";

  describe("deleting", () => {
    test("[PM-8] takes the person, ids, overrides and memberships away, from flag requests too", async () => {
      await apply(set("a", { plan: "pro" }), alias("a", "b"), { distinctId: "other" });
      const person = await existing("a");
      await fixture.newStaticCohort(projectId, [person.id]);
      await fixture.store.storeHashKeyOverrides(
        projectId,
        { distinctId: "a", anonDistinctId: "b" },
        ["f"],
      );
      expect((await factsOf("b")).person).not.toBeNull();
      const gone = await records.deletePersons(projectId, [person.uuid, projectUuid], {
        withEvents: false,
        now,
      });
      expect(gone).toEqual([person.uuid]);
      expect((await factsOf("a")).person).toBeNull();
      expect((await factsOf("b")).person).toBeNull();
      expect(await named("b")).toBeUndefined();
      expect(await records.staticCohortIds(person.id)).toEqual(new Set());
      expect(await idsOf({})).toEqual(["other"]);
      expect(await records.eventChanges(10)).toEqual([]);
      expect(
        await records.deletePersons(projectId, [person.uuid], { withEvents: true, now }),
      ).toEqual([]);
      expect(await records.eventChanges(10)).toEqual([]);
    });

    test("[PM-9] leaves an id whose next event makes somebody new, time and again", async () => {
      await apply({ distinctId: "a" }, alias("a", "b"));
      const uuids = new Set<string>();
      for (let round = 0; round < 3; round++) {
        const [first, second] = await apply(set("b", { round }), { distinctId: "a" });
        uuids.add(first?.personId ?? "").add(second?.personId ?? "");
        const person = await existing("b");
        expect(person.properties).toEqual({ round });
        expect(first?.personId).toBe(person.uuid);
        expect(await flagged("b")).toEqual({ round });
        const everybody = [person.uuid, (await existing("a")).uuid];
        await records.deletePersons(projectId, everybody, { withEvents: false, now });
      }
      expect(uuids.size).toBe(5);
      const [personless] = await apply({
        distinctId: "b",
        properties: { $process_person_profile: false },
      });
      expect(uuids.has(personless?.personId ?? "")).toBe(false);
      const [later] = await apply({ distinctId: "b" });
      expect(later?.personId).toBe(personless?.personId);
      const [elsewhere] = await apply({ distinctId: "c" });
      expect(elsewhere?.personId).toBe(personUuid(projectId, "c"));
    });

    test("[PM-10] with events leaves word of them until it is taken away", async () => {
      await apply({ distinctId: "a" }, { distinctId: "b" });
      const [a, b] = [await existing("a"), await existing("b")];
      await records.deletePersons(projectId, [a.uuid], { withEvents: true, now });
      await records.deleteEvents(projectId, [b.uuid]);
      const changes = await records.eventChanges(10);
      expect(changes.map(({ id, ...rest }) => rest)).toEqual([
        { projectId, position, change: { kind: "delete", personIds: [a.uuid] } },
        { projectId, position, change: { kind: "delete", personIds: [b.uuid] } },
      ]);
      expect(await existing("b")).toEqual(b);
      expect(await records.eventChanges(1)).toEqual(changes.slice(0, 1));
      for (const { id } of changes) await records.removeEventChange(id);
      expect(await records.eventChanges(10)).toEqual([]);
    });
  });

  describe("splitting", () => {
    const splitOff = async (mainDistinctId: string | null, distinctId = "a") => {
      const { uuid } = await existing(distinctId);
      return records.split(projectId, uuid, { mainDistinctId, now });
    };
    const takeChanges = async () => {
      const changes = await records.eventChanges(10);
      for (const { id } of changes) await records.removeEventChange(id);
      return changes.map(({ change }) => change);
    };

    test("[PM-11] leaves one id with the person and makes a new person of every other", async () => {
      await apply(set("a", { plan: "pro" }), set("b", { age: 3 }));
      const earlier = { a: await existing("a"), b: await existing("b") };
      await apply(alias("a", "b"), alias("a", "c"));
      expect(await flagged("b")).toEqual({ plan: "pro", age: 3 });
      const before = await existing("a");
      expect(await splitOff("a")).toBe("split");
      const [a, b, c] = [await existing("a"), await existing("b"), await existing("c")];
      expect(a).toEqual({ ...before, distinctIds: ["a"] });
      expect(b).toMatchObject({
        distinctIds: ["b"],
        properties: {},
        createdAt: now,
        isIdentified: false,
      });
      const uuids = [earlier.a.uuid, earlier.b.uuid, personUuid(projectId, "c"), b.uuid, c.uuid];
      expect(new Set(uuids).size).toBe(5);
      expect(await flagged("b")).toEqual({});
      expect(await flagged("a")).toEqual({ plan: "pro", age: 3 });
      expect(await takeChanges()).toEqual([
        {
          kind: "reassign",
          moves: [
            { distinctId: "b", personId: b.uuid },
            { distinctId: "c", personId: c.uuid },
          ],
        },
      ]);
      const [next] = await apply(set("b", { age: 4 }));
      expect(next?.personId).toBe(b.uuid);
      expect((await existing("a")).properties).toEqual({ plan: "pro", age: 3 });
    });

    test("[PM-11] without a main id leaves the first one, without properties", async () => {
      await apply(set("b", { plan: "pro" }), alias("b", "a"));
      const before = await existing("a");
      expect(await splitOff(null)).toBe("split");
      expect(await existing("a")).toEqual({ ...before, distinctIds: ["a"], properties: {} });
      expect((await existing("b")).uuid).not.toBe(before.uuid);
      await takeChanges();
    });

    test("[PM-11] joins, splits and joins again give one person each time, never an earlier one", async () => {
      await apply({ distinctId: "a" }, { distinctId: "b" });
      const uuids = new Set([(await existing("b")).uuid]);
      for (let round = 0; round < 3; round++) {
        await apply({ ...alias("a", "b"), event: "$merge_dangerously" });
        expect((await existing("b")).distinctIds).toEqual(["a", "b"]);
        expect(await splitOff("a")).toBe("split");
        uuids.add((await existing("b")).uuid);
      }
      expect(uuids.size).toBe(4);
      await takeChanges();
    });

    test("[PM-12] of a stranger's id, of nobody and of a single id changes nothing", async () => {
      await apply({ distinctId: "a" }, { distinctId: "b" });
      const before = await existing("a");
      expect(await splitOff("b")).toBe("unknown-distinct-id");
      expect(await records.split(projectId, projectUuid, { mainDistinctId: "a", now })).toBe(
        "not-found",
      );
      expect(await splitOff("a")).toBe("split");
      expect(await existing("a")).toEqual(before);
      expect(await takeChanges()).toEqual([]);
    });
  });

  test("[PM-13] properties changed by hand count as of that time, and are seen at once", async () => {
    await apply(set("a", { plan: "pro", age: 3 }));
    const { id, uuid } = await existing("a");
    expect(await flagged("a")).toEqual({ plan: "pro", age: 3 });
    expect(
      await records.changeProperties(projectId, { uuid }, setting({ plan: "free" }), { now }),
    ).toBe("changed");
    expect(await flagged("a")).toEqual({ plan: "free", age: 3 });
    await apply(set("a", { plan: "late" }));
    expect((await existing("a")).properties).toEqual({ plan: "free", age: 3 });
    await records.changeProperties(projectId, { id }, { ...setting({}), unset: ["age"] }, { now });
    expect((await existing("a")).properties).toEqual({ plan: "free" });
    const long = setting({ text: "x".repeat(700_000) });
    expect(await records.changeProperties(projectId, { id }, long, { now })).toBe("too-long");
    expect((await existing("a")).properties).toEqual({ plan: "free" });
    const nobody = { uuid: projectUuid };
    expect(await records.changeProperties(projectId, nobody, setting({}), { now })).toBeUndefined();
    const other = await fixture.newProject();
    expect(await records.changeProperties(other, { id }, setting({}), { now })).toBeUndefined();
  });
}
