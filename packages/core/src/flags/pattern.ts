import { RE2JS } from "re2js";
import { type RestatedPattern, restatePattern } from "./regex-dialect.ts";

/** What regexes of one evaluation may still cost; taken from as they run. */
export interface PatternBudget {
  /** Steps (program size times subject length) left for expensive linear-time matches. */
  steps: number;
  /** Steps left for backtracking matches. */
  backtrackingSteps: number;
  /** Summed weight ({@link weighPattern}) of the patterns that may still be run. */
  weight: number;
}

/**
 * Runs patterns that need look-around or back-references, which no linear-time engine has. Must
 * end every match within a bounded number of steps, counted and not timed: the same pattern and
 * subject then give the same answer however busy the machine is.
 */
export interface BacktrackingPatterns {
  /** Compiles JavaScript source; `null` when it is not a valid pattern. */
  compile(source: string, flags: string): BacktrackingPattern | null;
}

/** A compiled backtracking pattern. */
export interface BacktrackingPattern {
  /**
   * Whether the pattern occurs in the subject. Takes what it used from
   * `budget.backtrackingSteps`; `"stopped"` when its own limit or the budget ran out.
   */
  test(subject: string, budget: PatternBudget): boolean | "stopped";
}

/** A pattern ready to search: unanchored, case-sensitive (flag-evaluation 7.5). */
export interface CompiledPattern {
  /** `"error"` when the match would cost, or did cost, more than allowed. */
  test(subject: string, budget: PatternBudget): boolean | "error";
}

/** A platform without a backtracking engine: such patterns count as invalid. */
export const NO_BACKTRACKING: BacktrackingPatterns = { compile: () => null };

/** Longer patterns count as invalid. */
const MAX_PATTERN_LENGTH = 4_000;

/** Larger programs are not given to the linear-time engine: building it alone takes long. */
const MAX_PROGRAM_SIZE = 500;

/**
 * Larger programs are not given to the backtracking engine either, so count as invalid where the
 * other one cannot run them. An engine must take whatever is smaller: written out, repetitions and
 * all, that is at most seven instructions for each unit of size.
 */
export const MAX_BACKTRACKING_SIZE = 2_800;

/**
 * Most steps one linear-time match may take. Measured: while the automaton is still being built a
 * step costs 0.1 to 0.5 µs, later some nanoseconds; so this is 20 ms at the very worst.
 */
const MAX_MATCH_STEPS = 40_000;

/** Matches below this many steps are too cheap to be counted. */
const FREE_MATCH_STEPS = 5_000;

/**
 * What a pattern weighs besides the size of its program, in the same unit: about 400 bytes, and a
 * few microseconds to compile. Measured: the smallest program takes some 4 KB, and a class of
 * Unicode properties some 100 µs.
 */
const BASE_WEIGHT = 10;
const PROPERTY_CLASS_WEIGHT = 20;

/**
 * Most that all patterns of one flag, or of one cohort, may weigh to be stored; a thousand patterns
 * such as those for addresses of one domain weigh a third of it.
 */
export const MAX_STORED_WEIGHT = 100_000;

/**
 * Most that the patterns run for one request may weigh. Counted at every run, kept or not, so that
 * the answer does not depend on what was compiled before.
 */
const MAX_REQUEST_WEIGHT = 500_000;

/** A platform keeps a little more than one request may run, so that repeating it compiles nothing. */
const MAX_KEPT_WEIGHT = 600_000;

/** A fresh budget for one evaluation request. */
export function createPatternBudget(): PatternBudget {
  return { steps: 3 * MAX_MATCH_STEPS, backtrackingSteps: 500_000, weight: MAX_REQUEST_WEIGHT };
}

/**
 * What the program of a pattern costs in memory and in time to build, known without building it;
 * 0 where none is ever built: for plain texts, and for what is malformed or too large.
 */
export function weighPattern(pattern: string): number {
  if (pattern.length > MAX_PATTERN_LENGTH) return 0;
  const restated = restatePattern(pattern);
  if (restated === null || restated.literal !== null) return 0;
  const { programSize, propertyClasses } = restated;
  if (programSize > MAX_BACKTRACKING_SIZE) return 0;
  return BASE_WEIGHT + programSize + PROPERTY_CLASS_WEIGHT * propertyClasses;
}

