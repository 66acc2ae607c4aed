import { type Static, Type } from "typebox";
import type { App } from "../http/app.ts";
import { access, callerOf, organizationOf } from "../http/management-api.ts";
import { ListOf, listAnswer, PageQuery, pageOf } from "../http/pagination.ts";
import type { Membership } from "./account-store.ts";
import {
  OrganizationBasic,
  OrganizationDetail,
  wireOrganization,
  wireOrganizationBasic,
} from "./organizations.schemas.ts";
import { isOpenTo } from "./personal-keys.ts";
import { basicProjects, type ProjectRouteDeps } from "./projects.routes.ts";

const tags = ["organizations"];

/** Organizations (posthog-api 3.2). */
export function organizationRoutes(app: App, deps: ProjectRouteDeps): void {
  app.get(
    "/api/organizations",
    {
      ...access("organization:read", "user"),
      schema: {
        tags,
        summary: "List the organizations of the caller",
        querystring: Type.Object(PageQuery),
        response: { 200: ListOf(OrganizationBasic) },
      },
    },
    async (request) => {
      const page = pageOf(request);
      const { key, memberships } = callerOf(request);
      const open = memberships.filter(({ organization: { id } }) => isOpenTo(key, id));
      const results = open.slice(page.offset, page.offset + page.limit).map(wireOrganizationBasic);
      return listAnswer(request, page, { count: open.length, results });
    },
  );

  app.get(
    "/api/organizations/:organization_id",
    {
      ...access("organization:read", "organization"),
      schema: { tags, summary: "Retrieve an organization", response: { 200: OrganizationDetail } },
    },
    async (request) => organizationAnswer(deps, organizationOf(request)),
  );
}

/** The full form of an organization as one of its members sees it. */
export async function organizationAnswer(
  deps: ProjectRouteDeps,
  membership: Membership,
): Promise<Static<typeof OrganizationDetail>> {
  const { id } = membership.organization;
  return wireOrganization(membership, {
    projects: await basicProjects(deps, await deps.accounts.projectsOf(id)),
    memberCount: await deps.accounts.memberCount(id),
    pluginsAccessLevel: deps.pluginsAccessLevel,
  });
}
