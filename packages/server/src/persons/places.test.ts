import { randomUUID } from "node:crypto";
import type { JsonObject } from "@hedgerow/core/json";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { type ComposedProject, openComposedService } from "./composed-service.setup.ts";

const BRITISH = "81.2.69.142";
const AMERICAN = "8.8.8.8";
/** Two proxies in a trusted network. */
const [EDGE, INNER] = ["10.0.0.1", "10.0.0.2"];

let composed: Awaited<ReturnType<typeof openComposedService>>;
let project: ComposedProject;

beforeAll(async () => {
  composed = await openComposedService(["--trusted-proxies", "10.0.0.0/8"]);
});
afterAll(() => composed.close());
beforeEach(async () => {
  project = await composed.newProject();
});

interface Sender {
  /** The address at the other end of the connection. */
  readonly from: string;
  readonly forwardedFor?: string;
  readonly realIp?: string;
}

async function post(url: string, payload: object, { from, forwardedFor, realIp }: Sender) {
  const answer = await composed.service.app.inject({
    method: "POST",
    url,
    remoteAddress: from,
    headers: {
      ...(forwardedFor !== undefined && { "x-forwarded-for": forwardedFor }),
      ...(realIp !== undefined && { "x-real-ip": realIp }),
    },
    payload,
  });
  expect(answer.statusCode).toBe(200);
  return answer.json();
}

/** Captures an event; its properties as stored, and those of its person. */
async function capture(
  sender: Sender,
  properties: JsonObject = {},
  distinctId: string = randomUUID(),
) {
  const uuid = randomUUID();
  const event = { event: "seen", uuid, distinct_id: distinctId, properties };
  await post("/batch/", { api_key: project.token, batch: [event] }, sender);
  const { body } = await project.get(`events/${uuid}`);
  return { event: body.properties as JsonObject, person: body.person.properties as JsonObject };
}

async function countryFlags(sender: Sender, body: JsonObject) {
  const request = { token: project.token, ...body };
  return (await post("/flags/?v=1", request, sender)).featureFlags;
}

describe("the address of an event", () => {
  test("[GE-6] is the client's behind trusted proxies, with one setting, whoever else is named", async () => {
    const forwarded = { from: EDGE, forwardedFor: BRITISH };
    expect((await capture(forwarded)).event).toMatchObject({
      $ip: BRITISH,
      $geoip_country_code: "GB",
    });
    // client, app, edge; each hop overwrites the other header.
    const chained = { from: EDGE, forwardedFor: `${BRITISH}, ${INNER}, 10.9.9.9`, realIp: INNER };
    expect((await capture(chained)).event).toMatchObject({ $ip: BRITISH });
    const forged = {
      from: EDGE,
      forwardedFor: `${AMERICAN}, ${BRITISH}, ${INNER}`,
      realIp: AMERICAN,
    };
    expect((await capture(forged)).event).toMatchObject({ $ip: BRITISH });
  });

  test("[GE-6] is the peer's where the peer is nobody who may forward", async () => {
    const forging = { from: AMERICAN, forwardedFor: BRITISH, realIp: BRITISH };
    expect((await capture(forging)).event).toMatchObject({
      $ip: AMERICAN,
      $geoip_country_code: "US",
    });
  });

  test("[GE-7] gives its person a place, the first one and the latest", async () => {
    const id = randomUUID();
    await capture({ from: BRITISH }, {}, id);
    const { person } = await capture({ from: AMERICAN }, {}, id);
    expect(person).toMatchObject({
      $geoip_country_code: "US",
      $initial_geoip_country_code: "GB",
      $geoip_continent_name: "North America",
      $initial_geoip_continent_name: "Europe",
    });
  });

  test("[GE-7] says nothing where the event comes from a server, and leaves what is known", async () => {
    const id = randomUUID();
    await capture({ from: BRITISH }, {}, id);
    const { event, person } = await capture({ from: AMERICAN }, { $geoip_disable: true }, id);
    expect(event).toMatchObject({ $ip: AMERICAN });
    expect(Object.keys(event).filter((name) => name.startsWith("$geoip_"))).toEqual([
      "$geoip_disable",
    ]);
    expect(person).toMatchObject({ $geoip_country_code: "GB", $initial_geoip_country_code: "GB" });
    // A stranger's first event from a server gives no place at all.
    const stranger = await capture({ from: AMERICAN }, { $geoip_disable: true });
    expect(JSON.stringify(stranger.person)).not.toContain("geoip");
  });

  test("[GE-7] is the one that the event gives, before that of the connection", async () => {
    const { event, person } = await capture({ from: AMERICAN }, { $ip: BRITISH });
    expect(event).toMatchObject({ $ip: BRITISH, $geoip_country_code: "GB" });
    expect(person).toMatchObject({ $geoip_country_code: "GB" });
    const given = await capture({ from: AMERICAN }, { $geoip_country_code: "FR" });
    expect(given.event).toMatchObject({ $geoip_country_code: "FR", $geoip_continent_code: "NA" });
    expect(given.person).toMatchObject({ $geoip_country_code: "FR" });
  });

  test("[GE-8] is not kept where the project anonymizes, nor is its place", async () => {
    expect((await composed.send("PATCH", project.path, { anonymize_ips: true })).status).toBe(200);
    for (const properties of [{}, { $ip: BRITISH }]) {
      const { event, person } = await capture({ from: AMERICAN }, properties);
      expect(event).not.toHaveProperty("$ip");
      expect(JSON.stringify([event, person])).not.toContain("geoip");
    }
  });
});

describe("the place of a flag request", () => {
  test("[GE-7] is not that of a server which says so; what is stored stays in force", async () => {
    await project.createFlag("british", {
      groups: [
        {
          rollout_percentage: 100,
          properties: [
            { key: "$geoip_country_code", type: "person", operator: "exact", value: ["GB"] },
          ],
        },
      ],
    });
    const id = randomUUID();
    await capture({ from: BRITISH }, {}, id);
    const server = { from: AMERICAN };
    const flags = (body: JsonObject) => countryFlags(server, { distinct_id: id, ...body });
    expect(await flags({})).toEqual({ british: false });
    expect(await flags({ geoip_disable: true })).toEqual({ british: true });
    // The request's own property before the address, that before what is stored.
    expect(await flags({ person_properties: { $geoip_country_code: "GB" } })).toEqual({
      british: true,
    });
    expect(
      await countryFlags(
        { from: AMERICAN, forwardedFor: BRITISH },
        { distinct_id: id, person_properties: { $geoip_country_code: "FR" } },
      ),
    ).toEqual({ british: false });
    const { body } = await project.get(`persons?distinct_id=${id}`);
    expect(body.results[0].properties).toMatchObject({ $geoip_country_code: "GB" });
  });
});
