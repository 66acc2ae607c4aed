import type { App } from "../http/app.ts";
import { managementApi } from "../http/management-api.ts";
import { manageAccounts } from "./manage-accounts.ts";
import { manageEvents } from "./manage-events.ts";
import { manageExperiments } from "./manage-experiments.ts";
import { manageFlags } from "./manage-flags.ts";
import { managePersons } from "./manage-persons.ts";
import { manageTransformations } from "./manage-transformations.ts";
import type { Parts } from "./parts.ts";

/** Opens the routes that take a personal key. */
export function openManagementRoutes(app: App, parts: Parts): void {
  managementApi(app, parts.authenticate, (management) => {
    manageAccounts(management, parts);
    const managedFlags = manageFlags(management, parts);
    manageExperiments(management, parts, managedFlags);
    managePersons(management, parts);
    manageEvents(management, parts, managedFlags);
    manageTransformations(management, parts);
  });
}
