import { resolve } from "node:path";
import { describe, expect, test } from "vitest";
import { readCommandLine, readConfig, UsageError } from "./config.ts";

const refusal = (args: readonly string[], env: Record<string, string> = {}): string => {
  try {
    readConfig(args, env);
  } catch (error) {
    if (error instanceof UsageError) return error.message;
    throw error;
  }
  throw new Error("nothing was refused");
};

describe("settings", () => {
  test("[CL-1] without flags and variables the service listens on 127.0.0.1:8000 and stores in ./data", () => {
    expect(readConfig([], {})).toEqual({
      port: 8000,
      host: "127.0.0.1",
      data: resolve("data"),
      role: "all",
      trustedProxies: [],
      geoIpDatabase: null,
      databaseUrl: null,
      receiptDays: 30,
      versionsKept: 20,
      logRetentionMb: 512,
      logRetentionHours: 24,
      duckdbMemoryMb: 128,
      duckdbTempMb: 10_240,
      countFlagRequests: 0,
      cohortMinutes: 5,
      pluginsAccess: "root",
      pluginFolder: null,
      pluginCpuMs: 100,
      pluginLoadMs: 1_000,
      pluginMemoryMb: 32,
      pluginOutputKb: 250,
      pluginLogLines: 100,
      githubUrl: "https://github.com",
      githubApiUrl: null,
      gitlabUrl: "https://gitlab.com",
      npmUrl: "https://registry.npmjs.org",
      privateNetworks: [],
      logLevel: "info",
      projectKey: null,
      personalKey: null,
      adminEmail: null,
      adminPassword: null,
    });
  });

  test("[CL-1] every setting can be given by its variable", () => {
    const env = {
      PORT: "9000",
      HOST: "::1",
      HEDGEROW_DATA: "/var/lib/hedgerow",
      HEDGEROW_ROLE: "worker",
      HEDGEROW_TRUSTED_PROXIES: "10.0.0.0/8, 192.168.1.7,,::1",
      HEDGEROW_GEOIP_DB: "/srv/city.mmdb",
      HEDGEROW_DATABASE_URL: "postgres://me:secret@db:5432/hedgerow",
      HEDGEROW_RECEIPT_DAYS: "7",
      HEDGEROW_VERSIONS_KEPT: "5",
      HEDGEROW_LOG_RETENTION_MB: "0",
      HEDGEROW_LOG_RETENTION_HOURS: "72",
      HEDGEROW_DUCKDB_MEMORY_MB: "256",
      HEDGEROW_DUCKDB_TEMP_MB: "64",
      HEDGEROW_COUNT_FLAG_REQUESTS: "5",
      HEDGEROW_COHORT_MINUTES: "60",
      HEDGEROW_PLUGINS_ACCESS: "config",
      HEDGEROW_PLUGIN_FOLDER: "/srv/plugins/",
      HEDGEROW_PLUGIN_CPU_MS: "250",
      HEDGEROW_PLUGIN_LOAD_MS: "3000",
      HEDGEROW_PLUGIN_MEMORY_MB: "64",
      HEDGEROW_PLUGIN_OUTPUT_KB: "500",
      HEDGEROW_PLUGIN_LOG_LINES: "20",
      HEDGEROW_GITHUB_URL: "http://git.local:3000/",
      HEDGEROW_GITHUB_API_URL: "http://git.local:3000/api/v1/",
      HEDGEROW_GITLAB_URL: "https://lab.local",
      HEDGEROW_NPM_URL: "http://npm.local:4873/",
      HEDGEROW_PRIVATE_NETWORKS: "10.1.0.0/16,::1",
      LOG_LEVEL: "debug",
      HEDGEROW_PROJECT_KEY: "phc_my-project_key",
      HEDGEROW_PERSONAL_KEY: "phx_0123456789abcdef",
      HEDGEROW_ADMIN_EMAIL: "Admin@Example.org",
      HEDGEROW_ADMIN_PASSWORD: "correct horse",
    };
    expect(readConfig([], env)).toEqual({
      port: 9000,
      host: "::1",
      data: "/var/lib/hedgerow",
      role: "worker",
      trustedProxies: ["10.0.0.0/8", "192.168.1.7", "::1"],
      geoIpDatabase: "/srv/city.mmdb",
      databaseUrl: "postgres://me:secret@db:5432/hedgerow",
      receiptDays: 7,
      versionsKept: 5,
      logRetentionMb: 0,
      logRetentionHours: 72,
      duckdbMemoryMb: 256,
      duckdbTempMb: 64,
      countFlagRequests: 5,
      cohortMinutes: 60,
      pluginsAccess: "config",
      pluginFolder: "/srv/plugins",
      pluginCpuMs: 250,
      pluginLoadMs: 3_000,
      pluginMemoryMb: 64,
      pluginOutputKb: 500,
      pluginLogLines: 20,
      githubUrl: "http://git.local:3000",
      githubApiUrl: "http://git.local:3000/api/v1",
      gitlabUrl: "https://lab.local",
      npmUrl: "http://npm.local:4873",
      privateNetworks: ["10.1.0.0/16", "::1"],
      logLevel: "debug",
      projectKey: "phc_my-project_key",
      personalKey: "phx_0123456789abcdef",
      adminEmail: "admin@example.org",
      adminPassword: "correct horse",
    });
  });

  test("[CL-1] a flag wins over its variable, and an empty variable counts as not set", () => {
    const env = { PORT: "9000", HOST: "", HEDGEROW_DATA: "" };
    const config = readConfig(["--port=0", "--log-level", "warn"], env);
    expect(config).toMatchObject({ port: 0, host: "127.0.0.1", logLevel: "warn" });
    expect(config.data).toBe(resolve("data"));
  });
});

