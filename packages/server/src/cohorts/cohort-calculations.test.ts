import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { type ComposedProject, openComposedService } from "../persons/composed-service.setup.ts";

let service: Awaited<ReturnType<typeof openComposedService>>;
let project: ComposedProject;

beforeAll(async () => {
  service = await openComposedService();
});
afterAll(() => service.close());
beforeEach(async () => {
  project = await service.newProject();
});

const daysAgo = (days: number) => new Date(Date.now() - days * 86_400_000).toISOString();
const did = (event: string, more: object = {}) => ({
  type: "behavioral",
  key: event,
  value: "performed_event",
  event_type: "events",
  time_value: 7,
  time_interval: "day",
  ...more,
});
const times = (operator: string, operator_value: number, more: object = {}) =>
  did("bought", { value: "performed_event_multiple", operator, operator_value, ...more });
const all = (...values: object[]) => ({ type: "AND", values });
const any = (...values: object[]) => ({ type: "OR", values });
const inCohort = (value: number, more: object = {}) => ({
  type: "cohort",
  key: "id",
  value,
  ...more,
});

/** The cohort once its calculation has ended. */
async function calculated(id: number) {
  for (let tries = 0; tries < 2_000; tries++) {
    const { body } = await project.get(`cohorts/${id}`);
    if (!body.is_calculating) return body;
    await new Promise((resolve) => setTimeout(resolve, 25));
  }
  throw new Error("the cohort is still being calculated");
}
async function create(properties: object, name = "c") {
  const answer = await project.call("POST", "cohorts", { name, filters: { properties } });
  if (answer.status !== 201) throw new Error(JSON.stringify(answer.body));
  expect(answer.body.is_calculating).toBe(true);
  return await calculated(answer.body.id);
}
async function change(id: number, properties: object) {
  const { status } = await project.call("PATCH", `cohorts/${id}`, { filters: { properties } });
  expect(status).toBe(200);
  return await calculated(id);
}
/** Distinct ids of a cohort's persons, from all pages. */
async function personsOf(id: number, limit = 2): Promise<string[]> {
  const found: string[] = [];
  let next: string | null = `cohorts/${id}/persons?limit=${limit}`;
  while (next !== null) {
    const { body } = await project.get(next);
    found.push(...body.results.map((person: { distinct_ids: string[] }) => person.distinct_ids[0]));
    next = body.next?.slice(body.next.indexOf("cohorts/")) ?? null;
  }
  return found.toSorted();
}
async function flagOn(cohortId: number, operator = "in"): Promise<string> {
  const key = `flag-${cohortId}-${operator}`;
  await project.createFlag(key, {
    groups: [{ properties: [{ ...inCohort(cohortId), operator }], rollout_percentage: 100 }],
  } as never);
  return key;
}
/** Members of a cohort as flags see them, of those asked for. */
async function flagged(key: string, ...distinctIds: string[]): Promise<string[]> {
  const found: string[] = [];
  for (const id of distinctIds) if ((await project.flags(id))[key] === true) found.push(id);
  return found;
}
const buy = (distinct_id: string, days = 1, properties: object = {}) => ({
  event: "bought",
  distinct_id,
  timestamp: daysAgo(days),
  properties: properties as never,
});

