import type { App } from "../http/app.ts";
import { organizationRoutes } from "./organizations.routes.ts";
import { personalKeyRoutes } from "./personal-keys.routes.ts";
import { type ProjectRouteDeps, projectRoutes } from "./projects.routes.ts";
import { userRoutes } from "./users.routes.ts";

/** Projects, organizations, the caller and their keys (posthog-api 1.5 and 3). */
export function accountRoutes(app: App, deps: ProjectRouteDeps): void {
  projectRoutes(app, deps);
  organizationRoutes(app, deps);
  userRoutes(app, deps);
  personalKeyRoutes(app, deps);
}
