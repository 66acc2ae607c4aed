import { encodeJson } from "../exact-json.ts";
import type { Json } from "../json.ts";
import {
  type BacktrackingPatterns,
  type CompiledPattern,
  type CompilePattern,
  compilePattern,
  type PatternBudget,
  weighPattern,
} from "./pattern.ts";
import {
  compareVersions,
  isInVersionRange,
  parseVersion,
  parseVersionRange,
  type SemanticVersion,
} from "./semantic-version.ts";
import {
  parseDecimal,
  readDateExpression,
  readPropertyInstant,
  resolveDate,
  type TimeZone,
} from "./zoned-date.ts";

/**
 * What comparing a property gives. An error is no match in a condition; in a cohort it is turned
 * into a match by `negation` (flag-evaluation 7.1).
 */
export type Outcome = true | false | "error";

/** What a comparison reads besides the property. */
export interface MatchContext {
  readonly nowMs: number;
  readonly patternBudget: PatternBudget;
}

/** What compiling a comparison needs. */
export interface MatchTools {
  readonly timeZone: TimeZone;
  readonly backtracking: BacktrackingPatterns;
  /** Where compiled patterns are kept; unless given, each is compiled anew. */
  readonly compilePattern?: CompilePattern;
}

/** A comparison prepared once: operator and filter value are read; patterns wait until they are run. */
export interface CompiledComparison {
  readonly whenMissing: Outcome;
  matches(value: Json, context: MatchContext): Outcome;
}

type Compile = (filterValue: Json, tools: MatchTools) => CompiledComparison["matches"] | Outcome;

/** One operator: what it says of a missing property, and how its filter value is prepared. */
interface OperatorRow {
  readonly whenMissing: boolean;
  /** A constant outcome holds for present and missing properties alike. */
  readonly compile: Compile;
  /** True for the two operators that look at presence only. */
  readonly needsNoValue?: true;
}

/** Every operator of flag-evaluation 7, by its wire name. */
const OPERATORS = {
  exact: { whenMissing: false, compile: compileExact },
  is_not: { whenMissing: true, compile: negated(compileExact) },
  is_set: { whenMissing: false, compile: always(true), needsNoValue: true },
  is_not_set: { whenMissing: true, compile: always(false), needsNoValue: true },
  icontains: { whenMissing: false, compile: compileText(contains) },
  not_icontains: { whenMissing: true, compile: negated(compileText(contains)) },
  starts_with: { whenMissing: false, compile: compileText(startsWith) },
  not_starts_with: { whenMissing: true, compile: negated(compileText(startsWith)) },
  ends_with: { whenMissing: false, compile: compileText(endsWith) },
  not_ends_with: { whenMissing: true, compile: negated(compileText(endsWith)) },
  icontains_multi: { whenMissing: false, compile: compileContainsAny },
  not_icontains_multi: { whenMissing: true, compile: negated(compileContainsAny) },
  regex: { whenMissing: false, compile: compileRegex(true) },
  not_regex: { whenMissing: true, compile: compileRegex(false) },
  gt: { whenMissing: false, compile: compileNumber((left, right) => left > right) },
  gte: { whenMissing: false, compile: compileNumber((left, right) => left >= right) },
  lt: { whenMissing: false, compile: compileNumber((left, right) => left < right) },
  lte: { whenMissing: false, compile: compileNumber((left, right) => left <= right) },
  between: { whenMissing: false, compile: compileBetween(true) },
  not_between: { whenMissing: true, compile: compileBetween(false) },
  is_date_exact: { whenMissing: false, compile: compileDate((left, right) => left === right) },
  is_date_before: { whenMissing: false, compile: compileDate((left, right) => left < right) },
  is_date_after: { whenMissing: false, compile: compileDate((left, right) => left > right) },
  semver_eq: { whenMissing: false, compile: compileVersion((order) => order === 0) },
  semver_neq: { whenMissing: false, compile: compileVersion((order) => order !== 0) },
  semver_gt: { whenMissing: false, compile: compileVersion((order) => order > 0) },
  semver_gte: { whenMissing: false, compile: compileVersion((order) => order >= 0) },
  semver_lt: { whenMissing: false, compile: compileVersion((order) => order < 0) },
  semver_lte: { whenMissing: false, compile: compileVersion((order) => order <= 0) },
  semver_tilde: { whenMissing: false, compile: compileVersionRange("tilde") },
  semver_caret: { whenMissing: false, compile: compileVersionRange("caret") },
  semver_wildcard: { whenMissing: false, compile: compileVersionRange("wildcard") },
  // Cohorts and flags have their own matching; on a property these mean nothing.
  in: { whenMissing: false, compile: () => "error" },
  not_in: { whenMissing: false, compile: () => "error" },
  flag_evaluates_to: { whenMissing: false, compile: () => "error" },
} as const satisfies Record<string, OperatorRow>;

