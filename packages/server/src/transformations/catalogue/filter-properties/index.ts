import type { PluginEvent, PluginMeta } from "@posthog/plugin-scaffold";

type Properties = Record<string, unknown>;
/** The parts of a path, each as a test of one name. */
type Path = ((name: string) => boolean)[];

interface Global {
  paths: Path[];
  whole: Set<string>;
  keepsListed: boolean;
  keepsInternal: boolean;
  filtersPersons: boolean;
  events: Set<string> | null;
}

const PERSON_PROPERTIES = ["$set", "$set_once"];

export function setupPlugin({ config, global }: PluginMeta<Global>) {
  const names = listOf(config.properties);
  if (names.length === 0) throw new Error("Name at least one property.");
  global.whole = new Set(names);
  global.paths = names.map((name) => name.split(".").map(partTest));
  global.keepsListed = config.action === "keep only these";
  global.keepsInternal = config.keepInternal !== "no";
  global.filtersPersons = config.personProperties !== "no";
  const events = listOf(config.events);
  global.events = events.length > 0 ? new Set(events) : null;
}

export function processEvent(event: PluginEvent, { global }: PluginMeta<Global>) {
  if (!event.properties || (global.events && !global.events.has(event.event))) return event;
  event.properties = filter(event.properties, global, true);
  if (global.filtersPersons) {
    for (const name of PERSON_PROPERTIES) {
      const given = event.properties[name];
      if (isObject(given)) event.properties[name] = filter(given, global, false);
    }
  }
  return event;
}

function filter(properties: Properties, global: Global, isEvent: boolean): Properties {
  const { paths, whole, keepsListed, keepsInternal, filtersPersons } = global;
  const isUntouched = (name: string) =>
    isEvent && PERSON_PROPERTIES.includes(name)
      ? !filtersPersons || keepsListed || !whole.has(name)
      : isEvent && keepsListed && keepsInternal && name.startsWith("$");
  const kept: [name: string, value: unknown][] = [];
  for (const [name, value] of Object.entries(properties)) {
    if (isUntouched(name)) kept.push([name, value]);
    else if (whole.has(name)) {
      if (keepsListed) kept.push([name, value]);
    } else {
      const below = paths.filter(([first]) => first?.(name)).map((path) => path.slice(1));
      const rest = keepsListed ? keep(value, below) : remove(value, below);
      if (rest !== undefined) kept.push([name, rest]);
    }
  }
  // Unlike an assignment, it takes every name for a name.
  return Object.fromEntries(kept);
}

/** What is left of a value without what lies at some paths; `undefined` for nothing. */
function remove(value: unknown, paths: Path[]): unknown {
  if (paths.length === 0) return value;
  if (paths.some((path) => path.length === 0)) return undefined;
  if (Array.isArray(value)) return value.map((item) => remove(item, paths));
  if (!isObject(value)) return value;
  return each(value, paths, remove);
}

/** What lies at some paths of a value; `undefined` for nothing. */
function keep(value: unknown, paths: Path[]): unknown {
  if (paths.length === 0) return undefined;
  if (paths.some((path) => path.length === 0)) return value;
  if (Array.isArray(value)) {
    return value.map((item) => keep(item, paths)).filter((item) => item !== undefined);
  }
  return isObject(value) ? each(value, paths, keep) : undefined;
}

function each(
  value: Properties,
  paths: Path[],
  visit: (value: unknown, paths: Path[]) => unknown,
): Properties {
  const rest = Object.entries(value).flatMap(([name, item]) => {
    const below = paths.filter(([first]) => first?.(name)).map((path) => path.slice(1));
    const visited = visit(item, below);
    return visited === undefined ? [] : [[name, visited] as const];
  });
  return Object.fromEntries(rest);
}

function partTest(part: string): (name: string) => boolean {
  if (!part.includes("*")) return (name) => name === part;
  const literal = part.split("*").map((text) => text.replace(/[\\^$.*+?()[\]{}|/]/g, "\\$&"));
  const pattern = new RegExp(`^${literal.join("[\\s\\S]*")}$`);
  return (name) => pattern.test(name);
}

function listOf(value: unknown): string[] {
  return String(value ?? "")
    .split(",")
    .map((name) => name.trim())
    .filter((name) => name !== "");
}

function isObject(value: unknown): value is Properties {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
