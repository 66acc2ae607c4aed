import { existsSync } from "node:fs";
import { type CommandLine, readCommandLine, UsageError } from "../config.ts";
import {
  DataFolderInUse,
  dataFolderPaths,
  type FolderHolder,
  openDataFolder,
} from "../engines/data-folder/data-folder.ts";
import type { ConsistencyReport, FlagDifference } from "../flags/consistency.ts";
import { metadataOf } from "./metadata-of.ts";
import { type RunningService, runningService } from "./running-service.ts";

const MAX_PERSONS = 10_000;

/**
 * `hedgerow doctor flags`: compares local with remote evaluation of a project's flags for stored
 * persons, on the data folder while the service is stopped and through its API while it runs. Answers
 * 1 when there are differences.
 */
export async function doctorFlags(args: readonly string[]): Promise<number> {
  const line = readCommandLine({
    args,
    options: {
      json: { type: "boolean" },
      url: { type: "string" },
      key: { type: "string" },
      project: { type: "string" },
      persons: { type: "string" },
    },
  });
  const project = numberOf(line, "project", { otherwise: 1, most: 999_999_999 });
  const maxPersons = numberOf(line, "persons", { otherwise: 200, most: MAX_PERSONS });
  const report = await reportOf(line, project, maxPersons);
  if (line.options.json) console.log(JSON.stringify(report, null, 2));
  else print(report);
  return report.differing > 0 ? 1 : 0;
}

function print(report: ConsistencyReport): void {
  const { flags, leftToServer, persons, isPartial, compared, differing, differences } = report;
  console.log(
    `${flags} flags, of which SDKs leave ${leftToServer} to the server; ${persons} persons, ${compared} values compared`,
  );
  if (isPartial) console.log("there was no time for more persons");
  for (const { key, feed, distinctId, local, server } of differences) {
    console.log(
      `differs  ${key}  ${distinctId ?? "a person"}  local ${local}, server ${server} (${feed})`,
    );
  }
  console.log(differing === 0 ? "no differences" : `${differing} differences`);
}

function numberOf(
  { options }: CommandLine,
  name: string,
  { otherwise, most }: { otherwise: number; most: number },
): number {
  const text = options[name];
  if (text === undefined) return otherwise;
  const number = typeof text === "string" && /^\d{1,9}$/.test(text) ? Number(text) : 0;
  if (number >= 1 && number <= most) return number;
  throw new UsageError(`--${name} must be a number from 1 to ${most}`);
}

async function reportOf(
  line: CommandLine,
  project: number,
  maxPersons: number,
): Promise<ConsistencyReport> {
  const ask = (holder?: FolderHolder) =>
    askService(runningService(line, holder), { project, maxPersons });
  if (line.options.url !== undefined) return await ask();
  const { data, databaseUrl } = line.config;
  if (databaseUrl === null && !existsSync(dataFolderPaths(data).metadata)) {
    throw new UsageError(`there are no flags in ${data}: name the folder with --data`);
  }
  try {
    return await examineFolder(line, project, maxPersons);
  } catch (error) {
    if (!(error instanceof DataFolderInUse)) throw error;
    return await ask(error.holder);
  }
}

async function examineFolder(
  { config }: CommandLine,
  project: number,
  maxPersons: number,
): Promise<ConsistencyReport> {
  const folder = openDataFolder(config.data, new Date());
  try {
    const { createAudience } = await import("../engines/sql/audience.ts");
    const { createFlagStore } = await import("../engines/sql/flag-store.ts");
    const { createBacktrackingRegex } = await import(
      "../engines/backtracking-regex/backtracking-regex.ts"
    );
    const { compileFlags } = await import("@hedgerow/core/flags/compile-flags");
    const { createCheckConsistency } = await import("../flags/consistency.ts");
    const { wireLocalDefinitions } = await import("../flags/local-evaluation.schemas.ts");
    const metadata = await metadataOf(config);
    try {
      const backtracking = createBacktrackingRegex();
      const definitions = await createFlagStore(metadata).definitions(project);
      const flagSet = compileFlags(definitions, { backtracking });
      const check = createCheckConsistency({
        audience: createAudience(metadata),
        compiledFlags: { get: () => ({ revision: definitions.revision, definitions, flagSet }) },
        compile: (made) => compileFlags(made, { backtracking }),
        feedOf: wireLocalDefinitions,
        clock: () => new Date(),
        maxCompareMs: Number.POSITIVE_INFINITY,
      });
      return await check(project, { maxPersons });
    } finally {
      await metadata.close();
    }
  } finally {
    folder.release();
  }
}

async function askService(
  service: RunningService,
  { project, maxPersons }: { project: number; maxPersons: number },
): Promise<ConsistencyReport> {
  const path = `/api/projects/${project}/feature_flags/consistency?persons=${maxPersons}`;
  const answer = (await service.ask("GET", path)) as WireReport;
  const { left_to_server, is_partial, differences, ...counts } = answer;
  return {
    ...counts,
    leftToServer: left_to_server,
    isPartial: is_partial,
    differences: differences.map(({ distinct_id, person_id, ...difference }) => ({
      ...difference,
      distinctId: distinct_id,
      personId: person_id,
    })),
  };
}

/** The report as the API tells it. */
interface WireReport extends Omit<ConsistencyReport, "leftToServer" | "isPartial" | "differences"> {
  readonly left_to_server: number;
  readonly is_partial: boolean;
  readonly differences: readonly (Omit<FlagDifference, "distinctId" | "personId"> & {
    readonly distinct_id: string | null;
    readonly person_id: string | null;
  })[];
}