describe("cohorts of past behavior", () => {
  test("[CO-14] who did something in a period, how often, is found, listed, counted and seen by flags", async () => {
    await project.capture(
      buy("once"),
      ...[1, 2, 3].map((days) => buy("thrice", days)),
      buy("long-ago", 30),
      { event: "looked", distinct_id: "looker" },
    );
    const everybody = ["once", "thrice", "long-ago", "looker", "stranger"];
    for (const [rule, members] of [
      [did("bought"), ["once", "thrice"]],
      [times("gte", 2), ["thrice"]],
      [times("lte", 2), ["once"]],
      [times("exact", 3), ["thrice"]],
      [did("bought", { time_value: 60 }), ["long-ago", "once", "thrice"]],
      [did("bought", { negation: true }), ["long-ago", "looker"]],
      [did("bought", { explicit_datetime: "-40d", explicit_datetime_to: "-20d" }), ["long-ago"]],
      [did("never"), []],
    ] as [object, string[]][]) {
      const cohort = await create(any(all(rule)));
      expect(cohort).toMatchObject({
        count: members.length,
        errors_calculating: 0,
        last_error_message: null,
        cohort_type: "behavioral",
        last_calculation: expect.any(String),
      });
      expect(await personsOf(cohort.id)).toEqual(members);
      const key = await flagOn(cohort.id);
      expect((await flagged(key, ...everybody)).toSorted()).toEqual(members);
    }
  });

  test("[CO-14] the first time counts only without an earlier one", async () => {
    await project.capture(buy("new"), buy("old"), buy("old", 90), buy("lapsed", 90));
    const first = did("bought", { value: "performed_event_first_time" });
    expect(await personsOf((await create(all(first))).id)).toEqual(["new"]);
    const ever = did("bought", {
      value: "performed_event_first_time",
      time_value: null,
    });
    expect(await personsOf((await create(all(ever))).id)).toEqual(["lapsed", "new", "old"]);
  });

  const ago = (event: string, distinct_id: string, hours: number, properties: object = {}) => ({
    event,
    distinct_id,
    timestamp: daysAgo(hours / 24),
    properties: properties as never,
  });

  test("[CO-31] a sequence is one event and then another, soon enough, both in the period", async () => {
    await project.capture(
      ...[ago("looked", "soon", 50), ago("bought", "soon", 49)],
      ...[ago("looked", "late", 50), ago("bought", "late", 40)],
      ...[ago("bought", "reversed", 50), ago("looked", "reversed", 49)],
      ...[ago("looked", "again", 90), ago("looked", "again", 50), ago("bought", "again", 49)],
      ...[ago("looked", "long-ago", 30 * 24), ago("bought", "long-ago", 30 * 24 - 1)],
      ...[ago("looked", "early", 7 * 24 + 1), ago("bought", "early", 7 * 24 - 1)],
      ago("looked", "looker", 50),
      ago("bought", "buyer", 50),
      ...[ago("looked", "pro", 20, { plan: "pro" }), ago("bought", "pro", 19)],
      ...[ago("looked", "repeats", 20), ago("looked", "repeats", 19)],
    );
    // What is one person's in the end counts as such.
    await project.identify("looker", "buyer-to-be");
    await project.capture(ago("bought", "buyer-to-be", 48.5));
    const sequence = (more: object = {}) =>
      did("looked", {
        value: "performed_event_sequence",
        seq_event: "bought",
        seq_event_type: "events",
        seq_time_value: 2,
        seq_time_interval: "hour",
        ...more,
      });
    const plan = { key: "plan", type: "event", operator: "exact", value: "pro" };
    for (const [rule, members] of [
      [sequence(), ["again", "buyer-to-be", "pro", "soon"]],
      [sequence({ seq_time_value: 12 }), ["again", "buyer-to-be", "late", "pro", "soon"]],
      [sequence({ time_value: 60 }), ["again", "buyer-to-be", "early", "long-ago", "pro", "soon"]],
      [sequence({ event_filters: [plan] }), ["pro"]],
      [sequence({ seq_event: "looked" }), ["repeats"]],
    ] as [object, string[]][]) {
      expect(await personsOf((await create(all(rule))).id)).toEqual(members);
    }
  });

  test("[CO-32] regularly is often enough in enough of the last spans of time", async () => {
    const weekly = (name: string, ...weeks: number[]) =>
      weeks.map((week) => ago("bought", name, week * 7 * 24 + 12));
    await project.capture(
      ...weekly("always", 0, 1, 2, 3),
      ...weekly("mostly", 0, 2, 3),
      ...weekly("at-first", 2, 3),
      ...weekly("twice-a-week", 0, 0, 1, 1),
      ...weekly("before", 4, 5, 6, 7),
      ago("looked", "looker", 1),
    );
    const regularly = (operator: string, operator_value: number, min_periods: number) =>
      did("bought", {
        value: "performed_event_regularly",
        ...{ operator, operator_value, min_periods, total_periods: 4 },
        ...{ time_value: 1, time_interval: "week" },
      });
    for (const [rule, members] of [
      [regularly("gte", 1, 4), ["always"]],
      [regularly("gte", 1, 3), ["always", "mostly"]],
      [regularly("gte", 1, 1), ["always", "at-first", "mostly", "twice-a-week"]],
      [regularly("gte", 2, 2), ["twice-a-week"]],
      [regularly("exact", 1, 2), ["always", "at-first", "mostly"]],
      // A week without it is a week with at most one.
      [regularly("lte", 1, 4), ["always", "at-first", "mostly"]],
    ] as [object, string[]][]) {
      expect(await personsOf((await create(all(rule))).id)).toEqual(members);
    }
  });

  test("[CO-33] who stopped did it before the last days only, who restarted paused in between", async () => {
    await project.capture(
      ago("bought", "stopped", 10 * 24),
      ...[ago("bought", "active", 10 * 24), ago("bought", "active", 24)],
      ago("bought", "long-gone", 90 * 24),
      ...[ago("bought", "restarted", 90 * 24), ago("bought", "restarted", 24)],
      ...["steady"].flatMap((name) =>
        [90 * 24, 10 * 24, 24].map((hours) => ago("bought", name, hours)),
      ),
      ago("bought", "new", 24),
    );
    const spans = { time_value: 30, seq_time_value: 7, seq_time_interval: "day" };
    const stopped = did("bought", { value: "stopped_performing_event", ...spans });
    const restarted = did("bought", { value: "restarted_performing_event", ...spans });
    expect(await personsOf((await create(all(stopped))).id)).toEqual(["stopped"]);
    expect(await personsOf((await create(all(restarted))).id)).toEqual(["restarted"]);
    const either = any(all(stopped), all({ ...restarted, negation: true }, did("bought")));
    const cohort = await create(either);
    expect(await personsOf(cohort.id)).toEqual(["active", "new", "steady", "stopped"]);
    expect(
      (await flagged(await flagOn(cohort.id), "stopped", "restarted", "new")).toSorted(),
    ).toEqual(["new", "stopped"]);
  });

  test("[CO-15] events count by their properties, with the operators of flags", async () => {
    await project.capture(
      buy("cheap", 1, { price: 5, plan: "pro" }),
      buy("dear", 1, { price: "50", plan: "pro" }),
      buy("dear", 2, { price: 60 }),
      buy("other", 1, { price: 50, plan: "free" }),
      buy("silent", 1),
    );
    const where = (...event_filters: object[]) => ({ event_filters });
    const price = { key: "price", operator: "gt", value: "10", type: "event" };
    const pro = { key: "plan", operator: "exact", value: ["PRO", "pro"], type: "event" };
    for (const [rule, members] of [
      [did("bought", where(price)), ["dear", "other"]],
      [times("gte", 2, where(price)), ["dear"]],
      [did("bought", where(price, pro)), ["dear"]],
      [did("bought", where({ key: "plan", operator: "is_not_set" })), ["dear", "silent"]],
    ] as [object, string[]][]) {
      expect(await personsOf((await create(all(rule))).id)).toEqual(members);
    }
  });

  test("[CO-16] behavior is combined with properties and other cohorts, in groups and negated", async () => {
    const named = (distinct_id: string, plan: string) => ({
      event: "$identify",
      distinct_id,
      properties: { $set: { plan } } as never,
    });
    await project.capture(
      named("a", "pro"),
      named("b", "free"),
      named("c", "pro"),
      buy("a"),
      buy("b"),
      { event: "looked", distinct_id: "b" },
      { event: "looked", distinct_id: "c" },
    );
    const pro = { key: "plan", type: "person", value: "pro", operator: "exact" };
    const chosen = await project.call("POST", "cohorts", {
      name: "Chosen",
      is_static: true,
      distinct_ids: ["c"],
    });
    const buyers = await create(all(did("bought")), "Buyers");
    for (const [rule, members] of [
      [all(did("bought"), pro), ["a"]],
      [any(all(did("bought"), pro), all(did("looked"))), ["a", "b", "c"]],
      [all(pro, did("bought", { negation: true })), ["c"]],
      [all(did("looked"), inCohort(buyers.id)), ["b"]],
      [all(did("looked"), inCohort(buyers.id, { negation: true })), ["c"]],
      [any(all(did("bought")), all(inCohort(chosen.body.id))), ["a", "b", "c"]],
      [all(did("looked"), { ...pro, key: "distinct_id", value: "b" }), ["b"]],
    ] as [object, string[]][]) {
      expect(await personsOf((await create(rule)).id)).toEqual(members);
    }
    // A rule without behavior of its own refers to what was calculated.
    const outer = await create(all(inCohort(buyers.id, { negation: true }), pro), "Outer");
    expect(outer).toMatchObject({ cohort_type: "person_property", count: 1 });
    expect(await personsOf(outer.id)).toEqual(["c"]);
    const key = await flagOn(outer.id);
    expect(await flagged(key, "a", "b", "c")).toEqual(["c"]);
    expect(await flagged(await flagOn(buyers.id, "not_in"), "a", "b", "c", "x")).toEqual([
      "c",
      "x",
    ]);
  });

  test("[CO-17] a changed rule is calculated anew, what refers to it as well, and the rest stays", async () => {
    await project.capture(buy("a"), { event: "looked", distinct_id: "b" });
    const inner = await create(all(did("bought")), "Inner");
    const outer = await create(all(did("bought", { time_value: 5 }), inCohort(inner.id)));
    const other = await create(all(did("bought")), "Other");
    const key = await flagOn(inner.id);
    expect(await flagged(key, "a", "b")).toEqual(["a"]);
    expect(await personsOf(outer.id)).toEqual(["a"]);
    const changed = await change(inner.id, all(did("looked")));
    expect(changed).toMatchObject({ count: 1 });
    expect(await flagged(key, "a", "b")).toEqual(["b"]);
    await calculated(outer.id);
    expect(await personsOf(outer.id)).toEqual([]);
    const { last_calculation } = (await project.get(`cohorts/${other.id}`)).body;
    expect(last_calculation).toBe(other.last_calculation);
    // Without behavior nobody is stored any more: the rule alone decides.
    await change(inner.id, all({ key: "plan", type: "person", operator: "is_not_set" }));
    expect(await flagged(key, "a", "b")).toEqual(["a", "b"]);
  });

  test("[CO-18] who becomes part of another person is a member as that other, now and when calculated anew", async () => {
    await project.capture(buy("visitor"), { distinct_id: "known" });
    const cohort = await create(all(did("bought")));
    const key = await flagOn(cohort.id);
    expect(await flagged(key, "known")).toEqual([]);
    await project.identify("known", "visitor");
    expect(await flagged(key, "known", "visitor")).toEqual(["known", "visitor"]);
    expect((await change(cohort.id, all(did("bought", { time_value: 6 })))).count).toBe(1);
    expect(await flagged(key, "known", "visitor")).toEqual(["known", "visitor"]);
  });

  test("[CO-20] SDKs get no cohort of past behavior and leave its flags to the server", async () => {
    await project.capture(buy("a"));
    const inner = await create(all(did("bought")));
    const outer = await create(all(inCohort(inner.id)));
    await flagOn(inner.id);
    await flagOn(outer.id);
    for (const query of ["", "&send_cohorts"]) {
      const { body } = await service.send(
        "GET",
        `/flags/definitions?token=${project.token}${query}`,
      );
      expect(Object.keys(body.cohorts)).toEqual(query ? [String(outer.id)] : []);
      expect(
        body.flags.map(
          (flag: { filters: { groups: { properties: { type: string }[] }[] } }) =>
            flag.filters.groups[0]?.properties[0]?.type,
        ),
      ).toEqual(["cohort", "cohort"]);
    }
  });

  test("[CO-21] a person sees its flag follow what a static copy keeps", async () => {
    await project.capture(buy("a"), buy("b"));
    const cohort = await create(all(did("bought")), "Buyers");
    const { body: copy } = await project.call(
      "POST",
      `cohorts/${cohort.id}/duplicate_as_static_cohort`,
    );
    expect(copy).toMatchObject({ name: "Buyers (static copy)", is_static: true, count: 2 });
    await change(cohort.id, all(did("never")));
    expect(await personsOf(cohort.id)).toEqual([]);
    expect(await personsOf(copy.id)).toEqual(["a", "b"]);
    const rule = await create(all({ key: "plan", type: "person", operator: "is_not_set" }));
    const { body: second } = await project.call(
      "GET",
      `cohorts/${rule.id}/duplicate_as_static_cohort`,
    );
    expect(await personsOf(second.id)).toEqual(["a", "b"]);
  });
});
