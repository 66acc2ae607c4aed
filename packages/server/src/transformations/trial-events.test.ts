import { randomUUID } from "node:crypto";
import type { Json } from "@hedgerow/core/json";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { examine } from "../events/capture.ts";
import { createRecentEvents } from "../events/recent-events.ts";
import { transformationsPipeline } from "./at-work.setup.ts";
import { readTrialEvents } from "./trial-events.ts";

const uuid = randomUUID();

/** Events as clients send them. */
const SENT: readonly (readonly [what: string, event: Json])[] = [
  [
    "one with everything",
    { event: "a", distinct_id: "d", uuid, properties: { a: [1, { b: "ü" }] } },
  ],
  ["person fields beside the properties", { event: "a", distinct_id: "d", $set: { t: 1 } }],
  [
    "person fields in both places",
    { event: "a", distinct_id: "d", $set: { t: 1 }, properties: { $set: { t: 2, u: 3 } } },
  ],
  ["a number for a person", { event: "a", distinct_id: 5 }],
  ["a person among the properties", { event: "a", properties: { distinct_id: "p" } }],
  ["a uuid in capitals", { event: "a", distinct_id: "d", uuid: uuid.toUpperCase() }],
  [
    "a time with an offset",
    { event: "a", distinct_id: "d", timestamp: "2026-03-01T11:00:00+02:00" },
  ],
  ["a time that lies ahead", { event: "a", distinct_id: "d", timestamp: "2086-03-01T11:00:00Z" }],
  ["an offset", { event: "a", distinct_id: "d", offset: 5_000 }],
  ["an address", { event: "a", distinct_id: "d", properties: { $ip: "89.160.20.112" } }],
  [
    "an address without its place",
    { event: "a", distinct_id: "d", properties: { $ip: "89.160.20.112", $geoip_disable: true } },
  ],
  [
    "claims",
    {
      event: "a",
      distinct_id: "d",
      properties: {
        $plugins_succeeded: ["x"],
        $plugins_deferred: [],
        $transformation_hops: 3,
        b: 1,
      },
    },
  ],
  ["a long name", { event: "e".repeat(500), distinct_id: "d" }],
  ["no object of properties", { event: "a", distinct_id: "d", properties: [] }],
];

describe("events of a trial", () => {
  let run: Awaited<ReturnType<typeof transformationsPipeline>>;
  beforeAll(async () => {
    run = await transformationsPipeline({ hasPlaces: true });
  });
  afterAll(() => run.close());

  it.each(SENT)("[TM-58] are those that the pipeline gives: %s", async (_what, event) => {
    const projectId = await run.newProject();
    const config = await run.enable(
      projectId,
      "Tell",
      "export function processEvent(event) { console.log(JSON.stringify(event)); return event }",
    );
    const now = new Date("2026-03-01T10:00:00.123Z");
    const id = randomUUID();
    const project = { projectId, anonymizeIps: false };
    const { outcomes } = await examine(
      {
        events: { known: (_project, asked) => asked.map(() => "new" as const) },
        recent: createRecentEvents(),
      },
      [event],
      {
        surroundings: {
          ...project,
          ...{ receivedAt: now, sentAt: null, clientAddress: null, nameForUnnamed: null },
          newUuid: () => id,
        },
        sizes: { chars: 1_000, exceeds: () => false },
      },
    );
    await run.append(outcomes.flatMap(({ taken }) => taken?.event ?? []));
    await run.settle();
    const told = (await run.lines(projectId, config.id)).find((line) => line.startsWith("{"));
    const { geoIp } = run;
    const siteUrl = "https://hedgerow.test";
    const tried = await readTrialEvents([event], {
      project,
      now,
      newUuid: () => id,
      siteUrl,
      geoIp,
    });
    expect(tried).toEqual([JSON.parse(told ?? "null")]);
  });
});
