import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { meetsPosthogVersion, POSTHOG_VERSION } from "./posthog-version.ts";

describe("the version that a plugin requires", () => {
  it.each([
    [">= 1.25.0", "1.43.1", true],
    [">=1.25.0, <2.0.0", "1.43.1", true],
    [">= 2.0.0", "1.43.1", false],
    [">1.43", "1.43.1", false],
    [">1.43", "1.44.0", true],
    ["<1.43.1", "1.43.1", false],
    ["<=1.43", "1.43.9", true],
    ["<=1.42", "1.43.0", false],
    ["1.43.1", "1.43.1", true],
    ["1.43", "1.43.7", true],
    ["=1.43.0", "1.43.1", false],
    ["==1.*", "1.9.9", true],
    ["!=1.43", "1.43.1", false],
    ["!=1.42.0", "1.43.1", true],
    ["~1.43.0", "1.43.9", true],
    ["~1.42.0", "1.43.0", false],
    ["~1", "1.99.0", true],
    ["~=1.42", "1.43.1", true],
    ["~=1.42.0", "1.43.1", false],
    ["^1.2.3", "1.43.1", true],
    ["^1.2.3", "2.0.0", false],
    ["^0.2.3", "0.3.0", false],
    ["^0.2.3", "0.2.9", true],
    ["^0.0.3", "0.0.4", false],
    ["*", "0.0.1", true],
    [">=1.43.1-beta", "1.43.1", true],
    [">1.43.1-beta", "1.43.1", true],
    ["<1.43.1-beta", "1.43.1", false],
    ["==1.43.1+build.5", "1.43.1", true],
  ])('[TM-26] "%s" of version %s: %s', (required, version, isMet) => {
    expect(meetsPosthogVersion(required, version)).toBe(isMet);
  });

  it.each(["", "latest", ">= 1.25.0 < 2.0.0", "1.2.3 || 2", "1.2.3.4", ">=", "01.2", ">=x", ",1"])(
    '[TM-26] "%s" is no requirement',
    (required) => {
      expect(meetsPosthogVersion(required)).toBeUndefined();
    },
  );

  it("[TM-26] every version is what it requires itself, and not less or more than that", () => {
    const number = fc.nat({ max: 50 });
    fc.assert(
      fc.property(fc.tuple(number, number, number), (numbers) => {
        const version = numbers.join(".");
        for (const sign of ["", "=", "==", ">=", "<=", "~", "~=", "^"]) {
          expect(meetsPosthogVersion(sign + version, version)).toBe(true);
        }
        for (const sign of ["<", ">", "!="]) {
          expect(meetsPosthogVersion(sign + version, version)).toBe(false);
        }
      }),
    );
    expect(meetsPosthogVersion(POSTHOG_VERSION)).toBe(true);
  });
});
