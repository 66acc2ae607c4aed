import type { Generated } from "kysely";

/** Tables of the metadata store; representations are those of `codec.ts`. Each feature adds its own. */
export interface Schema {
  organizations: {
    id: string;
    name: string;
    slug: string;
    created_at: number;
    updated_at: number;
  };
  projects: {
    id: Generated<number>;
    uuid: string;
    organization_id: string;
    name: string;
    api_token: string;
    secret_api_token: string;
    time_zone: string;
    anonymize_ips: number;
    created_at: number;
    updated_at: number;
  };
  users: {
    id: Generated<number>;
    uuid: string;
    distinct_id: string;
    email: string;
    password_hash: string;
    first_name: string;
    last_name: string;
    is_active: number;
    created_at: number;
    current_organization_id: string;
    current_project_id: number;
  };
  memberships: {
    organization_id: string;
    user_id: number;
    level: number;
  };
  personal_keys: {
    id: string;
    user_id: number;
    label: string;
    hash: string;
    mask_value: string;
    scopes: string;
    scoped_projects: string;
    scoped_organizations: string;
    created_at: number;
    last_used_at: number | null;
  };
}
