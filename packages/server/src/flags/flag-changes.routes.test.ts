import { mkdtempSync, rmSync } from "node:fs";
import { get, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pino } from "pino";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { composeService, type Service } from "../compose.ts";
import { readConfig } from "../config.ts";
import { watchRevisions } from "./compiled-flags.ts";
import { type ChangeListener, createFlagChanges, MAX_LISTENERS } from "./flag-changes.ts";

const KEY = "phx_flag_changes_test";
const TOKEN = "phc_flag_changes_test";

describe("changes of flags, followed", () => {
  let service: Service;
  let data: string;
  let url: string;
  const followers: IncomingMessage[] = [];

  beforeEach(async () => {
    data = mkdtempSync(join(tmpdir(), "hedgerow-flag-changes-"));
    const env = { HEDGEROW_PERSONAL_KEY: KEY, HEDGEROW_PROJECT_KEY: TOKEN };
    service = await composeService(readConfig(["--data", data], env), pino({ level: "silent" }));
    await service.app.listen({ port: 0, host: "127.0.0.1" });
    url = `http://127.0.0.1:${(service.app.server.address() as AddressInfo).port}`;
  });
  afterEach(async () => {
    for (const follower of followers.splice(0)) follower.destroy();
    await service.close();
    rmSync(data, { recursive: true, force: true });
  });

  /** A client of server-sent events over a real connection. */
  async function follow(query = `token=${TOKEN}`, headers: Record<string, string> = {}) {
    const response = await new Promise<IncomingMessage>((resolve, reject) => {
      get(`${url}/flags/changes?${query}`, { headers, agent: false }, resolve).on("error", reject);
    });
    followers.push(response);
    let text = "";
    response.setEncoding("utf8");
    response.on("data", (chunk: string) => {
      text += chunk;
    });
    const ended = new Promise<void>((resolve) => response.on("close", resolve));
    return {
      response,
      ended,
      text: () => text,
      lastId: () => [...text.matchAll(/^id: (\d+)$/gm)].at(-1)?.[1],
      told: () =>
        [...text.matchAll(/^event: flags_changed\ndata: (.*)$/gm)].map(([, json]) =>
          JSON.parse(json ?? ""),
        ),
    };
  }
  const manage = async (method: "POST" | "PATCH", path: string, payload: object) => {
    const response = await fetch(`${url}/api/projects/1/feature_flags/${path}`, {
      method,
      headers: { authorization: `Bearer ${KEY}`, "content-type": "application/json" },
      body: JSON.stringify(payload),
    });
    expect(response.ok).toBe(true);
    return (await response.json()) as { id: number };
  };
  const everyone = { groups: [{ properties: [], rollout_percentage: 100 }] };
  const decided = async () => {
    const body = JSON.stringify({ token: TOKEN, distinct_id: "ann" });
    const answer = await fetch(`${url}/flags?v=1`, { method: "POST", body });
    return ((await answer.json()) as { featureFlags: Record<string, unknown> }).featureFlags;
  };

  test("[LE-15] a toggled flag is told, and whoever asks then has it", async () => {
    const { id } = await manage("POST", "", { key: "toggled", filters: everyone, active: false });
    const [browser, server] = [await follow(), await follow(`api_key=${TOKEN}`)];
    expect(browser.response.headers).toMatchObject({
      "content-type": "text/event-stream; charset=utf-8",
      "access-control-allow-origin": "*",
    });
    await expect.poll(browser.lastId).toMatch(/^\d+$/);
    expect(browser.told()).toEqual([]);
    const before = Number(browser.lastId());
    await manage("PATCH", `${id}/`, { active: true });
    await expect.poll(() => browser.told().length).toBe(1);
    await expect.poll(() => server.told().length).toBe(1);
    const [{ revision }] = browser.told();
    expect(revision).toBeGreaterThan(before);
    expect(browser.lastId()).toBe(String(revision));
    expect(browser.text()).not.toContain("toggled");
    expect(await decided()).toEqual({ toggled: true });
  });

  test("[LE-15] whoever comes again is told what it missed, and only then; polling sees it as well", async () => {
    const { id } = await manage("POST", "", { key: "toggled", filters: everyone });
    const definitions = async (tag = "") => {
      const headers = { authorization: `Bearer ${KEY}`, "if-none-match": tag };
      const answer = await fetch(`${url}/flags/definitions?token=${TOKEN}`, { headers });
      await answer.arrayBuffer();
      return answer;
    };
    const tag = (await definitions()).headers.get("etag") ?? "";
    expect((await definitions(tag)).status).toBe(304);
    const first = await follow();
    await expect.poll(first.lastId).toMatch(/^\d+$/);
    first.response.destroy();
    await first.ended;
    const seen = first.lastId() ?? "";
    const unchanged = await follow(`token=${TOKEN}`, { "last-event-id": seen });
    await expect.poll(unchanged.lastId).toBe(seen);
    expect(unchanged.told()).toEqual([]);
    await manage("PATCH", `${id}/`, { active: false });
    const again = await follow(`token=${TOKEN}`, { "last-event-id": seen });
    await expect.poll(() => again.told().length).toBe(1);
    const byQuery = await follow(`token=${TOKEN}&last_event_id=${seen}`);
    await expect.poll(() => byQuery.told().length).toBe(1);
    expect((await definitions(tag)).status).toBe(200);
  });

  test("[LE-16] clients end with the server", async () => {
    const client = await follow();
    await service.close();
    await client.ended;
    expect(client.response.complete).toBe(true);
  });

  test.each(["", "token=phc_nobody", "token="])("[LE-15] %s opens nothing", async (query) => {
    const answer = await fetch(`${url}/flags/changes?${query}`);
    expect(answer.status).toBe(401);
    expect(answer.headers.get("access-control-allow-origin")).toBe("*");
    expect(await answer.json()).toMatchObject({ type: "authentication_error" });
  });
});

