import { chiSquareSf } from "../statistics/gamma-distribution.ts";

/** Whether an effect differs between the cells of a breakdown. */
export interface Interaction {
  /** Cochran's Q. */
  readonly statistic: number;
  readonly degrees: number;
  readonly pValue: number;
}

/**
 * Tests whether the effects of cells are one (Cochran's Q, statistics 5.16); `null` for less than two
 * effects with an error.
 */
export function testInteraction(
  effects: readonly { readonly estimate: number; readonly standardError: number }[],
): Interaction | null {
  const known = effects.filter(
    ({ estimate, standardError }) =>
      Number.isFinite(estimate) && Number.isFinite(standardError) && standardError > 0,
  );
  if (known.length < 2) return null;
  const weights = known.map(({ standardError }) => standardError ** -2);
  const total = weights.reduce((sum, weight) => sum + weight, 0);
  const common =
    known.reduce((sum, { estimate }, index) => sum + estimate * (weights[index] ?? 0), 0) / total;
  const statistic = known.reduce(
    (sum, { estimate }, index) => sum + (weights[index] ?? 0) * (estimate - common) ** 2,
    0,
  );
  const degrees = known.length - 1;
  if (!Number.isFinite(statistic)) return null;
  return { statistic, degrees, pValue: chiSquareSf(statistic, degrees) };
}
