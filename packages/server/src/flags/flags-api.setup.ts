import { randomBytes } from "node:crypto";
import { compileFlags } from "@hedgerow/core/flags/compile-flags";
import pino from "pino";
import type { AccountStore, Project, User } from "../accounts/account-store.ts";
import { activityRoutes } from "../activity/activity.routes.ts";
import { createCohortPersons } from "../cohorts/cohort-persons.ts";
import { cohortRoutes } from "../cohorts/cohorts.routes.ts";
import { createCohorts } from "../cohorts/cohorts.ts";
import { createBacktrackingRegex } from "../engines/backtracking-regex/backtracking-regex.ts";
import { createAccountStore } from "../engines/sql/account-store.ts";
import { createActivityLog } from "../engines/sql/activity-log.ts";
import { createAudience } from "../engines/sql/audience.ts";
import { createCohortStore } from "../engines/sql/cohort-store.ts";
import { createExperimentPartStore } from "../engines/sql/experiment-part-store.ts";
import { createExperimentStore } from "../engines/sql/experiment-store.ts";
import { createFlagStore } from "../engines/sql/flag-store.ts";
import { createMembershipStore } from "../engines/sql/membership-store.ts";
import { createPersonRecords } from "../engines/sql/person-records.ts";
import { plainPersonStore } from "../engines/sql/plain-person-store.setup.ts";
import { projectsAndUsers } from "../engines/sql/projects-and-users.setup.ts";
import { openTemporarySqlite } from "../engines/sql/sql-engines.contract.ts";
import { createPendingPersons } from "../events/pending-persons.ts";
import { createEligibleFlags } from "../experiments/eligible-flags.ts";
import { experimentRoutes } from "../experiments/experiments.routes.ts";
import { createExperiments } from "../experiments/experiments.ts";
import { experimentsUsingFlag } from "../experiments/experiments-using-flag.ts";
import { holdoutRoutes } from "../experiments/holdouts.routes.ts";
import { createHoldouts } from "../experiments/holdouts.ts";
import { runningTimeRoutes } from "../experiments/running-time.routes.ts";
import { savedMetricRoutes } from "../experiments/saved-metrics.routes.ts";
import { createSavedMetrics } from "../experiments/saved-metrics.ts";
import { createApp } from "../http/app.ts";
import { Refusal } from "../http/errors.ts";
import { managementApi } from "../http/management-api.ts";
import { publicApi } from "../http/public-api.ts";
import { createChangeDefinitions } from "./change-definitions.ts";
import { createCompiledFlags } from "./compiled-flags.ts";
import { consistencyRoutes } from "./consistency.routes.ts";
import { createCheckConsistency } from "./consistency.ts";
import { copyFlagRoutes } from "./copy-flags.routes.ts";
import { createCopyFlag } from "./copy-flags.ts";
import { createPayloadSeal } from "./encrypted-payloads.ts";
import { explainRoutes } from "./explain.routes.ts";
import { createExplain } from "./explain.ts";
import { createFlagCohorts } from "./flag-cohorts.ts";
import { flagsDependingOnFlag } from "./flag-dependants.ts";
import { featureOfFlag } from "./flag-enrolment.ts";
import { flagReachRoutes } from "./flag-reach.routes.ts";
import { createFlagReach } from "./flag-reach.ts";
import { createTellFlags, flagRoutes } from "./flags.routes.ts";
import { createFlags } from "./flags.ts";
import { localEvaluationRoutes } from "./local-evaluation.routes.ts";
import { wireLocalDefinitions } from "./local-evaluation.schemas.ts";
import { createLocalDefinitions } from "./local-evaluation.ts";

/** The answer to a request: status, headers and parsed body. */
export interface Answer {
  readonly status: number;
  readonly headers: Record<string, unknown>;
  // biome-ignore lint/suspicious/noExplicitAny: tests look into answers of every shape
  readonly body: any;
}

