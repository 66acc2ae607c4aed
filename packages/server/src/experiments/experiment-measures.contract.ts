import { retentionOfUnit, stepsReached } from "@hedgerow/core/experiments/measure-unit";
import type {
  Measure,
  MeasuredEvent,
  MeasuredProperty,
  Metric,
} from "@hedgerow/core/experiments/metric";
import { createTimeZone } from "@hedgerow/core/flags/zoned-date";
import type { Json, JsonObject } from "@hedgerow/core/json";
import { quantileRanks } from "@hedgerow/core/statistics/quantile-metric";
import { winsorBounds, winsorize } from "@hedgerow/core/statistics/winsorize";
import fc from "fast-check";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { PERSON_A, PERSON_B, PERSON_C, sampleRow } from "../events/event-store.contract.ts";
import type { EventRow, EventStore } from "../events/event-store.ts";
import type {
  ArmMeasure,
  ExperimentMeasures,
  ExposureQuery,
  Measured,
  MeasureOptions,
} from "./experiment-measures.ts";

const START = Date.UTC(2026, 2, 1);
const MINUTE = 60_000;
const DAY = 86_400_000;
const at = (minute: number) => new Date(START + minute * MINUTE);

/** All filters of these tests ask for equality. */
const conditionOf = (filters: readonly MeasuredProperty[]) => ({
  requiredNames: filters.map(({ key }) => key),
  matches: (properties: JsonObject) =>
    filters.every(({ key, value }) => Object.hasOwn(properties, key) && properties[key] === value),
});

const QUERY: ExposureQuery = {
  projectId: 1,
  flagKey: "button",
  groupTypeIndex: null,
  variants: ["control", "test"],
  from: at(0),
  to: new Date(START + 10 * DAY),
  days: Array.from({ length: 10 }, (_, index) => ({
    day: `2026-03-${String(index + 1).padStart(2, "0")}`,
    from: new Date(START + index * DAY),
  })),
  zone: createTimeZone("UTC"),
  marker: null,
  severalVariants: "exclude",
  everyEvent: [],
  exceptPersons: [],
  conditionOf,
};
const PLAIN: MeasureOptions = { lookbackMs: null, breakdown: null, byDay: false, level: 0.95 };

const event = (name: string | null, filters: JsonObject = {}): MeasuredEvent => ({
  event: name,
  filters: Object.entries(filters).map(([key, value]) => ({ key, operator: "exact", value })),
});
const mean = (measure: Measure, more: Partial<Metric> = {}, filters: JsonObject = {}) =>
  ({
    kind: "mean",
    goal: "increase",
    conversionWindowMs: null,
    source: { events: event("bought", filters), measure },
    winsorization: null,
    ...more,
  }) as Metric;
const price = (kind: "sum" | "avg" | "min" | "max" | "unique-values") => ({
  kind,
  property: "price",
});

