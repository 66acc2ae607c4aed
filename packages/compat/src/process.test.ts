import { spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { readFile, rm } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";
import { eventually } from "./eventually.ts";
import {
  groupIs,
  openManagement,
  personIs,
  variants,
  type Wire,
  where,
  whereGroup,
} from "./management.ts";
import { postJson, send as sendRaw } from "./raw-http.ts";
import {
  findFreePort,
  newFolder,
  PROJECT_KEY,
  runCommand,
  runToEnd,
  type ServerUnderTest,
  serveTests,
} from "./server-under-test.ts";

const capture = (server: ServerUnderTest, fields: Wire = {}) =>
  postJson(server, "/capture/", {
    api_key: PROJECT_KEY,
    event: "counted",
    distinct_id: "somebody",
    ...fields,
  });

// Starting a server is most of what these tests cost: those of a group share one.
const PATIENTLY = { timeout: 180_000 };

describe("the first start", PATIENTLY, () => {
  let server: ServerUnderTest;
  serveTests(
    (started) => {
      server = started;
    },
    {
      env: { HEDGEROW_PROJECT_KEY: undefined, HEDGEROW_PERSONAL_KEY: undefined },
    },
  );

  test("[CP-40] tells the keys and three commands that work as they are", async () => {
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
  });
});

describe("one folder", PATIENTLY, () => {
  let server: ServerUnderTest;
  serveTests((started) => {
    server = started;
  });

  test("[CP-41] is held by one process: a second one says so and ends", async () => {
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
  });

  test("[CP-40][CP-41] keeps flags, persons, groups and events over a restart, which tells no secrets", async () => {
    const management = openManagement(server);
    await management.createFlag("gold-only", where(personIs("tier", "exact", ["gold"])));
    await management.createFlag("steady", variants({ a: 50, b: 50 }), {
      ensure_experience_continuity: true,
    });
    await capture(server, { distinct_id: "ada", $set: { tier: "gold" } });
    await capture(server, {
      event: "$groupidentify",
      properties: { $group_type: "company", $group_key: "acme", $group_set: { seats: 11 } },
    });
    await management.createFlag("big-companies", whereGroup(groupIs("seats", "gt", "10")));
    const flagsOf = async (distinct_id: string, fields: Wire = {}) => {
      const request = { api_key: PROJECT_KEY, distinct_id, groups: { company: "acme" }, ...fields };
      return (await postJson(server, "/decide?v=3", request)).body.featureFlags as Wire;
    };
    // The variant of a visitor with another bucket becomes that of the person.
    const own = (await flagsOf("ada")).steady;
    const visitors = Array.from({ length: 50 }, (_, index) => `visitor-${index}`);
    const values = await Promise.all(visitors.map(async (id) => (await flagsOf(id)).steady));
    const visitor = visitors.find((_, index) => values[index] !== own);
    const before = await flagsOf("ada", { $anon_distinct_id: visitor });
    expect(before).toMatchObject({ "gold-only": true, "big-companies": true });
    expect(before.steady).not.toBe(own);
    const told = server.output().length;
    await server.stop();
    await server.startAgain();
    expect(server.output().slice(told)).not.toMatch(/phx_|phc_|curl /);
    expect(await flagsOf("ada")).toEqual(before);
    expect(await flagsOf("bob")).toMatchObject({ "gold-only": false });
    expect(await management.events({ distinct_id: "ada" })).toHaveLength(1);
  });
});

describe("an end", PATIENTLY, () => {
  let server: ServerUnderTest;
  const acknowledged = new Set<string>();
  serveTests((started) => {
    server = started;
  });

  test("[CP-42] by SIGTERM finishes what is under way and keeps every acknowledged event", async () => {
    const refused = randomUUID();
    expect((await send([{ ...eventOf(refused), event: "" }])).status).toBe(400);
    await underLoad(200, () => server.stop());
    await server.startAgain();
    expect(await outcomeOf(refused)).toBe("refused");
    await expectExactlyAcknowledged();
  });

  test("[CP-42] by kill -9 under load loses no acknowledged event and doubles none", async () => {
    await underLoad(400, () => server.kill());
    // A crash leaves no lock behind.
    await server.startAgain();
    // Whoever asks at once is told the truth, stored or not yet.
    for (const uuid of [...acknowledged].slice(-5)) {
      expect(await outcomeOf(uuid)).toMatch(/^(?:stored|queued)$/);
    }
    // A client that did not get its answer sends again.
    const uuids = [...acknowledged].slice(-20);
    const { status, body } = await send(uuids.map(eventOf));
    expect({ status, body }).toMatchObject({ status: 200, body: { status: 1 } });
    expect(body).not.toHaveProperty("rejected");
    await expectExactlyAcknowledged();
  });

  async function outcomeOf(uuid: string): Promise<unknown> {
    const path = `/api/projects/@current/event_receipts/${uuid}`;
    return (await openManagement(server).call("GET", path)).body.outcome;
  }

  const eventOf = (uuid: string): Wire => ({
    uuid,
    event: "counted",
    distinct_id: `somebody-${uuid.slice(0, 2)}`,
    properties: { $set: { last: uuid } },
  });

  const send = (batch: readonly Wire[]) =>
    postJson(server, "/batch/", { api_key: PROJECT_KEY, batch });

  /** Ends the server in the midst of captures, once so many more events are acknowledged. */
  async function underLoad(more: number, end: () => Promise<void>): Promise<void> {
    const atLeast = acknowledged.size + more;
    let isOver = false;
    const load = Array.from({ length: 8 }, async () => {
      while (!isOver) {
        const uuids = [randomUUID(), randomUUID()];
        try {
          const { status } = await send(uuids.map(eventOf));
          if (status === 200) for (const uuid of uuids) acknowledged.add(uuid);
          else isOver = true;
        } catch {
          isOver = true;
        }
      }
    });
    await eventually("some load", () => acknowledged.size > atLeast);
    await end();
    await Promise.all(load);
  }

  /** Every acknowledged event is stored once; others may be, when their answer was lost. */
  async function expectExactlyAcknowledged(): Promise<void> {
    const management = openManagement(server);
    const stored = await eventually("all acknowledged events", async () => {
      const ids: string[] = [];
      for (let offset = 0; ; offset += 1000) {
        const page = await management.events({ event: "counted", offset: String(offset) });
        ids.push(...page.map(({ id }) => id));
        if (page.length < 1000) break;
      }
      const found = new Set(ids);
      const missing = [...acknowledged].filter((uuid) => !found.has(uuid)).length;
      if (missing > 0) throw new Error(`${missing} of ${acknowledged.size} are missing`);
      return ids;
    });
    expect(new Set(stored).size).toBe(stored.length);
  }
});

describe("a running server", PATIENTLY, () => {
  let server: ServerUnderTest;
  serveTests(
    (started) => {
      server = started;
    },
    { env: { HEDGEROW_ADMIN_EMAIL: "ann@example.org" } },
  );

  test("[CP-40] has the keys and the admin that the environment named", async () => {
    const { body } = await openManagement(server).call("GET", "/api/users/@me/");
    expect(body.email).toBe("ann@example.org");
    expect((await capture(server)).status).toBe(200);
  });

  test("[CP-43] lets keys be created, listed and revoked", async () => {
    const data = ["--data", server.dataFolder];
    const create = ["keys", "create", "--label", "ci", "--scopes", "feature_flag:read"];
    const created = await runCommand([...create, ...data]);
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

  test("[CP-44] keeps its port: another one names it and ends", async () => {
    const data = await newFolder();
    try {
      const second = await runCommand(["start", "--port", String(server.port), "--data", data]);
      expect(second.code).toBe(1);
      expect(second.stderr).toContain(String(server.port));
    } finally {
      await rm(data, { recursive: true });
    }
  });

  test("[CP-45] tells readiness, liveness and metrics without a key", async () => {
    for (const path of ["/_readiness", "/_liveness"]) {
      expect((await sendRaw(server, { method: "GET", path })).status).toBe(200);
    }
    const metrics = await sendRaw(server, { method: "GET", path: "/metrics" });
    expect(metrics.headers["content-type"]).toMatch(/^text\/plain/);
    expect(metrics.text).toMatch(/^process_resident_memory_bytes \d/m);
    expect(metrics.text).toMatch(/^hedgerow_log_bytes [1-9]/m);
    expect(metrics.text).toMatch(/^hedgerow_log_lag_events\{stage="stored"\} \d/m);
  });

  test("[CP-43] is found in order by doctor, and so is its folder once it is stopped", async () => {
    const running = await runCommand(["doctor", "--data", server.dataFolder, "--json"]);
    expect(running.code).toBe(0);
    expect(JSON.parse(running.stdout)).toEqual(
      expect.arrayContaining([expect.objectContaining({ status: "ok" })]),
    );
    await server.stop();
    const stopped = await runCommand(["doctor", "--data", server.dataFolder]);
    expect(stopped).toMatchObject({ code: 0, stderr: "" });
    expect(stopped.stdout).not.toMatch(/^fail/m);
  });
});

describe("the command", PATIENTLY, () => {
  test("[CP-43] is there for npx from the root", async () => {
    const cwd = fileURLToPath(new URL("../../..", import.meta.url));
    const npx = ["--no-install", "hedgerow", "--help"];
    const { code, stdout } = await runToEnd("npx", npx, { cwd });
    expect(code).toBe(0);
    expect(stdout).toContain("--port");
  });

  // `exec` is a word of the shell of systems that have signals.
  test.skipIf(process.platform === "win32")(
    "[CP-42] is started by npm with the arguments given there, and stops when npm is told to",
    async () => {
      const data = await newFolder();
      const port = await findFreePort();
      const npm = spawn("npm", ["start", "--", "--port", String(port), "--data", data], {
        cwd: fileURLToPath(new URL("../../..", import.meta.url)),
        env: { PATH: process.env.PATH, HOME: process.env.HOME },
        stdio: ["ignore", "pipe", "inherit"],
      });
      let output = "";
      npm.stdout.setEncoding("utf8").on("data", (text: string) => {
        output += text;
      });
      let server: number | undefined;
      try {
        await eventually(
          "npm's server to be ready",
          async () => (await fetch(`http://127.0.0.1:${port}/_readiness`)).ok,
          100_000,
        );
        server = JSON.parse(await readFile(join(data, "lock.json"), "utf8")).pid;
        npm.kill("SIGTERM");
        await eventually("the server to stop", () => output.includes('"msg":"stopped"'));
        await eventually("the process to end", () => server !== undefined && !isRunning(server));
        expect(output).toContain(" prestart\n");
      } finally {
        npm.kill("SIGKILL");
        if (server !== undefined && isRunning(server)) process.kill(server, "SIGKILL");
        await rm(data, { recursive: true });
      }
    },
  );

  const wrong: readonly (readonly [string, readonly string[], Record<string, string>])[] = [
    ["--prot", ["start", "--prot", "8000"], {}],
    ["PORT", ["start"], { PORT: "-1" }],
    ["HEDGEROW_DATUM", ["start"], { HEDGEROW_DATUM: "/x" }],
    ["strat", ["strat"], {}],
    ["/dev/null/data", ["start", "--data", "/dev/null/data"], {}],
  ];
  test.each(wrong)(
    "[CP-44] names %s when it is wrong, and starts nothing",
    async (name, args, env) => {
      const { code, stderr } = await runCommand(args, env);
      expect(code).toBeGreaterThan(0);
      expect(stderr).toContain(name);
    },
  );
});

/** Whether there is a process with that id. */
function isRunning(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}
