import type { CohortRule } from "@hedgerow/core/cohorts/cohort";
import { compileCalculation, failureOf, needsOf } from "@hedgerow/core/cohorts/compile-cohorts";
import { matchRule } from "@hedgerow/core/cohorts/match-cohort";
import { asksForBehavior, readCohortFilters } from "@hedgerow/core/cohorts/read-cohort-filters";
import type { CohortDefinition } from "@hedgerow/core/flags/flag";
import type { MatchTools } from "@hedgerow/core/flags/match-property";
import { type BacktrackingPatterns, keepPatterns } from "@hedgerow/core/flags/pattern";
import { PersonView } from "@hedgerow/core/flags/person-view";
import { createTimeZone } from "@hedgerow/core/flags/zoned-date";
import type { PerformerSource } from "../events/performers.ts";
import type { FlagSnapshot } from "../flags/compiled-flags.ts";
import { filterInSlices, type Slices } from "../platform/slices.ts";
import { findPerformed, type Performed } from "./find-performed.ts";
import type { CandidatePerson, MembershipStore, PersonParts } from "./membership-store.ts";

/** What a calculation works with. */
export interface CalculationTools {
  readonly store: MembershipStore;
  readonly performers: PerformerSource;
  readonly backtracking: BacktrackingPatterns;
  readonly now: Date;
  /** Makes room for other work; throws when the calculation is to end. */
  readonly pause: () => Promise<void>;
  /** Cuts the evaluation of persons, so that a window of slow patterns keeps nobody waiting. */
  readonly slices: Slices;
}

/** How many members a cohort has, and how many came and went. */
export interface CalculationResult {
  readonly count: number;
  readonly changed: number;
}

/** A cohort that cannot be calculated as it is. */
export class CalculationProblem extends Error {
  override readonly name = "CalculationProblem";
}

/** Persons read, and members compared, at a time. */
const WINDOW_PERSONS = 200;

/**
 * Finds out who is in a cohort. Where past behavior counts, what differs from the stored members is
 * written, a few hundred at a time; the members of other dynamic cohorts are only counted, since
 * flag requests decide them anew, and those of static ones are counted as they are.
 * @param snapshot definitions that hold the cohort
 */
export async function calculateCohort(
  cohort: CohortDefinition,
  { projectId, snapshot }: { readonly projectId: number; readonly snapshot: FlagSnapshot },
  tools: CalculationTools,
): Promise<CalculationResult> {
  const { store, pause } = tools;
  if (cohort.isStatic) return { count: await countMembers(cohort.id, tools), changed: 0 };
  const found = matchingWindows(cohort, { projectId, snapshot }, tools);
  let count = 0;
  let changed = 0;
  let after = 0;
  for await (const { ids, upTo } of found) {
    count += ids.length;
    // Also of a cohort that no longer asks for past behavior: its former members go.
    const members = hasCalculatedMembers(cohort) ? ids : [];
    changed += await writeDifference(store, {
      projectId,
      cohortId: cohort.id,
      members,
      after,
      upTo,
    });
    after = upTo ?? after;
    await pause();
  }
  return { count, changed };
}

/** Persons whom a dynamic cohort's rule holds for, by record number, in runs that leave no gap. */
interface Window {
  readonly ids: readonly number[];
  /** Inclusive; `null` for the last. */
  readonly upTo: number | null;
}

/** The persons whom the rule of a cohort holds for; its behavioral parts are looked up first. */
async function* matchingWindows(
  cohort: CohortDefinition,
  { projectId, snapshot }: { readonly projectId: number; readonly snapshot: FlagSnapshot },
  tools: CalculationTools,
): AsyncGenerator<Window> {
  const { definitions, flagSet } = snapshot;
  const { timeZone } = definitions;
  const matchTools: MatchTools = {
    timeZone: createTimeZone(timeZone),
    backtracking: tools.backtracking,
    compilePattern: keepPatterns(tools.backtracking),
  };
  const calculation = compileCalculation(cohort, matchTools, timeZone);
  if (typeof calculation === "string") throw new CalculationProblem(calculation);
  const { rule, behaviors } = calculation;
  const failure = failureOf(rule, flagSet.cohorts);
  if (failure !== null) throw new CalculationProblem(failure);
  const performed: Performed[] = [];
  for (const behavior of behaviors) {
    performed.push(await findPerformed(behavior, { projectId, timeZone }, tools));
  }
  const needs = needsOf(rule, flagSet.cohorts);
  const names = needs.personProperties.map(({ text }) => text);
  const parts: PersonParts = {
    properties: names.some((name) => name !== "distinct_id"),
    distinctId: names.includes("distinct_id"),
    cohortIds: needs.staticCohorts,
  };
  const isMember = (person: CandidatePerson) => {
    const view = viewOf(person, tools.now);
    const did = (index: number) => performed[index]?.by(person.uuid) ?? false;
    return matchRule(rule, flagSet.cohorts, view, did) === true;
  };
  const idsOf: IdsOf = async (persons) => {
    const members = await filterInSlices(persons, isMember, tools.slices);
    return members.map(({ id }) => id);
  };
  const candidates = candidatesOf(rule, performed);
  if (candidates === null) yield* windowsOfAll(projectId, parts, tools, idsOf);
  else yield* windowsOfSome(projectId, candidates, parts, tools, idsOf);
}