/** What every {@link ExperimentMeasures} must do. */
export function describeExperimentMeasures(
  title: string,
  create: () => Promise<{
    readonly store: EventStore & ExperimentMeasures;
    readonly remove: () => void;
  }>,
): void {
  describe(title, () => {
    let store: EventStore & ExperimentMeasures;
    let remove: () => void;
    let end = 0;
    beforeEach(async () => {
      ({ store, remove } = await create());
      end = 0;
    });
    afterEach(async () => {
      await store.close();
      remove();
    });

    interface Happening {
      readonly name: string;
      readonly minute: number;
      readonly person?: string;
      readonly properties?: JsonObject;
      readonly group?: string;
      readonly projectId?: number;
    }
    const save = async (
      happenings: readonly Happening[],
      merges: readonly (readonly [string, string])[] = [],
    ) => {
      const rows: readonly EventRow[] = happenings.map((happening) => {
        end += 1;
        const { name, minute, person, properties, group, projectId = 1 } = happening;
        const fields = {
          projectId,
          event: name,
          timestamp: at(minute),
          properties: properties ?? {},
        };
        return { ...sampleRow(end, fields, person), groupKeys: [null, group ?? null] };
      });
      const merged = merges.map(([from, into]) => {
        end += 1;
        return { position: end, projectId: 1, from, into };
      });
      await store.insert({ rows, merges: merged, drops: [], deadLetters: [], end });
    };
    const call = (person: string, variant: Json, minute = 0, more: Partial<Happening> = {}) => ({
      name: "$feature_flag_called",
      minute,
      person,
      properties: { $feature_flag: "button", $feature_flag_response: variant },
      ...more,
    });
    const buy = (person: string, minute: number, properties: JsonObject = {}): Happening => ({
      name: "bought",
      minute,
      person,
      properties,
    });
    const exposed = async (query: Partial<ExposureQuery> = {}) => {
      const found = await store.exposures({ ...QUERY, ...query });
      return Object.fromEntries(
        found.map(({ variant, day, units }) => [`${day} ${variant}`, units]),
      );
    };
    const measureOne = async (
      metric: Metric,
      query: Partial<ExposureQuery> = {},
      options: Partial<MeasureOptions> = {},
    ) => {
      const asked = { ...QUERY, ...query };
      const [measured] = await store.measure(asked, [metric], { ...PLAIN, ...options });
      if (!measured) throw new Error("a metric was not measured");
      return measured;
    };
    const measure = async (metric: Metric, query: Partial<ExposureQuery> = {}) =>
      (await measureOne(metric, query)).arms.map(({ sums }) => sums);
    const long = { text: "ß".repeat(50_000) };

    it("[XR-1] counts a person once, on the day of the first call with a variant of the flag", async () => {
      const other = { $feature_flag: "other", $feature_flag_response: "test" };
      await save([
        call(PERSON_A, "test", 5),
        call(PERSON_A, "test", 1),
        call(PERSON_A, "test", 2 * 1440),
        call(PERSON_B, "control", 1441),
        call(PERSON_C, true),
        call(PERSON_C, "gone"),
        call(PERSON_C, "control", 1, { properties: other }),
        call(PERSON_C, "control", 1, { projectId: 2 }),
        { ...call(PERSON_C, "control"), name: "looked" },
      ]);
      expect(await exposed()).toEqual({ "2026-03-01 test": 1, "2026-03-02 control": 1 });
    });

    it("[XR-1] counts calls from the start on and before the end, and no others", async () => {
      await save([
        call(PERSON_A, "test", 9),
        call(PERSON_A, "control", 10),
        call(PERSON_B, "test", 20),
        call(PERSON_C, "control", 19),
        call(PERSON_C, "test", 20),
      ]);
      expect(await exposed({ from: at(10), to: at(20) })).toEqual({ "2026-03-01 control": 2 });
      expect(await exposed({ from: at(10), to: at(10) })).toEqual({});
    });

    it("[XR-1] counts persons that were merged as one, and groups by their key", async () => {
      await save(
        [
          call(PERSON_A, "test", 3, { group: "acme" }),
          call(PERSON_B, "test", 2, { group: "acme" }),
          call(PERSON_C, "test", 1, { group: "initech" }),
          call(PERSON_C, "test", 1),
        ],
        [
          [PERSON_A, PERSON_B],
          [PERSON_B, PERSON_C],
        ],
      );
      expect(await exposed()).toEqual({ "2026-03-01 test": 1 });
      expect(await exposed({ groupTypeIndex: 1 })).toEqual({ "2026-03-01 test": 2 });
      expect(await exposed({ groupTypeIndex: 0 })).toEqual({});
    });

    it("[XR-2] leaves units with several variants out, or counts them for the first", async () => {
      await save([
        call(PERSON_A, "test", 3),
        call(PERSON_A, "control", 2),
        call(PERSON_B, "test", 2),
        call(PERSON_B, "control", 2),
        call(PERSON_C, "holdout-7", 2),
      ]);
      expect(await exposed()).toEqual({ "2026-03-01 $multiple": 2, "2026-03-01 holdout-7": 1 });
      expect(await exposed({ severalVariants: "first-seen" })).toEqual({
        "2026-03-01 control": 1,
        "2026-03-01 holdout-7": 1,
        "2026-03-01 test": 1,
      });
      const total = mean({ kind: "total" });
      expect(await measure(total)).toEqual([
        { n: 0, sum: 0, sumSquares: 0 },
        { n: 0, sum: 0, sumSquares: 0 },
      ]);
    });

    it("[XR-3] takes another event as exposure by the variant that it carries, whatever its text", async () => {
      const seen = (person: string, variant: Json, more: JsonObject = {}): Happening => ({
        name: "seen",
        minute: 1,
        person,
        properties: { "$feature/a/b~c": variant, ...more },
      });
      await save([
        seen(PERSON_A, "test", { page: "/" }),
        seen(PERSON_B, "control", { page: "/", ...long }),
        seen(PERSON_C, "test", { page: "/x", half: "\ud800" }),
        { ...call(PERSON_C, "control"), properties: { "$feature/a/b~c": "control" } },
      ]);
      const query = { flagKey: "a/b~c", marker: event("seen") };
      expect(await exposed(query)).toEqual({ "2026-03-01 control": 1, "2026-03-01 test": 2 });
      expect(await exposed({ ...query, marker: event("seen", { page: "/" }) })).toEqual({
        "2026-03-01 control": 1,
        "2026-03-01 test": 1,
      });
      const some = { page: "/", $feature_flag: "button", $feature_flag_response: "test" };
      await save([call(PERSON_A, "test"), call(PERSON_B, "test", 1, { properties: some })]);
      const calls = event("$feature_flag_called", { page: "/" });
      expect(await exposed({ marker: calls })).toEqual({ "2026-03-01 test": 1 });
    });

    it("[XR-4] makes one number of a unit's events, and zero of none", async () => {
      const session = (id: string) => ({ $session_id: id });
      await save([
        call(PERSON_A, "test"),
        call(PERSON_B, "control"),
        call(PERSON_C, "control"),
        buy(PERSON_A, 1, { price: 4, ...session("1") }),
        buy(PERSON_A, 2, { price: "2.5", ...session("1") }),
        buy(PERSON_A, 3, { price: 7, ...long, ...session("2") }),
        buy(PERSON_A, 3, { price: 0.5, half: "\udc00" }),
        buy(PERSON_A, 4, { price: "much", kind: "odd" }),
        buy(PERSON_A, 4, { price: "inf" }),
        buy(PERSON_A, 4, { price: [1] }),
        buy(PERSON_A, 4, { price: true }),
        buy(PERSON_A, 4, { nested: { price: 3 } }),
        buy(PERSON_C, 4, { price: "nothing" }),
      ]);
      const testArm = async (metric: Metric) => (await measure(metric))[1];
      const one = (value: number) => ({ n: 1, sum: value, sumSquares: value ** 2 });
      expect(await testArm(mean({ kind: "total" }))).toEqual(one(9));
      expect(await testArm(mean({ kind: "active" }))).toEqual(one(1));
      expect(await testArm(mean({ kind: "unique-sessions" }))).toEqual(one(2));
      expect(await testArm(mean(price("sum")))).toEqual(one(14));
      expect(await testArm(mean(price("avg")))).toEqual(one(3.5));
      expect(await testArm(mean(price("min")))).toEqual(one(0.5));
      expect(await testArm(mean(price("max")))).toEqual(one(7));
      expect(await testArm(mean({ kind: "total" }, {}, { kind: "odd" }))).toEqual(one(1));
      expect((await measure(mean(price("min"))))[0]).toEqual({ n: 2, sum: 0, sumSquares: 0 });
    });

    it("[XR-5] counts events at or after the exposure, inside the conversion window, before the end", async () => {
      await save([
        call(PERSON_A, "test", 10),
        call(PERSON_A, "test", 15),
        ...[5, 9, 10, 12, 19, 20, 30].map((minute) => buy(PERSON_A, minute)),
      ]);
      const count = async (minutes: number | null, to = at(1000)) => {
        const conversionWindowMs = minutes === null ? null : minutes * MINUTE;
        return (await measure(mean({ kind: "total" }, { conversionWindowMs }), { to }))[1]?.sum;
      };
      expect(await count(null)).toBe(5);
      expect(await count(10)).toBe(3);
      expect(await count(null, at(20))).toBe(3);
      expect(await count(1000, at(12))).toBe(1);
    });

    it("[XR-6] cuts outliers by the quantiles of all variants together", async () => {
      const persons = Array.from({ length: 20 }, (_, index) => personNumber(index));
      await save(
        persons.flatMap((person, index) => [
          call(person, index % 2 ? "test" : "control"),
          ...(index < 5 ? [] : [buy(person, 1, { price: index })]),
        ]),
      );
      const values = persons.map((_, index) => (index < 5 ? 0 : index));
      for (const ignoreZeros of [false, true]) {
        const winsorization = { lowerPercentile: 0.3, upperPercentile: 0.85, ignoreZeros };
        const bounds = winsorBounds(values, winsorization);
        const cut = values.filter((_, index) => index % 2 === 1).map((v) => winsorize(v, bounds));
        const [, test] = await measure(mean(price("sum"), { winsorization }));
        expect(test?.n).toBe(10);
        expect(test?.sum).toBeCloseTo(sumOf(cut), 9);
        expect(test?.sumSquares).toBeCloseTo(sumOf(cut.map((v) => v * v)), 9);
      }
    });

    it("[XR-7] gives every declared variant in order, with zeros where nobody is", async () => {
      await save([call(PERSON_A, "test")]);
      const variants = ["test", "control"];
      const steps = [event("bought"), event("paid")];
      const base = { goal: "increase", conversionWindowMs: null } as const;
      const metric: Metric = { ...base, kind: "funnel", steps, order: "ordered" };
      expect((await measureOne(metric, { variants })).arms).toEqual([
        { variant: "test", sums: { n: 1, sum: 0 }, stepCounts: [0, 0] },
        { variant: "control", sums: { n: 0, sum: 0 }, stepCounts: [0, 0] },
      ]);
    });

    it("[XM-4] finds each arm's quantile of the units' numbers, with the places around it", async () => {
      const members = Array.from({ length: 60 }, (_, index) => personNumber(index));
      await save(
        members.flatMap((member, index) => [
          call(member, index % 2 ? "test" : "control"),
          ...(index < 10 ? [] : [buy(member, 1, { price: (index * 37) % 61 })]),
        ]),
      );
      const source = { events: event("bought"), measure: price("sum") };
      const quantile = (ignoresZeros: boolean): Metric => ({
        kind: "quantile",
        goal: "increase",
        conversionWindowMs: null,
        source,
        quantile: 0.75,
        ignoresZeros,
      });
      for (const ignoresZeros of [false, true]) {
        const values = members
          .map((_, index) => (index < 10 ? 0 : (index * 37) % 61))
          .filter((value, index) => index % 2 === 1 && !(ignoresZeros && value === 0))
          .sort((left, right) => left - right);
        const n = values.length;
        const { rank, lower, upper } = quantileRanks(n, 0.75, 0.05);
        const value = (place: number) => values[place - 1];
        const [control, test] = (await measureOne(quantile(ignoresZeros))).arms;
        expect(test).toMatchObject({
          sums: { n, sum: sumOf(values) },
          quantile: {
            n,
            sampled: n,
            nu: 0.75,
            value: value(rank),
            lower: value(lower),
            upper: value(upper),
          },
        });
        expect(control?.quantile?.n).toBe(ignoresZeros ? 25 : 30);
      }
      const nobody = await measureOne(quantile(false), { variants: ["control", "test", "spare"] });
      expect(nobody.arms[2]).toEqual({
        variant: "spare",
        sums: { n: 0, sum: 0, sumSquares: 0 },
        stepCounts: null,
      });
    });

    it("[XM-5] counts values that are no finite numbers, and texts of numbers", async () => {
      const odd = ["x", "inf", "NaN", "1e999", true, [1], { a: 1 }, ""];
      await save([
        call(PERSON_A, "test"),
        call(PERSON_B, "control"),
        ...odd.map((value) => buy(PERSON_A, 1, { price: value as Json })),
        buy(PERSON_A, 1, { price: null }),
        buy(PERSON_A, 1, {}),
        buy(PERSON_A, 1, { price: "2.5" }),
        buy(PERSON_B, 1, { price: "1", ...long }),
        buy(PERSON_B, 1, { price: "?", half: "\ud800" }),
        buy(PERSON_B, 1, { price: 3 }),
        buy(PERSON_C, 1, { price: "x" }),
      ]);
      for (const kind of ["sum", "max", "avg"] as const)
        expect(await measureOne(mean(price(kind)))).toMatchObject({
          notNumbers: odd.length + 1,
          textNumbers: 2,
        });
      const none = { notNumbers: 0, textNumbers: 0 };
      expect(await measureOne(mean({ kind: "total" }))).toMatchObject(none);
      expect(await measureOne(mean(price("unique-values")))).toMatchObject(none);
      const ratio: Metric = {
        kind: "ratio",
        goal: "increase",
        conversionWindowMs: null,
        numerator: { events: event("bought"), measure: price("sum") },
        denominator: { events: event("bought"), measure: price("max") },
      };
      expect(await measureOne(ratio)).toMatchObject({ notNumbers: 2 * (odd.length + 1) });
    });

    it("[XM-5] takes values whose sums are beyond all numbers without a fault", async () => {
      await save([
        call(PERSON_A, "test"),
        call(PERSON_B, "test"),
        call(PERSON_C, "control"),
        buy(PERSON_A, 1, { price: 1e308 }),
        buy(PERSON_A, 1, { price: 1e308 }),
        buy(PERSON_B, 1, { price: -1e300 }),
      ]);
      const { arms } = await measureOne(mean(price("sum")), {}, { byDay: true, lookbackMs: DAY });
      expect(Number.isFinite(arms[1]?.sums.sumSquares)).toBe(false);
      const winsorization = { lowerPercentile: 0, upperPercentile: 1, ignoreZeros: false };
      const cut = await measureOne(mean(price("max"), { winsorization }), {}, { byDay: true });
      expect(cut.bounds).toEqual({ lower: -1e300, upper: 1e308 });
      expect(cut.arms[1]?.sums.sum).toBe(1e308 - 1e300);
      expect(arms[0]?.sums).toMatchObject({ n: 1, sum: 0, sumSquares: 0 });
    });

    it("[XM-6] tells where values were cut", async () => {
      await save([
        call(PERSON_A, "test"),
        call(PERSON_B, "control"),
        buy(PERSON_A, 1, { price: 10 }),
      ]);
      const winsorization = { lowerPercentile: null, upperPercentile: 0.5, ignoreZeros: false };
      const measured = await measureOne(mean(price("sum"), { winsorization }));
      expect(measured.bounds).toEqual({ lower: null, upper: 5 });
      expect(measured.arms[1]?.sums.sum).toBe(5);
      expect((await measureOne(mean(price("sum")))).bounds).toBeNull();
    });

    it("[XM-7] puts all but the 25 most frequent values of a breakdown into one cell", async () => {
      const members = Array.from({ length: 60 }, (_, index) => personNumber(index));
      await save(
        members.map((member, index) =>
          call(member, index % 2 ? "test" : "control", 0, {
            properties: {
              $feature_flag: "button",
              $feature_flag_response: index % 2 ? "test" : "control",
              // Value n is that of two persons up to 25, and of one from then on.
              plan: `plan-${String(index < 50 ? index >> 1 : index).padStart(2, "0")}`,
            },
          }),
        ),
      );
      const { cells } = await measureOne(mean({ kind: "total" }), {}, { breakdown: "plan" });
      expect(cells.map(({ value, isRest }) => (isRest ? "rest" : value))).toEqual([
        ...Array.from({ length: 25 }, (_, index) => `plan-${String(index).padStart(2, "0")}`),
        "rest",
      ]);
      expect(cells.at(-1)?.arms.map(({ sums }) => sums.n)).toEqual([5, 5]);
    });

    it("[XM-8] changes its version with whatever is stored, deleted or given to others", async () => {
      const versions = [await store.dataVersion()];
      await save([call(PERSON_A, "test")]);
      versions.push(await store.dataVersion());
      await store.reassign(1, [], end);
      versions.push(await store.dataVersion());
      await store.deleteEventsOf(1, [PERSON_A], end);
      versions.push(await store.dataVersion(), await store.dataVersion());
      expect(new Set(versions).size).toBe(4);
      expect(versions[3]).toBe(versions[4]);
    });

    const persons = [0, 1, 2, 3, 4, 5].map(personNumber);
    const person = fc.constantFrom(...persons);
    const happening = fc.record({
      name: fc.constantFrom("$feature_flag_called", "$feature_flag_called", "bought", "paid"),
      minute: fc.integer({ min: -6, max: 24 }),
      person,
      group: fc.constantFrom(undefined, "g1", "g2", "g3"),
      properties: fc.record({
        $feature_flag: fc.constantFrom("button", "button", "button", "other"),
        $feature_flag_response: fc.constantFrom("control", "test", "test", "holdout-1", true),
        "$feature/button": fc.constantFrom("control", "test", "x"),
        price: fc.constantFrom(1, 2, 5, "3", "x", 0.25, null),
        kind: fc.constantFrom("a", "b", 7, null),
        $session_id: fc.constantFrom("s1", "s2", "s3"),
      }),
    }) as fc.Arbitrary<Happening>;
    const window = fc.constantFrom(null, 4 * MINUTE, 10 * MINUTE);
    const filters = fc.constantFrom({}, {}, { kind: "a" });
    const kind = fc
      .tuple(fc.constantFrom("bought", "paid", null), filters)
      .map(([name, where]) => event(name, where));
    const source = fc.record({
      events: fc.oneof(
        kind,
        kind,
        fc.tuple(kind, kind).map(([first, other]) => ({ ...first, or: [other] })),
      ),
      measure: fc.constantFrom<Measure>(
        { kind: "total" },
        { kind: "active" },
        { kind: "unique-sessions" },
        ...(["sum", "avg", "min", "max", "unique-values"] as const).map(price),
      ),
    });
    const base = { goal: fc.constant("increase" as const), conversionWindowMs: window };
    const winsorization = fc.constantFrom(
      null,
      null,
      { lowerPercentile: null, upperPercentile: 0.8, ignoreZeros: true },
      { lowerPercentile: 0.4, upperPercentile: 0.9, ignoreZeros: false },
    );
    const exclusion = fc.record({
      events: source.map(({ events }) => events),
      from: fc.constant(0),
      to: fc.constant(1),
    });
    const metrics = fc.oneof(
      fc.record({ ...base, kind: fc.constant("mean"), source, winsorization }),
      fc.record({ ...base, kind: fc.constant("ratio"), numerator: source, denominator: source }),
      fc
        .record({
          ...base,
          kind: fc.constant("funnel"),
          steps: fc.array(
            source.map(({ events }) => events),
            { minLength: 1, maxLength: 3 },
          ),
          order: fc.constantFrom("ordered", "unordered"),
          exclusions: fc.array(exclusion, { maxLength: 1 }),
        })
        .map((metric) => (metric.order === "ordered" ? metric : { ...metric, exclusions: [] })),
      fc.record({
        ...base,
        kind: fc.constant("retention"),
        start: source.map(({ events }) => events),
        completion: source.map(({ events }) => events),
        windowStart: fc.integer({ min: 0, max: 3 }),
        windowEnd: fc.integer({ min: 3, max: 9 }),
        unit: fc.constant("minute"),
        startHandling: fc.constantFrom("first_seen", "last_seen"),
      }),
    ) as fc.Arbitrary<Metric>;
    const queries = fc.record({
      severalVariants: fc.constantFrom("exclude" as const, "first-seen" as const),
      groupTypeIndex: fc.constantFrom(null, null, 1),
      marker: fc.constantFrom(null, null, event("bought"), event("bought", { kind: "a" })),
      everyEvent: fc.constantFrom([], [], event(null, { $session_id: "s1" }).filters),
      exceptPersons: fc.constantFrom([], [], [personNumber(0), personNumber(3)]),
    });
    const allOptions = fc.record({
      lookbackMs: fc.constantFrom(null, 3 * MINUTE),
      breakdown: fc.constantFrom(null, "kind"),
      byDay: fc.boolean(),
      level: fc.constant(0.95),
    });
    const merges = fc.array(
      fc.tuple(person, person).filter(([a, b]) => a !== b),
      { maxLength: 2 },
    );
    const days = [0, 6, 9, 15].map((minute) => ({ day: `m${minute}`, from: at(minute) }));
    /** Measures random events under random questions, and compares what `pick` takes. */
    const equalsByHand = async (
      asks: fc.Arbitrary<MeasureOptions>,
      pick: (measured: Pick<Measured, "arms" | "cells" | "days">) => unknown,
    ) => {
      const several = fc.array(metrics, { minLength: 1, maxLength: 4 });
      const cases = fc.array(fc.tuple(queries, several, asks), { minLength: 2, maxLength: 3 });
      await fc.assert(
        fc
          .asyncProperty(
            fc.array(happening, { maxLength: 60 }),
            merges,
            cases,
            async (happenings, merged, asked) => {
              await save(happenings, merged);
              for (const [part, wanted, options] of asked) {
                const query = { ...QUERY, ...part, from: at(0), to: at(20), days };
                const expected = wanted.map((metric) =>
                  pick(measureByHand(happenings, merged, { query, metric, options })),
                );
                const measured = await store.measure(query, wanted, options);
                expect(measured.map(pick)).toEqual(expected);
              }
            },
          )
          .beforeEach(async () => {
            await store.close();
            remove();
            ({ store, remove } = await create());
            end = 0;
          }),
        { numRuns: 30 },
      );
    };

    it("[XR-8] equals a count by hand of random events, for every kind of metric", async () => {
      await equalsByHand(fc.constant(PLAIN), ({ arms }) => arms);
    });

    it("[XM-1] equals a count by hand with covariates, by cell and by day", async () => {
      await equalsByHand(allOptions, ({ arms, cells, days: byDay }) => ({ arms, cells, byDay }));
    });

    /** The same from lists alone, one unit after another. */
    function measureByHand(
      happenings: readonly Happening[],
      merged: readonly (readonly [string, string])[],
      { query, metric, options }: { query: ExposureQuery; metric: Metric; options: MeasureOptions },
    ): Pick<Measured, "arms" | "cells" | "days"> {
      const into = new Map<string, string>();
      for (const [from, to] of merged) {
        for (const [earlier, survivor] of into) if (survivor === from) into.set(earlier, to);
        into.delete(to);
        into.set(from, to);
      }
      const follow = (id: string): string => into.get(id) ?? id;
      const units = new Map<string, Happening[]>();
      const is = (measured: MeasuredEvent, one: Happening): boolean =>
        ((measured.event === null || one.name === measured.event) &&
          measured.filters.every(({ key, value }) => one.properties?.[key] === value)) ||
        (measured.or ?? []).some((other) => is(other, one));
      for (const one of happenings) {
        const unit = query.groupTypeIndex === null ? follow(one.person ?? "") : one.group;
        if (unit === undefined || one.minute >= 20) continue;
        if (!is({ event: null, filters: query.everyEvent }, one)) continue;
        if (query.exceptPersons.includes(follow(one.person ?? ""))) continue;
        units.set(unit, [...(units.get(unit) ?? []), one]);
      }
      const variantOf = (one: Happening): string | undefined => {
        const {
          $feature_flag,
          $feature_flag_response,
          "$feature/button": carried,
        } = one.properties ?? {};
        const isCall = one.name === "$feature_flag_called" && $feature_flag === "button";
        const marks = query.marker === null ? isCall : is(query.marker, one);
        const variant = query.marker === null ? $feature_flag_response : carried;
        const isArm = ["control", "test", "holdout-1"].includes(String(variant));
        return marks && isArm ? String(variant) : undefined;
      };
      interface Member {
        readonly variant: string;
        readonly exposureMinute: number;
        readonly cell: string | null;
        readonly all: readonly Happening[];
      }
      const members: Member[] = [];
      for (const all of units.values()) {
        const marked = all
          .filter((one) => one.minute >= 0 && variantOf(one) !== undefined)
          .toSorted((a, b) => a.minute - b.minute);
        const several = new Set(marked.map(variantOf)).size > 1;
        // The sort is stable: of calls at one time the one stored first.
        const [first] = marked;
        if (!first || (several && query.severalVariants === "exclude")) continue;
        const cell = first.properties?.kind ?? null;
        members.push({
          variant: variantOf(first) ?? "",
          exposureMinute: first.minute,
          cell: cell === null ? null : String(cell),
          all,
        });
      }
      const declared = members.filter(({ variant }) => query.variants.includes(variant));
      const windowMinutes = (metric.conversionWindowMs ?? Number.POSITIVE_INFINITY) / MINUTE;
      const lookbackMinutes = (options.lookbackMs ?? 0) / MINUTE;
      const numberOf = (
        { events, measure: how }: { events: MeasuredEvent; measure: Measure },
        counted: readonly Happening[],
      ): number => {
        const own = counted.filter((one) => is(events, one));
        const numbers = own.flatMap(({ properties = {} }) => {
          const { price: value } = properties;
          return value === null || value === "x" ? [] : [Number(value)];
        });
        switch (how.kind) {
          case "total":
            return own.length;
          case "active":
            return Math.min(1, own.length);
          case "unique-sessions":
            return new Set(own.map(({ properties }) => properties?.$session_id)).size;
          case "sum":
            return sumOf(numbers);
          case "avg":
            return numbers.length === 0 ? 0 : sumOf(numbers) / numbers.length;
          case "min":
            return numbers.length === 0 ? 0 : Math.min(...numbers);
          case "max":
            return numbers.length === 0 ? 0 : Math.max(...numbers);
          case "unique-values": {
            const values = own.map(({ properties }) => properties?.price ?? null);
            return new Set(values.filter((value) => value !== null).map(String)).size;
          }
        }
      };
      const after = ({ exposureMinute, all }: Member) =>
        all.filter(
          ({ minute }) => minute >= exposureMinute && minute < exposureMinute + windowMinutes,
        );
      const before = ({ exposureMinute, all }: Member) =>
        all.filter(
          ({ minute }) => minute < exposureMinute && minute >= exposureMinute - lookbackMinutes,
        );
      /** The numbers of a unit: its own, then its covariates. */
      const numbersOf = (member: Member, until: number): readonly number[] => {
        if (metric.kind !== "mean" && metric.kind !== "ratio") return [];
        const sources =
          metric.kind === "ratio" ? [metric.numerator, metric.denominator] : [metric.source];
        const own = after(member).filter(({ minute }) => minute < until);
        return [
          ...sources.map((one) => numberOf(one, own)),
          ...(options.lookbackMs === null
            ? []
            : sources.map((one) => numberOf(one, before(member)))),
        ];
      };
      const winsor = metric.kind === "mean" ? metric.winsorization : null;
      const all = declared.map((member) => numbersOf(member, 1000));
      const bounds = (all[0] ?? []).map((_, place) => {
        const values = all.map((numbers) => numbers[place] ?? 0);
        const { lowerPercentile: lower, upperPercentile: upper } = winsor ?? {};
        return winsorBounds(values, {
          ignoreZeros: winsor?.ignoreZeros ?? false,
          ...(typeof lower === "number" && { lowerPercentile: lower }),
          ...(typeof upper === "number" && { upperPercentile: upper }),
        });
      });
      const cut = (numbers: readonly number[]) =>
        numbers.map((value, place) => {
          const bound = bounds[place];
          return bound ? winsorize(value, bound) : value;
        });
      const close = (value: number) => expect.closeTo(value, 9) as unknown as number;
      const armOf = (variant: string, among: readonly Member[], until = 1000): ArmMeasure => {
        const own = among.filter(
          (member) => member.variant === variant && member.exposureMinute < until,
        );
        const n = own.length;
        const events = (member: Member, steps: readonly ((one: Happening) => boolean)[]) =>
          member.all
            .filter(({ minute }) => minute >= member.exposureMinute && minute < until)
            .map((one) => ({
              at: one.minute * MINUTE,
              steps: steps.flatMap((matches, index) => (matches(one) ? [index] : [])),
            }))
            .filter(({ steps: found }) => found.length > 0);
        switch (metric.kind) {
          case "mean":
          case "ratio": {
            const rows = own.map((member) => cut(numbersOf(member, until)));
            const total = (of: (numbers: readonly number[]) => number) =>
              close(sumOf(rows.map(of)));
            const of = (place: number) => total((row) => row[place] ?? 0);
            const product = (a: number, b: number) => total((row) => (row[a] ?? 0) * (row[b] ?? 0));
            const isRatio = metric.kind === "ratio";
            const covariates = options.lookbackMs === null ? [] : isRatio ? [2, 3] : [1];
            const sums = {
              n,
              sum: of(0),
              sumSquares: product(0, 0),
              ...(isRatio && {
                denominator: { sum: of(1), sumSquares: product(1, 1), withMain: product(0, 1) },
              }),
              ...(covariates.length > 0 && {
                covariates: {
                  sums: covariates.map(of),
                  products: covariates.map((a) => covariates.map((b) => product(a, b))),
                  withMain: covariates.map((a) => product(0, a)),
                  ...(isRatio && { withDenominator: covariates.map((a) => product(1, a)) }),
                },
              }),
            };
            return { variant, sums, stepCounts: null };
          }
          case "quantile":
            throw new Error("quantiles are not counted by hand");
          case "funnel": {
            const exclusions = metric.exclusions ?? [];
            const reached = own.map((member) =>
              stepsReached(
                events(member, [
                  (one) => variantOf(one) === variant,
                  ...metric.steps.map((step) => (one: Happening) => is(step, one)),
                  ...exclusions.map((one) => (other: Happening) => is(one.events, other)),
                ]),
                metric,
              ),
            );
            const stepCounts = metric.steps.map((_, i) => reached.filter((r) => r > i).length);
            return { variant, sums: { n, sum: stepCounts.at(-1) ?? 0 }, stepCounts };
          }
          case "retention": {
            const outcomes = own.map((member) =>
              retentionOfUnit(
                events(member, [
                  (one) => is(metric.start, one),
                  (one) => is(metric.completion, one),
                ]),
                member.exposureMinute * MINUTE,
                { metric, zone: query.zone },
              ),
            );
            const started = outcomes.filter((outcome) => outcome.started).length;
            const retained = outcomes.filter((outcome) => outcome.retained).length;
            const denominator = { sum: started, sumSquares: started, withMain: retained };
            const sums = { n: started, sum: retained, sumSquares: retained, denominator };
            return { variant, sums, stepCounts: null };
          }
        }
      };
      const armsOf = (among: readonly Member[], until?: number) =>
        query.variants.map((variant) => armOf(variant, among, until));
      const sizes = new Map<string | null, number>();
      for (const { cell } of declared) sizes.set(cell, (sizes.get(cell) ?? 0) + 1);
      const values = [...sizes].sort(
        ([a, many], [b, others]) =>
          others - many || (a === null ? -1 : b === null ? 1 : a < b ? -1 : 1),
      );
      const ends = [...query.days.slice(1).map(({ from }) => minuteOf(from)), 1000];
      return {
        arms: armsOf(declared),
        cells:
          options.breakdown === null
            ? []
            : values.map(([value]) => ({
                value,
                isRest: false,
                arms: armsOf(declared.filter(({ cell }) => cell === value)),
              })),
        days: options.byDay
          ? query.days.map(({ day }, index) => ({ day, arms: armsOf(declared, ends[index]) }))
          : [],
      };
    }
  });
}

function minuteOf(instant: Date): number {
  return (instant.getTime() - START) / MINUTE;
}

function personNumber(index: number): string {
  return `aaaaaaaa-0000-5000-8000-${String(index).padStart(12, "0")}`;
}

function sumOf(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0);
}
