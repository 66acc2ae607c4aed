import { afterAll, beforeAll, expect, test } from "vitest";
import type { DecisionCounts } from "../../flags/decision-counts.ts";
import { createDecisionCounts } from "./decision-counts.ts";
import { projectsAndUsers } from "./projects-and-users.setup.ts";
import { describeEachSqlEngine } from "./sql-engines.contract.ts";

describeEachSqlEngine("DecisionCounts", (open) => {
  let counts: DecisionCounts;
  let project: number;
  let close: () => Promise<void>;
  beforeAll(async () => {
    const database = await open();
    counts = createDecisionCounts(database);
    project = await (await projectsAndUsers(database)).newProject();
    close = () => database.close();
  });
  afterAll(() => close());

  test("[FU-3] adds to what was counted before, by flag, day and value", async () => {
    const count = { flagKey: "a", day: "2026-03-01", value: "true", times: 10 };
    await counts.add(project, [count, { ...count, value: "false" }, { ...count, flagKey: "b" }]);
    await counts.add(project, [
      { ...count, times: 2.5 },
      { ...count, day: "2026-03-03" },
    ]);
    await counts.add(project, []);
    const days = { from: "2026-03-01", to: "2026-03-03" };
    expect(await counts.ofFlag(project, "a", days)).toEqual([
      { ...count, value: "false" },
      { ...count, times: 12.5 },
    ]);
    expect(await counts.ofFlag(project, "unknown", days)).toEqual([]);
  });

  test("takes the flags of a large project at once", async () => {
    const many = Array.from({ length: 5000 }, (_, n) => ({
      flagKey: `flag-${n}`,
      day: "2026-03-01",
      value: "true",
      times: 1,
    }));
    await counts.add(project, many);
    const days = { from: "2026-03-01", to: "2026-03-02" };
    expect(await counts.ofFlag(project, "flag-4999", days)).toEqual([many[4999]]);
  });
});
