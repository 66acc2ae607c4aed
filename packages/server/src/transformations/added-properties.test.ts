import type { JsonObject } from "@hedgerow/core/json";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { sampleEvent } from "../events/event-log.contract.ts";
import { transformationsPipeline } from "./at-work.setup.ts";

/** More than it takes until events of one kind go the shortest way. */
const IDS = ["ada", "bob", "cleo", "dan", "eve", "fay"];

describe("what a transformation adds", () => {
  let run: Awaited<ReturnType<typeof transformationsPipeline>>;
  beforeAll(async () => {
    run = await transformationsPipeline();
  });
  afterAll(() => run.close());

  /** One event of each person, one after the other, through a transformation of its own. */
  async function pass(code: string, { name = "seen", own = {} as JsonObject } = {}) {
    const projectId = await run.newProject();
    const source = `export function processEvent(event) { ${code}; return event }`;
    await run.enable(projectId, "Add", source);
    for (const distinctId of IDS) {
      const properties = { $browser: "Chrome", $lib: "web", ...own };
      await run.append([sampleEvent({ projectId, event: name, distinctId, properties })]);
      await run.settle();
    }
    const find = (id: string) => run.persons.personByDistinctId(projectId, id);
    return { projectId, persons: await Promise.all(IDS.map(find)) };
  }

  it("[TP-65] can keep an event from making a person", async () => {
    const { persons } = await pass("event.properties.$process_person_profile = false");
    expect(persons).toEqual(IDS.map(() => undefined));
  });

  it("[TP-65] names groups", async () => {
    const { projectId } = await pass(
      "event.properties.$groups = { ['type of ' + event.distinct_id]: 'acme' }",
    );
    expect(await run.persons.groupTypes(projectId)).toHaveLength(5);
  });

  it.each([
    ["$identify", "$anon_distinct_id"],
    ["$create_alias", "alias"],
  ])("[TP-65] makes one person of two with %s", async (name, property) => {
    const { persons } = await pass(
      `event.properties[${JSON.stringify(property)}] = "anonymous " + event.distinct_id`,
      { name },
    );
    expect(persons.map((person) => person?.distinctIds.length)).toEqual(IDS.map(() => 2));
  });

  it("[TP-65] tells of a person, or that it does not", async () => {
    const told = await pass("event.properties.$os_name = 'iOS'; event.properties.plain = 1");
    expect(told.persons.map((person) => person?.properties["$os"])).toEqual(IDS.map(() => "iOS"));
    const { persons } = await pass(
      "event.properties.$geoip_city_name = 'Rome'; event.properties.$geoip_disable = true",
    );
    expect(persons.map((person) => person?.properties["$geoip_city_name"])).toEqual(
      IDS.map(() => undefined),
    );
  });

  it("[TP-65] stands with the event's own properties in the store, behind them", async () => {
    const { projectId } = await pass(
      "event.properties.a = 1; event.properties['z z'] = { n: [1] }",
      {
        own: { b: 2 },
      },
    );
    const stored = await run.stored(projectId);
    expect(stored).toHaveLength(IDS.length);
    for (const { properties } of stored) {
      const { $plugins_succeeded, ...rest } = properties;
      expect(JSON.stringify(rest)).toBe(
        '{"$browser":"Chrome","$lib":"web","b":2,"a":1,"z z":{"n":[1]},"$plugins_failed":[]}',
      );
      expect($plugins_succeeded).toEqual([expect.stringContaining("Add (")]);
    }
  });
});
