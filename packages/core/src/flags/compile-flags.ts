import type { CompiledCohort } from "../cohorts/cohort.ts";
import { compileCohorts } from "../cohorts/compile-cohorts.ts";
import { encodeJson } from "../exact-json.ts";
import type { Json } from "../json.ts";
import { type Bucketing, createSha1Bucketing, HOLDOUT_PREFIX } from "./bucketing.ts";
import { compileFlag, type Surroundings } from "./compile-flag.ts";
import type { FlagDefinition, ProjectDefinitions } from "./flag.ts";
import { orderByDependency, resolveDependencies } from "./flag-dependencies.ts";
import type { CompiledFlag, FlagSet, PersonFilter } from "./flag-set.ts";
import { compileComparison, type MatchTools, type Operator } from "./match-property.ts";
import {
  type BacktrackingPatterns,
  type CompilePattern,
  keepPatterns,
  NO_BACKTRACKING,
} from "./pattern.ts";
import { personProperty } from "./person-property.ts";
import { uniteNeeds } from "./select-flags.ts";
import { createTimeZone } from "./zoned-date.ts";

/** What compiling takes from outside; the defaults are whole but for backtracking patterns. */
export interface CompileTools {
  readonly bucketing?: Bucketing;
  readonly backtracking?: BacktrackingPatterns;
  /** Takes the place of `backtracking`: compiles patterns, or knows them from an earlier set. */
  readonly compilePattern?: CompilePattern;
}

/**
 * Parses and prepares a project's flags once. Never throws for what is stored: a flag that cannot
 * be read stays in the set as one that fails (`flag_data_parsing_error`).
 * @param earlier the project's set from before a change, made with the same tools: of it is kept
 * what a definition is still the same object for
 */
export function compileFlags(
  definitions: ProjectDefinitions,
  tools: CompileTools = {},
  earlier?: FlagSet,
): FlagSet {
  const bucketing = earlier?.bucketing ?? tools.bucketing ?? createSha1Bucketing();
  const kept = keep(definitions, earlier);
  const matchTools: MatchTools = {
    timeZone: createTimeZone(definitions.timeZone),
    backtracking: tools.backtracking ?? NO_BACKTRACKING,
    compilePattern: tools.compilePattern ?? keepPatterns(tools.backtracking ?? NO_BACKTRACKING),
  };
  const cohorts = compileCohorts(definitions.cohorts, matchTools, kept.cohorts);
  const surroundings: Surroundings = {
    tools: matchTools,
    bucketing,
    cohorts,
    groupNames: new Map(definitions.groupTypes.map(({ index, name }) => [index, name])),
    personFilter(key, operator, value) {
      const text = textToShare(key, operator, value);
      const known = text === null ? undefined : (shared.get(text) ?? kept.personFilters.get(text));
      return known ?? compilePersonFilter(key, operator, { value, text, tools: matchTools });
    },
  };
  const shared = new Map<string, PersonFilter>();
  const byPosition: CompiledFlag[] = [];
  const byKey = new Map<string, CompiledFlag>();
  const continuityKeys: string[] = [];
  const limits = { runtime: false, contexts: false };
  for (const definition of definitions.flags) {
    if (!definition.active) continue;
    const flag = kept.flag(definition, cohorts) ?? compileFlag(definition, surroundings);
    byPosition.push(flag);
    noteFilters(shared, flag);
    byKey.set(definition.key, flag);
    if (flag.isContinuous) continuityKeys.push(definition.key);
    if (definition.evaluationRuntime !== "all") limits.runtime = true;
    if (definition.evaluationContexts.length > 0) limits.contexts = true;
  }
  const dependencies = resolveDependencies(definitions.flags, byPosition, byKey);
  const { ordered, cyclic } = orderByDependency(byPosition, dependencies);
  return {
    flags: ordered,
    cyclic,
    needs: uniteNeeds(ordered),
    byPosition,
    byKey,
    dependencies,
    limits,
    definitions,
    cohorts: surroundings.cohorts,
    continuityKeys,
    bucketing,
    holdoutPrefix: bucketing.encode(HOLDOUT_PREFIX),
    personFilters: shared,
    turns: earlier?.turns ?? { last: 0 },
  };
}

/** Longer texts are not kept for the sake of sharing a filter. */
const MAX_SHARED_TEXT = 200;

/** What a filter says, as text; `null` when that is long. */
function textToShare(key: string, operator: Operator, value: Json | undefined): string | null {
  if (Array.isArray(value) && value.length > MAX_SHARED_TEXT / 2) return null;
  if (typeof value === "string" && value.length > MAX_SHARED_TEXT) return null;
  const text = encodeJson([key, operator, value ?? null]);
  return text.length > MAX_SHARED_TEXT ? null : text;
}

function compilePersonFilter(
  key: string,
  operator: Operator,
  { value, text, tools }: { value: Json | undefined; text: string | null; tools: MatchTools },
): PersonFilter {
  return {
    kind: "person",
    property: personProperty(key),
    comparison: compileComparison(operator, value, tools),
    text,
    turn: 0,
    step: "no_condition_match",
  };
}

/** Notes the filters of a flag that others may share. */
function noteFilters(shared: Map<string, PersonFilter>, flag: CompiledFlag): void {
  for (const { filters } of flag.conditions) {
    for (const filter of filters) {
      if (filter.kind === "person" && filter.text !== null) shared.set(filter.text, filter);
    }
  }
}

const NO_FILTERS: ReadonlyMap<string, PersonFilter> = new Map();

/** What of an earlier set holds still. */
interface Kept {
  readonly personFilters: ReadonlyMap<string, PersonFilter>;
  readonly cohorts: ReadonlyMap<number, CompiledCohort> | undefined;
  flag(
    definition: FlagDefinition,
    cohorts: ReadonlyMap<number, CompiledCohort>,
  ): CompiledFlag | undefined;
}

function keep(now: ProjectDefinitions, earlier: FlagSet | undefined): Kept {
  const before = earlier?.definitions;
  if (!earlier || !before || before.timeZone !== now.timeZone || !haveSameGroups(before, now)) {
    return { personFilters: NO_FILTERS, cohorts: undefined, flag: () => undefined };
  }
  return {
    personFilters: earlier.personFilters,
    cohorts: earlier.cohorts,
    flag(definition, cohorts) {
      const flag = earlier.byKey.get(definition.key);
      if (flag?.definition !== definition) return undefined;
      const isSame = flag.cohortIds.every((id) => cohorts.get(id) === earlier.cohorts.get(id));
      return isSame ? flag : undefined;
    },
  };
}

function haveSameGroups(before: ProjectDefinitions, now: ProjectDefinitions): boolean {
  return (
    before.groupTypes.length === now.groupTypes.length &&
    before.groupTypes.every(({ index, name }, at) => {
      const other = now.groupTypes[at];
      return other?.index === index && other.name === name;
    })
  );
}
