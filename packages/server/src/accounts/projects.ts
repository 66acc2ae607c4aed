import { v4 } from "uuid";
import { Refusal } from "../http/errors.ts";
import type { AccountStore, Membership, Project } from "./account-store.ts";
import { generateKey, type RandomBytes } from "./keys.ts";

/** What happened to a project; whoever remembers projects forgets them on it. */
export interface ProjectEvent {
  readonly kind: "created" | "changed" | "deleted";
  readonly project: Project;
}

export interface ProjectDeps {
  readonly accounts: AccountStore;
  readonly now: () => Date;
  readonly randomBytes: RandomBytes;
  /** Called once the store has the change and before the caller is answered. */
  readonly onProject: (event: ProjectEvent) => void | Promise<void>;
}

const ADMIN = 8;

/** Creates a project with keys of its own. Throws a 403 {@link Refusal} for plain members. */
export async function createProject(
  deps: ProjectDeps,
  membership: Membership,
  draft: { readonly name: string; readonly timeZone: string },
): Promise<Project> {
  if (membership.level < ADMIN) {
    throw new Refusal("permission_denied", "Your organization access level is insufficient.");
  }
  const { accounts, now, randomBytes, onProject } = deps;
  const project = await accounts.createProject(
    {
      uuid: v4({ random: randomBytes(16) }),
      organizationId: membership.organization.id,
      name: draft.name,
      timeZone: draft.timeZone,
      apiToken: generateKey("phc_", randomBytes),
      secretApiToken: generateKey("phs_", randomBytes),
    },
    now(),
  );
  if (project === "duplicate-token") throw new Error("two random keys were the same");
  await onProject({ kind: "created", project });
  return project;
}

/** Changes a project, and tells whoever remembers it. */
export async function changeProject(
  deps: ProjectDeps,
  projectId: number,
  change: Parameters<AccountStore["updateProject"]>[1],
): Promise<Project> {
  const project = await deps.accounts.updateProject(projectId, change, deps.now());
  if (!project) throw new Refusal("not_found", "Project not found.");
  await deps.onProject({ kind: "changed", project });
  return project;
}

/** Gives a project a new public key; the old one is refused from now on. Admins only. */
export async function resetProjectKey(
  deps: ProjectDeps,
  { project, membership }: { project: Project; membership: Membership | null },
): Promise<Project> {
  requireProjectAdmin(membership);
  return changeProject(deps, project.id, { apiToken: generateKey("phc_", deps.randomBytes) });
}

/**
 * Gives a project a new secret key. The one before goes on to open the project, as its backup, until
 * it is dropped or the key is changed once more. Admins only.
 */
export async function rotateSecretKey(
  deps: ProjectDeps,
  { project, membership }: { project: Project; membership: Membership | null },
): Promise<Project> {
  requireProjectAdmin(membership);
  return changeProject(deps, project.id, { secretApiToken: generateKey("phs_", deps.randomBytes) });
}

/** Has the secret key before a rotation open nothing any more. Admins only. */
export async function dropSecretKeyBackup(
  deps: ProjectDeps,
  { project, membership }: { project: Project; membership: Membership | null },
): Promise<Project> {
  requireProjectAdmin(membership);
  return changeProject(deps, project.id, { secretApiTokenBackup: null });
}

/** Deletes a project; its number is never given again. Admins only. */
export async function deleteProject(
  deps: ProjectDeps,
  { project, membership }: { project: Project; membership: Membership | null },
): Promise<void> {
  requireProjectAdmin(membership);
  if (!(await deps.accounts.deleteProject(project.id))) {
    throw new Refusal("not_found", "Project not found.");
  }
  await deps.onProject({ kind: "deleted", project });
}

function requireProjectAdmin(membership: Membership | null): void {
  if (membership && membership.level >= ADMIN) return;
  throw new Refusal("permission_denied", "You don't have sufficient permissions in the project.");
}
