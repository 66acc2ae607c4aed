import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { InjectOptions } from "fastify";
import { pino } from "pino";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { composeService, type Service } from "../compose.ts";
import { readConfig } from "../config.ts";

const ORIGIN = "https://shop.example";
const ANY_HEADERS = "baggage, x-any-name, x-vendor-trace-id";
/** Routes of these begin so and take a key of the management API: browsers have none. */
const MANAGEMENT =
  /^\/api\/(?!feature_flag\/local_evaluation|flag_definitions|surveys|early_access)/;
const NOT_FOR_PAGES = /^\/(?:_|metrics|openapi)/;

describe("public routes", () => {
  const data = mkdtempSync(join(tmpdir(), "hedgerow-origins-"));
  const routes: { method: NonNullable<InjectOptions["method"]>; url: string }[] = [];
  let service: Service;

  beforeAll(async () => {
    service = await composeService(
      readConfig(["--data", data, "--trusted-proxies", "10.0.0.1"], {}),
      pino({ level: "silent" }),
      {
        prepareApp: (app) => {
          app.addHook("onRoute", ({ method, url, config }) => {
            if (config && "access" in config) return;
            if (MANAGEMENT.test(url) || NOT_FOR_PAGES.test(url)) return;
            for (const one of [method].flat()) {
              routes.push({ method: one as "GET", url: url.replace(/:\w+|\*/g, "x") });
            }
          });
        },
      },
    );
    await service.app.ready();
  });
  afterAll(async () => {
    await service.close();
    rmSync(data, { recursive: true, force: true });
  });

  it("[CP-18] let pages of any origin read every answer, refusals included (UR-43)", async () => {
    const urls = new Set(routes.map(({ url }) => url));
    for (const url of ["/flags", "/decide", "/e", "/i/v0/e", "/batch", "/s", "/engage"]) {
      expect([...urls]).toContain(url);
    }
    for (const route of routes) {
      for (const payload of route.method === "POST" ? ["", "{", '{"token":"phc_unknown"}'] : [""]) {
        const { statusCode, headers } = await service.app.inject({
          ...route,
          headers: { origin: ORIGIN, cookie: "csrftoken=1", "content-type": "text/plain" },
          ...(payload !== "" && { payload }),
        });
        const told = [route.method, route.url, headers["access-control-allow-origin"]];
        expect(told).toEqual([route.method, route.url, ORIGIN]);
        expect([route.url, statusCode]).not.toEqual([route.url, 403]);
        expect(statusCode).toBeLessThan(500);
      }
    }
  });

  it("[CP-18] allow a preflight whatever headers it asks for (UR-44)", async () => {
    const urls = new Set(routes.map(({ url }) => url));
    for (const url of urls) {
      const { statusCode, headers } = await service.app.inject({
        method: "OPTIONS",
        url,
        headers: {
          origin: ORIGIN,
          "access-control-request-method": "POST",
          "access-control-request-headers": ANY_HEADERS,
        },
      });
      expect([url, Math.floor(statusCode / 100)]).toEqual([url, 2]);
      expect([url, headers["access-control-allow-origin"]]).toEqual([url, ORIGIN]);
      expect([url, headers["access-control-allow-headers"]]).toEqual([url, ANY_HEADERS]);
    }
  });

  it("[CA-39] record the address that a trusted proxy forwards, set by one setting (UR-46, UR-47)", async () => {
    if (!service.firstBoot) throw new Error("a new folder has a first boot");
    const { project, personalKey } = service.firstBoot;
    const capture = async (remoteAddress: string, headers: Record<string, string>) => {
      const { statusCode } = await service.app.inject({
        ...{ method: "POST", url: "/e/", remoteAddress, headers },
        payload: { api_key: project.apiToken, event: "visit", distinct_id: remoteAddress },
      });
      expect(statusCode).toBe(200);
      const answer = await service.app.inject({
        url: `/api/projects/${project.id}/events/?distinct_id=${remoteAddress}`,
        headers: { authorization: `Bearer ${personalKey}` },
      });
      return answer.json().results[0]?.properties.$ip;
    };
    const forwarded = { "x-forwarded-for": "203.0.113.7", "x-real-ip": "10.0.0.9" };
    expect(await capture("10.0.0.1", forwarded)).toBe("203.0.113.7");
    expect(await capture("198.51.100.4", forwarded)).toBe("198.51.100.4");
  });
});
