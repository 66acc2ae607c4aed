import { randomBytes } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import type { AccountStore } from "../accounts/account-store.ts";
import { bootstrap } from "../accounts/bootstrap.ts";
import { hashKey } from "../accounts/keys.ts";
import { UsageError } from "../config.ts";
import { dataFolderPaths, openDataFolder } from "../engines/data-folder/data-folder.ts";
import { createAccountStore } from "../engines/sql/account-store.ts";
import { openMetadata } from "../engines/sql/open-metadata.ts";
import type { SqlDatabase } from "../engines/sql/sql-database.ts";
import { keys } from "./keys.ts";

let data: string;
let database: SqlDatabase;
let accounts: AccountStore;
let release: () => void;

// A service that is running: it holds the folder and has its database open.
beforeEach(async () => {
  data = mkdtempSync(join(tmpdir(), "hedgerow-keys-"));
  ({ release } = openDataFolder(data, new Date()));
  database = await openMetadata({ databaseUrl: null, file: dataFolderPaths(data).metadata });
  accounts = createAccountStore(database);
  const given = { projectKey: null, personalKey: null, adminEmail: null, adminPassword: null };
  await bootstrap({ accounts, given, now: new Date(), randomBytes, notify: () => {} });
});
afterEach(async () => {
  await database.close();
  release();
  rmSync(data, { recursive: true, force: true });
});

/** Runs the command and takes down what it prints. */
async function run(...args: string[]): Promise<{ code: number; out: string; err: string }> {
  const lines = { out: [] as string[], err: [] as string[] };
  const out = vi.spyOn(console, "log").mockImplementation((line) => lines.out.push(line));
  const err = vi.spyOn(console, "error").mockImplementation((line) => lines.err.push(line));
  try {
    const code = await keys([...args, "--data", data]);
    return { code, out: lines.out.join("\n"), err: lines.err.join("\n") };
  } finally {
    out.mockRestore();
    err.mockRestore();
  }
}

const create = (...args: string[]) => run("create", "--label", "CI", ...args);

describe("hedgerow keys", () => {
  test("[CL-10] create prints the key alone on stdout, and a running service takes it at once", async () => {
    const { code, out, err } = await create(
      "--scopes",
      "feature_flag:read, cohort:write",
      "--project",
      "1",
    );
    expect(code).toBe(0);
    expect(out).toMatch(/^phx_[0-9A-Za-z]{43}$/);
    const key = await accounts.personalKeyByHash(hashKey(out));
    expect(key).toMatchObject({
      label: "CI",
      scopes: ["feature_flag:read", "cohort:write"],
      scopedProjects: [1],
      userId: (await accounts.firstUser())?.id,
    });
    expect(err).toContain(key?.id);
    expect(err).not.toContain(out);
  });

  test("[CL-10] list shows every key without its secret, revoke ends one at once", async () => {
    const { out: value } = await create("--scopes=*");
    const key = await accounts.personalKeyByHash(hashKey(value));
    const { out: table } = await run("list");
    const [head, first, second] = table.split("\n");
    expect(head).toMatch(/^ID +KEY +LABEL +SCOPES +PROJECTS +CREATED +LAST USED$/);
    expect(first).toContain("First key");
    expect(second).toMatch(
      new RegExp(`^${key?.id} +phx_\\.\\.\\.${value.slice(-4)} +CI +\\* +all +\\S+ +never$`),
    );
    expect(table).not.toContain(value);
    expect((await run("revoke", key?.id ?? "")).code).toBe(0);
    expect(await accounts.personalKeyByHash(hashKey(value))).toBeUndefined();
    const again = await run("revoke", key?.id ?? "");
    expect([again.code, again.err]).toEqual([
      1,
      expect.stringContaining(`no key has the id ${key?.id}`),
    ]);
  });

  test("[CL-10] create makes more keys than the API allows: the operator decides", async () => {
    for (let made = 0; made < 11; made++) expect((await create("--scopes", "*")).code).toBe(0);
    expect(await accounts.personalKeys()).toHaveLength(12);
  });

  test.each([
    [[], "keys needs one of create, list, revoke"],
    [["rotate"], 'unknown command "keys rotate" (known are create, list, revoke)'],
    [["create", "--label", "x"], "keys create needs --scopes"],
    [["create", "--scopes", "*"], "keys create needs --label"],
    [["create", "--label", "x", "--scopes", ","], "--scopes: This list may not be empty."],
    [
      ["create", "--label", "x".repeat(41), "--scopes", "*"],
      "--label: Ensure this field has no more than 40 characters.",
    ],
    [
      ["create", "--label", "x", "--scopes", "*", "--project", "7"],
      "--project: You must be a member of all teams that you are scoping the key to.",
    ],
    [
      ["create", "--label", "x", "--scopes", "*", "--project", "one"],
      '--project must be ids of projects, not "one"',
    ],
    [["create", "--label", "x", "--scopes", "*", "extra"], 'unexpected argument "extra"'],
    [["list", "--label", "x"], "unknown option --label"],
    [["revoke"], "keys revoke needs the id of a key (see keys list)"],
  ])("[CL-11] %j is refused in one line and makes no key", async (args, message) => {
    await expect(run(...args)).rejects.toThrow(new UsageError(message));
    expect(await accounts.personalKeys()).toHaveLength(1);
  });

  test("[CL-11] an unknown scope is refused with those that exist", async () => {
    const refused = create("--scopes", "cohort:read,flags:read");
    await expect(refused).rejects.toThrow(
      /^--scopes: Invalid scope: flags:read \(known are \*, action:read, .*, feature_flag:write, .*\)$/,
    );
    await expect(refused).rejects.toBeInstanceOf(UsageError);
    expect(await accounts.personalKeys()).toHaveLength(1);
  });

  test("[CL-11] without an installation there are no keys to work on, and none is created", async () => {
    await expect(keys(["list", "--data", join(data, "nowhere")])).rejects.toThrow(
      /^there is no installation in .*nowhere yet/,
    );
  });
});
