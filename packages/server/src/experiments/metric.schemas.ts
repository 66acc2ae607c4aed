import {
  type FunnelExclusion,
  type Measure,
  type MeasuredEvent,
  type MeasuredProperty,
  type MeasureSource,
  type Metric,
  TIME_UNIT_MS,
  type TimeUnit,
} from "@hedgerow/core/experiments/metric";
import type { Operator } from "@hedgerow/core/flags/match-property";
import { validateComparison } from "@hedgerow/core/flags/validate-comparison";
import { isJsonObject, type Json, type JsonObject, ownValue } from "@hedgerow/core/json";
import type { PosthogMethod } from "@hedgerow/core/statistics/posthog-analysis";
import { FLAG_CALLED } from "../flags/flag-calls.ts";
import { Refusal } from "../http/errors.ts";
import { notAnInstant, readInstant } from "../http/wire-instant.ts";
import { type ExposureCriteria, USUAL_CRITERIA } from "./analyse-experiment.ts";
import { DEFAULT_TUNING } from "./analyse-measured.ts";
import type { BalancedSettings } from "./balanced-numbers.ts";
import type { ExperimentRecord } from "./experiment-store.ts";

const MAX_STEPS = 20;
const MAX_FILTERS = 100;
const MAX_WINDOW_MS = 100 * 366 * TIME_UNIT_MS.day;

/** An object on the wire, where it stands, and how dates in it are read. */
interface Place {
  readonly object: JsonObject;
  readonly attr: string;
  readonly timeZone: string;
}

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

/** What exposes by the `exposure_query` of an `ExperimentTrendsQuery`; `null` for none of its own. */
export function exposureOfQuery(
  sent: JsonObject,
  attr: string,
  timeZone: string,
): MeasuredEvent | null {
  if ((ownValue(sent, "exposure_query") ?? null) === null) return null;
  const [first] = nodesOf(inside({ object: sent, attr, timeZone }, "exposure_query"));
  const event = eventOf(first);
  return event.event === FLAG_CALLED ? null : event;
}

/** The nodes of a query's series, of which there is one at least. */
function nodesOf(query: Place): readonly [Place, ...Place[]] {
  const series = ownValue(query.object, "series");
  if (series === undefined || series === null) throw missing(query, "series");
  if (!Array.isArray(series)) throw refuse(query, "series", "Expected a list of items.");
  if (series.length > MAX_STEPS)
    throw refuse(query, "series", `A funnel has at most ${MAX_STEPS} steps.`);
  const [first, ...others] = (series as readonly Json[]).map((node, index): Place => {
    if (!isJsonObject(node)) throw refuse(query, `series__${index}`, "Expected an object.");
    return { ...query, object: node, attr: `${query.attr}__series__${index}` };
  });
  if (!first) throw refuse(query, "series", "There must be at least one event.");
  return [first, ...others];
}

/** Days between the exposure and the last step of a former funnel that names no window. */
const DEFAULT_WINDOW = 14;

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

/** How long before its exposure a unit is looked at unless `cuped` says; PostHog's default and bounds. */
const LOOKBACK_DAYS = { usual: 14, least: 1, most: 30 };

