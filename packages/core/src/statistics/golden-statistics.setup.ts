import { expect } from "vitest";
import type { ArmSums, CovariateSums } from "./arm.ts";

/** A number, a text for one that JSON cannot hold, or structures of them. */
export type Golden =
  | number
  | string
  | boolean
  | null
  | readonly Golden[]
  | { readonly [key: string]: Golden };

/** One case of a file of exact values. */
export interface GoldenCase {
  readonly id: string;
  readonly fn: string;
  // biome-ignore lint/suspicious/noExplicitAny: each function's input has a form of its own
  readonly input: any;
  readonly args?: readonly number[];
  readonly expected?: Golden;
  readonly recomputed?: Golden;
  readonly published?: Golden;
  readonly tol?: Tolerance;
}

interface Tolerance {
  readonly rel: number;
  readonly abs: number;
}

const DEFAULT_TOLERANCE: Tolerance = { rel: 1e-10, abs: 1e-300 };

/**
 * Expects every number that the case names and `got` tells to be within the case's tolerance, and all
 * else to be equal. Keys that `got` leaves out are not compared, but at least one must be.
 */
export function expectGolden(goldenCase: GoldenCase, got: unknown): void {
  const want = goldenCase.expected ?? goldenCase.recomputed ?? null;
  const compared = compare(goldenCase, "", got, want, goldenCase.tol ?? DEFAULT_TOLERANCE);
  expect(compared, `${goldenCase.id} compares something`).toBeGreaterThan(0);
}

function compare(
  goldenCase: GoldenCase,
  path: string,
  got: unknown,
  want: Golden,
  tol: Tolerance,
): number {
  const label = `${goldenCase.id}${path}`;
  if (Array.isArray(want)) {
    expect(Array.isArray(got) && got.length, label).toBe(want.length);
    return Math.max(
      1,
      want.reduce<number>(
        (sum, value: Golden, index) =>
          sum + compare(goldenCase, `${path}[${index}]`, (got as unknown[])[index], value, tol),
        0,
      ),
    );
  }
  if (want !== null && typeof want === "object") {
    expect(typeof got, label).toBe("object");
    const known = got as Record<string, unknown>;
    return Object.entries(want).reduce(
      (sum, [key, value]) =>
        sum + (key in known ? compare(goldenCase, `${path}.${key}`, known[key], value, tol) : 0),
      0,
    );
  }
  const number = asNumber(want);
  if (typeof got !== "number" || number === undefined) {
    expect(got, label).toBe(want);
    return 1;
  }
  if (!Number.isFinite(number)) {
    expect(got, label).toBe(number);
    return 1;
  }
  const allowed = Math.max(tol.abs, tol.rel * Math.abs(number));
  if (!(Math.abs(got - number) <= allowed))
    expect.fail(`${label}: ${got}, expected ${number} within ${allowed}`);
  return 1;
}

function asNumber(want: Golden): number | undefined {
  if (typeof want === "number") return want;
  if (want === "Infinity" || want === "-Infinity" || want === "NaN") return Number(want);
  return undefined;
}

/** The sums of an arm as the files write them. */
export interface GoldenArm {
  readonly n?: number;
  readonly number_of_samples?: number;
  readonly sum: number | string;
  readonly sum_squares?: number;
  readonly denominator_sum?: number;
  readonly denominator_sum_squares?: number;
  readonly numerator_denominator_sum_product?: number;
  readonly covariate_sum?: number;
  readonly covariate_sum_squares?: number;
  readonly main_covariate_sum_product?: number;
  readonly covariate_sums?: readonly number[];
  readonly covariate_cross_products?: readonly (readonly number[])[];
  readonly main_covariate_sum_products?: readonly number[];
}

/** Reads the sums of an arm. */
export function armOf(arm: GoldenArm): ArmSums {
  const covariates = covariatesOf(arm);
  return {
    n: arm.n ?? arm.number_of_samples ?? Number.NaN,
    sum: Number(arm.sum),
    ...(arm.sum_squares !== undefined && { sumSquares: arm.sum_squares }),
    ...(arm.denominator_sum !== undefined && {
      denominator: {
        sum: arm.denominator_sum,
        sumSquares: arm.denominator_sum_squares ?? Number.NaN,
        withMain: arm.numerator_denominator_sum_product ?? Number.NaN,
      },
    }),
    ...(covariates !== undefined && { covariates }),
  };
}

function covariatesOf(arm: GoldenArm): CovariateSums | undefined {
  if (arm.covariate_sums !== undefined)
    return {
      sums: arm.covariate_sums,
      products: arm.covariate_cross_products ?? [],
      withMain: arm.main_covariate_sum_products ?? [],
    };
  if (arm.covariate_sum === undefined) return undefined;
  return {
    sums: [arm.covariate_sum],
    products: [[arm.covariate_sum_squares ?? arm.covariate_sum]],
    withMain: [arm.main_covariate_sum_product ?? Number.NaN],
  };
}
