import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { TRUSTING_PATTERNS } from "./golden-cases.setup.ts";
import {
  type BacktrackingPatterns,
  compilePattern,
  createPatternBudget,
  isValidPattern,
  keepPatterns,
  NO_BACKTRACKING,
  weighPattern,
} from "./pattern.ts";
import { restatePattern } from "./regex-dialect.ts";

function search(pattern: string, subject: string, backtracking = NO_BACKTRACKING) {
  return compilePattern(pattern, backtracking)?.test(subject, createPatternBudget()) ?? "invalid";
}

describe("patterns", () => {
  it.each([
    ["\\.com$", "a@b.com", true],
    ["\\.com$", ".com!", false],
    ["^abc", "abcd", true],
    ["^abc$", "abc", true],
    ["^abc$", "abc\n", false],
    ["a+b", "xaab", true],
    ["(?i)hello", "well HELLO", true],
    ["(?i)^user-[0-9]+$", "USER-12", true],
    ["(?s)a.c", "a\nc", true],
    ["a.c", "a\nc", false],
    ["(?m)^b$", "a\nb\nc", true],
    ["(?x) a b  # both\n c", "abc", true],
    ["\\d{3}-\\d{4}", "call 555-1234", true],
    ["[[:alpha:]]+\\.", "abc.", true],
    ["(?P<year>\\d{4})", "in 2024", true],
    ["\\x{1F600}|\\u0041", "A", true],
    ["\\p{Greek}+", "λόγος", true],
    ["colou?r", "color", true],
    ["", "anything", true],
    ["4", "4", true],
  ])("[FE-13] searches %s in %j", (pattern, subject, expected) => {
    expect(search(pattern, subject)).toBe(expected);
  });

  it.each(["?*", "(", "[a", "a{2,1}", "(?<n", "\\", "*", "(?z)a", "a)"])(
    "[FE-13] takes %s for no pattern",
    (pattern) => {
      expect(compilePattern(pattern, TRUSTING_PATTERNS)).toBeNull();
      expect(isValidPattern(pattern)).toBe(false);
    },
  );

  it.each(["foo(?=bar)", "(a)\\1", "a{2000}", "[\\w.+-]+@(?!spam)", "(?<!x)y"])(
    "[FE-14] knows %s for a pattern",
    (pattern) => {
      expect(isValidPattern(pattern)).toBe(true);
    },
  );

  it("[FE-13] says the same as JavaScript for plain texts, anchored or not", () => {
    const part = fc.constantFrom("a", "b", "\\.", "\\$", "-", "é", "@", "\\^", " ");
    const pattern = fc
      .tuple(fc.constantFrom("", "^"), fc.array(part, { maxLength: 4 }), fc.constantFrom("", "$"))
      .map(([start, parts, end]) => start + parts.join("") + end);
    const subject = fc.string({
      unit: fc.constantFrom("a", "b", ".", "$", "-", "é", "@", "^", " "),
      maxLength: 8,
    });
    fc.assert(
      fc.property(pattern, subject, (source, text) => {
        expect(restatePattern(source)?.literal).not.toBeNull();
        expect(search(source, text)).toBe(new RegExp(source).test(text));
      }),
    );
  });

  it("[FE-13] says the same in either engine", () => {
    const atom = fc.constantFrom("a", "b", ".", "[ab]", "[^a]", "\\w", "\\d", "(a|b)", "(?:ab)");
    const piece = fc
      .tuple(atom, fc.constantFrom("", "*", "+", "?", "{1,2}", "*?"))
      .map(([left, right]) => left + right);
    const source = fc
      .tuple(
        fc.constantFrom("", "(?i)", "(?s)", "(?m)"),
        fc.constantFrom("", "^", "\\A", "\\b"),
        fc.array(piece, { minLength: 1, maxLength: 4 }),
        fc.constantFrom("", "$", "\\z", "\\b"),
      )
      .map(([flags, start, pieces, end]) => flags + start + pieces.join("") + end);
    const subject = fc.string({ unit: fc.constantFrom("a", "b", "B", "1", "\n", "-") });
    fc.assert(
      fc.property(source, subject, (pattern, text) => {
        const { backtracking } = restatePattern(pattern) ?? {};
        const other = new RegExp(backtracking?.source ?? "", backtracking?.flags);
        expect(search(pattern, text)).toBe(other.test(text));
      }),
      { numRuns: 300 },
    );
  });

  it("[FE-15] runs linear patterns that ruin a backtracking engine", () => {
    const subject = `${"a".repeat(2_000)}b`;
    const before = process.cpuUsage();
    expect(search("^(a+)+$", subject)).toBe(false);
    expect(search("(a|aa)+$", subject)).toBe(false);
    expect(search("^(a|a)*c", subject)).toBe(false);
    expect(process.cpuUsage(before).user / 1_000).toBeLessThan(4_000);
  });

  it("[FE-15] gives up, as an error, where a linear match would take too many steps", () => {
    const pattern = compilePattern("[ab]*a[ab]{200}c", NO_BACKTRACKING);
    expect(pattern?.test("ab".repeat(5_000), createPatternBudget())).toBe("error");
    const budget = createPatternBudget();
    budget.steps = 0;
    expect(pattern?.test("ab".repeat(20), budget)).toBe("error");
  });

  it("[FE-15] refuses oversized patterns", () => {
    expect(isValidPattern("a".repeat(4_001))).toBe(false);
    expect(isValidPattern(`${"(".repeat(200)}a${")".repeat(200)}`)).toBe(false);
  });

  it("[FE-15] refuses patterns with more classes of Unicode properties than can be built at once", () => {
    expect(isValidPattern("\\p{L}".repeat(100))).toBe(true);
    expect(isValidPattern("\\p{L}".repeat(101))).toBe(false);
    expect(isValidPattern(`(?=[^${"\\pL".repeat(101)}])`)).toBe(false);
  });

  it("[FE-51] weighs a pattern by its program, repetitions written out, without building it", () => {
    expect(weighPattern("(?:a{1,50}){1,5}")).toBeGreaterThan(250);
    expect(weighPattern("^\\w+@example\\.com$")).toBeLessThan(50);
    expect(weighPattern("\\p{L}".repeat(100))).toBeGreaterThan(2_000);
    for (const free of ["plain", "^plain\\.txt$", "(", "(a{1000}){1000}", "a|".repeat(2_001)]) {
      expect(weighPattern(free)).toBe(0);
    }
  });

  it("[FE-51] compiles a pattern once as long as it is in use, up to a bound on all weights", () => {
    const compiled: string[] = [];
    const counting: BacktrackingPatterns = {
      compile(source, flags) {
        compiled.push(source);
        return TRUSTING_PATTERNS.compile(source, flags);
      },
    };
    // Room for two, and for an invalid one: each weighs 11 besides its program.
    const compile = keepPatterns(counting, 2 * (11 + weighPattern("(?=a)1")) + 11);
    const first = compile("(?=a)1");
    expect(compile("(?=a)1")).toBe(first);
    expect(first?.test("a1", createPatternBudget())).toBe(false);
    expect([compile("(?="), compile("(?=")]).toEqual([null, null]);
    compile("(?=a)2");
    compile("(?=a)1");
    compile("(?=a)3");
    compile("(?=a)1");
    compile("(?=a)2");
    expect(compiled).toEqual(["(?=a)1", "(?=a)2", "(?=a)3", "(?=a)2"]);
  });

  it("never throws, whatever the pattern and the subject", () => {
    fc.assert(
      fc.property(
        fc.string({ unit: fc.constantFrom(..."ab()[]{}*+?|\\^$.,:=!<>Pk-dDwWsSbBpz019in") }),
        fc.string(),
        (pattern, subject) => {
          compilePattern(pattern, TRUSTING_PATTERNS)?.test(subject, createPatternBudget());
        },
      ),
      { numRuns: 1000 },
    );
  });
});
