import type { Bucketing } from "@hedgerow/core/flags/bucketing";
import { compileFlags } from "@hedgerow/core/flags/compile-flags";
import type { JsonObject } from "@hedgerow/core/json";
import { pino } from "pino";
import { v4, v7 } from "uuid";
import { createProjectsByToken } from "../accounts/projects-by-token.ts";
import { openGeoIp } from "../engines/mmdb-geoip/mmdb-geoip.ts";
import { createAccountStore } from "../engines/sql/account-store.ts";
import { createFlagStore } from "../engines/sql/flag-store.ts";
import { createPersonStore } from "../engines/sql/person-store.ts";
import { openTemporarySqlite } from "../engines/sql/sql-engines.contract.ts";
import { createPendingPersons } from "../events/pending-persons.ts";
import { createApp } from "../http/app.ts";
import { createBodyOpener } from "../http/body-opener.ts";
import { createLargeBodies } from "../http/large-bodies.ts";
import { publicApi } from "../http/public-api.ts";
import type { PersonStore } from "../persons/person-store.ts";
import { createCompiledFlags } from "./compiled-flags.ts";
import { decideRoutes } from "./decide.routes.ts";
import { someFlag } from "./flag-store.contract.ts";
import type { FlagRecord } from "./flag-store.ts";

export const TOKEN = "phc_decide_test";

/** Flag requests over HTTP on real stores: flags and persons on SQLite, places from the built-in file. */
export async function openDecideApi(
  options: { persons?: (real: PersonStore) => PersonStore; bucketing?: Bucketing } = {},
) {
  const database = await openTemporarySqlite();
  const accounts = createAccountStore(database);
  const now = new Date("2026-01-01T00:00:00Z");
  await accounts
    .createOrganization({ id: v4(), name: "Org", slug: "org" }, now)
    .then((organization) =>
      accounts.createProject(
        {
          uuid: v4(),
          organizationId: organization.id,
          name: "Project",
          apiToken: TOKEN,
          secretApiToken: "phs_decide_test",
          timeZone: "UTC",
        },
        now,
      ),
    );
  const faults: string[] = [];
  const reportFault = (_error: unknown, context: string) => faults.push(context);
  const flagStore = createFlagStore(database);
  const { bucketing } = options;
  const compiledFlags = createCompiledFlags({
    flagStore,
    compile: (definitions) => compileFlags(definitions, bucketing && { bucketing }),
    reportFault,
  });
  const stored = createPersonStore(database, {
    continuityFlagKeys: async (projectId) =>
      (await compiledFlags.get(projectId)).flagSet.continuityKeys,
    onGroupTypeAdded: (projectId) => compiledFlags.refresh(projectId),
    reportFault,
  });
  const persons = options.persons?.(stored) ?? stored;
  const pendingPersons = createPendingPersons({
    distinctIdsOf: persons.distinctIdsOf,
    maxWaitMs: 60_000,
  });
  const geoIp = await openGeoIp({ path: null, reportFault });
  const app = createApp({ logger: pino({ level: "silent" }) });
  const opener = createBodyOpener();
  publicApi(app, (open) =>
    decideRoutes(open, {
      largeBodies: createLargeBodies({ opener }),
      projects: createProjectsByToken({ accounts, now: Date.now }),
      compiledFlags,
      persons,
      pendingPersons,
      geoIp,
      clock: () => new Date(),
      newUuid: v4,
      reportFault,
    }),
  );
  let position = 0;

  return {
    app,
    faults,
    pendingPersons,
    persons: stored,
    async createFlag(key: string, filters: JsonObject, more: Partial<FlagRecord> = {}) {
      const { revision } = await flagStore.definitions(1);
      const created = await flagStore.create(
        1,
        someFlag({ key, filters, createdAt: now, ...more }),
        { authorId: null, now, ifRevision: revision },
      );
      if (typeof created === "string") throw new Error(created);
      await compiledFlags.refresh(1);
      return created;
    },
    /** A captured event, as the log would hand it on. */
    event(event: string, distinctId: string, properties: JsonObject) {
      const at = new Date();
      return {
        position: ++position,
        event: {
          uuid: v7(),
          projectId: 1,
          event,
          distinctId,
          properties,
          timestamp: at,
          clientTimestamp: null,
          receivedAt: at,
        },
      };
    },
    async ask(
      body: object,
      { url = "/flags?v=2", headers = {} }: { url?: string; headers?: Record<string, string> } = {},
    ) {
      return app.inject({
        method: "POST",
        url,
        headers,
        payload: JSON.stringify({ token: TOKEN, ...body }),
      });
    },
    close: async () => {
      await app.close();
      await opener.close();
      await database.close();
    },
  };
}
