import { randomBytes } from "node:crypto";
import type { Logger } from "pino";
import { collectDefaultMetrics, Registry } from "prom-client";
import { v7 } from "uuid";
import { bootstrap, type FirstBoot } from "./accounts/bootstrap.ts";
import type { Base } from "./compose/base.ts";
import { composeCapture } from "./compose/capture-parts.ts";
import { composeCohorts } from "./compose/cohort-parts.ts";
import { composeFlags } from "./compose/flag-parts.ts";
import { openFoundations } from "./compose/foundations.ts";
import { composeIngestion } from "./compose/ingestion.ts";
import { openManagementRoutes } from "./compose/management-routes.ts";
import type { Parts } from "./compose/parts.ts";
import { openPublicRoutes } from "./compose/public-routes.ts";
import type { Config } from "./config.ts";
import { type App, createApp } from "./http/app.ts";
import { limitFaults } from "./platform/limit-faults.ts";

/** A composed service: everything open and running, the socket where {@link ComposeOptions.listen} opens it. */
export interface Service {
  readonly app: App;
  /** The secrets of the first boot; `null` on every later one. */
  readonly firstBoot: FirstBoot | null;
  /** Stops taking requests, finishes those under way, and puts every store away. */
  close(): Promise<void>;
}

export interface ComposeOptions {
  /** Called with the application before it has routes. */
  readonly prepareApp?: (app: App) => void;
  /**
   * Opens the socket and answers the address. Called when all else stands and before the first accounts are made, so that a
   * start that fails leaves none whose secrets nobody was told.
   */
  readonly listen?: (app: App) => Promise<string>;
}

/**
 * Opens every engine, wires use cases to them and routes to the use cases. What was opened is closed
 * again when a later step fails.
 */
export async function composeService(
  config: Config,
  logger: Logger,
  options: ComposeOptions = {},
): Promise<Service> {
  const opened: (() => unknown)[] = [];
  const closeAll = async () => {
    for (const close of opened.splice(0).reverse()) await close();
  };
  try {
    return await compose(config, logger, { opened, closeAll, ...options });
  } catch (error) {
    await closeAll();
    throw error;
  }
}

async function compose(
  config: Config,
  logger: Logger,
  {
    opened,
    closeAll,
    prepareApp,
    listen,
  }: ComposeOptions & { opened: (() => unknown)[]; closeAll: () => Promise<void> },
): Promise<Service> {
  const clock = () => new Date();
  const faults = limitFaults(logger);
  const metrics = new Registry();
  collectDefaultMetrics({ register: metrics });
  const base: Base = {
    ...{ config, logger, metrics, clock },
    newUuid: () => v7(),
    reportFault: (error, context) => faults.error({ err: error }, context),
    onClose: (close) => opened.push(close),
  };

  const foundations = await openFoundations(base);
  const flagParts = composeFlags(base, foundations);
  const ingestion = await composeIngestion(base, foundations, flagParts);
  const captureParts = await composeCapture(base, foundations, ingestion);
  const cohortParts = composeCohorts(base, foundations, { ...flagParts, ...ingestion });
  const parts: Parts = {
    ...{ ...base, ...foundations, ...flagParts, ...ingestion, ...captureParts, ...cohortParts },
  };

  let hasStarted = false;
  const app = createApp({ logger });
  base.onClose(() => app.close());
  prepareApp?.(app);
  openPublicRoutes(app, parts, () => hasStarted);
  openManagementRoutes(app, parts);

  const url = await listen?.(app);
  const firstBoot = await bootstrap({
    accounts: foundations.accounts,
    given: config,
    now: clock(),
    randomBytes,
    notify: (message) => logger.warn(message),
  });
  // Whoever asked in between was told that their key is unknown.
  foundations.projects.forget();
  hasStarted = true;
  if (url !== undefined) foundations.folder.announce(url);
  return { app, firstBoot, close: closeAll };
}
