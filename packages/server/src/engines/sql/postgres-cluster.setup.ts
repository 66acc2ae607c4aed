import { spawnSync } from "node:child_process";
import { chownSync, existsSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TestProject } from "vitest/node";

declare module "vitest" {
  export interface ProvidedContext {
    /** URL of a Postgres for contract suites, or why there is none. */
    postgres: { url: string } | { missing: string };
  }
}

/** Provides a Postgres: the one named by the environment, or a throw-away cluster where `initdb` exists. */
export default function setup(project: TestProject): (() => void) | undefined {
  const url = process.env.HEDGEROW_TEST_POSTGRES_URL;
  if (url) {
    project.provide("postgres", { url });
    return undefined;
  }
  const bin = binaries();
  if (!bin) {
    const missing = "no initdb on this machine and HEDGEROW_TEST_POSTGRES_URL is not set";
    console.log(`Postgres suites are skipped: ${missing}`);
    project.provide("postgres", { missing });
    return undefined;
  }
  const home = mkdtempSync(join(tmpdir(), "hedgerow-postgres-"));
  const account = postgresAccount();
  if (account) chownSync(home, account.uid, account.gid);
  const run = (command: string, args: string[]) => {
    const done = spawnSync(join(bin, command), args, { cwd: home, encoding: "utf8", ...account });
    if (done.status !== 0) throw new Error(`${command} failed: ${done.stderr}${done.stdout}`);
  };
  const data = join(home, "data");
  run("initdb", [
    "-D",
    data,
    "-U",
    "hedgerow",
    "-A",
    "trust",
    "--no-sync",
    "-E",
    "UTF8",
    "--locale=C",
  ]);
  // A Unix socket in our own folder: no port to collide on. Durability is not what is tested here.
  run("pg_ctl", [
    "-D",
    data,
    "-w",
    "-t",
    "170",
    "-l",
    join(home, "log"),
    "-o",
    `-c listen_addresses='' -c unix_socket_directories='${home}' -c fsync=off -c max_connections=200`,
    "start",
  ]);
  project.provide("postgres", { url: `postgres://hedgerow@localhost/postgres?host=${home}` });
  return () => {
    run("pg_ctl", ["-D", data, "-m", "immediate", "stop"]);
    rmSync(home, { recursive: true, force: true });
  };
}

function binaries(): string | undefined {
  const versions = "/usr/lib/postgresql";
  const found = existsSync(versions)
    ? readdirSync(versions)
        .sort((a, b) => Number(b) - Number(a))
        .map((v) => join(versions, v, "bin"))
    : [];
  return [...found, "/usr/local/bin", "/usr/bin"].find((path) => existsSync(join(path, "initdb")));
}

/** Postgres refuses to run as root: then the machine's own `postgres` account runs it. */
function postgresAccount(): { uid: number; gid: number } | undefined {
  if (process.getuid?.() !== 0) return undefined;
  const id = (flag: string) =>
    Number(spawnSync("id", [flag, "postgres"], { encoding: "utf8" }).stdout);
  return { uid: id("-u"), gid: id("-g") };
}
