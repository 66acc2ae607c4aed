// Starts the built server for a benchmark, on a fresh folder and a free port.
import { spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const bin = join(dirname(fileURLToPath(import.meta.url)), "../packages/server/bin/hedgerow.js");

export const PROJECT_KEY = "phc_benchmarkbenchmarkbenchmarkbenchmarkbench";
export const PERSONAL_KEY = "phx_benchmarkbenchmarkbenchmarkbenchmarkbench";

export async function freePort() {
  const server = createServer();
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address();
  await new Promise((resolve) => server.close(resolve));
  return port;
}

/** User and system CPU seconds a process has used, all its threads together. */
export function cpuSecondsOf(pid) {
  const fields = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ")[1].split(" ");
  return (Number(fields[11]) + Number(fields[12])) / 100;
}

/** Starts the server; resolves when it is ready. `start` again after `stop` keeps the data. */
export async function measuredServer() {
  const data = mkdtempSync(join(tmpdir(), "hedgerow-bench-"));
  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  let child;

  async function start() {
    const startedAt = performance.now();
    child = spawn(bin, ["start", "--port", String(port), "--data", data], {
      env: {
        PATH: process.env.PATH,
        LOG_LEVEL: "warn",
        HEDGEROW_PROJECT_KEY: PROJECT_KEY,
        HEDGEROW_PERSONAL_KEY: PERSONAL_KEY,
      },
      stdio: ["ignore", "ignore", "inherit"],
    });
    for (;;) {
      if (child.exitCode !== null) throw new Error(`the server ended with ${child.exitCode}`);
      const ready = await fetch(`${url}/_readiness`).then(
        (r) => r.ok,
        () => false,
      );
      if (ready) return performance.now() - startedAt;
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
  }

  async function stop() {
    const ended = new Promise((resolve) => child.once("exit", resolve));
    child.kill("SIGTERM");
    await ended;
  }

  return {
    url,
    port,
    data,
    start,
    stop,
    /** Resident memory of the process in MB. */
    residentMb: () =>
      Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${child.pid}/status`, "utf8"))[1]) / 1024,
    /** User and system CPU seconds the process has used. */
    cpuSeconds: () => cpuSecondsOf(child.pid),
    async api(method, path, body) {
      const response = await fetch(`${url}${path}`, {
        method,
        headers: { authorization: `Bearer ${PERSONAL_KEY}`, "content-type": "application/json" },
        body: body === undefined ? undefined : JSON.stringify(body),
      });
      if (!response.ok)
        throw new Error(`${method} ${path}: ${response.status} ${await response.text()}`);
      return response.json();
    },
    async close() {
      await stop();
      rmSync(data, { recursive: true, force: true });
    },
  };
}
