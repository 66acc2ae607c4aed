import type { App } from "../http/app.ts";
import { Refusal } from "../http/errors.ts";
import { access, callerOf } from "../http/management-api.ts";
import { currentProject } from "./authenticate.ts";
import { organizationAnswer } from "./organizations.routes.ts";
import { wireOrganizationBasic } from "./organizations.schemas.ts";
import { basicProjects, type ProjectRouteDeps } from "./projects.routes.ts";
import { UserDetail, wireUser } from "./users.schemas.ts";

/** The caller's own record, as `@me` or by its UUID (posthog-api 3.3). */
export function userRoutes(app: App, deps: ProjectRouteDeps): void {
  app.get(
    "/api/users/:uuid",
    {
      ...access("user:read", "user"),
      schema: {
        tags: ["users"],
        summary: "Retrieve the caller (`@me`)",
        response: { 200: UserDetail },
      },
    },
    async (request) => {
      const { user, memberships } = callerOf(request);
      const { uuid } = request.params as { uuid?: string };
      if (uuid !== "@me" && uuid !== user.uuid) {
        throw new Refusal(
          "permission_denied",
          "You do not have permission to perform this action.",
        );
      }
      const project = await currentProject(deps.accounts, user);
      const current = memberships.find(
        ({ organization: { id } }) => id === user.currentOrganizationId,
      );
      const [team = null] = await basicProjects(deps, project ? [project] : []);
      return wireUser(user, {
        team,
        organization: current ? await organizationAnswer(deps, current) : null,
        organizations: memberships.map(wireOrganizationBasic),
      });
    },
  );
}
