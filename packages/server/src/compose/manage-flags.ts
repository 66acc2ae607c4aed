import { createCohortPersons } from "../cohorts/cohort-persons.ts";
import { cohortRoutes } from "../cohorts/cohorts.routes.ts";
import { createCohorts } from "../cohorts/cohorts.ts";
import { createAudience } from "../engines/sql/audience.ts";
import { createExperimentStore } from "../engines/sql/experiment-store.ts";
import { experimentsUsingFlag } from "../experiments/experiments-using-flag.ts";
import { consistencyRoutes } from "../flags/consistency.routes.ts";
import { createCheckConsistency } from "../flags/consistency.ts";
import { copyFlagRoutes } from "../flags/copy-flags.routes.ts";
import { createCopyFlag } from "../flags/copy-flags.ts";
import { explainRoutes } from "../flags/explain.routes.ts";
import { createExplain } from "../flags/explain.ts";
import { createFlagCohorts } from "../flags/flag-cohorts.ts";
import { flagsDependingOnFlag } from "../flags/flag-dependants.ts";
import { featureOfFlag } from "../flags/flag-enrolment.ts";
import { flagReachRoutes } from "../flags/flag-reach.routes.ts";
import { createFlagReach } from "../flags/flag-reach.ts";
import { flagUsageRoutes } from "../flags/flag-usage.routes.ts";
import { createTellFlags, flagRoutes } from "../flags/flags.routes.ts";
import { createFlags } from "../flags/flags.ts";
import { wireLocalDefinitions } from "../flags/local-evaluation.schemas.ts";
import type { App } from "../http/app.ts";
import type { Parts } from "./parts.ts";

/** What experiments and definitions need of the management of flags and cohorts. */
export type ManagedFlags = ReturnType<typeof manageFlags>;

/** Flags and cohorts. */
export function manageFlags(management: App, parts: Parts) {
  const { database, clock, reportFault, onClose, accounts, activityLog, seal, geoIp } = parts;
  const { events, persons, personRecords } = parts;
  const { flagStore, changeDefinitions, cohortStore, memberships, compiledFlags } = parts;
  const { calculations, compile, caughtUp, decisionCounts, isStored, pendingPersons } = parts;
  const experimentStore = createExperimentStore(database);
  const flags = createFlags({
    flagStore,
    activityLog,
    accounts,
    dependants: [flagsDependingOnFlag, experimentsUsingFlag(experimentStore), featureOfFlag],
    changeDefinitions,
    seal,
    clock,
  });
  const cohorts = createCohorts({
    cohortStore,
    memberships,
    findPersons: createCohortPersons({ memberships, personRecords, compiledFlags, clock }),
    changeDefinitions,
    onChanged: calculations.changed,
    clock,
  });
  const tellFlags = createTellFlags({
    accounts,
    experimentIdsOf: experimentStore.idsOfFlags,
    clock,
  });
  flagRoutes(management, { flags, tellFlags, activityLog, accounts, clock });
  const audience = createAudience(database);
  const reach = createFlagReach({
    audience,
    compiledFlags,
    compile,
    caughtUp,
    clock,
  });
  const flagCohorts = createFlagCohorts({ reach, flags, cohorts, clock, reportFault });
  onClose(() => flagCohorts.close());
  flagReachRoutes(management, { reach, flagCohorts, accounts });
  consistencyRoutes(management, {
    checkConsistency: createCheckConsistency({
      audience,
      compiledFlags,
      compile: (definitions) => compile(definitions, undefined),
      feedOf: wireLocalDefinitions,
      clock,
    }),
  });
  flagUsageRoutes(management, {
    flags,
    flagCalls: events,
    decisionCounts,
    caughtUp: isStored,
    clock,
  });
  copyFlagRoutes(management, {
    copyFlag: createCopyFlag({ flags, cohorts, cohortStore, compiledFlags, seal }),
    accounts,
    tellFlags,
  });
  explainRoutes(management, {
    ...createExplain({
      compiledFlags,
      persons,
      pendingPersons,
      geoIp,
      clock,
      reportFault,
    }),
    compiledFlags,
  });
  cohortRoutes(management, { cohorts, activityLog, accounts });
  return { flags, cohorts, tellFlags, audience, experimentStore };
}
