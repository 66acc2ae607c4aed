import { afterAll, beforeAll, expect, test } from "vitest";
import {
  type FrozenAnswers,
  MAX_FROZEN_ANSWERS,
  MAX_FROZEN_CHARS,
} from "../../experiments/frozen-answers.ts";
import { createFrozenAnswers } from "./frozen-answers.ts";
import { projectsAndUsers } from "./projects-and-users.setup.ts";
import type { SqlDatabase } from "./sql-database.ts";
import { describeEachSqlEngine } from "./sql-engines.contract.ts";

const AT = new Date("2026-03-01T00:00:00Z");
const LATER = new Date("2026-03-02T00:00:00Z");
const answer = (key: string, body = `"${key}"`, computedAt = AT) => ({ key, body, computedAt });

describeEachSqlEngine("FrozenAnswers", (open) => {
  let database: SqlDatabase;
  let frozen: FrozenAnswers;
  let experiments: readonly number[];
  beforeAll(async () => {
    database = await open();
    frozen = createFrozenAnswers(database);
    const project = await (await projectsAndUsers(database)).newProject();
    experiments = await experimentsOf(database, project, 4);
  });
  afterAll(() => database.close());
  const experiment = (index: number) => experiments[index] ?? -1;

  test("[XK-1] keeps the first answer to a question as it is", async () => {
    const id = experiment(0);
    expect(await frozen.freeze(id, "w", [answer("a"), answer("b")])).toHaveLength(2);
    const again = [answer("a", '"other"', LATER), answer("c", '{"text":"\\u0000ß"}', LATER)];
    const kept = await frozen.freeze(id, "w", again);
    expect(kept.toSorted((left, right) => (left.key < right.key ? -1 : 1))).toEqual([
      answer("a"),
      again[1],
    ]);
    expect(await frozen.find(id, ["a", "x"])).toEqual([answer("a")]);
    expect(await frozen.find(experiment(1), ["a"])).toEqual([]);
  });

  test("[XK-1] keeps one of two that come at once", async () => {
    const id = experiment(1);
    const both = await Promise.all(
      ["1", "2"].map((body) => frozen.freeze(id, "w", [answer("a", body)])),
    );
    const [kept] = await frozen.find(id, ["a"]);
    expect(both.flat()).toEqual([kept, kept]);
  });

  test("[XK-1] forgets what was answered of another window", async () => {
    const id = experiment(2);
    await frozen.freeze(id, "w", [answer("a")]);
    await frozen.freeze(id, "v", [answer("b")]);
    expect(await frozen.find(id, ["a", "b"])).toEqual([answer("b")]);
  });

  test("[XK-1] keeps so many answers of an experiment, and so much text, and no more", async () => {
    const id = experiment(3);
    const many = Array.from({ length: MAX_FROZEN_ANSWERS + 5 }, (_, n) => answer(`k${n}`));
    expect(await frozen.freeze(id, "w", many)).toHaveLength(MAX_FROZEN_ANSWERS);
    expect(await frozen.freeze(id, "w", [answer("more")])).toEqual([]);
    const large = answer("large", "x".repeat(MAX_FROZEN_CHARS / 2));
    expect(await frozen.freeze(id, "v", [large])).toHaveLength(1);
    const others = [{ ...large, key: "second" }, { ...large, key: "third" }, answer("small")];
    expect((await frozen.freeze(id, "v", others)).map(({ key }) => key).sort()).toEqual(["second"]);
  });
});

async function experimentsOf({ writes }: SqlDatabase, projectId: number, count: number) {
  const flag = {
    project_id: projectId,
    key: "button",
    name: "",
    active: 1,
    deleted: 0,
    version: 1,
    filters: "{}",
    is_multivariate: 1,
    is_constant: 0,
    sealed_payloads: null,
    ensure_experience_continuity: 0,
    bucketing_identifier: "distinct_id",
    evaluation_runtime: "all",
    evaluation_contexts: "[]",
    tags: "[]",
    is_remote_configuration: 0,
    creation_context: "",
    details: "{}",
    created_at: 0,
    updated_at: 0,
    created_by: null,
    last_modified_by: null,
    last_called_at: null,
    changed_revision: 0,
  };
  const { id: flagId } = await writes
    .insertInto("feature_flags")
    .values(flag)
    .returning("id")
    .executeTakeFirstOrThrow();
  const experiment = {
    project_id: projectId,
    name: "",
    description: null,
    start_date: null,
    end_date: null,
    flag_id: flagId,
    exposure_cohort_id: null,
    type: "product",
    parameters: "{}",
    filters: "{}",
    secondary_metrics: "[]",
    metrics: "[]",
    metrics_secondary: "[]",
    exposure_criteria: "{}",
    stats_config: "{}",
    primary_order: "[]",
    secondary_order: "[]",
    conclusion: null,
    conclusion_comment: null,
    archived: 0,
    deleted: 0,
    created_at: 0,
    updated_at: 0,
    created_by: null,
  };
  const rows = await writes
    .insertInto("experiments")
    .values(Array.from({ length: count }, () => experiment))
    .returning("id")
    .execute();
  return rows.map(({ id }) => id);
}
