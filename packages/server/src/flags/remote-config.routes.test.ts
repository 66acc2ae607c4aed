import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pino } from "pino";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { composeService, type Service } from "../compose.ts";
import { readConfig } from "../config.ts";

const HOLDER = { authorization: "Bearer phx_remote_config_test" };

describe("remote configuration", () => {
  const data = mkdtempSync(join(tmpdir(), "hedgerow-remote-config-"));
  let service: Service;

  beforeAll(async () => {
    service = await composeService(
      readConfig(["--data", data], { HEDGEROW_PERSONAL_KEY: "phx_remote_config_test" }),
      pino({ level: "silent" }),
    );
    const flags = [
      {
        key: "settings",
        is_remote_configuration: true,
        filters: { groups: [], payloads: { true: '{"a":[1]}' } },
      },
      { key: "empty", is_remote_configuration: true, filters: { groups: [] } },
      {
        key: "sealed",
        is_remote_configuration: true,
        has_encrypted_payloads: true,
        filters: { groups: [], payloads: { true: '{"a":[1]}' } },
      },
      { key: "ordinary", filters: { groups: [], payloads: { true: '"x"' } } },
    ];
    for (const payload of flags) {
      const url = "/api/projects/1/feature_flags/";
      const created = await service.app.inject({ method: "POST", url, headers: HOLDER, payload });
      expect(created.statusCode).toBe(201);
    }
  });
  afterAll(async () => {
    await service.close();
    rmSync(data, { recursive: true, force: true });
  });

  const get = (id: string, headers: Record<string, string> = HOLDER) =>
    service.app.inject({
      method: "GET",
      url: `/api/projects/@current/feature_flags/${id}/remote_config`,
      headers,
    });

  it("[LE-13] answers the stored payload itself, by key or by id", async () => {
    for (const id of ["settings", "1"]) {
      const response = await get(id);
      expect(response.statusCode).toBe(200);
      expect(response.body).toBe('"{\\"a\\":[1]}"');
    }
    expect((await get("empty")).body).toBe("null");
  });

  it("[FM-30] answers an encrypted payload decrypted, here and nowhere else", async () => {
    expect((await get("sealed")).body).toBe('"{\\"a\\":[1]}"');
    const listed = await service.app.inject({
      method: "GET",
      url: "/api/projects/1/feature_flags/?search=sealed",
      headers: HOLDER,
    });
    expect(listed.json().results[0].filters.payloads).toEqual({
      true: '"********* (encrypted)"',
    });
    const token = (
      await service.app.inject({ method: "GET", url: "/api/projects/1", headers: HOLDER })
    ).json().api_token;
    const decided = await service.app.inject({
      method: "POST",
      url: "/decide?v=4",
      payload: { token, distinct_id: "somebody" },
    });
    expect(decided.statusCode).toBe(200);
    expect(decided.body).not.toContain("a\\\\");
    expect(decided.json().flags.sealed.metadata.payload ?? null).toBeNull();
  });

  it("[LE-13] finds nothing else, and tells nobody without a key", async () => {
    for (const id of ["ordinary", "unknown", "999"]) {
      const response = await get(id);
      expect([response.statusCode, response.body]).toEqual([404, ""]);
    }
    expect((await get("settings", {})).statusCode).toBe(401);
  });
});
