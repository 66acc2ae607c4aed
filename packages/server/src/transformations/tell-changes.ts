import { isDeepStrictEqual } from "node:util";
import { cleanText } from "@hedgerow/core/events/clean-json";
import { type Json, type JsonObject, ownValue } from "@hedgerow/core/json";
import { configFieldsOf } from "@hedgerow/core/transformations/config-schema";
import { secretPayloadKeys } from "@hedgerow/core/transformations/public-jobs";
import type { Transformation } from "@hedgerow/core/transformations/transformation";
import type { ActivityDraft, FieldChange, TriggeredJob } from "../activity/activity-log.ts";
import { changesBetween } from "../activity/describe-change.ts";
import { isSecretKey, masked, maskSecrets, SECRET_MASK, textOf } from "./secret-settings.ts";
import type { AttachmentChange, ConfigView } from "./transformation-config-store.ts";

/** What the activity of an organization tells; looking for updates is no change. */
export function describeTransformation(
  before: Transformation | null,
  after: Transformation | null,
) {
  const item = after ?? before;
  if (!item) return null;
  const changes =
    before && after
      ? changesBetween(before, after, [
          "type",
          "name",
          "description",
          "icon",
          "configSchema",
          "tag",
          "isGlobal",
          "capabilities",
          "metrics",
          "publicJobs",
          "version",
        ])
      : [];
  if (before && after && changes.length === 0) return null;
  return {
    scope: "Plugin" as const,
    itemId: String(item.id),
    itemVersion: item.version,
    activity:
      before === null
        ? ("installed" as const)
        : after === null
          ? ("uninstalled" as const)
          : ("updated" as const),
    name: item.name,
    changes,
  };
}

/** Of a job's payload, so much is told in the activity; no field is begun with less room. */
const MAX_TOLD_CHARS = 4_000;
const MIN_TOLD_CHARS = 100;

/** What is told of a job's payload: secrets masked, and of the rest as much as an activity holds. */
export function shownPayload({ name, payload }: TriggeredJob, publicJobs: Json): JsonObject {
  const secret = secretPayloadKeys(publicJobs, name);
  const shown = new Map<string, Json>();
  const entries = Object.entries(payload);
  let room = MAX_TOLD_CHARS;
  for (const [index, [key, value]] of entries.entries()) {
    if (room < key.length + MIN_TOLD_CHARS) {
      shown.set("…", `${entries.length - index} more`);
      break;
    }
    const whole = secret.has(key) ? masked(value) : value;
    const isLong = textOf(whole).length > room - key.length;
    const part = typeof whole === "string" ? cleanText(whole.slice(0, room - key.length)) : "";
    const told = isLong ? `${part}…` : whole;
    shown.set(key, told);
    room -= key.length + textOf(told).length;
  }
  return Object.fromEntries(shown);
}

/** What the activity tells of a change: one entry for each kind of it, secrets masked. */
export function describeConfig(
  before: ConfigView | null,
  after: ConfigView,
  { put, removeKeys }: AttachmentChange,
): readonly ActivityDraft[] {
  const draft = (
    activity: ActivityDraft["activity"],
    changes: readonly FieldChange[] = [],
  ): ActivityDraft => ({
    scope: "PluginConfig",
    itemId: String(after.config.id),
    itemVersion: null,
    activity,
    name: after.config.name ?? after.transformation.name,
    changes,
  });
  const drafts: ActivityDraft[] = [];
  if (before === null) drafts.push(draft("created"));
  const wasEnabled = before?.config.enabled ?? false;
  if (after.config.deleted && before?.config.deleted === false) drafts.push(draft("deleted"));
  if (after.config.enabled !== wasEnabled) {
    const reason: FieldChange[] = after.config.problem
      ? [{ field: "error", before: null, after: after.config.problem.message }]
      : [];
    drafts.push(
      draft(after.config.enabled ? "enabled" : "disabled", [
        { field: "enabled", before: wasEnabled, after: after.config.enabled },
        ...(after.config.enabled ? [] : reason),
      ]),
    );
  }
  if (before === null)
    return [...drafts, ...attachmentDrafts(draft, before, after, { put, removeKeys })];
  const changes = [
    ...settingChanges(before, after),
    ...changesBetween(before.config, after.config, ["name", "description", "allowedHosts"]),
  ];
  if (changes.length > 0) drafts.push(draft("config_updated", changes));
  if (before.config.order !== after.config.order) {
    drafts.push(
      draft("order_changed", [
        { field: "order", before: before.config.order, after: after.config.order },
      ]),
    );
  }
  return [...drafts, ...attachmentDrafts(draft, before, after, { put, removeKeys })];
}

/** What the activity tells of a config whose transformation is taken away. */
export function describeRemoval(view: ConfigView): readonly ActivityDraft[] {
  const gone = { ...view, config: { ...view.config, enabled: false, deleted: true } };
  return describeConfig(view, gone, { put: [], removeKeys: [] });
}

function attachmentDrafts(
  draft: (activity: ActivityDraft["activity"], changes: readonly FieldChange[]) => ActivityDraft,
  before: ConfigView | null,
  after: ConfigView,
  { put, removeKeys }: AttachmentChange,
): readonly ActivityDraft[] {
  const shown = (view: ConfigView, key: string, fileName: string) =>
    isSecretKey(view, key) ? SECRET_MASK : fileName;
  const nameBefore = (key: string): string | null => {
    const file = before?.attachments.find((one) => one.key === key);
    return before && file ? shown(before, key, file.fileName) : null;
  };
  return [
    ...put.map(({ key, fileName }) => {
      const old = nameBefore(key);
      return draft(old === null ? "attachment_created" : "attachment_updated", [
        { field: key, before: old, after: shown(after, key, fileName) },
      ]);
    }),
    ...removeKeys.flatMap((key) => {
      const old = nameBefore(key);
      return old === null
        ? []
        : [draft("attachment_deleted", [{ field: key, before: old, after: null }])];
    }),
  ];
}

/** Changed settings, each by its key; a changed secret shows that it changed and no more. */
function settingChanges(before: ConfigView, after: ConfigView): readonly FieldChange[] {
  const fields = configFieldsOf(after.transformation.configSchema);
  const [old, fresh] = [before.config.config, after.config.config];
  const [oldShown, freshShown] = [
    maskSecrets(before.config, fields),
    maskSecrets(after.config, fields),
  ];
  const keys = [...new Set([...Object.keys(old), ...Object.keys(fresh)])];
  return keys.flatMap((key) => {
    if (isDeepStrictEqual(ownValue(old, key) ?? null, ownValue(fresh, key) ?? null)) return [];
    const show = (shown: JsonObject): Json => ownValue(shown, key) ?? null;
    return [{ field: key, before: show(oldShown), after: show(freshShown) }];
  });
}
