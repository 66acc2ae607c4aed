import type { Json } from "@hedgerow/core/json";
import type { Transformation } from "@hedgerow/core/transformations/transformation";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import type { ActivityDraft, ActivityLog } from "../activity/activity-log.ts";
import type { Program } from "./sandbox.ts";
import {
  type ConfigView,
  type ConfigWrite,
  MAX_ORDER,
  type NewConfigFields,
  type TransformationConfigFields,
  type TransformationConfigStore,
} from "./transformation-config-store.ts";
import type {
  NewTransformation,
  SourceDraft,
  TransformationFields,
  TransformationStore,
  TransformationWrite,
} from "./transformation-store.ts";

/** Both stores over one fresh database, and what their records belong to. */
export interface TransformationStoresFixture {
  readonly store: TransformationStore;
  readonly configs: TransformationConfigStore;
  readonly activityLog: ActivityLog;
  newOrganization(): Promise<string>;
  newProject(organizationId: string): Promise<number>;
  newUser(): Promise<number>;
  close(): Promise<void>;
}

const now = new Date("2026-03-01T10:00:00.123Z");
const everything = { limit: 100, offset: 0 };

const PROGRAM: Program = {
  code: "globalThis.x = 1",
  digest: "d".repeat(64),
  methods: ["processEvent"],
  jobs: [],
  scheduledTasks: [],
  metrics: {},
};

/** Fields of a transformation that was written here. */
export function someTransformation(fields: Partial<NewTransformation> = {}): NewTransformation {
  return {
    identity: null,
    type: "source",
    name: "T",
    description: null,
    url: null,
    icon: null,
    configSchema: [],
    tag: null,
    latestTag: null,
    latestTagCheckedAt: null,
    isGlobal: false,
    capabilities: {},
    metrics: {},
    publicJobs: {},
    ...fields,
  };
}

const source = (text: string, draft: Partial<SourceDraft> = {}): SourceDraft => ({
  files: { "index.ts": text },
  program: PROGRAM,
  tag: null,
  restoredFrom: null,
  ...draft,
});

const draftOf = (
  scope: ActivityDraft["scope"],
  activity: ActivityDraft["activity"],
  item: { readonly id: number },
  before: Json,
  after: Json,
): ActivityDraft => ({
  scope,
  itemId: String(item.id),
  itemVersion: null,
  activity,
  name: "n",
  changes: before === after ? [] : [{ field: "order", before, after }],
});

