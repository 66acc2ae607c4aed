import { randomBytes } from "node:crypto";
import { accountRoutes } from "../accounts/accounts.routes.ts";
import { activityRoutes } from "../activity/activity.routes.ts";
import type { App } from "../http/app.ts";
import { ACCESS_LEVELS } from "../transformations/plugins-access.ts";
import type { Parts } from "./parts.ts";

/** Organizations, projects, users and keys, and who changed what. */
export function manageAccounts(management: App, parts: Parts): void {
  const { config, clock, accounts, projects, activityLog, refreshFlags, events, persons } = parts;
  accountRoutes(management, {
    accounts,
    now: clock,
    randomBytes,
    onProject: async ({ project }) => {
      projects.forget();
      await refreshFlags(project.id);
    },
    projectsWithEvents: events.hasEvents,
    groupTypes: (projectId) => persons.groupTypes(projectId),
    pluginsAccessLevel: ACCESS_LEVELS[config.pluginsAccess],
  });
  activityRoutes(management, { activityLog, accounts });
}
