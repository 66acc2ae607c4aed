import { isJsonObject, type Json, type JsonObject, ownValue } from "@hedgerow/core/json";
import { type Static, Type } from "typebox";
import type { User } from "../accounts/account-store.ts";
import { UserBasic, wireAuthor } from "../accounts/accounts.schemas.ts";
import { Cohort } from "../cohorts/cohorts.schemas.ts";
import type { FlagRecord } from "../flags/flag-store.ts";
import { Refusal } from "../http/errors.ts";
import { ListOf, type Page, PageQuery } from "../http/pagination.ts";
import { readId } from "../http/path-id.ts";
import { presentFields } from "../http/present-fields.ts";
import { queryText } from "../http/query-text.ts";
import { readInstant, wireInstant, wireInstantOrNull } from "../http/wire-instant.ts";
import { AnyObject, maxChars, Nullable } from "../http/wire-schemas.ts";
import { type Ending, statusOf } from "./experiment-life.ts";
import {
  CONCLUSIONS,
  type ExperimentListQuery,
  type ExperimentOrder,
  type ExperimentRecord,
  type SavedMetricLink,
} from "./experiment-store.ts";
import type { ExperimentView } from "./experiment-view.ts";
import type { ExperimentChange } from "./experiments.ts";
import { exposureCriteriaOf } from "./exposure.schemas.ts";
import { shownParameters } from "./flag-of-experiment.ts";
import { WireHoldout, wireHoldout } from "./holdouts.schemas.ts";
import { checkMetric, MAX_METRICS_CHARS, METRIC_KINDS } from "./metric.schemas.ts";
import { identified } from "./metric-identity.ts";
import { checkStatsConfig } from "./stats-config.schemas.ts";

const instant = Type.Optional(Nullable(Type.String({ format: "date-time" })));

/** What a caller may write (posthog-api 5.1). Unknown fields are ignored. */
const writableFields = {
  description: Type.Optional(Nullable(Type.String())),
  start_date: instant,
  end_date: instant,
  parameters: Type.Optional(Nullable(AnyObject)),
  filters: Type.Optional(Nullable(AnyObject)),
  secondary_metrics: Type.Optional(
    Nullable(Type.Array(Type.Unknown()), maxChars(MAX_METRICS_CHARS)),
  ),
  archived: Type.Optional(Type.Boolean()),
  type: Type.Optional(Nullable(Type.Enum(["web", "product"]))),
  metrics: Type.Optional(Nullable(Type.Array(AnyObject), maxChars(MAX_METRICS_CHARS))),
  metrics_secondary: Type.Optional(Nullable(Type.Array(AnyObject), maxChars(MAX_METRICS_CHARS))),
  exposure_criteria: Type.Optional(Nullable(AnyObject, maxChars(MAX_METRICS_CHARS))),
  stats_config: Type.Optional(Nullable(AnyObject)),
  conclusion: Type.Optional(Nullable(Type.Enum([...CONCLUSIONS]))),
  conclusion_comment: Type.Optional(Nullable(Type.String())),
  primary_metrics_ordered_uuids: Type.Optional(Nullable(Type.Array(Type.String()))),
  secondary_metrics_ordered_uuids: Type.Optional(Nullable(Type.Array(Type.String()))),
  holdout_id: Type.Optional(Nullable(Type.Integer())),
  saved_metrics_ids: Type.Optional(
    Type.Unknown({
      description: "Shared metrics: a list of `{id, metadata: {type: primary or secondary}}`.",
    }),
  ),
};

const name = Type.String({ minLength: 1, maxLength: 400 });
const flagKey = Type.String({
  minLength: 1,
  maxLength: 400,
  description: "Key of the flag: one that has variants, or of a flag to be made.",
});

export const CreateExperimentBody = Type.Object({
  name,
  feature_flag_key: flagKey,
  ...writableFields,
});
export const ReplaceExperimentBody = CreateExperimentBody;
export const PatchExperimentBody = Type.Object({
  name: Type.Optional(name),
  feature_flag_key: Type.Optional(flagKey),
  deleted: Type.Optional(Nullable(Type.Boolean())),
  ...writableFields,
});

/** What a copy is called, and its flag where it is not that of the original. */
export const DuplicateExperimentBody = Type.Object({
  name: Type.Optional(name),
  feature_flag_key: Type.Optional(flagKey),
});

/** What is said of an ending. */
export const EndExperimentBody = Type.Object({
  conclusion: writableFields.conclusion,
  conclusion_comment: writableFields.conclusion_comment,
});

