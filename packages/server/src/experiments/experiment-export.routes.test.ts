import { afterAll, beforeAll, describe, expect, it } from "vitest";
import {
  called,
  DAY_MS,
  HOUR_MS,
  happen,
  openExperimentsService,
  users,
} from "./experiments-service.setup.ts";

const start = Date.now() - 3 * DAY_MS;
const SOURCE = { kind: "EventsNode", event: "paid" };
const FORMULA = '=HYPERLINK("http://x","y")';

/** The columns of a table without line breaks in cells. */
function tableOf(text: string): Record<string, string>[] {
  const cellsOf = (line: string) =>
    [...line.matchAll(/(?:^|,)(?:"((?:[^"]|"")*)"|([^,]*))/g)].map(
      ([, quoted, plain]) => quoted?.replaceAll('""', '"') ?? plain ?? "",
    );
  const [header = "", ...lines] = text.trimEnd().split("\r\n");
  const names = cellsOf(header);
  return lines.map((line) =>
    Object.fromEntries(cellsOf(line).map((cell, index) => [names[index] ?? "", cell])),
  );
}

describe("taking results away", () => {
  let api: Awaited<ReturnType<typeof openExperimentsService>>;
  let path: string;
  const bought = (arm: number, index: number) => (index % (3 - arm) === 0 ? 10 + (index % 7) : 0);

  beforeAll(async () => {
    api = await openExperimentsService();
    const saved = await api.done("POST", "experiment_saved_metrics", {
      name: "Shared",
      query: { kind: "ExperimentMetric", metric_type: "funnel", series: [SOURCE] },
    });
    const { id } = await api.done("POST", "experiments", {
      name: FORMULA,
      feature_flag_key: "pay",
      start_date: new Date(start).toISOString(),
      filters: { insight: "FUNNELS", events: [{ id: "paid", type: "events", order: 0 }] },
      secondary_metrics: [
        { name: "Old", filters: { insight: "TRENDS", events: [{ id: "paid" }] } },
      ],
      metrics: [
        {
          kind: "ExperimentMetric",
          metric_type: "mean",
          name: "-Revenue, all",
          source: { ...SOURCE, math: "sum", math_property: "price" },
        },
      ],
      metrics_secondary: [
        {
          kind: "ExperimentMetric",
          metric_type: "ratio",
          name: "Price",
          numerator: { ...SOURCE, math: "sum", math_property: "price" },
          denominator: SOURCE,
        },
      ],
      saved_metrics_ids: [{ id: saved.id, metadata: { type: "secondary" } }],
    });
    path = `experiments/${id}/export`;
    await api.capture(
      ["control", "test"].flatMap((variant, arm) =>
        users(variant, 120).flatMap((user, index) => [
          called("pay", variant, user, start + HOUR_MS),
          ...(bought(arm, index) > 0
            ? [happen("paid", user, start + 2 * HOUR_MS, { price: bought(arm, index) })]
            : []),
        ]),
      ),
    );
  });
  afterAll(() => api.close());

  it("[XR-20] a table has every metric's sums, from which its numbers follow", async () => {
    const { status, headers, body } = await api.send("GET", `${path}?format=csv`);
    expect(status).toBe(200);
    expect(headers["content-type"]).toBe("text/csv; charset=utf-8");
    expect(headers["content-disposition"]).toMatch(/^attachment; filename="experiment-\d+\.csv"$/);
    const rows = tableOf(body as string);
    expect(rows.map(({ role, kind, variant }) => `${role} ${kind} ${variant}`)).toEqual(
      [
        "primary funnel",
        "primary mean",
        "secondary mean",
        "secondary ratio",
        "secondary funnel",
      ].flatMap((metric) => [`${metric} control`, `${metric} test`]),
    );
    for (const [index, row] of rows.entries()) {
      if (row.is_control === "true") {
        expect([row.p_value, row.lift, row.chance_to_win]).toEqual(["", "", ""]);
        continue;
      }
      const [c, t] = [rows[index - 1], row].map((one) => estimateOf(one ?? {}));
      if (!c || !t) throw new Error("there is no pair");
      const difference = t.value - c.value;
      const error = Math.sqrt(c.variance / c.n + t.variance / t.n);
      expect(Number(row.difference)).toBeCloseTo(difference, 9);
      expect(Number(row.standard_error)).toBeCloseTo(error, 9);
      expect(Number(row.lift)).toBeCloseTo(difference / c.value, 9);
      expect(Number(row.difference_low) + Number(row.difference_high)).toBeCloseTo(
        2 * difference,
        9,
      );
      expect(Number(row.p_value)).toBeLessThan(1);
      expect(row.status).toBe("ok");
      expect(row.posthog_method).toBe("bayesian");
    }
    const own = Array.from({ length: 120 }, (_, index) => bought(1, index));
    expect(rows[3]).toMatchObject({
      number_of_samples: "120",
      sum: String(own.reduce((sum, price) => sum + price, 0)),
      sum_squares: String(own.reduce((sum, price) => sum + price * price, 0)),
    });
  });

  it("[XR-20] no text in a table is a formula", async () => {
    const { body } = await api.send("GET", `${path}?format=csv`);
    const rows = tableOf(body as string);
    expect(rows[0]?.experiment).toBe(`'${FORMULA}`);
    expect(rows[2]?.metric).toBe("'-Revenue, all");
  });

  it("[XR-20] JSON has the same with exposures and the answers of queries", async () => {
    const { body } = await api.send("GET", path);
    expect(body).toMatchObject({
      experiment: { name: FORMULA, feature_flag_key: "pay", stats_config: null },
      computed_at: expect.any(String),
      exposures: { total_exposures: { control: 120, test: 120 } },
      extended: { corrected_p_values: { tests: 2 } },
    });
    expect(
      body.metrics.map((one: { role: string; metric: { name?: string } }) => [
        one.role,
        one.metric.name,
      ]),
    ).toEqual([
      ["primary", undefined],
      ["primary", "-Revenue, all"],
      ["secondary", "Old"],
      ["secondary", "Price"],
      ["secondary", "Shared"],
    ]);
    expect(body.metrics[1].variant_results[0]).toMatchObject({
      key: "test",
      number_of_samples: 120,
      extended: { status: "ok", inputs: { treatment: { number_of_samples: 120 } } },
    });
  });

  it("[XR-20] JSON has the cells of metrics that are broken down, as results have", async () => {
    const funnel = { kind: "ExperimentMetric", metric_type: "funnel", series: [SOURCE] };
    const { id } = await api.done("POST", "experiments", {
      name: "Plans",
      feature_flag_key: "plans",
      start_date: new Date(start).toISOString(),
      metrics: [{ ...funnel, breakdownFilter: { breakdown: "plan" } }],
    });
    await api.capture(
      ["control", "test"].flatMap((variant) =>
        users(`plans-${variant}`, 20).map((user, index) =>
          called("plans", variant, user, start + HOUR_MS, { plan: index < 5 ? "paid" : "free" }),
        ),
      ),
    );
    const { metrics } = await api.done("GET", `experiments/${id}/results`);
    const exported = await api.done("GET", `experiments/${id}/export`);
    expect(metrics[0].breakdown_results).toHaveLength(2);
    expect(exported.metrics[0].breakdown_results).toEqual(metrics[0].breakdown_results);
  });

  it("[XR-20] names no field of a body that was not sent", async () => {
    const shipped = await api.done("POST", "experiments", {
      name: "No control",
      feature_flag_key: "uncontrolled",
      start_date: new Date(start).toISOString(),
      metrics: [{ kind: "ExperimentMetric", metric_type: "funnel", series: [SOURCE] }],
    });
    const [{ uuid }] = shipped.metrics;
    const flag = await api.done("GET", `feature_flags/${shipped.feature_flag.id}`);
    await api.done("PATCH", `feature_flags/${flag.id}`, {
      filters: {
        ...flag.filters,
        multivariate: { variants: [{ key: "test", rollout_percentage: 100 }] },
      },
    });
    for (const asked of ["results", "export", `timeseries_results?metric_uuid=${uuid}`]) {
      const { status, body } = await api.send("GET", `experiments/${shipped.id}/${asked}`);
      expect([status, body.code, body.attr]).toEqual([400, "invalid_input", null]);
    }
    const asked = await api.send("POST", "query", {
      query: { kind: "ExperimentQuery", experiment_id: shipped.id, metric: shipped.metrics[0] },
    });
    expect([asked.status, asked.body.attr]).toEqual([400, "query__experiment_id"]);
  });

  it("[XR-20] refuses other formats, drafts and experiments without metrics", async () => {
    const refused = async (asked: string) => {
      const { status, body } = await api.send("GET", asked);
      return [status, body.code, body.attr];
    };
    expect(await refused(`${path}?format=xlsx`)).toEqual([400, "invalid_choice", "format"]);
    expect(await refused("experiments/999999/export")).toEqual([404, "not_found", null]);
    const draft = await api.done("POST", "experiments", { name: "x", feature_flag_key: "x" });
    expect(await refused(`experiments/${draft.id}/export`)).toEqual([400, "no-results", null]);
    await api.done("POST", `experiments/${draft.id}/launch`);
    expect(await refused(`experiments/${draft.id}/export`)).toEqual([
      400,
      "invalid_input",
      "metrics",
    ]);
  });
});

/** A metric's value and variance per unit, by the textbook's formulas. */
function estimateOf(row: Record<string, string>) {
  const [n, sum, squares] = ["number_of_samples", "sum", "sum_squares"].map((name) =>
    Number(row[name]),
  ) as [number, number, number];
  const mean = sum / n;
  if (row.kind === "funnel") return { n, value: mean, variance: mean * (1 - mean) };
  const variance = (squares - (sum * sum) / n) / (n - 1);
  if (row.kind === "mean") return { n, value: mean, variance };
  const d = Number(row.denominator_sum);
  const dVariance = (Number(row.denominator_sum_squares) - (d * d) / n) / (n - 1);
  const covariance = (Number(row.numerator_denominator_sum_product) - (sum * d) / n) / (n - 1);
  const ratio = sum / d;
  const dMean = d / n;
  return {
    n,
    value: ratio,
    variance: (variance - 2 * ratio * covariance + ratio ** 2 * dVariance) / dMean ** 2,
  };
}
