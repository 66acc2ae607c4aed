import { normalDensity, normalQuantile, normalSf } from "./normal-distribution.ts";
import { forEachNode } from "./quadrature.ts";

/** How the error is spent over the looks. */
export type Spending =
  | { readonly kind: "obf" }
  | { readonly kind: "pocock" }
  | { readonly kind: "power"; readonly phi: number };

/** A plan of looks: how much of the final information each has, growing, up to 1. */
export interface SequentialPlan {
  readonly alpha: number;
  readonly informationFractions: readonly number[];
  readonly spending: Spending;
}

/** When to stop at each look of a plan. */
export interface SequentialBounds {
  /** Stop when |z| is at least this. */
  readonly zBounds: readonly number[];
  /** What of alpha is spent up to each look, both sides together. */
  readonly cumulativeAlpha: readonly number[];
}

/**
 * Symmetric two-sided bounds by Lan and DeMets: half of alpha is spent on each side, and the density of
 * the running sum on the region of going on is carried from look to look by quadrature (statistics 5.7).
 * The last look spends all that is left.
 */
export function groupSequentialBounds(plan: SequentialPlan): SequentialBounds {
  const { alpha, informationFractions: fractions, spending } = plan;
  const zBounds: number[] = [];
  const cumulativeAlpha: number[] = [];
  let spent = 0;
  let nodes: WeightedPoint[] = [{ at: 0, weight: 1 }];
  let earlier = 0;
  for (const [look, fraction] of fractions.entries()) {
    const isLast = look === fractions.length - 1;
    const total = isLast ? alpha / 2 : spentPerSide(spending, alpha, fraction);
    const toSpend = Math.max(0, total - spent);
    const step = Math.sqrt(fraction - earlier);
    const from = nodes;
    const crossing = (sum: number): number =>
      from.reduce((mass, { at, weight }) => mass + weight * normalSf((sum - at) / step), 0);
    const bound = boundFor(crossing, toSpend, Math.sqrt(fraction));
    zBounds.push(bound / Math.sqrt(fraction));
    cumulativeAlpha.push(2 * total);
    spent = total;
    if (!isLast) nodes = carry(from, bound, step);
    earlier = fraction;
  }
  return { zBounds, cumulativeAlpha };
}

/** A point of the running sum and the probability it stands for. */
interface WeightedPoint {
  readonly at: number;
  readonly weight: number;
}

/** The density of the next sum between the bounds, as weighted points. */
function carry(from: readonly WeightedPoint[], bound: number, step: number): WeightedPoint[] {
  // Beyond nine standard deviations of the whole there is nothing to carry.
  const reach = Math.min(bound, 9);
  const panels = Math.max(2, Math.ceil((2 * reach) / (8 * step)));
  const cuts = Array.from(
    { length: panels + 1 },
    (_, index) => -reach + (2 * reach * index) / panels,
  );
  const points: WeightedPoint[] = [];
  forEachNode(cuts, (at, weight) => {
    let density = 0;
    for (const point of from) density += point.weight * normalDensity((at - point.at) / step);
    points.push({ at, weight: (weight * density) / step });
  });
  return points;
}

/** The sum above which `crossing` has the given mass; found on the logarithm, where it is nearly straight. */
function boundFor(crossing: (sum: number) => number, mass: number, scale: number): number {
  if (mass <= 0) return Number.POSITIVE_INFINITY;
  let low = 0;
  let high = 40 * scale;
  for (let round = 0; round < 200 && high - low > 1e-15 * high; round += 1) {
    const middle = low + (high - low) / 2;
    if (crossing(middle) > mass) low = middle;
    else high = middle;
  }
  return low + (high - low) / 2;
}

/** What one side has spent of alpha / 2 when this share of the information is in. */
function spentPerSide(spending: Spending, alpha: number, fraction: number): number {
  if (spending.kind === "obf")
    return 2 * normalSf(-normalQuantile(alpha / 4) / Math.sqrt(fraction));
  if (spending.kind === "pocock") return (alpha / 2) * Math.log1p((Math.E - 1) * fraction);
  return (alpha / 2) * fraction ** spending.phi;
}
