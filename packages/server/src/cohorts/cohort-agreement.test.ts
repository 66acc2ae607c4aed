import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type ComposedProject, openComposedService } from "../persons/composed-service.setup.ts";

let service: Awaited<ReturnType<typeof openComposedService>>;
let project: ComposedProject;

beforeAll(async () => {
  // None is calculated again meanwhile: the new ones would wait for those before.
  service = await openComposedService(["--cohort-minutes", "1440"]);
});
afterAll(() => service.close());

const operators = {
  text: fc.constantFrom("exact", "is_not", "is_set", "icontains"),
  number: fc.constantFrom("exact", "is_not", "gt", "lt", "gte", "lte"),
};
const comparison = fc.oneof(
  fc.record({ operator: operators.text, value: fc.constantFrom("3426", "pro", "PRO") }),
  fc.record({ operator: operators.number, value: fc.constantFrom("3426", "100000000", "5") }),
);
const leaf = fc
  .tuple(fc.constantFrom("tenant_id", "plan", "since"), comparison, fc.boolean())
  .map(([key, compared, negation]) => ({ key, type: "person", ...compared, negation }));
const behavior = fc.record({
  type: fc.constant("behavioral"),
  key: fc.constantFrom("bought", "looked"),
  value: fc.constant("performed_event_multiple"),
  operator: fc.constantFrom("gte", "lte", "exact"),
  operator_value: fc.integer({ min: 1, max: 3 }),
  event_type: fc.constant("events"),
  negation: fc.boolean(),
});
const rule = fc.record({
  type: fc.constantFrom("AND", "OR"),
  values: fc.array(
    fc.record({
      type: fc.constantFrom("AND", "OR"),
      values: fc.array(fc.oneof({ weight: 3, arbitrary: leaf }, behavior), {
        minLength: 1,
        maxLength: 3,
      }),
    }),
    { minLength: 1, maxLength: 2 },
  ),
});
const properties = fc.dictionary(
  fc.constantFrom("tenant_id", "plan", "since"),
  fc.oneof(fc.constantFrom<string | number | boolean>(3426, "3426", 5, "pro", true), fc.integer()),
);

async function idsOf(cohortId: number): Promise<string[]> {
  const { body } = await project.get(`cohorts/${cohortId}/persons?limit=100`);
  return body.results.map((person: { distinct_ids: string[] }) => person.distinct_ids[0]).sort();
}

describe("one meaning of a cohort", () => {
  test("[CO-29] numbers stored as such are compared with rules given as text, in the count, the list and the flag", async () => {
    project = await service.newProject();
    await project.capture({
      distinct_id: "tenant",
      properties: { $set: { tenant_id: 3426 } } as never,
    });
    const lessThan = { type: "person", key: "tenant_id", operator: "lt", value: "100000000" };
    const members = await agreeOn({ type: "AND", values: [lessThan] }, ["tenant", "nobody"]);
    expect(members).toEqual(["tenant"]);
  });

  /** The members of a cohort, by whom its flag is on for; fails where others tell otherwise. */
  async function agreeOn(written: object, people: readonly string[]): Promise<string[]> {
    const { body } = await project.call("POST", "cohorts", {
      name: "c",
      filters: { properties: written },
    });
    const id: number = body.id;
    if (id === undefined) throw new Error(JSON.stringify(body));
    await expect
      .poll(async () => (await project.get(`cohorts/${id}`)).body.is_calculating, {
        interval: 5,
      })
      .toBe(false);
    const filter = { key: "id", type: "cohort", operator: "in", value: id };
    await project.createFlag(`in-${id}`, { groups: [{ properties: [filter] }] } as never);
    const values = await Promise.all(people.map((person) => project.flags(person)));
    const on = people.filter((_, index) => values[index]?.[`in-${id}`] === true);
    const cohort = (await project.get(`cohorts/${id}`)).body;
    // Who was never seen may fit a rule, but is nobody that could be listed.
    const known = on.filter((person) => person !== "nobody");
    expect({ count: cohort.count, persons: await idsOf(id) }).toEqual({
      count: known.length,
      persons: known.toSorted(),
    });
    return known;
  }

  test("[CO-29] count, list and flags agree for every rule and every person", async () => {
    const people = Array.from({ length: 8 }, (_, n) => `p${n}`);
    await fc.assert(
      fc.asyncProperty(
        fc.array(properties, { minLength: 8, maxLength: 8 }),
        fc.array(fc.tuple(fc.constantFrom(...people), fc.constantFrom("bought", "looked")), {
          maxLength: 20,
        }),
        fc.array(rule, { minLength: 4, maxLength: 4 }),
        async (written, doings, rules) => {
          project = await service.newProject();
          await project.capture(
            ...people.map((distinct_id, at) => ({
              distinct_id,
              properties: { $set: written[at] } as never,
            })),
            ...doings.map(([distinct_id, event]) => ({ distinct_id, event })),
          );
          for (const one of rules) await agreeOn(one, people);
        },
      ),
      { numRuns: 8, endOnFailure: true },
    );
  });
});
