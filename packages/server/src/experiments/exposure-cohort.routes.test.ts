import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { openExperimentsService } from "./experiments-service.setup.ts";

describe("the cohort of those who were exposed", () => {
  let service: Awaited<ReturnType<typeof openExperimentsService>>;
  let made = 0;
  beforeAll(async () => {
    service = await openExperimentsService();
  });
  afterAll(() => service.close());

  /** The rules of the cohort, of which a member meets any. */
  const rulesOf = async (fields: object) => {
    made += 1;
    const { id } = await service.done("POST", "experiments", {
      name: "Exposed",
      feature_flag_key: `exposed-${made}`,
      start_date: "2026-03-01T00:00:00Z",
      ...fields,
    });
    const path = `experiments/${id}/create_exposure_cohort_for_experiment`;
    const { cohort } = await service.done("POST", path, {});
    return cohort.filters.properties.values.map(
      (group: { values: { key: string; event_filters?: object[] }[] }) =>
        group.values.map(({ key, event_filters }) => ({ key, event_filters })),
    );
  };
  const path = { key: "path", type: "event", operator: "exact", value: ["/pay"] };
  const carried = () => ({ key: `$feature/exposed-${made}`, type: "event", operator: "is_set" });

  it("[XP-11] meets the conditions of the experiment's own exposure event", async () => {
    const exposure_config = {
      kind: "ExperimentEventExposureConfig",
      event: "page",
      properties: [path],
    };
    expect(await rulesOf({ exposure_criteria: { exposure_config } })).toEqual([
      [{ key: "page", event_filters: [path, expect.objectContaining(carried())] }],
    ]);
    const custom_exposure_filter = { events: [{ id: "page", type: "events", properties: [path] }] };
    expect(await rulesOf({ parameters: { custom_exposure_filter } })).toEqual([
      [{ key: "page", event_filters: [path, expect.objectContaining(carried())] }],
    ]);
  });

  it("[XP-11] is of any step of an action that exposes", async () => {
    const steps = [{ event: "page", properties: [path] }, { event: "screen" }];
    const exposure_config = { kind: "ActionsNode", steps };
    expect(await rulesOf({ exposure_criteria: { exposure_config } })).toEqual([
      [{ key: "page", event_filters: [path, expect.objectContaining(carried())] }],
      [{ key: "screen", event_filters: [expect.objectContaining(carried())] }],
    ]);
  });

  it("[XP-11] is of the flag's calls otherwise, and not to be had of events of every name", async () => {
    const called = { key: "$feature_flag", type: "event", operator: "exact" };
    expect(await rulesOf({})).toEqual([
      [
        {
          key: "$feature_flag_called",
          event_filters: [{ ...called, value: [`exposed-${made}`] }],
        },
      ],
    ]);
    await expect(
      rulesOf({
        exposure_criteria: { exposure_config: { kind: "ActionsNode", steps: [{ event: null }] } },
      }),
    ).rejects.toThrow("An event must have a name");
  });
});
