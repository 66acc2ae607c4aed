import type { FastifyRequest } from "fastify";
import type { Membership, PersonalKey, Project, User } from "../accounts/account-store.ts";
import type { Scope } from "../accounts/scopes.ts";
import { type App, withMethodsChecked } from "./app.ts";

/**
 * Who may call a management route; every route declares one (`...access("feature_flag:read")`), and
 * a test walks all routes to see that it does. `on` tells what the path is nested under: it
 * decides how scoped projects and organizations of a key are checked (posthog-api 1.4).
 */
export interface Access {
  readonly scope: Scope | "any-key";
  readonly on: "project" | "organization" | "user";
}

/** Route options that declare {@link Access}. */
export function access(scope: Scope | "any-key", on: Access["on"] = "project") {
  return { config: { access: { scope, on } satisfies Access } };
}

/** The authenticated caller of a management request. */
export interface Caller {
  readonly user: User;
  readonly key: PersonalKey;
  readonly memberships: readonly Membership[];
  /** Set on routes nested under a project. */
  readonly project: Project | null;
  /** Set on routes nested under an organization, and the project's one on project routes. */
  readonly membership: Membership | null;
}

/** Finds and checks the caller of a request; throws a 401, 403 or 404 {@link Refusal}. */
export type Authenticate = (request: FastifyRequest, access: Access) => Promise<Caller>;

const callers = new WeakMap<FastifyRequest, Caller>();

/** The caller of a management request, as `managementApi` found it. */
export function callerOf(request: FastifyRequest): Caller {
  const caller = callers.get(request);
  if (!caller) throw new Error("the route is not part of the management API");
  return caller;
}

/** The project a project-nested management request is about. */
export function projectOf(request: FastifyRequest): Project {
  const { project } = callerOf(request);
  if (!project) throw new Error("the route is not nested under a project");
  return project;
}

/** A scope of JSON routes for holders of personal keys. Credentials are checked before the body. */
export function managementApi(
  app: App,
  authenticate: Authenticate,
  register: (app: App) => void,
): void {
  app.register(async (scope) => {
    const management = scope as App;
    // After the body is parsed (a key may stand in it), before it is validated.
    management.addHook("preValidation", async (request) => {
      const { access } = request.routeOptions.config as { access?: Access };
      if (!access) throw new Error(`${request.routeOptions.url} declares no access`);
      callers.set(request, await authenticate(request, access));
    });
    withMethodsChecked(management, register);
  });
}