export const ShipVariantBody = Type.Object({
  variant_key: Type.String({ minLength: 1 }),
  ...EndExperimentBody.properties,
});

type ExperimentBody = Static<typeof PatchExperimentBody>;

/** What a validated body changes; throws a {@link Refusal} for what its schema cannot tell. */
export function experimentChangeOf(
  body: ExperimentBody,
  { timeZone, now }: { readonly timeZone: string; readonly now: Date },
): ExperimentChange {
  const filters = body.filters as JsonObject | null | undefined;
  if (filters && hasEntries(ownValue(filters, "properties"))) {
    throw new Refusal("invalid_input", "Experiments do not support global filter properties", {
      attr: "filters",
    });
  }
  const exposureCriteria = body.exposure_criteria as JsonObject | null | undefined;
  if (exposureCriteria) exposureCriteriaOf(exposureCriteria, timeZone);
  const statsConfig = body.stats_config as JsonObject | null | undefined;
  if (statsConfig) checkStatsConfig(statsConfig);
  return presentFields({
    name: body.name,
    description: body.description,
    startDate: readInstant(body.start_date, "start_date"),
    endDate: readInstant(body.end_date, "end_date"),
    parameters: body.parameters as JsonObject | null | undefined,
    filters,
    secondaryMetrics: body.secondary_metrics as readonly Json[] | null | undefined,
    archived: body.archived,
    type: body.type === null ? ("product" as const) : body.type,
    metrics: metricsOf(body.metrics as JsonObject[] | null | undefined, "metrics", timeZone),
    metricsSecondary: metricsOf(
      body.metrics_secondary as JsonObject[] | null | undefined,
      "metrics_secondary",
      timeZone,
    ),
    holdoutId: body.holdout_id,
    savedMetrics: savedMetricLinksOf(body.saved_metrics_ids, now),
    exposureCriteria,
    statsConfig,
    primaryOrder: body.primary_metrics_ordered_uuids,
    secondaryOrder: body.secondary_metrics_ordered_uuids,
    ...endingOf(body),
  });
}

/** What a body says of the ending. */
export function endingOf(body: Static<typeof EndExperimentBody>): Ending {
  return presentFields({
    conclusion: body.conclusion,
    conclusionComment: body.conclusion_comment,
  });
}

/** Metrics that can be measured, with a uuid and a fingerprint each. */
function metricsOf(
  metrics: readonly JsonObject[] | null | undefined,
  attr: string,
  timeZone: string,
): readonly JsonObject[] | undefined {
  if (metrics && metrics.length > MAX_METRICS)
    throw new Refusal("max_length", `Ensure this field has no more than ${MAX_METRICS} elements.`, {
      attr,
    });
  return metrics === null
    ? []
    : metrics?.map((metric, index) => {
        const kind = ownValue(metric, "kind");
        if (!METRIC_KINDS.some((known) => known === kind)) {
          throw new Refusal(
            "invalid_input",
            `Metric kind must be one of ${METRIC_KINDS.join(", ")}`,
            {
              attr: `${attr}__${index}__kind`,
            },
          );
        }
        checkMetric(metric, `${attr}__${index}`, timeZone);
        return identified(metric);
      });
}

const MAX_METRICS = 100;

const METRIC_TYPES: readonly Json[] = ["primary", "secondary"];

/** The shared metrics that a body names (posthog-api 5.2). */
function savedMetricLinksOf(sent: unknown, now: Date): readonly SavedMetricLink[] | undefined {
  // An experiment is answered with null here, which is no wish to take its metrics away.
  if (sent === undefined || sent === null) return undefined;
  const refuse = (detail: string, path = ""): Refusal =>
    new Refusal("invalid_input", detail, { attr: `saved_metrics_ids${path}` });
  if (!Array.isArray(sent)) throw refuse("Saved metrics must be a list");
  if (sent.length > MAX_SAVED_METRICS)
    throw refuse(`Ensure this field has no more than ${MAX_SAVED_METRICS} elements.`);
  const seen = new Set<number>();
  return (sent as Json[]).map((entry, index) => {
    const at = `__${index}`;
    if (!isJsonObject(entry)) throw refuse("Saved metric must be an object", at);
    const id = ownValue(entry, "id") ?? null;
    if (id === null) throw refuse("Saved metric must have an id", at);
    if (typeof id !== "number" || !Number.isInteger(id))
      throw refuse("A valid integer is required.", `${at}__id`);
    if (seen.has(id)) throw refuse("A saved metric is named once", at);
    seen.add(id);
    const metadata = ownValue(entry, "metadata") ?? null;
    if (metadata !== null) {
      if (!isJsonObject(metadata)) throw refuse("Metadata must be an object", `${at}__metadata`);
      const type = ownValue(metadata, "type");
      if (type === undefined) throw refuse("Metadata must have a type key", `${at}__metadata`);
      if (!METRIC_TYPES.includes(type))
        throw refuse("The type is primary or secondary", `${at}__metadata__type`);
    }
    return { savedMetricId: id, metadata, addedAt: wireInstant(now) };
  });
}

