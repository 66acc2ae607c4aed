import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pino } from "pino";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { composeService, type Service } from "../compose.ts";
import { readConfig } from "../config.ts";

const KEY = "phx_flag_usage_test";
const TOKEN = "phc_flag_usage_test";

describe("how flags are used", () => {
  const data = mkdtempSync(join(tmpdir(), "hedgerow-flag-usage-"));
  let service: Service;
  const open = async () => {
    service = await composeService(
      readConfig(["--data", data], {
        HEDGEROW_PERSONAL_KEY: KEY,
        HEDGEROW_PROJECT_KEY: TOKEN,
        HEDGEROW_COUNT_FLAG_REQUESTS: "100",
      }),
      pino({ level: "silent" }),
    );
  };
  beforeAll(open);
  afterAll(async () => {
    await service.close();
    rmSync(data, { recursive: true, force: true });
  });

  const ask = async (method: "GET" | "POST", url: string, payload?: object) => {
    const response = await service.app.inject({
      method,
      url,
      headers: { authorization: `Bearer ${KEY}` },
      ...(payload && { payload }),
    });
    return { status: response.statusCode, body: response.json() };
  };
  const FLAGS = "/api/projects/1/feature_flags";
  const now = new Date();
  const called = (uuid: number, distinctId: string, value: unknown, ageMs = 0) => ({
    uuid: `00000000-0000-4000-8000-${String(uuid).padStart(12, "0")}`,
    event: "$feature_flag_called",
    distinct_id: distinctId,
    timestamp: new Date(now.getTime() - ageMs).toISOString(),
    properties: { $feature_flag: "used", $feature_flag_response: value, $session_id: "s" },
  });
  const capture = async (batch: object[]) => {
    const response = await service.app.inject({
      method: "POST",
      url: "/batch",
      payload: { api_key: TOKEN, batch },
    });
    expect(response.statusCode).toBe(200);
  };
  let id: number;

  test("[FU-1] calls are counted by day and answer as soon as they are captured, duplicates once", async () => {
    id = (await ask("POST", FLAGS, { key: "used" })).body.id;
    const batch = [called(1, "ann", "a"), called(2, "ben", "b"), called(3, "ann", "b", 1)];
    await capture(batch);
    await capture(batch.slice(0, 2));
    const { status, body } = await ask("GET", `${FLAGS}/${id}/usage?days=2`);
    expect(status).toBe(200);
    expect(body).toMatchObject({
      key: "used",
      calls: 3,
      values: [
        { value: "b", calls: 2 },
        { value: "a", calls: 1 },
      ],
    });
    expect(body.days.reduce((sum: number, day: { calls: number }) => sum + day.calls, 0)).toBe(3);
  });

  test("[FU-2] a person who got different answers is told with what they got", async () => {
    const { body } = await ask("GET", `${FLAGS}/${id}/drift`);
    expect(body).toMatchObject({ key: "used", persons: 2, drifting: 1 });
    expect(body.journeys).toHaveLength(1);
    expect(body.journeys[0].steps).toMatchObject([
      { value: "b", distinct_id: "ann", session_id: "s", calls: 1 },
      { value: "a", distinct_id: "ann", session_id: "s", calls: 1 },
    ]);
    expect((await ask("GET", `${FLAGS}/drift?days=2`)).body.results).toMatchObject([
      { key: "used", persons: 2, drifting: 1 },
    ]);
  });

  test("[FU-4] drift within one session is told apart, and above a threshold it is an alert", async () => {
    await capture([
      called(11, "cy", "a"),
      {
        ...called(12, "cy", "b"),
        properties: { $feature_flag: "used", $feature_flag_response: "b", $session_id: "t" },
      },
      called(13, "dee", "a"),
    ]);
    const drift = {
      key: "used",
      persons: 4,
      drifting: 2,
      drifting_in_session: 1,
      drifting_percentage: 50,
    };
    for (const [query, threshold, alert] of [
      ["", 5, true],
      ["?threshold=49.9", 49.9, true],
      ["?threshold=50", 50, false],
      ["?threshold=100", 100, false],
    ] as const) {
      const one = await ask("GET", `${FLAGS}/${id}/drift${query}`);
      expect(one.body).toMatchObject({ ...drift, threshold, alert });
      const { body } = await ask("GET", `${FLAGS}/drift${query}`);
      expect(body).toMatchObject({ threshold, results: [{ ...drift, alert }] });
    }
  });

  test.each(["-1", "100.1", "x", "1e1", "5,5"])(
    "[FU-4] refuses %s as a threshold",
    async (threshold) => {
      for (const path of [`${id}/drift`, "drift"]) {
        expect(await ask("GET", `${FLAGS}/${path}?threshold=${threshold}`)).toMatchObject({
          status: 400,
          body: { attr: "threshold" },
        });
      }
    },
  );

  test("[FU-5] what single persons got is not shown to keys that may not read persons", async () => {
    const { body: made } = await ask("POST", "/api/personal_api_keys", {
      label: "flags only",
      scopes: ["feature_flag:read"],
    });
    const response = await service.app.inject({
      method: "GET",
      url: `${FLAGS}/${id}/drift`,
      headers: { authorization: `Bearer ${made.value}` },
    });
    expect(response.json()).toMatchObject({ persons: 4, drifting: 2, journeys: [] });
  });

  test("[FM-29] the last call is on the flag once the service is closed, whatever is sent again", async () => {
    for (const distinct_id of ["ann", "ben"]) {
      const payload = { token: TOKEN, distinct_id };
      await service.app.inject({ method: "POST", url: "/flags?v=2", payload });
    }
    await service.close();
    await open();
    const { body } = await ask("GET", `${FLAGS}/${id}`);
    expect(new Date(body.last_called_at).getTime()).toBe(now.getTime());
    expect(body.version).toBe(1);
  });

  test("[FU-3] flag requests are counted where that is switched on", async () => {
    const { body } = await ask("GET", `${FLAGS}/${id}/usage?days=2`);
    expect(body.requests).toMatchObject([{ value: "false", times: 2 }]);
  });

  test.each(["0", "-1", "367", "x", "1.5"])("[FU-1] refuses %s days", async (days) => {
    for (const what of ["usage", "drift"]) {
      expect(await ask("GET", `${FLAGS}/${id}/${what}?days=${days}`)).toMatchObject({
        status: 400,
        body: { attr: "days" },
      });
    }
    expect((await ask("GET", `${FLAGS}/drift?days=${days}`)).status).toBe(400);
  });

  test("[FU-1] nothing is told of unknown flags", async () => {
    expect((await ask("GET", `${FLAGS}/999/usage`)).status).toBe(404);
    expect((await ask("GET", `${FLAGS}/999/drift`)).status).toBe(404);
  });
});
