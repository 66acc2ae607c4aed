import { describe, expect, it } from "vitest";
import { Refusal } from "../http/errors.ts";
import { metricOf, queryMetricOf } from "./metric.schemas.ts";

const SOURCE = { kind: "EventsNode", event: "bought" };
const METRIC = { kind: "ExperimentMetric", metric_type: "mean", source: SOURCE };

const read = (fields: object) => metricOf({ ...METRIC, ...fields }, "m", "UTC");
const refused = (act: () => unknown): Refusal => {
  try {
    act();
  } catch (error) {
    if (error instanceof Refusal) return error;
    throw error;
  }
  throw new Error("nothing was refused");
};

describe("reading metrics", () => {
  it("[XR-14] reads a mean with all that it can say", () => {
    const filter = { key: "plan", value: ["pro"], operator: "is_not", type: "event" };
    expect(
      read({
        source: { ...SOURCE, math: "avg", math_property: "price", properties: [filter] },
        goal: "decrease",
        conversion_window: 2,
        conversion_window_unit: "month",
        upper_bound_percentile: 0.95,
        ignore_zeros: true,
      }),
    ).toEqual({
      kind: "mean",
      goal: "decrease",
      conversionWindowMs: 60 * 86_400_000,
      source: {
        events: {
          event: "bought",
          filters: [{ key: "plan", operator: "is_not", value: ["pro"] }],
        },
        measure: { kind: "avg", property: "price" },
      },
      winsorization: { lowerPercentile: null, upperPercentile: 0.95, ignoreZeros: true },
    });
    expect(read({ source: { kind: "EventsNode", event: null, math: null } })).toMatchObject({
      goal: "increase",
      conversionWindowMs: null,
      source: { events: { event: null, filters: [] }, measure: { kind: "total" } },
      winsorization: null,
    });
  });

  it("[XM-14] reads an action as its steps, of which any counts", () => {
    const steps = [{ event: "bought" }, { event: "paid", properties: [{ key: "a", value: 1 }] }];
    const paid = { event: "paid", filters: [{ key: "a", operator: "exact", value: 1 }] };
    expect(read({ source: { kind: "ActionsNode", name: "Ordered", steps } })).toMatchObject({
      source: { events: { event: "bought", filters: [], or: [paid] } },
    });
    const one = read({ source: { kind: "ActionsNode", steps: steps.slice(1) } });
    expect(one).toMatchObject({ source: { events: paid } });
  });

  it("[XR-14] refuses what it cannot measure, naming the field", () => {
    const filter = (sent: object) => ({ source: { ...SOURCE, properties: [sent] } });
    for (const [fields, attr] of [
      [{ kind: "ExperimentTrendsQuery" }, "m__kind"],
      [{ kind: null }, "m__kind"],
      [{ metric_type: "mode" }, "m__metric_type"],
      [{ metric_type: null }, "m__metric_type"],
      [{ source: null }, "m__source"],
      [{ source: "bought" }, "m__source"],
      [{ source: { kind: "SomeNode", id: 1 } }, "m__source__kind"],
      [{ source: { kind: "ActionsNode", id: 1 } }, "m__source__steps"],
      [{ source: { kind: "ActionsNode", steps: [] } }, "m__source__steps"],
      [{ source: { kind: "ActionsNode", steps: [{}] } }, "m__source__steps__0__event"],
      [{ source: { kind: "EventsNode" } }, "m__source__event"],
      [{ source: { ...SOURCE, event: 5 } }, "m__source__event"],
      [{ source: { ...SOURCE, math: "hogql" } }, "m__source__math"],
      [{ source: { ...SOURCE, math: "constructor" } }, "m__source__math"],
      [{ source: { ...SOURCE, math: "sum", math_property: 3 } }, "m__source__math_property"],
      [{ source: { ...SOURCE, properties: {} } }, "m__source__properties"],
      [filter({ value: "x" }), "m__source__properties__0__key"],
      [filter({ key: "a", value: "x", type: "person" }), "m__source__properties__0__type"],
      [filter({ key: "a", value: "x", operator: "near" }), "m__source__properties__0"],
      [{ goal: "up" }, "m__goal"],
      [{ conversion_window: 0, conversion_window_unit: "day" }, "m__conversion_window"],
      [{ conversion_window: "7", conversion_window_unit: "day" }, "m__conversion_window"],
      [{ conversion_window: 1e9, conversion_window_unit: "month" }, "m__conversion_window"],
      [{ conversion_window: 7 }, "m__conversion_window_unit"],
      [{ conversion_window: 7, conversion_window_unit: "toString" }, "m__conversion_window_unit"],
      [{ lower_bound_percentile: 95 }, "m__lower_bound_percentile"],
      [{ lower_bound_percentile: 0.9, upper_bound_percentile: 0.1 }, "m__upper_bound_percentile"],
      [{ metric_type: "funnel" }, "m__series"],
      [{ metric_type: "funnel", series: [] }, "m__series"],
      [{ metric_type: "funnel", series: Array(21).fill(SOURCE) }, "m__series"],
      [{ metric_type: "funnel", series: [SOURCE, 1] }, "m__series__1"],
      [
        { metric_type: "funnel", series: [SOURCE], funnel_order_type: "strict" },
        "m__funnel_order_type",
      ],
      [{ metric_type: "ratio", numerator: SOURCE }, "m__denominator"],
      [{ metric_type: "retention", start_event: SOURCE }, "m__retention_window_start"],
      [
        { metric_type: "retention", retention_window_start: 3, retention_window_end: 1 },
        "m__retention_window_end",
      ],
    ] as const)
      expect([attr, refused(() => read(fields)).attr]).toEqual([attr, attr]);
  });

  it("[XM-9] reads the exclusions of an older funnel, and refuses what they cannot mean", () => {
    const funnel = (exclusions: unknown, more: object = {}) =>
      queryMetricOf(
        {
          kind: "ExperimentFunnelsQuery",
          funnels_query: {
            series: [SOURCE, { ...SOURCE, event: "paid" }],
            funnelsFilter: { exclusions: exclusions as never, ...more },
          },
        },
        "m",
        "UTC",
      );
    const refund = { ...SOURCE, event: "refunded", funnelFromStep: 0, funnelToStep: 1 };
    expect(funnel([refund])).toMatchObject({
      kind: "funnel",
      exclusions: [{ events: { event: "refunded", filters: [] }, from: 1, to: 2 }],
    });
    expect(funnel([])).not.toHaveProperty("exclusions");
    const at = "m__funnels_query__funnelsFilter__exclusions";
    for (const [exclusions, more, attr] of [
      [{}, {}, at],
      [[5], {}, `${at}__0`],
      [[{ ...refund, funnelToStep: 0 }], {}, `${at}__0__funnelToStep`],
      [[refund], { funnelOrderType: "unordered" }, at],
    ] as const)
      expect(refused(() => funnel(exclusions, more)).attr).toBe(attr);
  });
});
