import {
  type FunnelExclusion,
  type MeasuredEvent,
  type Metric,
  TIME_UNIT_MS,
  type TimeUnit,
} from "@hedgerow/core/experiments/metric";
import { isJsonObject, type Json, type JsonObject, ownValue } from "@hedgerow/core/json";
import { eventOf, MAX_STEPS, nodesOf, sourceOf } from "./event-node.schemas.ts";
import { choiceOf, inside, missing, numberOf, type Place, refuse } from "./wire-place.ts";

/** Most characters of metrics in one field. */
export const MAX_METRICS_CHARS = 500_000;
const MAX_WINDOW_MS = 100 * 366 * TIME_UNIT_MS.day;

/** The kinds of metrics that experiments are sent (posthog-api 5.2). */
export const METRIC_KINDS = [
  "ExperimentMetric",
  "ExperimentTrendsQuery",
  "ExperimentFunnelsQuery",
] as const;

/** A metric of any kind; throws a {@link Refusal} naming the field. */
export function anyMetricOf(sent: JsonObject, attr: string, timeZone: string): Metric {
  return sent.kind === "ExperimentTrendsQuery" || sent.kind === "ExperimentFunnelsQuery"
    ? queryMetricOf(sent, attr, timeZone)
    : metricOf(sent, attr, timeZone);
}

/** Throws a {@link Refusal} naming the field that keeps a metric from being measured. */
export function checkMetric(sent: JsonObject, attr: string, timeZone: string): void {
  anyMetricOf(sent, attr, timeZone);
  breakdownOf(sent, attr);
}

/** An `ExperimentMetric` (posthog-api 5.14, statistics 1.2); throws a {@link Refusal} naming the field. */
export function metricOf(sent: JsonObject, attr: string, timeZone: string): Metric {
  const place = { object: sent, attr, timeZone };
  const kind = choiceOf(place, "kind", ["ExperimentMetric"]);
  if (kind === undefined) throw missing(place, "kind");
  const type = choiceOf(place, "metric_type", ["mean", "funnel", "ratio", "retention", "quantile"]);
  const common = {
    goal: choiceOf(place, "goal", ["increase", "decrease"]) ?? "increase",
    conversionWindowMs: windowOf(place),
  };
  switch (type) {
    case "mean":
      return {
        ...common,
        kind: type,
        source: sourceOf(inside(place, "source")),
        winsorization: winsorizationOf(place),
      };
    case "quantile": {
      const quantile = numberOf(place, "quantile", { least: 0, most: 1, isOpen: true });
      if (quantile === undefined) throw missing(place, "quantile");
      return {
        ...common,
        kind: type,
        source: sourceOf(inside(place, "source")),
        quantile,
        ignoresZeros: ownValue(sent, "ignore_zeros") === true,
      };
    }
    case "ratio":
      return {
        ...common,
        kind: type,
        numerator: sourceOf(inside(place, "numerator")),
        denominator: sourceOf(inside(place, "denominator")),
      };
    case "funnel": {
      const steps = nodesOf(place).map((node) => eventOf(node));
      const order = choiceOf(place, "funnel_order_type", ["ordered", "unordered"]) ?? "ordered";
      return { ...common, kind: type, steps, order, ...exclusionsOf(place, { steps, order }) };
    }
    case "retention": {
      const windowStart = numberOf(place, "retention_window_start", { least: 0 });
      const windowEnd = numberOf(place, "retention_window_end", { least: 0 });
      if (windowStart === undefined) throw missing(place, "retention_window_start");
      if (windowEnd === undefined) throw missing(place, "retention_window_end");
      if (windowEnd < windowStart)
        throw refuse(place, "retention_window_end", "The window ends before it starts.");
      return {
        ...common,
        kind: type,
        start: eventOf(inside(place, "start_event")),
        completion: eventOf(inside(place, "completion_event")),
        windowStart,
        windowEnd,
        unit: unitOf(place, "retention_window_unit"),
        startHandling:
          choiceOf(place, "start_handling", ["first_seen", "last_seen"]) ?? "first_seen",
      };
    }
    case undefined:
      throw missing(place, "metric_type");
  }
}

/**
 * The metric of an `ExperimentTrendsQuery` or `ExperimentFunnelsQuery` (posthog-api 5.11): the number of
 * the first event of `count_query`, or the steps of `funnels_query`.
 */
