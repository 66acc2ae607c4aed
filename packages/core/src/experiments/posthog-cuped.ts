import { type ArmSums, type Moments, momentsOf } from "../statistics/arm.ts";
import { differenceOf, type Effect, welchDegrees } from "../statistics/difference.ts";
import {
  numbersOfEffect,
  type PosthogMethod,
  type PosthogNumbers,
} from "../statistics/posthog-analysis.ts";

/** No variance is less than this after the correction (statistics 1.6). */
const LEAST_VARIANCE = 1e-10;

/**
 * PostHog's numbers of a mean corrected by its first covariate (statistics 1.6): the slope is that of all
 * units of both arms, the lift is of the corrected means by the control's own. `null` where PostHog
 * raises, and where there is no covariate.
 */
export function posthogCupedNumbers(
  control: ArmSums,
  treatment: ArmSums,
  method: PosthogMethod,
): PosthogNumbers | null {
  const c = momentsOf(control);
  const t = momentsOf(treatment);
  if (typeof c === "string" || typeof t === "string") return null;
  const slope = pooledSlope(control, treatment);
  if (slope === null) return null;
  const effect = effectOf(c, correct(c, slope), correct(t, slope), method);
  return numbersOfEffect(effect, c.n + t.n, method);
}

/** Cov(Y, X) / Var(X) of the units of both arms taken as one; 0 where X does not vary. */
function pooledSlope(control: ArmSums, treatment: ArmSums): number | null {
  const total = (of: (arm: ArmSums) => number | undefined): number =>
    (of(control) ?? Number.NaN) + (of(treatment) ?? Number.NaN);
  const n = control.n + treatment.n;
  const y = total(({ sum }) => sum);
  const x = total(({ covariates }) => covariates?.sums[0]);
  const xx = total(({ covariates }) => covariates?.products[0]?.[0]) - (x * x) / n;
  const xy = total(({ covariates }) => covariates?.withMain[0]) - (x * y) / n;
  if (!Number.isFinite(xx) || !Number.isFinite(xy)) return null;
  return xx > 0 ? xy / xx : 0;
}

function correct({ n, means, covariances }: Moments, slope: number) {
  const [own = [], covariate = []] = covariances;
  const variance = (own[0] ?? 0) + slope * slope * (covariate[1] ?? 0) - 2 * slope * (own[1] ?? 0);
  return {
    n,
    mean: (means[0] ?? 0) - slope * (means[1] ?? 0),
    variance: Math.max(LEAST_VARIANCE, variance),
  };
}

type Corrected = ReturnType<typeof correct>;

function effectOf(
  { means }: Moments,
  control: Corrected,
  treatment: Corrected,
  { difference }: PosthogMethod,
): Effect | null {
  if (difference === "absolute") return differenceOf(control, treatment);
  const base = means[0] ?? 0;
  if (!(base > 0)) return null;
  const ratio = treatment.mean / base;
  return {
    estimate: (treatment.mean - control.mean) / base,
    standardError:
      Math.sqrt(treatment.variance / treatment.n + (ratio * ratio * control.variance) / control.n) /
      base,
    degrees: welchDegrees(control, treatment),
  };
}
