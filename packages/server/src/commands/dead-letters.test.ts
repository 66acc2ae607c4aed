import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import pino from "pino";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { composeService } from "../compose.ts";
import { readConfig, UsageError } from "../config.ts";
import { dataFolderPaths, openDataFolder } from "../engines/data-folder/data-folder.ts";
import { openDuckDbEvents } from "../engines/duckdb-events/duckdb-events.ts";
import { sampleEvent } from "../events/event-log.contract.ts";
import { deadLetters } from "./dead-letters.ts";

const KEY = "phx_deadletterstestdeadletterstest";
let data: string;

async function startService() {
  let url = "";
  const env = { HEDGEROW_PERSONAL_KEY: KEY };
  const service = await composeService(
    readConfig(["--data", data], env),
    pino({ level: "silent" }),
    { listen: async (app) => (url = await app.listen({ port: 0, host: "127.0.0.1" })) },
  );
  return { url, close: () => service.close() };
}

beforeEach(async () => {
  data = mkdtempSync(join(tmpdir(), "hedgerow-letters-"));
  await (await startService()).close();
  const events = await openDuckDbEvents(dataFolderPaths(data).events);
  const letters = ["one", "two"].map((event, index) => ({
    position: index + 1,
    event: sampleEvent({ projectId: 1, event }),
    reason: "it\tdid not fit",
  }));
  await events.insert({ rows: [], merges: [], drops: [], deadLetters: letters, end: 2 });
  await events.close();
});
afterEach(() => rmSync(data, { recursive: true, force: true }));

async function run(...args: string[]) {
  const lines = { out: [] as string[], err: [] as string[] };
  const out = vi.spyOn(console, "log").mockImplementation((line) => lines.out.push(line));
  const err = vi.spyOn(console, "error").mockImplementation((line) => lines.err.push(line));
  try {
    const code = await deadLetters([...args, "--data", data]);
    return { code, out: lines.out.map((line) => line.split("\t")), err: lines.err.join("\n") };
  } finally {
    out.mockRestore();
    err.mockRestore();
  }
}

describe("hedgerow dead-letters", () => {
  test("[CL-30] lists and replays on the folder of a stopped service, which stores them when it starts", async () => {
    const listed = await run("list");
    expect(listed.code).toBe(0);
    expect(listed.out.slice(1).map((cells) => [cells[0], cells[1], cells[3], cells[4]])).toEqual([
      ["1", "1", "one", "it did not fit"],
      ["2", "1", "two", "it did not fit"],
    ]);
    expect(await run("replay", "2", "7")).toMatchObject({ code: 1 });
    expect((await run("list")).out.length).toBe(2);
    expect(await run("replay", "--all")).toMatchObject({ code: 0 });
    expect((await run("list")).out).toEqual([]);
    const service = await startService();
    const response = await fetch(`${service.url}/api/projects/1/events`, {
      headers: { authorization: `Bearer ${KEY}` },
    });
    const { results } = (await response.json()) as { results: { event: string }[] };
    await service.close();
    expect(results.map(({ event }) => event).toSorted()).toEqual(["one", "two"]);
  });

  test("[CL-30] asks a running service instead, with a personal key", async () => {
    const service = await startService();
    try {
      const at = ["--url", service.url, "--key", KEY];
      expect((await run("list", ...at)).out.length).toBe(3);
      expect(await run("replay", "--all", ...at)).toMatchObject({ code: 0 });
      expect((await run("list", ...at)).out).toEqual([]);
      await expect(run("list")).rejects.toThrow("the service runs: give a personal key");
      const wrong = run("list", "--url", service.url, "--key", "phx_wrongwrong");
      await expect(wrong).rejects.toThrow("answers 401");
    } finally {
      await service.close();
    }
  });

  test("[CL-31] asks the service that works in the folder where it said it answers, and nobody else", async () => {
    const asked: (string | undefined)[] = [];
    const other = createServer((request, response) => {
      asked.push(request.url);
      response.end("{}");
    }).listen(0, "127.0.0.1");
    await once(other, "listening");
    const { port } = other.address() as AddressInfo;
    const key = ["--key", KEY, "--port", String(port)];
    const service = await startService();
    try {
      expect((await run("list", ...key)).out.length).toBe(3);
    } finally {
      await service.close();
    }
    // One that holds the folder without having said an address.
    const folder = openDataFolder(data, new Date());
    await expect(run("list", ...key)).rejects.toThrow(
      `process ${process.pid} works in ${data} and does not say where it answers`,
    );
    folder.release();
    expect(asked).toEqual([]);
    other.close();
  });

  test("[CL-31] says in one line why a service is not heard", async () => {
    // Nothing listens on port 2.
    const nobody = run("list", "--url", "http://127.0.0.1:2", "--key", KEY);
    await expect(nobody).rejects.toThrow(
      new UsageError(
        "no service answers at http://127.0.0.1:2: name it with --url (connect ECONNREFUSED 127.0.0.1:2)",
      ),
    );
    await expect(run("list", "--url", "8000", "--key", KEY)).rejects.toThrow("--url must be");
  });

  test("[CL-30] names mistakes", async () => {
    for (const args of [[], ["burn"], ["replay"], ["replay", "--all", "1"], ["replay", "x"]]) {
      await expect(run(...args), args.join(" ")).rejects.toBeInstanceOf(UsageError);
    }
  });
});
