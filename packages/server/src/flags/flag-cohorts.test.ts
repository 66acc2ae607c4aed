import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { withResolvers } from "../platform/with-resolvers.ts";
import { createFlagCohorts } from "./flag-cohorts.ts";
import { openFlagsApi } from "./flags-api.setup.ts";

type Api = Awaited<ReturnType<typeof openFlagsApi>>;

describe("cohorts of whom a flag is on for", () => {
  let api: Api;
  let projectId: number;
  let flagId: number;
  let uuids: string[];
  beforeEach(async () => {
    api = await openFlagsApi();
    projectId = await api.newProject();
    uuids = [];
    for (const name of ["ann", "bob"]) uuids.push((await api.newPerson(projectId, [name])).uuid);
    flagId = (await api.send("POST", `/api/projects/${projectId}/feature_flags`, { key: "f" })).body
      .id;
  });
  afterEach(() => api.close());

  const create = (
    personsOf: () => AsyncIterable<readonly string[]>,
    { patienceMs = 60_000, faults = [] as unknown[] } = {},
  ) =>
    createFlagCohorts({
      ...api,
      reach: { personsOf },
      clock: () => api.clock.now,
      reportFault: (error) => faults.push(error),
      patienceMs,
    });
  const cohortOf = (id: number) => api.cohorts.cohort(projectId, id);

  test("[FM-32] are answered with everybody in them where that is soon", async () => {
    const { create: make } = create(async function* () {
      yield [];
      yield uuids;
    });
    expect(await make(projectId, flagId, api.user.id)).toMatchObject({
      memberCount: 2,
      isCalculating: false,
    });
  });

  test("[CO-35] that are broken off by the end of the process say so, and keep who was added", async () => {
    let next = () => {};
    const { promise: areFirstAdded, resolve: added } = withResolvers();
    const faults: unknown[] = [];
    const flagCohorts = create(
      async function* () {
        yield uuids.slice(0, 1);
        added();
        await new Promise<void>((resolve) => {
          next = resolve;
        });
        yield uuids;
      },
      { patienceMs: 0, faults },
    );
    const { id, isCalculating } = await flagCohorts.create(projectId, flagId, api.user.id);
    expect(isCalculating).toBe(true);
    await areFirstAdded;
    const closed = flagCohorts.close();
    next();
    await closed;
    expect(faults).toEqual([]);
    expect(await cohortOf(id)).toMatchObject({
      memberCount: 1,
      errorsCalculating: 1,
      calculationError: expect.stringContaining("broken off"),
    });
  });

  test("[CO-35] whose persons cannot be read fail while they are waited for, and are reported later", async () => {
    const broken = async function* () {
      yield uuids.slice(0, 1);
      throw new Error("out of order");
    };
    await expect(create(broken).create(projectId, flagId, api.user.id)).rejects.toThrow(
      "out of order",
    );
    const faults: unknown[] = [];
    const { promise: isToFail, resolve: fail } = withResolvers();
    const late = create(
      async function* () {
        await isToFail;
        yield* broken();
      },
      { patienceMs: 0, faults },
    );
    const { id } = await late.create(projectId, flagId, api.user.id);
    fail();
    await expect.poll(() => faults).toEqual([new Error("out of order")]);
    await late.close();
    expect((await cohortOf(id)).errorsCalculating).toBe(1);
  });
});
