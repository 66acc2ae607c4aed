import { randomUUID } from "node:crypto";
import { rm } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { afterEach, describe, expect, test } from "vitest";
import { eventually } from "./eventually.ts";
import { everyone, openManagement, personIs, type Wire, where } from "./management.ts";
import { postJson, send } from "./raw-http.ts";
import {
  findFreePort,
  newFolder,
  PROJECT_KEY,
  runCommand,
  runToEnd,
  type ServerUnderTest,
  type StartOptions,
  startServer,
} from "./server-under-test.ts";

const started: ServerUnderTest[] = [];
afterEach(async ({ task }) => {
  for (const server of started.splice(0)) {
    if (task.result?.state === "fail") console.error(server.output());
    await server.dispose();
  }
});

async function start(options: StartOptions = {}): Promise<ServerUnderTest> {
  const server = await startServer(options);
  started.push(server);
  return server;
}

const capture = (server: ServerUnderTest, fields: Wire = {}) =>
  postJson(server, "/capture/", {
    api_key: PROJECT_KEY,
    event: "counted",
    distinct_id: "somebody",
    ...fields,
  });

describe("the first start", () => {
  test("[CP-40] tells the keys and three commands that work as they are", async () => {
    const server = await start({
      env: { HEDGEROW_PROJECT_KEY: undefined, HEDGEROW_PERSONAL_KEY: undefined },
    });
    const output = server.output();
    const projectKey = /phc_[\w-]{20,}/.exec(output)?.[0];
    const personalKey = /phx_[\w-]{20,}/.exec(output)?.[0];
    expect(projectKey).toBeDefined();
    expect(personalKey).toBeDefined();

    const commands = output.split("\n").filter((line) => line.trim().startsWith("curl "));
    expect(commands).toHaveLength(3);
    const [decide = "", capture = "", look = ""] = commands;
    const run = async (command: string) => {
      const { code, stdout } = await runToEnd("sh", ["-c", command]);
      expect([command, code]).toEqual([command, 0]);
      return JSON.parse(stdout);
    };
    expect(await run(decide)).toMatchObject({ featureFlags: {}, errorComputingFlags: false });
    expect(await run(capture)).toMatchObject({ status: 1 });
    const stored = await eventually("the captured event", async () => {
      const { results } = await run(look);
      return results[0];
    });
    expect(stored).toMatchObject({ event: expect.any(String), distinct_id: expect.any(String) });

    await server.stop();
    await server.startAgain();
    const later = server.output().slice(output.length);
    expect(later).not.toMatch(/phx_|phc_|curl /);
    expect(await run(decide)).toMatchObject({ featureFlags: {} });
  });

  test("[CP-40] takes keys and the admin from the environment", async () => {
    const server = await start({
      env: {
        HEDGEROW_PROJECT_KEY: "phc_givenProjectKey",
        HEDGEROW_PERSONAL_KEY: "phx_givenPersonalKey",
        HEDGEROW_ADMIN_EMAIL: "ann@example.org",
      },
    });
    const management = openManagement(server, "phx_givenPersonalKey");
    const { body } = await management.call("GET", "/api/users/@me/");
    expect(body.email).toBe("ann@example.org");
    const { status } = await postJson(server, "/flags/?v=2", {
      token: "phc_givenProjectKey",
      distinct_id: "a",
    });
    expect(status).toBe(200);
  });
});

describe("one folder", () => {
  test("[CP-41] is held by one process: a second one says so and ends", async () => {
    const server = await start();
    const second = await runCommand([
      "start",
      "--port",
      String(await findFreePort()),
      "--data",
      server.dataFolder,
    ]);
    expect(second.code).toBe(1);
    expect(second.stderr).toContain(server.dataFolder);
    expect((await capture(server)).status).toBe(200);
    await server.kill();
    // A crash leaves no lock behind.
    await server.startAgain();
    expect((await capture(server)).status).toBe(200);
  });

  test("[CP-41] keeps flags, persons, groups and events over a restart", async () => {
    const server = await start();
    const management = openManagement(server);
    await management.createFlag("gold-only", where(personIs("tier", "exact", ["gold"])));
    await management.createFlag("steady", everyone(), { ensure_experience_continuity: true });
    await capture(server, { distinct_id: "ada", $set: { tier: "gold" } });
    await management.eventsArrived({ distinct_id: "ada" });
    const flagsOf = async (distinct_id: string) =>
      (await postJson(server, "/decide?v=3", { api_key: PROJECT_KEY, distinct_id })).body
        .featureFlags;
    const before = await flagsOf("ada");
    await server.stop();
    await server.startAgain();
    expect(await flagsOf("ada")).toEqual(before);
    expect(await flagsOf("ada")).toMatchObject({ "gold-only": true, steady: true });
    expect(await flagsOf("bob")).toMatchObject({ "gold-only": false });
    expect(await management.events({ distinct_id: "ada" })).toHaveLength(1);
  });
});

