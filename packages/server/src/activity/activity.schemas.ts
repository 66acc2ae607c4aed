import { type Static, Type } from "typebox";
import type { User } from "../accounts/account-store.ts";
import { UserBasic, wireAuthor } from "../accounts/accounts.schemas.ts";
import { wireFieldName } from "../http/wire-field-name.ts";
import { wireInstant } from "../http/wire-instant.ts";
import { AnyObject, Nullable } from "../http/wire-schemas.ts";
import { ACTIVITIES, type Activity, type FieldChange } from "./activity-log.ts";

const Change = Type.Object({
  type: Type.String(),
  action: Type.Enum(["created", "changed", "deleted"]),
  field: Type.String(),
  before: Type.Unknown(),
  after: Type.Unknown(),
});

/** An activity as PostHog's clients read it. */
export const WireActivity = Type.Object(
  {
    id: Type.Integer(),
    user: Nullable(UserBasic),
    activity: Type.Enum([...ACTIVITIES]),
    scope: Type.String(),
    item_id: Type.String(),
    detail: Type.Object({
      id: Type.String({ description: "That of the item." }),
      name: Type.String(),
      short_id: Type.Null(),
      type: Type.Null(),
      trigger: Nullable(
        Type.Object({
          job_type: Type.String(),
          job_id: Type.Null(),
          payload: AnyObject,
        }),
      ),
      merge: Type.Null(),
      version: Nullable(Type.Integer()),
      changes: Nullable(Type.Array(Change)),
    }),
    created_at: Type.String({ format: "date-time" }),
    is_system: Type.Boolean(),
    was_impersonated: Type.Boolean(),
  },
  { title: "Activity" },
);

/** A page of activities (posthog-api 2), with `count` beside PostHog's `total_count`. */
export const ActivityPage = Type.Object({
  results: Type.Array(WireActivity),
  next: Nullable(Type.String()),
  previous: Nullable(Type.String()),
  count: Type.Integer(),
  total_count: Type.Integer(),
});

export const ActivityPageParameters = {
  page: Type.Optional(Type.String({ description: "Number of the page, from 1." })),
  offset: Type.Optional(
    Type.String({
      description: "The initial index from which to return activities, without page.",
    }),
  ),
  limit: Type.Optional(Type.String({ description: "Activities per page, 10 unless given." })),
};

/** The wire form of an activity; `usersById` holds its author if that user still exists. */
export function wireActivity(
  activity: Activity,
  usersById: ReadonlyMap<number, User>,
): Static<typeof WireActivity> {
  return {
    id: activity.id,
    user: wireAuthor(activity.authorId, usersById),
    activity: activity.activity,
    scope: activity.scope,
    item_id: activity.itemId,
    detail: {
      id: activity.itemId,
      name: activity.name,
      short_id: null,
      type: null,
      trigger: activity.job
        ? { job_type: activity.job.name, job_id: null, payload: activity.job.payload }
        : null,
      merge: null,
      version: activity.itemVersion,
      changes:
        activity.activity === "created" || activity.job
          ? null
          : activity.changes.map((change) => wireChange(activity.scope, change)),
    },
    created_at: wireInstant(activity.at),
    is_system: activity.authorId === null,
    was_impersonated: false,
  };
}

function wireChange(type: string, change: FieldChange): Static<typeof Change> {
  const { field, before, after } = change;
  const action = before === null ? "created" : after === null ? "deleted" : "changed";
  return { type, action, field: wireFieldName(field), before, after };
}
