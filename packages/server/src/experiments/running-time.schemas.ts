import type { CalculatorMetric } from "@hedgerow/core/statistics/power";
import { type Static, Type } from "typebox";
import { Refusal } from "../http/errors.ts";
import { wireNames } from "../http/wire-field-name.ts";
import { MapOf, Nullable } from "../http/wire-schemas.ts";
import type { RunningTime, RunningTimeQuestion } from "./running-time.ts";

const METRIC_TYPES = [
  "funnel",
  "proportion",
  "retention",
  "mean_count",
  "mean_sum_or_avg",
  "mean",
  "ratio",
] as const;

const optionalNumber = (description: string) =>
  Type.Optional(Nullable(Type.Number({ description })));

export const RunningTimeBody = Type.Object({
  metric_type: Type.Enum([...METRIC_TYPES], {
    description: "What is measured: a rate (the first three), a mean, or a ratio.",
  }),
  baseline_value: Type.Number({
    description: "The control's value: a rate from 0 to 1, a mean, or a ratio.",
  }),
  baseline_variance: optionalNumber(
    "Variance per unit of a mean or ratio; what PostHog's calculator takes for it where absent.",
  ),
  minimum_detectable_effect: optionalNumber("The relative effect to be found, in percent."),
  sample_size: optionalNumber("Units of all arms together, to learn what they find."),
  number_of_variants: Type.Optional(
    Nullable(Type.Integer({ description: "With the control, 2 unless given." })),
  ),
  variant_shares: Type.Optional(
    Nullable(
      Type.Array(Type.Number(), { description: "Shares of the variants, the control's first." }),
    ),
  ),
  exposure_rate_per_day: optionalNumber("Units that come in a day, to learn how long it takes."),
  alpha: optionalNumber("The rate of false calls, 0.05 unless given."),
  power: optionalNumber("The chance to find the effect, 0.8 unless given."),
  sides: Type.Optional(Nullable(Type.Union([Type.Literal(1), Type.Literal(2)]))),
  correction: Type.Optional(Nullable(Type.Enum(["none", "bonferroni"]))),
  sequential: Type.Optional(
    Nullable(Type.Boolean({ description: "Whether it may be looked at at any time." })),
  ),
  sequential_tuning_parameter: optionalNumber("The sample that such looks are tuned to."),
  covariate_correlation: optionalNumber(
    "Correlation of the metric with its value before the exposure, which corrects it.",
  ),
  current: Type.Optional(
    Nullable(
      Type.Object(
        {
          control_units: Type.Integer(),
          treatment_units: Type.Integer(),
          standard_error: optionalNumber("Of the difference as measured so far."),
        },
        { description: "Where a running experiment stands." },
      ),
    ),
  ),
});

const Sample = Type.Object({
  total: Type.Integer(),
  per_variant: Type.Array(Type.Integer()),
  achieved_power: Type.Number(),
  running_time_days: Nullable(Type.Number()),
});

export const RunningTimeAnswer = Type.Object(
  {
    recommended_sample_size: Nullable(Type.Integer()),
    recommended_running_time: Nullable(Type.Number()),
    extended: Type.Object({
      status: Type.String(),
      method: Type.String(),
      inputs: MapOf(Type.Unknown()),
      sample: Nullable(Sample),
      sample_size: Nullable(
        Type.Object({
          total: Type.Integer(),
          power: Nullable(Type.Number()),
          minimum_detectable_effect: Nullable(Type.Number()),
        }),
      ),
      current: Nullable(
        Type.Object({
          power: Nullable(Type.Number()),
          growth: Nullable(Type.Number()),
          more_units: Nullable(Type.Integer()),
          more_days: Nullable(Type.Number()),
        }),
      ),
      warnings: Type.Array(Type.Object({ code: Type.String(), detail: Type.String() })),
    }),
  },
  { title: "RunningTime" },
);

const MAX_VARIANTS = 20;
/** Beyond this nobody waits for units, and numbers lose their unit digits. */
const MAX_UNITS = 1e12;

/** Values and variances beyond this, or as near to zero, are no measurements. */
const MAX_VALUE = 1e100;
/** A thousandfold: whoever looks for more needs no plan. */
const MAX_EFFECT_PERCENT = 1e5;
const MIN_EFFECT_PERCENT = 1e-6;

