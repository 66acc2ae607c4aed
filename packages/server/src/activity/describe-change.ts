import { isDeepStrictEqual } from "node:util";
import type { Json } from "@hedgerow/core/json";
import type { ActivityDraft, ActivityScope, FieldChange } from "./activity-log.ts";

/**
 * Tells the activity of a change of one kind of items: deleting and restoring are told apart from
 * other changes by `deleted`, and only the named fields are compared. A change that leaves them all
 * as they are is kept too, since it raises the item's version: the history of versions has no gaps.
 */
export function describeChanges<
  Saved extends { readonly id: number; readonly deleted: boolean; readonly version?: number },
>({
  scope,
  nameOf,
  fields,
}: {
  scope: ActivityScope;
  nameOf: (item: Saved) => string;
  fields: readonly (keyof Saved & string)[];
}): (before: Saved | null, after: Saved) => ActivityDraft {
  return (before, after) => ({
    scope,
    itemId: String(after.id),
    itemVersion: after.version ?? null,
    activity: activityOf(before, after),
    name: nameOf(after),
    changes: before === null ? [] : changesBetween(before, after, fields),
  });
}

function activityOf(
  before: { readonly deleted: boolean } | null,
  after: { readonly deleted: boolean },
): ActivityDraft["activity"] {
  if (before === null) return "created";
  if (before.deleted === after.deleted) return "updated";
  return after.deleted ? "deleted" : "restored";
}

/** The fields that differ, in the order given. */
export function changesBetween<Saved>(
  before: Saved,
  after: Saved,
  fields: readonly (keyof Saved & string)[],
): FieldChange[] {
  return fields
    .filter((field) => !isDeepStrictEqual(before[field], after[field]))
    .map((field) => ({
      field,
      before: jsonOfField(before[field]),
      after: jsonOfField(after[field]),
    }));
}

/** Fields of records are JSON but for instants. */
export function jsonOfField(value: unknown): Json {
  return value instanceof Date ? value.toISOString() : ((value ?? null) as Json);
}
