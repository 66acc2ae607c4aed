import { randomBytes } from "node:crypto";
import { existsSync } from "node:fs";
import type { AccountStore, PersonalKey } from "../accounts/account-store.ts";
import { createPersonalKey } from "../accounts/personal-keys.ts";
import { SCOPES } from "../accounts/scopes.ts";
import { type CommandLine, readCommandLine, UsageError } from "../config.ts";
import { dataFolderPaths } from "../engines/data-folder/data-folder.ts";
import { createAccountStore } from "../engines/sql/account-store.ts";
import { Refusal } from "../http/errors.ts";
import { readId } from "../http/path-id.ts";
import { metadataOf } from "./metadata-of.ts";

/** `hedgerow keys create|list|revoke`: works on the data folder, also while the service runs. */
export async function keys(args: readonly string[]): Promise<number> {
  const [action, ...rest] = args;
  switch (action) {
    case "create":
      return createKey(rest);
    case "list":
      return listKeys(rest);
    case "revoke":
      return revokeKey(rest);
    default:
      throw new UsageError(
        action === undefined || action.startsWith("-")
          ? "keys needs one of create, list, revoke"
          : `unknown command "keys ${action}" (known are create, list, revoke)`,
      );
  }
}

async function createKey(args: readonly string[]): Promise<number> {
  const line = readCommandLine({
    args,
    options: {
      label: { type: "string" },
      scopes: { type: "string" },
      project: { type: "string" },
    },
  });
  const label = required(line, "label");
  const scopes = listOf(required(line, "scopes"));
  const scopedProjects = listOf(line.options.project ?? "").map(projectIdOf);
  return withAccounts(line, async (accounts) => {
    const user = await accounts.firstUser();
    if (!user) throw notStartedYet(line);
    try {
      const { key, value } = await createPersonalKey(
        { accounts, now: () => new Date(), randomBytes },
        user,
        { label, scopes, scopedProjects, scopedOrganizations: [] },
      );
      // The key alone on stdout, so that a script can take it.
      console.error(
        `key ${key.id} "${key.label}" opens ${key.scopes.join(", ")}; it is shown this once:`,
      );
      console.log(value);
      return 0;
    } catch (error) {
      if (error instanceof Refusal) throw usageErrorOf(error);
      throw error;
    }
  });
}

async function listKeys(args: readonly string[]): Promise<number> {
  const line = readCommandLine({ args });
  return withAccounts(line, async (accounts) => {
    const rows = (await accounts.personalKeys()).map(describeKey);
    const table = [["ID", "KEY", "LABEL", "SCOPES", "PROJECTS", "CREATED", "LAST USED"], ...rows];
    console.log(aligned(table));
    return 0;
  });
}

async function revokeKey(args: readonly string[]): Promise<number> {
  const line = readCommandLine({ args, positionals: 1 });
  const [id] = line.positionals;
  if (id === undefined) throw new UsageError("keys revoke needs the id of a key (see keys list)");
  return withAccounts(line, async (accounts) => {
    if (await accounts.deletePersonalKey(id)) {
      console.error(`key ${id} opens nothing any more`);
      return 0;
    }
    console.error(`hedgerow: no key has the id ${id} (see keys list)`);
    return 1;
  });
}

async function withAccounts(
  line: CommandLine,
  act: (accounts: AccountStore) => Promise<number>,
): Promise<number> {
  const { data, databaseUrl } = line.config;
  const isThere = databaseUrl !== null || existsSync(dataFolderPaths(data).metadata);
  if (!isThere) throw notStartedYet(line);
  const database = await metadataOf(line.config);
  try {
    return await act(createAccountStore(database));
  } finally {
    await database.close();
  }
}

function notStartedYet({ config }: CommandLine): UsageError {
  return new UsageError(
    `there is no installation in ${config.data} yet: start it once, or name its folder with --data`,
  );
}

function required({ options }: CommandLine, name: string): string {
  const value = options[name];
  if (typeof value === "string" && value !== "") return value;
  throw new UsageError(`keys create needs --${name}`);
}

/** The refusal of a field in the words of the command line. */
function usageErrorOf({ attr, code, message }: Refusal): UsageError {
  const flag = attr === "scoped_teams" ? "project" : attr;
  const isUnknownScope = attr === "scopes" && code === "invalid_input";
  const known = isUnknownScope ? ` (known are ${[...SCOPES].join(", ")})` : "";
  return new UsageError(flag === null ? message : `--${flag}: ${message}${known}`);
}

function listOf(text: string | boolean): string[] {
  return String(text)
    .split(",")
    .map((part) => part.trim())
    .filter((part) => part !== "");
}

function projectIdOf(text: string): number {
  const id = readId(text);
  if (id !== undefined) return id;
  throw new UsageError(`--project must be ids of projects, not "${text}"`);
}

function describeKey(key: PersonalKey): string[] {
  return [
    key.id,
    key.maskValue,
    key.label,
    key.scopes.join(","),
    key.scopedProjects.length === 0 ? "all" : key.scopedProjects.join(","),
    key.createdAt.toISOString().slice(0, 10),
    key.lastUsedAt?.toISOString().slice(0, 10) ?? "never",
  ];
}

function aligned(rows: readonly (readonly string[])[]): string {
  const widths = (rows[0] ?? []).map((_, column) =>
    Math.max(...rows.map((row) => row[column]?.length ?? 0)),
  );
  return rows
    .map((row) =>
      row
        .map((cell, column) => cell.padEnd(widths[column] ?? 0))
        .join("  ")
        .trimEnd(),
    )
    .join("\n");
}
