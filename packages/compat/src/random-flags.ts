import fc from "fast-check";
import type { Wire } from "./management.ts";
import { personIs } from "./management.ts";

/**
 * What is drawn of one flag: names of cohorts and flags it depends on are numbers among those made
 * before, which whoever makes it turns into ids.
 */
export interface RandomFlag {
  readonly filters: Wire;
  readonly fields: Wire;
}

/** Stands for the id of a cohort, or of an earlier flag, in drawn filters. */
export type Placeholder = { readonly cohort: number } | { readonly flag: number };

const SHARES = [null, 0, 0.4, 12.5, 33.3, 50, 75, 99.9, 100];

/**
 * Operators and values that every property of a random user can be compared by locally. Current SDKs
 * leave to the server whether a whole number equals a text, since JSON hides what kind of number it
 * was, and patterns on letters beyond ASCII.
 */
const PERSON_FILTERS: readonly Wire[] = (
  [
    ["plan", "exact", "pro"],
    ["plan", "exact", ["free", "enterprise"]],
    ["plan", "is_not", ["PRO"]],
    ["plan", "is_set", "is_set"],
    ["plan", "is_not_set", "is_not_set"],
    ["plan", "icontains", "ENT"],
    ["plan", "not_icontains", "E"],
    ["plan", "regex", "^(pro|free)$"],
    ["plan", "not_regex", "[A-Z]"],
    ["plan", "starts_with", "P"],
    ["plan", "not_starts_with", "p"],
    ["plan", "ends_with", "EE"],
    ["plan", "not_ends_with", "o"],
    ["name", "exact", ["straße", "a.b*c"]],
    ["name", "icontains", "ü"],
    ["plan", "regex", "^[A-Z]"],
    ["email", "regex", "^ann\\d+@acme\\.com$"],
    ["email", "icontains", "@ACME."],
    ["email", "not_icontains", "x.io"],
    ["age", "gt", 50],
    ["age", "gte", "50"],
    ["age", "lt", 18],
    ["age", "lte", "30"],
    ["score", "gt", "62.5"],
    ["score", "lte", 31.0625],
    ["has_budget", "exact", ["true"]],
    ["has_budget", "is_not", ["true"]],
    ["beta", "exact", ["true"]],
    ["beta", "is_not", "true"],
    ["nothing", "is_set", "is_set"],
    ["nothing", "gt", 1],
    ["signed_up", "is_date_after", "2024-01-15T12:30:00Z"],
    ["signed_up", "is_date_before", "2023-06-01T00:30:00Z"],
    ["last_seen", "is_date_after", "-7d"],
    ["last_seen", "is_date_before", "2w"],
    ["app_version", "semver_gt", "1.9.3"],
    ["app_version", "semver_lte", "0.5.11"],
    ["app_version", "semver_tilde", "1.2.3"],
    ["app_version", "semver_caret", "0.2.3"],
    ["app_version", "semver_wildcard", "1.*"],
  ] as const
).map(([key, operator, value]) => personIs(key, operator, value));

const GROUP_FILTERS: readonly (readonly Wire[])[] = [
  [
    ["seats", "gte", 50],
    ["seats", "lt", "20"],
    ["tier", "exact", ["gold"]],
    ["tier", "is_not", "gold"],
    ["name", "icontains", "company 3"],
    ["$group_key", "regex", "[0-4]$"],
  ].map(([key, operator, value]) => ofGroup(0, key, operator, value)),
  [
    ["size", "gt", 20],
    ["archived", "exact", "true"],
    ["$group_key", "icontains", "1"],
  ].map(([key, operator, value]) => ofGroup(1, key, operator, value)),
];

function ofGroup(index: number, key: unknown, operator: unknown, value: unknown): Wire {
  return { key, type: "group", group_type_index: index, operator, value };
}

const share = fc.oneof(
  fc.constantFrom(...SHARES),
  fc.double({ min: 0, max: 100, noNaN: true }).map((drawn) => Math.round(drawn * 100) / 100),
);
const personFilter = fc.constantFrom(...PERSON_FILTERS);

/** Rules of cohorts: properties under AND and OR, negated ones too, and earlier cohorts. */
export function randomCohort(earlier: number): fc.Arbitrary<Wire> {
  const property = fc
    .tuple(personFilter, fc.boolean())
    .map(([filter, negation]): Wire => (negation ? { ...filter, negation } : filter));
  const member: fc.Arbitrary<Wire> = fc
    .tuple(fc.nat(Math.max(earlier - 1, 0)), fc.boolean())
    .map(([cohort, negation]) => ({ key: "id", type: "cohort", value: { cohort }, negation }));
  const leaf = earlier === 0 ? property : fc.oneof({ weight: 4, arbitrary: property }, member);
  const type = fc.constantFrom("AND", "OR");
  const group = fc.record({ type, values: fc.array(leaf, { minLength: 1, maxLength: 3 }) });
  return fc.record({ type, values: fc.array(group, { minLength: 1, maxLength: 2 }) });
}