/** The operators a filter may name. */
export type Operator = keyof typeof OPERATORS;

/** True for the name of an operator. */
export function isOperator(name: unknown): name is Operator {
  return typeof name === "string" && Object.hasOwn(OPERATORS, name);
}

/**
 * Prepares one comparison. Without a filter value every operator that needs one is false, the
 * negative ones included (flag-evaluation 7.3).
 */
export function compileComparison(
  operator: Operator,
  filterValue: Json | undefined,
  tools: MatchTools,
): CompiledComparison {
  const row: OperatorRow = OPERATORS[operator];
  if (filterValue === undefined || filterValue === null) {
    if (row.needsNoValue !== true) return constant(false);
    return { whenMissing: row.whenMissing, matches: () => !row.whenMissing };
  }
  const compiled = row.compile(filterValue, tools);
  if (typeof compiled !== "function") {
    return row.needsNoValue === true
      ? { whenMissing: row.whenMissing, matches: () => compiled }
      : constant(compiled);
  }
  return { whenMissing: row.whenMissing, matches: compiled };
}

/** Compares a property, `undefined` standing for a missing one. */
export function compare(
  comparison: CompiledComparison,
  value: Json | undefined,
  context: MatchContext,
): Outcome {
  return value === undefined ? comparison.whenMissing : comparison.matches(value, context);
}

/** Text stays; everything else is its compact JSON text (flag-evaluation 7.2). */
export function toText(value: Json): string {
  return typeof value === "string" ? value : encodeJson(value);
}

/** Lower-cases A to Z and nothing else. */
function lowerAscii(text: string): string {
  return /[A-Z]/.test(text) ? text.replace(/[A-Z]+/g, (run) => run.toLowerCase()) : text;
}

/** A number, or text that is a number through and through; `null` for all else. */
export function toNumber(value: Json): number | null {
  if (typeof value === "number") return value;
  if (typeof value === "bigint") return Number(value);
  return typeof value === "string" ? parseDecimal(value) : null;
}

/** The bounds of a between filter; `null` when they are not two numbers in order. */
export function readBounds(filterValue: Json): { low: number; high: number } | null {
  if (!Array.isArray(filterValue) || filterValue.length !== 2) return null;
  const [low, high] = filterValue.map(toNumber) as [number | null, number | null];
  return low === null || high === null || !(low <= high) ? null : { low, high };
}

function constant(outcome: Outcome): CompiledComparison {
  return { whenMissing: outcome, matches: () => outcome };
}

function always(outcome: boolean): Compile {
  return () => outcome;
}

function negated(compile: Compile): Compile {
  return (filterValue, tools) => {
    const compiled = compile(filterValue, tools);
    if (compiled === "error") return "error";
    if (typeof compiled === "boolean") return !compiled;
    return (value, context) => {
      const outcome = compiled(value, context);
      return outcome === "error" ? "error" : !outcome;
    };
  };
}

function compileExact(filterValue: Json): CompiledComparison["matches"] {
  // Matching version 1: a filter on booleans compares truthiness (flag-evaluation 7.4).
  if (isBooleanLike(filterValue)) {
    const wanted = isTruthy(filterValue);
    return (value) => isTruthy(value) === wanted;
  }
  if (Array.isArray(filterValue)) {
    const members = new Set<string>();
    for (const member of filterValue as readonly Json[]) members.add(toText(member).toLowerCase());
    return (value) => members.has(toText(value).toLowerCase());
  }
  const written = toText(filterValue);
  const wanted = written.toLowerCase();
  const first = wanted.charCodeAt(0);
  return (value) => {
    const text = toText(value);
    if (text === written) return true;
    // Most values differ in their first letter: lower-casing never turns an ASCII one into another.
    const code = text.charCodeAt(0);
    if (code < 0x80 && (code >= 0x41 && code <= 0x5a ? code + 0x20 : code) !== first) return false;
    return text.toLowerCase() === wanted;
  };
}

