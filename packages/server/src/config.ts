import { BlockList, isIP } from "node:net";
import { resolve } from "node:path";
import { type ParseArgsConfig, parseArgs } from "node:util";
import { Ajv, type ErrorObject } from "ajv";
import { type Static, Type } from "typebox";

/** Environment variables by name. */
export type Environment = Readonly<Record<string, string | undefined>>;

/** A mistake on the command line or in the environment: one line for who started the program. */
export class UsageError extends Error {
  override readonly name = "UsageError";
}

/** How a setting is given and what is said when it is given wrongly. */
interface SettingOptions {
  readonly env: string;
  /** Secrets have none: command lines are visible to every process of the machine. */
  readonly flag?: string;
  readonly description: string;
  /** Completes "… must be". */
  readonly expects: string;
  readonly default: unknown;
}

const optionalText = (options: SettingOptions & { pattern?: string; format?: string }) => {
  const { pattern, format, ...rest } = options;
  const text = Type.String({
    minLength: 1,
    ...(pattern !== undefined && { pattern }),
    ...(format !== undefined && { format }),
  });
  return Type.Union([text, Type.Null()], rest);
};

/** Every setting of the service, by flag and by environment variable. Flags win. */
const Settings = Type.Object({
  port: Type.Integer({
    flag: "port",
    env: "PORT",
    description: "TCP port to listen on; 0 takes any free one",
    expects: "a whole number from 0 to 65535",
    minimum: 0,
    maximum: 65535,
    default: 8000,
  }),
  host: Type.String({
    flag: "host",
    env: "HOST",
    description: "address to listen on",
    expects: "an IP address or a host name",
    format: "host",
    default: "127.0.0.1",
  }),
  data: Type.String({
    flag: "data",
    env: "HEDGEROW_DATA",
    description: "folder that holds everything stored",
    expects: "a path",
    minLength: 1,
    default: "./data",
  }),
  role: Type.Enum(["all", "api", "ingest", "worker"], {
    flag: "role",
    env: "HEDGEROW_ROLE",
    description: "which part of the service this process is",
    expects: "all, api, ingest or worker",
    default: "all",
  }),
  trustedProxies: Type.Array(Type.String({ format: "network" }), {
    flag: "trusted-proxies",
    env: "HEDGEROW_TRUSTED_PROXIES",
    description: "proxies whose X-Forwarded-For is believed, e.g. 10.0.0.0/8,::1",
    expects: "IP addresses or CIDR ranges, separated by commas",
    default: [],
  }),
  geoIpDatabase: optionalText({
    flag: "geoip-db",
    env: "HEDGEROW_GEOIP_DB",
    description: "your own .mmdb city database instead of the one that is built in",
    expects: "a path",
    default: null,
  }),
  databaseUrl: optionalText({
    flag: "database-url",
    env: "HEDGEROW_DATABASE_URL",
    description: "PostgreSQL for flags, persons and accounts instead of the data folder",
    expects: "a URL such as postgres://user:password@host:5432/database",
    format: "postgres-url",
    default: null,
  }),
  receiptDays: Type.Integer({
    flag: "receipt-days",
    env: "HEDGEROW_RECEIPT_DAYS",
    description:
      "days for which refusals and other receipts of events, and ingestion warnings, are kept",
    expects: "a whole number from 1 to 3650",
    minimum: 1,
    maximum: 3650,
    default: 30,
  }),
  logRetentionMb: Type.Integer({
    flag: "log-retention-mb",
    env: "HEDGEROW_LOG_RETENTION_MB",
    description: "size of the event log in MB up to which stored events stay in it",
    expects: "a whole number from 0 to 32768",
    minimum: 0,
    maximum: 32_768,
    default: 512,
  }),
  logRetentionHours: Type.Integer({
    flag: "log-retention-hours",
    env: "HEDGEROW_LOG_RETENTION_HOURS",
    description: "hours for which stored events stay in the event log",
    expects: "a whole number from 0 to 8760",
    minimum: 0,
    maximum: 8760,
    default: 24,
  }),
  duckdbMemoryMb: Type.Integer({
    flag: "duckdb-memory-mb",
    env: "HEDGEROW_DUCKDB_MEMORY_MB",
    description: "memory in MB that the store of events may use before it spills to disk",
    expects: "a whole number from 64 to 65536",
    minimum: 64,
    maximum: 65_536,
    default: 128,
  }),
  duckdbTempMb: Type.Integer({
    flag: "duckdb-temp-mb",
    env: "HEDGEROW_DUCKDB_TEMP_MB",
    description: "disk space in MB to which the store of events may spill",
    expects: "a whole number from 64 to 65536",
    minimum: 64,
    maximum: 65_536,
    default: 10_240,
  }),
  countFlagRequests: Type.Integer({
    flag: "count-flag-requests",
    env: "HEDGEROW_COUNT_FLAG_REQUESTS",
    description: "percentage of flag requests whose answers are counted by flag, value and day",
    expects: "a whole number from 0 to 100",
    minimum: 0,
    maximum: 100,
    default: 0,
  }),
  cohortMinutes: Type.Integer({
    flag: "cohort-minutes",
    env: "HEDGEROW_COHORT_MINUTES",
    description: "minutes after which cohorts of past behavior are calculated again",
    expects: "a whole number from 1 to 1440",
    minimum: 1,
    maximum: 1440,
    default: 5,
  }),
  pluginsAccess: Type.Enum(["none", "config", "install", "root"], {
    flag: "plugins-access",
    env: "HEDGEROW_PLUGINS_ACCESS",
    description:
      "what organizations may do with transformations: config enables, install adds, root shares them with all",
    expects: "none, config, install or root",
    default: "root",
  }),
  versionsKept: Type.Integer({
    flag: "versions-kept",
    env: "HEDGEROW_VERSIONS_KEPT",
    description:
      "newest versions of each transformation's source that are kept however long ago they were replaced; others go with the receipts",
    expects: "a whole number from 1 to 10000",
    minimum: 1,
    maximum: 10000,
    default: 20,
  }),
  pluginFolder: optionalText({
    flag: "plugin-folder",
    env: "HEDGEROW_PLUGIN_FOLDER",
    description: "folder below which transformations may be installed from this machine (file:…)",
    expects: "a path",
    default: null,
  }),
  pluginCpuMs: Type.Integer({
    flag: "plugin-cpu-ms",
    env: "HEDGEROW_PLUGIN_CPU_MS",
    description: "processor time in ms that a transformation may take for one event or call",
    expects: "a whole number from 10 to 5000",
    minimum: 10,
    maximum: 5000,
    default: 100,
  }),
  pluginLoadMs: Type.Integer({
    flag: "plugin-load-ms",
    env: "HEDGEROW_PLUGIN_LOAD_MS",
    description:
      "processor time in ms that the code of a transformation may take to load, and its setupPlugin",
    expects: "a whole number from 100 to 10000",
    minimum: 100,
    maximum: 10_000,
    default: 1_000,
  }),
  pluginMemoryMb: Type.Integer({
    flag: "plugin-memory-mb",
    env: "HEDGEROW_PLUGIN_MEMORY_MB",
    description: "memory in MB that each config of a transformation may use",
    expects: "a whole number from 16 to 512",
    minimum: 16,
    maximum: 512,
    default: 32,
  }),
  pluginOutputKb: Type.Integer({
    flag: "plugin-output-kb",
    env: "HEDGEROW_PLUGIN_OUTPUT_KB",
    description:
      "size of what a transformation may make of one event, in thousands of characters of JSON",
    expects: "a whole number from 25 to 4000",
    minimum: 25,
    maximum: 4_000,
    default: 250,
  }),
  pluginLogLines: Type.Integer({
    flag: "plugin-log-lines",
    env: "HEDGEROW_PLUGIN_LOG_LINES",
    description:
      "lines that a transformation may log for one batch of events or call; others are counted",
    expects: "a whole number from 1 to 500",
    minimum: 1,
    maximum: 500,
    default: 100,
  }),
  githubUrl: Type.String({
    flag: "github-url",
    env: "HEDGEROW_GITHUB_URL",
    description: "GitHub, or a mirror of it, from which transformations are installed",
    expects: "an http or https URL",
    format: "http-url",
    default: "https://github.com",
  }),
  githubApiUrl: optionalText({
    flag: "github-api-url",
    env: "HEDGEROW_GITHUB_API_URL",
    description:
      "GitHub's API; unless given, https://api.github.com, or /api/v3 of the mirror of GitHub",
    expects: "an http or https URL",
    format: "http-url",
    default: null,
  }),
  gitlabUrl: Type.String({
    flag: "gitlab-url",
    env: "HEDGEROW_GITLAB_URL",
    description: "GitLab, or a mirror of it, from which transformations are installed",
    expects: "an http or https URL",
    format: "http-url",
    default: "https://gitlab.com",
  }),
  npmUrl: Type.String({
    flag: "npm-url",
    env: "HEDGEROW_NPM_URL",
    description: "npm registry from which transformations are installed",
    expects: "an http or https URL",
    format: "http-url",
    default: "https://registry.npmjs.org",
  }),
  privateNetworks: Type.Array(Type.String({ format: "network" }), {
    flag: "private-networks",
    env: "HEDGEROW_PRIVATE_NETWORKS",
    description:
      "networks that are not public and that transformations may reach all the same, for their installs and from granted hosts, e.g. 10.0.0.0/8",
    expects: "IP addresses or CIDR ranges, separated by commas",
    default: [],
  }),
  logLevel: Type.Enum(["trace", "debug", "info", "warn", "error", "fatal", "silent"], {
    flag: "log-level",
    env: "LOG_LEVEL",
    description: "least severe message that is logged",
    expects: "trace, debug, info, warn, error, fatal or silent",
    default: "info",
  }),
  projectKey: optionalText({
    env: "HEDGEROW_PROJECT_KEY",
    description: "public key of the first project (first boot only)",
    expects: "phc_ followed by 4 to 200 letters, digits, - or _",
    pattern: "^phc_[\\w-]{4,200}$",
    default: null,
  }),
  personalKey: optionalText({
    env: "HEDGEROW_PERSONAL_KEY",
    description: "personal key of the admin, with every scope (first boot only)",
    expects: "phx_ followed by 4 to 200 letters, digits, - or _",
    pattern: "^phx_[\\w-]{4,200}$",
    default: null,
  }),
  adminEmail: optionalText({
    env: "HEDGEROW_ADMIN_EMAIL",
    description: "address of the admin (first boot only)",
    expects: "an e-mail address",
    pattern: "^[^\\s@\\u0000]{1,64}@[^\\s@\\u0000]{1,189}$",
    default: null,
  }),
  adminPassword: optionalText({
    env: "HEDGEROW_ADMIN_PASSWORD",
    description: "password of the admin (first boot only)",
    expects: "8 to 1000 characters",
    pattern: "^[\\s\\S]{8,1000}$",
    default: null,
  }),
});

