import { randomBytes, randomUUID } from "node:crypto";
import pino from "pino";
import { accountRoutes } from "../accounts/accounts.routes.ts";
import { createAuthentication } from "../accounts/authenticate.ts";
import { bootstrap } from "../accounts/bootstrap.ts";
import { createPersonalKey } from "../accounts/personal-keys.ts";
import type { Scope } from "../accounts/scopes.ts";
import { createArchiveReader } from "../engines/archives/archive-reader.ts";
import { QuickJsSandbox } from "../engines/quickjs-sandbox/quickjs-sandbox.ts";
import { createAccountStore } from "../engines/sql/account-store.ts";
import { createActivityLog } from "../engines/sql/activity-log.ts";
import { openTemporarySqlite } from "../engines/sql/sql-engines.contract.ts";
import { createTransformationConfigStore } from "../engines/sql/transformation-config-store.ts";
import {
  createTransformationJobs,
  createTransformationRecords,
} from "../engines/sql/transformation-records.ts";
import { createTransformationStore } from "../engines/sql/transformation-store.ts";
import type { StoredEvent } from "../events/event-store.ts";
import { createApp } from "../http/app.ts";
import { managementApi } from "../http/management-api.ts";
import { requestGuarded } from "../platform/guarded-request.ts";
import { readCatalogue } from "./catalogue.ts";
import { createFetchPlugin } from "./fetch-plugin.ts";
import { openMirror } from "./mirror.setup.ts";
import { ACCESS_LEVELS, type AccessLevel } from "./plugins-access.ts";
import { transformationConfigRoutes } from "./transformation-configs.routes.ts";
import { createTransformationConfigs } from "./transformation-configs.ts";
import { createTransformationTrials } from "./transformation-trials.ts";
import { transformationRoutes } from "./transformations.routes.ts";
import { createTransformations } from "./transformations.ts";
import { createTryTransformation } from "./try-transformation.ts";

/** The answer to a request: status and parsed body. */
export interface Answer {
  readonly status: number;
  readonly headers: Readonly<Record<string, unknown>>;
  // biome-ignore lint/suspicious/noExplicitAny: tests look into answers of every shape
  readonly body: any;
  readonly text: string;
}

/** An organization with a project and the key of a member. */
export interface Tenant {
  readonly organizationId: string;
  readonly projectId: number;
  readonly key: string;
}

