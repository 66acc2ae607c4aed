import { createHash, randomUUID } from "node:crypto";
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
import { AnyObject, Nullable } from "../http/wire-schemas.ts";
import {
  CONCLUSIONS,
  type ExperimentListQuery,
  type ExperimentOrder,
  type ExperimentRecord,
} from "./experiment-store.ts";
import {
  type Ending,
  type ExperimentChange,
  type ExperimentView,
  statusOf,
} from "./experiments.ts";
import { shownParameters } from "./flag-of-experiment.ts";

const instant = Type.Optional(Nullable(Type.String({ format: "date-time" })));

/** What a caller may write (posthog-api 5.1). Unknown fields are ignored. */
const writableFields = {
  description: Type.Optional(Nullable(Type.String())),
  start_date: instant,
  end_date: instant,
  parameters: Type.Optional(Nullable(AnyObject)),
  filters: Type.Optional(Nullable(AnyObject)),
  secondary_metrics: Type.Optional(Nullable(Type.Array(Type.Unknown()))),
  archived: Type.Optional(Type.Boolean()),
  type: Type.Optional(Nullable(Type.Enum(["web", "product"]))),
  metrics: Type.Optional(Nullable(Type.Array(AnyObject))),
  metrics_secondary: Type.Optional(Nullable(Type.Array(AnyObject))),
  exposure_criteria: Type.Optional(Nullable(AnyObject)),
  stats_config: Type.Optional(Nullable(AnyObject)),
  conclusion: Type.Optional(Nullable(Type.Enum([...CONCLUSIONS]))),
  conclusion_comment: Type.Optional(Nullable(Type.String())),
  primary_metrics_ordered_uuids: Type.Optional(Nullable(Type.Array(Type.String()))),
  secondary_metrics_ordered_uuids: Type.Optional(Nullable(Type.Array(Type.String()))),
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
export function experimentChangeOf(body: ExperimentBody): ExperimentChange {
  const filters = body.filters as JsonObject | null | undefined;
  if (filters && hasEntries(ownValue(filters, "properties"))) {
    throw new Refusal("invalid_input", "Experiments do not support global filter properties", {
      attr: "filters",
    });
  }
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
    metrics: metricsOf(body.metrics as JsonObject[] | null | undefined, "metrics"),
    metricsSecondary: metricsOf(
      body.metrics_secondary as JsonObject[] | null | undefined,
      "metrics_secondary",
    ),
    exposureCriteria: body.exposure_criteria as JsonObject | null | undefined,
    statsConfig: body.stats_config as JsonObject | null | undefined,
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

const METRIC_KINDS = ["ExperimentMetric", "ExperimentTrendsQuery", "ExperimentFunnelsQuery"];

/** Metrics with a uuid each, which clients name them by, and a fingerprint of what they measure. */
function metricsOf(
  metrics: readonly JsonObject[] | null | undefined,
  attr: string,
): readonly JsonObject[] | undefined {
  return metrics === null
    ? []
    : metrics?.map((metric, index) => {
        const kind = ownValue(metric, "kind");
        if (typeof kind !== "string" || !METRIC_KINDS.includes(kind)) {
          throw new Refusal(
            "invalid_input",
            `Metric kind must be one of ${METRIC_KINDS.join(", ")}`,
            {
              attr: `${attr}__${index}__kind`,
            },
          );
        }
        const { uuid, fingerprint: _, name: __, ...measured } = metric;
        const fingerprint = createHash("sha256").update(canonicalText(measured)).digest("hex");
        return { ...metric, uuid: typeof uuid === "string" ? uuid : randomUUID(), fingerprint };
      });
}

/** JSON with the keys of objects in order, so that equal values have equal texts. */
function canonicalText(value: Json): string {
  if (Array.isArray(value)) return `[${(value as Json[]).map(canonicalText).join(",")}]`;
  if (!isJsonObject(value))
    return typeof value === "bigint" ? String(value) : JSON.stringify(value);
  const entries = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1));
  return `{${entries.map(([key, item]) => `${JSON.stringify(key)}:${canonicalText(item)}`).join(",")}}`;
}

function hasEntries(value: Json | undefined): boolean {
  return Array.isArray(value)
    ? value.length > 0
    : isJsonObject(value) && Object.keys(value).length > 0;
}

export const ExperimentListParameters = Type.Object({
  ...PageQuery,
  status: Type.Optional(
    Type.String({ description: "`draft`, `running`, `complete` (or `stopped`) or `all`." }),
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
};

const STAGES = {
  draft: "draft",
  running: "launched",
  paused: "launched",
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
    holdout: Type.Null(),
    holdout_id: Type.Null(),
    saved_metrics: Type.Array(Type.Unknown()),
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
    // Holdouts and shared metrics have no records of their own yet; clients expect the fields.
    holdout: null,
    holdout_id: null,
    saved_metrics: [],
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
