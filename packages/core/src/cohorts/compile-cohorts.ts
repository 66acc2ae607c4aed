import type { CohortDefinition, FailureCode } from "../flags/flag.ts";
import { compileComparison, isOperator, type MatchTools } from "../flags/match-property.ts";
import { type PropertyName, personProperty } from "../flags/person-property.ts";
import type { CohortNeeds, CohortRule, CompiledCohort } from "./cohort.ts";
import { type CohortNode, readCohortFilters } from "./read-cohort-filters.ts";

const NOBODY: CohortRule = { kind: "nobody" };

interface Draft {
  readonly definition: CohortDefinition;
  readonly failure: FailureCode | null;
  readonly rule: CohortRule;
}

/**
 * Compiles a project's cohorts, by id. A cohort that cannot be read, that refers to an unknown
 * one, or that lies on or leads to a cycle carries the failure code (flag-evaluation 10.6).
 */
export function compileCohorts(
  definitions: readonly CohortDefinition[],
  tools: MatchTools,
): ReadonlyMap<number, CompiledCohort> {
  const drafts = new Map<number, Draft>();
  for (const definition of definitions) drafts.set(definition.id, draftCohort(definition, tools));
  const compiled = new Map<number, CompiledCohort>();
  for (const id of drafts.keys()) settle(id, drafts, compiled);
  return compiled;
}

function draftCohort(definition: CohortDefinition, tools: MatchTools): Draft {
  if (definition.isStatic) return { definition, failure: null, rule: NOBODY };
  const filters = readCohortFilters(definition.filters);
  if (filters.kind === "empty") return { definition, failure: null, rule: NOBODY };
  if (filters.kind === "malformed") {
    return { definition, failure: "cohort_filters_parsing_error", rule: NOBODY };
  }
  if (hasBehavior(filters.node)) return { definition, failure: null, rule: NOBODY };
  const rule = compileNode(filters.node, tools);
  return rule === null
    ? { definition, failure: "cohort_filters_parsing_error", rule: NOBODY }
    : { definition, failure: null, rule };
}

function hasBehavior(node: CohortNode): boolean {
  return node.kind === "behavior" || (node.kind === "group" && node.nodes.some(hasBehavior));
}

function compileNode(node: CohortNode, tools: MatchTools): CohortRule | null {
  switch (node.kind) {
    case "behavior":
      return NOBODY;
    case "cohort":
      return { kind: "cohort", id: node.id, wanted: node.wanted };
    case "group": {
      if (node.nodes.length === 0) return NOBODY;
      const rules: CohortRule[] = [];
      for (const child of node.nodes) {
        const rule = compileNode(child, tools);
        if (rule === null) return null;
        rules.push(rule);
      }
      return { kind: "group", all: node.type === "AND", rules };
    }
    case "property": {
      const operator = node.operator ?? "exact";
      if (!isOperator(operator)) return null;
      const comparison = compileComparison(operator, node.value, tools);
      const { isNegated } = node;
      if (node.source === "person") {
        return { kind: "property", property: personProperty(node.key), comparison, isNegated };
      }
      return node.key === "created_at" ? { kind: "created_at", comparison, isNegated } : NOBODY;
    }
  }
}

/** Compiles a cohort after those it refers to; `visiting` finds cycles. */
function settle(
  id: number,
  drafts: ReadonlyMap<number, Draft>,
  compiled: Map<number, CompiledCohort>,
): void {
  // An explicit stack: chains of cohorts may be longer than the call stack.
  const stack: { id: number; children: readonly number[]; next: number }[] = [];
  const visiting = new Set<number>();
  const cyclic = new Set<number>();
  const enter = (cohortId: number): void => {
    const draft = drafts.get(cohortId);
    if (draft === undefined || compiled.has(cohortId)) return;
    visiting.add(cohortId);
    stack.push({ id: cohortId, children: nestedIds(draft.rule), next: 0 });
  };
  enter(id);
  for (let frame = stack.at(-1); frame !== undefined; frame = stack.at(-1)) {
    const child = frame.children[frame.next];
    frame.next += 1;
    if (child === undefined) {
      stack.pop();
      visiting.delete(frame.id);
      const draft = drafts.get(frame.id);
      if (draft !== undefined) {
        compiled.set(frame.id, finish(draft, frame.children, compiled, cyclic.has(frame.id)));
      }
    } else if (visiting.has(child)) {
      // Everything on the stack from the child on leads round.
      for (const open of stack.slice(stack.findIndex((entry) => entry.id === child))) {
        cyclic.add(open.id);
      }
    } else {
      enter(child);
    }
  }
}

function nestedIds(rule: CohortRule): readonly number[] {
  if (rule.kind === "cohort") return [rule.id];
  return rule.kind === "group" ? rule.rules.flatMap(nestedIds) : [];
}

function finish(
  draft: Draft,
  children: readonly number[],
  compiled: ReadonlyMap<number, CompiledCohort>,
  isCyclic: boolean,
): CompiledCohort {
  let failure: FailureCode | null = draft.failure ?? (isCyclic ? "dependency_cycle_cohort" : null);
  const properties = new Map<string, PropertyName>();
  let createdAt = false;
  let staticCohorts = draft.definition.isStatic;
  const collect = (needs: CohortNeeds): void => {
    for (const property of needs.personProperties) properties.set(property.text, property);
    createdAt ||= needs.createdAt;
    staticCohorts ||= needs.staticCohorts;
  };
  collect(ownNeeds(draft.rule));
  for (const id of children) {
    const child = compiled.get(id);
    if (child !== undefined) {
      collect(child.needs);
      failure ??= child.failure;
    } else {
      // Not compiled yet means the child waits for this very cohort.
      failure ??= isCyclic ? "dependency_cycle_cohort" : "dependency_not_found_cohort";
    }
  }
  return {
    id: draft.definition.id,
    isStatic: draft.definition.isStatic,
    failure,
    rule: draft.rule,
    needs: { personProperties: [...properties.values()], createdAt, staticCohorts },
  };
}

function ownNeeds(rule: CohortRule): CohortNeeds {
  const properties: PropertyName[] = [];
  let createdAt = false;
  const walk = (node: CohortRule): void => {
    if (node.kind === "group") for (const child of node.rules) walk(child);
    if (node.kind === "property") properties.push(node.property);
    if (node.kind === "created_at") createdAt = true;
  };
  walk(rule);
  return { personProperties: properties, createdAt, staticCohorts: false };
}
