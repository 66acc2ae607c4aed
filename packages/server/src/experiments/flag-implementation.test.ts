import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { openExperimentsService } from "./experiments-service.setup.ts";

describe("what experiments need beside their numbers", () => {
  let service: Awaited<ReturnType<typeof openExperimentsService>>;
  const launched = async (key: string) => {
    const { body } = await service.send("POST", "experiments", {
      name: key,
      feature_flag_key: key,
    });
    expect((await service.send("POST", `experiments/${body.id}/launch`)).status).toBe(200);
    return body.id as number;
  };
  const requires = async (query = "") =>
    (await service.send("GET", `experiments/requires_flag_implementation${query}`)).body;
  beforeAll(async () => {
    service = await openExperimentsService();
  });
  afterAll(() => service.close());

  it("[XP-10] lists running experiments whose flag no event carries, and whether any flag is asked for", async () => {
    const called = await launched("called");
    const carried = await launched("carried");
    const unused = await launched("unused");
    await service.send("POST", "experiments", { name: "draft", feature_flag_key: "draft" });
    const before = await requires();
    expect(before).toMatchObject({ result: true, count: 3, next: null, previous: null });
    expect(before.results.map(({ id }: { id: number }) => id)).toEqual([unused, carried, called]);
    expect((await requires("?limit=1")).results).toHaveLength(1);

    await service.capture([
      {
        event: "$feature_flag_called",
        distinct_id: "a",
        properties: { $feature_flag: "called", $feature_flag_response: "test" },
      },
      { event: "viewed", distinct_id: "a", properties: { "$feature/carried": "control" } },
      { event: "plain", distinct_id: "a", properties: {} },
    ]);
    await expect
      .poll(requires)
      .toMatchObject({ result: false, count: 1, results: [{ id: unused }] });
    const of = (events: unknown) =>
      requires(`?events=${encodeURIComponent(JSON.stringify(events))}`);
    expect((await of([{ id: "viewed" }])).result).toBe(false);
    expect((await of([{ id: "plain" }])).result).toBe(true);
    expect((await requires("?events=nonsense")).result).toBe(false);
  });

  it("[XP-11] makes one cohort of those who were exposed since the start", async () => {
    const { body: draft } = await service.send("POST", "experiments", {
      name: "Exposed",
      feature_flag_key: "exposed",
    });
    const make = (id: number) =>
      service.send("POST", `experiments/${id}/create_exposure_cohort_for_experiment`);
    expect((await make(draft.id)).body).toMatchObject({
      code: "invalid_input",
      detail: "Experiment does not have a start date",
    });
    await service.send("POST", `experiments/${draft.id}/launch`);
    await service.capture([
      {
        event: "$feature_flag_called",
        distinct_id: "seen",
        properties: { $feature_flag: "exposed", $feature_flag_response: "test" },
      },
      {
        event: "$feature_flag_called",
        distinct_id: "elsewhere",
        properties: { $feature_flag: "other", $feature_flag_response: "test" },
      },
    ]);
    const { status, body } = await make(draft.id);
    expect(status).toBe(200);
    expect(body).toMatchObject({
      id: draft.id,
      name: "Exposed",
      exposure_cohort: body.cohort.id,
      cohort: { name: 'Users exposed to experiment "Exposed"', is_static: false },
    });
    expect((await make(draft.id)).body).toMatchObject({
      detail: "Experiment already has an exposure cohort",
    });
    const members = async () => {
      const { results } = (await service.send("GET", `cohorts/${body.cohort.id}/persons`)).body;
      return results.map(({ distinct_ids }: { distinct_ids: string[] }) => distinct_ids);
    };
    await expect.poll(members).toEqual([["seen"]]);
  });

  it("[XP-11] looks at an exposure event of the experiment's own, and refuses actions", async () => {
    const exposed = async (body: object) => {
      const { body: made } = await service.send("POST", "experiments", {
        name: "own",
        feature_flag_key: `own-${Math.random()}`.replace(".", "-"),
        start_date: "2026-01-01T00:00:00Z",
        ...body,
      });
      return await service.send(
        "POST",
        `experiments/${made.id}/create_exposure_cohort_for_experiment`,
      );
    };
    const own = await exposed({
      exposure_criteria: {
        exposure_config: { kind: "ExperimentEventExposureConfig", event: "opened" },
      },
    });
    const [rule] = own.body.cohort.filters.properties.values[0].values;
    expect(rule).toMatchObject({ key: "opened" });
    const older = await exposed({
      parameters: { custom_exposure_filter: { events: [{ id: "seen", type: "events" }] } },
    });
    expect(older.body.cohort.filters.properties.values[0].values[0]).toMatchObject({ key: "seen" });
    const action = await exposed({
      parameters: { custom_exposure_filter: { actions: [{ id: 7, type: "actions" }] } },
    });
    expect(action).toMatchObject({ status: 400, body: { detail: "Invalid action ID" } });
  });
});
