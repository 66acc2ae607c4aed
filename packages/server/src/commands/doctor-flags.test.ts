import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import pino from "pino";
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from "vitest";
import { composeService } from "../compose.ts";
import { readConfig, UsageError } from "../config.ts";
import { doctor } from "./doctor.ts";

const KEY = "phx_doctorflagstestdoctorflagstest";
const TOKEN = "phc_doctorflagstest";
const data = mkdtempSync(join(tmpdir(), "hedgerow-doctor-flags-"));

async function startService() {
  let url = "";
  const service = await composeService(
    readConfig(["--data", data], { HEDGEROW_PERSONAL_KEY: KEY, HEDGEROW_PROJECT_KEY: TOKEN }),
    pino({ level: "silent" }),
    { listen: async (app) => (url = await app.listen({ port: 0, host: "127.0.0.1" })) },
  );
  return { url, close: () => service.close() };
}

beforeAll(async () => {
  const service = await startService();
  const send = async (path: string, body: object) => {
    const response = await fetch(`${service.url}${path}`, {
      method: "POST",
      headers: { authorization: `Bearer ${KEY}`, "content-type": "application/json" },
      body: JSON.stringify(body),
    });
    expect(response.ok).toBe(true);
  };
  const plan = { key: "plan", type: "person", operator: "exact", value: "pro" };
  await send("/api/projects/1/feature_flags", {
    key: "targeted",
    filters: { groups: [{ properties: [plan], rollout_percentage: 50 }] },
  });
  await send("/batch", {
    api_key: TOKEN,
    batch: ["a", "b", "c"].map((distinct_id) => ({
      event: "$set",
      distinct_id,
      properties: { $set: { plan: "pro" } },
    })),
  });
  await service.close();
});
afterAll(() => rmSync(data, { recursive: true, force: true }));
afterEach(() => vi.restoreAllMocks());

async function run(...args: string[]) {
  const lines: string[] = [];
  vi.spyOn(console, "log").mockImplementation((line: string) => void lines.push(line));
  const code = await doctor(["flags", "--data", data, ...args]);
  return { code, text: lines.join("\n") };
}

describe("doctor flags", () => {
  test("[LE-14] looks into the data folder while the service is stopped", async () => {
    const { code, text } = await run();
    expect(code).toBe(0);
    expect(text).toContain("1 flags");
    expect(text).toContain("3 persons, 6 values compared");
    expect(text).toContain("no differences");
  });

  test("[LE-14] [CL-31] asks the service while it runs, with the same outcome", async () => {
    const stopped = JSON.parse((await run("--json", "--persons", "2")).text);
    const service = await startService();
    try {
      // Its address is known from the folder; any other can be named.
      for (const at of [[], ["--url", service.url]]) {
        const { code, text } = await run("--json", "--persons", "2", "--key", KEY, ...at);
        expect(code).toBe(0);
        expect(JSON.parse(text)).toEqual(stopped);
      }
      expect(stopped).toMatchObject({ persons: 2, compared: 4, differing: 0 });
    } finally {
      await service.close();
    }
  });

  test.each([
    ["--persons", "0"],
    ["--persons", "many"],
    ["--project", "x"],
  ])("refuses %s %s", async (...args) => {
    await expect(run(...args)).rejects.toThrow(UsageError);
  });
});
