import { type ChildProcess, spawn } from "node:child_process";
import { randomInt } from "node:crypto";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, beforeEach } from "vitest";
import { eventually } from "./eventually.ts";

/** The built command, as users run it. */
const COMMAND = fileURLToPath(new URL("../../server/bin/hedgerow.js", import.meta.url));

/** Keys that every server under test is first booted with. */
export const PROJECT_KEY = "phc_compatProjectKey0123456789";
export const PERSONAL_KEY = "phx_compatPersonalKey0123456789";

/** A stop on SIGTERM has to be over by then. */
const STOP_WITHIN_MS = 10_000;
/** A second on a machine at leisure; the limit is for machines that run much else. */
const READY_WITHIN_MS = 120_000;

export interface StartOptions {
  /** Set on top of the keys. A variable set to `undefined` is not passed. */
  readonly env?: Readonly<Record<string, string | undefined>>;
  /** Where the data lies; a new temporary folder unless given. */
  readonly dataFolder?: string;
}

/** A running server and its process. */
export interface ServerUnderTest {
  readonly url: string;
  readonly port: number;
  readonly dataFolder: string;
  /** Of the process that was started last. */
  pid(): number;
  /** Everything written by the current process and those before a restart. */
  output(): string;
  /** SIGTERM; fails unless the process ends in time with code 0. */
  stop(): Promise<void>;
  /** SIGKILL, as a crash or a lost machine would be. */
  kill(): Promise<void>;
  /** Starts again on the same data and port, after {@link stop} or {@link kill}. */
  startAgain(): Promise<void>;
  /** Ends the process if it runs and removes the data. */
  dispose(): Promise<void>;
}

/** What a command that runs to its end left behind. */
export interface Finished {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** Starts the built server on a free port and new data, and waits until it says that it is ready. */
export async function startServer(options: StartOptions = {}): Promise<ServerUnderTest> {
  const dataFolder = options.dataFolder ?? (await newFolder());
  const port = await findFreePort();
  const url = `http://127.0.0.1:${port}`;
  let output = "";
  let child = await launch().catch(async (error: unknown) => {
    await rm(dataFolder, { recursive: true, force: true });
    throw error;
  });

  async function launch(): Promise<ChildProcess> {
    const started = spawn(
      process.execPath,
      [COMMAND, "start", "--port", String(port), "--data", dataFolder],
      { env: commandEnv(options.env), stdio: ["ignore", "pipe", "pipe"] },
    );
    for (const stream of [started.stdout, started.stderr]) {
      stream.setEncoding("utf8").on("data", (text: string) => {
        output += text;
      });
    }
    try {
      await eventually(
        "the server to be ready",
        async () => {
          if (started.exitCode !== null) return true;
          return (await fetch(`${url}/_readiness`)).ok;
        },
        READY_WITHIN_MS,
      );
      if (started.exitCode !== null) throw new Error(`ended with code ${started.exitCode}`);
    } catch (cause) {
      started.kill("SIGKILL");
      throw new Error(`the server did not start; it wrote:\n${output}`, { cause });
    }
    return started;
  }

  async function end(signal: NodeJS.Signals): Promise<void> {
    if (child.exitCode !== null || child.signalCode !== null) return;
    const exit = once(child, "exit");
    child.kill(signal);
    await exit;
  }

  return {
    url,
    port,
    dataFolder,
    pid() {
      if (child.pid === undefined) throw new Error("the server has no process");
      return child.pid;
    },
    output: () => output,
    async stop() {
      const startedMs = performance.now();
      const timer = setTimeout(() => child.kill("SIGKILL"), STOP_WITHIN_MS);
      await end("SIGTERM");
      clearTimeout(timer);
      if (child.exitCode !== 0) {
        const tookMs = Math.round(performance.now() - startedMs);
        const how = child.signalCode ?? `code ${child.exitCode}`;
        throw new Error(`SIGTERM ended the server with ${how} after ${tookMs} ms:\n${output}`);
      }
    },
    kill: () => end("SIGKILL"),
    async startAgain() {
      child = await launch();
    },
    async dispose() {
      await end("SIGKILL");
      await rm(dataFolder, { recursive: true, force: true });
    },
  };
}

/** Runs the built command with other arguments than `start`, to its end. */
export async function runCommand(
  args: readonly string[],
  env: StartOptions["env"] = {},
): Promise<Finished> {
  return runToEnd(process.execPath, [COMMAND, ...args], { env: commandEnv(env) });
}

/** Runs a program to its end; it is killed after two minutes. */
export async function runToEnd(
  program: string,
  args: readonly string[],
  options: { readonly env?: NodeJS.ProcessEnv; readonly cwd?: string } = {},
): Promise<Finished> {
  const child = spawn(program, args, { ...options, stdio: ["ignore", "pipe", "pipe"] });
  let stdout = "";
  let stderr = "";
  child.stdout.setEncoding("utf8").on("data", (text: string) => {
    stdout += text;
  });
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    stderr += text;
  });
  const timer = setTimeout(() => child.kill("SIGKILL"), 120_000);
  const [code] = (await once(child, "close")) as [number | null];
  clearTimeout(timer);
  return { code, stdout, stderr };
}

/**
 * Starts a server for the tests of the calling file or group, and ends it after them; what it writes
 * during a test that fails is printed.
 * @param onReady is given the server before the first test, to keep it and to fill it
 */
export function serveTests(
  onReady: (server: ServerUnderTest) => unknown,
  options: StartOptions = {},
): void {
  let server: ServerUnderTest | undefined;
  beforeAll(async () => {
    server = await startServer(options);
    await onReady(server);
  });
  afterAll(() => server?.dispose());
  showOutputOnFailure(() => server);
}

/** Prints what the server wrote whenever a test of the calling file fails. */
export function showOutputOnFailure(server: () => ServerUnderTest | undefined): void {
  beforeEach(({ onTestFailed }) => {
    const before = server()?.output().length;
    onTestFailed(() => {
      const written = server()?.output().slice(before) ?? "";
      if (written !== "") console.error(`The server wrote during the failed test:\n${written}`);
    });
  });
}

/** A new temporary folder. */
export function newFolder(): Promise<string> {
  return mkdtemp(join(tmpdir(), "hedgerow-compat-"));
}

/**
 * A TCP port nobody listens on, and none that systems give to connections by themselves: those could
 * be taken before the server listens, or while it is started again.
 */
export async function findFreePort(): Promise<number> {
  for (let attempt = 0; attempt < 100; attempt++) {
    const port = randomInt(10_000, 32_000);
    const probe = createServer().listen(port, "127.0.0.1");
    const isFree = await once(probe, "listening").then(
      () => true,
      () => false,
    );
    if (!isFree) continue;
    probe.close();
    await once(probe, "close");
    return port;
  }
  throw new Error("no port is free");
}

/** The environment of the command: nothing of the tester's own settings leaks in. */
function commandEnv(changes: StartOptions["env"] = {}): NodeJS.ProcessEnv {
  return {
    PATH: process.env.PATH,
    HOME: process.env.HOME,
    HEDGEROW_PROJECT_KEY: PROJECT_KEY,
    HEDGEROW_PERSONAL_KEY: PERSONAL_KEY,
    ...changes,
  };
}
