import { type Static, Type } from "typebox";
import { wireInstant } from "../http/wire-instant.ts";
import { MapOf } from "../http/wire-schemas.ts";
import type { Membership } from "./account-store.ts";
import { ProjectBasic } from "./projects.schemas.ts";

const basicFields = {
  id: Type.String({ description: "UUID." }),
  name: Type.String(),
  slug: Type.String(),
  logo_media_id: Type.Null(),
  membership_level: Type.Integer({ description: "1 member, 8 admin, 15 owner." }),
  members_can_use_personal_api_keys: Type.Boolean(),
};

/** An organization in lists (posthog-api 3.2). */
export const OrganizationBasic = Type.Object(basicFields, { title: "OrganizationBasic" });

/** An organization on its own (posthog-api 3.2). */
export const OrganizationDetail = Type.Object(
  {
    ...basicFields,
    created_at: Type.String(),
    updated_at: Type.String(),
    plugins_access_level: Type.Integer(),
    teams: Type.Array(ProjectBasic),
    projects: Type.Array(ProjectBasic),
    available_product_features: Type.Array(Type.Unknown()),
    is_member_join_email_enabled: Type.Boolean(),
    metadata: MapOf(Type.Unknown()),
    customer_id: Type.Null(),
    enforce_2fa: Type.Null(),
    members_can_invite: Type.Boolean(),
    allow_publicly_shared_resources: Type.Boolean(),
    member_count: Type.Integer(),
    default_experiment_stats_method: Type.String(),
    default_role_id: Type.Null(),
  },
  { title: "Organization" },
);

/** The wire form of an organization in lists, as one of its members sees it. */
export function wireOrganizationBasic({
  organization,
  level,
}: Membership): Static<typeof OrganizationBasic> {
  return {
    id: organization.id,
    name: organization.name,
    slug: organization.slug,
    logo_media_id: null,
    membership_level: level,
    members_can_use_personal_api_keys: true,
  };
}

/** The full wire form of an organization (posthog-api 3.2). */
export function wireOrganization(
  membership: Membership,
  facts: {
    projects: Static<typeof ProjectBasic>[];
    memberCount: number;
    /** What the organization may do with transformations (posthog-api 1.4). */
    pluginsAccessLevel: number;
  },
): Static<typeof OrganizationDetail> {
  const { organization } = membership;
  return {
    ...wireOrganizationBasic(membership),
    created_at: wireInstant(organization.createdAt),
    updated_at: wireInstant(organization.updatedAt),
    plugins_access_level: facts.pluginsAccessLevel,
    teams: facts.projects,
    projects: facts.projects,
    available_product_features: [],
    is_member_join_email_enabled: false,
    metadata: {},
    customer_id: null,
    enforce_2fa: null,
    members_can_invite: false,
    allow_publicly_shared_resources: false,
    member_count: facts.memberCount,
    default_experiment_stats_method: "bayesian",
    default_role_id: null,
  };
}
