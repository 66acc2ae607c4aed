import { compilePattern, createPatternBudget } from "@hedgerow/core/flags/pattern";
import { describe, expect, it } from "vitest";
import { createBacktrackingRegex } from "./backtracking-regex.ts";

/** Patterns that take exponential time, and a subject that makes each of them do so. */
const EVIL: readonly (readonly [string, string])[] = [
  ["^(a+)+\\1$", `${"a".repeat(60)}b`],
  ["^(?=(?:a|aa)+$)x", `${"a".repeat(80)}b`],
  ["(?<!x)(?:(?:a*)*)*b\\b(?!y)", `${"a".repeat(60)}c`],
  ["^(?=(([a-z])+.)+[A-Z]([a-z])+$)", "a".repeat(100)],
  ["(?=(.*)(.*)(.*)(.*)(.*)(.*)(.*)(.*)(.*)(.*)x)", "a".repeat(500)],
];

describe("backtracking patterns", () => {
  const patterns = createBacktrackingRegex();

  it("[FE-14] finds what look-around and back-references ask for", () => {
    const cases: readonly (readonly [string, string, boolean])[] = [
      ["foo(?=bar)", "foobar", true],
      ["foo(?!bar)", "foobar", false],
      ["(?<=foo)bar", "foobar", true],
      ["\\b(\\w+)\\s+\\1\\b", "this is is a test", true],
      ["^(?=.*[A-Z])(?=.*\\d).{8,}$", "Password1", true],
      ["(?i)foo(?=BAR)", "FOObar", true],
      ["(?P<word>\\w+)-(?P=word)", "ab-ab", true],
      ["(?<!\\d)42(?!\\d)", "1423", false],
    ];
    for (const [pattern, subject, expected] of cases) {
      const compiled = compilePattern(pattern, patterns);
      expect([pattern, compiled?.test(subject, createPatternBudget())]).toEqual([
        pattern,
        expected,
      ]);
    }
  });

  it.each(EVIL)("[FE-15] stops %s in time, as an error", (pattern, subject) => {
    const compiled = compilePattern(pattern, patterns);
    const startedMs = performance.now();
    expect(compiled?.test(subject, createPatternBudget())).toBe("error");
    expect(performance.now() - startedMs).toBeLessThan(250);
  });

  it("[FE-15] lets a hundred evil patterns take no longer than their one budget", () => {
    const budget = createPatternBudget();
    const [pattern, subject] = EVIL[0] ?? ["", ""];
    const startedMs = performance.now();
    for (let index = 0; index < 100; index += 1) {
      expect(compilePattern(pattern, patterns)?.test(subject + index, budget)).toBe("error");
    }
    expect(performance.now() - startedMs).toBeLessThan(500);
    expect(budget.timeMs).toBeLessThanOrEqual(0);
  });

  it("goes on working after a match was stopped", () => {
    const [pattern, subject] = EVIL[0] ?? ["", ""];
    const compiled = compilePattern(pattern, patterns);
    expect(compiled?.test(subject, createPatternBudget())).toBe("error");
    expect(compiled?.test("aaaa", createPatternBudget())).toBe(true);
  });

  it("refuses a pattern that is none", () => {
    expect(patterns.compile("(?<=", "u")).toBeNull();
  });

  it("answers a subject again without matching it again", () => {
    const compiled = patterns.compile("(?=a)a", "u");
    const budget = createPatternBudget();
    expect(compiled?.test("a", budget)).toBe(true);
    const left = budget.timeMs;
    expect(left).toBeLessThan(createPatternBudget().timeMs);
    expect(compiled?.test("a", budget)).toBe(true);
    expect(budget.timeMs).toBe(left);
  });
});
