import type { Logger } from "pino";
import type { Registry } from "prom-client";
import type { Config } from "../config.ts";

/** What every part of the service is composed with. */
export interface Base {
  readonly config: Config;
  readonly logger: Logger;
  readonly metrics: Registry;
  readonly clock: () => Date;
  /** Uuids that grow with time. */
  readonly newUuid: () => string;
  readonly reportFault: (error: unknown, context: string) => void;
  /** Notes what to do when the service closes; the last noted is done first. */
  readonly onClose: (close: () => unknown) => void;
}
