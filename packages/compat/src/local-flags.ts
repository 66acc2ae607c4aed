import { type Management, personIs, variants, type Wire } from "./management.ts";

/** A flag that SDKs can decide from its definition. */
export interface LocalFlag {
  readonly key: string;
  readonly filters: Wire;
  readonly fields?: Wire;
  /** Who decides it from the definition: every SDK unless given, those of 2025 and later, or none. */
  readonly decidedBy?: "newer SDKs" | "the server";
  /** Older SDKs compare such values by rules of their own, which no definition can forestall. */
  readonly olderSdksDiffer?: true;
}

const halves = [
  { key: "a", rollout_percentage: 50 },
  { key: "b", rollout_percentage: 50 },
];

function condition(properties: readonly Wire[], more: Wire = {}): Wire {
  return { properties, rollout_percentage: 100, ...more };
}

function when(...properties: readonly Wire[]): Wire {
  return { groups: [condition(properties)] };
}

function groupHas(index: number, key: string, operator: string, value: unknown): Wire {
  return { key, type: "group", group_type_index: index, operator, value };
}

function cohortIs(id: number, operator: "in" | "not_in" = "in"): Wire {
  return { key: "id", type: "cohort", value: id, operator };
}

/** One flag for each of these operators on one property. */
function perOperator(
  property: string,
  rows: readonly (readonly [operator: string, value: unknown])[],
  more: Pick<LocalFlag, "decidedBy" | "olderSdksDiffer"> = {},
): readonly LocalFlag[] {
  return rows.map(([operator, value], index) => ({
    key: `${property.replace(/\W/g, "")}-${operator}-${index}`,
    filters: when(personIs(property, operator, value)),
    ...more,
  }));
}

const newer = { decidedBy: "newer SDKs" } as const;
const newerRules = { ...newer, olderSdksDiffer: true } as const;
const serverOnly = { decidedBy: "the server" } as const;

/**
 * Creates a flag of every kind that SDKs decide locally, with the cohorts and dependencies they
 * need, in a project whose group types are `company` (0) and `project` (1).
 */
