// Fifty flags of mixed kinds and the properties of a user for them, shared by the benchmarks.
function person(filters, rollout = 100) {
  return { groups: [{ properties: filters, rollout_percentage: rollout }] };
}

const filter = (key, operator, value) => ({ key, operator, value, type: "person" });
const halves = {
  variants: [
    { key: "control", rollout_percentage: 50 },
    { key: "test", rollout_percentage: 50 },
  ],
};

/** Fifty flags: a fifth each of plain rollouts, targeted, multivariate, operators, and many conditions. */
export function mixedFlags() {
  return Array.from({ length: 50 }, (_, n) => {
    const key = `bench-${n}`;
    switch (n % 5) {
      case 0:
        return { key, filters: person([], 30 + n) };
      case 1:
        return { key, filters: person([filter("plan", "exact", ["pro", "team"])]) };
      case 2:
        return {
          key,
          filters: {
            ...person([filter("country", "exact", "NL")]),
            multivariate: halves,
            payloads: { test: '{"color":"green"}' },
          },
        };
      case 3:
        return {
          key,
          filters: person([
            filter("app_version", "semver_gte", "1.4.0"),
            filter("email", "icontains", "@example."),
          ]),
        };
      default:
        return {
          key,
          filters: {
            groups: [
              { properties: [filter("seats", "gt", "100")], rollout_percentage: 100 },
              { properties: [filter("email", "regex", "^admin@")], rollout_percentage: 100 },
              { properties: [], rollout_percentage: 50 },
            ],
          },
        };
    }
  });
}

/** What is known of the user asking. */
export const PROPERTIES = {
  plan: "pro",
  country: "NL",
  app_version: "1.10.2",
  email: "someone@example.com",
  seats: 12,
};