/** Reads a question; throws a {@link Refusal} that names the field. */
export function runningTimeQuestionOf(body: Static<typeof RunningTimeBody>): RunningTimeQuestion {
  const { metric_type: type } = body;
  const kind = type === "ratio" ? "ratio" : type.startsWith("mean") ? "mean" : "proportion";
  const calculator: CalculatorMetric | null =
    type === "mean_sum_or_avg"
      ? "sum"
      : type === "mean_count"
        ? "count"
        : kind === "proportion"
          ? "funnel"
          : null;
  const baseline = body.baseline_value;
  if (kind === "proportion" && !(baseline > 0 && baseline < 1))
    throw refuse("baseline_value", "Ensure this value is between 0 and 1.");
  if (baseline === 0 || (calculator !== null && baseline < 0))
    throw refuse("baseline_value", "Ensure this value is above 0: effects are relative to it.");
  if (!(Math.abs(baseline) >= 1 / MAX_VALUE && Math.abs(baseline) <= MAX_VALUE))
    throw refuse("baseline_value", `Ensure its size is from ${1 / MAX_VALUE} to ${MAX_VALUE}.`);
  const effectPercent = within(body, "minimum_detectable_effect", -100, MAX_EFFECT_PERCENT);
  if (effectPercent !== null && Math.abs(effectPercent) < MIN_EFFECT_PERCENT) {
    const detail = `Ensure its size is at least ${MIN_EFFECT_PERCENT}: no effect cannot be found.`;
    throw refuse("minimum_detectable_effect", detail);
  }
  const units = within(body, "sample_size", 0, MAX_UNITS);
  if (effectPercent === null && units === null) {
    throw new Refusal("required", "Give the effect to be found, or a sample size.", {
      attr: "minimum_detectable_effect",
    });
  }
  const shares = sharesOf(body);
  const comparisons = shares.length - 1;
  const alpha = within(body, "alpha", 0, 1) ?? 0.05;
  const given = within(body, "baseline_variance", 1 / MAX_VALUE, MAX_VALUE);
  if (type === "ratio" && given === null) {
    throw new Refusal("required", "The variance of a ratio must be given.", {
      attr: "baseline_variance",
    });
  }
  if (type === "mean" && given === null) {
    throw new Refusal("required", "The variance of a mean must be given.", {
      attr: "baseline_variance",
    });
  }
  const correlation = body.covariate_correlation ?? 0;
  if (!(correlation > -1 && correlation < 1))
    throw refuse("covariate_correlation", "Ensure this value is between -1 and 1.");
  const tuning = within(body, "sequential_tuning_parameter", 1, MAX_UNITS);
  const isCorrected = body.correction === "bonferroni";
  return {
    kind,
    calculator,
    baseline,
    variance: kind === "proportion" ? null : given,
    effect: effectPercent === null ? null : effectPercent / 100,
    units: units === null ? null : Math.floor(units),
    shares,
    unitsPerDay: within(body, "exposure_rate_per_day", 0, MAX_UNITS),
    alpha: isCorrected ? alpha / comparisons : alpha,
    power: within(body, "power", 0, 1) ?? 0.8,
    sides: body.sides ?? 2,
    sequentialTuning: body.sequential === true ? (tuning ?? 5000) : null,
    varianceLeft: 1 - correlation ** 2,
    current: currentOf(body.current ?? null, effectPercent),
  };
}

function currentOf(
  sent: Static<typeof RunningTimeBody>["current"] | null,
  effectPercent: number | null,
): RunningTimeQuestion["current"] {
  if (!sent) return null;
  if (effectPercent === null) {
    throw new Refusal("required", "The effect that is to be found must be given.", {
      attr: "minimum_detectable_effect",
    });
  }
  const { control_units, treatment_units, standard_error = null } = sent;
  for (const [field, count] of Object.entries({ control_units, treatment_units }))
    if (!(count >= 2 && count <= MAX_UNITS))
      throw refuse(`current__${field}`, "Ensure this value is greater than or equal to 2.");
  if (standard_error !== null && !(standard_error > 1 / MAX_VALUE && standard_error < MAX_VALUE))
    throw refuse(
      "current__standard_error",
      `Ensure this value is between ${1 / MAX_VALUE} and ${MAX_VALUE}.`,
    );
  return {
    controlUnits: control_units,
    treatmentUnits: treatment_units,
    standardError: standard_error,
  };
}

/** Shares are percentages, counts or weights: more than this apart they are no plan. */
const MAX_SHARE = 1e6;

function sharesOf(body: Static<typeof RunningTimeBody>): readonly number[] {
  const sent = body.variant_shares ?? null;
  const count = body.number_of_variants ?? sent?.length ?? 2;
  if (!(count >= 2 && count <= MAX_VARIANTS))
    throw refuse("number_of_variants", `Ensure this value is from 2 to ${MAX_VARIANTS}.`);
  if (sent === null) return Array.from({ length: count }, () => 1);
  if (sent.length !== count)
    throw refuse("variant_shares", "There must be as many shares as variants.");
  sent.forEach((share, index) => {
    if (!(share > 0)) throw refuse(`variant_shares__${index}`, "Ensure this value is above 0.");
    if (!(share >= 1 / MAX_SHARE && share <= MAX_SHARE))
      throw refuse(
        `variant_shares__${index}`,
        `Ensure this value is from ${1 / MAX_SHARE} to ${MAX_SHARE}.`,
      );
  });
  return sent;
}

/** A number between two others; `null` where it is absent. */
function within<Field extends keyof Static<typeof RunningTimeBody>>(
  body: Static<typeof RunningTimeBody>,
  field: Field,
  least: number,
  most: number,
): number | null {
  const value = body[field] ?? null;
  if (value === null) return null;
  if (typeof value === "number" && value > least && value < most) return value;
  throw refuse(field, `Ensure this value is between ${least} and ${most}.`);
}

function refuse(attr: string, detail: string): Refusal {
  return new Refusal("invalid_input", detail, { attr });
}

/** The wire form: PostHog's recommendation, and our own under `extended`. */
export function wireRunningTime(found: RunningTime): Static<typeof RunningTimeAnswer> {
  const { recommendedSampleSize, recommendedRunningTime, ...extended } = found;
  return {
    recommended_sample_size: recommendedSampleSize,
    recommended_running_time: recommendedRunningTime,
    extended: wireNames(extended) as Static<typeof RunningTimeAnswer>["extended"],
  };
}
