import type { AddressInfo } from "node:net";
import type { Logger } from "pino";
import type { FirstBoot } from "../accounts/bootstrap.ts";
import { type Config, readConfig, UsageError } from "../config.ts";
import type { App } from "../http/app.ts";
import { addressUrl } from "../platform/address-url.ts";
import { type ReservedPort, reservePort } from "../platform/reserve-port.ts";
import { fullDiskReason } from "./full-disk.ts";
import { readVersion } from "./help.ts";
import { createLogger } from "./logger.ts";
import { codeOf, operatorsReason } from "./operators-reason.ts";

/** npm passes on a Ctrl+C that the terminal has sent us already: the echo is no second wish. */
const ECHO_MS = 200;
/** Requests under way get this long to finish; then their connections are cut, so that the stores can still drain. */
const FINISH_REQUESTS_WITHIN_MS = 4000;
/** Time from the wish to stop until the process is gone, whatever still runs. */
const STOP_WITHIN_MS = 10_000;

/** `hedgerow start`: runs the service until a signal stops it. */
export async function start(args: readonly string[]): Promise<number> {
  const config = readConfig(args);
  if (config.role !== "all") {
    throw new UsageError(
      `the role ${config.role} needs an event log that processes share; with storage in the data folder one process does everything: start it with --role all`,
    );
  }
  const logger = createLogger(config.logLevel);
  const { composeService } = await import("../compose.ts");
  let service: Awaited<ReturnType<typeof composeService>>;
  try {
    const { port, release } = await portOf(config);
    service = await composeService({ ...config, port }, logger, {
      listen: async (app) => {
        await release();
        return listen(app, { ...config, port });
      },
    });
  } catch (error) {
    return refuse(error, logger, config);
  }
  const stopped = stopOnSignal(logger, async () => {
    const { server } = service.app;
    const cut = setTimeout(() => server.closeAllConnections(), FINISH_REQUESTS_WITHIN_MS);
    await service.close();
    clearTimeout(cut);
  });
  const url = urlOf(service.app);
  if (service.firstBoot) console.log(welcome(service.firstBoot, url));
  logger.info({ url, version: readVersion(), data: config.data }, "ready");
  return stopped;
}

/** The port to listen on: transformations are told the address long before the service listens. */
async function portOf({ host, port }: Config): Promise<ReservedPort> {
  return port === 0
    ? nameListenFaults({ host, port }, () => reservePort(host))
    : { port, async release() {} };
}

/** Opens the socket and answers the address of the service for this machine. */
async function listen(app: App, { host, port }: Config): Promise<string> {
  await nameListenFaults({ host, port }, () => app.listen({ host, port }));
  return urlOf(app);
}

async function nameListenFaults<Result>(
  address: ListenAddress,
  work: () => Promise<Result>,
): Promise<Result> {
  try {
    return await work();
  } catch (error) {
    const reason = listenReason(error, address);
    throw reason === undefined ? error : new CannotStart(reason, { cause: error });
  }
}

function urlOf(app: App): string {
  const { address, port } = app.server.address() as AddressInfo;
  return addressUrl(address, port);
}

/** What keeps the service from starting, as its operator is told. */
class CannotStart extends Error {
  override readonly name = "CannotStart";
}

/** Resolves with the exit code once a signal came and everything is put away. */
function stopOnSignal(logger: Logger, close: () => Promise<void>): Promise<number> {
  return new Promise((resolve) => {
    let stoppingSince: number | undefined;
    const stop = async (signal: "SIGTERM" | "SIGINT") => {
      if (stoppingSince !== undefined) {
        if (performance.now() - stoppingSince < ECHO_MS) return;
        process.exit(signal === "SIGTERM" ? 143 : 130);
      }
      stoppingSince = performance.now();
      logger.info({ signal }, "stopping");
      // Not awaited by the event loop: it only matters while something else keeps the process up.
      setTimeout(() => {
        logger.error("not everything stopped in time");
        process.exit(1);
      }, STOP_WITHIN_MS).unref();
      try {
        await close();
        logger.info("stopped");
        resolve(0);
      } catch (error) {
        logger.error({ err: error }, "stopping failed");
        resolve(1);
      }
    };
    process.on("SIGTERM", stop);
    process.on("SIGINT", stop);
  });
}

/** Says in one line why the service does not run, where that is the operator's to mend. */
async function refuse(error: unknown, logger: Logger, { data }: Config): Promise<number> {
  const fullDisk = await fullDiskReason(error, data);
  const reason =
    error instanceof CannotStart
      ? error.message
      : fullDisk === undefined
        ? operatorsReason(error, "cannot start")
        : `cannot start: ${fullDisk}`;
  if (reason !== undefined) console.error(`hedgerow: ${reason}`);
  else logger.fatal({ err: error }, "the service could not start");
  return 1;
}

type ListenAddress = Pick<Config, "host" | "port">;

function listenReason(error: unknown, { host, port }: ListenAddress): string | undefined {
  switch (codeOf(error)) {
    case "EADDRINUSE":
      return `${host}:${port} is taken by another program: stop that one, or choose another port with --port`;
    case "EADDRNOTAVAIL":
    case "ENOTFOUND":
    case "EAI_AGAIN":
      return `${host} is no address of this machine: choose another with --host`;
    case "EACCES":
      return `${host}:${port} may not be listened on by this user: choose a port above 1023 with --port`;
    default:
      return undefined;
  }
}

/** What the first boot tells once: keys and three requests to try. */
function welcome(
  { project, admin, projectKey, personalKey, generatedPassword }: FirstBoot,
  url: string,
) {
  const json = "-H 'content-type: application/json'";
  const password =
    generatedPassword === null ? "as given in HEDGEROW_ADMIN_PASSWORD" : generatedPassword;
  return `
Welcome to Hedgerow. Keep these: they are shown this once.

  project key (public)     ${projectKey}
  personal key (secret)    ${personalKey}
  admin                    ${admin.email}
  password                 ${password}

Try it:

  curl -s '${url}/decide?v=3' ${json} -d '{"api_key":"${projectKey}","distinct_id":"ada"}'
  curl -s '${url}/capture' ${json} -d '{"api_key":"${projectKey}","event":"hello","distinct_id":"ada"}'
  curl -s '${url}/api/projects/${project.id}/events/?event=hello' -H 'authorization: Bearer ${personalKey}'
`;
}