describe("an end", () => {
  test("[CP-42] by SIGTERM finishes what is under way and keeps every acknowledged event", async () => {
    const server = await start();
    const acknowledged = new Set<string>();
    let isRefused = false;
    const load = Array.from({ length: 8 }, async () => {
      while (!isRefused) {
        const uuid = randomUUID();
        try {
          const { status } = await capture(server, { uuid });
          if (status === 200) acknowledged.add(uuid);
          else isRefused = true;
        } catch {
          isRefused = true;
        }
      }
    });
    await eventually("some load", () => acknowledged.size > 200);
    await server.stop();
    await Promise.all(load);
    await server.startAgain();
    await expectExactly(server, acknowledged);
  });

  test("[CP-42] by kill -9 under load loses no acknowledged event and doubles none", async () => {
    const server = await start();
    const acknowledged = new Set<string>();
    for (let round = 0; round < 2; round++) {
      const atLeast = acknowledged.size + 300;
      let isOver = false;
      const load = Array.from({ length: 8 }, async () => {
        while (!isOver) {
          const uuids = [randomUUID(), randomUUID()];
          const batch = uuids.map((uuid) => ({
            uuid,
            event: "counted",
            distinct_id: `somebody-${uuid.slice(0, 2)}`,
            properties: { $set: { last: uuid } },
          }));
          try {
            const { status } = await postJson(server, "/batch/", { api_key: PROJECT_KEY, batch });
            if (status === 200) for (const uuid of uuids) acknowledged.add(uuid);
          } catch {
            isOver = true;
          }
        }
      });
      await eventually("some load", () => acknowledged.size > atLeast);
      await server.kill();
      await Promise.all(load);
      await server.startAgain();
    }
    await expectExactly(server, acknowledged);
  });

  test("[CP-42] an event sent again after a crash is still one event", async () => {
    const server = await start();
    const uuid = randomUUID();
    await capture(server, { uuid });
    await server.kill();
    await server.startAgain();
    expect((await capture(server, { uuid })).status).toBe(200);
    await capture(server, { event: "after" });
    const management = openManagement(server);
    await management.eventsArrived({ event: "after" });
    expect((await management.events({ event: "counted" })).map(({ id }) => id)).toEqual([uuid]);
  });

  /** Every acknowledged event is stored once; others may be, when their answer was lost. */
  async function expectExactly(server: ServerUnderTest, acknowledged: ReadonlySet<string>) {
    const management = openManagement(server);
    const stored = await eventually("all acknowledged events", async () => {
      const ids: string[] = [];
      for (let offset = 0; ; offset += 1000) {
        const page = await management.events({ event: "counted", offset: String(offset) });
        ids.push(...page.map(({ id }) => id));
        if (page.length < 1000) break;
      }
      const missing = [...acknowledged].filter((uuid) => !ids.includes(uuid)).length;
      if (missing > 0) throw new Error(`${missing} of ${acknowledged.size} are missing`);
      return ids;
    });
    expect(new Set(stored).size).toBe(stored.length);
  }
});

