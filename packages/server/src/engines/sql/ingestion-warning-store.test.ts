import { afterAll, beforeAll, expect, it } from "vitest";
import {
  type IngestionWarningStore,
  MAX_WARNINGS_PER_DAY,
  type WarningTally,
} from "../../events/ingestion-warning-store.ts";
import { createIngestionWarningStore } from "./ingestion-warning-store.ts";
import { projectsAndUsers } from "./projects-and-users.setup.ts";
import type { SqlDatabase } from "./sql-database.ts";
import { describeEachSqlEngine } from "./sql-engines.contract.ts";

describeEachSqlEngine("IngestionWarningStore", (open) => {
  let database: SqlDatabase;
  let store: IngestionWarningStore;
  let newProject: () => Promise<number>;
  beforeAll(async () => {
    database = await open();
    store = createIngestionWarningStore(database);
    ({ newProject } = await projectsAndUsers(database));
  });
  afterAll(() => database.close());

  const at = (day: number, hour = 0) => new Date(Date.UTC(2026, 0, day, hour));
  const tally = (day: number, hour: number, fields: Partial<WarningTally> = {}): WarningTally => ({
    type: "undecodable_body",
    sdk: { name: "web", version: "1.2.3" },
    count: 2,
    firstAt: at(day, hour),
    lastAt: at(day, hour + 1),
    samples: [{ at: at(day, hour), detail: `on ${day} at ${hour}` }],
    ...fields,
  });
  const everything = { limit: 100, offset: 0 };

  it("[IW-1] sums over days, with the samples of the last one", async () => {
    const projectId = await newProject();
    await store.add(projectId, [tally(1, 3), tally(2, 3)]);
    await store.add(projectId, [tally(2, 5), tally(2, 7)]);
    expect(await store.list(projectId, everything)).toEqual({
      count: 1,
      warnings: [
        {
          ...tally(1, 3),
          count: 8,
          lastAt: at(2, 8),
          samples: [
            { at: at(2, 3), detail: "on 2 at 3" },
            { at: at(2, 5), detail: "on 2 at 5" },
          ],
        },
      ],
    });
  });

  it("[IW-1] tells kinds, SDKs and versions apart, and filters and pages", async () => {
    const projectId = await newProject();
    const web = (version: string) => ({ sdk: { name: "web", version } });
    await store.add(projectId, [
      tally(1, 1, web("1")),
      tally(1, 2, web("2")),
      tally(3, 1, { type: "clock_skew_corrected", ...web("1") }),
    ]);
    const list = async (query: object) => {
      const { count, warnings } = await store.list(projectId, { ...everything, ...query });
      return [count, ...warnings.map(({ type, sdk }) => `${type} ${sdk.version}`)];
    };
    expect(await list({})).toEqual([
      3,
      "clock_skew_corrected 1",
      "undecodable_body 2",
      "undecodable_body 1",
    ]);
    expect(await list({ limit: 1, offset: 1 })).toEqual([3, "undecodable_body 2"]);
    expect(await list({ type: "clock_skew_corrected" })).toEqual([1, "clock_skew_corrected 1"]);
    expect(await list({ after: at(2) })).toEqual([1, "clock_skew_corrected 1"]);
    expect(await list({ before: at(2) })).toEqual([2, "undecodable_body 2", "undecodable_body 1"]);
    await store.prune(at(3));
    expect(await list({})).toEqual([1, "clock_skew_corrected 1"]);
    expect((await store.list(await newProject(), everything)).count).toBe(0);
  });

  it("[IW-2] counts under one name what would be too many rows of one day", async () => {
    const projectId = await newProject();
    const named = (count: number, prefix: string) =>
      Array.from({ length: count }, (_, index) =>
        tally(1, 1, { sdk: { name: `${prefix}${index}`, version: "" } }),
      );
    await store.add(projectId, named(MAX_WARNINGS_PER_DAY, "sdk"));
    await store.add(projectId, [...named(5, "late"), ...named(1, "sdk")]);
    const { count, warnings } = await store.list(projectId, { limit: 1000, offset: 0 });
    expect(count).toBe(MAX_WARNINGS_PER_DAY + 1);
    const countOf = (name: string) => warnings.find(({ sdk }) => sdk.name === name)?.count;
    expect([countOf("other"), countOf("sdk0"), countOf("late0")]).toEqual([10, 4, undefined]);
  });

  it("[IW-2] leaves out projects that are gone", async () => {
    await expect(store.add(2_000_000_000, [tally(1, 1)])).resolves.toBeUndefined();
  });
});
