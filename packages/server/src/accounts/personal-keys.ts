import { v4 } from "uuid";
import { Refusal } from "../http/errors.ts";
import { isUuid } from "../http/wire-uuid.ts";
import type { AccountStore, PersonalKey, User } from "./account-store.ts";
import { generateKey, hashKey, maskKey, type RandomBytes } from "./keys.ts";
import { grants, isScope, type Scope } from "./scopes.ts";

export interface KeyRequest {
  readonly label: string;
  readonly scopes: readonly string[];
  /** Ids of the only projects the key shall open; empty for all of the user's. */
  readonly scopedProjects: readonly number[];
  /** UUIDs of the only organizations the key shall open; empty for all of the user's. */
  readonly scopedOrganizations: readonly string[];
}

export interface KeyDeps {
  readonly accounts: AccountStore;
  readonly now: () => Date;
  readonly randomBytes: RandomBytes;
}

/** Longest label, in characters (posthog-api 1.5). */
export const MAX_LABEL_LENGTH = 40;
/** Most keys a user may have before the API makes no more (posthog-api 1.5). */
const MAX_KEYS = 10;

/**
 * Creates a personal key of a user; `value` is the only time its text is told. Throws a 400
 * {@link Refusal} that names the field at fault.
 */
export async function createPersonalKey(
  { accounts, now, randomBytes }: KeyDeps,
  user: User,
  request: KeyRequest,
): Promise<{ key: PersonalKey; value: string }> {
  const label = checkLabel(request.label);
  const scopes = checkScopes(request.scopes);
  await checkReach(accounts, user, request);
  const value = generateKey("phx_", randomBytes);
  const key = await accounts.createPersonalKey(
    {
      id: v4({ random: randomBytes(16) }),
      userId: user.id,
      label,
      hash: hashKey(value),
      maskValue: maskKey(value),
      scopes,
      scopedProjects: [...new Set(request.scopedProjects)],
      scopedOrganizations: [...new Set(request.scopedOrganizations.map((id) => id.toLowerCase()))],
    },
    now(),
  );
  return { key, value };
}

/**
 * Creates a key on behalf of the holder of another one, which must itself open everything that the
 * new one would. Throws a 400 or 403 {@link Refusal}.
 */
export async function createKeyByKey(
  deps: KeyDeps,
  holder: { readonly user: User; readonly key: PersonalKey },
  request: KeyRequest,
): Promise<{ key: PersonalKey; value: string }> {
  const { user, key } = holder;
  const missing = checkScopes(request.scopes).find((scope) => !grants(key.scopes, scope));
  if (missing !== undefined) {
    throw new Refusal("permission_denied", `API key missing required scope '${missing}'`);
  }
  refuseWiderReach("project", key.scopedProjects, request.scopedProjects);
  refuseWiderReach("organization", key.scopedOrganizations, request.scopedOrganizations);
  if ((await deps.accounts.personalKeysOf(user.id)).length >= MAX_KEYS) {
    throw new Refusal(
      "invalid_input",
      `You can only have ${MAX_KEYS} personal API keys. Remove an existing key before creating a new one.`,
    );
  }
  return createPersonalKey(deps, user, request);
}

/** Whether a key is not bound to other organizations than this one. */
export function isOpenTo(key: PersonalKey, organizationId: string): boolean {
  return key.scopedOrganizations.length === 0 || key.scopedOrganizations.includes(organizationId);
}

function refuseWiderReach<Id extends number | string>(
  kind: "project" | "organization",
  held: readonly Id[],
  asked: readonly Id[],
): void {
  if (held.length === 0) return;
  if (asked.length === 0) {
    throw new Refusal(
      "permission_denied",
      `API key is limited to some ${kind}s: name those that the new key shall open.`,
    );
  }
  const foreign = asked.find((id) => !held.includes(id));
  if (foreign === undefined) return;
  throw new Refusal(
    "permission_denied",
    `API key does not have access to the requested ${kind}: ID ${foreign}.`,
  );
}

function checkLabel(text: string): string {
  const label = text.trim();
  const attr = "label";
  if (label === "") throw new Refusal("blank", "This field may not be blank.", { attr });
  if (label.length > MAX_LABEL_LENGTH) {
    const detail = `Ensure this field has no more than ${MAX_LABEL_LENGTH} characters.`;
    throw new Refusal("max_length", detail, { attr });
  }
  return label;
}

function checkScopes(texts: readonly string[]): Scope[] {
  const attr = "scopes";
  if (texts.length === 0) throw new Refusal("empty", "This list may not be empty.", { attr });
  const unknown = texts.find((text) => !isScope(text));
  if (unknown !== undefined) {
    throw new Refusal("invalid_input", `Invalid scope: ${unknown}`, { attr });
  }
  return [...new Set(texts.filter(isScope))];
}

/** A key can be bound only to what its user can open. */
async function checkReach(
  accounts: AccountStore,
  user: User,
  { scopedProjects, scopedOrganizations }: KeyRequest,
): Promise<void> {
  const memberships = await accounts.membershipsOf(user.id);
  const organizations = new Set(memberships.map(({ organization }) => organization.id));
  for (const id of scopedProjects) {
    const project = Number.isInteger(id) && id > 0 && id < 2 ** 31 && (await accounts.project(id));
    if (project && organizations.has(project.organizationId)) continue;
    throw new Refusal(
      "invalid_input",
      "You must be a member of all teams that you are scoping the key to.",
      { attr: "scoped_teams" },
    );
  }
  for (const id of scopedOrganizations) {
    const attr = "scoped_organizations";
    if (!isUuid(id)) {
      throw new Refusal("invalid_input", "Invalid organization UUID", { attr });
    }
    if (organizations.has(id.toLowerCase())) continue;
    throw new Refusal(
      "invalid_input",
      "You must be a member of all organizations that you are scoping the key to.",
      { attr },
    );
  }
}
