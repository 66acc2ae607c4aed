import { describe, expect, it } from "vitest";
import { gammaQuantile, gammaTails } from "./gamma-distribution.ts";

describe("the gamma distribution of large shapes", () => {
  // Integrals of the density to 50 digits.
  const TAILS = [
    [2e7, 2e7, 0.5000297354019442, 0.4999702645980559],
    [1e7, 10009486.832980504, 0.9986463622688521, 0.0013536377311479772],
    [1e7, 9984188.611699158, 2.829105758297979e-7, 0.9999997170894241],
    [1e9, 1000031622.7766017, 0.8413447461087816, 0.15865525389121843],
    [1e9, 999747017.7871865, 6.187493511900028e-16, 0.9999999999999993],
    [1e12, 1000002000000, 0.9772498140608813, 0.022750185939118726],
    [1e15, 999999938019357.9, 0.024997893424161068, 0.975002106575839],
    [1e8, 100300000, 1, 1.2044173125194178e-197],
    [9e15, 9000000047434165, 0.6914624625635231, 0.30853753743647694],
  ] as const;

  it.each(TAILS)("tells both tails of shape %d at %d", (shape, x, lower, upper) => {
    const tails = gammaTails(shape, x);
    expect(tails.lower / lower).toBeCloseTo(1, 9);
    expect(tails.upper / upper).toBeCloseTo(1, 9);
  });

  it("goes on where smaller shapes end", () => {
    const [below, above] = [9_999_999.99, 10_000_000.01].map((shape) =>
      [-30, -5, -0.1, 0.1, 5, 30].map((z) => {
        const { lower, upper } = gammaTails(shape, shape + z * Math.sqrt(shape));
        return z < 0 ? lower : upper;
      }),
    );
    for (const [index, tail] of (below ?? []).entries())
      expect((above?.[index] ?? 0) / tail).toBeCloseTo(1, 7);
  });

  it("finds quantiles of the largest counts at once", () => {
    for (const shape of [1e7, 1e9, 1e12, 1e15]) {
      for (const p of [1e-17, 0.025, 0.5, 0.975]) {
        const { lower } = gammaTails(shape, gammaQuantile(p, shape));
        expect(lower / p).toBeCloseTo(1, 5);
      }
    }
  });
});
