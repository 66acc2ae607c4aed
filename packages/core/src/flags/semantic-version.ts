/** A parsed version. Numbers are decimal texts without leading zeros: they may exceed 2^53. */
export interface SemanticVersion {
  readonly core: readonly [string, string, string];
  readonly preRelease: readonly string[];
  readonly build: readonly string[];
}

/** What tilde, caret and wildcard filters ask for. */
export type VersionRange =
  | { readonly kind: "any" }
  | { readonly kind: "tilde" | "caret"; readonly version: SemanticVersion }
  /** `1.*` or `1.2.*`: these leading parts, anything after; also a caret on a partial version. */
  | { readonly kind: "prefix" | "partial-caret"; readonly parts: readonly string[] };

const DIGITS = /^[0-9]+$/;
const IDENTIFIER = /^[0-9A-Za-z-]+$/;
/** Parts are 64-bit on the server. */
const MAX_PART = "18446744073709551615";

/**
 * Parses a version leniently: one leading `v` dropped, trimmed, leading zeros stripped, padded to
 * three parts (flag-evaluation 7.9). `null` for anything else, such as four parts.
 */
export function parseVersion(text: string): SemanticVersion | null {
  const normalized = normalize(text);
  const cut = normalized.search(/[-+]/);
  const numbers = cut === -1 ? normalized : normalized.slice(0, cut);
  const suffix = cut === -1 ? "" : normalized.slice(cut);
  const parts = numbers.split(".").map(stripZeros);
  while (parts.length < 3) parts.push("0");
  const [major, minor, patch] = parts;
  if (parts.length > 3 || !parts.every(isPart)) return null;
  const plus = suffix.indexOf("+");
  const preText = plus === -1 ? suffix : suffix.slice(0, plus);
  const preRelease = preText === "" ? [] : preText.slice(1).split(".");
  const build = plus === -1 ? [] : suffix.slice(plus + 1).split(".");
  if (!preRelease.every(isPreReleaseIdentifier) || !build.every((id) => IDENTIFIER.test(id))) {
    return null;
  }
  return { core: [major as string, minor as string, patch as string], preRelease, build };
}

/** Negative, zero or positive; build metadata takes part, as on the server. */
export function compareVersions(a: SemanticVersion, b: SemanticVersion): number {
  return compareCore(a, b) || comparePreRelease(a, b) || compareBuild(a.build, b.build);
}

/** Parses the value of a tilde, caret or wildcard filter; `null` when it is malformed. */
export function parseVersionRange(
  text: string,
  operator: "tilde" | "caret" | "wildcard",
): VersionRange | null {
  if (operator !== "wildcard") {
    const version = parseVersion(text);
    return version === null ? null : { kind: operator, version };
  }
  const parts = normalize(text).split(".").map(stripZeros);
  const star = parts.findIndex((part) => part === "*" || part === "x" || part === "X");
  if (star === -1) {
    if (parts.length < 3 && parts.length > 0 && parts.every(isPart)) {
      return { kind: "partial-caret", parts };
    }
    const version = parts.length < 3 ? null : parseVersion(text);
    return version === null ? null : { kind: "caret", version };
  }
  if (star === 0) return parts.length === 1 ? { kind: "any" } : null;
  const leading = parts.slice(0, star);
  const starsOnly = parts.slice(star).every((part) => part === "*" || part === "x" || part === "X");
  if (!starsOnly || parts.length > 3 || !leading.every(isPart)) return null;
  return { kind: "prefix", parts: leading };
}

/**
 * Whether a version lies in a range. A pre-release does only if the range itself names a
 * pre-release of the same major.minor.patch (flag-evaluation 7.9).
 */
export function isInVersionRange(version: SemanticVersion, range: VersionRange): boolean {
  if (version.preRelease.length > 0) {
    const named = range.kind === "tilde" || range.kind === "caret" ? range.version : null;
    if (named === null || named.preRelease.length === 0 || compareCore(version, named) !== 0) {
      return false;
    }
  }
  const [major, minor, patch] = version.core;
  switch (range.kind) {
    case "any":
      return true;
    case "prefix":
      return range.parts.every((part, index) => part === version.core[index]);
    case "partial-caret": {
      const [wantedMajor, wantedMinor] = range.parts;
      if (major !== wantedMajor) return false;
      if (wantedMinor === undefined) return true;
      return major === "0" ? minor === wantedMinor : compareNumbers(minor, wantedMinor) >= 0;
    }
    case "tilde": {
      const [wantedMajor, wantedMinor, wantedPatch] = range.version.core;
      if (major !== wantedMajor || minor !== wantedMinor) return false;
      if (patch !== wantedPatch) return compareNumbers(patch, wantedPatch) > 0;
      return comparePreRelease(version, range.version) >= 0;
    }
    case "caret": {
      const [wantedMajor, wantedMinor, wantedPatch] = range.version.core;
      if (major !== wantedMajor) return false;
      if (minor !== wantedMinor) return major !== "0" && compareNumbers(minor, wantedMinor) > 0;
      if (patch !== wantedPatch) {
        const patchIsFree = major !== "0" || minor !== "0";
        return patchIsFree && compareNumbers(patch, wantedPatch) > 0;
      }
      return comparePreRelease(version, range.version) >= 0;
    }
  }
}

function normalize(text: string): string {
  return (text.startsWith("v") ? text.slice(1) : text).trim();
}

function stripZeros(part: string): string {
  return DIGITS.test(part) ? part.replace(/^0+(?=[0-9])/, "") : part;
}

function isPart(part: string): boolean {
  return DIGITS.test(part) && compareNumbers(part, MAX_PART) <= 0;
}

function isPreReleaseIdentifier(id: string): boolean {
  return IDENTIFIER.test(id) && !(DIGITS.test(id) && id.length > 1 && id.startsWith("0"));
}

function compareNumbers(a: string, b: string): number {
  return a.length - b.length || compareText(a, b);
}

function compareText(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

function compareCore(a: SemanticVersion, b: SemanticVersion): number {
  return (
    compareNumbers(a.core[0], b.core[0]) ||
    compareNumbers(a.core[1], b.core[1]) ||
    compareNumbers(a.core[2], b.core[2])
  );
}

function comparePreRelease(a: SemanticVersion, b: SemanticVersion): number {
  if (a.preRelease.length === 0 || b.preRelease.length === 0) {
    return b.preRelease.length - a.preRelease.length;
  }
  return compareIdentifiers(a.preRelease, b.preRelease);
}

function compareBuild(a: readonly string[], b: readonly string[]): number {
  return compareIdentifiers(a, b);
}

function compareIdentifiers(a: readonly string[], b: readonly string[]): number {
  for (let index = 0; index < a.length && index < b.length; index += 1) {
    const left = a[index] as string;
    const right = b[index] as string;
    const leftIsNumber = DIGITS.test(left);
    const rightIsNumber = DIGITS.test(right);
    if (leftIsNumber !== rightIsNumber) return leftIsNumber ? -1 : 1;
    const order = leftIsNumber
      ? compareNumbers(stripZeros(left), stripZeros(right)) || left.length - right.length
      : compareText(left, right);
    if (order !== 0) return order;
  }
  return a.length - b.length;
}