function isBooleanLike(value: Json): boolean {
  if (typeof value === "boolean") return true;
  if (typeof value === "string") return /^(?:true|false)$/i.test(value);
  return Array.isArray(value) && value.every(isBooleanLike);
}

function isTruthy(value: Json): boolean {
  if (typeof value === "boolean") return value;
  if (typeof value === "string") return value.length === 4 && value.toLowerCase() === "true";
  return Array.isArray(value) && value.every(isTruthy);
}

function contains(text: string, part: string): boolean {
  return text.includes(part);
}

function startsWith(text: string, part: string): boolean {
  return text.startsWith(part);
}

function endsWith(text: string, part: string): boolean {
  return text.endsWith(part);
}

function compileText(test: (text: string, part: string) => boolean): Compile {
  return (filterValue) => {
    const part = lowerAscii(toText(filterValue));
    return (value) => test(lowerAscii(toText(value)), part);
  };
}

function compileContainsAny(filterValue: Json): CompiledComparison["matches"] {
  const list = Array.isArray(filterValue) ? (filterValue as readonly Json[]) : [filterValue];
  const parts = list.map((part) => lowerAscii(toText(part)));
  return (value) => {
    const text = lowerAscii(toText(value));
    return parts.some((part) => text.includes(part));
  };
}

function compileRegex(wanted: boolean): Compile {
  return (filterValue, tools) => {
    const text = toText(filterValue);
    const compile = tools.compilePattern ?? compileOnce(tools.backtracking);
    let weight: number | undefined;
    return (value, context) => {
      weight ??= weighPattern(text);
      if (weight > context.patternBudget.weight) return "error";
      context.patternBudget.weight -= weight;
      const pattern = compile(text);
      // An invalid pattern matches neither way, but a missing property still answers by presence.
      if (pattern === null) return false;
      const found = pattern.test(toText(value), context.patternBudget);
      return found === "error" ? "error" : found === wanted;
    };
  };
}

/** Compiles the one pattern it is given, when it is first asked to. */
function compileOnce(backtracking: BacktrackingPatterns): CompilePattern {
  let compiled: CompiledPattern | null | undefined;
  return (text) => {
    compiled = compiled === undefined ? compilePattern(text, backtracking) : compiled;
    return compiled;
  };
}

function compileNumber(test: (left: number, right: number) => boolean): Compile {
  return (filterValue) => {
    const right = toNumber(filterValue);
    if (right === null) return () => "error";
    return (value) => {
      const left = toNumber(value);
      return left === null ? "error" : test(left, right);
    };
  };
}

function compileBetween(wanted: boolean): Compile {
  return (filterValue) => {
    const bounds = readBounds(filterValue);
    if (bounds === null) return "error";
    const { low, high } = bounds;
    return (value) => {
      const number = toNumber(value);
      if (number === null) return !wanted;
      if (Number.isNaN(number)) return false;
      return (number >= low && number <= high) === wanted;
    };
  };
}

function compileDate(test: (left: number, right: number) => boolean): Compile {
  return (filterValue, { timeZone }) => {
    if (typeof filterValue !== "string") return () => false;
    const expression = readDateExpression(filterValue, timeZone);
    if (expression === null) return () => false;
    return (value, { nowMs }) => {
      const left = readPropertyInstant(value, nowMs, timeZone);
      if (left === null) return false;
      const right = resolveDate(expression, nowMs, timeZone);
      return right !== null && test(left, right);
    };
  };
}

function readVersion(value: Json): SemanticVersion | null {
  return parseVersion(toText(value));
}

function compileVersion(test: (order: number) => boolean): Compile {
  return (filterValue) => {
    const right = readVersion(filterValue);
    return (value) => {
      const left = readVersion(value);
      if (left === null) return false;
      return right === null ? "error" : test(compareVersions(left, right));
    };
  };
}

function compileVersionRange(operator: "tilde" | "caret" | "wildcard"): Compile {
  return (filterValue) => {
    const range = parseVersionRange(toText(filterValue), operator);
    return (value) => {
      const version = readVersion(value);
      if (version === null) return false;
      return range === null ? "error" : isInVersionRange(version, range);
    };
  };
}