/** Compiles a pattern once; `null` when it is invalid (no match for regex and not_regex alike). */
export function compilePattern(
  pattern: string,
  backtracking: BacktrackingPatterns,
): CompiledPattern | null {
  if (pattern.length > MAX_PATTERN_LENGTH) return null;
  const restated = restatePattern(pattern);
  if (restated === null) return null;
  const { literal } = restated;
  if (literal !== null) {
    const { text, atStart, atEnd } = literal;
    if (atStart && atEnd) return { test: (subject) => subject === text };
    if (atStart) return { test: (subject) => subject.startsWith(text) };
    if (atEnd) return { test: (subject) => subject.endsWith(text) };
    return { test: (subject) => subject.includes(text) };
  }
  const linear = compileLinear(restated);
  const fallback = () =>
    restated.backtracking === null || restated.programSize > MAX_BACKTRACKING_SIZE
      ? null
      : backtracking.compile(restated.backtracking.source, restated.backtracking.flags);
  if (linear === null) {
    const pattern = fallback();
    return pattern === null
      ? null
      : { test: (subject, budget) => settle(pattern, subject, budget) };
  }
  return boundLinear(linear, fallback);
}

/** {@link compilePattern} on one platform. */
export type CompilePattern = (pattern: string) => CompiledPattern | null;

/**
 * Compiles patterns and keeps those used latest, up to `maxWeight` in all, so that what is stored
 * bounds neither memory nor a start: a pattern is compiled when it is first run, and again when it
 * was not kept. One may take some 50 ms.
 */
export function keepPatterns(
  backtracking: BacktrackingPatterns,
  maxWeight = MAX_KEPT_WEIGHT,
): CompilePattern {
  // In order of use, the longest unused first.
  const kept = new Map<string, CompiledPattern | null>();
  let keptWeight = 0;
  return (pattern) => {
    const known = kept.get(pattern);
    if (known !== undefined) {
      kept.delete(pattern);
      kept.set(pattern, known);
      return known;
    }
    const compiled = compilePattern(pattern, backtracking);
    if (pattern.length > MAX_PATTERN_LENGTH) return compiled;
    kept.set(pattern, compiled);
    keptWeight += weighKept(pattern);
    for (const oldest of kept.keys()) {
      if (keptWeight <= maxWeight) break;
      kept.delete(oldest);
      keptWeight -= weighKept(oldest);
    }
    return compiled;
  };
}

/** A kept pattern costs something even without a program, and its text. */
function weighKept(pattern: string): number {
  return BASE_WEIGHT + weighPattern(pattern) + Math.ceil(pattern.length / 100);
}

/** True for patterns one of the two engines can run; for checking a definition before it is stored. */
export function isValidPattern(pattern: string): boolean {
  const compiles: BacktrackingPatterns = {
    compile(source, flags) {
      try {
        new RegExp(source, flags);
        return { test: () => "stopped" };
      } catch {
        return null;
      }
    },
  };
  return compilePattern(pattern, compiles) !== null;
}

function compileLinear(restated: RestatedPattern): RE2JS | null {
  if (restated.linear === null || restated.programSize > MAX_PROGRAM_SIZE) return null;
  try {
    return RE2JS.compile(restated.linear);
  } catch {
    return null;
  }
}

function boundLinear(
  linear: RE2JS,
  compileFallback: () => BacktrackingPattern | null,
): CompiledPattern {
  const programSize = linear.programSize();
  let fallback: BacktrackingPattern | null | undefined;
  return {
    test(subject, budget) {
      const steps = programSize * subject.length;
      if (steps <= FREE_MATCH_STEPS) return linear.test(subject);
      if (steps <= MAX_MATCH_STEPS && steps <= budget.steps) {
        budget.steps -= steps;
        return linear.test(subject);
      }
      // Too much to promise: the other engine counts the steps it really takes.
      fallback ??= compileFallback();
      return fallback === null ? "error" : settle(fallback, subject, budget);
    },
  };
}

function settle(
  pattern: BacktrackingPattern,
  subject: string,
  budget: PatternBudget,
): boolean | "error" {
  const result = pattern.test(subject, budget);
  return result === "stopped" ? "error" : result;
}
