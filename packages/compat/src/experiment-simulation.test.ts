import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { eventually } from "./eventually.ts";
import { type Management, openManagement, type Wire } from "./management.ts";
import {
  PROJECT_KEY,
  type ServerUnderTest,
  showOutputOnFailure,
  startServer,
} from "./server-under-test.ts";

/*
 * Users of a product whose every move is known: they ask for flags, see variants, sign in, buy and come
 * again, by the protocol of the SDKs. What the API then says of two experiments is compared with a tally
 * of the events that were sent, and with the effect that the users were made with. Draws are seeded.
 */

/** Fifty thousand make the whole simulation, which takes minutes. */
const USERS = Number(process.env.HEDGEROW_SIMULATED_USERS ?? 3000);
const COMPANIES = Math.max(150, Math.round(USERS / 12));
const HOUR_MS = 3_600_000;
const START_MS = Math.floor((Date.now() - 72 * HOUR_MS) / 1000) * 1000;
const END_MS = START_MS + 48 * HOUR_MS;
/** Chances to buy, by variant of the flag. */
const RATES: Readonly<Record<string, number>> = { control: 0.2, test: 0.26 };
const TRUE_LIFT = 0.26 / 0.2 - 1;
/** Mean numbers of seats that a company adds, by variant of its flag. */
const SEATS: Readonly<Record<string, number>> = { control: 2, test: 2.6 };
const TRUE_SEATS_LIFT = 2.6 / 2 - 1;

interface SentEvent {
  readonly event: string;
  readonly distinct_id: string;
  readonly timestamp: string;
  readonly properties: Wire;
}