type IdsOf = (persons: readonly CandidatePerson[]) => Promise<readonly number[]>;

async function* windowsOfAll(
  projectId: number,
  parts: PersonParts,
  { store }: CalculationTools,
  idsOf: IdsOf,
): AsyncGenerator<Window> {
  let after = 0;
  for (;;) {
    const persons = await store.persons(projectId, { after, limit: WINDOW_PERSONS }, parts);
    const last = persons.length < WINDOW_PERSONS ? undefined : persons.at(-1);
    yield { ids: await idsOf(persons), upTo: last?.id ?? null };
    if (!last) return;
    after = last.id;
  }
}

async function* windowsOfSome(
  projectId: number,
  candidates: readonly Performed[],
  parts: PersonParts,
  { store, pause }: CalculationTools,
  idsOf: IdsOf,
): AsyncGenerator<Window> {
  const ids = new Set<number>();
  for (const { uuids } of candidates) {
    for (const run of uuids(WINDOW_PERSONS)) {
      const persons = await store.personsByUuid(projectId, run, parts);
      for (const id of await idsOf(persons)) ids.add(id);
      await pause();
    }
  }
  const sorted = Float64Array.from(ids).sort();
  for (let start = 0; start < sorted.length; start += WINDOW_PERSONS) {
    const window = [...sorted.subarray(start, start + WINDOW_PERSONS)];
    const isLast = start + WINDOW_PERSONS >= sorted.length;
    yield { ids: window, upTo: isLast ? null : (window.at(-1) ?? null) };
  }
  if (sorted.length === 0) yield { ids: [], upTo: null };
}

/**
 * Behaviors of which everybody in the cohort shows at least one; `null` where others may be in it as
 * well, so that every person has to be looked at.
 */
function candidatesOf(
  rule: CohortRule,
  performed: readonly Performed[],
): readonly Performed[] | null {
  switch (rule.kind) {
    case "nobody":
      return [];
    case "behavior": {
      const one = performed[rule.index];
      return rule.isNegated || !one ? null : [one];
    }
    case "group": {
      const each = rule.rules.map((child) => candidatesOf(child, performed));
      if (!rule.all) {
        return each.some((some) => some === null) ? null : each.flatMap((some) => some ?? []);
      }
      const known = each.filter((some) => some !== null);
      const sizeOf = (some: readonly Performed[]) => some.reduce((sum, { size }) => sum + size, 0);
      return known.toSorted((a, b) => sizeOf(a) - sizeOf(b))[0] ?? null;
    }
    default:
      return null;
  }
}

function viewOf(person: CandidatePerson, now: Date): PersonView {
  return new PersonView({
    now,
    distinctId: person.distinctId,
    personProperties: {},
    geoProperties: {},
    stored: {
      person: {
        properties: person.properties,
        createdAt: person.createdAt,
        staticCohortIds: person.cohortIds,
        hashKeyOverrides: new Map(),
      },
    },
  });
}

function hasCalculatedMembers({ filters }: CohortDefinition): boolean {
  const read = readCohortFilters(filters);
  return read.kind === "rule" && asksForBehavior(read.node);
}

/** Writes what the members in a stretch lack, and removes who is none any more. */
async function writeDifference(
  store: MembershipStore,
  {
    projectId,
    cohortId,
    members,
    after,
    upTo,
  }: {
    readonly projectId: number;
    readonly cohortId: number;
    readonly members: readonly number[];
    readonly after: number;
    readonly upTo: number | null;
  },
): Promise<number> {
  const wanted = new Set(members);
  let changed = 0;
  const missing = new Set(members);
  for (let from = after; ; ) {
    const stored = await store.memberIds(cohortId, { after: from, upTo }, WINDOW_PERSONS);
    for (const id of stored) missing.delete(id);
    const remove = stored.filter((id) => !wanted.has(id));
    if (remove.length > 0) await store.changeMembers(projectId, cohortId, { add: [], remove });
    changed += remove.length;
    const last = stored.at(-1);
    if (stored.length < WINDOW_PERSONS || last === undefined) break;
    from = last;
  }
  if (missing.size > 0) {
    await store.changeMembers(projectId, cohortId, { add: [...missing], remove: [] });
  }
  return changed + missing.size;
}

/** Members of a static cohort, counted a stretch at a time. */
async function countMembers(cohortId: number, { store, pause }: CalculationTools): Promise<number> {
  const limit = 20 * WINDOW_PERSONS;
  let count = 0;
  for (let after = 0; ; ) {
    const ids = await store.memberIds(cohortId, { after, upTo: null }, limit);
    count += ids.length;
    const last = ids.at(-1);
    if (ids.length < limit || last === undefined) return count;
    after = last;
    await pause();
  }
}