export function queryMetricOf(sent: JsonObject, attr: string, timeZone: string): Metric {
  const place = { object: sent, attr, timeZone };
  const common = { goal: "increase" as const };
  if (sent.kind === "ExperimentTrendsQuery") {
    const [first] = nodesOf(inside(place, "count_query"));
    const source = sourceOf(first);
    return { ...common, kind: "mean", conversionWindowMs: null, source, winsorization: null };
  }
  const query = inside(place, "funnels_query");
  const filter =
    (ownValue(query.object, "funnelsFilter") ?? null) === null
      ? { ...query, object: {} }
      : inside(query, "funnelsFilter");
  const window = numberOf(filter, "funnelWindowInterval", { least: 0, isOpen: true });
  const units = Object.keys(TIME_UNIT_MS) as TimeUnit[];
  const unit = choiceOf(filter, "funnelWindowIntervalUnit", units);
  const order = choiceOf(filter, "funnelOrderType", ["ordered", "unordered", "strict"]);
  if (order === "strict")
    throw refuse(filter, "funnelOrderType", "Steps are measured ordered or unordered.");
  const funnel = {
    steps: nodesOf(query).map((node) => eventOf(node)),
    order: order ?? ("ordered" as const),
  };
  return {
    ...common,
    kind: "funnel",
    conversionWindowMs: Math.round((window ?? DEFAULT_WINDOW) * TIME_UNIT_MS[unit ?? "day"]),
    ...funnel,
    ...exclusionsOf(filter, funnel),
  };
}

/** Days between the exposure and the last step of a former funnel that names no window. */
const DEFAULT_WINDOW = 14;

/**
 * The metric of an insight, the form that experiments had before (posthog-api 5.4): the steps of a
 * funnel, or the number of the first event of a trend. `undefined` where it names nothing to measure.
 */
export function insightMetricOf(
  filters: JsonObject | null,
  attr: string,
  timeZone: string,
): Metric | undefined {
  if (filters === null || Object.keys(filters).length === 0) return undefined;
  const place = { object: filters, attr, timeZone };
  const insight = choiceOf(place, "insight", ["FUNNELS", "TRENDS"]) ?? "FUNNELS";
  const actions = ownValue(filters, "actions") ?? [];
  if (Array.isArray(actions) && actions.length > 0)
    throw refuse(place, "actions", "Actions cannot be measured: name their events.");
  const sent = ownValue(filters, "events") ?? [];
  if (!Array.isArray(sent)) throw refuse(place, "events", "Expected a list of items.");
  if (sent.length === 0) return undefined;
  if (sent.length > MAX_STEPS)
    throw refuse(place, "events", `A funnel has at most ${MAX_STEPS} steps.`);
  const nodes = (sent as readonly Json[])
    .map((event, index) => {
      if (!isJsonObject(event)) throw refuse(place, `events__${index}`, "Expected an object.");
      const { id = null, ...rest } = event;
      const object: JsonObject = { ...rest, kind: "EventsNode", event: id };
      return {
        order: ownValue(event, "order"),
        node: { ...place, object, attr: `${attr}__events__${index}` },
      };
    })
    .toSorted((left, right) => Number(left.order ?? 0) - Number(right.order ?? 0))
    .map(({ node }) => node);
  const common = { goal: "increase" as const };
  if (insight === "TRENDS") {
    const [first] = nodes;
    if (!first) return undefined;
    const source = sourceOf(first);
    return { ...common, kind: "mean", conversionWindowMs: null, source, winsorization: null };
  }
  const window = numberOf(place, "funnel_window_interval", { least: 0, isOpen: true });
  const unit = choiceOf(
    place,
    "funnel_window_interval_unit",
    Object.keys(TIME_UNIT_MS) as TimeUnit[],
  );
  const steps = nodes.map((node) => eventOf(node));
  const order = choiceOf(place, "funnel_order_type", ["ordered", "unordered"]) ?? "ordered";
  return {
    ...common,
    kind: "funnel",
    conversionWindowMs: Math.round((window ?? DEFAULT_WINDOW) * TIME_UNIT_MS[unit ?? "day"]),
    steps,
    order,
    ...exclusionsOf(place, { steps, order }),
  };
}

const MAX_EXCLUSIONS = 10;

/**
 * The `exclusions` of a funnel: events that end a way through it between two of its steps, which
 * `funnelFromStep` and `funnelToStep` (`funnel_from_step`, `funnel_to_step` in insights) tell by their
 * place in the series; -1 is the exposure.
 */
