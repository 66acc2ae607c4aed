import { type Static, Type } from "typebox";
import { MapOf } from "../http/wire-schemas.ts";
import type { User } from "./account-store.ts";

/** The short form of a user: every `created_by` (posthog-api 3.3). */
export const UserBasic = Type.Object(
  {
    id: Type.Integer(),
    uuid: Type.String(),
    distinct_id: Type.String(),
    first_name: Type.String(),
    last_name: Type.String(),
    email: Type.String(),
    is_email_verified: Type.Boolean(),
    hedgehog_config: MapOf(Type.Unknown()),
    role_at_organization: Type.Union([Type.String(), Type.Null()]),
  },
  { title: "UserBasic" },
);

/** The author of something by their id; `null` where there is none, or none any more. */
export function wireAuthor(
  id: number | null,
  usersById: ReadonlyMap<number, User>,
): Static<typeof UserBasic> | null {
  const user = id === null ? undefined : usersById.get(id);
  return user ? wireUserBasic(user) : null;
}

/** The short wire form of a user. */
export function wireUserBasic(user: User): Static<typeof UserBasic> {
  return {
    id: user.id,
    uuid: user.uuid,
    distinct_id: user.distinctId,
    first_name: user.firstName,
    last_name: user.lastName,
    email: user.email,
    // Users are made by the operator, who vouches for the address.
    is_email_verified: true,
    hedgehog_config: {},
    role_at_organization: null,
  };
}