describe("listeners of changes", () => {
  const listener = () => {
    const told: number[] = [];
    let isEnded = false;
    const one: ChangeListener = {
      changed: (revision) => told.push(revision),
      end: () => {
        isEnded = true;
      },
    };
    return { one, told, isEnded: () => isEnded };
  };

  test("[LE-15] hear of other processes half a second after the last look at the latest", async () => {
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
    try {
      let looks = 0;
      const stop = watchRevisions({
        checkRevisions: async () => {
          looks++;
        },
      });
      for (let expected = 1; expected <= 3; expected++) {
        await vi.advanceTimersByTimeAsync(500);
        expect(looks).toBe(expected);
      }
      await stop();
      await vi.advanceTimersByTimeAsync(5_000);
      expect(looks).toBe(3);
    } finally {
      vi.useRealTimers();
    }
  });

  test("[LE-15] are told of their project, of each revision once, until they leave", () => {
    const changes = createFlagChanges();
    const [ann, bob] = [listener(), listener()];
    const leave = changes.join(1, 5, ann.one);
    changes.join(2, 1, bob.one);
    changes.publish(1, 5);
    changes.publish(1, 6);
    changes.publish(1, 6);
    changes.publish(1, 4);
    changes.publish(3, 9);
    if (leave === "too-many") throw new Error(leave);
    leave();
    leave();
    changes.publish(1, 7);
    expect([ann.told, bob.told]).toEqual([[6], []]);
  });

  test("[LE-16] are bounded, and those who leave make room", () => {
    const changes = createFlagChanges();
    const leaves = Array.from({ length: MAX_LISTENERS }, () => changes.join(1, 1, listener().one));
    expect(changes.join(1, 1, listener().one)).toBe("too-many");
    expect(changes.join(2, 1, listener().one)).not.toBe("too-many");
    const [first] = leaves;
    if (first === undefined || first === "too-many") throw new Error("nobody joined");
    first();
    const last = listener();
    expect(changes.join(1, 1, last.one)).not.toBe("too-many");
    changes.close();
    expect(last.isEnded()).toBe(true);
    expect(changes.join(3, 1, listener().one)).toBe("too-many");
  });
});