/** The checked settings of one process. `data`, `geoIpDatabase` and `pluginFolder` are absolute paths, URLs of mirrors end without a slash. */
export type Config = Readonly<Static<typeof Settings>>;

type SettingName = keyof Config;

/** Every setting with what describes it, in the order in which help shows them. */
export const SETTINGS = Object.entries(Settings.properties) as unknown as readonly (readonly [
  name: SettingName,
  options: SettingOptions,
])[];

type Options = NonNullable<ParseArgsConfig["options"]>;

/** What a command was started with: the settings of the service and the command's own options. */
export interface CommandLine {
  readonly config: Config;
  readonly options: Readonly<Record<string, string | boolean | undefined>>;
  readonly positionals: readonly string[];
}

/**
 * Reads the settings of the service from flags and environment. Throws a {@link UsageError} that
 * names the flag or variable at fault.
 */
export function readConfig(args: readonly string[], env?: Environment): Config {
  return readCommandLine({ args, ...(env && { env }) }).config;
}

/** Like {@link readConfig}, for a command with options of its own and named arguments. */
export function readCommandLine({
  args,
  env = process.env,
  options = {},
  positionals = 0,
}: {
  args: readonly string[];
  env?: Environment;
  options?: Options;
  positionals?: number;
}): CommandLine {
  const flags = Object.fromEntries(
    SETTINGS.flatMap(([, { flag }]) => (flag ? [[flag, { type: "string" as const }]] : [])),
  );
  const parsed = parse(args, { ...flags, ...options });
  if (parsed.positionals.length > positionals) {
    throw new UsageError(`unexpected argument "${parsed.positionals[positionals]}"`);
  }
  refuseUnknownVariables(env);
  return {
    config: check(parsed.values as Readonly<Record<string, string | undefined>>, env),
    options: parsed.values as CommandLine["options"],
    positionals: parsed.positionals,
  };
}