/** The look-back of `cuped` in an experiment's `stats_config` (statistics 1.6); `null` where it is off. */
export function lookbackOf(statsConfig: JsonObject | null): number | null {
  const config = { object: statsConfig ?? {}, attr: "stats_config", timeZone: "UTC" };
  if ((ownValue(config.object, "cuped") ?? null) === null) return null;
  const place = inside(config, "cuped");
  const { usual, least, most } = LOOKBACK_DAYS;
  const days = numberOf(place, "lookback_days", { least: 0 }) ?? usual;
  if (ownValue(place.object, "enabled") !== true) return null;
  return Math.round(Math.min(most, Math.max(least, days)) * TIME_UNIT_MS.day);
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

/** An experiment's `exposure_criteria` (posthog-api 5.14). */
export function exposureCriteriaOf(sent: JsonObject | null, timeZone: string): ExposureCriteria {
  if (sent === null) return USUAL_CRITERIA;
  const place = { object: sent, attr: "exposure_criteria", timeZone };
  const handling = choiceOf(place, "multiple_variant_handling", ["exclude", "first_seen"]);
  const config = ownValue(sent, "exposure_config") ?? null;
  return {
    severalVariants: handling === "first_seen" ? "first-seen" : "exclude",
    ...epochOf(sent),
    ...(ownValue(sent, "filterTestAccounts") === true && { filterTestAccounts: true }),
    marker:
      config === null
        ? null
        : eventOf(inside(place, "exposure_config"), ["ExperimentEventExposureConfig"]),
  };
}

/** Since when exposures count, where counting began anew: `exposure_epoch` of the criteria. */
function epochOf(sent: JsonObject): Pick<ExposureCriteria, "epoch"> {
  const epoch = ownValue(sent, "exposure_epoch") ?? null;
  if (epoch === null) return {};
  const attr = "exposure_criteria__exposure_epoch";
  if (typeof epoch !== "string") throw notAnInstant(attr);
  return { epoch: readInstant<never>(epoch, attr) };
}

/**
 * What exposes to an experiment: its `exposure_criteria`, or the event of the older
 * `parameters.custom_exposure_filter` where these name none (posthog-api 5.3).
 */
export function exposureOf(
  { exposureCriteria, parameters }: Pick<ExperimentRecord, "exposureCriteria" | "parameters">,
  timeZone: string,
): ExposureCriteria {
  const criteria = exposureCriteriaOf(exposureCriteria, timeZone);
  const custom = ownValue(parameters ?? {}, "custom_exposure_filter") ?? null;
  if (criteria.marker !== null || custom === null) return criteria;
  const attr = "parameters__custom_exposure_filter";
  const place = { object: parameters ?? {}, attr: "parameters", timeZone };
  if (!isJsonObject(custom)) throw refuse(place, "custom_exposure_filter", "Expected an object.");
  const filter = { ...custom, insight: "FUNNELS" };
  const metric = insightMetricOf(filter, attr, timeZone);
  const [marker = null] = metric?.kind === "funnel" ? metric.steps : [];
  return { ...criteria, marker: marker?.event === FLAG_CALLED ? null : marker };
}

/** An experiment's `stats_config`, with what PostHog takes for what it does not say (statistics 1.8). */
export function methodOf(sent: JsonObject | null): PosthogMethod {
  const place = { object: sent ?? {}, attr: "stats_config", timeZone: "UTC" };
  const method = choiceOf(place, "method", ["bayesian", "frequentist"]) ?? "bayesian";
  const options = (ownValue(place.object, method) ?? null) === null ? null : inside(place, method);
  const share = { least: 0, most: 1, isOpen: true };
  if (options === null) return { method, level: 0.95, difference: "relative" };
  const difference =
    choiceOf(options, "difference_type", ["relative", "absolute"]) ?? ("relative" as const);
  if (method === "bayesian")
    return { method, level: numberOf(options, "ci_level", share) ?? 0.95, difference };
  const tuning = numberOf(options, "sequential_tuning_parameter", {
    least: 0,
    most: 1e12,
    isOpen: true,
  });
  return {
    method,
    // A smaller alpha leaves nothing beside the level.
    level: 1 - (numberOf(options, "alpha", { ...share, least: Number.EPSILON }) ?? 0.05),
    difference,
    ...(ownValue(options.object, "sequential_testing_enabled") === true && {
      sequentialTuning: tuning ?? DEFAULT_TUNING,
    }),
  };
}

/** Throws a {@link Refusal} naming the field of a `stats_config` that cannot be. */
export function checkStatsConfig(sent: JsonObject): void {
  methodOf(sent);
  lookbackOf(sent);
  balancedSettingsOf(sent, null, null);
}

/** Looks that a plan has at most. */
const MAX_LOOKS = 30;
/** Looks nearer to each other than this share of the units are one look. */
const MIN_LOOK_GAP = 0.01;

/**
 * What an experiment wants of our own numbers, under `balanced` of its `stats_config`: `prior` (`mean`
 * and `sd` of the logarithm of the ratio), `power`, `minimum_detectable_effect` in percent (that of
 * `parameters` unless given), and `planned_looks` (`spending` `obrien_fleming`, `pocock` or `power` with
 * `phi`; `looks` or `fractions`; `final_units`). A metric with a `non_inferiority_margin` is a guardrail.
 */
export function balancedSettingsOf(
  statsConfig: JsonObject | null,
  parameters: JsonObject | null,
  metric: { readonly sent: JsonObject; readonly attr: string } | null,
): BalancedSettings {
  const config = { object: statsConfig ?? {}, attr: "stats_config", timeZone: "UTC" };
  const place =
    (ownValue(config.object, "balanced") ?? null) === null
      ? { ...config, object: {} }
      : inside(config, "balanced");
  const share = { least: 0, most: 1, isOpen: true };
  const percentage = { least: 0, most: 1e6, isOpen: true };
  // Whatever stood in `parameters` before stays there unchecked.
  const usual = ownValue(parameters ?? {}, "minimum_detectable_effect");
  const target =
    numberOf(place, "minimum_detectable_effect", percentage) ??
    (typeof usual === "number" && usual > 0 ? usual : null);
  const margin = metric
    ? numberOf(
        { ...config, object: metric.sent, attr: metric.attr },
        "non_inferiority_margin",
        share,
      )
    : undefined;
  return {
    prior: priorOf(place),
    margin: margin ?? null,
    power: numberOf(place, "power", share) ?? 0.8,
    target: target === null ? null : target / 100,
    plan: planOf(place),
  };
}

function priorOf(place: Place): BalancedSettings["prior"] {
  if ((ownValue(place.object, "prior") ?? null) === null) return null;
  const prior = inside(place, "prior");
  const sd = numberOf(prior, "sd", { least: 0, most: 100, isOpen: true });
  if (sd === undefined) throw missing(prior, "sd");
  return { mean: numberOf(prior, "mean", { least: -100, most: 100 }) ?? 0, variance: sd * sd };
}

function planOf(place: Place): BalancedSettings["plan"] {
  if ((ownValue(place.object, "planned_looks") ?? null) === null) return null;
  const plan = inside(place, "planned_looks");
  const kind = choiceOf(plan, "spending", ["obrien_fleming", "pocock", "power"]);
  const finalUnits = numberOf(plan, "final_units", { least: 2 });
  if (finalUnits === undefined) throw missing(plan, "final_units");
  const phi = numberOf(plan, "phi", { least: 0, most: 100, isOpen: true });
  const spending =
    kind === "power"
      ? { kind, phi: phi ?? 1 }
      : { kind: kind === "pocock" ? ("pocock" as const) : ("obf" as const) };
  return { spending, finalUnits, fractions: fractionsOf(plan) };
}

function fractionsOf(plan: Place): readonly number[] {
  const sent = ownValue(plan.object, "fractions") ?? null;
  if (sent === null) {
    const looks = numberOf(plan, "looks", { least: 1, most: MAX_LOOKS });
    if (looks === undefined) throw missing(plan, "looks");
    if (!Number.isInteger(looks)) throw refuse(plan, "looks", "A valid integer is required.");
    return Array.from({ length: looks }, (_, index) => (index + 1) / looks);
  }
  if (!Array.isArray(sent) || sent.length === 0 || sent.length > MAX_LOOKS)
    throw refuse(plan, "fractions", `Expected a list of 1 to ${MAX_LOOKS} numbers.`);
  const fractions = sent as readonly Json[];
  fractions.forEach((fraction, index) => {
    const before = index === 0 ? 0 : fractions[index - 1];
    if (
      typeof fraction !== "number" ||
      !(fraction - Number(before) >= MIN_LOOK_GAP && fraction <= 1)
    )
      throw refuse(
        plan,
        `fractions__${index}`,
        `Fractions grow by ${MIN_LOOK_GAP} at least, up to 1.`,
      );
  });
  if (fractions.at(-1) !== 1) throw refuse(plan, "fractions", "The last look is at 1.");
  return fractions as readonly number[];
}

const MEASURES = [
  "total",
  "sum",
  "avg",
  "min",
  "max",
  "unique_session",
  "unique_values",
  "dau",
] as const;

function sourceOf(place: Place): MeasureSource {
  return { events: eventOf(place), measure: measureOf(place) };
}

function measureOf(place: Place): Measure {
  const math = choiceOf(place, "math", MEASURES) ?? "total";
  switch (math) {
    case "total":
      return { kind: "total" };
    case "dau":
      return { kind: "active" };
    case "unique_session":
      return { kind: "unique-sessions" };
    case "sum":
    case "avg":
    case "min":
    case "max":
    case "unique_values": {
      const property = ownValue(place.object, "math_property");
      if (property === undefined || property === null || property === "")
        throw missing(place, "math_property");
      if (typeof property !== "string") throw refuse(place, "math_property", "Not a valid string.");
      return { kind: math === "unique_values" ? "unique-values" : math, property };
    }
  }
}

/**
 * An event node; `null` for its name means every event. An `ActionsNode` brings its `steps`, of which any
 * counts: there are no stored actions to name by an id.
 */
function eventOf(place: Place, kinds: readonly string[] = ["EventsNode"]): MeasuredEvent {
  const kind = choiceOf(place, "kind", [...kinds, "ActionsNode"]);
  if (kind === undefined) throw missing(place, "kind");
  return kind === "ActionsNode" ? actionOf(place) : namedEventOf(place);
}

function actionOf(place: Place): MeasuredEvent {
  const steps = ownValue(place.object, "steps") ?? null;
  if (steps === null) throw missing(place, "steps");
  if (!Array.isArray(steps)) throw refuse(place, "steps", "Expected a list of items.");
  if (steps.length > MAX_STEPS)
    throw refuse(place, "steps", `An action has at most ${MAX_STEPS} steps.`);
  const [first, ...or] = (steps as readonly Json[]).map((step, index) => {
    const at = `steps__${index}`;
    if (!isJsonObject(step)) throw refuse(place, at, "Expected an object.");
    return namedEventOf({ ...place, object: step, attr: `${place.attr}__${at}` });
  });
  if (first === undefined) throw refuse(place, "steps", "An action needs at least one step.");
  return or.length === 0 ? first : { ...first, or };
}

function namedEventOf(place: Place): MeasuredEvent {
  const event = ownValue(place.object, "event");
  if (event === undefined || event === "") throw missing(place, "event");
  if (event !== null && typeof event !== "string")
    throw refuse(place, "event", "Not a valid string.");
  return { event, filters: filtersOf(place) };
}

function filtersOf(place: Place): readonly MeasuredProperty[] {
  const sent = ownValue(place.object, "properties") ?? [];
  if (!Array.isArray(sent)) throw refuse(place, "properties", "Expected a list of items.");
  const filters = sent as readonly Json[];
  if (filters.length > MAX_FILTERS)
    throw refuse(place, "properties", `More than ${MAX_FILTERS} property filters.`);
  return filters.map((filter, index): MeasuredProperty => {
    const at = `properties__${index}`;
    if (!isJsonObject(filter)) throw refuse(place, at, "Expected an object.");
    const one = { ...place, object: filter, attr: `${place.attr}__${at}` };
    choiceOf(one, "type", ["event"]);
    const key = ownValue(filter, "key");
    if (typeof key !== "string" || key === "") throw missing(one, "key");
    const operator = ownValue(filter, "operator") ?? "exact";
    const value = ownValue(filter, "value");
    const problem = validateComparison(operator, value, place.timeZone);
    if (problem) throw new Refusal("invalid_input", problem.detail, { attr: one.attr });
    return { key, operator: operator as Operator, value };
  });
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

/** The object in a field, which must be there. */
function inside(place: Place, field: string): Place {
  const object = ownValue(place.object, field);
  if (object === undefined || object === null) throw missing(place, field);
  if (!isJsonObject(object)) throw refuse(place, field, "Expected an object.");
  return { ...place, object, attr: `${place.attr}__${field}` };
}

/** One of some texts; `undefined` where the field is absent or `null`. */
function choiceOf<Choice extends string>(
  place: Place,
  field: string,
  choices: readonly Choice[],
): Choice | undefined {
  const value = ownValue(place.object, field);
  if (value === undefined || value === null) return undefined;
  const choice = choices.find((one) => one === value);
  if (choice !== undefined) return choice;
  const said = typeof value === "string" ? `"${value}"` : "This";
  throw new Refusal(
    "invalid_choice",
    `${said} is not a valid choice. Possible is ${choices.join(", ")}.`,
    { attr: `${place.attr}__${field}` },
  );
}

/** A number within bounds, which belong to it unless it is open; `undefined` where absent or `null`. */
function numberOf(
  place: Place,
  field: string,
  bounds: { readonly least: number; readonly most?: number; readonly isOpen?: boolean },
): number | undefined {
  const { least, most = Number.MAX_SAFE_INTEGER, isOpen = false } = bounds;
  const value = ownValue(place.object, field);
  if (value === undefined || value === null) return undefined;
  if (typeof value !== "number") throw refuse(place, field, "A valid number is required.");
  const isInside = isOpen ? value > least && value < most : value >= least && value <= most;
  if (!isInside)
    throw refuse(
      place,
      field,
      isOpen
        ? `Ensure this value is between ${least} and ${most}.`
        : `Ensure this value is from ${least} to ${most}.`,
    );
  return value;
}

function missing({ attr }: Place, field: string): Refusal {
  return new Refusal("required", "This field is required.", { attr: `${attr}__${field}` });
}

function refuse({ attr }: Place, field: string, detail: string): Refusal {
  return new Refusal("invalid_input", detail, { attr: `${attr}__${field}` });
}
