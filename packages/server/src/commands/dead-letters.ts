import { existsSync } from "node:fs";
import { type CommandLine, readCommandLine, UsageError } from "../config.ts";
import {
  DataFolderInUse,
  dataFolderPaths,
  type FolderHolder,
  openDataFolder,
} from "../engines/data-folder/data-folder.ts";
import { readChosen } from "../events/dead-letters.schemas.ts";
import type { ChosenLetters } from "../events/dead-letters.ts";
import { metadataOf } from "./metadata-of.ts";
import { runningService } from "./running-service.ts";

/** A dead letter as the command shows it. */
interface ShownLetter {
  readonly id: number;
  readonly project: number;
  readonly uuid: string;
  readonly event: string;
  readonly reason: string;
}

/** Where the letters are: a folder nobody works in, or a service that runs. */
interface Letters {
  list(): AsyncIterable<ShownLetter>;
  replay(
    chosen: ChosenLetters,
  ): Promise<{ readonly replayed: number; readonly unknown: readonly (number | string)[] }>;
  close(): Promise<void>;
}

const PAGE = 100;

/**
 * `hedgerow dead-letters list|replay`: on the data folder while the service is stopped, and through
 * its API while it runs.
 */
export async function deadLetters(args: readonly string[]): Promise<number> {
  const [action, ...rest] = args;
  if (action !== "list" && action !== "replay") {
    throw new UsageError(
      action === undefined || action.startsWith("-")
        ? "dead-letters needs one of list, replay"
        : `unknown command "dead-letters ${action}" (known are list, replay)`,
    );
  }
  const line = readCommandLine({
    args: rest,
    options: {
      url: { type: "string" },
      key: { type: "string" },
      project: { type: "string" },
      all: { type: "boolean" },
    },
    positionals: action === "replay" ? 1000 : 0,
  });
  // Before anything is opened: mistakes change nothing.
  const chosen = action === "replay" ? chosenOf(line) : "all";
  const letters = await openLetters(line);
  try {
    return await (action === "list" ? list(letters) : replay(letters, chosen));
  } finally {
    await letters.close();
  }
}

async function list(letters: Letters): Promise<number> {
  let count = 0;
  for await (const { id, project, uuid, event, reason } of letters.list()) {
    if (count === 0) console.log("POSITION\tPROJECT\tUUID\tEVENT\tREASON");
    console.log([id, project, uuid, event, reason].map(inOneCell).join("\t"));
    count++;
  }
  console.error(`${count} dead letters`);
  return 0;
}

async function replay(letters: Letters, chosen: ChosenLetters): Promise<number> {
  const { replayed, unknown } = await letters.replay(chosen);
  console.error(`${replayed} events are captured once more`);
  if (unknown.length === 0) return 0;
  console.error(`hedgerow: no dead letter is called ${unknown.join(", ")} (see dead-letters list)`);
  return 1;
}

function chosenOf({ options, positionals }: CommandLine): ChosenLetters {
  if (options.all === positionals.length > 0) {
    throw new UsageError("dead-letters replay needs --all, or positions or uuids, not both");
  }
  if (options.all) return "all";
  if (positionals.length === 0) {
    throw new UsageError("dead-letters replay needs --all, or positions or uuids");
  }
  return positionals.map((text) => {
    const chosen = readChosen(text);
    if (chosen !== undefined) return chosen;
    throw new UsageError(`"${text}" is neither a position nor a uuid`);
  });
}

async function openLetters(line: CommandLine): Promise<Letters> {
  if (line.options.url !== undefined) return lettersOfService(line);
  const { data } = line.config;
  if (!existsSync(dataFolderPaths(data).events)) {
    throw new UsageError(`there are no events in ${data}: name the folder with --data`);
  }
  try {
    return await lettersOfFolder(line);
  } catch (error) {
    if (!(error instanceof DataFolderInUse)) throw error;
    return lettersOfService(line, error.holder);
  }
}

/** No flag request comes while the service does not run. */
const NOBODY_WAITS = {
  add() {},
  addToLane() {},
  keptUp: () => undefined,
  keptUpInLane: () => undefined,
};

/** Opens the folder; what is replayed is processed at the next start. */
async function lettersOfFolder(line: CommandLine): Promise<Letters> {
  const { config } = line;
  const folder = openDataFolder(config.data, new Date());
  const opened: (() => unknown)[] = [() => folder.release()];
  const close = async () => {
    for (const one of opened.splice(0).reverse()) await one();
  };
  try {
    const { openDuckDbEvents } = await import("../engines/duckdb-events/duckdb-events.ts");
    const { openEmbeddedLog } = await import("../engines/embedded-log/embedded-log.ts");
    const { personsPosition } = await import("../engines/sql/person-lock.ts");
    const { createTransformationConfigStore } = await import(
      "../engines/sql/transformation-config-store.ts"
    );
    const { createAppendCaptured } = await import("../events/append-captured.ts");
    const { createDeadLetters } = await import("../events/dead-letters.ts");
    const paths = dataFolderPaths(config.data);
    const metadata = await metadataOf(config);
    opened.push(() => metadata.close());
    const events = await openDuckDbEvents(paths.events);
    opened.push(() => events.close());
    const log = await openEmbeddedLog(paths.eventLog, {
      after: Math.max(await personsPosition(metadata.reads), await events.position()),
    });
    opened.push(() => log.close());
    const configs = createTransformationConfigStore(metadata);
    const projectsAtWork = new Set(await configs.projectsToRun());
    const append = createAppendCaptured({
      log,
      pendingPersons: NOBODY_WAITS,
      isAtWork: (projectId) => projectsAtWork.has(projectId),
      onLane() {},
    });
    const letters = createDeadLetters({ events, log, append });
    const scope = line.options.project === undefined ? {} : { projectId: projectOf(line) };
    return {
      async *list() {
        for (let after: number | undefined = 0; after !== undefined; ) {
          const page = await letters.list({ ...scope, after, limit: PAGE });
          for (const { position, reason, event } of page) {
            const { projectId: project, uuid } = event;
            yield { id: position, project, uuid, event: event.event, reason };
          }
          after = page.at(-1)?.position;
        }
      },
      replay: (chosen) => letters.replay(chosen, scope.projectId),
      close,
    };
  } catch (error) {
    await close();
    throw error;
  }
}

function lettersOfService(line: CommandLine, holder?: FolderHolder): Letters {
  const { ask } = runningService(line, holder);
  const project = projectOf(line);
  const path = `/api/projects/${project}/dead_letters`;

  return {
    async *list() {
      for (let after: number | undefined = 0; after !== undefined; ) {
        const page = (await ask("GET", `${path}?after=${after}&limit=${PAGE}`)) as {
          results: readonly Omit<ShownLetter, "project">[];
          next: string | null;
        };
        for (const letter of page.results) yield { ...letter, project };
        after = page.next === null ? undefined : page.results.at(-1)?.id;
      }
    },
    replay: async (chosen) =>
      (await ask("POST", `${path}/replay`, chosen === "all" ? {} : { ids: chosen })) as {
        replayed: number;
        unknown: readonly (number | string)[];
      },
    close: async () => {},
  };
}

/** The project that is asked about; the first one unless given. */
function projectOf({ options }: CommandLine): number {
  const text = options.project ?? "1";
  if (typeof text === "string" && /^\d{1,9}$/.test(text)) return Number(text);
  throw new UsageError("--project must be the id of a project");
}

function inOneCell(value: string | number): string {
  return String(value).replace(/[\t\r\n]+/g, " ");
}