/** Uniform numbers of the mulberry32 generator. */
function createDraws(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

describe("a simulated product", () => {
  let server: ServerUnderTest;
  let management: Management;
  let userExperiment: number;
  let companyExperiment: number;
  let holdoutId: number;
  const sent: SentEvent[] = [];
  showOutputOnFailure(() => server);

  const created = async (path: string, body: Wire): Promise<Wire & { id: number }> => {
    const { status, body: answer } = await management.call<Wire & { id: number }>(
      "POST",
      `/api/projects/1/${path}`,
      body,
    );
    expect(status, JSON.stringify(answer)).toBe(201);
    return answer;
  };

  /** What the flags say, asked as the SDKs of two eras do. */
  async function decide(distinctId: string, company: string): Promise<Record<string, string>> {
    const isNew = distinctId.length % 2 === 0;
    const response = await fetch(new URL(isNew ? "/flags/?v=2" : "/decide/?v=3", server.url), {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({
        [isNew ? "token" : "api_key"]: PROJECT_KEY,
        distinct_id: distinctId,
        groups: { company },
      }),
    });
    expect(response.status).toBe(200);
    const answer = (await response.json()) as {
      flags?: Record<string, { variant?: string }>;
      featureFlags?: Record<string, string>;
    };
    return answer.flags
      ? Object.fromEntries(
          Object.entries(answer.flags).map(([key, flag]) => [key, flag.variant ?? ""]),
        )
      : (answer.featureFlags ?? {});
  }

  async function capture(events: readonly SentEvent[]): Promise<void> {
    for (let from = 0; from < events.length; from += 1000) {
      const response = await fetch(new URL("/batch/", server.url), {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify({
          api_key: PROJECT_KEY,
          sent_at: new Date().toISOString(),
          batch: events.slice(from, from + 1000),
        }),
      });
      expect([response.status, await response.json()]).toEqual([200, { status: 1 }]);
    }
  }

  beforeAll(
    async () => {
      server = await startServer();
      management = openManagement(server);
      await capture([
        {
          event: "$groupidentify",
          distinct_id: "setup",
          timestamp: new Date(START_MS - HOUR_MS).toISOString(),
          properties: { $group_type: "company", $group_key: "first", $group_set: {} },
        },
      ]);
      await eventually("the group type", async () => {
        const { body } = await management.call<Wire[]>("GET", "/api/projects/1/groups_types");
        return Array.isArray(body) && body.length > 0;
      });
      const order = { kind: "EventsNode", event: "order paid" };
      const holdout = await created("experiment_holdouts", {
        name: "Never",
        filters: [{ properties: [], rollout_percentage: 10 }],
      });
      holdoutId = holdout.id;
      const start_date = new Date(START_MS).toISOString();
      userExperiment = (
        await created("experiments", {
          name: "Checkout",
          feature_flag_key: "checkout",
          holdout_id: holdoutId,
          start_date,
          metrics: [
            { kind: "ExperimentMetric", metric_type: "funnel", series: [order] },
            {
              kind: "ExperimentMetric",
              metric_type: "mean",
              source: { ...order, math: "sum", math_property: "price" },
            },
          ],
        })
      ).id;
      companyExperiment = (
        await created("experiments", {
          name: "Seats",
          feature_flag_key: "seats",
          start_date,
          parameters: { aggregation_group_type_index: 0 },
          metrics: [
            {
              kind: "ExperimentMetric",
              metric_type: "mean",
              source: { kind: "EventsNode", event: "seat added" },
            },
          ],
        })
      ).id;
      await live();
      const ends = { end_date: new Date(END_MS).toISOString() };
      for (const id of [userExperiment, companyExperiment])
        expect(
          (await management.call("PATCH", `/api/projects/1/experiments/${id}`, ends)).status,
        ).toBe(200);
    },
    120_000 + USERS * 30,
  );
  afterAll(() => server?.dispose());

  /** Lets all users live, many at a time, each with draws of its own. */
  async function live(): Promise<void> {
    let next = 0;
    const liveSome = async () => {
      for (let user = next; user < USERS; user = next) {
        const end = Math.min(USERS, user + 50);
        next = end;
        const events: SentEvent[] = [];
        for (let each = user; each < end; each += 1) events.push(...(await liveUser(each)));
        sent.push(...events);
        await capture(events);
      }
    };
    await Promise.all(Array.from({ length: 12 }, liveSome));
  }

  async function liveUser(user: number): Promise<SentEvent[]> {
    const draw = createDraws(1000 + user);
    const events: SentEvent[] = [];
    // Some come before the start and some after the end.
    const firstMs = START_MS + Math.floor((draw() * 56 - 4) * HOUR_MS);
    const company = `company-${user % COMPANIES}`;
    const $groups = { company };
    const isSignedInLater = draw() < 0.3;
    const first = isSignedInLater ? `anonymous-${user}` : `user-${user}`;
    const happen = (event: string, who: string, atMs: number, properties: Wire = {}) =>
      events.push({
        event,
        distinct_id: who,
        timestamp: new Date(atMs).toISOString(),
        properties: { $lib: "simulation", ...properties },
      });
    const ask = async (who: string, atMs: number, repeats: number) => {
      const values = await decide(who, company);
      for (let call = 0; call < repeats; call += 1)
        for (const key of ["checkout", "seats"])
          happen("$feature_flag_called", who, atMs + call * 60_000, {
            $feature_flag: key,
            $feature_flag_response: values[key] ?? false,
            $groups,
          });
      return values;
    };
    // One buys before anything was shown, which nobody caused.
    if (draw() < 0.05) happen("order paid", first, firstMs - 60_000, { price: 500 });
    const values = await ask(first, firstMs, draw() < 0.3 ? 1 + Math.floor(draw() * 5) : 1);
    const who = `user-${user}`;
    if (isSignedInLater)
      happen("$identify", who, firstMs + 300_000, { $anon_distinct_id: first, $set: { user } });
    // Whoever asks again as somebody else may be answered otherwise.
    if (isSignedInLater && draw() < 0.2) await ask(who, firstMs + 600_000, 1);
    const rate = RATES[values.checkout ?? ""] ?? 0.2;
    const buys = draw() < rate ? 1 + Math.floor(draw() * 3) : 0;
    for (let order = 0; order < buys; order += 1)
      happen("order paid", draw() < 0.5 ? who : first, firstMs + (order + 1) * 15 * 60_000, {
        price: 1 + Math.floor(draw() * 100),
      });
    if (user < COMPANIES) {
      const mean = SEATS[values.seats ?? ""] ?? 0;
      // A Poisson number: so many draws until their product is small.
      let product = draw();
      for (let seat = 0; product > Math.exp(-mean); seat += 1) {
        happen("seat added", who, firstMs + (seat + 1) * 20 * 60_000, { $groups });
        product *= draw();
      }
    }
    return events;
  }

  /** The tally of one flag: units by variant, and what those of each variant did after their exposure. */
  function tally(
    flag: string,
    unitOf: (event: SentEvent) => string | undefined,
    counted: string,
    numberOf: (event: SentEvent) => number,
  ) {
    const units = new Map<string, { variants: Set<string>; firstMs: number }>();
    const isInside = ({ timestamp }: SentEvent) => {
      const atMs = Date.parse(timestamp);
      return atMs >= START_MS && atMs < END_MS;
    };
    for (const event of sent) {
      const { $feature_flag, $feature_flag_response: answer } = event.properties;
      if (event.event !== "$feature_flag_called" || $feature_flag !== flag) continue;
      const unit = unitOf(event);
      const isVariant =
        answer === "control" || answer === "test" || answer === `holdout-${holdoutId}`;
      if (unit === undefined || !isInside(event) || !isVariant) continue;
      const known = units.get(unit) ?? { variants: new Set(), firstMs: Number.POSITIVE_INFINITY };
      known.variants.add(String(answer));
      known.firstMs = Math.min(known.firstMs, Date.parse(event.timestamp));
      units.set(unit, known);
    }
    const values = new Map<string, number[]>();
    for (const event of sent) {
      const unit = event.event === counted ? unitOf(event) : undefined;
      const exposed = unit === undefined ? undefined : units.get(unit);
      if (unit === undefined || !exposed || !isInside(event)) continue;
      if (Date.parse(event.timestamp) >= exposed.firstMs)
        values.set(unit, [...(values.get(unit) ?? []), numberOf(event)]);
    }
    const arms = new Map<string, { n: number; converted: number; sum: number; squares: number }>();
    for (const [unit, { variants }] of units) {
      const variant = variants.size > 1 ? "$multiple" : ([...variants][0] ?? "");
      const arm = arms.get(variant) ?? { n: 0, converted: 0, sum: 0, squares: 0 };
      const own = (values.get(unit) ?? []).reduce((sum, value) => sum + value, 0);
      arms.set(variant, {
        n: arm.n + 1,
        converted: arm.converted + (values.has(unit) ? 1 : 0),
        sum: arm.sum + own,
        squares: arm.squares + own * own,
      });
    }
    return arms;
  }

  function tallyUsers() {
    const owner = new Map(
      sent
        .filter(({ event }) => event === "$identify")
        .map(({ distinct_id, properties }) => [String(properties.$anon_distinct_id), distinct_id]),
    );
    return tally(
      "checkout",
      ({ distinct_id }) => owner.get(distinct_id) ?? distinct_id,
      "order paid",
      ({ properties }) => Number(properties.price),
    );
  }

  // biome-ignore lint/suspicious/noExplicitAny: answers of every shape are looked into
  async function query(asked: Wire): Promise<any> {
    return await eventually(
      "the answer",
      async () => {
        const { status, body } = await management.call("POST", "/api/projects/1/query/", {
          query: asked,
        });
        if (status !== 200) throw new Error(JSON.stringify(body));
        return body;
      },
      60_000,
    );
  }

  const metricsOf = async (id: number) =>
    (await management.call<{ metrics: Wire[] }>("GET", `/api/projects/1/experiments/${id}`)).body
      .metrics;

  it("[CP-62] exposes and counts exactly whom the events tell of", async () => {
    const arms = tallyUsers();
    const exposures = await query({
      kind: "ExperimentExposureQuery",
      experiment_id: userExperiment,
    });
    const held = `holdout-${holdoutId}`;
    expect(exposures.total_exposures).toEqual({
      control: arms.get("control")?.n,
      test: arms.get("test")?.n,
      $multiple: arms.get("$multiple")?.n,
    });
    expect(exposures.holdout_exposures).toEqual({ [held]: arms.get(held)?.n });
    expect(arms.get(held)?.n).toBeGreaterThan(USERS * 0.05);
    expect(exposures.sample_ratio_mismatch).toMatchObject({
      mismatch: false,
      sequential: { mismatch: false },
    });

    const [funnel, revenue] = await metricsOf(userExperiment);
    const conversions = await query({
      kind: "ExperimentQuery",
      experiment_id: userExperiment,
      metric: funnel,
    });
    const money = await query({
      kind: "ExperimentQuery",
      experiment_id: userExperiment,
      metric: revenue,
    });
    for (const [key, converted, paid] of [
      ["control", conversions.baseline, money.baseline],
      ["test", conversions.variant_results[0], money.variant_results[0]],
    ]) {
      const arm = arms.get(key);
      expect(converted).toMatchObject({
        key,
        number_of_samples: arm?.n,
        sum: arm?.converted,
        step_counts: [arm?.converted],
      });
      expect(paid).toMatchObject({
        key,
        number_of_samples: arm?.n,
        sum: arm?.sum,
        sum_squares: arm?.squares,
      });
    }
  });

  it("[CP-62] finds the effect that the users were made with", async () => {
    const [funnel] = await metricsOf(userExperiment);
    const { variant_results } = await query({
      kind: "ExperimentQuery",
      experiment_id: userExperiment,
      metric: funnel,
    });
    const [{ extended, credible_interval }] = variant_results;
    const { lower, upper } = extended.relative.set;
    for (const [low, high] of [[lower, upper], credible_interval, extended.bayes.interval]) {
      expect(low).toBeLessThan(TRUE_LIFT);
      expect(high).toBeGreaterThan(TRUE_LIFT);
    }
    expect(lower).toBeGreaterThan(0);
    const [low, high] = extended.sequential.interval;
    expect(low).toBeLessThan(0.06);
    expect(high).toBeGreaterThan(0.06);
  });

  it("[CP-62] counts companies by their own flag, whoever of them is seen", async () => {
    const arms = tally(
      "seats",
      ({ properties }) => (properties.$groups as { company?: string } | undefined)?.company,
      "seat added",
      () => 1,
    );
    const exposures = await query({
      kind: "ExperimentExposureQuery",
      experiment_id: companyExperiment,
    });
    expect(exposures.total_exposures).toEqual({
      control: arms.get("control")?.n,
      test: arms.get("test")?.n,
    });
    expect(exposures.holdout_exposures).toEqual({});
    const [seats] = await metricsOf(companyExperiment);
    const { baseline, variant_results } = await query({
      kind: "ExperimentQuery",
      experiment_id: companyExperiment,
      metric: seats,
    });
    for (const [key, result] of [
      ["control", baseline],
      ["test", variant_results[0]],
    ]) {
      const arm = arms.get(key);
      expect(result).toMatchObject({
        key,
        number_of_samples: arm?.n,
        sum: arm?.sum,
        sum_squares: arm?.squares,
      });
    }
    const { lower, upper } = variant_results[0].extended.relative.set;
    expect(lower).toBeLessThan(TRUE_SEATS_LIFT);
    expect(upper).toBeGreaterThan(TRUE_SEATS_LIFT);
  });

  it("[CP-62] tells the same to whoever takes the results away", async () => {
    const exported = await management.call<Wire & { metrics: Wire[] }>(
      "GET",
      `/api/projects/1/experiments/${userExperiment}/export`,
    );
    expect(exported.status).toBe(200);
    const asked = await query({ kind: "ExperimentExposureQuery", experiment_id: userExperiment });
    expect((exported.body.exposures as Wire).total_exposures).toEqual(asked.total_exposures);
    expect(exported.body.metrics[0]?.baseline).toMatchObject({
      sum: tallyUsers().get("control")?.converted,
    });
  });
});