function exclusionsOf(
  place: Place,
  { steps, order }: { readonly steps: readonly MeasuredEvent[]; readonly order: string },
): { readonly exclusions?: readonly FunnelExclusion[] } {
  const sent = ownValue(place.object, "exclusions") ?? [];
  if (!Array.isArray(sent)) throw refuse(place, "exclusions", "Expected a list of items.");
  if (sent.length === 0) return {};
  if (order !== "ordered")
    throw refuse(place, "exclusions", "Only steps in order have exclusions between them.");
  if (sent.length > MAX_EXCLUSIONS)
    throw refuse(place, "exclusions", `A funnel has at most ${MAX_EXCLUSIONS} exclusions.`);
  const exclusions = (sent as readonly Json[]).map((one, index): FunnelExclusion => {
    const at = `exclusions__${index}`;
    if (!isJsonObject(one)) throw refuse(place, at, "Expected an object.");
    const { id = null } = one;
    const isNode = ownValue(one, "kind") !== undefined;
    const object: JsonObject = isNode ? one : { ...one, kind: "EventsNode", event: id };
    const node = { ...place, object, attr: `${place.attr}__${at}` };
    const from = stepNumberOf(node, ["funnelFromStep", "funnel_from_step"], steps.length);
    const to = stepNumberOf(node, ["funnelToStep", "funnel_to_step"], steps.length);
    if (to <= from) throw refuse(node, "funnelToStep", "The last step is not after the first one.");
    return { events: eventOf(node), from, to };
  });
  return { exclusions };
}

/** A step by its place in the series, 1 being the first one. */
function stepNumberOf(place: Place, fields: readonly [string, string], stepCount: number): number {
  const field = fields.find((one) => (ownValue(place.object, one) ?? null) !== null);
  if (field === undefined) throw missing(place, fields[0]);
  const step = numberOf(place, field, { least: -1, most: stepCount - 1 });
  if (step === undefined || !Number.isInteger(step))
    throw refuse(place, field, "A valid integer is required.");
  return step + 1;
}

/**
 * The property that a metric is broken down by: the one of `breakdownFilter`, in the form of `breakdowns`
 * or of `breakdown`; `null` for none.
 */
export function breakdownOf(sent: JsonObject, attr: string): string | null {
  if ((ownValue(sent, "breakdownFilter") ?? null) === null) return null;
  const place = inside({ object: sent, attr, timeZone: "UTC" }, "breakdownFilter");
  const several = ownValue(place.object, "breakdowns") ?? null;
  if (several !== null && !Array.isArray(several))
    throw refuse(place, "breakdowns", "Expected a list of items.");
  if (Array.isArray(several) && several.length > 1)
    throw refuse(place, "breakdowns", "Metrics are broken down by one property.");
  const [first] = (several ?? []) as readonly Json[];
  if (first === undefined) {
    choiceOf(place, "breakdown_type", ["event"]);
    return propertyNameOf(place, "breakdown");
  }
  if (!isJsonObject(first)) throw refuse(place, "breakdowns__0", "Expected an object.");
  const one = { ...place, object: first, attr: `${place.attr}__breakdowns__0` };
  choiceOf(one, "type", ["event"]);
  const property = propertyNameOf(one, "property");
  if (property === null) throw missing(one, "property");
  return property;
}

function propertyNameOf(place: Place, field: string): string | null {
  const property = ownValue(place.object, field) ?? null;
  if (property === null || (typeof property === "string" && property !== "")) return property;
  throw refuse(place, field, "Not a valid string.");
}

function windowOf(place: Place): number | null {
  const window = numberOf(place, "conversion_window", { least: 0, isOpen: true });
  if (window === undefined) return null;
  const windowMs = Math.round(window * TIME_UNIT_MS[unitOf(place, "conversion_window_unit")]);
  if (windowMs > MAX_WINDOW_MS || windowMs < 1)
    throw refuse(place, "conversion_window", "The window is from a millisecond to 100 years.");
  return windowMs;
}

function unitOf(place: Place, field: string): TimeUnit {
  const unit = choiceOf(place, field, Object.keys(TIME_UNIT_MS) as TimeUnit[]);
  if (unit === undefined) throw missing(place, field);
  return unit;
}

function winsorizationOf(place: Place) {
  const share = { least: 0, most: 1 };
  const lowerPercentile = numberOf(place, "lower_bound_percentile", share) ?? null;
  const upperPercentile = numberOf(place, "upper_bound_percentile", share) ?? null;
  if (lowerPercentile === null && upperPercentile === null) return null;
  if (lowerPercentile !== null && upperPercentile !== null && lowerPercentile > upperPercentile)
    throw refuse(place, "upper_bound_percentile", "The upper bound is below the lower one.");
  const ignoreZeros = ownValue(place.object, "ignore_zeros") === true;
  return { lowerPercentile, upperPercentile, ignoreZeros };
}