export async function createLocalFlags(management: Management): Promise<readonly LocalFlag[]> {
  const cohort = async (name: string, type: "AND" | "OR", ...groups: readonly Wire[]) =>
    (await management.createCohort({ name, filters: { properties: { type, values: groups } } })).id;
  const all = (...values: readonly Wire[]): Wire => ({ type: "AND", values });
  const any = (...values: readonly Wire[]): Wire => ({ type: "OR", values });

  const payers = await cohort(
    "payers",
    "OR",
    all(personIs("plan", "exact", ["pro", "enterprise"])),
  );
  const adults = await cohort(
    "adults with a budget",
    "AND",
    all(personIs("age", "gte", 18)),
    any(personIs("has_budget", "exact", ["true"]), personIs("score", "gt", "60")),
  );
  const strangers = await cohort(
    "not from acme",
    "AND",
    all({ ...personIs("email", "icontains", "@acme."), negation: true }),
  );
  const nested = await cohort(
    "adult payers",
    "AND",
    all(cohortIs(payers), cohortIs(adults)),
    any(personIs("name", "is_set"), personIs("plan", "exact", "free")),
  );

  const independent: readonly LocalFlag[] = [
    // rollouts
    ...[0, 0.5, 10, 33.3, 50, 99.9, 100].map((share) => ({
      key: `share-${String(share).replace(".", "_")}`,
      filters: { groups: [{ properties: [], rollout_percentage: share }] },
    })),
    { key: "share-unset", filters: { groups: [{ properties: [], rollout_percentage: null }] } },
    { key: "no-conditions", filters: { groups: [] } },
    {
      key: "share-of-some",
      filters: {
        groups: [
          condition([personIs("plan", "exact", ["free"])], { rollout_percentage: 40 }),
          condition([personIs("age", "lt", 30)], { rollout_percentage: 70 }),
        ],
      },
    },
    // variants and payloads
    { key: "halves", filters: variants({ a: 50, b: 50 }, { payloads: { a: '{"n":1}' } }) },
    { key: "thirds", filters: variants({ a: 33.34, b: 33.33, c: 33.33 }) },
    { key: "lopsided", filters: variants({ a: 0, b: 0.1, c: 99.9 }) },
    {
      key: "boolean-payload",
      filters: { ...when(personIs("age", "gt", 50)), payloads: { true: '["over", 50]' } },
    },
    {
      key: "own-variant",
      filters: {
        groups: [condition([personIs("plan", "exact", "pro")], { variant: "b" }), condition([])],
        multivariate: { variants: halves },
      },
    },
    {
      key: "own-variant-last",
      filters: {
        groups: [
          condition([], { rollout_percentage: 50 }),
          condition([personIs("age", "gte", 20)], { variant: "b" }),
        ],
        multivariate: { variants: halves },
      },
      ...newer,
    },
    // operators
    ...perOperator("plan", [
      ["exact", "pro"],
      ["exact", ["free", "enterprise"]],
      ["is_not", ["PRO"]],
      ["is_set", "is_set"],
      ["icontains", "ENT"],
      ["not_icontains", "E"],
      ["regex", "^(pro|free)$"],
      ["not_regex", "[A-Z]"],
    ]),
    ...perOperator(
      "plan",
      [
        ["is_not_set", "is_not_set"],
        ["starts_with", "P"],
        ["not_starts_with", "p"],
        ["ends_with", "EE"],
        ["not_ends_with", "o"],
      ],
      newer,
    ),
    ...perOperator("name", [
      ["exact", ["straße", "a.b*c"]],
      ["icontains", "STRASSE"],
    ]),
    ...perOperator("name", [["icontains", "ü"]], newerRules),
    ...perOperator("email", [
      ["regex", "^ann\\d+@acme\\.com$"],
      ["not_icontains", "ACME"],
    ]),
    ...perOperator("age", [
      ["gt", 50],
      ["gte", "50"],
      ["lt", 18],
      ["lte", "18"],
    ]),
    ...perOperator("score", [
      ["gt", "62.5"],
      ["lte", 31.0625],
    ]),
    ...perOperator("has_budget", [
      ["exact", ["true"]],
      ["exact", ["false"]],
      ["is_not", ["true"]],
    ]),
    ...perOperator(
      "beta",
      [
        ["exact", ["true"]],
        ["exact", ["false"]],
        ["is_not", "true"],
      ],
      newerRules,
    ),
    ...perOperator(
      "nothing",
      [
        ["exact", "null"],
        ["icontains", "ul"],
        ["is_set", "is_set"],
        ["gt", 1],
      ],
      newerRules,
    ),
    ...perOperator("signed_up", [
      ["is_date_after", "2024-01-15T12:30:00Z"],
      ["is_date_before", "2023-06-01T00:30:00Z"],
    ]),
    ...perOperator("last_seen", [
      ["is_date_after", "-7d"],
      ["is_date_before", "2w"],
    ]),
    ...perOperator(
      "app_version",
      [
        ["semver_eq", "1.10.0"],
        ["semver_neq", "1.2.3"],
        ["semver_gt", "1.9.3"],
        ["semver_gte", "2.0.0"],
        ["semver_lt", "1.10.0"],
        ["semver_lte", "0.5.11"],
        ["semver_tilde", "1.2.3"],
        ["semver_caret", "1.2.3"],
        ["semver_caret", "0.2.3"],
        ["semver_wildcard", "1.*"],
        ["semver_wildcard", "1.2.*"],
      ],
      newer,
    ),
    {
      key: "several-filters",
      filters: {
        groups: [
          condition([
            personIs("plan", "is_not", "free"),
            personIs("age", "gte", 21),
            personIs("email", "icontains", "acme"),
          ]),
          condition([personIs("has_budget", "exact", ["true"]), personIs("age", "lt", 10)]),
        ],
      },
    },
    // groups
    {
      key: "group-share",
      filters: {
        aggregation_group_type_index: 0,
        groups: [condition([], { rollout_percentage: 50 })],
      },
    },
    {
      key: "group-variants",
      filters: {
        aggregation_group_type_index: 1,
        groups: [condition([groupHas(1, "size", "gt", 20)])],
        multivariate: { variants: halves },
      },
    },
    {
      key: "group-properties",
      filters: {
        aggregation_group_type_index: 0,
        groups: [
          condition([groupHas(0, "seats", "gte", 50), groupHas(0, "tier", "exact", ["gold"])]),
          condition([groupHas(0, "$group_key", "regex", "7$")], { rollout_percentage: 60 }),
        ],
      },
    },
    {
      key: "person-or-group",
      filters: {
        groups: [
          condition([personIs("plan", "exact", "free")], {
            aggregation_group_type_index: null,
            rollout_percentage: 50,
          }),
          condition([groupHas(0, "tier", "exact", ["gold"])], {
            aggregation_group_type_index: 0,
            rollout_percentage: 50,
          }),
        ],
        multivariate: { variants: halves },
      },
      ...newer,
    },
    // cohorts
    { key: "in-payers", filters: when(cohortIs(payers)) },
    { key: "in-adults", filters: when(cohortIs(adults), personIs("age", "lt", 60)) },
    { key: "in-strangers", filters: when(cohortIs(strangers)) },
    { key: "in-nested", filters: when(cohortIs(nested)) },
    { key: "not-in-payers", filters: when(cohortIs(payers, "not_in")), ...newer },
    { key: "not-in-nested", filters: when(cohortIs(nested, "not_in")), ...newer },
    // the rest
    {
      key: "held-out",
      filters: variants({ a: 50, b: 50 }, { holdout: { id: 7, exclusion_percentage: 30 } }),
      ...serverOnly,
    },
    {
      key: "early-exit",
      filters: {
        early_exit: true,
        groups: [
          condition([personIs("plan", "exact", "pro")], { rollout_percentage: 30 }),
          condition([]),
        ],
      },
      ...newer,
    },
    {
      key: "by-device",
      filters: variants({ a: 30, b: 70 }),
      fields: { bucketing_identifier: "device_id" },
      ...newer,
    },
    { key: "inactive", filters: when(), fields: { active: false } },
  ];

  const idByKey = new Map<string, number>();
  const create = async ({ key, filters, fields }: LocalFlag) => {
    idByKey.set(key, (await management.createFlag(key, filters, fields)).id);
  };
  for (const flag of independent) await create(flag);

  const dependsOn = (key: string, value: boolean | string): Wire => ({
    key: String(idByKey.get(key)),
    type: "flag",
    operator: "flag_evaluates_to",
    value,
  });
  const dependent: readonly LocalFlag[] = [
    { key: "needs-share", filters: when(dependsOn("share-50", true)), ...newer },
    { key: "needs-no-share", filters: when(dependsOn("share-50", false)), ...newer },
    { key: "needs-any-variant", filters: when(dependsOn("group-variants", true)), ...newer },
    { key: "needs-variant", filters: when(dependsOn("thirds", "b")), ...newer },
    { key: "needs-holdout", filters: when(dependsOn("held-out", "holdout-7")), ...serverOnly },
    { key: "needs-inactive-off", filters: when(dependsOn("inactive", false)), ...newer },
    { key: "needs-inactive-on", filters: when(dependsOn("inactive", true)), ...newer },
  ];
  for (const flag of dependent) await create(flag);
  const chained: readonly LocalFlag[] = [
    {
      key: "needs-chain",
      filters: when(dependsOn("needs-no-share", true), dependsOn("in-nested", false)),
      ...newer,
    },
  ];
  for (const flag of chained) await create(flag);
  return [...independent, ...dependent, ...chained];
}
