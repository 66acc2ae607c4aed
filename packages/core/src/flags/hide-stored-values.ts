import type { BoundExplanation, FlagExplanation, SeenValue } from "./explain-flag.ts";

/** What of an explanation its reader may see. */
export interface ReadableFacts {
  readonly persons: boolean;
  readonly groups: boolean;
  /** What was sent with the request, and may be told again. */
  readonly identifiers: ReadonlySet<string>;
}

/**
 * The explanation without what is stored of persons and groups, for a reader who may not see that:
 * values are `null` and `hidden`, as are ids that were hashed and not sent. Outcomes stay, for these
 * are the answer.
 */
export function hideStoredValues(told: FlagExplanation, may: ReadableFacts): FlagExplanation {
  const seen = <Value extends SeenValue>(value: Value, isReadable: boolean): Value =>
    value.source === "stored" && !isReadable ? { ...value, value: null, source: "hidden" } : value;
  const known = (identifier: string | null) =>
    identifier === null || may.persons || may.identifiers.has(identifier) ? identifier : null;
  const bound = (one: BoundExplanation): BoundExplanation => ({
    ...one,
    identifier: known(one.identifier),
  });
  return {
    ...told,
    enrollment: told.enrollment && seen(told.enrollment, may.persons),
    holdout: told.holdout && bound(told.holdout),
    conditions: told.conditions.map((condition) => ({
      ...condition,
      filters: condition.filters.map((filter) =>
        seen(filter, filter.kind === "group" ? may.groups : may.persons),
      ),
      rollout: bound(condition.rollout),
    })),
    variant: told.variant && { ...told.variant, identifier: known(told.variant.identifier) },
    dependencies: told.dependencies.map((dependency) => hideStoredValues(dependency, may)),
  };
}
