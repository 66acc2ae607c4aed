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
    secret_api_token_backup: Generated<string | null>;
    time_zone: string;
    anonymize_ips: number;
    /** JSON of {@link TestAccountFilter}s. */
    test_account_filters: Generated<string>;
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
  feature_flags: {
    id: Generated<number>;
    project_id: number;
    key: string;
    name: string;
    active: number;
    deleted: number;
    version: number;
    filters: string;
    /** Whether `filters` declares variants: a column so that lists can filter by it. */
    is_multivariate: number;
    /** Whether `filters` gives everyone the same value. */
    is_constant: number;
    /** JSON of the encrypted payloads; absent where payloads are not encrypted. */
    sealed_payloads: string | null;
    ensure_experience_continuity: number;
    bucketing_identifier: string;
    evaluation_runtime: string;
    evaluation_contexts: string;
    tags: string;
    is_remote_configuration: number;
    /** Set while an undeleted experiment uses the flag. */
    has_experiment: Generated<number>;
    creation_context: string;
    /** JSON of the fields that nothing filters, orders or evaluates by. */
    details: string;
    created_at: number;
    updated_at: number;
    created_by: number | null;
    last_modified_by: number | null;
    last_called_at: number | null;
    /** The project's revision at the last change of this row. */
    changed_revision: number;
  };
  /** What flag requests were answered, estimated by a share of them. */
  flag_decisions: {
    project_id: number;
    flag_key: string;
    day: string;
    value: string;
    times: number;
  };
  cohorts: {
    id: Generated<number>;
    project_id: number;
    name: string;
    description: string;
    is_static: number;
    filters: string;
    deleted: number;
    created_at: number;
    created_by: number | null;
    /** When a static cohort's members were last changed. */
    members_changed_at: number | null;
    changed_revision: number;
    /** As last counted; changes of a static cohort's members are added. */
    member_count: Generated<number | null>;
    calculated_at: Generated<number | null>;
    is_calculating: Generated<number>;
    /** Failed calculations since the last one that did not fail. */
    errors_calculating: Generated<number>;
    calculation_error: Generated<string | null>;
    calculation_due_at: Generated<number | null>;
  };
  /** Members of static cohorts, and calculated ones where past behavior counts. Whoever merges or deletes a person moves or removes its rows. */
  cohort_members: {
    cohort_id: number;
    person_id: number;
  };
  /** Experiments; what nothing filters or orders by is JSON. */
  experiments: {
    id: Generated<number>;
    project_id: number;
    name: string;
    description: string | null;
    start_date: number | null;
    end_date: number | null;
    flag_id: number;
    exposure_cohort_id: number | null;
    type: string;
    parameters: string;
    filters: string;
    secondary_metrics: string;
    metrics: string;
    metrics_secondary: string;
    exposure_criteria: string;
    stats_config: string;
    primary_order: string;
    secondary_order: string;
    conclusion: string | null;
    conclusion_comment: string | null;
    archived: number;
    deleted: number;
    created_at: number;
    updated_at: number;
    created_by: number | null;
    holdout_id: number | null;
    /** JSON of the shared metrics that it measures too. */
    saved_metrics: Generated<string>;
  };
  /** Holdouts and metrics that experiments share; `content` is JSON. */
  experiment_parts: {
    id: Generated<number>;
    project_id: number;
    kind: string;
    name: string;
    description: string | null;
    content: string;
    tags: string;
    deleted: number;
    created_at: number;
    updated_at: number;
    created_by: number | null;
  };
  transformations: {
    id: Generated<number>;
    organization_id: string;
    type: string;
    name: string;
    description: string | null;
    url: string | null;
    /** What of the address has to be unique. */
    url_key: string | null;
    icon: string | null;
    /** JSON, as are `capabilities`, `metrics` and `public_jobs`. */
    config_schema: string;
    tag: string | null;
    latest_tag: string | null;
    latest_tag_checked_at: number | null;
    is_global: number;
    capabilities: string;
    metrics: string;
    public_jobs: string;
    version: number;
    created_at: number;
    updated_at: number;
  };
  transformation_versions: {
    transformation_id: number;
    version: number;
    /** JSON of texts by path. */
    files: string;
    /** JSON of the paths alone. */
    file_names: string;
    /** JSON of a `Program`. */
    program: string | null;
    tag: string | null;
    restored_from: number | null;
    created_at: number;
    created_by: number | null;
  };
  transformation_configs: {
    id: Generated<number>;
    project_id: number;
    transformation_id: number;
    enabled: number;
    run_order: number;
    /** JSON of the settings. */
    config: string;
    /** JSON of a list: the settings that were given as secrets. */
    secret_keys: Generated<string>;
    name: string | null;
    description: string | null;
    /** JSON of a list. */
    allowed_hosts: string;
    problem: string | null;
    problem_at: number | null;
    deleted: number;
    created_at: number;
    updated_at: number;
  };
  transformation_attachments: {
    id: Generated<number>;
    config_id: number;
    key: string;
    file_name: string;
    content_type: string;
    size_bytes: number;
    /** Base64. */
    contents: string;
  };
  /** See `transformation-revisions.ts`. */
  transformation_revisions: { project_id: number; revision: number };
  /** One row: see `transformation-revisions.ts`. */
  transformation_clock: { revision: number };
  /** Who changed what: see `ActivityLog`. */
  activity_log: {
    id: Generated<number>;
    /** Set for what belongs to a project, as `organization_id` is for what does not. */
    project_id: number | null;
    organization_id: string | null;
    scope: string;
    item_id: string;
    item_version: number | null;
    activity: string;
    name: string;
    /** JSON of the changed fields. */
    changes: string;
    /** JSON of the job that was triggered. */
    job: string | null;
    author_id: number | null;
    created_at: number;
  };
  /** See `project-revisions.ts`. */
  project_revisions: {
    project_id: number;
    revision: number;
  };
  persons: {
    id: Generated<number>;
    project_id: number;
    uuid: string;
    properties: string;
    /** When each property got its value: see `StoredProperties`. */
    property_times: string;
    created_at: number;
    is_identified: number;
  };
  /** Of persons of whom only times of properties moved since their row was written: those times. */
  person_times: {
    person_id: number;
    /** As `property_times` of the row, instead of which they count. */
    times: string;
  };
  person_distinct_ids: {
    project_id: number;
    distinct_id: string;
    person_id: number;
  };
  /** Which person's history continues as which other's, by the log position of the event that said so. */
  person_merges: {
    position: number;
    project_id: number;
    from_uuid: string;
    into_uuid: string;
  };
  /** How often an id lost its person by deletion or splitting: see `personUuid`. */
  released_distinct_ids: {
    project_id: number;
    distinct_id: string;
    times: number;
  };
  /** What stored events still have to follow of changes of persons: see `EventChange`. */
  event_changes: {
    id: Generated<number>;
    project_id: number;
    /** Log position up to which events have to be stored before. */
    position: number;
    change: string;
  };
  group_types: {
    project_id: number;
    index: number;
    name: string;
    /** How people call one group of the type, and several. */
    name_singular: Generated<string | null>;
    name_plural: Generated<string | null>;
  };
  groups: {
    project_id: number;
    group_type_index: number;
    group_key: string;
    properties: string;
    property_times: string;
    created_at: number;
  };
  /** Experience continuity: the id by which a flag buckets a person. */
  flag_hash_key_overrides: {
    person_id: number;
    flag_key: string;
    hash_key: string;
  };
  event_definitions: DefinitionColumns & {
    owner: number | null;
    last_seen_at: number | null;
    default_columns: string;
    post_to_slack: number;
  };
  /** What ended experiments were answered first, by a hash of what was asked. */
  frozen_answers: {
    experiment_id: number;
    answer_key: string;
    answer_window: string;
    body: string;
    computed_at: number;
  };
  property_definitions: DefinitionColumns & {
    /** `event`, `person` or `group`. */
    kind: string;
    /** -1 where there is no group. */
    group_type_index: number;
    property_type: string | null;
    is_numerical: number;
  };
  /** Which properties came with which events. */
  event_properties: {
    event_id: number;
    property_id: number;
    project_id: number;
  };
  /** Events that capture did not take, by uuid: why, how often and when. */
  event_refusals: {
    project_id: number;
    uuid: string;
    code: string;
    detail: string;
    times: number;
    first_at: number;
    last_at: number;
  };
  /** One row for each day, kind of warning, SDK and version. */
  ingestion_warnings: {
    project_id: number;
    /** Days since the epoch, UTC. */
    day: number;
    type: string;
    sdk: string;
    sdk_version: string;
    times: number;
    first_at: number;
    last_at: number;
    samples: string;
  };
  /** What each config did with its events in an hour, which `hour` begins. */
  transformation_hours: {
    config_id: number;
    hour: number;
    events_in: number;
    events_out: number;
    dropped: number;
    failed: number;
    durations: string;
    own_metrics: string;
  };
  transformation_logs: {
    config_id: number;
    id: string;
    transformation_id: number;
    at: number;
    source: string;
    type: string;
    message: string;
    instance_id: string;
  };
  transformation_storage: {
    config_id: number;
    key: string;
    value: string;
    chars: number;
  };
  transformation_jobs: {
    id: Generated<number>;
    config_id: number;
    project_id: number;
    name: string;
    payload: string;
    run_at: number;
    attempts: number;
    hops: Generated<number>;
  };
  /** The last minute, hour or day in which a config's task ran. */
  transformation_periods: {
    config_id: number;
    task: string;
    period: number;
  };
  /** How far each consumer of the event log has come, in the same transactions as its effects. */
  consumer_positions: {
    name: string;
    position: number;
  };
}

interface DefinitionColumns {
  id: Generated<number>;
  uuid: string;
  project_id: number;
  name: string;
  description: string | null;
  tags: string;
  created_at: number;
  updated_at: number | null;
  updated_by: number | null;
  verified: number;
  verified_at: number | null;
  verified_by: number | null;
  hidden: number;
}