/** Flags of every construct that the current SDKs decide locally. */
export function randomFlag(known: { cohorts: number; flags: number }): fc.Arbitrary<RandomFlag> {
  const variantKeys = fc.constantFrom(["a", "b"], ["a", "b", "c"], ["control", "test", "c", "d"]);
  const multivariate = variantKeys.chain((keys) =>
    fc
      .array(fc.nat(1000), { minLength: keys.length - 1, maxLength: keys.length - 1 })
      .map((cuts) => {
        const bounds = [0, ...cuts.toSorted((a, b) => a - b), 1000];
        return keys.map((key, at) => ({
          key,
          rollout_percentage: ((bounds[at + 1] ?? 0) - (bounds[at] ?? 0)) / 10,
        }));
      }),
  );
  const cohortFilter: fc.Arbitrary<Wire> = fc
    .tuple(fc.nat(Math.max(known.cohorts - 1, 0)), fc.constantFrom("in", "not_in"))
    .map(([cohort, operator]) => ({ key: "id", type: "cohort", value: { cohort }, operator }));
  const flagFilter: fc.Arbitrary<Wire> = fc
    .tuple(fc.nat(Math.max(known.flags - 1, 0)), fc.constantFrom(true, false, "a", "b"))
    .map(([flag, value]) => ({
      key: { flag },
      type: "flag",
      operator: "flag_evaluates_to",
      value,
    }));
  const ofPerson = fc.oneof(
    { weight: 6, arbitrary: personFilter },
    ...(known.cohorts > 0 ? [{ weight: 2, arbitrary: cohortFilter }] : []),
    ...(known.flags > 0 ? [{ weight: 1, arbitrary: flagFilter }] : []),
  );
  const conditionOf = (keys: readonly string[], aggregation: number | null, own: boolean) =>
    fc
      .record({
        properties: fc.array(
          aggregation === null ? ofPerson : fc.constantFrom(...(GROUP_FILTERS[aggregation] ?? [])),
          { maxLength: 3 },
        ),
        rollout_percentage: share,
        variant: keys.length > 0 ? fc.constantFrom(null, null, ...keys) : fc.constant(null),
      })
      .map(
        (drawn): Wire => (own ? { ...drawn, aggregation_group_type_index: aggregation } : drawn),
      );
  const aggregations = fc.constantFrom(null, null, null, 0, 1);

  return fc
    .record({
      variants: fc.option(multivariate, { nil: null }),
      aggregation: fc.constantFrom<(number | null | "mixed")[]>(null, null, null, 0, 1, "mixed"),
      earlyExit: fc.constantFrom(false, false, false, true),
      byDevice: fc.constantFrom(false, false, false, false, true),
      active: fc.constantFrom(true, true, true, true, true, true, false),
      withPayloads: fc.boolean(),
    })
    .chain(({ variants, aggregation, earlyExit, byDevice, active, withPayloads }) => {
      const keys = variants?.map(({ key }) => key) ?? [];
      const condition =
        aggregation === "mixed"
          ? aggregations.chain((own) => conditionOf(keys, own, true))
          : conditionOf(keys, aggregation, false);
      return fc.array(condition, { minLength: 1, maxLength: 4 }).map((groups): RandomFlag => {
        const payloads = Object.fromEntries(
          (keys.length > 0 ? keys : ["true"]).map((key) => [key, JSON.stringify({ of: key })]),
        );
        return {
          filters: {
            groups,
            ...(variants && { multivariate: { variants } }),
            ...(typeof aggregation === "number" && { aggregation_group_type_index: aggregation }),
            ...(earlyExit && { early_exit: true }),
            ...(withPayloads && { payloads }),
          },
          fields: {
            active,
            ...(byDevice && aggregation === null && { bucketing_identifier: "device_id" }),
          },
        };
      });
    });
}

/** Drawn JSON with every placeholder replaced. */
export function withIds(json: unknown, idOf: (placeholder: Placeholder) => unknown): unknown {
  if (Array.isArray(json)) return json.map((item) => withIds(item, idOf));
  if (typeof json !== "object" || json === null) return json;
  const keys = Object.keys(json);
  if (keys.length === 1 && (keys[0] === "cohort" || keys[0] === "flag")) {
    return idOf(json as Placeholder);
  }
  return Object.fromEntries(
    Object.entries(json).map(([key, value]) => [key, withIds(value, idOf)]),
  );
}
