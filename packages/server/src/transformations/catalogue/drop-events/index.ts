import type { PluginEvent, PluginMeta } from "@posthog/plugin-scaffold";

type Test = (event: PluginEvent) => boolean;

interface Global {
  matches: Test;
  keepsMatches: boolean;
}

const OPERATORS: Record<string, (value: unknown, wanted: unknown) => boolean> = {
  is: (value, wanted) => anyOf(wanted, (one) => text(value) === text(one)),
  is_not: (value, wanted) => !anyOf(wanted, (one) => text(value) === text(one)),
  contains: (value, wanted) => anyOf(wanted, (one) => text(value).includes(text(one))),
  not_contains: (value, wanted) => !anyOf(wanted, (one) => text(value).includes(text(one))),
  starts_with: (value, wanted) => anyOf(wanted, (one) => text(value).startsWith(text(one))),
  greater_than: (value, wanted) => number(value) > number(wanted),
  less_than: (value, wanted) => number(value) < number(wanted),
  is_set: (value, wanted) => (value !== undefined && value !== null) === wanted,
};
/** What an operator has to be given, where not everything will do. */
const GIVEN: Record<string, [fits: (wanted: unknown) => boolean, what: string]> = {
  greater_than: [(wanted) => !Number.isNaN(number(wanted)), "a number"],
  less_than: [(wanted) => !Number.isNaN(number(wanted)), "a number"],
  is_set: [(wanted) => typeof wanted === "boolean", "true or false"],
};

export function setupPlugin({ config, global }: PluginMeta<Global>) {
  const rules = typeof config.rules === "string" ? JSON.parse(config.rules || "[]") : config.rules;
  if (!Array.isArray(rules)) throw new Error("Rules have to be a list.");
  const tests = rules.map(readRule);
  const keepsMatches = config.action === "keep only these";
  if (keepsMatches && tests.length === 0) {
    throw new Error("Name at least one rule: without any, nothing would be kept.");
  }
  global.matches = (event) => tests.some((matches) => matches(event));
  global.keepsMatches = keepsMatches;
}

export function processEvent(event: PluginEvent, { global }: PluginMeta<Global>) {
  return global.matches(event) === global.keepsMatches ? event : null;
}

function readRule(rule: unknown, index: number): Test {
  const where = `Rule ${index + 1}`;
  if (typeof rule !== "object" || rule === null) throw new Error(`${where} has to be an object.`);
  const { event: names, where: conditions = [], ...others } = rule as Record<string, unknown>;
  const [other] = Object.keys(others);
  // What somebody misspelled would widen the rule without a word.
  if (other !== undefined) throw new Error(`${where} has "${other}"; it may have event and where.`);
  if (!Array.isArray(conditions)) throw new Error(`${where}: "where" has to be a list.`);
  if (names === undefined && conditions.length === 0) {
    throw new Error(`${where} needs "event" or "where": without either it would match everything.`);
  }
  const tests = conditions.map((condition) => readCondition(condition, where));
  if (names !== undefined) {
    const given = list(names);
    if (given.length === 0 || !given.every((name) => typeof name === "string")) {
      throw new Error(`${where}: "event" has to be a name, or a list of them.`);
    }
    const patterns = given.map(wildcard);
    tests.unshift((event) => patterns.some((pattern) => pattern.test(event.event)));
  }
  return (event) => tests.every((matches) => matches(event));
}

function readCondition(condition: unknown, where: string): Test {
  const { property, ...rest } = (condition ?? {}) as Record<string, unknown>;
  const [operator, ...more] = Object.keys(rest);
  if (typeof property !== "string" || operator === undefined || more.length > 0) {
    throw new Error(`${where}: a condition has a "property" and exactly one operator.`);
  }
  const wanted = rest[operator];
  if (Array.isArray(wanted) && wanted.length === 0) {
    throw new Error(`${where}: "${operator}" has an empty list.`);
  }
  if (operator === "matches") {
    const pattern = readPattern(String(wanted), where);
    return (event) => {
      const value = valueAt(event, property);
      return value !== undefined && value !== null && pattern.test(String(value));
    };
  }
  const test = Object.hasOwn(OPERATORS, operator) ? OPERATORS[operator] : undefined;
  if (!test) throw new Error(`${where}: there is no operator "${operator}".`);
  const [fits, what] = (Object.hasOwn(GIVEN, operator) && GIVEN[operator]) || [];
  if (fits && !fits(wanted)) throw new Error(`${where}: "${operator}" needs ${what}.`);
  return (event) => test(valueAt(event, property), wanted);
}

function readPattern(text: string, where: string): RegExp {
  try {
    return new RegExp(text, "i");
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    throw new Error(`${where}: ${JSON.stringify(text)} is no regular expression: ${why}`);
  }
}

function valueAt(event: PluginEvent, path: string): unknown {
  if (path === "distinct_id") return event.distinct_id;
  const properties = event.properties ?? {};
  if (Object.hasOwn(properties, path)) return properties[path];
  let value: unknown = properties;
  for (const key of path.split(".")) {
    if (typeof value !== "object" || value === null || !Object.hasOwn(value, key)) return undefined;
    value = (value as Record<string, unknown>)[key];
  }
  return value;
}

function wildcard(pattern: unknown): RegExp {
  const parts = String(pattern)
    .split("*")
    .map((part) => part.replace(/[\\^$.*+?()[\]{}|/]/g, "\\$&"));
  return new RegExp(`^${parts.join("[\\s\\S]*")}$`, "i");
}

function list(value: unknown): unknown[] {
  return Array.isArray(value) ? value : [value];
}

function anyOf(wanted: unknown, test: (one: unknown) => boolean): boolean {
  return list(wanted).some(test);
}

function text(value: unknown): string {
  if (value === undefined || value === null) return "";
  return (typeof value === "object" ? JSON.stringify(value) : String(value)).toLowerCase();
}

function number(value: unknown): number {
  if (typeof value === "number") return value;
  return typeof value === "string" && value.trim() !== "" ? Number(value) : Number.NaN;
}