/** The management of transformations over a fresh database, for two organizations, with a mirror. */
export async function openTransformationsApi(accessLevel: AccessLevel = "root") {
  const database = await openTemporarySqlite();
  const mirror = await openMirror();
  const sandbox = new QuickJsSandbox();
  const counts = { compiled: 0 };
  const accounts = createAccountStore(database);
  const clock = { now: new Date("2026-03-01T10:00:00.123Z") };
  const now = () => clock.now;
  const firstBoot = await bootstrap({
    accounts,
    given: { projectKey: null, personalKey: null, adminEmail: null, adminPassword: null },
    now: now(),
    randomBytes,
    notify: () => {},
  });
  if (!firstBoot) throw new Error("the database was not empty");

  const store = createTransformationStore(database);
  const configStore = createTransformationConfigStore(database);
  const activityLog = createActivityLog(database);
  const records = createTransformationRecords(database);
  const jobs = createTransformationJobs(database);
  const fetchPlugin = createFetchPlugin({
    request: (url, options) => requestGuarded(url, { ...options, isAllowed: () => true }),
    archives: createArchiveReader(),
    catalogue: readCatalogue,
    sources: {
      githubUrl: mirror.url,
      githubApiUrl: `${mirror.url}/api`,
      gitlabUrl: mirror.url,
      npmUrl: mirror.url,
      folder: null,
    },
  });
  const changedProjects: number[] = [];
  const onChanged = async (projectId: number) => {
    changedProjects.push(projectId);
  };
  const transformations = createTransformations({
    store,
    configs: configStore,
    accounts,
    sandbox: {
      compile: (files) => {
        counts.compiled++;
        return sandbox.compile(files);
      },
    },
    fetchPlugin,
    catalogue: readCatalogue,
    hosts: { githubUrl: mirror.url, gitlabUrl: mirror.url },
    accessLevel,
    onChanged,
    clock: now,
  });
  const configs = createTransformationConfigs({
    store: configStore,
    transformations: store,
    accounts,
    accessLevel,
    onChanged,
    // Nothing runs here.
    atWork: { tryStart: async () => {}, startProblem: () => null },
    clock: now,
  });
  const storedEvents: StoredEvent[] = [];
  const siteUrl = "https://hedgerow.test";
  const trials = createTransformationTrials({
    accessLevel,
    configs,
    configStore,
    transformations: store,
    tryTransformation: createTryTransformation({ sandbox, locate: async () => null, siteUrl }),
    events: {
      find: async ({ limit }) => ({
        found: storedEvents.slice(0, limit).map((event) => ({ event, person: null })),
        hasMore: false,
        count: null,
      }),
    },
    geoIp: { lookup: () => ({}) },
    siteUrl,
    newUuid: randomUUID,
    clock: now,
  });

  const app = createApp({ logger: pino({ level: "silent" }) });
  const { authenticate } = createAuthentication({ accounts, now });
  managementApi(app, authenticate, (management) => {
    accountRoutes(management, {
      accounts,
      now,
      randomBytes,
      onProject: () => {},
      projectsWithEvents: async () => new Set(),
      groupTypes: async () => [],
      pluginsAccessLevel: ACCESS_LEVELS[accessLevel],
    });
    transformationRoutes(management, { transformations, activityLog, accounts });
    transformationConfigRoutes(management, {
      configs,
      trials,
      records,
      jobs,
      activityLog,
      accounts,
      clock: now,
    });
  });
  await app.ready();

  const home: Tenant = {
    organizationId: firstBoot.project.organizationId,
    projectId: firstBoot.project.id,
    key: firstBoot.personalKey,
  };

  const newTenant = async (name = "Others"): Promise<Tenant> => {
    const uuid = randomUUID();
    const organization = await accounts.createOrganization(
      { id: uuid, name, slug: uuid },
      clock.now,
    );
    const project = await accounts.createProject(
      {
        uuid,
        organizationId: organization.id,
        name: "P",
        apiToken: `phc_${uuid}`,
        secretApiToken: `phs_${uuid}`,
        timeZone: "UTC",
      },
      clock.now,
    );
    if (typeof project === "string") throw new Error(project);
    const user = await accounts.createUser(
      {
        uuid,
        distinctId: uuid,
        email: `${uuid}@example.org`,
        passwordHash: "hash",
        firstName: "Bob",
        lastName: "",
        currentOrganizationId: organization.id,
        currentProjectId: project.id,
      },
      clock.now,
    );
    if (typeof user === "string") throw new Error(user);
    await accounts.addMember(organization.id, user.id, 15);
    const { value } = await createPersonalKey({ accounts, now, randomBytes }, user, {
      label: "theirs",
      scopes: ["*"],
      scopedProjects: [],
      scopedOrganizations: [],
    });
    return { organizationId: organization.id, projectId: project.id, key: value };
  };

  const send = async (
    method: "GET" | "POST" | "PATCH" | "PUT" | "DELETE",
    url: string,
    payload?: object | string | Buffer,
    { key = home.key, headers = {} }: { key?: string; headers?: Record<string, string> } = {},
  ): Promise<Answer> => {
    const response = await app.inject({
      method,
      url,
      headers: {
        authorization: `Bearer ${key}`,
        ...(payload !== undefined && { "content-type": "application/json" }),
        ...headers,
      },
      ...(payload !== undefined && { payload }),
    });
    const isJson = String(response.headers["content-type"]).startsWith("application/json");
    return {
      status: response.statusCode,
      headers: response.headers,
      body: isJson && response.body !== "" ? JSON.parse(response.body) : undefined,
      text: response.body,
    };
  };

  return {
    home,
    newTenant,
    send,
    /** How many sources were compiled to be kept. */
    counts,
    mirror,
    clock,
    configs,
    store,
    configStore,
    records,
    jobs,
    storedEvents,
    /** Projects that were told of changes, in their order. */
    changedProjects,
    /** A key of the first user with some scopes. */
    keyWith: async (...scopes: Scope[]) => {
      const made = await createPersonalKey({ accounts, now, randomBytes }, firstBoot.admin, {
        label: "some",
        scopes,
        scopedProjects: [],
        scopedOrganizations: [],
      });
      return made.value;
    },
    close: async () => {
      await app.close();
      await sandbox.close();
      await mirror.close();
      await database.close();
    },
  };
}