function parse(args: readonly string[], options: Options) {
  try {
    return parseArgs({ args: [...args], options, strict: true, allowPositionals: true });
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error);
    const unknown = /^Unknown option '([^']+)'/.exec(message);
    if (unknown) throw new UsageError(`unknown option ${unknown[1]}`, { cause: error });
    const [first = message] = message.split(/\.\s|\n/);
    throw new UsageError(first.charAt(0).toLowerCase() + first.slice(1), { cause: error });
  }
}

function check(flags: Readonly<Record<string, string | undefined>>, env: Environment): Config {
  const origins = new Map<string, string>();
  const draft = Object.fromEntries(
    SETTINGS.map(([name, options]) => {
      const fromFlag = options.flag === undefined ? undefined : flags[options.flag];
      // An empty variable is how shells and compose files say "not set".
      const text = fromFlag ?? (env[options.env] || undefined);
      origins.set(name, fromFlag === undefined ? options.env : `--${options.flag}`);
      return [name, text === undefined ? options.default : decode(name, text)];
    }),
  );
  if (!validate(draft)) throw refuse(validate.errors?.[0], draft, origins);
  const config = draft as Config;
  return {
    ...config,
    data: resolve(config.data),
    geoIpDatabase: config.geoIpDatabase === null ? null : resolve(config.geoIpDatabase),
    pluginFolder: config.pluginFolder === null ? null : resolve(config.pluginFolder),
    githubUrl: withoutSlash(config.githubUrl),
    githubApiUrl: config.githubApiUrl && withoutSlash(config.githubApiUrl),
    gitlabUrl: withoutSlash(config.gitlabUrl),
    npmUrl: withoutSlash(config.npmUrl),
    adminEmail: config.adminEmail?.toLowerCase() ?? null,
  };
}

