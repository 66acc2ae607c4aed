import { UsageError } from "./config.ts";
import { goOnWithout } from "./platform/go-on-without.ts";

/** A command: takes its arguments, answers the exit code. Each is loaded only when it is asked for. */
type Command = (args: readonly string[]) => Promise<number>;

const COMMANDS: Readonly<Record<string, () => Promise<Command>>> = {
  start: async () => (await import("./commands/start.ts")).start,
  keys: async () => (await import("./commands/keys.ts")).keys,
  "dead-letters": async () => (await import("./commands/dead-letters.ts")).deadLetters,
  doctor: async () => (await import("./commands/doctor.ts")).doctor,
  help: async () => (await import("./commands/help.ts")).help,
  version: async () => (await import("./commands/help.ts")).version,
};

const ALIASES: Readonly<Record<string, string>> = {
  "--help": "help",
  "-h": "help",
  "--version": "version",
  "-v": "version",
};

const USAGE_MISTAKE = 2;

async function main(args: readonly string[]): Promise<number> {
  const [given = "help", ...rest] = args;
  const name = Object.hasOwn(ALIASES, given) ? (ALIASES[given] ?? given) : given;
  const load = Object.hasOwn(COMMANDS, name) ? COMMANDS[name] : undefined;
  try {
    if (!load) {
      throw new UsageError(
        `unknown command "${given}" (known are ${Object.keys(COMMANDS).join(", ")})`,
      );
    }
    if (rest.includes("--help") || rest.includes("-h")) {
      const { help } = await import("./commands/help.ts");
      return await help([name]);
    }
    const command = await load();
    return await command(rest);
  } catch (error) {
    if (error instanceof UsageError) {
      console.error(`hedgerow: ${error.message}`);
      return USAGE_MISTAKE;
    }
    const { operatorsReason } = await import("./commands/operators-reason.ts");
    const reason = operatorsReason(error, `${name} failed`);
    if (reason === undefined) throw error;
    console.error(`hedgerow: ${reason}`);
    return 1;
  }
}

for (const output of [process.stdout, process.stderr]) goOnWithout(output);

// Not awaited here: the bundle is a script, and no module.
void main(process.argv.slice(2)).then((exitCode) => {
  process.exitCode = exitCode;
});
