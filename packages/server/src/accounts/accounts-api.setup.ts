import { randomBytes } from "node:crypto";
import type { GroupType } from "@hedgerow/core/flags/flag";
import type { InjectOptions, LightMyRequestResponse } from "fastify";
import { pino } from "pino";
import { createAccountStore } from "../engines/sql/account-store.ts";
import { openTemporarySqlite } from "../engines/sql/sql-engines.contract.ts";
import { type App, createApp } from "../http/app.ts";
import { managementApi } from "../http/management-api.ts";
import { publicApi } from "../http/public-api.ts";
import type { AccountStore, Organization, Project } from "./account-store.ts";
import { accountRoutes } from "./accounts.routes.ts";
import { createAuthentication } from "./authenticate.ts";
import { bootstrap, type FirstBoot } from "./bootstrap.ts";
import { createPersonalKey, type KeyRequest } from "./personal-keys.ts";
import type { ProjectEvent } from "./projects.ts";

/** The accounts part of the service over a database of its own, with a foreign organization in it. */
export interface AccountsApi {
  readonly app: App;
  readonly accounts: AccountStore;
  readonly firstBoot: FirstBoot;
  /** An organization that the admin does not belong to, and its project. */
  readonly foreign: { readonly organization: Organization; readonly project: Project };
  readonly projectEvents: ProjectEvent[];
  readonly groupTypes: Map<number, readonly GroupType[]>;
  readonly projectsWithEvents: Set<number>;
  /** The clock of the service, to be moved by tests. */
  readonly clock: { now: Date };
  /** The text of a new key of the admin. */
  keyWith(request: Partial<KeyRequest>): Promise<string>;
  /** A request by the holder of a key (the first one unless given; `null` for none). */
  call(
    method: NonNullable<InjectOptions["method"]>,
    url: string,
    options?: { key?: string | null; body?: unknown; headers?: Record<string, string> },
  ): Promise<LightMyRequestResponse>;
  close(): Promise<void>;
}

export async function openAccountsApi(
  register: (app: App) => void = () => {},
): Promise<AccountsApi> {
  const database = await openTemporarySqlite();
  const accounts = createAccountStore(database);
  const clock = { now: new Date("2026-03-01T10:00:00.123Z") };
  const now = () => clock.now;
  const firstBoot = await bootstrap({
    accounts,
    given: { projectKey: null, personalKey: null, adminEmail: null, adminPassword: null },
    now: clock.now,
    randomBytes,
    notify: () => {},
  });
  if (!firstBoot) throw new Error("the database was not empty");
  const organization = await accounts.createOrganization(
    { id: "99999999-9999-4999-8999-999999999999", name: "Others", slug: "others" },
    new Date(clock.now.getTime() + 1),
  );
  const project = await accounts.createProject(
    {
      uuid: "99999999-9999-4999-8999-999999999998",
      organizationId: organization.id,
      name: "Theirs",
      apiToken: "phc_theirs",
      secretApiToken: "phs_theirs",
      timeZone: "UTC",
    },
    clock.now,
  );
  if (project === "duplicate-token") throw new Error(project);
  const projectEvents: ProjectEvent[] = [];
  const groupTypes = new Map<number, readonly GroupType[]>();
  const projectsWithEvents = new Set<number>();
  const app = createApp({ logger: pino({ level: "silent" }) });
  const authentication = createAuthentication({ accounts, now });
  managementApi(app, authentication.authenticate, (management) => {
    accountRoutes(management, {
      accounts,
      now,
      randomBytes,
      onProject: (event) => {
        projectEvents.push(event);
      },
      projectsWithEvents: async () => projectsWithEvents,
      groupTypes: async (id) => groupTypes.get(id) ?? [],
      pluginsAccessLevel: 9,
    });
    register(management);
  });
  publicApi(app, (open) => {
    const answer = async (
      request: Parameters<typeof authentication.authenticateForDefinitions>[0],
    ) => ({
      project: (await authentication.authenticateForDefinitions(request)).id,
    });
    open.get("/definitions", answer);
    open.get("/api/projects/:project_id/definitions", answer);
  });
  await app.ready();
  return {
    app,
    accounts,
    firstBoot,
    foreign: { organization, project },
    projectEvents,
    groupTypes,
    projectsWithEvents,
    clock,
    async keyWith(request) {
      const { value } = await createPersonalKey({ accounts, now, randomBytes }, firstBoot.admin, {
        label: "test",
        scopes: ["*"],
        scopedProjects: [],
        scopedOrganizations: [],
        ...request,
      });
      return value;
    },
    async call(method, url, { key = firstBoot.personalKey, body, headers = {} } = {}) {
      return app.inject({
        method,
        url,
        headers: { ...(key !== null && { authorization: `Bearer ${key}` }), ...headers },
        ...(body !== undefined && { payload: body as string | object }),
      });
    },
    async close() {
      await app.close();
      await database.close();
    },
  };
}
