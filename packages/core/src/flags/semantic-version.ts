/** One number of a version; as decimal text without leading zeros where it may exceed 2^53. */
export type VersionNumber = number | string;

/** A parsed version. */
export interface SemanticVersion {
  readonly core: readonly [VersionNumber, VersionNumber, VersionNumber];
  readonly preRelease: readonly string[];
  readonly build: readonly string[];
}

/** What tilde, caret and wildcard filters ask for. */
export type VersionRange =
  | { readonly kind: "any" }
  | { readonly kind: "tilde" | "caret"; readonly version: SemanticVersion }
  /** `1.*` or `1.2.*`: these leading parts, anything after; also a caret on a partial version. */
  | { readonly kind: "prefix" | "partial-caret"; readonly parts: readonly VersionNumber[] };

const NONE: readonly string[] = [];
const DIGITS = /^[0-9]+$/;
const IDENTIFIER = /^[0-9A-Za-z-]+$/;
const DOT = ".".charCodeAt(0) - 48;
/** Numbers of so many digits are exact as binary64. */
const MAX_EXACT_DIGITS = 15;
/** Numbers are 64-bit on the server. */
const MAX_PART = "18446744073709551615";

/**
 * Parses a version leniently: one leading `v` dropped, trimmed, leading zeros stripped, padded to
 * three parts (flag-evaluation 7.9). `null` for anything else, such as four parts.
 */
export function parseVersion(text: string): SemanticVersion | null {
  return parsePlainVersion(text) ?? parseAnyVersion(text);
}

/** The usual kind, digits and at most two dots, without building texts; `null` for all others. */
function parsePlainVersion(text: string): SemanticVersion | null {
  if (text.length === 0 || text.length > 30) return null;
  let part = 0;
  let digits = 0;
  let number = 0;
  let major = 0;
  let minor = 0;
  for (let index = 0; index < text.length; index += 1) {
    const digit = text.charCodeAt(index) - 48;
    if (digit >= 0 && digit <= 9) {
      number = number * 10 + digit;
      digits += 1;
      if (digits > MAX_EXACT_DIGITS) return null;
    } else {
      if (digit !== DOT || digits === 0 || part === 2) return null;
      if (part === 0) major = number;
      else minor = number;
      part += 1;
      number = 0;
      digits = 0;
    }
  }
  if (digits === 0) return null;
  if (part === 0) return { core: [number, 0, 0], preRelease: NONE, build: NONE };
  if (part === 1) return { core: [major, number, 0], preRelease: NONE, build: NONE };
  return { core: [major, minor, number], preRelease: NONE, build: NONE };
}

function parseAnyVersion(text: string): SemanticVersion | null {
  const normalized = normalize(text);
  const cut = normalized.search(/[-+]/);
  const parts = (cut === -1 ? normalized : normalized.slice(0, cut)).split(".");
  const suffix = cut === -1 ? "" : normalized.slice(cut);
  if (parts.length > 3) return null;
  const major = readNumber(parts[0] ?? "");
  const minor = readNumber(parts[1] ?? "0");
  const patch = readNumber(parts[2] ?? "0");
  if (major === null || minor === null || patch === null) return null;
  const plus = suffix.indexOf("+");
  const preText = plus === -1 ? suffix : suffix.slice(0, plus);
  const preRelease = preText === "" ? NONE : preText.slice(1).split(".");
  const build = plus === -1 ? NONE : suffix.slice(plus + 1).split(".");
  if (!preRelease.every(isPreReleaseIdentifier) || !build.every((id) => IDENTIFIER.test(id))) {
    return null;
  }
  return { core: [major, minor, patch], preRelease, build };
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
  const parts = normalize(text).split(".");
  const star = parts.findIndex(isStar);
  const leading = readNumbers(star === -1 ? parts : parts.slice(0, star));
  if (star === -1) {
    if (parts.length < 3)
      return leading === null ? null : { kind: "partial-caret", parts: leading };
    const version = parseVersion(text);
    return version === null ? null : { kind: "caret", version };
  }
  if (star === 0) return parts.length === 1 ? { kind: "any" } : null;
  if (leading === null || parts.length > 3 || !parts.slice(star).every(isStar)) return null;
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
      return major === 0 ? minor === wantedMinor : compareNumbers(minor, wantedMinor) >= 0;
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
      if (minor !== wantedMinor) return major !== 0 && compareNumbers(minor, wantedMinor) > 0;
      if (patch !== wantedPatch) {
        const patchIsFree = major !== 0 || minor !== 0;
        return patchIsFree && compareNumbers(patch, wantedPatch) > 0;
      }
      return comparePreRelease(version, range.version) >= 0;
    }
  }
}

function normalize(text: string): string {
  return (text.startsWith("v") ? text.slice(1) : text).trim();
}

function isStar(part: string): boolean {
  return part === "*" || part === "x" || part === "X";
}

/** Text where the number may exceed 2^53, so that equal numbers are always `===`. */
function readNumber(part: string): VersionNumber | null {
  if (!DIGITS.test(part)) return null;
  const digits = stripZeros(part);
  if (digits.length <= MAX_EXACT_DIGITS) return Number(digits);
  return compareDigits(digits, MAX_PART) <= 0 ? digits : null;
}

function readNumbers(parts: readonly string[]): readonly VersionNumber[] | null {
  const numbers: VersionNumber[] = [];
  for (const part of parts) {
    const number = readNumber(part);
    if (number === null) return null;
    numbers.push(number);
  }
  return numbers;
}

function stripZeros(digits: string): string {
  return digits.replace(/^0+(?=[0-9])/, "");
}

function isPreReleaseIdentifier(id: string): boolean {
  return IDENTIFIER.test(id) && !(DIGITS.test(id) && id.length > 1 && id.startsWith("0"));
}

function compareNumbers(a: VersionNumber, b: VersionNumber): number {
  return typeof a === "number" && typeof b === "number"
    ? a - b
    : compareDigits(String(a), String(b));
}

function compareDigits(a: string, b: string): number {
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
      ? compareDigits(stripZeros(left), stripZeros(right)) || left.length - right.length
      : compareText(left, right);
    if (order !== 0) return order;
  }
  return a.length - b.length;
}
