import type { GroupType } from "@hedgerow/core/flags/flag";
import { type Static, Type } from "typebox";
import { Refusal } from "../http/errors.ts";
import { wireInstant } from "../http/wire-instant.ts";
import { AnyObject, MapOf, maxChars } from "../http/wire-schemas.ts";
import type { Membership, Project, TestAccountFilter } from "./account-store.ts";
import { testAccountFiltersOf, wireTestAccountFilters } from "./test-account-filters.schemas.ts";

const basicFields = {
  id: Type.Integer(),
  uuid: Type.String(),
  organization: Type.String({ description: "UUID of the organization." }),
  project_id: Type.Integer(),
  api_token: Type.String({ description: "The public project key, `phc_…`." }),
  name: Type.String(),
  completed_snippet_onboarding: Type.Boolean(),
  has_completed_onboarding_for: Type.Null(),
  ingested_event: Type.Boolean({ description: "Whether an event has arrived yet." }),
  is_demo: Type.Boolean(),
  timezone: Type.String({ description: "IANA time zone." }),
  access_control: Type.Boolean(),
};

/** A project in lists and in `team` of a user (posthog-api 3.1). */
export const ProjectBasic = Type.Object(basicFields, { title: "ProjectBasic" });

const ABSENT = [
  "product_description",
  "live_events_token",
  "slack_incoming_webhook",
  "test_account_filters_default_checked",
  "path_cleaning_filters",
  "person_display_name_properties",
  "correlation_config",
  "autocapture_opt_out",
  "autocapture_exceptions_opt_in",
  "autocapture_exceptions_errors_to_ignore",
  "autocapture_web_vitals_opt_in",
  "autocapture_web_vitals_allowed_metrics",
  "capture_console_log_opt_in",
  "capture_performance_opt_in",
  "capture_dead_clicks",
  "session_recording_sample_rate",
  "session_recording_minimum_duration_milliseconds",
  "session_recording_linked_flag",
  "session_recording_network_payload_capture_config",
  "session_recording_masking_config",
  "session_recording_url_trigger_config",
  "session_recording_url_blocklist_config",
  "session_recording_event_trigger_config",
  "session_replay_config",
  "survey_config",
  "surveys_opt_in",
  "heatmaps_opt_in",
  "flags_persistence_default",
  "week_start_day",
  "primary_dashboard",
  "live_events_columns",
  "recording_domains",
  "inject_web_apps",
  "extra_settings",
  "modifiers",
] as const;

type AbsentSetting = (typeof ABSENT)[number];

/** Settings of products that are not part of Hedgerow: `null`, which clients take as "not set". */
const absentFields = Object.fromEntries(ABSENT.map((name) => [name, Type.Null()])) as Record<
  AbsentSetting,
  ReturnType<typeof Type.Null>
>;
const absentValues = Object.fromEntries(ABSENT.map((name) => [name, null])) as Record<
  AbsentSetting,
  null
>;

const NoItems = Type.Array(Type.Unknown());

/** A project on its own (posthog-api 3.1). */
export const ProjectDetail = Type.Object(
  {
    ...basicFields,
    created_at: Type.String(),
    updated_at: Type.String(),
    effective_membership_level: Type.Union([Type.Integer(), Type.Null()]),
    has_group_types: Type.Boolean(),
    group_types: Type.Array(
      Type.Object({
        group_type: Type.String(),
        group_type_index: Type.Integer(),
        name_singular: Type.Null(),
        name_plural: Type.Null(),
      }),
    ),
    anonymize_ips: Type.Boolean({
      description: "Whether client addresses are left out of events.",
    }),
    secret_api_token: Type.Union([Type.String(), Type.Null()], {
      description: "The secret project key, `phs_…`; `null` for keys without `feature_flag:read`.",
    }),
    secret_api_token_backup: Type.Union([Type.String(), Type.Null()], {
      description: "The secret key before the last rotation, while it is kept.",
    }),
    app_urls: NoItems,
    test_account_filters: Type.Array(AnyObject, {
      description:
        "Conditions on properties of events and persons that real users meet; experiments with `filterTestAccounts` leave out whoever does not.",
    }),
    data_attributes: NoItems,
    product_intents: NoItems,
    session_recording_opt_in: Type.Boolean(),
    person_on_events_querying_enabled: Type.Boolean(),
    default_modifiers: MapOf(Type.Unknown()),
    ...absentFields,
  },
  { title: "Project" },
);

