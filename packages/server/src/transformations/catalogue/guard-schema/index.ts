import type { PluginEvent, PluginMeta } from "@posthog/plugin-scaffold";

type Properties = Record<string, unknown>;

interface Rule {
  path: string;
  isRequired: boolean;
  expected: string;
  fits: (value: unknown) => boolean;
}

interface Schema {
  rules: Rule[];
  /** First parts of the paths. */
  names: Set<string>;
}

interface Global {
  schemas: Map<string, Schema>;
  drops: boolean;
  refusesUnknownEvents: boolean;
  unknownProperties: string;
}

const MAX_PROBLEMS = 20;

const TYPES: Record<string, (value: unknown) => boolean> = {
  any: () => true,
  string: (value) => typeof value === "string",
  number: (value) => typeof value === "number" && Number.isFinite(value),
  integer: (value) => Number.isInteger(value),
  boolean: (value) => typeof value === "boolean",
  object: (value) => typeof value === "object" && value !== null && !Array.isArray(value),
  array: (value) => Array.isArray(value),
  null: (value) => value === null,
  date: (value) =>
    typeof value === "string" &&
    /^\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?(?:Z|[+-]\d{2}:?\d{2})?)?$/.test(
      value,
    ) &&
    !Number.isNaN(Date.parse(value)) &&
    isInCalendar(value.slice(0, 10)),
  uuid: (value) =>
    typeof value === "string" && /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i.test(value),
  url: (value) => typeof value === "string" && /^[a-z][a-z0-9+.-]*:\/\/[^\s/?#]+/i.test(value),
  email: (value) =>
    typeof value === "string" && /^[^\s@]{1,64}@[^\s@.]+(?:\.[^\s@.]+)+$/.test(value),
};

/** Dates take 30 February for a day in March. */
function isInCalendar(day: string): boolean {
  return new Date(`${day}T00:00:00Z`).toISOString().startsWith(day);
}

export function setupPlugin({ config, global }: PluginMeta<Global>) {
  const given =
    typeof config.schemas === "string" ? JSON.parse(config.schemas || "{}") : config.schemas;
  if (!TYPES.object?.(given)) throw new Error("Schemas have to be an object by event.");
  global.schemas = new Map(
    Object.entries(given).map(([event, schema]) => [event, readSchema(event, schema)]),
  );
  global.drops = config.action === "drop";
  global.refusesUnknownEvents = config.unknownEvents === "treat as unfit";
  global.unknownProperties = String(config.unknownProperties ?? "allow");
}

export function processEvent(event: PluginEvent, { global }: PluginMeta<Global>) {
  const isInternal = event.event.startsWith("$");
  const schema =
    global.schemas.get(event.event) ?? (isInternal ? undefined : global.schemas.get("*"));
  if (!schema && (isInternal || !global.refusesUnknownEvents)) return event;
  const properties = event.properties ?? {};
  const problems = schema ? check(properties, schema) : ["the event has no schema"];
  if (schema && !isInternal && global.unknownProperties !== "allow") {
    for (const name of Object.keys(properties)) {
      if (name.startsWith("$") || schema.names.has(name)) continue;
      if (global.unknownProperties === "remove") delete properties[name];
      else problems.push(`${name}: not in the schema`);
    }
  }
  if (problems.length > 0 && global.drops) {
    console.warn(`Dropped "${event.event}" ${event.uuid}: ${problems.join("; ").slice(0, 1000)}`);
    return null;
  }
  properties.$schema_valid = problems.length === 0;
  if (problems.length > 0) properties.$schema_problems = problems.slice(0, MAX_PROBLEMS);
  event.properties = properties;
  return event;
}

function check(properties: Properties, { rules }: Schema): string[] {
  const problems: string[] = [];
  for (const { path, isRequired, expected, fits } of rules) {
    const value = valueAt(properties, path);
    if (value === undefined) {
      if (isRequired) problems.push(`${path}: missing`);
    } else if (!fits(value)) {
      problems.push(`${path}: expected ${expected}, found ${kindOf(value)}`);
    }
  }
  return problems;
}

function readSchema(event: string, schema: unknown): Schema {
  if (!TYPES.object?.(schema)) throw new Error(`The schema of "${event}" has to be an object.`);
  const { required = {}, optional = {}, ...others } = schema as Record<string, object>;
  const [other] = Object.keys(others);
  if (other !== undefined) {
    throw new Error(`The schema of "${event}" has "${other}"; it may have required and optional.`);
  }
  for (const [name, types] of Object.entries({ required, optional })) {
    if (TYPES.object?.(types)) continue;
    throw new Error(
      `The schema of "${event}": "${name}" has to be an object of types by property.`,
    );
  }
  const rules = [
    ...Object.entries(required).map(([path, type]) => readRule(event, path, type, true)),
    ...Object.entries(optional).map(([path, type]) => readRule(event, path, type, false)),
  ];
  const names = rules.flatMap(({ path }) => [path, path.split(".")[0] ?? path]);
  return { rules, names: new Set(names) };
}

function readRule(event: string, path: string, type: unknown, isRequired: boolean): Rule {
  if (Array.isArray(type)) {
    const allowed = new Set(type);
    return {
      path,
      isRequired,
      expected: `one of ${type.map((one) => JSON.stringify(one)).join(", ")}`,
      fits: (value) => allowed.has(value),
    };
  }
  const names = String(type)
    .split("|")
    .map((name) => name.trim());
  const tests = names.map((name) => {
    const test = Object.hasOwn(TYPES, name) ? TYPES[name] : undefined;
    if (!test) throw new Error(`"${event}", property "${path}": there is no type "${name}".`);
    return test;
  });
  return {
    path,
    isRequired,
    expected: names.join(" or "),
    fits: (value) => tests.some((test) => test(value)),
  };
}

function valueAt(properties: Properties, path: string): unknown {
  if (Object.hasOwn(properties, path)) return properties[path];
  let value: unknown = properties;
  for (const key of path.split(".")) {
    if (typeof value !== "object" || value === null || !Object.hasOwn(value, key)) return undefined;
    value = (value as Properties)[key];
  }
  return value;
}

function kindOf(value: unknown): string {
  if (value === null) return "null";
  if (Array.isArray(value)) return "array";
  return typeof value === "string" || typeof value === "number"
    ? `${typeof value} ${JSON.stringify(value).slice(0, 50)}`
    : typeof value;
}
