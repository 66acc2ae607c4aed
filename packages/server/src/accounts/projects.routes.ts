import type { GroupType } from "@hedgerow/core/flags/flag";
import type { FastifyRequest } from "fastify";
import { type Static, Type } from "typebox";
import type { App } from "../http/app.ts";
import { Refusal } from "../http/errors.ts";
import {
  access,
  type Caller,
  callerOf,
  organizationOf,
  projectOf,
} from "../http/management-api.ts";
import { ListOf, listAnswer, PageQuery, pageOf } from "../http/pagination.ts";
import { readId } from "../http/path-id.ts";
import type { Membership, Project } from "./account-store.ts";
import { isOpenTo } from "./personal-keys.ts";
import {
  CreateProjectBody,
  PatchProjectBody,
  ProjectBasic,
  ProjectDetail,
  projectChangeOf,
  projectDraftOf,
  wireProject,
  wireProjectBasic,
} from "./projects.schemas.ts";
import {
  changeProject,
  createProject,
  deleteProject,
  dropSecretKeyBackup,
  type ProjectDeps,
  resetProjectKey,
  rotateSecretKey,
} from "./projects.ts";
import { grants } from "./scopes.ts";

export interface ProjectRouteDeps extends ProjectDeps {
  /** Those of some projects that have stored events. */
  readonly projectsWithEvents: (projectIds: readonly number[]) => Promise<ReadonlySet<number>>;
  readonly groupTypes: (projectId: number) => Promise<readonly GroupType[]>;
  /** What organizations may do with transformations, as PostHog counts it (posthog-api 1.4). */
  readonly pluginsAccessLevel: number;
}

const tags = ["projects"];
const PageParameters = Type.Object(PageQuery);

