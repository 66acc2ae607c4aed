import { type Static, Type } from "typebox";
import { wireInstant, wireInstantOrNull } from "../http/wire-instant.ts";
import type { PersonalKey } from "./account-store.ts";
import { type KeyRequest, MAX_LABEL_LENGTH } from "./personal-keys.ts";

/** A personal key; only the answer that creates it carries its text (posthog-api 1.5). */
export const PersonalKeyRecord = Type.Object(
  {
    id: Type.String(),
    label: Type.String(),
    value: Type.Union([Type.String(), Type.Null()], { description: "Told once, on creation." }),
    mask_value: Type.String(),
    created_at: Type.String(),
    last_used_at: Type.Union([Type.String(), Type.Null()]),
    last_rolled_at: Type.Null(),
    user_id: Type.Integer(),
    scopes: Type.Array(Type.String()),
    scoped_teams: Type.Array(Type.Integer(), { description: "Empty: every project." }),
    scoped_organizations: Type.Array(Type.String(), { description: "Empty: every organization." }),
  },
  { title: "PersonalApiKey" },
);

/** The wire form of a personal key; its text is told once, by the answer that creates it. */
export function wirePersonalKey(
  key: PersonalKey,
  value: string | null = null,
): Static<typeof PersonalKeyRecord> {
  return {
    id: key.id,
    label: key.label,
    value,
    mask_value: key.maskValue,
    created_at: wireInstant(key.createdAt),
    last_used_at: wireInstantOrNull(key.lastUsedAt),
    last_rolled_at: null,
    user_id: key.userId,
    scopes: [...key.scopes],
    scoped_teams: [...key.scopedProjects],
    scoped_organizations: [...key.scopedOrganizations],
  };
}

const orNull = <Schema extends Parameters<typeof Type.Optional>[0]>(schema: Schema) =>
  Type.Optional(Type.Union([schema, Type.Null()]));

/** Most scopes, projects and organizations of a key: each is looked up. */
const MAX_NAMED = 1_000;

export const CreatePersonalKeyBody = Type.Object({
  label: Type.String({ minLength: 1, maxLength: MAX_LABEL_LENGTH }),
  scopes: Type.Array(Type.String(), {
    maxItems: MAX_NAMED,
    description: "For instance `feature_flag:read`; `*` for all.",
  }),
  scoped_teams: orNull(Type.Array(Type.Integer(), { maxItems: MAX_NAMED })),
  scoped_organizations: orNull(Type.Array(Type.String(), { maxItems: MAX_NAMED })),
});

/** What a validated body asks of a new key. */
export function keyRequestOf(body: Static<typeof CreatePersonalKeyBody>): KeyRequest {
  return {
    label: body.label,
    scopes: body.scopes,
    scopedProjects: body.scoped_teams ?? [],
    scopedOrganizations: body.scoped_organizations ?? [],
  };
}
