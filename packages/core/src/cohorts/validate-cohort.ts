import type { CohortDefinition, ProjectDefinitions } from "../flags/flag.ts";
import { KEYS, SpellingCheck } from "../flags/misspelt-key.ts";
import { StoredPatterns, validateComparison } from "../flags/validate-comparison.ts";
import type { DefinitionProblem } from "../flags/validate-filters.ts";
import { isJsonObject, type Json, type JsonObject, ownValue } from "../json.ts";
import { readBehavior } from "./behavior.ts";
import { type CohortNode, readCohortFilters } from "./read-cohort-filters.ts";

/** What the filters of a cohort are checked against. */
export interface CohortContext {
  readonly definitions: Pick<ProjectDefinitions, "cohorts" | "timeZone">;
  /** The cohort being changed; `null` for one being created. */
  readonly id: number | null;
}

const MAX_LIST_VALUES = 1_000;
/** A cohort is compiled whole, and all of it may run for every person: larger ones hurt everyone. */
const MAX_NODES = 6_000;

/**
 * Checks the `filters` of a dynamic cohort before they are stored: shape, operators and values,
 * nested cohorts that exist and do not lead back to this one. Lists every problem found, the one to
 * report first.
 */
export function validateCohortFilters(
  filters: Json,
  context: CohortContext,
): readonly DefinitionProblem[] {
  if (!isJsonObject(filters)) return [problem("invalid_input", "filters must be an object")];
  if (hasTooManyNodes(filters)) {
    const detail = `A cohort cannot have more than ${MAX_NODES} groups and conditions.`;
    return [problem("invalid_input", detail)];
  }
  const problems = checkSpelling(filters);
  const read = readCohortFilters(filters);
  if (read.kind === "empty") return problems;
  if (read.kind === "malformed") return [...problems, problem("invalid_input", read.problem)];
  const overweight = findOverweight(filters);
  // Nothing is compiled of filters that are too large together.
  if (overweight !== null) return [...problems, overweight];
  problems.push(...checkNode(read.node, context));
  const others = new Map(
    context.definitions.cohorts
      .filter((cohort) => cohort.id !== context.id)
      .map((cohort) => [cohort.id, cohort]),
  );
  for (const id of nestedIds(read.node)) {
    if (id !== context.id && !others.has(id)) {
      problems.push(problem("cohort_does_not_exist", `Cohort with id ${id} does not exist`));
    }
  }
  const path = context.id === null ? null : pathTo(context.id, nestedIds(read.node), others);
  if (path !== null) {
    const names = path.map((id) => {
      const name = others.get(id)?.name;
      return name === undefined ? `this cohort (ID: ${id})` : `${name} (ID: ${id})`;
    });
    problems.push(
      problem(
        "invalid_input",
        `Cohorts cannot reference other cohorts in a loop: this cohort → ${names.join(" → ")}.`,
      ),
    );
  }
  return problems;
}

function problem(code: string, detail: string): DefinitionProblem {
  return { attr: "filters", code, detail };
}

/** Unknown keys are ignored, but for those that can only be slips: ignoring them changes who is in. */
function checkSpelling(filters: JsonObject): DefinitionProblem[] {
  const problems: DefinitionProblem[] = [];
  const spelling = new SpellingCheck();
  const check = (object: JsonObject, known: readonly string[], path: string) => {
    const found = spelling.problemIn(object, known, path);
    if (found !== null) problems.push(problem("invalid_input", found));
  };
  check(filters, KEYS.cohortFilters, "filters");
  for (const [node, path] of nodesOf(filters)) {
    const type = ownValue(node, "type");
    const isGroup = Object.hasOwn(node, "values") || type === "AND" || type === "OR";
    check(node, isGroup ? KEYS.cohortGroup : KEYS.leaf, path);
  }
  return problems;
}

function hasTooManyNodes(filters: JsonObject): boolean {
  let nodes = 0;
  for (const _ of nodesOf(filters)) if (++nodes > MAX_NODES) return true;
  return false;
}

/** What to say of the filter with which the patterns become too large in sum; `null` without one. */
function findOverweight(filters: JsonObject): DefinitionProblem | null {
  const patterns = new StoredPatterns("cohort");
  for (const [node, path] of nodesOf(filters)) {
    const found = patterns.add(ownValue(node, "operator") ?? null, ownValue(node, "value"));
    if (found !== null) return problem("invalid_input", `${path}: ${found}`);
  }
  return null;
}

/** The groups, leaves, and filters on events of a cohort, with their paths; outer ones first. */
function* nodesOf(filters: JsonObject): Generator<[JsonObject, string]> {
  const open: [Json | undefined, string][] = [
    [ownValue(filters, "properties"), "filters.properties"],
  ];
  for (const [node, path] of open) {
    if (!isJsonObject(node)) continue;
    yield [node, path];
    for (const key of ["values", "event_filters"]) {
      const children = ownValue(node, key);
      if (!Array.isArray(children)) continue;
      for (const [at, child] of (children as readonly Json[]).entries()) {
        open.push([child, `${path}.${key}[${at}]`]);
      }
    }
  }
}

function checkNode(node: CohortNode, context: CohortContext): DefinitionProblem[] {
  switch (node.kind) {
    case "group":
      return node.nodes.flatMap((child) => checkNode(child, context));
    case "cohort":
      return [];
    case "behavior": {
      const behavior = readBehavior(node.leaf, context.definitions.timeZone);
      return typeof behavior === "string" ? [problem("invalid_input", behavior)] : [];
    }
    case "property": {
      if (Array.isArray(node.value) && node.value.length > MAX_LIST_VALUES) {
        return [
          problem(
            "invalid_input",
            `Property group expressions of type ${node.key} cannot contain more than ${MAX_LIST_VALUES} values.`,
          ),
        ];
      }
      const found = validateComparison(node.operator, node.value, context.definitions.timeZone);
      return found === null ? [] : [problem(found.code, found.detail)];
    }
  }
}

/** The cohorts that a rule names, each once. */
function nestedIds(node: CohortNode): readonly number[] {
  return [...new Set(idsIn(node))];
}

function idsIn(node: CohortNode): readonly number[] {
  if (node.kind === "cohort") return [node.id];
  return node.kind === "group" ? node.nodes.flatMap(idsIn) : [];
}

/** The ids on the shortest chain of nested cohorts that arrives at `id`; `null` where none does. */
function pathTo(
  id: number,
  start: readonly number[],
  cohorts: ReadonlyMap<number, CohortDefinition>,
): readonly number[] | null {
  const cameFrom = new Map<number, number | null>(start.map((first) => [first, null]));
  // A map's keys are visited in the order in which they were set, also those set meanwhile.
  for (const current of cameFrom.keys()) {
    if (current === id) break;
    const cohort = cohorts.get(current);
    const filters =
      cohort === undefined || cohort.isStatic ? null : readCohortFilters(cohort.filters);
    if (filters?.kind !== "rule") continue;
    for (const next of nestedIds(filters.node)) {
      if (!cameFrom.has(next)) cameFrom.set(next, current);
    }
  }
  if (!cameFrom.has(id)) return null;
  const path: number[] = [];
  for (let step: number | null = id; step !== null; step = cameFrom.get(step) ?? null) {
    path.unshift(step);
  }
  return path;
}