const MAX_SAVED_METRICS = 100;

function hasEntries(value: Json | undefined): boolean {
  return Array.isArray(value)
    ? value.length > 0
    : isJsonObject(value) && Object.keys(value).length > 0;
}

export const ExperimentListParameters = Type.Object({
  ...PageQuery,
  status: Type.Optional(
    Type.String({
      description: "`draft`, `running`, `paused`, `complete` (or `stopped`) or `all`.",
    }),
  ),
  archived: Type.Optional(Type.String({ description: "`true` or `false`; both unless given." })),
  created_by_id: Type.Optional(Type.String({ description: "Id of the user who made it." })),
  feature_flag_id: Type.Optional(Type.String({ description: "Id of the flag." })),
  search: Type.Optional(Type.String({ description: "Part of the name, whatever its case." })),
  order: Type.Optional(
    Type.String({ description: "A field to order by, `-` before it for descending order." }),
  ),
});

const ORDERS: Readonly<Record<string, ExperimentOrder>> = {
  created_at: "createdAt",
  updated_at: "updatedAt",
  name: "name",
  start_date: "startDate",
  end_date: "endDate",
  duration: "duration",
  status: "status",
};

const STAGES = {
  draft: "draft",
  running: "running",
  paused: "paused",
  complete: "ended",
  stopped: "ended",
} as const;

/** Reads the parameters of the list; what means nothing is ignored. */
export function experimentListQueryOf(
  parameters: unknown,
  { limit, offset }: Page,
): ExperimentListQuery {
  const text = (field: string) => queryText(parameters, field) || null;
  const status = text("status") ?? "";
  const archived = text("archived");
  const [, minus, column = ""] = /^(-?)(.*)$/.exec(text("order") ?? "") ?? [];
  const by = Object.hasOwn(ORDERS, column) ? ORDERS[column] : undefined;
  return {
    stage: Object.hasOwn(STAGES, status) ? STAGES[status as keyof typeof STAGES] : null,
    archived: archived === "true" || archived === "false" ? archived === "true" : null,
    search: text("search"),
    createdById: readId(text("created_by_id")) ?? null,
    flagId: readId(text("feature_flag_id")) ?? null,
    order: by ? { by, descending: minus === "-" } : { by: "createdAt", descending: true },
    limit,
    offset,
  };
}

/** The flag inside an experiment (interface 2.3). */
const ExperimentFlag = Type.Object({
  id: Type.Integer(),
  team_id: Type.Integer(),
  name: Type.String(),
  key: Type.String(),
  filters: AnyObject,
  deleted: Type.Boolean(),
  active: Type.Boolean(),
  ensure_experience_continuity: Type.Boolean(),
});

/** A shared metric as an experiment tells it. */
const WireSavedMetricLink = Type.Object(
  {
    id: Type.Integer(),
    experiment: Type.Integer(),
    saved_metric: Type.Integer(),
    metadata: Nullable(AnyObject),
    created_at: Type.String({ format: "date-time" }),
    query: AnyObject,
    name: Type.String(),
  },
  { title: "ExperimentToSavedMetric" },
);

/** An experiment as the management API answers it (posthog-api 5.1). */
export const Experiment = Type.Object(
  {
    id: Type.Integer(),
    name: Type.String(),
    description: Nullable(Type.String()),
    start_date: Nullable(Type.String({ format: "date-time" })),
    end_date: Nullable(Type.String({ format: "date-time" })),
    feature_flag_key: Type.String(),
    feature_flag: ExperimentFlag,
    exposure_cohort: Nullable(Type.Integer()),
    parameters: Nullable(AnyObject),
    secondary_metrics: Nullable(Type.Array(Type.Unknown())),
    filters: Nullable(AnyObject),
    archived: Type.Boolean(),
    created_by: Nullable(UserBasic),
    created_at: Type.String({ format: "date-time" }),
    updated_at: Type.String({ format: "date-time" }),
    type: Type.String(),
    status: Type.Enum(["draft", "running", "paused", "stopped"]),
    holdout: Nullable(WireHoldout),
    holdout_id: Nullable(Type.Integer()),
    saved_metrics: Type.Array(WireSavedMetricLink),
    saved_metrics_ids: Type.Null(),
    deleted: Type.Boolean(),
    exposure_criteria: Nullable(AnyObject),
    metrics: Type.Array(AnyObject),
    metrics_secondary: Type.Array(AnyObject),
    stats_config: Nullable(AnyObject),
    conclusion: Nullable(Type.Enum([...CONCLUSIONS])),
    conclusion_comment: Nullable(Type.String()),
    primary_metrics_ordered_uuids: Nullable(Type.Array(Type.String())),
    secondary_metrics_ordered_uuids: Nullable(Type.Array(Type.String())),
    user_access_level: Nullable(Type.String()),
  },
  { title: "Experiment" },
);

