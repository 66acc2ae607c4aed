import { randomBytes } from "node:crypto";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { createAccountStore } from "../engines/sql/account-store.ts";
import type { SqlDatabase } from "../engines/sql/sql-database.ts";
import { openTemporarySqlite } from "../engines/sql/sql-engines.contract.ts";
import type { AccountStore } from "./account-store.ts";
import { bootstrap, type GivenAccounts } from "./bootstrap.ts";
import { hashKey } from "./keys.ts";
import { verifyPassword } from "./passwords.ts";

const nothing: GivenAccounts = {
  projectKey: null,
  personalKey: null,
  adminEmail: null,
  adminPassword: null,
};
const now = new Date("2026-03-01T10:00:00Z");

describe("bootstrap", () => {
  let database: SqlDatabase;
  let accounts: AccountStore;
  let notices: string[];

  beforeEach(async () => {
    database = await openTemporarySqlite();
    accounts = createAccountStore(database);
    notices = [];
  });
  afterEach(() => database.close());

  const boot = (given: Partial<GivenAccounts> = {}) =>
    bootstrap({
      accounts,
      given: { ...nothing, ...given },
      now,
      randomBytes,
      notify: (message) => notices.push(message),
    });

  test("[AC-1] the first boot makes up whatever was not given, and the keys work", async () => {
    const first = await boot();
    if (!first) throw new Error("not the first boot");
    expect(first.projectKey).toMatch(/^phc_[0-9A-Za-z]{43}$/);
    expect(first.personalKey).toMatch(/^phx_[0-9A-Za-z]{43}$/);
    expect(first.generatedPassword).toMatch(/^[0-9A-Za-z]{25}$/);
    expect(await accounts.projectByApiToken(first.projectKey)).toEqual(first.project);
    const key = await accounts.personalKeyByHash(hashKey(first.personalKey));
    expect(key).toMatchObject({ userId: first.admin.id, scopes: ["*"], scopedProjects: [] });
    const hash = (await accounts.passwordHashOf(first.admin.id)) ?? "";
    expect(await verifyPassword(first.generatedPassword ?? "", hash)).toBe(true);
    expect(await verifyPassword("something else", hash)).toBe(false);
    expect(notices).toEqual([]);
  });

  test("[AC-1] the first boot takes what was given", async () => {
    const given = {
      projectKey: "phc_mine",
      personalKey: "phx_0123456789012345678901234",
      adminEmail: "me@example.org",
      adminPassword: "correct horse",
    };
    const first = await boot(given);
    expect(first).toMatchObject({
      projectKey: given.projectKey,
      personalKey: given.personalKey,
      generatedPassword: null,
    });
    const admin = await accounts.userByEmail(given.adminEmail);
    const hash = (await accounts.passwordHashOf(admin?.id ?? 0)) ?? "";
    expect(await verifyPassword(given.adminPassword, hash)).toBe(true);
    expect(notices).toEqual([]);

    // The same settings on every later boot are no surprise to anyone.
    expect(await boot(given)).toBeNull();
    expect(notices).toEqual([]);
  });

  test("[AC-2] a later boot changes nothing and says which settings it does not follow", async () => {
    await boot();
    const second = await boot({
      projectKey: "phc_other",
      personalKey: "phx_other",
      adminEmail: "other@example.org",
      adminPassword: "other password",
    });
    expect(second).toBeNull();
    expect(notices).toHaveLength(4);
    for (const [index, name] of [
      "PROJECT_KEY",
      "PERSONAL_KEY",
      "ADMIN_EMAIL",
      "ADMIN_PASSWORD",
    ].entries()) {
      expect(notices[index]).toMatch(
        new RegExp(`^HEDGEROW_${name} is used on the first boot only`),
      );
    }
    expect(notices.join()).not.toContain("other");
    expect(await accounts.projectByApiToken("phc_other")).toBeUndefined();
    expect(await accounts.personalKeys()).toHaveLength(1);
  });

  test("[AC-1] a personal key short enough to be guessed is taken with a warning", async () => {
    expect(await boot({ personalKey: "phx_test" })).toMatchObject({ personalKey: "phx_test" });
    expect(notices).toEqual([expect.stringContaining("guessed")]);
  });
});