/** The management and local evaluation routes over a fresh embedded store, for one user. */
export async function openFlagsApi({
  feedOf = wireLocalDefinitions,
  ...reachOptions
}: {
  readonly maxCountMs?: number;
  readonly patienceMs?: number;
  /** What local evaluation is compared by. */
  readonly feedOf?: typeof wireLocalDefinitions;
} = {}) {
  const database = await openTemporarySqlite();
  const accounts = createAccountStore(database);
  const flagStore = createFlagStore(database);
  const { newProject, newUser, newPerson } = await projectsAndUsers(database);
  const user = await required(accounts, await newUser());
  const clock = { now: new Date("2026-03-01T10:00:00.123Z") };
  const granted: { scopes: readonly string[] } = { scopes: ["*"] };
  const throwFault = (error: unknown) => {
    throw error;
  };
  const backtracking = createBacktrackingRegex();
  const compiledFlags = createCompiledFlags({
    flagStore,
    compile: (definitions) => compileFlags(definitions, { backtracking }),
    reportFault: throwFault,
  });
  const changeDefinitions = createChangeDefinitions({ compiledFlags, reportFault: throwFault });
  const deps = { changeDefinitions, clock: () => clock.now };
  const seal = createPayloadSeal(randomBytes(32), randomBytes);
  const activityLog = createActivityLog(database);
  const experimentStore = createExperimentStore(database);
  const flags = createFlags({
    flagStore,
    activityLog,
    accounts,
    dependants: [flagsDependingOnFlag, experimentsUsingFlag(experimentStore), featureOfFlag],
    seal,
    ...deps,
  });
  const cohortStore = createCohortStore(database);

  const reportFault = (error: unknown) => {
    throw error;
  };
  const persons = plainPersonStore(database);
  const memberships = createMembershipStore(database);
  const cohorts = createCohorts({
    cohortStore,
    memberships,
    findPersons: createCohortPersons({
      memberships,
      personRecords: createPersonRecords(database, persons),
      compiledFlags,
      clock: () => clock.now,
    }),
    onChanged: async () => {},
    ...deps,
  });
  const holdoutStore = createExperimentPartStore(database, "holdout");
  const savedMetricStore = createExperimentPartStore(database, "saved-metric");
  const experiments = createExperiments({
    experimentStore,
    holdoutStore,
    savedMetricStore,
    flags,
    flagsById: flagStore.flagsById,
    cohorts,
    definitionsOf: async (projectId) => (await compiledFlags.refresh(projectId)).definitions,
    ...deps,
  });
  const explanations = createExplain({
    compiledFlags,
    persons,
    pendingPersons: createPendingPersons({ distinctIdsOf: persons.distinctIdsOf }),
    geoIp: { lookup: (address) => ({ $geoip_city_name: `City of ${address}` }) },
    clock: () => clock.now,
    reportFault,
  });

  const projectNamed = async (id: string | undefined): Promise<Project> => {
    const project = await accounts.project(Number(id));
    if (!project) throw new Refusal("not_found", "Project not found.");
    return project;
  };
  const app = createApp({ logger: pino({ level: "silent" }) });
  managementApi(
    app,
    async (request) => ({
      user,
      key: { id: "k", userId: user.id, label: "", maskValue: "", scopes: granted.scopes } as never,
      memberships: [],
      project: (request.params as { organization_id?: string }).organization_id
        ? null
        : await projectNamed((request.params as { project_id?: string }).project_id),
      membership: { organization: { id: user.currentOrganizationId } } as never,
    }),
    (management) => {
      activityRoutes(management, { activityLog, accounts });
      const tellFlags = createTellFlags({
        accounts,
        experimentIdsOf: experimentStore.idsOfFlags,
        clock: () => clock.now,
      });
      flagRoutes(management, {
        flags,
        tellFlags,
        activityLog,
        accounts,
        clock: () => clock.now,
      });
      explainRoutes(management, { ...explanations, compiledFlags });
      const reach = createFlagReach({
        audience: createAudience(database),
        compiledFlags,
        compile: (definitions, earlier) => compileFlags(definitions, { backtracking }, earlier),
        caughtUp: async () => {},
        clock: () => clock.now,
        ...reachOptions,
      });
      consistencyRoutes(management, {
        checkConsistency: createCheckConsistency({
          audience: createAudience(database),
          compiledFlags,
          compile: (definitions) => compileFlags(definitions, { backtracking }),
          feedOf,
          clock: () => clock.now,
        }),
      });
      flagReachRoutes(management, {
        reach,
        flagCohorts: createFlagCohorts({
          reach,
          flags,
          cohorts,
          reportFault,
          ...reachOptions,
          clock: () => clock.now,
        }),
        accounts,
      });
      copyFlagRoutes(management, {
        copyFlag: createCopyFlag({ flags, cohorts, cohortStore, compiledFlags, seal }),
        accounts,
        tellFlags,
      });
      runningTimeRoutes(management);
      experimentRoutes(management, {
        experiments,
        eligibleFlags: createEligibleFlags(flagStore),
        tellFlags,
        activityLog,
        accounts,
        clock: () => clock.now,
      });
      holdoutRoutes(management, {
        parts: createHoldouts({
          holdoutStore,
          experimentStore,
          followHoldout: experiments.followHoldout,
          clock: () => clock.now,
        }),
        activityLog,
        accounts,
      });
      savedMetricRoutes(management, {
        parts: createSavedMetrics({ savedMetricStore, clock: () => clock.now }),
        activityLog,
        accounts,
      });
      cohortRoutes(management, { cohorts, activityLog, accounts });
    },
  );
  publicApi(app, (open) =>
    localEvaluationRoutes(open, {
      authenticateForDefinitions: async (request) => {
        if (request.headers.authorization !== "Bearer phx_good") {
          throw new Refusal("not_authenticated", "Authentication credentials were not provided.");
        }
        const token = (request.query as { token?: string }).token;
        const project = token === undefined ? undefined : await accounts.projectByApiToken(token);
        return project ?? projectNamed((request.params as { project_id?: string }).project_id);
      },
      compiledFlags,
      localDefinitionsOf: createLocalDefinitions(wireLocalDefinitions),
    }),
  );
  await app.ready();

  const send = async (
    method: "GET" | "POST" | "PATCH" | "PUT" | "DELETE" | "OPTIONS",
    url: string,
    payload?: object | string,
    headers: Record<string, string> = {},
  ): Promise<Answer> => {
    const response = await app.inject({
      method,
      url,
      headers: payload === undefined ? headers : { "content-type": "application/json", ...headers },
      ...(payload === undefined ? {} : { payload }),
    });
    return {
      status: response.statusCode,
      headers: response.headers,
      body: response.body === "" ? undefined : JSON.parse(response.body),
    };
  };
  return {
    send,
    clock,
    granted,
    flags,
    cohorts,
    user,
    database,
    accounts,
    compiledFlags,
    newProject,
    newPerson,
    close: async () => {
      await app.close();
      await database.close();
    },
  };
}

async function required(accounts: AccountStore, id: number): Promise<User> {
  const user = await accounts.user(id);
  if (!user) throw new Error("the user is gone");
  return user;
}
