import { v4 } from "uuid";
import { captureRoutes } from "../events/capture.routes.ts";
import { captureV1Routes } from "../events/capture-v1.routes.ts";
import { decideRoutes } from "../flags/decide.routes.ts";
import { flagChangeRoutes } from "../flags/flag-changes.routes.ts";
import { localEvaluationRoutes } from "../flags/local-evaluation.routes.ts";
import { wireLocalDefinitions } from "../flags/local-evaluation.schemas.ts";
import { createLocalDefinitions } from "../flags/local-evaluation.ts";
import { remoteConfigRoutes } from "../flags/remote-config.routes.ts";
import { healthRoutes } from "../health/health.routes.ts";
import type { App } from "../http/app.ts";
import { publicApi } from "../http/public-api.ts";
import { earlyAccessFeaturesOf } from "../sdk/early-access.ts";
import { sdkRoutes } from "../sdk/sdk.routes.ts";
import { openSdkScripts } from "../sdk/sdk-scripts.ts";
import type { Parts } from "./parts.ts";

/** Opens the routes that SDKs and probes ask, by a project's key or by none. */
export function openPublicRoutes(app: App, parts: Parts, hasStarted: () => boolean): void {
  const { accounts, projects, authenticateForDefinitions, seal, geoIp } = parts;
  const { compiledFlags, flagChanges, persons, decisionCounter } = parts;
  const { log, pendingPersons, largeBodies, captureDeps, metrics, clock, reportFault } = parts;
  publicApi(app, (open) => {
    flagChangeRoutes(open, { projects, compiledFlags, changes: flagChanges });
    decideRoutes(open, {
      projects,
      largeBodies,
      compiledFlags,
      persons,
      pendingPersons,
      geoIp,
      clock,
      newUuid: v4,
      reportFault,
      ...(decisionCounter && { onDecided: decisionCounter.note }),
    });
    captureRoutes(open, captureDeps);
    captureV1Routes(open, captureDeps);
    localEvaluationRoutes(open, {
      authenticateForDefinitions,
      compiledFlags,
      localDefinitionsOf: createLocalDefinitions(wireLocalDefinitions),
    });
    remoteConfigRoutes(open, { authenticateForDefinitions, compiledFlags, seal });
    sdkRoutes(open, {
      projects,
      scripts: openSdkScripts(),
      earlyAccessFeatures: async ({ id }) =>
        earlyAccessFeaturesOf((await compiledFlags.get(id)).flagSet),
    });
    healthRoutes(open, {
      // The one store that may be a server elsewhere, and the disk; all else lives and dies with this process.
      unready: async () => {
        const refusing = log.refusing();
        const full = refusing === undefined ? [] : [`events cannot be stored: ${refusing}`];
        return accounts.isEmpty().then(
          () => (hasStarted() ? full : ["the service is starting"]),
          () => ["the metadata database does not answer", ...full],
        );
      },
      metrics,
    });
  });
}
