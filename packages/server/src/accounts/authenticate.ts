import { isJsonObject } from "@hedgerow/core/json";
import type { FastifyRequest } from "fastify";
import { findCredential, isSecretProjectKey } from "../http/credentials.ts";
import { Refusal } from "../http/errors.ts";
import type { Access, Authenticate, Caller } from "../http/management-api.ts";
import { readId } from "../http/path-id.ts";
import { queryText } from "../http/query-text.ts";
import { isUuid } from "../http/wire-uuid.ts";
import type { AccountStore, Membership, PersonalKey, Project, User } from "./account-store.ts";
import { hashKey } from "./keys.ts";
import { isOpenTo } from "./personal-keys.ts";
import { grants } from "./scopes.ts";

/** The last use of a key is recorded at most this often (posthog-api 1.2). */
const RECORD_USE_EVERY_MS = 60 * 60 * 1000;

export interface Authentication {
  /** For management routes: a personal key, checked as posthog-api 1.2 to 1.4 tell. */
  readonly authenticate: Authenticate;
  /**
   * For reading flag definitions: a personal key with `feature_flag:read`, or the project's secret
   * key. The project is that of the public key in the query (`token`, `api_key`), else the one
   * named in the path (`:project_id`), else the current one of the key's user (posthog-api 0, 4.6).
   * Throws a 401, 403 or 404 {@link Refusal}.
   */
  readonly authenticateForDefinitions: (request: FastifyRequest) => Promise<Project>;
}

/** Checks credentials against the stored accounts. */
export function createAuthentication(options: {
  accounts: AccountStore;
  now: () => Date;
}): Authentication {
  const { accounts, now } = options;

  async function holderOf(request: FastifyRequest): Promise<Holder> {
    const found = findCredential(request, "personal_api_key");
    if (!found) throw unauthenticated();
    const key = await accounts.personalKeyByHash(hashKey(found.key));
    const user = key && (await accounts.user(key.userId));
    if (!key || !user?.isActive) {
      throw new Refusal(
        "authentication_failed",
        `Personal API key found in request ${found.source} is invalid.`,
        CHALLENGE,
      );
    }
    await recordUse(request, key);
    return { key, user, memberships: await accounts.membershipsOf(user.id) };
  }

  async function recordUse(request: FastifyRequest, key: PersonalKey): Promise<void> {
    const at = now();
    if (key.lastUsedAt && at.getTime() - key.lastUsedAt.getTime() < RECORD_USE_EVERY_MS) return;
    try {
      await accounts.recordKeyUse(key.id, at);
    } catch (error) {
      // A full disk must not close the door to those who come to read.
      request.log.warn({ err: error, keyId: key.id }, "the use of a key could not be recorded");
    }
  }

  async function projectOnPath(request: FastifyRequest, { user }: Holder): Promise<Project> {
    const named = pathParameter(request, "project_id");
    const id = readId(named);
    const project =
      named === "@current"
        ? await currentProject(accounts, user)
        : id && (await accounts.project(id));
    if (!project) throw new Refusal("not_found", "Project not found.");
    return project;
  }

  async function organizationOnPath(request: FastifyRequest, { user }: Holder): Promise<string> {
    const id = pathParameter(request, "organization_id");
    if (id === "@current") return user.currentOrganizationId;
    const organization = isUuid(id) ? await accounts.organization(id.toLowerCase()) : undefined;
    if (!organization) throw new Refusal("not_found", "Organization not found.");
    return organization.id;
  }

  async function authenticate(request: FastifyRequest, access: Access): Promise<Caller> {
    const holder = await holderOf(request);
    checkScope(holder.key, access);
    switch (access.on) {
      case "project": {
        const project = await projectOnPath(request, holder);
        return { ...holder, project, membership: checkProject(holder, project) };
      }
      case "organization": {
        const organizationId = await organizationOnPath(request, holder);
        const membership = checkOrganization(holder, organizationId);
        return { ...holder, project: null, membership };
      }
      case "user":
        checkUnnested(holder.key, access);
        return { ...holder, project: null, membership: null };
    }
  }

  async function authenticateForDefinitions(request: FastifyRequest): Promise<Project> {
    const token = projectTokenOf(request);
    const byToken = token === undefined ? undefined : await accounts.projectByApiToken(token);
    const secret = findCredential(request, "secret_api_key");
    const bySecret =
      secret && isSecretProjectKey(secret.key)
        ? await accounts.projectBySecretToken(secret.key)
        : undefined;
    if (bySecret) {
      if (token !== undefined && byToken?.id !== bySecret.id) throw incorrectCredentials();
      const named = hasPathParameter(request, "project_id")
        ? pathParameter(request, "project_id")
        : "@current";
      if (named !== "@current" && readId(named) !== bySecret.id) throw incorrectCredentials();
      return bySecret;
    }
    const holder = await holderOf(request);
    checkScope(holder.key, { scope: "feature_flag:read", on: "project" });
    if (token !== undefined && !byToken) throw incorrectCredentials();
    const project =
      byToken ??
      (hasPathParameter(request, "project_id")
        ? await projectOnPath(request, holder)
        : await currentProject(accounts, holder.user));
    if (!project) throw new Refusal("not_found", "Project not found.");
    checkProject(holder, project);
    return project;
  }

  return { authenticate, authenticateForDefinitions };
}

