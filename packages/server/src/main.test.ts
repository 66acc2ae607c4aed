import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import {
  closeSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { connect, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { dataFolderPaths } from "./engines/data-folder/data-folder.ts";

/** Processes take seconds to start where many tests share the machine. */
const SLOW_MS = 180_000;

let home: string;
let data: string;
const running: ChildProcess[] = [];

beforeEach(() => {
  home = mkdtempSync(join(tmpdir(), "hedgerow-main-"));
  data = join(home, "data");
});
afterEach(async () => {
  for (const child of running.splice(0)) {
    if (child.exitCode !== null || child.signalCode !== null) continue;
    const gone = once(child, "exit");
    child.kill("SIGKILL");
    await gone;
  }
  rmSync(home, { recursive: true, force: true });
});

interface Run {
  readonly child: ChildProcess;
  readonly out: () => string;
  readonly err: () => string;
  /** The exit code, or the name of the signal. */
  readonly exit: Promise<number | NodeJS.Signals>;
}

const entry = fileURLToPath(new URL("../bin/hedgerow.js", import.meta.url));
const compiler = fileURLToPath(
  new URL("../../../node_modules/typescript/bin/tsc", import.meta.url),
);
const root = fileURLToPath(new URL("../../..", import.meta.url));

// Processes are started as users start them, built; quick when nothing changed.
beforeAll(() => {
  const built = spawnSync(process.execPath, [compiler, "-b", root], { encoding: "utf8" });
  if (built.status !== 0) throw new Error(`the command could not be built: ${built.stdout}`);
}, SLOW_MS);

/** The built command as a process of its own, without the variables of this one. */
function hedgerow(
  args: readonly string[],
  env: Record<string, string> = {},
  file: string = entry,
): Run {
  return runOf(process.execPath, [file, ...args], env);
}

function runOf(file: string, args: readonly string[], env: Record<string, string>): Run {
  const child = spawn(file, args, {
    cwd: process.cwd(),
    env: { PATH: process.env.PATH, ...env },
    stdio: ["ignore", "pipe", "pipe"],
  });
  running.push(child);
  const text = { out: "", err: "" };
  child.stdout.on("data", (chunk) => {
    text.out += chunk;
  });
  child.stderr.on("data", (chunk) => {
    text.err += chunk;
  });
  const exit = once(child, "close").then(([code, signal]) => code ?? signal);
  return { child, out: () => text.out, err: () => text.err, exit };
}

/** Waits until the service has said that it is ready; answers its address. */
async function ready(run: Run): Promise<string> {
  for (;;) {
    const line = run
      .out()
      .split("\n")
      .find((text) => text.includes('"msg":"ready"'));
    if (line !== undefined) return JSON.parse(line).url;
    const ended = await Promise.race([
      run.exit.then(() => true),
      once(run.child.stdout ?? process.stdout, "data").then(() => false),
    ]);
    if (ended) throw new Error(`the service ended: ${run.err()}${run.out()}`);
  }
}

const start = (env: Record<string, string> = {}, ...args: string[]) =>
  hedgerow(["start", "--port", "0", "--data", data, ...args], env);

describe("hedgerow", { timeout: SLOW_MS }, () => {
  test.each([
    [["help"], /^Hedgerow: .*\n\nUsage: hedgerow <command>/],
    [[], /HEDGEROW_TRUSTED_PROXIES/],
    [["start", "-h"], /^Usage: hedgerow start[\s\S]*--port +PORT +.*\(8000\)/],
    [["--version"], /^\d+\.\d+\.\d+\n$/],
  ])("[CL-4] %j answers on stdout", async (args, expected) => {
    const run = hedgerow(args);
    expect(await run.exit).toBe(0);
    expect(run.out()).toMatch(expected);
    expect(run.err()).toBe("");
  });

  test.each([
    [
      ["constructor"],
      {},
      'unknown command "constructor" (known are start, keys, dead-letters, doctor, help, version)',
    ],
    [["doctor", "--port", "x"], {}, '--port must be a whole number from 0 to 65535, not "x"'],
    [
      ["start", "--role", "ingest"],
      {},
      "the role ingest needs an event log that processes share; with storage in the data folder one process does everything: start it with --role all",
    ],
  ])("[CL-2] [CL-9] %j is refused in one line with exit code 2", async (args, env, message) => {
    const run = hedgerow(args, env);
    expect(await run.exit).toBe(2);
    expect(run.err()).toBe(`hedgerow: ${message}\n`);
    expect(run.out()).toBe("");
  });

  test("[CL-9] a database that does not answer is named by every command", async () => {
    mkdirSync(data);
    const away = "postgres://ada@127.0.0.1:2/flags";
    for (const args of [
      ["keys", "list"],
      ["doctor", "flags"],
    ]) {
      const run = hedgerow([...args, "--data", data, "--database-url", away]);
      expect(await run.exit).toBe(1);
      expect(run.err()).toBe(
        `hedgerow: ${args[0]} failed: --database-url ${away} cannot be used: connect ECONNREFUSED 127.0.0.1:2\n`,
      );
    }
  });

  test("[CL-21] doctor prints a line per check, or an array, and fails with 1", async () => {
    writeFileSync(data, "a file");
    const lines = hedgerow(["doctor", "--data", data]);
    const array = hedgerow(["doctor", "--json", "--data", data]);
    expect(await lines.exit).toBe(1);
    expect(lines.out()).toMatch(/^ok {4}node {11}\d+/);
    expect(lines.out()).toContain(`fail  data folder    ${data} is no folder\n`);
    expect(await array.exit).toBe(1);
    expect(JSON.parse(array.out())[0]).toMatchObject({ check: "node", status: "ok" });
  });
});

describe("the bundled command", { timeout: SLOW_MS }, () => {
  const bundle = fileURLToPath(new URL("../dist/bundle", import.meta.url));
  const copy = `${bundle}-copied-${process.pid}`;
  afterEach(() => rmSync(copy, { recursive: true, force: true }));

  test.each<[string, (codeCache: string) => void]>([
    ["is missing", (path) => rmSync(path)],
    ["ends too soon", (path) => truncateSync(path, 1_000)],
    ["is of another V8", (path) => writeFileSync(path, Buffer.alloc(4_000, 7))],
  ])("[CL-14] runs all the same when what was compiled of it %s", async (_what, change) => {
    cpSync(bundle, copy, { recursive: true });
    const caches = readdirSync(copy).filter((name) => name.endsWith(".v8"));
    expect(caches).toHaveLength(1);
    for (const name of caches) change(join(copy, name));
    const run = hedgerow(["--version"], {}, join(copy, "main.js"));
    expect(await run.exit).toBe(0);
    expect(run.out()).toMatch(/^\d+\.\d+\.\d+\n$/);
    expect(run.err()).toBe("");
  });
});

describe("hedgerow start", { timeout: SLOW_MS }, () => {
  test("[CL-5] tells the keys on the first boot only, and the requests it prints work", async () => {
    const first = start();
    await ready(first);
    const told = first.out();
    const commands = [...told.matchAll(/^ {2}(curl .*)$/gm)].map(([, command = ""]) => command);
    expect(commands).toHaveLength(3);
    const [decide, capture, events] = commands as [string, string, string];
    const answers = JSON.parse(await shell(decide));
    expect(answers).toMatchObject({ featureFlags: {}, errorsWhileComputingFlags: false });
    expect(JSON.parse(await shell(capture))).toMatchObject({ status: 1 });
    const stored = await until(
      async () => JSON.parse(await shell(events)),
      ({ results }) => results.length > 0,
    );
    expect(stored.results[0]).toMatchObject({ event: "hello", distinct_id: "ada" });
    first.child.kill("SIGTERM");
    expect(await first.exit).toBe(0);

    const second = start();
    await ready(second);
    expect(second.out()).not.toMatch(/phc_|phx_|Welcome/);
    second.child.kill("SIGINT");
    expect(await second.exit).toBe(0);
    expect(second.out()).toContain('"msg":"stopped"');
  });

  test("[CL-15] tells transformations the port that the system chose", async () => {
    const run = start();
    const url = await ready(run);
    const key = /phx_\w+/.exec(run.out())?.[0];
    const source =
      "export const processEvent = (event) => (event.properties.site = event.site_url, event);";
    const answer = await fetch(`${url}/api/projects/1/plugin_configs/test`, {
      method: "POST",
      headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
      body: JSON.stringify({ source, events: [{ event: "hello", distinct_id: "ada" }] }),
    });
    const { results } = (await answer.json()) as { results: { after: object }[] };
    expect(results[0]?.after).toMatchObject({ properties: { site: url } });
    const holder = JSON.parse(readFileSync(dataFolderPaths(data).holder, "utf8"));
    expect(holder).toMatchObject({ url });
  });

  test("[CL-9] an address of another machine is said in one line, also where the port is free to choose", async () => {
    const run = start({}, "--host", "192.0.2.1");
    expect(await run.exit).toBe(1);
    expect(run.err()).toBe(
      "hedgerow: 192.0.2.1 is no address of this machine: choose another with --host\n",
    );
  });

  test("[CL-16] started by its name it limits what the C library keeps, unless its operator said so", async () => {
    const args = ["start", "--port", "0", "--data", data];
    for (const [env, expected] of [
      [{}, "2"],
      [{ MALLOC_ARENA_MAX: "7" }, "7"],
    ] as const) {
      const run = runOf(entry, args, env);
      await ready(run);
      const told = (of: string) => readFileSync(`/proc/${run.child.pid}/${of}`, "utf8").split("\0");
      expect(told("environ").filter((text) => text.startsWith("MALLOC_ARENA_MAX="))).toEqual([
        `MALLOC_ARENA_MAX=${expected}`,
      ]);
      expect(told("cmdline").slice(1)).toEqual(["--v8-pool-size=1", entry, ...args, ""]);
      run.child.kill("SIGTERM");
      expect(await run.exit).toBe(0);
    }
    const wrong = spawnSync(entry, ["no such; command"], { encoding: "utf8" });
    expect(wrong.status).toBe(2);
    expect(wrong.stderr).toContain('unknown command "no such; command"');
  });

  /** Whether this user may have file systems of his own. */
  const mayMount =
    spawnSync("unshare", ["-rm", "mount", "-t", "tmpfs", "tmpfs", tmpdir()]).status === 0;

  test.skipIf(!mayMount).each([4, 40, 200, 600])(
    "[CL-17] a first start on a disk of %i KB says so, and the next one with room goes on",
    async (kilobytes) => {
      mkdirSync(data);
      const command = `"$0" "$1" start --port 0 --data "$2/data"`;
      const script = `mount -t tmpfs -o size=${kilobytes}k tmpfs "$2" && ! ${command} &&
        mount -o remount,size=64m "$2" && exec ${command}`;
      const run = runOf("unshare", ["-rm", "sh", "-c", script, process.execPath, entry, data], {});
      await ready(run);
      expect(run.err()).toMatch(
        /^hedgerow: cannot start: the disk of the data folder \S+ is full \(0\.\d MB free\): make room for 200 MB at least, or choose another folder with --data; what is stored is unharmed\n$/,
      );
      expect(run.out()).toMatch(/Welcome[\s\S]*phx_\w+/);
      run.child.kill("SIGTERM");
      expect(await run.exit).toBe(0);
    },
  );

  test("[CL-7] a second process on the same folder is refused, and may follow a killed one", async () => {
    const first = start();
    await ready(first);
    const second = start();
    expect(await second.exit).toBe(1);
    expect(second.err()).toMatch(
      new RegExp(
        `^hedgerow: the data folder ${data} is in use by another hedgerow \\(process ${first.child.pid} since \\S+\\): .*\\n$`,
      ),
    );
    first.child.kill("SIGKILL");
    await first.exit;
    const third = start();
    await ready(third);
  });

  test("[CL-9] a port that is taken is said in one line", async () => {
    const other = createServer().listen(0, "127.0.0.1");
    await once(other, "listening");
    const { port } = other.address() as { port: number };
    const run = hedgerow(["start", "--data", data], { PORT: String(port) });
    expect(await run.exit).toBe(1);
    other.close();
    expect(run.err()).toBe(
      `hedgerow: 127.0.0.1:${port} is taken by another program: stop that one, or choose another port with --port\n`,
    );
    expect(run.out()).toBe("");
  });

  test("[CL-5] a first start that cannot listen makes no accounts: the next one tells the keys", async () => {
    const other = createServer().listen(0, "127.0.0.1");
    await once(other, "listening");
    const { port } = other.address() as { port: number };
    expect(await hedgerow(["start", "--data", data, "--port", String(port)]).exit).toBe(1);
    other.close();
    const next = start();
    await ready(next);
    expect(next.out()).toMatch(/Welcome[\s\S]*phc_\w+[\s\S]*phx_\w+[\s\S]*password +\S+/);
  });

  test("[CL-9] what cannot be used is said in one line that names the option and its value", async () => {
    const file = join(home, "file");
    writeFileSync(file, "");
    const onFile = hedgerow(["start", "--port", "0", "--data", file]);
    const places = join(home, "absent.mmdb");
    const badPlaces = start({ HEDGEROW_GEOIP_DB: places });
    const damaged = join(home, "damaged");
    mkdirSync(damaged);
    writeFileSync(dataFolderPaths(damaged).events, "no database");
    const onDamaged = hedgerow(["start", "--port", "0", "--data", damaged]);
    // Nothing listens on port 1.
    const away = "postgres://ada:secret@127.0.0.1:1/flags?password=secret";
    const noDatabase = hedgerow(["start", "--port", "0", "--data", join(home, "sql")], {
      HEDGEROW_DATABASE_URL: away,
    });
    for (const run of [onFile, badPlaces, onDamaged, noDatabase]) {
      expect(await run.exit).toBe(1);
      expect(run.err()).toMatch(/^hedgerow: cannot start: [^\n]+\n$/);
    }
    expect(onFile.err()).toContain(`--data ${file} cannot be used: E`);
    expect(badPlaces.err()).toContain(`--geoip-db ${places} cannot be used: ENOENT`);
    expect(onDamaged.err()).toContain("events.duckdb");
    expect(noDatabase.err()).toMatch(
      /--database-url postgres:\/\/ada@127.0.0.1:1\/flags cannot be used: .*ECONNREFUSED/,
    );
    expect(noDatabase.err()).not.toContain("secret");
  });

  test("[CL-10] a key made and revoked beside the running service counts and ends at once", async () => {
    const service = start();
    const url = await ready(service);
    const keys = (...args: string[]) => hedgerow(["keys", ...args, "--data", data]);
    const made = keys("create", "--label", "beside", "--scopes", "project:read");
    expect(await made.exit).toBe(0);
    const headers = { authorization: `Bearer ${made.out().trim()}` };
    const status = async () => (await fetch(`${url}/api/projects/@current`, { headers })).status;
    expect(await status()).toBe(200);
    const [, id = ""] = /^key (\S+)/.exec(made.err()) ?? [];
    expect(await keys("revoke", id).exit).toBe(0);
    expect(await status()).toBe(401);
  });

  test("[CL-8] a client that never ends its request does not keep the service from stopping in order", async () => {
    const service = start();
    await holdRequestOpen(await ready(service));
    service.child.kill("SIGTERM");
    // It ends itself with 1 when that takes long.
    expect(await service.exit).toBe(0);
    expect(service.out()).toContain('"msg":"stopped"');
  });

  test("[CL-13] stops in order when nobody reads what it prints any more", async () => {
    const service = start();
    await ready(service);
    service.child.stdout?.destroy();
    service.child.stderr?.destroy();
    service.child.kill("SIGTERM");
    expect(await service.exit).toBe(0);
  });

  test.runIf(existsSync("/dev/full"))(
    "[CL-13] goes on when the file that it prints to can take no more",
    async () => {
      const full = openSync("/dev/full", "w");
      const child = spawn(entry, ["start", "--data", data, "--port", "0"], {
        env: { PATH: process.env.PATH },
        stdio: ["ignore", full, full],
      });
      running.push(child);
      closeSync(full);
      const lock = dataFolderPaths(data).holder;
      const url = await until(
        async () => (existsSync(lock) ? JSON.parse(readFileSync(lock, "utf8")).url : undefined),
        (told) => told !== undefined,
      );
      expect((await fetch(`${url}/_liveness`)).status).toBe(200);
      // Each failed request of this kind is logged.
      for (let n = 0; n < 3; n++) await fetch(`${url}/api/projects/1`, { method: "POST" });
      const exit = once(child, "exit");
      child.kill("SIGTERM");
      expect(await exit).toEqual([0, null]);
    },
  );

  test("[CL-8] a second signal stops at once", async () => {
    const service = start();
    await holdRequestOpen(await ready(service));
    service.child.kill("SIGTERM");
    await until(
      async () => service.out(),
      (text) => text.includes('"msg":"stopping"'),
    );
    // Later than the echo of a Ctrl+C that npm passes on.
    await new Promise((resolve) => setTimeout(resolve, 300));
    expect(service.child.exitCode).toBeNull();
    service.child.kill("SIGTERM");
    expect(await service.exit).toBe(143);
  });
});

/** Sends the beginning of a request and waits until the service has it. */
async function holdRequestOpen(url: string): Promise<void> {
  const socket = connect(Number(new URL(url).port), "127.0.0.1");
  socket.on("error", () => {});
  await once(socket, "connect");
  socket.write("POST /capture HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{");
  // Connections are served in the order in which they came.
  await fetch(`${url}/_liveness`);
}

/** Runs a printed command line and answers what it prints. */
async function shell(command: string): Promise<string> {
  const child = spawn("sh", ["-c", command], { stdio: ["ignore", "pipe", "inherit"] });
  let out = "";
  child.stdout.on("data", (chunk) => {
    out += chunk;
  });
  await once(child, "close");
  return out;
}

async function until<T>(look: () => Promise<T>, isEnough: (seen: T) => boolean): Promise<T> {
  for (let tries = 0; tries < 1_200; tries++) {
    const seen = await look();
    if (isEnough(seen)) return seen;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  throw new Error("what was waited for did not come");
}
