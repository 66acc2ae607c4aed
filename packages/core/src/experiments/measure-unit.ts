import type { TimeZone } from "../flags/zoned-date.ts";
import { type FunnelEvent, furthestStep, stepsDoneInAnyOrder } from "./funnel.ts";
import { type FunnelMetric, type RetentionMetric, startOfUnit, TIME_UNIT_MS } from "./metric.ts";

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

/** Whether a unit started, and came back. */
export interface Retention {
  readonly started: boolean;
  readonly retained: boolean;
}

/**
 * Whether a unit started and came back, by the zone's calendar (statistics 1.2): the first or last start
 * at or after the exposure, and a completion between `windowStart` and `windowEnd` units later. Its
 * events with step 0 are starts, those with 1 completions.
 */
export function retentionOfUnit(
  events: readonly FunnelEvent[],
  exposureMs: number,
  { metric, zone }: { readonly metric: RetentionMetric; readonly zone: TimeZone },
): Retention {
  const unit = createUnitRetention(exposureMs, { metric, zone });
  for (const event of events) unit.add(event);
  return unit.outcome();
}

/** A unit's retention by the events so far, which are added in any order. */
export interface UnitRetention {
  add(event: FunnelEvent): void;
  outcome(): Retention;
}

/** {@link retentionOfUnit} of events that come one by one; each is read once. */
export function createUnitRetention(
  exposureMs: number,
  { metric, zone }: { readonly metric: RetentionMetric; readonly zone: TimeZone },
): UnitRetention {
  const latestStart =
    metric.conversionWindowMs === null
      ? Number.POSITIVE_INFINITY
      : exposureMs + metric.conversionWindowMs;
  const beginningOf = startOfUnit(metric.unit, zone);
  let first = Number.POSITIVE_INFINITY;
  let last = Number.NEGATIVE_INFINITY;
  // Beginnings of their units; of many in one the first alone.
  const completions: number[] = [];
  return {
    add({ at, steps }) {
      if (steps.includes(0) && at >= exposureMs && at < latestStart) {
        first = Math.min(first, at);
        last = Math.max(last, at);
      }
      if (!steps.includes(1)) return;
      const beginning = beginningOf(at);
      if (completions.at(-1) !== beginning) completions.push(beginning);
    },
    outcome() {
      if (first > last) return { started: false, retained: false };
      const start = metric.startHandling === "first_seen" ? first : last;
      return { started: true, retained: comesBack(beginningOf(start), completions, metric) };
    },
  };
}

/** Whether a completion lies in the window after a start, all told by the beginnings of their units. */
function comesBack(
  start: number,
  completions: readonly number[],
  { unit, windowStart, windowEnd }: RetentionMetric,
): boolean {
  return completions.some((completion) => {
    const units = (completion - start) / TIME_UNIT_MS[unit];
    return units >= windowStart && units <= windowEnd;
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
