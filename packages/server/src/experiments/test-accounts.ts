import type { MeasuredProperty } from "@hedgerow/core/experiments/metric";
import type { BacktrackingPatterns } from "@hedgerow/core/flags/pattern";
import type { Project } from "../accounts/account-store.ts";
import { compilePropertySearch } from "../events/property-search.ts";
import type { Audience } from "../flags/audience.ts";
import { Refusal } from "../http/errors.ts";
import { createSlices } from "../platform/slices.ts";

/** A project with the filters that tell its test accounts. */
export type FilteredProject = Pick<Project, "id" | "timeZone" | "testAccountFilters">;

/** The persons of a project that are test accounts, by their properties as they are now. */
export type FindTestPersons = (project: FilteredProject) => Promise<readonly string[]>;

/** Beyond so many the filters tell of something else than test accounts. */
const MAX_TEST_PERSONS = 100_000;
/** Patterns of all persons may cost as much as those of so many flag requests. */
const PATTERN_BUDGETS = 1000;

/** {@link FindTestPersons} by going through all stored persons. */
export function createFindTestPersons({
  audience,
  backtracking,
  clock,
}: {
  audience: Pick<Audience, "persons">;
  backtracking: BacktrackingPatterns;
  clock: () => Date;
}): FindTestPersons {
  return async ({ id, timeZone, testAccountFilters }) => {
    const filters = testAccountFilters.filter(({ on }) => on === "person");
    if (filters.length === 0) return [];
    const isReal = compilePropertySearch(filters, {
      now: clock(),
      timeZone,
      backtracking,
      patternBudgets: PATTERN_BUDGETS,
    });
    const found: string[] = [];
    const slices = createSlices();
    for await (const run of audience.persons(id, { hashKeyOverrides: false })) {
      for (const { uuid, facts } of run) {
        if (slices.isOver()) await slices.next();
        if (!isReal.matches(facts.properties)) found.push(uuid);
      }
      if (found.length > MAX_TEST_PERSONS)
        throw new Refusal(
          "invalid_input",
          `The project's test_account_filters tell of more than ${MAX_TEST_PERSONS} persons.`,
          { attr: "exposure_criteria__filterTestAccounts" },
        );
    }
    return found;
  };
}

/** What every event must match that is not of a test account. */
export function everyEventOf({
  testAccountFilters,
}: Pick<Project, "testAccountFilters">): readonly MeasuredProperty[] {
  return testAccountFilters
    .filter(({ on }) => on === "event")
    .map(({ key, operator, value }) => ({ key, operator, value }));
}
