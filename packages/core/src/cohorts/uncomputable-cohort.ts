import type { CohortDefinition } from "../flags/flag.ts";
import { readBehavior } from "./behavior.ts";
import { type CohortNode, readCohortFilters } from "./read-cohort-filters.ts";

/** The first cohort whose rules on past behavior cannot be calculated, among a cohort and those nested in it. */
export function findUncomputableCohort(
  cohort: CohortDefinition,
  cohorts: ReadonlyMap<number, CohortDefinition>,
  timeZone: string,
): CohortDefinition | null {
  const seen = new Set<number>();
  const open = [cohort];
  for (let current = open.pop(); current !== undefined; current = open.pop()) {
    if (seen.has(current.id) || current.isStatic) continue;
    seen.add(current.id);
    const filters = readCohortFilters(current.filters);
    if (filters.kind !== "rule") continue;
    const leaves = leavesOf(filters.node);
    const cannotBeRead = (leaf: CohortNode) =>
      leaf.kind === "behavior" && typeof readBehavior(leaf.leaf, timeZone) === "string";
    if (leaves.some(cannotBeRead)) return current;
    for (const leaf of leaves) {
      const nested = leaf.kind === "cohort" ? cohorts.get(leaf.id) : undefined;
      if (nested !== undefined) open.push(nested);
    }
  }
  return null;
}

function leavesOf(node: CohortNode): readonly CohortNode[] {
  return node.kind === "group" ? node.nodes.flatMap(leavesOf) : [node];
}