/** An experiment with the cohort that was made for it (decision 6). */
export const ExposureCohortAnswer = Type.Object({ ...Experiment.properties, cohort: Cohort });

/** Whether code asks for flags, and a list of running experiments that wait for theirs (decision 7). */
export const ImplementationAnswer = Type.Object({
  result: Type.Boolean(),
  ...ListOf(Experiment).properties,
});

/** The names in a JSON list of an insight's events; none where it is none. */
export function eventNamesOf(json: string | undefined): readonly string[] {
  try {
    const list: unknown = JSON.parse(json || "[]");
    if (!Array.isArray(list)) return [];
    return list.flatMap((entry: Json) => {
      const id = isJsonObject(entry) ? ownValue(entry, "id") : entry;
      return typeof id === "string" ? [id] : [];
    });
  } catch {
    return [];
  }
}

/** The users that an experiment's wire form names. */
export function authorsOf({ experiment, holdout }: ExperimentView): readonly (number | null)[] {
  return [experiment.createdById, holdout?.createdById ?? null];
}

/** The wire form of an experiment; `usersById` holds its author where it still exists. */
export function wireExperiment(
  view: ExperimentView,
  usersById: ReadonlyMap<number, User>,
): Static<typeof Experiment> {
  const { experiment, flag } = view;
  return {
    id: experiment.id,
    name: experiment.name,
    description: experiment.description,
    start_date: wireInstantOrNull(experiment.startDate),
    end_date: wireInstantOrNull(experiment.endDate),
    feature_flag_key: flag.key,
    feature_flag: wireFlagOf(flag),
    exposure_cohort: experiment.exposureCohortId,
    parameters: shownParameters(experiment.parameters, flag.filters),
    secondary_metrics: listOrNull(experiment.secondaryMetrics),
    filters: experiment.filters,
    archived: experiment.archived,
    created_by: wireAuthor(experiment.createdById, usersById),
    created_at: wireInstant(experiment.createdAt),
    updated_at: wireInstant(experiment.updatedAt),
    type: experiment.type,
    status: statusOf(view),
    holdout: view.holdout && wireHoldout(view.holdout, usersById),
    holdout_id: view.holdout?.id ?? null,
    saved_metrics: view.savedMetrics.map(({ link, metric }) => ({
      id: metric.id,
      experiment: experiment.id,
      saved_metric: metric.id,
      metadata: link.metadata,
      created_at: link.addedAt,
      query: metric.query,
      name: metric.name,
    })),
    saved_metrics_ids: null,
    deleted: experiment.deleted,
    exposure_criteria: experiment.exposureCriteria,
    metrics: [...experiment.metrics],
    metrics_secondary: [...experiment.metricsSecondary],
    stats_config: experiment.statsConfig,
    conclusion: experiment.conclusion,
    conclusion_comment: experiment.conclusionComment,
    primary_metrics_ordered_uuids: textsOrNull(experiment.primaryOrder),
    secondary_metrics_ordered_uuids: textsOrNull(experiment.secondaryOrder),
    user_access_level: "editor",
  };
}

function wireFlagOf(flag: FlagRecord): Static<typeof ExperimentFlag> {
  return {
    id: flag.id,
    team_id: flag.projectId,
    name: flag.name,
    key: flag.key,
    filters: flag.filters,
    deleted: flag.deleted,
    active: flag.active,
    ensure_experience_continuity: flag.ensureExperienceContinuity,
  };
}

function listOrNull(values: ExperimentRecord["secondaryMetrics"]): unknown[] | null {
  return values === null ? null : [...values];
}

function textsOrNull(values: readonly string[] | null): string[] | null {
  return values === null ? null : [...values];
}
