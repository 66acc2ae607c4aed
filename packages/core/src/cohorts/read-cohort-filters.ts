import { encodeJson } from "../exact-json.ts";
import { isJsonObject, type Json, type JsonObject, ownValue } from "../json.ts";

/** A cohort's rule as stored, checked for shape; values are not compiled yet. */
export type CohortNode =
  | { readonly kind: "group"; readonly type: "AND" | "OR"; readonly nodes: readonly CohortNode[] }
  | {
      readonly kind: "property";
      readonly source: "person" | "person_metadata";
      readonly key: string;
      /** As written; `null` or absent means exact. Whether it exists is for the reader to check. */
      readonly operator: Json;
      readonly value: Json | undefined;
      readonly isNegated: boolean;
    }
  | { readonly kind: "cohort"; readonly id: number; readonly wanted: boolean }
  /** A rule on past behavior: see `readBehavior`. */
  | { readonly kind: "behavior"; readonly leaf: JsonObject; readonly isNegated: boolean };

/** What a stored rule turned out to be. */
export type CohortFilters =
  | { readonly kind: "rule"; readonly node: CohortNode }
  /** No rule at all: nobody (flag-evaluation 10.3). */
  | { readonly kind: "empty" }
  | { readonly kind: "malformed"; readonly problem: string };

/** Groups nested deeper than this are refused: matching and SDKs recurse over them. */
const MAX_DEPTH = 32;

const BEHAVIOR_TYPES = new Set(["behavioral", "precalculated-cohort", "event", "action"]);

/**
 * Reads `filters` of a cohort: an outer group of inner groups of leaves, where the server knows
 * exactly two levels; deeper nesting is read as what it says (flag-evaluation 10.3).
 */
export function readCohortFilters(filters: JsonObject): CohortFilters {
  const properties = ownValue(filters, "properties");
  if (properties === undefined || properties === null) return { kind: "empty" };
  if (!isJsonObject(properties)) return malformed("properties must be an object");
  if (Object.keys(properties).length === 0) return { kind: "empty" };
  const node = readNode(properties, "AND", 0);
  if (typeof node === "string") return malformed(node);
  return node.kind === "group" && node.nodes.length === 0
    ? { kind: "empty" }
    : { kind: "rule", node };
}

/** Whether a rule asks for past behavior anywhere: its members are then calculated and stored. */
export function asksForBehavior(node: CohortNode): boolean {
  return node.kind === "behavior" || (node.kind === "group" && node.nodes.some(asksForBehavior));
}

/** Whether the members of a cohort are stored: those of a list, and those found by past behavior. */
export function hasStoredMembers(cohort: {
  readonly isStatic: boolean;
  readonly filters: JsonObject;
}): boolean {
  if (cohort.isStatic) return true;
  const filters = readCohortFilters(cohort.filters);
  return filters.kind === "rule" && asksForBehavior(filters.node);
}

/** The id a cohort filter names: an integer, or text that is one; `null` otherwise. */
export function readCohortId(value: Json | undefined): number | null {
  if (typeof value === "number" && Number.isSafeInteger(value)) return value;
  if (typeof value === "string" && /^[0-9]{1,15}$/.test(value)) return Number(value);
  return null;
}

function malformed(problem: string): CohortFilters {
  return { kind: "malformed", problem };
}

/** A node, or what is wrong with it. */
function readNode(json: JsonObject, parent: "AND" | "OR", depth: number): CohortNode | string {
  if (depth > MAX_DEPTH) return `groups are nested deeper than ${MAX_DEPTH} levels`;
  const values = ownValue(json, "values");
  return values === undefined ? readLeaf(json, parent) : readGroup(json, values, depth);
}

function readGroup(json: JsonObject, values: Json, depth: number): CohortNode | string {
  const written = ownValue(json, "type") ?? null;
  const type = written === "OR" ? "OR" : "AND";
  if (written !== "OR" && written !== "AND" && written !== "property") {
    return `a group's type must be AND or OR, not ${encodeJson(written)}`;
  }
  if (!Array.isArray(values)) return "values must be a list";
  const nodes: CohortNode[] = [];
  for (const value of values as readonly Json[]) {
    if (!isJsonObject(value)) return "every entry of values must be an object";
    const node = readNode(value, type, depth + 1);
    if (typeof node === "string") return node;
    nodes.push(node);
  }
  return { kind: "group", type, nodes };
}

function readLeaf(json: JsonObject, parent: "AND" | "OR"): CohortNode | string {
  const type = ownValue(json, "type") ?? "person";
  const negation = ownValue(json, "negation");
  if (negation !== undefined && negation !== null && typeof negation !== "boolean") {
    return "negation must be true or false";
  }
  if (typeof type === "string" && BEHAVIOR_TYPES.has(type)) {
    return { kind: "behavior", leaf: json, isNegated: negation === true };
  }
  const operator = ownValue(json, "operator") ?? null;
  if (type === "cohort" || type === "static-cohort" || type === "dynamic-cohort") {
    const id = readCohortId(ownValue(json, "value"));
    if (id === null) return "a cohort condition's value must be a cohort id";
    // In an OR group the server ignores the negation of a nested cohort (flag-evaluation 10.5).
    const isNegated = negation === true && parent === "AND";
    return { kind: "cohort", id, wanted: (operator === "not_in") === isNegated };
  }
  if (type !== "person" && type !== "person_metadata") {
    return `conditions of type ${encodeJson(type)} are not supported`;
  }
  const key = ownValue(json, "key");
  if (typeof key !== "string" || key === "") return "a condition needs a key";
  return {
    kind: "property",
    source: type,
    key,
    operator,
    value: ownValue(json, "value"),
    isNegated: negation === true,
  };
}