/** The text of a setting as the type its schema asks for; what does not fit is left for the schema to refuse. */
function decode(name: SettingName, text: string): unknown {
  switch (name) {
    case "port":
    case "receiptDays":
    case "versionsKept":
    case "logRetentionMb":
    case "logRetentionHours":
    case "duckdbMemoryMb":
    case "duckdbTempMb":
    case "countFlagRequests":
    case "cohortMinutes":
    case "pluginCpuMs":
    case "pluginLoadMs":
    case "pluginMemoryMb":
    case "pluginOutputKb":
    case "pluginLogLines":
      return /^\d{1,5}$/.test(text) ? Number(text) : text;
    case "trustedProxies":
    case "privateNetworks":
      return text
        .split(",")
        .map((part) => part.trim())
        .filter((part) => part !== "");
    default:
      return text;
  }
}

const SECRETS: ReadonlySet<string> = new Set<SettingName>([
  "personalKey",
  "adminPassword",
  "databaseUrl",
]);

function refuse(
  error: ErrorObject | undefined,
  draft: Readonly<Record<string, unknown>>,
  origins: ReadonlyMap<string, string>,
): UsageError {
  const name = error?.instancePath.split("/")[1] ?? "";
  const { expects } = SETTINGS.find(([setting]) => setting === name)?.[1] ?? { expects: "valid" };
  const given = SECRETS.has(name) ? "" : `, not ${JSON.stringify(String(draft[name]))}`;
  return new UsageError(`${origins.get(name)} must be ${expects}${given}`);
}

/** A misspelt variable would silently leave a default in place. */
function refuseUnknownVariables(env: Environment): void {
  const known = new Set(SETTINGS.map(([, { env: variable }]) => variable));
  for (const [name, value] of Object.entries(env)) {
    if (!name.startsWith("HEDGEROW_") || known.has(name) || isForeign(name, value ?? "")) continue;
    const names = [...known].filter((variable) => variable.startsWith("HEDGEROW_")).join(", ");
    throw new UsageError(`unknown environment variable ${name} (known are ${names})`);
  }
}

/**
 * Variables of others: those of the test suites, and the service links that Kubernetes adds for a
 * service called "hedgerow" (`HEDGEROW_PORT=tcp://…`, `HEDGEROW_SERVICE_HOST`).
 */
function isForeign(name: string, value: string): boolean {
  return (
    name.startsWith("HEDGEROW_TEST_") ||
    /^HEDGEROW_(?:\w+_)?SERVICE_(?:HOST|PORT)/.test(name) ||
    /^HEDGEROW_(?:\w+_)?PORT_\d+_(?:TCP|UDP|SCTP)/.test(name) ||
    (/^HEDGEROW_(?:\w+_)?PORT$/.test(name) && /^(?:tcp|udp|sctp):/.test(value))
  );
}

const validate = new Ajv({ strict: false, meta: false, validateSchema: false })
  .addFormat("host", isHost)
  .addFormat("network", isNetwork)
  .addFormat("postgres-url", isPostgresUrl)
  .addFormat("http-url", isHttpUrl)
  .compile(Settings);

function withoutSlash(url: string): string {
  return url.replace(/\/+$/, "");
}

/** An IP address or the name of a host. */
function isHost(text: string): boolean {
  if (isIP(text) !== 0) return true;
  // Digits and dots alone are a mistyped address.
  return (
    /^(?=.{1,253}$)(?:[a-z\d](?:[a-z\d-]{0,61}[a-z\d])?)(?:\.[a-z\d](?:[a-z\d-]{0,61}[a-z\d])?)*$/i.test(
      text,
    ) && !/^[\d.]+$/.test(text)
  );
}

/** An IP address, or a range of them as CIDR writes it. */
function isNetwork(text: string): boolean {
  const [address = "", prefix, ...more] = text.split("/");
  const family = isIP(address);
  if (family === 0 || more.length > 0) return false;
  if (prefix === undefined) return true;
  if (!/^\d{1,3}$/.test(prefix)) return false;
  try {
    new BlockList().addSubnet(address, Number(prefix), family === 6 ? "ipv6" : "ipv4");
    return true;
  } catch {
    return false;
  }
}

function isHttpUrl(text: string): boolean {
  return /^https?:\/\//i.test(text) && URL.canParse(text);
}

function isPostgresUrl(text: string): boolean {
  return /^postgres(?:ql)?:\/\//.test(text) && URL.canParse(text);
}