describe("commands", () => {
  test("[CP-43] create, list and revoke keys while the server runs", async () => {
    const server = await start();
    const data = ["--data", server.dataFolder];
    const created = await runCommand([
      "keys",
      "create",
      "--label",
      "ci",
      "--scopes",
      "feature_flag:read",
      ...data,
    ]);
    expect(created.code).toBe(0);
    const key = created.stdout.trim();
    expect(key).toMatch(/^phx_\S+$/);
    const management = openManagement(server, key);
    const path = "/api/projects/@current/feature_flags/";
    expect((await management.call("GET", path)).status).toBe(200);
    expect((await management.call("POST", path, { key: "a" })).status).toBe(403);

    const listed = await runCommand(["keys", "list", ...data]);
    const row = listed.stdout.split("\n").find((line) => line.includes(" ci "));
    expect(row).toContain("feature_flag:read");
    expect(listed.stdout).not.toContain(key);
    const [id = ""] = row?.trim().split(/\s+/) ?? [];
    expect((await runCommand(["keys", "revoke", id, ...data])).code).toBe(0);
    await eventually("the key to stop working", async () => {
      return (await management.call("GET", path)).status === 401;
    });
    expect((await runCommand(["keys", "revoke", id, ...data])).code).not.toBe(0);
  });

  test("[CP-43] doctor finds a running, a stopped and an empty folder in order", async () => {
    const server = await start();
    await capture(server);
    await openManagement(server).eventsArrived({ event: "counted" });
    const running = await runCommand(["doctor", "--data", server.dataFolder, "--json"]);
    expect(JSON.parse(running.stdout)).toEqual(
      expect.arrayContaining([expect.objectContaining({ status: "ok" })]),
    );
    expect(running.code).toBe(0);
    await server.stop();
    const stopped = await runCommand(["doctor", "--data", server.dataFolder]);
    expect(stopped).toMatchObject({ code: 0, stderr: "" });
    expect(stopped.stdout).not.toMatch(/^fail/m);
    const empty = await newFolder();
    try {
      expect((await runCommand(["doctor", "--data", empty])).code).toBe(0);
    } finally {
      await rm(empty, { recursive: true });
    }
  });

  test("[CP-43] npx hedgerow works from the root", async () => {
    const cwd = fileURLToPath(new URL("../../..", import.meta.url));
    for (const args of [["--help"], ["help", "start"], ["version"]]) {
      const { code, stdout } = await runToEnd("npx", ["--no-install", "hedgerow", ...args], {
        cwd,
      });
      expect([args, code]).toEqual([args, 0]);
      expect(stdout).toMatch(args[0] === "version" ? /^\d+\.\d+\.\d+/ : /--port/);
    }
  });

  test("[CP-44] settings that are unknown or wrong are named, and nothing starts", async () => {
    const attempts: readonly (readonly [readonly string[], Record<string, string>, string])[] = [
      [["start", "--prot", "8000"], {}, "--prot"],
      [["start", "--port", "99999"], {}, "--port"],
      [["start", "--port", "abc"], {}, "--port"],
      [["start"], { PORT: "-1" }, "PORT"],
      [["start"], { LOG_LEVEL: "loud" }, "LOG_LEVEL"],
      [["start"], { HEDGEROW_PROJECT_KEY: "phx_wrongKind" }, "HEDGEROW_PROJECT_KEY"],
      [["start"], { HEDGEROW_TRUSTED_PROXIES: "10.0.0.0/99" }, "HEDGEROW_TRUSTED_PROXIES"],
      [["start"], { HEDGEROW_DATUM: "/x" }, "HEDGEROW_DATUM"],
      [["strat"], {}, "strat"],
      [["start", "--data", "/dev/null/data"], {}, "/dev/null/data"],
    ];
    const results = await Promise.all(
      attempts.map(async ([args, env, named]) => {
        const { code, stderr } = await runCommand(args, env);
        return {
          args,
          failed: code !== 0 && code !== null,
          namesIt: stderr.includes(named),
          stderr,
        };
      }),
    );
    for (const result of results) expect(result).toMatchObject({ failed: true, namesIt: true });
  });

  test("[CP-44] a port that is taken is named", async () => {
    const server = await start();
    const data = await newFolder();
    try {
      const second = await runCommand(["start", "--port", String(server.port), "--data", data]);
      expect(second.code).toBe(1);
      expect(second.stderr).toContain(String(server.port));
    } finally {
      await rm(data, { recursive: true });
    }
  });
});

describe("health", () => {
  test("[CP-45] tells readiness, liveness and metrics without a key", async () => {
    const server = await start();
    await capture(server);
    for (const path of ["/_readiness", "/_liveness"]) {
      expect((await send(server, { method: "GET", path })).status).toBe(200);
    }
    const metrics = await send(server, { method: "GET", path: "/metrics" });
    expect(metrics.headers["content-type"]).toMatch(/^text\/plain/);
    expect(metrics.text).toMatch(/^process_resident_memory_bytes \d/m);
  });
});