/** What every pair of a {@link TransformationStore} and a {@link TransformationConfigStore} must do. */
export function transformationStoresContract(
  open: () => Promise<TransformationStoresFixture>,
): void {
  let fixture: TransformationStoresFixture;
  let store: TransformationStore;
  let configs: TransformationConfigStore;
  let organizationId: string;
  let projectId: number;
  beforeAll(async () => {
    fixture = await open();
    ({ store, configs } = fixture);
  });
  afterAll(() => fixture.close());
  beforeEach(async () => {
    organizationId = await fixture.newOrganization();
    projectId = await fixture.newProject(organizationId);
  });

  const write: TransformationWrite = {
    authorId: null,
    now,
    describe: (before, after) => {
      const item = after ?? before;
      if (!item) throw new Error("a write without a transformation");
      return draftOf(
        "Plugin",
        before === null ? "installed" : after === null ? "uninstalled" : "updated",
        item,
        before?.version ?? null,
        after?.version ?? null,
      );
    },
  };
  const configWrite: ConfigWrite = {
    authorId: null,
    now,
    describe: (before, after) => [
      draftOf(
        "PluginConfig",
        before === null ? "enabled" : "order_changed",
        after.config,
        before?.config.order ?? null,
        after.config.order,
      ),
    ],
  };
  const untold = () => ({ drafts: [], authorId: null });
  const create = async (
    fields: Partial<NewTransformation> = {},
    draft: SourceDraft | null = source("1"),
    owner = organizationId,
  ): Promise<Transformation> => {
    const made = await store.create(owner, someTransformation(fields), draft, write);
    if (typeof made === "string") throw new Error(made);
    return made;
  };
  const configure = async (
    { id }: { readonly id: number },
    fields: Partial<NewConfigFields> = {},
    project = projectId,
  ): Promise<ConfigView> => {
    const view = await configs.create(
      project,
      {
        transformationId: id,
        enabled: true,
        order: 1,
        config: {},
        secretKeys: [],
        name: null,
        description: null,
        allowedHosts: [],
        problem: null,
        deleted: false,
        ...fields,
      },
      { put: [], removeKeys: [] },
      configWrite,
    );
    if (!view) throw new Error(`transformation ${id} is unknown`);
    return view;
  };
  const saveSource = (transformation: Transformation, text: string) =>
    store.update(
      transformation.id,
      () => ({}),
      { ...source(text), ifVersion: transformation.version },
      write,
    );
  const revision = async (id = projectId) => (await configs.revisions([id])).get(id) ?? 0;

  describe("transformations", () => {
    test("everything of a transformation is kept as it was given", async () => {
      const fields: TransformationFields = {
        type: "custom",
        name: "Everything",
        description: "of it",
        url: `https://example.org/${organizationId}?private_token=secret`,
        icon: "i.png",
        configSchema: { a: { type: "string", default: "x" } },
        tag: "v1",
        latestTag: "v2",
        latestTagCheckedAt: new Date("2026-02-01T00:00:00.001Z"),
        isGlobal: true,
        capabilities: { methods: ["processEvent"] },
        metrics: { m: "sum" },
        publicJobs: { j: { payload: {} } },
      };
      const made = await create(fields);
      expect(made).toEqual({
        ...fields,
        id: made.id,
        organizationId,
        version: 1,
        createdAt: now,
        updatedAt: now,
      });
      expect(await store.transformation(organizationId, made.id)).toEqual(made);
      await store.remove(made.id, () => {}, write, untold);
    });

    test("[TM-1] an organization sees its own, global ones and those with a config in its projects, by id", async () => {
      const others = await fixture.newOrganization();
      const own = await create();
      const configured = await create({}, source("1"), others);
      const hidden = await create({}, source("1"), others);
      const everyones = await create({ isGlobal: true }, source("1"), others);
      const ids = async (of: string) =>
        (await store.list(of, { limit: 1000, offset: 0 })).transformations.map(({ id }) => id);
      expect(await ids(organizationId)).toEqual([own.id, everyones.id]);
      await configure(configured);
      expect(await ids(organizationId)).toEqual([own.id, configured.id, everyones.id]);
      expect(await store.transformation(organizationId, hidden.id)).toBeUndefined();
      expect(await store.transformation(organizationId, configured.id)).toEqual(configured);
      expect(await store.transformation(others, own.id)).toBeUndefined();
      const page = await store.list(organizationId, { limit: 1, offset: 1 });
      expect([page.count, page.transformations.map(({ id }) => id)]).toEqual([3, [configured.id]]);
      await store.remove(everyones.id, () => {}, write, untold);
    });

    test("[TM-2] no two have the same identity, whosever they are and however they are changed", async () => {
      const identity = `https://github.com/example/${organizationId}`;
      const { id } = await create({ identity, url: `${identity}?private_token=a` });
      await store.update(id, () => ({ type: "repository" }), null, write);
      const others = await fixture.newOrganization();
      const again = someTransformation({ identity, url: identity });
      expect(await store.create(others, again, null, write)).toBe("duplicate");
      await create({ identity: `${identity} too` }, null, others);
      await create();
      await create({}, null, others);
      await store.remove(id, () => {}, write, untold);
      expect(await store.create(others, again, null, write)).toMatchObject({ version: 0 });
    });

    test("[TM-3] each change of a source is a version; earlier ones stay as they were", async () => {
      const author = await fixture.newUser();
      const first = await create({}, source("one", { tag: "a" }));
      const second = await store.update(
        first.id,
        (current) => ({ name: `${current.name} again` }),
        { ...source("two", { restoredFrom: 1 }), ifVersion: 1 },
        { ...write, authorId: author },
      );
      expect(second).toMatchObject({ version: 2, name: "T again" });
      expect(await store.version(first.id, 1)).toEqual({
        transformationId: first.id,
        version: 1,
        files: { "index.ts": "one" },
        program: PROGRAM,
        tag: "a",
        restoredFrom: null,
        createdAt: now,
        createdById: null,
      });
      expect(await store.version(first.id, 3)).toBeUndefined();
      const { count, versions } = await store.versions(first.id, { limit: 1, offset: 0 });
      expect(count).toBe(2);
      expect(versions).toEqual([
        {
          transformationId: first.id,
          version: 2,
          fileNames: ["index.ts"],
          tag: null,
          restoredFrom: 1,
          createdAt: now,
          createdById: author,
        },
      ]);
    });

    test("[TM-28] versions that were replaced long ago are forgotten, but for the newest ones", async () => {
      const day = (date: number) => new Date(Date.UTC(2026, 0, date));
      const [edited, still] = [await create(), await create()];
      for (const [index, date] of [2, 3, 4, 20].entries()) {
        await store.update(
          edited.id,
          () => ({}),
          { ...source(`v${index + 2}`), ifVersion: index + 1 },
          { ...write, now: day(date) },
        );
      }
      const kept = async ({ id }: { id: number }) =>
        (await store.versions(id, everything)).versions.map(({ version }) => version);
      await store.pruneVersions(day(4), 2);
      expect(await kept(edited)).toEqual([5, 4, 3]);
      await store.pruneVersions(day(10), 3);
      expect(await kept(edited)).toEqual([5, 4, 3]);
      await store.pruneVersions(day(10), 1);
      expect(await kept(edited)).toEqual([5, 4]);
      await store.pruneVersions(day(31), 1);
      expect(await kept(edited)).toEqual([5]);
      expect(await kept(still)).toEqual([1]);
      expect(await store.version(edited.id, 5)).toMatchObject({ files: { "index.ts": "v5" } });
      const next = await store.update(
        edited.id,
        () => ({}),
        { ...source("v6"), ifVersion: 5 },
        write,
      );
      expect(next).toMatchObject({ version: 6 });
    });

    test("[TM-3] a source that changed meanwhile is not written over", async () => {
      const made = await create();
      const results = await Promise.all([saveSource(made, "left"), saveSource(made, "right")]);
      expect(results.filter((one) => one === "stale")).toHaveLength(1);
      expect((await store.versions(made.id, everything)).count).toBe(2);
      expect(await store.update(999_999, () => ({}), null, write)).toBeUndefined();
    });

    test("a change that is refused leaves everything as it was, its activity included", async () => {
      const made = await create();
      const refuse = () => {
        throw new Error("no");
      };
      await expect(
        store.update(made.id, refuse, { ...source("2"), ifVersion: 1 }, write),
      ).rejects.toThrow("no");
      await expect(store.remove(made.id, refuse, write, untold)).rejects.toThrow("no");
      expect(await store.transformation(organizationId, made.id)).toEqual(made);
      const { count } = await fixture.activityLog.ofOrganization(organizationId, {
        scopes: ["Plugin"],
        ...everything,
      });
      expect(count).toBe(1);
    });

    test("[TM-9] global ones without an enabled config are unused", async () => {
      const idle = await create({ isGlobal: true });
      const busy = await create({ isGlobal: true });
      await create();
      const config = await configure(busy);
      const ids = async () => (await store.unused()).map(({ id }) => id);
      expect(await ids()).toEqual([idle.id]);
      await configs.update(
        projectId,
        config.config.id,
        () => ({ enabled: false }),
        { put: [], removeKeys: [] },
        configWrite,
      );
      expect(await ids()).toEqual([idle.id, busy.id]);
      for (const { id } of [idle, busy]) await store.remove(id, () => {}, write, untold);
    });

    test("[TM-8] taking a transformation away takes its versions and configs along, and tells of those", async () => {
      const made = await create();
      const { config } = await configure(made);
      await configure(made, { deleted: true });
      const before = await revision();
      const removed = await store.remove(
        made.id,
        () => {},
        write,
        ({ config: gone }, organization) => ({
          drafts: [draftOf("PluginConfig", "deleted", gone, organization, null)],
          authorId: null,
        }),
      );
      expect(removed).toBe(true);
      const inProject = {
        scope: "PluginConfig",
        itemId: null,
        authorId: null,
        ...everything,
      } as const;
      const { activities } = await fixture.activityLog.list(projectId, inProject);
      expect(activities[0]).toMatchObject({
        activity: "deleted",
        itemId: String(config.id),
        changes: [{ field: "order", before: organizationId, after: null }],
      });
      expect(activities.filter(({ activity }) => activity === "deleted")).toHaveLength(1);
      expect(await store.remove(made.id, () => {}, write, untold)).toBe(false);
      expect(await store.version(made.id, 1)).toBeUndefined();
      expect(await configs.config(projectId, config.id)).toBeUndefined();
      expect(await revision()).toBeGreaterThan(before);
      await expect(configure(made)).rejects.toThrow("is unknown");
    });

    test("[TM-4] an organization's activity holds its transformations and its projects' configs, newest first", async () => {
      const author = await fixture.newUser();
      const made = await store.create(organizationId, someTransformation(), null, {
        ...write,
        authorId: author,
      });
      if (typeof made === "string") throw new Error(made);
      const { config } = await configure(made);
      await create({}, null, await fixture.newOrganization());
      await store.remove(made.id, () => {}, write, untold);
      const told = await fixture.activityLog.ofOrganization(organizationId, {
        scopes: ["Plugin", "PluginConfig"],
        ...everything,
      });
      expect(
        told.activities.map(({ scope, activity, itemId, projectId: of, authorId }) => [
          scope,
          activity,
          itemId,
          of,
          authorId,
        ]),
      ).toEqual([
        ["Plugin", "uninstalled", String(made.id), null, null],
        ["PluginConfig", "enabled", String(config.id), projectId, null],
        ["Plugin", "installed", String(made.id), null, author],
      ]);
      expect(told.count).toBe(3);
      const ofProject = await fixture.activityLog.list(projectId, {
        scope: null,
        itemId: null,
        authorId: null,
        ...everything,
      });
      expect(ofProject.activities.map(({ scope }) => scope)).toEqual(["PluginConfig"]);
    });
  });

  describe("configs", () => {
    test("everything of a config is kept as it was given", async () => {
      const made = await create();
      const fields: TransformationConfigFields = {
        transformationId: made.id,
        enabled: false,
        order: 7,
        config: { __proto__: null, a: "x", constructor: "y" },
        name: "N",
        description: "D",
        secretKeys: ["a", "constructor"],
        allowedHosts: ["example.org"],
        problem: { message: "failed", at: new Date("2026-02-03T04:05:06.789Z") },
        deleted: false,
      };
      const view = await configure(made, fields);
      expect(view.config).toEqual({
        ...fields,
        config: { a: "x", constructor: "y" },
        id: view.config.id,
        projectId,
        createdAt: now,
        updatedAt: now,
      });
      expect(view.transformation).toEqual(made);
      expect(await configs.config(projectId, view.config.id)).toEqual(view);
      const elsewhere = await fixture.newProject(organizationId);
      expect(await configs.config(elsewhere, view.config.id)).toBeUndefined();
    });

    test("[TM-6] configs are listed by order, then by transformation; deleted ones are not", async () => {
      const [a, b] = [await create(), await create()];
      const late = await configure(a, { order: 9 });
      const second = await configure(b, { order: 1 });
      const first = await configure(a, { order: 1 });
      await configure(a, { order: 0, deleted: true });
      const ids = async (transformationId: number | null = null) =>
        (await configs.list(projectId, { transformationId, ...everything })).configs.map(
          ({ config }) => config.id,
        );
      expect(await ids()).toEqual([first.config.id, second.config.id, late.config.id]);
      expect(await ids(b.id)).toEqual([second.config.id]);
      const ofA = (await configs.configsOf(a.id)).map(({ config }) => config.id);
      expect(ofA).toEqual([late.config.id, first.config.id]);
      await configs.rearrange(
        projectId,
        new Map([
          [late.config.id, 0],
          [first.config.id, 1],
          [999_999, 3],
        ]),
        configWrite,
      );
      expect(await ids()).toEqual([late.config.id, first.config.id, second.config.id]);
      const { activities } = await fixture.activityLog.list(projectId, {
        scope: "PluginConfig",
        itemId: null,
        authorId: null,
        ...everything,
      });
      const moved = activities.filter(({ activity }) => activity === "order_changed");
      expect(moved.map(({ itemId, changes }) => [itemId, changes])).toEqual([
        [String(late.config.id), [{ field: "order", before: 9, after: 0 }]],
      ]);
    });

    test("[TM-6] enabled configs run in their order, each with the current version of its source", async () => {
      const [a, b] = [await create(), await create({}, null)];
      const later = await configure(a, { order: 2, config: { k: "v" } });
      const sooner = await configure(a, { order: 1 });
      await configure(a, { enabled: false });
      await configure(b);
      await saveSource(a, "newest");
      const run = await configs.configsToRun(projectId);
      expect(
        run.map(({ config, transformation, version }) => [
          config.id,
          transformation.id,
          version.version,
          version.files["index.ts"],
          version.program?.digest,
        ]),
      ).toEqual([
        [sooner.config.id, a.id, 2, "newest", PROGRAM.digest],
        [later.config.id, a.id, 2, "newest", PROGRAM.digest],
      ]);
      expect(await configs.projectsToRun()).toContain(projectId);
      expect(await configs.configsToRun(await fixture.newProject(organizationId))).toEqual([]);
    });

    test("[TM-6] configs of equal order run as they are listed", async () => {
      const project = await fixture.newProject(organizationId);
      const [a, b] = [await create(), await create()];
      for (const one of [a, b, a]) await configure(one, { order: 7 }, project);
      const { configs: listed } = await configs.list(project, {
        ...everything,
        transformationId: null,
      });
      const ids = listed.map(({ config }) => config.id);
      expect(listed.map(({ transformation }) => transformation.id)).toEqual([a.id, a.id, b.id]);
      expect((await configs.configsToRun(project)).map(({ config }) => config.id)).toEqual(ids);
    });

    test("[TM-5] whatever changes what runs in a project raises its revision, and that of no other", async () => {
      const other = await fixture.newProject(organizationId);
      const made = await create();
      await configure(made, {}, other);
      const untouched = await revision(other);
      expect(await revision()).toBe(0);
      const mine = await create();
      const { config } = await configure(mine);
      const seen = [await revision()];
      const saved = await saveSource(mine, "2");
      expect(saved).toMatchObject({ version: 2 });
      seen.push(await revision());
      await configs.update(
        projectId,
        config.id,
        () => ({ enabled: false }),
        { put: [], removeKeys: [] },
        configWrite,
      );
      seen.push(await revision());
      await configs.rearrange(projectId, new Map([[config.id, 5]]), configWrite);
      seen.push(await revision());
      expect(seen).toEqual([...new Set(seen)].toSorted((a, b) => a - b));
      expect(seen[0]).toBeGreaterThan(0);
      expect(await revision(other)).toBe(untouched);
    });

    test("[TM-6] one without an order runs last, also of several made at once", async () => {
      const made = await create();
      const last = async () => (await configure(made, { order: "last" })).config.order;
      expect(await last()).toBe(1);
      await configure(made, { order: 7 });
      await configure(made, { order: -3 });
      await configure(made, { order: 90, deleted: true });
      expect(new Set(await Promise.all([last(), last(), last()]))).toEqual(new Set([8, 9, 10]));
      // As high as somebody may say, and no higher: records can be sent back as they are.
      await configure(made, { order: MAX_ORDER });
      expect(await last()).toBe(MAX_ORDER);
    });

    test("[TM-7] an attachment takes the place of the one with its key, and goes when it is taken away", async () => {
      const made = await create();
      const { config } = await configure(made);
      const file = (key: string, bytes: number[]) => ({
        key,
        fileName: `${key}.bin`,
        contentType: "application/octet-stream",
        contents: new Uint8Array(bytes),
      });
      const change = (put: ReturnType<typeof file>[], removeKeys: string[] = []) =>
        configs.update(projectId, config.id, () => ({}), { put, removeKeys }, configWrite);
      await change([file("a", [0, 255]), file("b", [1])]);
      const view = await change([file("a", [9, 8, 7])], ["b"]);
      expect(view?.attachments).toEqual([
        {
          id: expect.any(Number),
          configId: config.id,
          key: "a",
          fileName: "a.bin",
          contentType: "application/octet-stream",
          sizeBytes: 3,
        },
      ]);
      expect(await configs.attachment(projectId, config.id, "a")).toEqual(file("a", [9, 8, 7]));
      expect(await configs.attachment(projectId, config.id, "b")).toBeUndefined();
      const elsewhere = await fixture.newProject(organizationId);
      expect(await configs.attachment(elsewhere, config.id, "a")).toBeUndefined();
      const [run] = await configs.configsToRun(projectId);
      expect(run?.attachments).toEqual([file("a", [9, 8, 7])]);
    });

    test("a deleted config, and one of another project, cannot be changed", async () => {
      const made = await create();
      const { config } = await configure(made);
      const change = (project: number, fields: Partial<TransformationConfigFields>) =>
        configs.update(project, config.id, () => fields, { put: [], removeKeys: [] }, configWrite);
      expect(await change(await fixture.newProject(organizationId), {})).toBeUndefined();
      expect(await change(projectId, { deleted: true, enabled: false })).toBeDefined();
      expect(await change(projectId, { order: 3 })).toBeUndefined();
    });
  });
}
