import { type Static, Type } from "typebox";
import { wireInstant } from "../http/wire-instant.ts";
import { MapOf } from "../http/wire-schemas.ts";
import type { User } from "./account-store.ts";
import { UserBasic, wireUserBasic } from "./accounts.schemas.ts";
import { OrganizationBasic, OrganizationDetail } from "./organizations.schemas.ts";
import { ProjectBasic } from "./projects.schemas.ts";

const Nothing = Type.Null();

/** The caller's own record (posthog-api 3.3). */
export const UserDetail = Type.Object(
  {
    ...UserBasic.properties,
    date_joined: Type.String(),
    pending_email: Nothing,
    notification_settings: MapOf(Type.Unknown()),
    anonymize_data: Nothing,
    toolbar_mode: Nothing,
    has_password: Type.Boolean(),
    is_staff: Type.Boolean(),
    is_impersonated: Nothing,
    is_impersonated_until: Nothing,
    sensitive_session_expires_at: Nothing,
    team: Type.Union([ProjectBasic, Type.Null()], {
      description: "The current project; `null` when there is none left.",
    }),
    organization: Type.Union([OrganizationDetail, Type.Null()]),
    organizations: Type.Array(OrganizationBasic),
    events_column_config: Type.Object({ active: Type.String() }),
    is_2fa_enabled: Type.Boolean(),
    has_social_auth: Type.Boolean(),
    has_sso_enforcement: Type.Boolean(),
    has_seen_product_intro_for: Nothing,
    scene_personalisation: Type.Array(Type.Unknown()),
    theme_mode: Nothing,
  },
  { title: "User" },
);

/** The full wire form of a user (posthog-api 3.3). */
export function wireUser(
  user: User,
  belongings: Pick<Static<typeof UserDetail>, "team" | "organization" | "organizations">,
): Static<typeof UserDetail> {
  return {
    ...wireUserBasic(user),
    date_joined: wireInstant(user.createdAt),
    pending_email: null,
    notification_settings: {},
    anonymize_data: null,
    toolbar_mode: null,
    has_password: true,
    is_staff: false,
    is_impersonated: null,
    is_impersonated_until: null,
    sensitive_session_expires_at: null,
    ...belongings,
    events_column_config: { active: "DEFAULT" },
    is_2fa_enabled: false,
    has_social_auth: false,
    has_sso_enforcement: false,
    has_seen_product_intro_for: null,
    scene_personalisation: [],
    theme_mode: null,
  };
}
