import pino from "pino";
import { activityRoutes } from "../activity/activity.routes.ts";
import { createAccountStore } from "../engines/sql/account-store.ts";
import { createActivityLog } from "../engines/sql/activity-log.ts";
import { createEventDefinitionStore } from "../engines/sql/event-definition-store.ts";
import { createFlagStore } from "../engines/sql/flag-store.ts";
import { plainPersonStore } from "../engines/sql/plain-person-store.setup.ts";
import { projectsAndUsers } from "../engines/sql/projects-and-users.setup.ts";
import { createPropertyDefinitionStore } from "../engines/sql/property-definition-store.ts";
import { createSightingStore } from "../engines/sql/sighting-store.ts";
import { openTemporarySqlite } from "../engines/sql/sql-engines.contract.ts";
import { sampleEvent } from "../events/event-log.contract.ts";
import type { EventFilter } from "../events/event-store.ts";
import { createApp } from "../http/app.ts";
import { Refusal } from "../http/errors.ts";
import { managementApi } from "../http/management-api.ts";
import { startDefinitionRecorder } from "./definition-recorder.ts";
import { eventDefinitionRoutes } from "./event-definitions.routes.ts";
import { createEventDefinitions } from "./event-definitions.ts";
import { cohortsUsingEvent, flagsUsingEvent } from "./event-uses.ts";
import { propertyDefinitionRoutes } from "./property-definitions.routes.ts";
import { createPropertyDefinitions } from "./property-definitions.ts";

export const NOW = new Date("2026-03-01T10:00:00.123Z");

/** The routes of definitions over a fresh embedded store, for one member of the organization. */
export async function openDefinitionsApi() {
  const database = await openTemporarySqlite();
  const accounts = createAccountStore(database);
  const { newProject, newUser } = await projectsAndUsers(database);
  const projectId = await newProject();
  const project = await accounts.project(projectId);
  const user = await accounts.user(await newUser());
  if (!project || !user) throw new Error("what was just made is gone");
  await accounts.addMember(project.organizationId, user.id, 1);
  const flagStore = createFlagStore(database);
  const newUuid = () => crypto.randomUUID();
  const clock = () => NOW;
  const throwFault = (error: unknown) => {
    throw error;
  };
  const counted: EventFilter[] = [];
  const recorder = await startDefinitionRecorder({
    sightings: createSightingStore(database, { newUuid }),
    events: { position: async () => 0, eventsAfter: async () => [] },
    persons: plainPersonStore(database),
    warnings: { note() {} },
    clock,
    reportFault: throwFault,
    flushEveryMs: 3_600_000,
  });
  const app = createApp({ logger: pino({ level: "silent" }) });
  managementApi(
    app,
    async (request) => {
      const { project_id: id } = request.params as { project_id?: string };
      const found = await accounts.project(Number(id));
      if (!found) throw new Refusal("not_found", "Project not found.");
      return { project: found, user, key: {}, memberships: [], membership: null } as never;
    },
    (management) => {
      activityRoutes(management, { activityLog: createActivityLog(database), accounts });
      eventDefinitionRoutes(management, {
        definitions: createEventDefinitions({
          store: createEventDefinitionStore(database, { newUuid }),
          recorder,
          accounts,
          events: {
            async count(filter) {
              counted.push(filter);
              return 7;
            },
          },
          definitionsOf: (id) => flagStore.definitions(id),
          uses: [cohortsUsingEvent, flagsUsingEvent],
          clock,
        }),
        accounts,
      });
      propertyDefinitionRoutes(management, {
        definitions: createPropertyDefinitions({
          store: createPropertyDefinitionStore(database),
          recorder,
          clock,
        }),
        accounts,
      });
    },
  );
  await app.ready();
  let position = 0;

  return {
    projectId,
    user,
    newProject,
    newUser,
    database,
    counted,
    /** Lets events come and be recorded. */
    async see(...events: Partial<Parameters<typeof sampleEvent>[0]>[]) {
      recorder.note(
        events.map((fields) => ({
          position: ++position,
          event: sampleEvent({ projectId, properties: {}, receivedAt: NOW, ...fields }),
        })),
      );
      await recorder.flush();
    },
    async send(
      method: "GET" | "POST" | "PATCH" | "PUT" | "DELETE",
      path: string,
      payload?: object,
      project = projectId,
    ) {
      const response = await app.inject({
        method,
        url: `/api/projects/${project}/${path}`,
        ...(payload === undefined ? {} : { payload }),
      });
      // biome-ignore lint/suspicious/noExplicitAny: tests look into answers of every shape
      const body: any = response.body === "" ? undefined : JSON.parse(response.body);
      return { status: response.statusCode, body };
    },
    async close() {
      await app.close();
      await recorder.close();
      await database.close();
    },
  };
}
