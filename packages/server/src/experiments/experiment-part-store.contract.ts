import { afterAll, beforeAll, expect, test } from "vitest";
import type { ActivityLog } from "../activity/activity-log.ts";
import type { ExperimentPartStore, PartFields, PartRecord } from "./experiment-part-store.ts";

/** Two stores of different kinds over a fresh database. */
export interface PartStoreFixture {
  readonly store: ExperimentPartStore;
  readonly otherKind: ExperimentPartStore;
  readonly activityLog: ActivityLog;
  newProject(): Promise<number>;
  newUser(): Promise<number>;
  close(): Promise<void>;
}

const now = new Date("2026-03-01T10:00:00.123Z");
const later = new Date("2026-03-02T11:30:00.000Z");

/** What every {@link ExperimentPartStore} must do. */
export function experimentPartStoreContract(open: () => Promise<PartStoreFixture>): void {
  let fixture: PartStoreFixture;
  let store: ExperimentPartStore;
  beforeAll(async () => {
    fixture = await open();
    store = fixture.store;
  });
  afterAll(() => fixture.close());

  const fieldsOf = (name: string, content: PartFields["content"] = {}): PartFields => ({
    name,
    description: null,
    content,
    tags: [],
    deleted: false,
  });
  const create = (projectId: number, name: string) =>
    store.create(projectId, () => fieldsOf(name), { authorId: null, now });
  const all = { limit: 100, offset: 0 };

  test("[XP-12] a part is kept as it was made, knowing its id, and found by its project and kind alone", async () => {
    const projectId = await fixture.newProject();
    const authorId = await fixture.newUser();
    const made = await store.create(
      projectId,
      (id) => ({ ...fieldsOf("one", { named: id, big: 12345678901234567890n }), tags: ["a"] }),
      { authorId, now },
    );
    expect(made).toEqual({
      id: made.id,
      projectId,
      name: "one",
      description: null,
      content: { named: made.id, big: 12345678901234567890n },
      tags: ["a"],
      deleted: false,
      createdAt: now,
      updatedAt: now,
      createdById: authorId,
    } satisfies PartRecord);
    expect(await store.parts(projectId, [made.id, 999_999, -1, 99_999_999_999])).toEqual(
      new Map([[made.id, made]]),
    );
    expect(await store.parts(await fixture.newProject(), [made.id])).toEqual(new Map());
    expect(await fixture.otherKind.parts(projectId, [made.id])).toEqual(new Map());
    expect((await fixture.otherKind.list(projectId, all)).count).toBe(0);
    const change = fixture.otherKind.update(projectId, made.id, () => ({ name: "no" }), {
      authorId,
      now,
    });
    expect(await change).toBeUndefined();
  });

  test("[XP-12] a change keeps what it does not name, and nothing of a refused one stays", async () => {
    const projectId = await fixture.newProject();
    const made = await create(projectId, "one");
    const changed = await store.update(projectId, made.id, ({ name }) => ({ name: `${name}!` }), {
      authorId: null,
      now: later,
    });
    expect(changed).toEqual({ ...made, name: "one!", updatedAt: later });
    const refused = store.update(
      projectId,
      made.id,
      () => {
        throw new Error("no");
      },
      { authorId: null, now: later },
    );
    await expect(refused).rejects.toThrow("no");
    expect((await store.parts(projectId, [made.id])).get(made.id)).toEqual(changed);
  });

  test("[XP-12] deleted parts are in no list, and no id is given again", async () => {
    const projectId = await fixture.newProject();
    const first = await create(projectId, "first");
    const second = await create(projectId, "second");
    expect((await store.list(projectId, { limit: 1, offset: 1 })).parts).toEqual([first]);
    await store.update(projectId, second.id, () => ({ deleted: true }), { authorId: null, now });
    expect(await store.list(projectId, all)).toEqual({ count: 1, parts: [first] });
    const again = store.update(projectId, second.id, () => ({ name: "x" }), {
      authorId: null,
      now,
    });
    expect(await again).toBeUndefined();
    expect((await create(projectId, "third")).id).toBeGreaterThan(second.id);
  });

  test("[XP-12] every change is kept with its author, and two at once see each other", async () => {
    const projectId = await fixture.newProject();
    const authorId = await fixture.newUser();
    const write = {
      authorId,
      now,
      describe: (before: PartRecord | null, after: PartRecord) => ({
        scope: "ExperimentHoldout" as const,
        itemId: String(after.id),
        itemVersion: null,
        activity: before ? ("updated" as const) : ("created" as const),
        name: after.name,
        changes: before ? [{ field: "name", before: before.name, after: after.name }] : [],
      }),
    };
    const made = await store.create(projectId, () => fieldsOf("a"), write);
    await Promise.all(
      ["b", "c"].map((letter) =>
        store.update(projectId, made.id, ({ name }) => ({ name: name + letter }), write),
      ),
    );
    const name = (await store.parts(projectId, [made.id])).get(made.id)?.name;
    expect(["abc", "acb"]).toContain(name);
    const { count, activities } = await fixture.activityLog.list(projectId, {
      scope: "ExperimentHoldout",
      itemId: String(made.id),
      authorId,
      limit: 10,
      offset: 0,
    });
    expect(count).toBe(3);
    expect(activities[0]?.name).toBe(name);
  });
}