describe("bad settings", () => {
  test.each([
    [["--port", "80800"], {}, '--port must be a whole number from 0 to 65535, not "80800"'],
    [["--port", "80.5"], {}, '--port must be a whole number from 0 to 65535, not "80.5"'],
    [["--port="], {}, '--port must be a whole number from 0 to 65535, not ""'],
    [[], { PORT: "http" }, 'PORT must be a whole number from 0 to 65535, not "http"'],
    [[], { HEDGEROW_NPM_URL: "npm" }, 'HEDGEROW_NPM_URL must be an http or https URL, not "npm"'],
    [["--host", "1.2.3"], {}, '--host must be an IP address or a host name, not "1.2.3"'],
    [["--host", "a b"], {}, '--host must be an IP address or a host name, not "a b"'],
    [["--data", ""], {}, '--data must be a path, not ""'],
    [
      [],
      { HEDGEROW_LOG_RETENTION_MB: "40000" },
      'HEDGEROW_LOG_RETENTION_MB must be a whole number from 0 to 32768, not "40000"',
    ],
    [
      ["--log-retention-hours", "1.5"],
      {},
      '--log-retention-hours must be a whole number from 0 to 8760, not "1.5"',
    ],
    [
      ["--duckdb-memory-mb", "63"],
      {},
      '--duckdb-memory-mb must be a whole number from 64 to 65536, not "63"',
    ],
    [
      [],
      { HEDGEROW_DUCKDB_TEMP_MB: "-1" },
      'HEDGEROW_DUCKDB_TEMP_MB must be a whole number from 64 to 65536, not "-1"',
    ],
    [
      ["--plugin-cpu-ms", "0"],
      {},
      '--plugin-cpu-ms must be a whole number from 10 to 5000, not "0"',
    ],
    [
      [],
      { HEDGEROW_PLUGIN_MEMORY_MB: "1024" },
      'HEDGEROW_PLUGIN_MEMORY_MB must be a whole number from 16 to 512, not "1024"',
    ],
    [["--role", "boss"], {}, '--role must be all, api, ingest or worker, not "boss"'],
    [
      [],
      { LOG_LEVEL: "loud" },
      'LOG_LEVEL must be trace, debug, info, warn, error, fatal or silent, not "loud"',
    ],
    [
      [],
      { HEDGEROW_PROJECT_KEY: "phx_wrongkind" },
      'HEDGEROW_PROJECT_KEY must be phc_ followed by 4 to 200 letters, digits, - or _, not "phx_wrongkind"',
    ],
    [
      [],
      { HEDGEROW_ADMIN_EMAIL: "me" },
      'HEDGEROW_ADMIN_EMAIL must be an e-mail address, not "me"',
    ],
  ])("[CL-2] %j %j is refused in one line that names the setting", (args, env, message) => {
    expect(refusal(args, env)).toBe(message);
  });

  test.each(["10.0.0.0/33", "10.0.0", "::1/129", "10.0.0.0/8/8", "example.org", "10.0.0.0/x"])(
    "[CL-2] the trusted proxy %s is refused",
    (proxy) => {
      expect(refusal([], { HEDGEROW_TRUSTED_PROXIES: `127.0.0.1,${proxy}` })).toMatch(
        /^HEDGEROW_TRUSTED_PROXIES must be IP addresses or CIDR ranges/,
      );
    },
  );

  test.each([
    ["HEDGEROW_PERSONAL_KEY", "phx_!secret!"],
    ["HEDGEROW_ADMIN_PASSWORD", "short!"],
    ["HEDGEROW_DATABASE_URL", "mysql://me:secret!@db"],
  ])("[CL-2] a bad %s is refused without repeating it", (name, value) => {
    const message = refusal([], { [name]: value });
    expect(message).toContain(name);
    expect(message).not.toContain("!");
  });

  test.each([
    [["--prot", "80"], "unknown option --prot"],
    [["--__proto__", "80"], "unknown option --__proto__"],
    [["-p", "80"], "unknown option -p"],
    [["start"], 'unexpected argument "start"'],
    [["--port"], "option '--port <value>' argument missing"],
  ])("[CL-3] %j is refused", (args, message) => {
    expect(refusal(args)).toBe(message);
  });

  test("[CL-3] an unknown HEDGEROW_ variable is refused as a likely slip", () => {
    expect(refusal([], { HEDGEROW_PROJECTKEY: "phc_12345" })).toMatch(
      /^unknown environment variable HEDGEROW_PROJECTKEY \(known are .*HEDGEROW_PROJECT_KEY/,
    );
    expect(refusal([], { HEDGEROW_PORT: "9000" })).toMatch(/HEDGEROW_PORT/);
  });

  test("[CL-3] variables that others set are left alone", () => {
    const env = {
      HEDGEROW_PORT: "tcp://10.3.0.1:8000",
      HEDGEROW_PORT_8000_TCP: "tcp://10.3.0.1:8000",
      HEDGEROW_PORT_8000_TCP_ADDR: "10.3.0.1",
      HEDGEROW_SERVICE_HOST: "10.3.0.1",
      HEDGEROW_SERVICE_PORT: "8000",
      HEDGEROW_WEB_SERVICE_PORT_HTTP: "8000",
      HEDGEROW_TEST_POSTGRES_URL: "postgres://x",
      OTHER: "1",
    };
    expect(readConfig([], env).port).toBe(8000);
  });
});

test("a command adds options and arguments of its own to those of the service", () => {
  const line = readCommandLine({
    args: ["abc", "--label", "ci", "--data=/d", "--json"],
    env: {},
    options: { label: { type: "string" }, json: { type: "boolean" } },
    positionals: 1,
  });
  expect(line.positionals).toEqual(["abc"]);
  expect(line.options).toMatchObject({ label: "ci", json: true });
  expect(line.config.data).toBe("/d");
});
