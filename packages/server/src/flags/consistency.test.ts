import { compileFlags } from "@hedgerow/core/flags/compile-flags";
import type { ProjectDefinitions } from "@hedgerow/core/flags/flag";
import type { Json, JsonObject } from "@hedgerow/core/json";
import { describe, expect, test } from "vitest";
import { type CheckConsistency, createCheckConsistency, type LocalFeed } from "./consistency.ts";
import type { LiveFlag, VersionedDefinitions } from "./flag-store.ts";
import { openFlagsApi } from "./flags-api.setup.ts";
import { wireLocalDefinitions } from "./local-evaluation.schemas.ts";

const now = new Date("2026-03-01T10:00:00Z");
const liveFlag = (
  id: number,
  key: string,
  groups: Json,
  more: Partial<LiveFlag> = {},
): LiveFlag => ({
  id,
  key,
  name: "",
  active: true,
  version: 1,
  filters: { groups },
  ensureExperienceContinuity: false,
  bucketingIdentifier: "distinct_id",
  evaluationRuntime: "all",
  evaluationContexts: [],
  hasExperiment: false,
  isSurveyFlag: false,
  isRemoteConfiguration: false,
  sealedPayloads: null,
  ...more,
});
const plan = { key: "plan", type: "person", operator: "exact", value: "pro" };
const when = (...properties: Json[]) => [{ properties, rollout_percentage: 100 }];
const cohort = (id: number, isStatic: boolean, filters: JsonObject) => ({
  id,
  name: `cohort ${id}`,
  isStatic,
  filters,
});
const inCohort = (value: number, operator = "in") => ({
  key: "id",
  type: "cohort",
  value,
  operator,
});

const definitions: VersionedDefinitions = {
  revision: 1,
  timeZone: "UTC",
  groupTypes: [{ index: 0, name: "company" }],
  cohorts: [
    cohort(1, false, { properties: { type: "OR", values: [plan] } }),
    cohort(2, false, {
      properties: { type: "OR", values: [{ ...inCohort(1, "not_in") }] },
    }),
    cohort(3, true, {}),
  ],
  flags: [
    liveFlag(1, "half", [{ properties: [], rollout_percentage: 50 }]),
    liveFlag(2, "pro", when(plan)),
    liveFlag(3, "cohort", when(inCohort(1))),
    liveFlag(4, "no-cohort", when(inCohort(2)), { evaluationRuntime: "client" }),
    liveFlag(5, "static", when(inCohort(3))),
    liveFlag(6, "of-company", [
      { properties: [], rollout_percentage: 50, aggregation_group_type_index: 0 },
    ]),
    liveFlag(
      7,
      "needs-pro",
      when({ key: "2", type: "flag", operator: "flag_evaluates_to", value: true }),
    ),
    liveFlag(
      8,
      "needs-static",
      when({ key: "5", type: "flag", operator: "flag_evaluates_to", value: true }),
    ),
    liveFlag(9, "off", when(), { active: false }),
    liveFlag(10, "steady", when(plan), { ensureExperienceContinuity: true }),
  ],
};

const compile = (made: ProjectDefinitions) => compileFlags(made);

function check(
  feedOf: (...args: Parameters<typeof wireLocalDefinitions>) => LocalFeed = wireLocalDefinitions,
  options: { readonly maxCompareMs?: number } = {},
): CheckConsistency {
  const snapshot = { revision: 1, definitions, flagSet: compile(definitions) };
  return createCheckConsistency({
    audience: {
      countPersons: async () => 60,
      countGroups: async () => 2,
      async *persons() {
        yield Array.from({ length: 60 }, (_, n) => ({
          uuid: `uuid-${n}`,
          distinctId: `person-${n}`,
          facts: {
            properties: n % 3 === 0 ? { plan: "pro" } : n % 3 === 1 ? { plan: "free" } : {},
            createdAt: now,
            staticCohortIds: new Set(n % 2 ? [3] : []),
            hashKeyOverrides: new Map<string, string>(),
          },
        }));
      },
      async *groups() {
        yield [
          { key: "acme", properties: {} },
          { key: "b", properties: {} },
        ];
      },
    },
    compiledFlags: { get: () => snapshot },
    compile,
    feedOf,
    clock: () => now,
    ...options,
  });
}

describe("comparing local with remote evaluation", () => {
  test("[LE-14] finds no difference, and tells what SDKs leave to the server", async () => {
    expect(await check()(1, { maxPersons: 50 })).toEqual({
      flags: 10,
      // static, needs-static, steady
      leftToServer: 3,
      persons: 50,
      isPartial: false,
      compared: 50 * 7 * 2,
      differing: 0,
      differences: [],
    });
  });

  test("[LE-14] ends when the time is over, and says so", async () => {
    const report = await check(wireLocalDefinitions, { maxCompareMs: 0 })(1, { maxPersons: 50 });
    expect(report).toMatchObject({ persons: 1, isPartial: true, compared: 7 * 2 });
  });

  test("[LE-14] finds what a feed that tells something else makes of a flag, with the persons", async () => {
    const wrong: typeof wireLocalDefinitions = (projectId, made, options) => {
      const feed = wireLocalDefinitions(projectId, made, options);
      if (options.sendCohorts) return feed;
      const flags = feed.flags.map((flag) =>
        flag.key === "pro" ? { ...flag, filters: { groups: [] } } : flag,
      );
      return { ...feed, flags };
    };
    const report = await check(wrong)(1, { maxPersons: 60 });
    // The flag itself and the one that depends on it, for every person on the pro plan.
    expect(report.differing).toBe(40);
    expect(report.differences[0]).toEqual({
      key: "pro",
      feed: "without_cohorts",
      distinctId: "person-0",
      personId: "uuid-0",
      local: false,
      server: true,
    });
    expect(new Set(report.differences.map(({ key }) => key))).toEqual(
      new Set(["pro", "needs-pro"]),
    );
  });
});

describe("comparing over HTTP", () => {
  test("[LE-14] differences name their persons to keys that may read persons, and to no others", async () => {
    const api = await openFlagsApi({
      feedOf: (projectId, made, options) => {
        const feed = wireLocalDefinitions(projectId, made, options);
        return { ...feed, flags: feed.flags.map((flag) => ({ ...flag, active: false })) };
      },
    });
    try {
      const projectId = await api.newProject();
      const { uuid } = await api.newPerson(projectId, ["ann"]);
      const path = `/api/projects/${projectId}/feature_flags`;
      const filters = { groups: [{ properties: [], rollout_percentage: 100 }] };
      await api.send("POST", path, { key: "on", filters });
      const difference = { key: "on", local: false, server: true };
      for (const [scopes, named] of [
        [["*"], { distinct_id: "ann", person_id: uuid }],
        [["feature_flag:read"], { distinct_id: null, person_id: null }],
      ] as const) {
        api.granted.scopes = scopes;
        const { status, body } = await api.send("GET", `${path}/consistency`);
        expect(status).toBe(200);
        expect(body).toMatchObject({ persons: 1, differing: 2 });
        expect(body.differences[0]).toMatchObject({ ...difference, ...named });
      }
    } finally {
      await api.close();
    }
  });
});
