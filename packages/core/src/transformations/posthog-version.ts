/** Of PostHog's numbered versions, the last: what plugins were published for works as it did there. */
export const POSTHOG_VERSION = "1.43.1";

/** Major, minor and patch, and -1 for what comes before that release. */
type Version = readonly [major: number, minor: number, patch: number, release: number];

interface Clause {
  readonly sign: string;
  /** As many numbers as are given; a `*` ends them. */
  readonly numbers: readonly number[];
  readonly isBeforeRelease: boolean;
}

const NUMBER = "(?:\\*|0|[1-9]\\d{0,8})";
const CLAUSE = new RegExp(
  `^(<=?|==?|!=|>=?|~=?|\\^)?(${NUMBER}(?:\\.${NUMBER}){0,2})(-[\\w.-]+)?(?:\\+[\\w.-]+)?$`,
);

/**
 * Whether {@link POSTHOG_VERSION} is what a plugin requires (`posthogVersion`, posthog-api 6.8):
 * clauses with commas between them, of which all have to hold, each a version (`1.2`, `1.*`, `*`)
 * behind one of `==`, `!=`, `<`, `<=`, `>`, `>=`, `~`, `~=`, `^` or nothing. Blanks do not count.
 * `undefined` for what is no such requirement.
 */
export function meetsPosthogVersion(
  required: string,
  version: string = POSTHOG_VERSION,
): boolean | undefined {
  const current = readClause(version);
  const clauses = required.replace(/\s+/g, "").split(",").map(readClause);
  if (!current || clauses.some((clause) => clause === undefined)) return undefined;
  return clauses.every((clause) => clause !== undefined && holds(clause, firstOf(current)));
}

function readClause(text: string): Clause | undefined {
  const match = CLAUSE.exec(text);
  if (!match) return undefined;
  const [, sign = "==", digits = "", before] = match;
  const parts = digits.split(".");
  const wild = parts.indexOf("*");
  const given = wild < 0 ? parts : parts.slice(0, wild);
  const numbers = given.map(Number);
  return { sign: sign === "=" ? "==" : sign, numbers, isBeforeRelease: before !== undefined };
}

function holds(clause: Clause, version: Version): boolean {
  const { sign, numbers } = clause;
  const isFrom = compare(version, firstOf(clause)) >= 0;
  const isWithin = (kept: number) => isFrom && compare(version, endOf(clause, kept)) < 0;
  switch (sign) {
    case "==":
      return isWithin(numbers.length);
    case "!=":
      return !isWithin(numbers.length);
    case "<":
      return !isFrom;
    case "<=":
      return compare(version, endOf(clause, numbers.length)) < 0;
    case ">":
      return compare(version, endOf(clause, numbers.length)) >= 0;
    case ">=":
      return isFrom;
    case "~":
      return isWithin(Math.min(numbers.length, 2));
    case "~=":
      return isWithin(Math.max(1, numbers.length - 1));
    default: {
      // Up to the next change of the first number that is not 0.
      const first = numbers.findIndex((number) => number > 0);
      return isWithin(first < 0 ? numbers.length : first + 1);
    }
  }
}

function firstOf({ numbers: [major = 0, minor = 0, patch = 0], isBeforeRelease }: Clause): Version {
  return [major, minor, patch, isBeforeRelease ? -1 : 0];
}

/** The first version that differs in one of the first numbers; there is none where none is kept. */
function endOf({ numbers, isBeforeRelease }: Clause, kept: number): Version {
  if (kept === 0) return [Number.POSITIVE_INFINITY, 0, 0, 0];
  if (isBeforeRelease && kept === 3) {
    const [major = 0, minor = 0, patch = 0] = numbers;
    return [major, minor, patch, 0];
  }
  const end = numbers.slice(0, kept);
  end[kept - 1] = (end[kept - 1] ?? 0) + 1;
  const [major = 0, minor = 0, patch = 0] = end;
  return [major, minor, patch, 0];
}

function compare(one: Version, other: Version): number {
  for (const [index, number] of one.entries()) {
    const difference = number - (other[index] ?? 0);
    if (difference !== 0) return difference;
  }
  return 0;
}