/** The project `@current` means: the user's own choice while it exists, else the first they can see. */
export async function currentProject(
  accounts: AccountStore,
  user: User,
): Promise<Project | undefined> {
  const chosen = await accounts.project(user.currentProjectId);
  if (chosen) return chosen;
  const [first] = await accounts.projectsOf(user.currentOrganizationId);
  return first;
}

/** A personal key, its user and where that user belongs. */
interface Holder {
  readonly key: PersonalKey;
  readonly user: User;
  readonly memberships: readonly Membership[];
}

const CHALLENGE = { headers: { "www-authenticate": "Bearer" } };

function unauthenticated(): Refusal {
  return new Refusal(
    "not_authenticated",
    "Authentication credentials were not provided.",
    CHALLENGE,
  );
}

function incorrectCredentials(): Refusal {
  return new Refusal("authentication_failed", "Incorrect authentication credentials.", CHALLENGE);
}

function checkScope(key: PersonalKey, { scope }: Access): void {
  if (scope === "any-key" || grants(key.scopes, scope)) return;
  throw new Refusal("permission_denied", `API key missing required scope '${scope}'`);
}

function checkProject({ key, memberships }: Holder, project: Project): Membership {
  if (key.scopedProjects.length > 0 && !key.scopedProjects.includes(project.id)) {
    throw new Refusal(
      "permission_denied",
      `API key does not have access to the requested project: ID ${project.id}.`,
    );
  }
  checkScopedOrganization(key, project.organizationId);
  const membership = memberships.find(({ organization: { id } }) => id === project.organizationId);
  if (membership) return membership;
  throw new Refusal("permission_denied", "You don't have access to the project.");
}

function checkOrganization({ key, memberships }: Holder, organizationId: string): Membership {
  refuseProjectScoped(key);
  checkScopedOrganization(key, organizationId);
  const membership = memberships.find(({ organization: { id } }) => id === organizationId);
  if (membership) return membership;
  throw new Refusal("permission_denied", "You do not have permission to perform this action.");
}

/** Lists over projects and organizations; what is about the user alone is open to every bound key. */
function checkUnnested(key: PersonalKey, { scope }: Access): void {
  if (scope === "any-key" || scope.startsWith("user:")) return;
  refuseProjectScoped(key);
}

function refuseProjectScoped(key: PersonalKey): void {
  if (key.scopedProjects.length === 0) return;
  throw new Refusal(
    "permission_denied",
    "API keys with scoped projects are only supported on project-based endpoints.",
  );
}

function checkScopedOrganization(key: PersonalKey, organizationId: string): void {
  if (isOpenTo(key, organizationId)) return;
  throw new Refusal(
    "permission_denied",
    `API key does not have access to the requested organization: ID ${organizationId}.`,
  );
}

function projectTokenOf(request: FastifyRequest): string | undefined {
  return queryText(request.query, "token") ?? queryText(request.query, "api_key");
}

function hasPathParameter(request: FastifyRequest, name: string): boolean {
  return isJsonObject(request.params) && Object.hasOwn(request.params, name);
}

function pathParameter(request: FastifyRequest, name: string): string {
  const value = (request.params as Record<string, string | undefined>)[name];
  if (value === undefined) throw new Error(`${request.routeOptions.url} has no :${name}`);
  return value;
}
