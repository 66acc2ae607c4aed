import { constants, existsSync } from "node:fs";
import { access, stat, statfs } from "node:fs/promises";
import { dirname } from "node:path";
import { type Config, readCommandLine } from "../config.ts";
import { dataFolderPaths, folderHolder } from "../engines/data-folder/data-folder.ts";

/** What one look at the installation found. */
export interface Finding {
  readonly check: string;
  readonly status: "ok" | "warn" | "fail";
  readonly detail: string;
}

const LEAST_NODE = [20, 19] as const;
const GIGABYTE = 1024 ** 3;
/** Less free space than this fails: the next hours of events may not fit. */
const LEAST_FREE_BYTES = 0.2 * GIGABYTE;
const LITTLE_FREE_BYTES = 2 * GIGABYTE;

/** `hedgerow doctor`: looks at the installation, changes nothing; `doctor flags` looks at flags. */
export async function doctor(args: readonly string[]): Promise<number> {
  const [subject, ...rest] = args;
  if (subject === "flags") {
    const { doctorFlags } = await import("./doctor-flags.ts");
    return await doctorFlags(rest);
  }
  const { config, options } = readCommandLine({ args, options: { json: { type: "boolean" } } });
  const findings = await examine(config);
  if (options.json) console.log(JSON.stringify(findings, null, 2));
  else {
    for (const { check, status, detail } of findings) {
      console.log(`${status.padEnd(4)}  ${check.padEnd(13)}  ${detail}`);
    }
  }
  return findings.some(({ status }) => status === "fail") ? 1 : 0;
}

/** All findings, in the order in which trouble is best mended. */
export async function examine(config: Config): Promise<readonly Finding[]> {
  const findings: Finding[] = [];
  const look = async (check: string, examination: () => Promise<Omit<Finding, "check">>) => {
    try {
      findings.push({ check, ...(await examination()) });
    } catch (error) {
      const detail = error instanceof Error ? error.message : String(error);
      findings.push({ check, status: "fail", detail });
    }
  };
  const paths = dataFolderPaths(config.data);
  const isThere = existsSync(config.data);
  let inUse = false;

  await look("node", async () => nodeFinding(process.versions.node));
  await look("data folder", () => folderFinding(config.data));
  await look("disk", () => diskFinding(isThere ? config.data : dirname(config.data)));
  if (isThere) {
    await look("lock", async () => {
      const holder = folderHolder(config.data);
      if (holder === "nobody") return ok("no process works in the folder");
      inUse = true;
      const who =
        holder === "unknown" ? "a process" : `process ${holder.pid}, since ${holder.since},`;
      return ok(`${who} works in the folder`);
    });
  }
  await look("metadata", () => metadataFinding(config, paths.metadata));
  if (existsSync(paths.eventLog)) {
    await look("event log", async () => {
      const { sqliteDamage } = await import("../engines/sql/inspect-sqlite.ts");
      return soundness(sqliteDamage(paths.eventLog));
    });
  }
  if (existsSync(paths.events)) {
    await look("events", async () => {
      if (inUse) return ok("not opened: the process that works in the folder has them");
      const { countEvents } = await import("../engines/duckdb-events/inspect-duckdb.ts");
      return ok(`readable, ${await countEvents(paths.events)} stored`);
    });
  }
  await look("geoip", () => geoIpFinding(config.geoIpDatabase));
  return findings;
}

const ok = (detail: string) => ({ status: "ok", detail }) as const;
const warn = (detail: string) => ({ status: "warn", detail }) as const;
const fail = (detail: string) => ({ status: "fail", detail }) as const;

/** Whether a version of Node.js is recent enough. */
export function nodeFinding(version: string): Omit<Finding, "check"> {
  const [major = 0, minor = 0] = version.split(".").map(Number);
  const isRecent = major > LEAST_NODE[0] || (major === LEAST_NODE[0] && minor >= LEAST_NODE[1]);
  return isRecent ? ok(version) : fail(`${version} is older than ${LEAST_NODE.join(".")}`);
}

async function folderFinding(folder: string) {
  if (!existsSync(folder)) {
    await access(dirname(folder), constants.W_OK);
    return warn(`${folder} does not exist yet: the first start creates it`);
  }
  if (!(await stat(folder)).isDirectory()) return fail(`${folder} is no folder`);
  await access(folder, constants.R_OK | constants.W_OK | constants.X_OK);
  return ok(`${folder} can be written`);
}

async function diskFinding(folder: string) {
  const { bavail, bsize } = await statfs(folder);
  return spaceFinding(bavail * bsize);
}

/** Whether so much free space is enough. */
export function spaceFinding(freeBytes: number): Omit<Finding, "check"> {
  const text = `${(freeBytes / GIGABYTE).toFixed(1)} GB free`;
  if (freeBytes < LEAST_FREE_BYTES) return fail(text);
  return freeBytes < LITTLE_FREE_BYTES ? warn(text) : ok(text);
}

async function metadataFinding({ databaseUrl }: Config, file: string) {
  if (databaseUrl !== null) {
    const { postgresState } = await import("../engines/sql/inspect-postgres.ts");
    return schemaFinding(await postgresState(databaseUrl));
  }
  if (!existsSync(file)) return warn("none yet: the first start creates it");
  const { inspectSqlite } = await import("../engines/sql/inspect-sqlite.ts");
  const state = inspectSqlite(file);
  return state.damage.length > 0 ? soundness(state.damage) : schemaFinding(state);
}

function schemaFinding({
  pending,
  unknown,
}: {
  pending: readonly string[];
  unknown: readonly string[];
}) {
  if (unknown.length > 0) {
    return fail(`written by a newer version of hedgerow (${unknown.join(", ")})`);
  }
  if (pending.length > 0)
    return warn(`the next start brings it up to date (${pending.join(", ")})`);
  return ok("sound and up to date");
}

function soundness(damage: readonly string[]) {
  return damage.length === 0 ? ok("sound") : fail(`damaged: ${damage.slice(0, 3).join("; ")}`);
}

/** A public resolver's address, which every city database knows. */
const WELL_KNOWN_ADDRESS = "8.8.8.8";

async function geoIpFinding(path: string | null) {
  const { openGeoIp } = await import("../engines/mmdb-geoip/mmdb-geoip.ts");
  const faults: string[] = [];
  const reportFault = (error: unknown) =>
    faults.push(error instanceof Error ? error.message : String(error));
  const geoIp = await openGeoIp({ path, reportFault });
  const place = await geoIp.lookup(WELL_KNOWN_ADDRESS);
  const name = path ?? "the built-in database";
  if (faults.length > 0) return fail(faults.join("; "));
  return Object.keys(place).length > 0
    ? ok(name)
    : warn(`${name} does not know well-known addresses`);
}
