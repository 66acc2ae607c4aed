import type { ActivityDraft } from "../activity/activity-log.ts";
import { changesBetween } from "../activity/describe-change.ts";
import type { DefinitionWrite } from "./event-definition-store.ts";

/** Tells the activity of changes of one kind of definitions; a change that changes nothing has none. */
export function describeDefinition<
  Definition extends { readonly id: string; readonly name: string },
>(
  scope: ActivityDraft["scope"],
  fields: readonly (keyof Definition & string)[],
): NonNullable<DefinitionWrite<Definition>["describe"]> {
  return (before, after) => {
    const item = after ?? before;
    if (!item) return null;
    const changes = before && after ? changesBetween(before, after, fields) : [];
    if (before && after && changes.length === 0) return null;
    return {
      scope,
      itemId: item.id,
      itemVersion: null,
      activity: !before ? "created" : after ? "updated" : "deleted",
      name: item.name,
      changes,
    };
  };
}
