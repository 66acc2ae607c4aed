/** Objects a personal key can be scoped to (posthog-api 1.3). */
const SCOPE_OBJECTS = [
  "action",
  "activity_log",
  "annotation",
  "batch_export",
  "cohort",
  "dashboard",
  "dashboard_template",
  "early_access_feature",
  "event_definition",
  "experiment",
  "experiment_holdout",
  "experiment_saved_metric",
  "export",
  "feature_flag",
  "group",
  "hog_function",
  "insight",
  "notebook",
  "organization",
  "organization_member",
  "person",
  "plugin",
  "project",
  "property_definition",
  "query",
  "session_recording",
  "session_recording_playlist",
  "sharing_configuration",
  "subscription",
  "survey",
  "user",
  "webhook",
] as const;

export type ScopeObject = (typeof SCOPE_OBJECTS)[number];
export type Scope = "*" | `${ScopeObject}:${"read" | "write"}`;

/** Every scope there is, the one for everything first. */
export const SCOPES: ReadonlySet<string> = new Set([
  "*",
  ...SCOPE_OBJECTS.flatMap((object) => [`${object}:read`, `${object}:write`]),
]);

/** Whether a text names a scope. */
export function isScope(text: string): text is Scope {
  return SCOPES.has(text);
}

/** Whether granted scopes cover a needed one: `*` covers all, write on an object covers its read. */
export function grants(granted: readonly Scope[], needed: Scope): boolean {
  return (
    granted.includes("*") ||
    granted.includes(needed) ||
    (needed.endsWith(":read") && granted.includes(needed.replace(/:read$/, ":write") as Scope))
  );
}