/** What is known of a project beside its own record. */
export interface ProjectFacts {
  readonly hasEvents: boolean;
  readonly groupTypes: readonly GroupType[];
  readonly membership: Membership | null;
  /** Whether the caller may read by other means all that the secret key opens. */
  readonly showsSecretKey: boolean;
}

/** The wire form of a project in lists (posthog-api 3.1). */
export function wireProjectBasic(
  project: Project,
  { hasEvents }: Pick<ProjectFacts, "hasEvents">,
): Static<typeof ProjectBasic> {
  return {
    id: project.id,
    uuid: project.uuid,
    organization: project.organizationId,
    project_id: project.id,
    api_token: project.apiToken,
    name: project.name,
    completed_snippet_onboarding: hasEvents,
    has_completed_onboarding_for: null,
    ingested_event: hasEvents,
    is_demo: false,
    timezone: project.timeZone,
    access_control: false,
  };
}

/** The full wire form of a project (posthog-api 3.1). */
export function wireProject(project: Project, facts: ProjectFacts): Static<typeof ProjectDetail> {
  return {
    ...absentValues,
    ...wireProjectBasic(project, facts),
    created_at: wireInstant(project.createdAt),
    updated_at: wireInstant(project.updatedAt),
    effective_membership_level: facts.membership?.level ?? null,
    has_group_types: facts.groupTypes.length > 0,
    group_types: facts.groupTypes.map(({ index, name }) => ({
      group_type: name,
      group_type_index: index,
      name_singular: null,
      name_plural: null,
    })),
    anonymize_ips: project.anonymizeIps,
    secret_api_token: facts.showsSecretKey ? project.secretApiToken : null,
    secret_api_token_backup: facts.showsSecretKey ? project.secretApiTokenBackup : null,
    app_urls: [],
    test_account_filters: wireTestAccountFilters(project.testAccountFilters),
    data_attributes: [],
    product_intents: [],
    session_recording_opt_in: false,
    // Events keep the person they had when they came.
    person_on_events_querying_enabled: true,
    default_modifiers: {},
  };
}

const name = Type.String({ minLength: 1, maxLength: 200 });
const timezone = Type.String({ description: "IANA time zone, for instance `Europe/Berlin`." });

export const CreateProjectBody = Type.Object({
  name: Type.Optional(name),
  timezone: Type.Optional(timezone),
});

export const PatchProjectBody = Type.Object({
  name: Type.Optional(name),
  timezone: Type.Optional(timezone),
  anonymize_ips: Type.Optional(Type.Boolean()),
  test_account_filters: Type.Optional(
    Type.Array(Type.Unknown(), {
      description: "Items with `key`, `operator`, `value` and `type`: `event` or `person`.",
      ...maxChars(1_000_000),
    }),
  ),
});

/** What a validated body changes; throws a 400 {@link Refusal} for a blank name or an unknown zone. */
export function projectChangeOf(body: Static<typeof PatchProjectBody>): {
  name?: string;
  timeZone?: string;
  anonymizeIps?: boolean;
  testAccountFilters?: readonly TestAccountFilter[];
} {
  return {
    ...(body.name !== undefined && { name: nameOf(body.name) }),
    ...(body.timezone !== undefined && { timeZone: timeZoneOf(body.timezone) }),
    ...(body.anonymize_ips !== undefined && { anonymizeIps: body.anonymize_ips }),
    ...(body.test_account_filters !== undefined && {
      testAccountFilters: testAccountFiltersOf(body.test_account_filters),
    }),
  };
}

/** The project a validated body asks for. */
export function projectDraftOf(body: Static<typeof CreateProjectBody>): {
  name: string;
  timeZone: string;
} {
  return { name: "Default project", timeZone: "UTC", ...projectChangeOf(body) };
}

function nameOf(text: string): string {
  const trimmed = text.trim();
  if (trimmed !== "") return trimmed;
  throw new Refusal("blank", "This field may not be blank.", { attr: "name" });
}

function timeZoneOf(text: string): string {
  // Offsets such as +01:00 are accepted by Intl but are no zones: they know no summer time.
  const canonical = /^[A-Za-z]/.test(text) ? canonicalZone(text) : undefined;
  if (canonical === undefined) {
    throw new Refusal("invalid_choice", `"${text}" is not a valid choice.`, { attr: "timezone" });
  }
  // An alias stays as it was chosen; only its spelling is put right where it differs in case.
  return canonical.toLowerCase() === text.toLowerCase() ? canonical : text;
}

function canonicalZone(text: string): string | undefined {
  try {
    return new Intl.DateTimeFormat("en", { timeZone: text }).resolvedOptions().timeZone;
  } catch {
    return undefined;
  }
}
