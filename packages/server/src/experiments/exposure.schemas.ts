import type { MeasuredEvent } from "@hedgerow/core/experiments/metric";
import { isJsonObject, type JsonObject, ownValue } from "@hedgerow/core/json";
import { FLAG_CALLED } from "../flags/flag-calls.ts";
import { notAnInstant, readInstant } from "../http/wire-instant.ts";
import { type ExposureCriteria, USUAL_CRITERIA } from "./analyse-experiment.ts";
import { eventOf, nodesOf } from "./event-node.schemas.ts";
import type { ExperimentRecord } from "./experiment-store.ts";
import { insightMetricOf } from "./metric.schemas.ts";
import { choiceOf, inside, refuse } from "./wire-place.ts";

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
