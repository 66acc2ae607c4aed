import { TIME_UNIT_MS } from "@hedgerow/core/experiments/metric";
import { type Json, type JsonObject, ownValue } from "@hedgerow/core/json";
import type { PosthogMethod } from "@hedgerow/core/statistics/posthog-analysis";
import { DEFAULT_TUNING } from "./analyse-measured.ts";
import type { BalancedSettings } from "./balanced-numbers.ts";
import { choiceOf, inside, missing, numberOf, type Place, refuse } from "./wire-place.ts";

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
