import type { CohortDefinition, FailureCode } from "../flags/flag.ts";
import { compileComparison, isOperator, type MatchTools } from "../flags/match-property.ts";
import { type PropertyName, personProperty } from "../flags/person-property.ts";
import type { JsonObject } from "../json.ts";
import { type Behavior, readBehavior } from "./behavior.ts";
import type { CohortCalculation, CohortNeeds, CohortRule, CompiledCohort } from "./cohort.ts";
import { asksForBehavior, type CohortNode, readCohortFilters } from "./read-cohort-filters.ts";

const NOBODY: CohortRule = { kind: "nobody" };

interface Draft {
  readonly definition: CohortDefinition;
  readonly failure: FailureCode | null;
  readonly rule: CohortRule;
  readonly hasStoredMembers: boolean;
  /** The cohort as it was compiled before, when its definition is the same. */
  readonly earlier?: CompiledCohort;
}

/**
 * Compiles a project's cohorts, by id. A cohort that cannot be read, that refers to an unknown
 * one, or that lies on or leads to a cycle carries the failure code (flag-evaluation 10.6).
 * @param earlier what was compiled before with the same tools: cohorts that are still the same, and
 *   all they refer to, stay the same objects
 */
export function compileCohorts(
  definitions: readonly CohortDefinition[],
  tools: MatchTools,
  earlier?: ReadonlyMap<number, CompiledCohort>,
): ReadonlyMap<number, CompiledCohort> {
  const drafts = new Map<number, Draft>();
  for (const definition of definitions) {
    const before = earlier?.get(definition.id);
    drafts.set(
      definition.id,
      before?.definition === definition ? keepDraft(before) : draftCohort(definition, tools),
    );
  }
  const compiled = new Map<number, CompiledCohort>();
  for (const id of drafts.keys()) settle(id, drafts, compiled, earlier);
  return compiled;
}

function draftCohort(definition: CohortDefinition, tools: MatchTools): Draft {
  const nobody = { definition, failure: null, rule: NOBODY, hasStoredMembers: false };
  if (definition.isStatic) return { ...nobody, hasStoredMembers: true };
  const filters = readCohortFilters(definition.filters);
  if (filters.kind === "empty") return nobody;
  if (filters.kind === "malformed") return { ...nobody, failure: "cohort_filters_parsing_error" };
  if (asksForBehavior(filters.node)) return { ...nobody, hasStoredMembers: true };
  const rule = compileNode(filters.node, tools, () => null);
  return rule === null
    ? { ...nobody, failure: "cohort_filters_parsing_error" }
    : { ...nobody, rule };
}

function keepDraft(earlier: CompiledCohort): Draft {
  const { definition, ownFailure, rule, hasStoredMembers } = earlier;
  return { definition, failure: ownFailure, rule, hasStoredMembers, earlier };
}

/**
 * The rule of a dynamic cohort with its behavioral leaves, for finding its members; what is wrong
 * with it where it cannot be read.
 */
export function compileCalculation(
  definition: CohortDefinition,
  tools: MatchTools,
  timeZone: string,
): CohortCalculation | string {
  const filters = readCohortFilters(definition.filters);
  if (filters.kind === "malformed") return filters.problem;
  if (filters.kind === "empty") return { rule: NOBODY, behaviors: [] };
  const behaviors: Behavior[] = [];
  let problem = "an operator of the rule is not known";
  const rule = compileNode(filters.node, tools, (leaf) => {
    const behavior = readBehavior(leaf, timeZone);
    if (typeof behavior !== "string") return behaviors.push(behavior) - 1;
    problem = behavior;
    return null;
  });
  return rule === null ? problem : { rule, behaviors };
}

/** @param readLeaf gives the index of a behavioral leaf; `null` where it cannot be read */
function compileNode(
  node: CohortNode,
  tools: MatchTools,
  readLeaf: (leaf: JsonObject) => number | null,
): CohortRule | null {
  switch (node.kind) {
    case "behavior": {
      const index = readLeaf(node.leaf);
      return index === null ? null : { kind: "behavior", index, isNegated: node.isNegated };
    }
    case "cohort":
      return { kind: "cohort", id: node.id, wanted: node.wanted };
    case "group": {
      if (node.nodes.length === 0) return NOBODY;
      const rules: CohortRule[] = [];
      for (const child of node.nodes) {
        const rule = compileNode(child, tools, readLeaf);
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
  earlier: ReadonlyMap<number, CompiledCohort> | undefined,
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
        const isCyclic = cyclic.has(frame.id);
        const isSame =
          draft.earlier !== undefined &&
          !isCyclic &&
          frame.children.every((nested) => compiled.get(nested) === earlier?.get(nested));
        compiled.set(
          frame.id,
          isSame && draft.earlier
            ? draft.earlier
            : finish(draft, frame.children, compiled, isCyclic),
        );
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

/** The cohorts that a rule names, each once. */
function nestedIds(rule: CohortRule): readonly number[] {
  const ids = new Set<number>();
  const walk = (node: CohortRule): void => {
    if (node.kind === "cohort") ids.add(node.id);
    if (node.kind === "group") for (const child of node.rules) walk(child);
  };
  walk(rule);
  return [...ids];
}

function finish(
  draft: Draft,
  children: readonly number[],
  compiled: ReadonlyMap<number, CompiledCohort>,
  isCyclic: boolean,
): CompiledCohort {
  const { definition, rule, hasStoredMembers } = draft;
  let failure: FailureCode | null = draft.failure ?? (isCyclic ? "dependency_cycle_cohort" : null);
  const properties = new Map<string, PropertyName>();
  let createdAt = false;
  let staticCohorts = hasStoredMembers;
  const collect = (needs: CohortNeeds): void => {
    for (const property of needs.personProperties) properties.set(property.text, property);
    createdAt ||= needs.createdAt;
    staticCohorts ||= needs.staticCohorts;
  };
  collect(ownNeeds(rule));
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
    id: definition.id,
    definition,
    hasStoredMembers,
    ownFailure: draft.failure,
    failure,
    rule,
    needs: { personProperties: [...properties.values()], createdAt, staticCohorts },
  };
}

/** What a rule reads of a person, with what the cohorts nested in it read. */
export function needsOf(
  rule: CohortRule,
  compiled: ReadonlyMap<number, CompiledCohort>,
): CohortNeeds {
  const all = [ownNeeds(rule), ...nestedIds(rule).flatMap((id) => compiled.get(id)?.needs ?? [])];
  const properties = all.flatMap((needs) => needs.personProperties);
  return {
    personProperties: [...new Map(properties.map((one) => [one.text, one])).values()],
    createdAt: all.some((needs) => needs.createdAt),
    staticCohorts: all.some((needs) => needs.staticCohorts),
  };
}

/** Why the cohorts nested in a rule cannot be decided: an unknown id, or what is wrong with one. */
export function failureOf(
  rule: CohortRule,
  compiled: ReadonlyMap<number, CompiledCohort>,
): FailureCode | null {
  for (const id of nestedIds(rule)) {
    const nested = compiled.get(id);
    if (nested === undefined) return "dependency_not_found_cohort";
    if (nested.failure !== null) return nested.failure;
  }
  return null;
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