/** Projects on their own and as Terraform addresses them, within their organization (posthog-api 3.1). */
export function projectRoutes(app: App, deps: ProjectRouteDeps): void {
  const { accounts } = deps;

  async function detail(caller: Caller, project: Project, membership: Membership | null) {
    return wireProject(project, {
      hasEvents: (await deps.projectsWithEvents([project.id])).has(project.id),
      groupTypes: await deps.groupTypes(project.id),
      membership,
      showsSecretKey: grants(caller.key.scopes, "feature_flag:read"),
    });
  }

  async function page(request: FastifyRequest, projects: readonly Project[]) {
    const { limit, offset } = pageOf(request);
    const results = await basicProjects(deps, projects.slice(offset, offset + limit));
    return listAnswer(request, { limit, offset }, { count: projects.length, results });
  }

  /** The project of `:id` below an organization, which must be its own. */
  async function ownProject(request: FastifyRequest): Promise<Project> {
    const id = readId((request.params as { id?: string }).id);
    const project = id && (await accounts.project(id));
    if (project && project.organizationId === organizationOf(request).organization.id) {
      return project;
    }
    throw new Refusal("not_found", "Project not found.");
  }

  app.get(
    "/api/projects",
    {
      ...access("project:read", "user"),
      schema: {
        tags,
        summary: "List the projects of all organizations of the caller",
        querystring: PageParameters,
        response: { 200: ListOf(ProjectBasic) },
      },
    },
    async (request) => {
      const { key, memberships } = callerOf(request);
      const open = memberships.filter(({ organization: { id } }) => isOpenTo(key, id));
      const projects = await Promise.all(
        open.map(({ organization }) => accounts.projectsOf(organization.id)),
      );
      return page(
        request,
        projects.flat().toSorted((one, other) => one.id - other.id),
      );
    },
  );

  app.post(
    "/api/projects",
    {
      ...access("project:write", "user"),
      schema: {
        tags,
        summary: "Create a project in the caller's current organization",
        body: CreateProjectBody,
        response: { 201: ProjectDetail },
      },
    },
    async (request, reply) => {
      const caller = callerOf(request);
      const { key, user, memberships } = caller;
      const membership = memberships.find(
        ({ organization: { id } }) => id === user.currentOrganizationId && isOpenTo(key, id),
      );
      if (!membership) {
        throw new Refusal(
          "permission_denied",
          `API key does not have access to the requested organization: ID ${user.currentOrganizationId}.`,
        );
      }
      const project = await createProject(deps, membership, projectDraftOf(request.body));
      return reply.code(201).send(await detail(caller, project, membership));
    },
  );

  app.get(
    "/api/projects/:project_id",
    {
      ...access("project:read"),
      schema: { tags, summary: "Retrieve a project", response: { 200: ProjectDetail } },
    },
    async (request) => {
      const caller = callerOf(request);
      return detail(caller, projectOf(request), caller.membership);
    },
  );

  app.patch(
    "/api/projects/:project_id",
    {
      ...access("project:write"),
      schema: {
        tags,
        summary: "Change a project",
        body: PatchProjectBody,
        response: { 200: ProjectDetail },
      },
    },
    async (request) => {
      const caller = callerOf(request);
      const change = projectChangeOf(request.body);
      const project = await changeProject(deps, projectOf(request).id, change);
      return detail(caller, project, caller.membership);
    },
  );

  app.patch(
    "/api/projects/:project_id/reset_token",
    {
      ...access("project:write"),
      schema: {
        tags,
        summary: "Give a project a new public key",
        response: { 200: ProjectDetail },
      },
    },
    async (request) => {
      const caller = callerOf(request);
      const { membership } = caller;
      const project = await resetProjectKey(deps, { project: projectOf(request), membership });
      return detail(caller, project, membership);
    },
  );

  for (const [action, summary, run] of [
    [
      "rotate_secret_token",
      "Give a project a new secret key, beside the one before",
      rotateSecretKey,
    ],
    ["delete_secret_token_backup", "Drop the secret key before the last one", dropSecretKeyBackup],
  ] as const) {
    app.patch(
      `/api/projects/:project_id/${action}`,
      {
        ...access("project:write"),
        schema: { tags, summary, response: { 200: ProjectDetail } },
      },
      async (request) => {
        const caller = callerOf(request);
        const { membership } = caller;
        const project = await run(deps, { project: projectOf(request), membership });
        return detail(caller, project, membership);
      },
    );
  }

  app.delete(
    "/api/projects/:project_id",
    {
      ...access("project:write"),
      schema: { tags, summary: "Delete a project", response: { 204: Type.Null() } },
    },
    async (request, reply) => {
      const { membership } = callerOf(request);
      await deleteProject(deps, { project: projectOf(request), membership });
      return reply.code(204).send(null);
    },
  );

  app.get(
    "/api/organizations/:organization_id/projects",
    {
      ...access("project:read", "organization"),
      schema: {
        tags,
        summary: "List the projects of an organization",
        querystring: PageParameters,
        response: { 200: ListOf(ProjectBasic) },
      },
    },
    async (request) => {
      return page(request, await accounts.projectsOf(organizationOf(request).organization.id));
    },
  );

  app.post(
    "/api/organizations/:organization_id/projects",
    {
      ...access("project:write", "organization"),
      schema: {
        tags,
        summary: "Create a project in an organization",
        body: CreateProjectBody,
        response: { 201: ProjectDetail },
      },
    },
    async (request, reply) => {
      const membership = organizationOf(request);
      const project = await createProject(deps, membership, projectDraftOf(request.body));
      return reply.code(201).send(await detail(callerOf(request), project, membership));
    },
  );

  app.get(
    "/api/organizations/:organization_id/projects/:id",
    {
      ...access("project:read", "organization"),
      schema: {
        tags,
        summary: "Retrieve a project of an organization",
        response: { 200: ProjectDetail },
      },
    },
    async (request) => {
      return detail(callerOf(request), await ownProject(request), organizationOf(request));
    },
  );

  app.patch(
    "/api/organizations/:organization_id/projects/:id",
    {
      ...access("project:write", "organization"),
      schema: {
        tags,
        summary: "Change a project of an organization",
        body: PatchProjectBody,
        response: { 200: ProjectDetail },
      },
    },
    async (request) => {
      const { id } = await ownProject(request);
      const project = await changeProject(deps, id, projectChangeOf(request.body));
      return detail(callerOf(request), project, organizationOf(request));
    },
  );

  app.delete(
    "/api/organizations/:organization_id/projects/:id",
    {
      ...access("project:write", "organization"),
      schema: {
        tags,
        summary: "Delete a project of an organization",
        response: { 204: Type.Null() },
      },
    },
    async (request, reply) => {
      const membership = organizationOf(request);
      await deleteProject(deps, { project: await ownProject(request), membership });
      return reply.code(204).send(null);
    },
  );
}

/** Projects in their short form. */
export async function basicProjects(
  { projectsWithEvents }: Pick<ProjectRouteDeps, "projectsWithEvents">,
  projects: readonly Project[],
): Promise<Static<typeof ProjectBasic>[]> {
  const withEvents = await projectsWithEvents(projects.map(({ id }) => id));
  return projects.map((project) =>
    wireProjectBasic(project, { hasEvents: withEvents.has(project.id) }),
  );
}
