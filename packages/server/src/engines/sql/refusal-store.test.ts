import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, expect, it } from "vitest";
import type { RefusalStore } from "../../events/refusal-store.ts";
import { projectsAndUsers } from "./projects-and-users.setup.ts";
import { createRefusalStore } from "./refusal-store.ts";
import type { SqlDatabase } from "./sql-database.ts";
import { describeEachSqlEngine } from "./sql-engines.contract.ts";

describeEachSqlEngine("RefusalStore", (open) => {
  let database: SqlDatabase;
  let store: RefusalStore;
  let newProject: () => Promise<number>;
  beforeAll(async () => {
    database = await open();
    store = createRefusalStore(database);
    ({ newProject } = await projectsAndUsers(database));
  });
  afterAll(() => database.close());

  const at = (minute: number) => new Date(Date.UTC(2026, 0, 1, 0, minute));
  const refused = (projectId: number, uuid: string, minute = 0, code = "missing_event") => ({
    projectId,
    uuid,
    code,
    detail: `at ${minute}`,
    times: 1,
    firstAt: at(minute),
    lastAt: at(minute),
  });

  it("[RC-2] adds sendings of one uuid and code, and keeps first and last", async () => {
    const projectId = await newProject();
    const uuid = randomUUID();
    await store.add([refused(projectId, uuid, 1), refused(projectId, uuid, 2, "duplicate")]);
    await store.add([{ ...refused(projectId, uuid, 5), times: 3 }]);
    expect(await store.find(projectId, uuid)).toEqual([
      { ...refused(projectId, uuid, 5), times: 4, firstAt: at(1) },
      refused(projectId, uuid, 2, "duplicate"),
    ]);
    expect(await store.find(projectId, randomUUID())).toEqual([]);
    expect(await store.find(await newProject(), uuid)).toEqual([]);
  });

  it("[RC-2] leaves out projects that are gone", async () => {
    const projectId = await newProject();
    const uuid = randomUUID();
    await store.add([refused(2_000_000_000, uuid), refused(projectId, uuid)]);
    expect(await store.find(projectId, uuid)).toHaveLength(1);
  });

  it("[RC-3] forgets what is old, and all but the latest of each project", async () => {
    const [one, two] = [await newProject(), await newProject()];
    const uuids = Array.from({ length: 6 }, () => randomUUID());
    await store.add(uuids.map((uuid, index) => refused(one, uuid, index)));
    await store.add([refused(two, uuids[0] ?? "", 3)]);
    await store.prune(at(2), 3);
    const left = await Promise.all(uuids.map(async (uuid) => (await store.find(one, uuid)).length));
    expect(left).toEqual([0, 0, 0, 1, 1, 1]);
    expect(await store.find(two, uuids[0] ?? "")).toHaveLength(1);
  });
});
