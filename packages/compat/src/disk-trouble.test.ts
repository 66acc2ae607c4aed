import { execFileSync } from "node:child_process";
import { randomBytes, randomUUID } from "node:crypto";
import { closeSync, openSync, readdirSync, rmSync, writeSync } from "node:fs";
import { rm } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import { eventually } from "./eventually.ts";
import { openManagement } from "./management.ts";
import { postJson } from "./raw-http.ts";
import { newFolder, PROJECT_KEY, type ServerUnderTest, startServer } from "./server-under-test.ts";

/** How a machine comes to take no more writes, and how it comes to take them again. */
interface Trouble {
  begin(server: ServerUnderTest): void;
  end(server: ServerUnderTest): void;
}

const run = (program: string, ...args: readonly string[]) =>
  execFileSync(program, args, { stdio: "pipe" });

/** Whether all of some commands work here, in a folder of their own. */
async function works(attempt: (folder: string) => void): Promise<boolean> {
  const folder = await newFolder();
  try {
    attempt(folder);
    return true;
  } catch {
    return false;
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** Set the variable to 30000 before a release. */
const STORE_TROUBLE_MS = Number(process.env.HEDGEROW_STORE_TROUBLE_MS ?? 4000);

const TMPFS_MEBIBYTES = 96;
const mount = (folder: string) =>
  run("mount", "-t", "tmpfs", "-o", `size=${TMPFS_MEBIBYTES}m`, "hedgerow-test", folder);

const canMount = await works((folder) => {
  mount(folder);
  run("umount", folder);
});
const canLimit = await works(() => run("prlimit", "--pid", String(process.pid), "--fsize"));
const canFreeze = await works((folder) => {
  const file = join(folder, "file");
  closeSync(openSync(file, "w"));
  run("chattr", "+i", file);
  run("chattr", "-i", file);
});

/** A file that takes all room that is left. */
function fill(path: string): void {
  const file = openSync(path, "w");
  for (let bytes = 1024 * 1024; bytes > 0; bytes = Math.floor(bytes / 2)) {
    try {
      for (;;) if (writeSync(file, Buffer.alloc(bytes)) < bytes) break;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "ENOSPC") throw error;
    }
  }
  closeSync(file);
}

const CLIENTS = 4;

/** Captures without an end, one request after the other per client, and keeps what was answered. */
function startLoad(server: ServerUnderTest) {
  const acknowledged: string[] = [];
  const answers: { status: number; retryAfter: string | undefined }[] = [];
  const faults: unknown[] = [];
  let isOver = false;
  const clients = Array.from({ length: CLIENTS }, async (_, client) => {
    for (let number = 0; !isOver; ) {
      const batch = Array.from({ length: 5 }, () => ({
        uuid: randomUUID(),
        event: "counted",
        distinct_id: `somebody-${client}`,
        properties: {
          number: ++number,
          noise: randomBytes(1500).toString("base64"),
          $set: { last: number },
        },
      }));
      try {
        const { status, headers } = await postJson(server, "/batch/", {
          api_key: PROJECT_KEY,
          batch,
        });
        answers.push({ status, retryAfter: headers["retry-after"] });
        if (status === 200) acknowledged.push(...batch.map(({ uuid }) => uuid));
      } catch (error) {
        faults.push(error);
      }
      await delay(10);
    }
  });
  return {
    acknowledged,
    answers,
    faults,
    async stop() {
      isOver = true;
      await Promise.all(clients);
    },
  };
}

/** Every acknowledged event is stored once and in the order of its client, and none was set aside. */
async function expectAll(server: ServerUnderTest, acknowledged: readonly string[]): Promise<void> {
  const management = openManagement(server);
  const stored = await eventually("all acknowledged events", async () => {
    const events: Awaited<ReturnType<typeof management.events>>[number][] = [];
    for (let offset = 0; ; offset += 1000) {
      const page = await management.events({
        ...{ event: "counted", offset: String(offset) },
        orderBy: '["timestamp"]',
      });
      events.push(...page);
      if (page.length < 1000) break;
    }
    const found = new Set(events.map(({ id }) => id));
    const missing = acknowledged.filter((uuid) => !found.has(uuid)).length;
    if (missing > 0) throw new Error(`${missing} of ${acknowledged.length} are missing`);
    return events;
  });
  expect(new Set(stored.map(({ id }) => id)).size).toBe(stored.length);
  for (let client = 0; client < CLIENTS; client++) {
    const own = stored.filter((event) => event.distinct_id === `somebody-${client}`);
    const numbers = own.map(({ properties }) => Number(properties.number));
    expect(numbers).toEqual(numbers.toSorted((a, b) => a - b));
    expect(own.at(-1)?.person?.properties).toMatchObject({ last: numbers.at(-1) });
  }
  const letters = await management.call("GET", "/api/projects/@current/dead_letters");
  expect(letters.body).toMatchObject({ results: [] });
}

/** Makes files of a server's folder such that nobody can write them, or undoes it. */
function markFiles(server: ServerUnderTest, change: "+i" | "-i", which: RegExp): void {
  const folder = server.dataFolder;
  const names = readdirSync(folder, { recursive: true, encoding: "utf8" }).filter(
    // What SQLite shares with other processes by mapping it into memory is no file to it.
    (name) => which.test(name) && !name.endsWith("-shm"),
  );
  if (change === "+i" && names.length === 0) throw new Error("there are no such files");
  // A folder's own mark keeps files from being made.
  const paths = names.map((name) => join(folder, name));
  for (const path of which.test(".") ? [folder, ...paths] : paths) run("chattr", change, path);
}

/** Events are refused while the trouble lasts, and taken again after it, without a restart. */
async function surviveTrouble(server: ServerUnderTest, trouble: Trouble): Promise<void> {
  const load = startLoad(server);
  const since = (from: number, status: number) =>
    load.answers.slice(from).filter((answer) => answer.status === status).length;
  await eventually("events to be taken", () => since(0, 200) > 20);
  for (let round = 0; round < 2; round++) {
    trouble.begin(server);
    const refusedFrom = load.answers.length;
    await eventually("events to be refused", () => since(refusedFrom, 503) > 50);
    await delay(1000);
    const freedFrom = load.answers.length;
    trouble.end(server);
    await eventually("events to be taken again", () => since(freedFrom, 200) > 50);
  }
  await load.stop();
  expect(load.faults).toEqual([]);
  const others = load.answers.filter(({ status }) => status !== 200 && status !== 503);
  expect(others).toEqual([]);
  for (const { status, retryAfter } of load.answers) {
    if (status === 503) expect(Number(retryAfter)).toBeGreaterThan(0);
  }
  await expectAll(server, load.acknowledged);
  // And nothing of it was in memory only.
  await server.kill();
  await server.startAgain();
  await expectAll(server, load.acknowledged);
}

/** Events are taken while the store is out of order, and all are there when it works again. */
async function outlastStore(
  server: ServerUnderTest,
  trouble: Trouble & { readonly lastingMs: number },
): Promise<void> {
  const load = startLoad(server);
  await eventually("events to be taken", () => load.answers.length > 20);
  trouble.begin(server);
  const duringFrom = load.acknowledged.length;
  await delay(trouble.lastingMs);
  await eventually("events to be taken all the same", () => {
    return load.acknowledged.length > duringFrom + 400;
  });
  const during = load.acknowledged.slice(duringFrom);
  const management = openManagement(server);
  // The trouble is one: what was taken long ago by now is not stored.
  const late = during.slice(0, Math.ceil(during.length / 2));
  for (const uuid of [late.at(-100), late.at(-1)]) {
    const receipt = await management.call("GET", `/api/projects/@current/event_receipts/${uuid}`);
    expect(receipt.body).toMatchObject({ outcome: "queued" });
  }
  trouble.end(server);
  await delay(500);
  await load.stop();
  expect(load.faults).toEqual([]);
  expect(load.answers.filter(({ status }) => status !== 200)).toEqual([]);
  await expectAll(server, load.acknowledged);
  await server.kill();
  await server.startAgain();
  await expectAll(server, load.acknowledged);
}

describe("a disk that takes no more", { timeout: 600_000 }, () => {
  test.skipIf(!canMount)(
    `[CP-46] because a file system of ${TMPFS_MEBIBYTES} MiB is full${canMount ? "" : " (skipped: only root may mount one)"}`,
    async () => {
      const folder = await newFolder();
      mount(folder);
      const filler = join(folder, "filler");
      let server: ServerUnderTest | undefined;
      try {
        server = await startServer({ dataFolder: join(folder, "data") });
        await surviveTrouble(server, { begin: () => fill(filler), end: () => rmSync(filler) });
      } finally {
        await server?.dispose();
        run("umount", folder);
        await rm(folder, { recursive: true, force: true });
      }
    },
  );

  test.skipIf(!canLimit)(
    `[CP-46] because no file may grow${canLimit ? "" : " (skipped: there is no prlimit here)"}`,
    async () => {
      const server = await startServer();
      const limit = (bytes: string) => {
        return run("prlimit", "--pid", String(server.pid()), `--fsize=${bytes}:`);
      };
      try {
        await surviveTrouble(server, { begin: () => limit("0"), end: () => limit("unlimited") });
      } finally {
        await server.dispose();
      }
    },
  );

  test.skipIf(!canFreeze)(
    `[CP-46] because its files may not be written${canFreeze ? "" : " (skipped: only root may mark files immutable, and not on every file system)"}`,
    async () => {
      const server = await startServer();
      const mark = (change: "+i" | "-i") => markFiles(server, change, /./);
      try {
        await surviveTrouble(server, { begin: () => mark("+i"), end: () => mark("-i") });
      } finally {
        mark("-i");
        await server.dispose();
      }
    },
  );
});

describe("an event store that cannot be written", { timeout: 600_000 }, () => {
  const files = [
    ["its tables", /^events\.duckdb(?:\.wal)?$/],
    ["all of it", /^events\.duckdb/],
  ] as const;
  test.skipIf(!canFreeze).each(files)(
    `[CP-47] in %s for ${STORE_TROUBLE_MS} ms${canFreeze ? "" : " (skipped: only root may mark files immutable, and not on every file system)"}`,
    async (_part, which) => {
      const server = await startServer();
      try {
        await outlastStore(server, {
          lastingMs: STORE_TROUBLE_MS,
          begin: () => markFiles(server, "+i", which),
          end: () => markFiles(server, "-i", which),
        });
      } finally {
        markFiles(server, "-i", which);
        await server.dispose();
      }
    },
  );
});
