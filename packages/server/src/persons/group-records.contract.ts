import type { JsonObject } from "@hedgerow/core/json";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import type { GroupMark, GroupQuery, GroupRecords } from "./group-records.ts";
import { someEvent } from "./person-store.contract.ts";
import type { PersonStore } from "./person-store.ts";

/** Records of a fresh database, beside the store that writes its groups. */
export interface GroupRecordsFixture {
  readonly store: PersonStore;
  readonly records: GroupRecords;
  newProject(): Promise<number>;
  close(): Promise<void>;
}

/** What all {@link GroupRecords} must do. */
export function groupRecordsContract(open: () => Promise<GroupRecordsFixture>): void {
  let fixture: GroupRecordsFixture;
  let records: GroupRecords;
  let projectId: number;
  let position = 0;
  let second = 0;
  beforeAll(async () => {
    fixture = await open();
    records = fixture.records;
  });
  afterAll(() => fixture.close());
  beforeEach(async () => {
    projectId = await fixture.newProject();
  });

  const now = new Date("2026-06-01T00:00:00Z");
  const identify = (type: string, key: string, properties: JsonObject = {}) =>
    fixture.store.applyEvents([
      {
        position: ++position,
        event: someEvent({
          projectId,
          second: ++second,
          event: "$groupidentify",
          distinctId: `$${type}_${key}`,
          properties: { $group_type: type, $group_key: key, $group_set: properties },
        }),
      },
    ]);
  const find = async (query: Partial<GroupQuery> = {}) => {
    const page = await records.list({ projectId, typeIndex: 0, limit: 10, offset: 0, ...query });
    return { keys: page.groups.map(({ key }) => key), next: page.next };
  };
  const flagged = async (type: string, key: string) => {
    const { groups } = await fixture.store.factsFor({
      projectId,
      distinctId: "a",
      anonDistinctId: null,
      person: false,
      staticCohorts: false,
      hashKeyOverrides: false,
      groups: { [type]: key },
    });
    return groups === "unavailable" ? groups : groups[type];
  };
  const setting = (properties: JsonObject, unset: readonly string[] = []) => ({
    set: new Map(Object.entries(properties)),
    setOnce: new Map(),
    unset,
  });

  test("lets others have their turn between groups whose condition takes long", async () => {
    for (const key of ["a", "b", "c", "d"]) await identify("company", key);
    let turns = 0;
    let isDone = false;
    const count = () => {
      turns += 1;
      if (!isDone) setImmediate(count);
    };
    setImmediate(count);
    const turnOf: number[] = [];
    const matches = () => {
      const endMs = performance.now() + 15;
      while (performance.now() < endMs);
      turnOf.push(turns);
      return true;
    };
    const { keys } = await find({ condition: { requiredNames: [], matches } });
    isDone = true;
    expect(keys).toHaveLength(4);
    expect(new Set(turnOf).size).toBe(4);
  });

  test("ends a page of large groups before its limit, and reads a few of them at a time", async () => {
    for (let number = 0; number < 40; number += 1) {
      await identify("company", `large-${number}`, { text: "x".repeat(600_000) });
    }
    const met: string[] = [];
    const pages: number[] = [];
    let after: GroupMark | undefined;
    do {
      const { keys, next } = await find({ limit: 1000, ...(after && { after }) });
      pages.push(keys.length);
      met.push(...keys);
      after = next ?? undefined;
    } while (after && pages.length < 40);
    expect(Math.max(...pages)).toBeLessThan(30);
    expect(met).toEqual(Array.from({ length: 40 }, (_, at) => `large-${39 - at}`));
    expect((await find({ limit: 2, offset: 37 })).keys).toEqual(["large-2", "large-1"]);
    const runs: number[] = [];
    const options = { typeIndex: 0, name: "text", maxGroups: 1000 };
    for await (const run of records.properties(projectId, options)) runs.push(run.length);
    expect(Math.max(...runs)).toBe(1);
    expect(runs.length).toBeLessThan(40);
  });

  test("[GM-1] group types are learned from events and called as people say", async () => {
    await identify("company", "acme");
    await identify("team", "core");
    await records.renameTypes(projectId, [
      { index: 1, nameSingular: "Team", namePlural: "Teams" },
      { index: 4, nameSingular: "Nothing" },
      { index: 0 },
    ]);
    await records.renameTypes(projectId, [{ index: 1, namePlural: null }]);
    expect(await records.types(projectId)).toEqual([
      { index: 0, name: "company", nameSingular: null, namePlural: null },
      { index: 1, name: "team", nameSingular: "Team", namePlural: null },
    ]);
    expect(await records.types(await fixture.newProject())).toEqual([]);
  });

  test("[GM-2] the groups of a type are listed newest first, and the list goes on from a place", async () => {
    await identify("company", "a");
    await identify("team", "x");
    for (const key of ["b", "c", "d"]) await identify("company", key, { name: key });
    const first = await find({ limit: 2 });
    expect(first.keys).toEqual(["d", "c"]);
    await records.delete(projectId, { typeIndex: 0, key: "d" }, { now });
    expect(await find({ limit: 2, ...(first.next && { after: first.next }) })).toEqual({
      keys: ["b", "a"],
      next: null,
    });
    expect((await find({ offset: 1 })).keys).toEqual(["b", "a"]);
    expect((await find({ typeIndex: 1 })).keys).toEqual(["x"]);
    expect(await records.count(projectId, 0)).toBe(3);
    expect((await find({ projectId: await fixture.newProject() })).keys).toEqual([]);
  });

  test("[GM-3] groups are searched for by part of their key or name, whatever the case", async () => {
    await identify("company", "Acme_1", { name: "First %" });
    await identify("company", "other", { name: "ÄCME", note: "first" });
    await identify("company", "acmeX1");
    expect((await find({ search: "acme_" })).keys).toEqual(["Acme_1"]);
    expect((await find({ search: "FIRST" })).keys).toEqual(["Acme_1"]);
    expect((await find({ search: "äcm" })).keys).toEqual(["other"]);
    expect((await find({ keyContains: "ACME" })).keys).toEqual(["acmeX1", "Acme_1"]);
    expect((await find({ keyContains: "acme", search: "t %" })).keys).toEqual(["Acme_1"]);
    expect((await find({ search: "acme", limit: 1, offset: 1 })).keys).toEqual(["Acme_1"]);
  });

  test("[GM-4] a group is created once, read by its key and deleted, and flags see it at once", async () => {
    await identify("company", "acme");
    const group = { typeIndex: 0, key: "new", properties: { plan: "pro" } };
    const created = { ...group, createdAt: now };
    expect(await records.create(projectId, group, { now })).toEqual(created);
    expect(await records.create(projectId, { ...group, properties: {} }, { now })).toBe("exists");
    expect(await records.group(projectId, 0, "new")).toEqual(created);
    expect(await flagged("company", "new")).toEqual({ plan: "pro" });
    expect(await records.group(projectId, 1, "new")).toBeUndefined();
    const long = { typeIndex: 0, key: "long", properties: { text: "x".repeat(700_000) } };
    expect(await records.create(projectId, long, { now })).toBe("too-long");
    expect(await records.delete(projectId, { typeIndex: 0, key: "new" }, { now })).toBe(true);
    expect(await records.delete(projectId, { typeIndex: 0, key: "new" }, { now })).toBe(false);
    expect(await flagged("company", "new")).toBeUndefined();
  });

  test("[GM-5] properties changed by hand count as of that time, and are seen at once", async () => {
    await identify("company", "acme", { plan: "pro", age: 3 });
    const acme = { typeIndex: 0, key: "acme" };
    const changed = await records.changeProperties(
      projectId,
      acme,
      setting({ plan: "free" }, ["age"]),
      { now },
    );
    expect(changed).toMatchObject({ key: "acme", properties: { plan: "free" } });
    await identify("company", "acme", { plan: "late" });
    expect(await records.group(projectId, 0, "acme")).toEqual(changed);
    expect(await flagged("company", "acme")).toEqual({ plan: "free" });
    const long = setting({ text: "x".repeat(700_000) });
    expect(await records.changeProperties(projectId, acme, long, { now })).toBe("too-long");
    const nobody = { typeIndex: 0, key: "nobody" };
    expect(await records.changeProperties(projectId, nobody, setting({}), { now })).toBeUndefined();
    const runs: JsonObject[] = [];
    const options = { typeIndex: 0, name: "plan", maxGroups: 10 };
    for await (const run of records.properties(projectId, options)) runs.push(...run);
    expect(runs).toEqual([{ plan: "free" }]);
  });
}
