import type { TimeZone } from "../flags/zoned-date.ts";
import { type FunnelEvent, furthestStep, stepsDoneInAnyOrder } from "./funnel.ts";
import { type FunnelMetric, type RetentionMetric, startOfUnit, TIME_UNIT_MS } from "./metric.ts";
import { type Retention, retentionOf } from "./retention.ts";

/**
 * How many of a funnel's steps a unit did; step 0 of its events is the exposure, of which there must be
 * one, and what follows the last step are the exclusions. The window of a metric runs from any exposure (statistics 1.2).
 */
export function stepsReached(events: readonly FunnelEvent[], metric: FunnelMetric): number {
  const rule = {
    stepCount: metric.steps.length + 1,
    ...(metric.conversionWindowMs !== null && { window: metric.conversionWindowMs }),
    exclusions: (metric.exclusions ?? []).map(({ from, to }, index) => ({
      step: metric.steps.length + 1 + index,
      from,
      to,
    })),
  };
  const reached =
    metric.order === "ordered"
      ? furthestStep(events, rule)
      : stepsDoneInAnyOrder(withoutRepeatedExposures(events), rule);
  return Math.max(0, reached);
}

/**
 * Whether a unit started and came back, by the zone's calendar: its events with step 0 for starts, 1 for
 * completions.
 */
export function retentionOfUnit(
  events: readonly FunnelEvent[],
  exposureMs: number,
  { metric, zone }: { readonly metric: RetentionMetric; readonly zone: TimeZone },
): Retention {
  const latestStart =
    metric.conversionWindowMs === null
      ? Number.POSITIVE_INFINITY
      : exposureMs + metric.conversionWindowMs;
  let first = Number.POSITIVE_INFINITY;
  let last = Number.NEGATIVE_INFINITY;
  const completions: number[] = [];
  for (const { at, steps } of events) {
    if (steps.includes(0) && at >= exposureMs && at < latestStart) {
      first = Math.min(first, at);
      last = Math.max(last, at);
    }
    if (steps.includes(1)) completions.push(at);
  }
  const starts = first > last ? [] : [first, last];
  return retentionOf(starts, completions, exposureMs, {
    windowStart: metric.windowStart,
    windowEnd: metric.windowEnd,
    unit: TIME_UNIT_MS[metric.unit],
    startOfUnit: startOfUnit(metric.unit, zone),
    startHandling: metric.startHandling,
  });
}

/**
 * Of exposures with no step between them the last alone: its window holds all that the others' do. So a
 * flag that is asked without end costs no more than the steps themselves.
 */
function withoutRepeatedExposures(events: readonly FunnelEvent[]): readonly FunnelEvent[] {
  // At one time exposures come first: what happens then counts for them.
  const rank = ({ steps }: FunnelEvent) => (steps.every((step) => step === 0) ? 0 : 1);
  const sorted = [...events].sort((left, right) => left.at - right.at || rank(left) - rank(right));
  const kept: FunnelEvent[] = [];
  let next: FunnelEvent | undefined;
  for (const event of sorted.reverse()) {
    const isExposure = event.steps.includes(0);
    const isStep = event.steps.some((step) => step > 0);
    const isRepeated = isExposure && !isStep && next?.steps.length === 1 && next.steps.includes(0);
    if (!isRepeated) {
      kept.push(event);
      next = event;
    }
  }
  return kept.reverse();
}
