import { betaTails, type UnitPoint } from "./beta-distribution.ts";
import { invertLogTail } from "./invert-tail.ts";
import { logGamma } from "./log-gamma.ts";
import { normalQuantile } from "./normal-distribution.ts";

/** P(T <= t) of Student's distribution. */
export function studentCdf(t: number, degrees: number): number {
  return studentSf(-t, degrees);
}

/** P(T > t) of Student's distribution; degrees of freedom > 0, need not be whole. */
export function studentSf(t: number, degrees: number): number {
  if (Number.isNaN(t)) return Number.NaN;
  if (t === 0) return 0.5;
  const tail = betaTails(degrees / 2, 0.5, shareOf(t, degrees)).lower / 2;
  return t > 0 ? tail : 1 - tail;
}

/** The t with P(T <= t) = p. */
export function studentQuantile(p: number, degrees: number): number {
  if (!(p >= 0 && p <= 1 && degrees > 0)) return Number.NaN;
  if (p === 0.5) return 0;
  if (p > 0.5) return -studentQuantile(1 - p, degrees);
  if (p === 0) return Number.NEGATIVE_INFINITY;
  // Of w = -ln t the logarithm of the tail, and of w = ln t that of the centre, are concave.
  const peak = densityAtZero(degrees);
  const z = -normalQuantile(p);
  if (p > 0.25)
    return -Math.exp(
      invertLogTail(
        (w) => {
          const t = Math.exp(w);
          const centre = betaTails(degrees / 2, 0.5, shareOf(t, degrees)).upper / 2;
          return { value: Math.log(centre), slope: (t * density(t, degrees, peak)) / centre };
        },
        Math.log(0.5 - p),
        Math.log(z),
      ),
    );
  return -Math.exp(
    -invertLogTail(
      (w) => {
        const t = Math.exp(-w);
        const tail = studentSf(t, degrees);
        return { value: Math.log(tail), slope: (t * density(t, degrees, peak)) / tail };
      },
      Math.log(p),
      -Math.log(z),
    ),
  );
}

/** df / (df + t^2) and its complement, both without cancellation. */
function shareOf(t: number, degrees: number): UnitPoint {
  const square = t * t;
  if (square === Number.POSITIVE_INFINITY) return { x: 0, y: 1 };
  const ratio = square / degrees;
  return ratio < 1
    ? { x: 1 / (1 + ratio), y: ratio / (1 + ratio) }
    : { x: degrees / square / (1 + degrees / square), y: 1 / (1 + degrees / square) };
}

function densityAtZero(degrees: number): number {
  return (
    Math.exp(logGamma((degrees + 1) / 2) - logGamma(degrees / 2)) / Math.sqrt(Math.PI * degrees)
  );
}

/** Only good enough to steer Newton's steps. */
function density(t: number, degrees: number, peak: number): number {
  return peak * Math.exp((-(degrees + 1) / 2) * Math.log1p((t * t) / degrees));
}
