import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DuckDBInstance } from "@duckdb/node-api";
import Database from "libsql";
import { afterEach, beforeEach, describe, expect, inject, test } from "vitest";
import { readConfig } from "../config.ts";
import { dataFolderPaths, openDataFolder } from "../engines/data-folder/data-folder.ts";
import { openMetadata } from "../engines/sql/open-metadata.ts";
import { examine, nodeFinding, spaceFinding } from "./doctor.ts";

let home: string;
let data: string;
beforeEach(() => {
  home = mkdtempSync(join(tmpdir(), "hedgerow-doctor-"));
  data = join(home, "data");
});
afterEach(() => rmSync(home, { recursive: true, force: true }));

/** What was found, by check. */
const look = async (env: Record<string, string> = {}) => {
  const findings = await examine(readConfig(["--data", data], env));
  return Object.fromEntries(
    findings.map(({ check, status, detail }) => [check, `${status} ${detail}`]),
  );
};

const createMetadata = async () => {
  mkdirSync(data, { recursive: true });
  const file = dataFolderPaths(data).metadata;
  await (await openMetadata({ databaseUrl: null, file })).close();
  return file;
};

describe("doctor", () => {
  test("[CL-20] before the first start nothing fails and nothing is created", async () => {
    const found = await look();
    expect(found["data folder"]).toBe(
      `warn ${data} does not exist yet: the first start creates it`,
    );
    expect(found.metadata).toMatch(/^warn none yet/);
    expect(found.node).toBe(`ok ${process.versions.node}`);
    expect(found.geoip).toBe("ok the built-in database");
    expect(found.disk).toMatch(/GB free$/);
    expect((await look())["data folder"]).toMatch(/does not exist yet/);
  });

  test("[CL-20] a sound installation is ok in every respect", async () => {
    await createMetadata();
    const { events, eventLog } = dataFolderPaths(data);
    const duckDb = await DuckDBInstance.create(events);
    const connection = await duckDb.connect();
    await connection.run("create table events as select * from range(3)");
    duckDb.closeSync();
    const log = new Database(eventLog);
    log.exec("create table entries (id integer)");
    log.close();
    expect(await look()).toMatchObject({
      "data folder": `ok ${data} can be written`,
      lock: "ok no process works in the folder",
      metadata: "ok sound and up to date",
      "event log": "ok sound",
      events: "ok readable, 3 stored",
    });
  });

  test("[CL-20] a running service is named, and its events are left alone", async () => {
    await createMetadata();
    writeFileSync(dataFolderPaths(data).events, "not looked into");
    const folder = openDataFolder(data, new Date());
    const found = await look();
    folder.release();
    expect(found.lock).toMatch(
      new RegExp(`^ok process ${process.pid}, since .* works in the folder$`),
    );
    expect(found.events).toMatch(/^ok not opened/);
    expect(found.metadata).toBe("ok sound and up to date");
  });

  test("[CL-21] damaged files fail with their reason", async () => {
    await createMetadata();
    const { metadata, eventLog, events } = dataFolderPaths(data);
    rmSync(`${metadata}-wal`, { force: true });
    writeFileSync(
      metadata,
      "this is no database at all, but long enough to be read as one".repeat(9),
    );
    writeFileSync(eventLog, "neither is this".repeat(99));
    writeFileSync(events, "nor this".repeat(99));
    const geoip = join(home, "city.mmdb");
    writeFileSync(geoip, "nor that");
    const found = await look({ HEDGEROW_GEOIP_DB: geoip });
    expect(found.metadata).toMatch(/^fail .*not a database/);
    expect(found["event log"]).toMatch(/^fail .*not a database/);
    expect(found.events).toMatch(/^fail /);
    expect(found.geoip).toMatch(/^fail .*not a readable \.mmdb file/);
  });

  test("[CL-21] a data folder that is a file, and a missing place database, fail", async () => {
    writeFileSync(data, "");
    const found = await look({ HEDGEROW_GEOIP_DB: join(home, "absent.mmdb") });
    expect(found["data folder"]).toBe(`fail ${data} is no folder`);
    expect(found.geoip).toMatch(/^fail /);
  });

  test("[CL-22] a schema that is older is brought up by the next start; a newer one fails", async () => {
    const file = await createMetadata();
    const change = (statement: string) => {
      const connection = new Database(file);
      connection.exec(statement);
      connection.close();
    };
    change("insert into kysely_migration values ('9999-later', '2030-01-01')");
    expect((await look()).metadata).toBe(
      "fail written by a newer version of hedgerow (9999-later)",
    );
    change("delete from kysely_migration where name > '0001-accounts'");
    expect((await look()).metadata).toMatch(
      /^warn the next start brings it up to date \(0002-flags/,
    );
  });

  test.each([
    ["20.18.3", "fail"],
    ["18.20.0", "fail"],
    ["20.19.0", "ok"],
    ["22.0.0", "ok"],
  ])("[CL-20] Node.js %s is %s", (version, status) => {
    expect(nodeFinding(version).status).toBe(status);
  });

  test.each([
    [0.1, "fail"],
    [1, "warn"],
    [50, "ok"],
  ])("[CL-20] %d GB of free space is %s", (gigabytes, status) => {
    expect(spaceFinding(gigabytes * 1024 ** 3).status).toBe(status);
  });
});

const postgres = inject("postgres");
const why = "missing" in postgres ? ` (skipped: ${postgres.missing})` : "";
describe.skipIf("missing" in postgres)(`doctor with Postgres${why}`, () => {
  test("[CL-22] looks at the schema there, and fails when the server does not answer", async () => {
    const url = "url" in postgres ? postgres.url : "";
    // The suites work in schemas of their own: the public one is still empty.
    expect((await look({ HEDGEROW_DATABASE_URL: url })).metadata).toMatch(
      /^warn the next start brings it up to date \(0001-accounts/,
    );
    const nobody = "postgres://nobody@127.0.0.1:1/none";
    expect((await look({ HEDGEROW_DATABASE_URL: nobody })).metadata).toMatch(
      /^fail .*ECONNREFUSED/,
    );
  });
});
