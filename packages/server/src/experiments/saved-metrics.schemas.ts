import type { JsonObject } from "@hedgerow/core/json";
import { type Static, Type } from "typebox";
import type { User } from "../accounts/account-store.ts";
import { UserBasic, wireAuthor } from "../accounts/accounts.schemas.ts";
import { Refusal } from "../http/errors.ts";
import { presentFields } from "../http/present-fields.ts";
import { wireInstant } from "../http/wire-instant.ts";
import { AnyObject, MapOf, maxChars, Nullable } from "../http/wire-schemas.ts";
import { checkMetric, MAX_METRICS_CHARS } from "./metric.schemas.ts";
import { identified } from "./metric-identity.ts";
import type { SavedMetric, SavedMetricChange } from "./saved-metrics.ts";

const writableFields = {
  description: Type.Optional(Nullable(Type.String({ maxLength: 400 }))),
  query: Type.Optional(
    Nullable(
      MapOf(Type.Unknown(), { description: "The metric, with its `kind`." }),
      maxChars(MAX_METRICS_CHARS),
    ),
  ),
  tags: Type.Optional(Type.Array(Type.String({ maxLength: 255 }), { maxItems: 100 })),
};
const name = Type.String({ minLength: 1, maxLength: 400 });

export const CreateSavedMetricBody = Type.Object({ name, ...writableFields });
export const PatchSavedMetricBody = Type.Object({ name: Type.Optional(name), ...writableFields });

/** A shared metric as the management API answers it (posthog-api 5.14). */
export const WireSavedMetric = Type.Object(
  {
    id: Type.Integer(),
    name: Type.String(),
    description: Nullable(Type.String()),
    query: AnyObject,
    created_by: Nullable(UserBasic),
    created_at: Type.String({ format: "date-time" }),
    updated_at: Type.String({ format: "date-time" }),
    tags: Type.Array(Type.String()),
  },
  { title: "ExperimentSavedMetric" },
);

const KINDS = ["ExperimentMetric", "ExperimentTrendsQuery", "ExperimentFunnelsQuery"];

/** What a validated body changes; throws a {@link Refusal} for what its schema cannot tell. */
export function savedMetricChangeOf(
  body: Static<typeof PatchSavedMetricBody>,
  timeZone: string,
): SavedMetricChange {
  return presentFields({
    name: body.name,
    description: body.description,
    query:
      body.query === undefined ? undefined : queryOf((body.query ?? {}) as JsonObject, timeZone),
    tags: body.tags && [...new Set(body.tags.map((tag) => tag.trim().toLowerCase()))],
  });
}

/** The metric of a new record, which must be there. */
export function newQueryOf({ query }: SavedMetricChange): JsonObject {
  if (query) return query;
  throw refuse("Query is required to create a saved metric");
}

function queryOf(query: JsonObject, timeZone: string): JsonObject {
  if (Object.keys(query).length === 0) throw refuse("Query is required to create a saved metric");
  const { kind, metric_type } = query;
  if (typeof kind !== "string" || !KINDS.includes(kind)) {
    throw refuse(
      "Metric query kind must be 'ExperimentMetric', 'ExperimentTrendsQuery' or 'ExperimentFunnelsQuery'",
    );
  }
  if (kind === "ExperimentMetric" && (metric_type ?? null) === null)
    throw refuse("ExperimentMetric requires a metric_type");
  checkMetric(query, "query", timeZone);
  return identified(query);
}

function refuse(detail: string): Refusal {
  return new Refusal("invalid_input", detail, { attr: "query" });
}

/** The wire form of a shared metric; `usersById` holds its author where it still exists. */
export function wireSavedMetric(
  metric: SavedMetric,
  usersById: ReadonlyMap<number, User>,
): Static<typeof WireSavedMetric> {
  return {
    id: metric.id,
    name: metric.name,
    description: metric.description,
    query: metric.query,
    created_by: wireAuthor(metric.createdById, usersById),
    created_at: wireInstant(metric.createdAt),
    updated_at: wireInstant(metric.updatedAt),
    tags: [...metric.tags],
  };
}
