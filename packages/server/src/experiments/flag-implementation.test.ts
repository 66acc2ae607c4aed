import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pino } from "pino";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { composeService, type Service } from "../compose.ts";
import { readConfig } from "../config.ts";

const KEY = "phx_flag_implementation_test";
const TOKEN = "phc_flag_implementation_test";
const EXPERIMENTS = "/api/projects/1/experiments";

describe("what experiments need beside their numbers", () => {
  const data = mkdtempSync(join(tmpdir(), "hedgerow-implementation-"));
  let service: Service;
  const ask = async (method: "GET" | "POST" | "PATCH", url: string, payload?: object) => {
    const response = await service.app.inject({
      method,
      url,
      headers: { authorization: `Bearer ${KEY}` },
      ...(payload && { payload }),
    });
    return { status: response.statusCode, body: response.json() };
  };
  const capture = async (batch: object[]) => {
    const response = await service.app.inject({
      method: "POST",
      url: "/batch",
      payload: { api_key: TOKEN, batch },
    });
    expect(response.statusCode).toBe(200);
  };
  const launched = async (key: string) => {
    const { body } = await ask("POST", EXPERIMENTS, { name: key, feature_flag_key: key });
    expect((await ask("POST", `${EXPERIMENTS}/${body.id}/launch`)).status).toBe(200);
    return body.id as number;
  };
  const requires = async (query = "") =>
    (await ask("GET", `${EXPERIMENTS}/requires_flag_implementation${query}`)).body;
  const eventually = async <Result>(
    look: () => Promise<Result>,
    is: (result: Result) => boolean,
  ) => {
    for (let attempt = 0; attempt < 600; attempt += 1) {
      const result = await look();
      if (is(result)) return result;
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
    return await look();
  };

  beforeAll(async () => {
    service = await composeService(
      readConfig(["--data", data], { HEDGEROW_PERSONAL_KEY: KEY, HEDGEROW_PROJECT_KEY: TOKEN }),
      pino({ level: "silent" }),
    );
  });
  afterAll(async () => {
    await service.close();
    rmSync(data, { recursive: true, force: true });
  });

  it("[XP-10] lists running experiments whose flag no event carries, and whether any flag is asked for", async () => {
    const called = await launched("called");
    const carried = await launched("carried");
    const unused = await launched("unused");
    await ask("POST", EXPERIMENTS, { name: "draft", feature_flag_key: "draft" });
    const before = await requires();
    expect(before).toMatchObject({ result: true, count: 3, next: null, previous: null });
    expect(before.results.map(({ id }: { id: number }) => id)).toEqual([unused, carried, called]);
    expect((await requires("?limit=1")).results).toHaveLength(1);

    await capture([
      {
        event: "$feature_flag_called",
        distinct_id: "a",
        properties: { $feature_flag: "called", $feature_flag_response: "test" },
      },
      { event: "viewed", distinct_id: "a", properties: { "$feature/carried": "control" } },
      { event: "plain", distinct_id: "a", properties: {} },
    ]);
    const after = await eventually(requires, ({ count }) => count === 1);
    expect(after).toMatchObject({ result: false, count: 1, results: [{ id: unused }] });
    const of = (events: unknown) =>
      requires(`?events=${encodeURIComponent(JSON.stringify(events))}`);
    expect((await of([{ id: "viewed" }])).result).toBe(false);
    expect((await of([{ id: "plain" }])).result).toBe(true);
    expect((await requires("?events=nonsense")).result).toBe(false);
  });

  it("[XP-11] makes one cohort of those who were exposed since the start", async () => {
    const { body: draft } = await ask("POST", EXPERIMENTS, {
      name: "Exposed",
      feature_flag_key: "exposed",
    });
    const make = (id: number) =>
      ask("POST", `${EXPERIMENTS}/${id}/create_exposure_cohort_for_experiment`);
    expect((await make(draft.id)).body).toMatchObject({
      code: "invalid_input",
      detail: "Experiment does not have a start date",
    });
    await ask("POST", `${EXPERIMENTS}/${draft.id}/launch`);
    await capture([
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
    const persons = await eventually(
      async () => (await ask("GET", `/api/projects/1/cohorts/${body.cohort.id}/persons`)).body,
      ({ results }) => results.length > 0,
    );
    expect(
      persons.results.map(({ distinct_ids }: { distinct_ids: string[] }) => distinct_ids),
    ).toEqual([["seen"]]);
  });

  it("[XP-11] looks at an exposure event of the experiment's own, and refuses actions", async () => {
    const exposed = async (body: object) => {
      const { body: made } = await ask("POST", EXPERIMENTS, {
        name: "own",
        feature_flag_key: `own-${Math.random()}`.replace(".", "-"),
        start_date: "2026-01-01T00:00:00Z",
        ...body,
      });
      return await ask("POST", `${EXPERIMENTS}/${made.id}/create_exposure_cohort_for_experiment`);
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
