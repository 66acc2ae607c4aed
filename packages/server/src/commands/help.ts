import { readFileSync } from "node:fs";
import { SETTINGS, UsageError } from "../config.ts";

const OVERVIEW = `Hedgerow: feature flags and event capture in one process, speaking PostHog's HTTP API.

Usage: hedgerow <command> [options]

  start          run the service
  keys           create, list and revoke personal keys
  dead-letters   list and replay events that could not be processed
  doctor         check the installation
  help [command] show this, or the options of a command
  version        show the version`;

const KEYS = `Usage: hedgerow keys create --label <text> --scopes <scope,…> [--project <id,…>]
       hedgerow keys list
       hedgerow keys revoke <id>

Personal keys of the admin. They take effect at once, also while the service runs.

  --label <text>      what the key is for
  --scopes <scope,…>  what it opens, for instance feature_flag:read,cohort:write; * for everything
  --project <id,…>    the only projects it opens`;

const DEAD_LETTERS = `Usage: hedgerow dead-letters list [--project <id>]
       hedgerow dead-letters replay --all | <position or uuid>… [--project <id>]

Events that could not be processed. Replayed events are captured once more and processed by the
service. While it runs, the command asks its API; otherwise it works on the data folder.

  --project <id>      the project whose events are meant; all in a data folder, 1 in a service
  --all               replay everything there is
  --url <url>         where the service answers, unless it works in the data folder
  --key <key>         personal key for it, unless in HEDGEROW_PERSONAL_KEY`;

const DOCTOR = `Usage: hedgerow doctor [--json]
       hedgerow doctor flags [--project <id>] [--persons <number>] [--json]

Checks the installation and prints a line per check. Exit code 1 when something fails.

doctor flags compares, for stored persons, what SDKs that evaluate flags themselves make of a
project's flags with what the service answers. While it runs, the command asks its API; otherwise
it works on the data folder. Exit code 1 when there is a difference.

  --json              print the findings as JSON
  --project <id>      the project whose flags are meant; 1 unless given
  --persons <number>  how many persons, the newest first; 200 unless given
  --url <url>         where the service answers, unless it works in the data folder
  --key <key>         personal key for it, unless in HEDGEROW_PERSONAL_KEY`;

/** `hedgerow help [command]`. */
export async function help(args: readonly string[]): Promise<number> {
  console.log(textFor(args[0]));
  return 0;
}

/** `hedgerow version`. */
export async function version(): Promise<number> {
  console.log(readVersion());
  return 0;
}

/** The version of the package that runs. */
export function readVersion(): string {
  const file = new URL("../../package.json", import.meta.url);
  return JSON.parse(readFileSync(file, "utf8")).version;
}

function textFor(command: string | undefined): string {
  switch (command) {
    case undefined:
    case "help":
    case "version":
      return `${OVERVIEW}\n\n${settings()}`;
    case "start":
      return `Usage: hedgerow start [options]\n\n${settings()}`;
    case "keys":
      return `${KEYS}\n\n${settings()}`;
    case "dead-letters":
      return `${DEAD_LETTERS}\n\n${settings()}`;
    case "doctor":
      return `${DOCTOR}\n\n${settings()}`;
    default:
      throw new UsageError(`no help for an unknown command "${command}"`);
  }
}

function settings(): string {
  const rows = SETTINGS.map(([, setting]) => {
    const flag = setting.flag === undefined ? "" : `--${setting.flag}`;
    const fallback = String(setting.default ?? "");
    const suffix = fallback === "" ? "" : ` (${fallback})`;
    return `  ${flag.padEnd(18)} ${setting.env.padEnd(25)} ${setting.description}${suffix}`;
  });
  return [`Options, by flag or by environment variable:`, "", ...rows].join("\n");
}
