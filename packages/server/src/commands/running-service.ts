import { type CommandLine, UsageError } from "../config.ts";
import type { FolderHolder } from "../engines/data-folder/data-folder.ts";

/** The service that works in the data folder of a command, or the one that `--url` names. */
export interface RunningService {
  /** Sends a request to its API and answers the JSON that came back. */
  ask(method: "GET" | "POST", path: string, body?: object): Promise<unknown>;
}

/**
 * The running service that a command is about. Where nobody said an address the command is refused:
 * a guess could hand the key to somebody else's service. Refusals are {@link UsageError}s.
 */
export function runningService(
  line: CommandLine,
  holder: FolderHolder | undefined,
): RunningService {
  const base = line.options.url ?? holder?.url;
  if (typeof base !== "string") {
    const who = holder ? `process ${holder.pid}` : "another process";
    throw new UsageError(
      `${who} works in ${line.config.data} and does not say where it answers: wait until it has started, or name its address with --url`,
    );
  }
  if (!/^https?:/.test(base) || !URL.canParse(base)) {
    throw new UsageError(`--url must be the address of a service such as http://127.0.0.1:8000`);
  }
  const key = line.options.key ?? line.config.personalKey;
  if (typeof key !== "string") {
    throw new UsageError(
      `the service runs: give a personal key by --key or HEDGEROW_PERSONAL_KEY to ask it at ${base}`,
    );
  }

  return {
    async ask(method, path, body) {
      let response: Response;
      try {
        response = await fetch(new URL(path, base), {
          method,
          headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
          ...(body && { body: JSON.stringify(body) }),
        });
      } catch (error) {
        throw new UsageError(
          `no service answers at ${base}: name it with --url (${reasonOf(error)})`,
          { cause: error },
        );
      }
      const text = await response.text();
      if (!response.ok) throw new UsageError(`${base} answers ${response.status}: ${text}`);
      try {
        return JSON.parse(text);
      } catch (error) {
        throw new UsageError(`what answers at ${base} is no hedgerow: name it with --url`, {
          cause: error,
        });
      }
    },
  };
}

/** The platform says no more than "fetch failed": what failed lies beneath. */
function reasonOf(error: unknown): string {
  const cause = error instanceof Error ? (error.cause ?? error) : error;
  if (!(cause instanceof Error)) return String(cause);
  const code = "code" in cause ? String(cause.code) : "";
  return cause.message || code || cause.name;
}
