import { compilePattern, createPatternBudget, isValidPattern } from "@hedgerow/core/flags/pattern";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { createBacktrackingRegex } from "./backtracking-regex.ts";

const patterns = createBacktrackingRegex();

function test(source: string, subject: string, flags = "u") {
  return patterns.compile(source, flags)?.test(subject, createPatternBudget()) ?? null;
}

/** Patterns that take exponential time, and a subject that makes each of them do so. */
const EVIL: readonly (readonly [string, string])[] = [
  ["^(a+)+\\1$", `${"a".repeat(60)}b`],
  ["^(?=(?:a|aa)+$)x", `${"a".repeat(80)}b`],
  ["(?<!x)(?:(?:a*)*)*b\\b(?!y)", `${"a".repeat(60)}c`],
  ["^(?=(([a-z])+.)+[A-Z]([a-z])+$)", "a".repeat(100)],
  ["(?=(.*)(.*)(.*)(.*)(.*)(.*)(.*)(.*)(.*)(.*)x)", "a".repeat(500)],
  ["(?<=(a|aa)*b)c", `${"a".repeat(3_000)}c`],
];

describe("backtracking patterns", () => {
  it.each([
    ["foo(?=bar)", "foobar", true],
    ["foo(?!bar)", "foobar", false],
    ["(?<=foo)bar", "foobar", true],
    ["(?<!foo)bar", "xbar", true],
    ["\\b(\\w+)\\s+\\1\\b", "this is is a test", true],
    ["\\b(\\w+)\\s+\\1\\b", "the quick brown fox", false],
    ["^(?=.*[A-Z])(?=.*\\d).{8,}$", "Password1", true],
    ["^(?=.*[A-Z])(?=.*\\d).{8,}$", "password", false],
    ["(?i)foo(?=BAR)", "FOObar", true],
    ["(?P<word>\\w+)-(?P=word)", "ab-ab", true],
    ["(?<!\\d)42(?!\\d)", "1423", false],
    ["(?<=\\$|€)\\d+", "€5", true],
    ["(?<=^|,)b(?=,|$)", "a,b", true],
    ["(?=😀).x", "😀x", true],
    ["(?<=😀)x", "😀x", true],
    ["(?i)(straße)-\\1", "STRASSE-strasse", false],
    ["(?!)", "", false],
    ["(?=)", "", true],
    ["(a)|b\\1", "b", false],
  ])("[FE-14] searches %s in %j", (pattern, subject, expected) => {
    expect(compilePattern(pattern, patterns)?.test(subject, createPatternBudget())).toBe(expected);
  });

  it("[FE-14] agrees with the platform's engine", () => {
    const { node } = fc.letrec<{ node: string }>((tie) => ({
      node: fc.oneof(
        { maxDepth: 3, withCrossShrink: true },
        fc.constantFrom("a", "b", "c", "[ab]", "[^a]", "\\w", "\\b", "\\B", "^", "$"),
        fc.tuple(tie("node"), tie("node")).map((pair) => pair.join("")),
        fc.tuple(tie("node"), tie("node")).map((pair) => `(?:${pair.join("|")})`),
        fc
          .tuple(
            tie("node"),
            fc.constantFrom("*", "+", "?", "{2}", "{1,2}", "{0,}", "*?", "+?", "??"),
          )
          .map(([inner, quantifier]) => `(?:${inner})${quantifier}`),
        fc
          .tuple(fc.constantFrom("(?=", "(?!", "(?<=", "(?<!"), tie("node"))
          .map(([opening, inner]) => `${opening}${inner})`),
      ),
    }));
    const subject = fc.string({
      unit: fc.constantFrom("a", "b", "c", "A", "-"),
      maxLength: 8,
    });
    fc.assert(
      fc.property(node, subject, fc.constantFrom("u", "iu"), (source, text, flags) => {
        expect(test(source, text, flags)).toBe(new RegExp(source, flags).test(text));
      }),
      { numRuns: 3000 },
    );
  });

  it("[FE-14] agrees with the platform's engine on back-references", () => {
    const piece = fc.constantFrom("a", "b", "[ab]", "a*", "b+?", "a?", "\\w", "(?=a)", "(?<=b)");
    const body = fc.array(piece, { minLength: 1, maxLength: 3 }).map((parts) => parts.join(""));
    const subject = fc.string({ unit: fc.constantFrom("a", "b", "-"), maxLength: 10 });
    fc.assert(
      fc.property(body, body, body, subject, (first, second, third, text) => {
        const source = `(${first})${second}(${third})\\1-?\\2`;
        expect(test(source, text)).toBe(new RegExp(source, "u").test(text));
      }),
      { numRuns: 2000 },
    );
  });

  it.each(EVIL)("[FE-15] stops %s, always alike", (pattern, subject) => {
    for (let run = 0; run < 3; run += 1) {
      const budget = createPatternBudget();
      const granted = budget.backtrackingSteps;
      expect(compilePattern(pattern, patterns)?.test(subject, budget)).toBe("error");
      expect(granted - budget.backtrackingSteps).toBeLessThanOrEqual(granted / 2);
    }
  });

  it("[FE-15] lets a hundred evil patterns take no more than their one budget", () => {
    const budget = createPatternBudget();
    const [pattern, subject] = EVIL[0] ?? ["", ""];
    for (let index = 0; index < 100; index += 1) {
      expect(compilePattern(pattern, patterns)?.test(subject + index, budget)).toBe("error");
    }
    expect(budget.backtrackingSteps).toBeLessThanOrEqual(0);
    expect(budget.backtrackingSteps).toBeGreaterThan(-1_000);
  });

  it("[FE-15] answers subjects of many thousand characters", () => {
    expect(test("(?:ab)*(?=c)", `${"ab".repeat(5_000)}c`)).toBe(true);
    expect(test("^(?:a|b)*$(?!x)", "ab".repeat(5_000))).toBe(true);
  });

  it("[FE-15] refuses repetitions that would fill memory", () => {
    expect(patterns.compile("(?:(?:a{1000}){1000}){1000}", "u")).toBeNull();
    expect(patterns.compile("a{1000}", "u")).not.toBeNull();
  });

  it("[FE-38] runs whatever passes the check of a filter, up to the largest patterns", () => {
    const { node } = fc.letrec<{ node: string }>((tie) => ({
      node: fc.oneof(
        { maxDepth: 4, depthSize: "large" },
        fc.constantFrom("a", "[ab]", "\\A", "\\Z", "$", "(?:)", "(?:\\Z\\Z\\Z)", "(?:a|b|)"),
        fc.tuple(tie("node"), tie("node")).map((pair) => pair.join("")),
        fc.tuple(tie("node"), tie("node")).map((pair) => `(?:${pair.join("|")})`),
        fc
          .tuple(
            tie("node"),
            fc.constantFrom(2, 30, 600),
            fc.constantFrom("*", "+", "?", "{", "{0,"),
          )
          .map(([inner, count, sign]) =>
            sign.startsWith("{") ? `(?:${inner})${sign}${count}}` : `(?:${inner})${sign}`,
          ),
      ),
    }));
    let largest = 0;
    fc.assert(
      fc.property(node, fc.constantFrom("", "(?m)"), (body, flags) => {
        const pattern = `${flags}(?=${body})`;
        if (!isValidPattern(pattern)) return;
        largest = Math.max(largest, Number(/\d+/.exec(body)?.[0] ?? 0));
        expect(compilePattern(pattern, patterns)).not.toBeNull();
      }),
      { numRuns: 2000 },
    );
    expect(largest).toBe(600);
    expect(isValidPattern("(?=(?:ab){500})")).toBe(true);
    expect(isValidPattern("(?=(?:(?:ab){100}){100})")).toBe(false);
  });

  it("refuses a pattern that is none", () => {
    expect(patterns.compile("(?<=", "u")).toBeNull();
  });
});
