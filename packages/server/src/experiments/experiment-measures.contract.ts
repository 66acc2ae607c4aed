import { retentionOfUnit, stepsReached } from "@hedgerow/core/experiments/measure-unit";
import type {
  Measure,
  MeasuredEvent,
  MeasuredProperty,
  Metric,
} from "@hedgerow/core/experiments/metric";
import type { Json, JsonObject } from "@hedgerow/core/json";
import { winsorBounds, winsorize } from "@hedgerow/core/statistics/winsorize";
import fc from "fast-check";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { PERSON_A, PERSON_B, PERSON_C, sampleRow } from "../events/event-store.contract.ts";
import type { EventRow, EventStore } from "../events/event-store.ts";
import type {
  ArmMeasure,
  ExperimentMeasures,
  ExposureQuery,
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
  marker: null,
  severalVariants: "exclude",
  everyEvent: [],
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

    it("[XR-8] equals a count by hand of random events, for every kind of metric", async () => {
      const persons = [0, 1, 2, 3, 4, 5].map(personNumber);
      const person = fc.constantFrom(...persons);
      const happening = fc.record({
        name: fc.constantFrom("$feature_flag_called", "$feature_flag_called", "bought", "paid"),
        minute: fc.integer({ min: -3, max: 24 }),
        person,
        group: fc.constantFrom(undefined, "g1", "g2", "g3"),
        properties: fc.record({
          $feature_flag: fc.constantFrom("button", "button", "button", "other"),
          $feature_flag_response: fc.constantFrom("control", "test", "test", "holdout-1", true),
          "$feature/button": fc.constantFrom("control", "test", "x"),
          price: fc.constantFrom(1, 2, 5, "3", "x", 0.25, null),
          kind: fc.constantFrom("a", "b"),
          $session_id: fc.constantFrom("s1", "s2", "s3"),
        }),
      });
      const window = fc.constantFrom(null, 4 * MINUTE, 10 * MINUTE);
      const filters = fc.constantFrom({}, {}, { kind: "a" });
      const source = fc.record({
        events: fc
          .tuple(fc.constantFrom("bought", "paid", null), filters)
          .map(([name, where]) => event(name, where)),
        measure: fc.constantFrom<Measure>(
          { kind: "total" },
          { kind: "active" },
          { kind: "unique-sessions" },
          ...(["sum", "avg", "min", "max", "unique-values"] as const).map(price),
        ),
      });
      const base = { goal: fc.constant("increase" as const), conversionWindowMs: window };
      const metrics = fc.oneof(
        fc.record({ ...base, kind: fc.constant("mean"), source, winsorization: fc.constant(null) }),
        fc.record({ ...base, kind: fc.constant("ratio"), numerator: source, denominator: source }),
        fc.record({
          ...base,
          kind: fc.constant("funnel"),
          steps: fc.array(
            source.map(({ events }) => events),
            { minLength: 1, maxLength: 3 },
          ),
          order: fc.constantFrom("ordered", "unordered"),
        }),
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
      });
      const merges = fc.array(
        fc.tuple(person, person).filter(([a, b]) => a !== b),
        { maxLength: 2 },
      );
      const several = fc.array(metrics, { minLength: 1, maxLength: 5 });
      const cases = fc.array(fc.tuple(queries, several), { minLength: 2, maxLength: 3 });
      await fc.assert(
        fc
          .asyncProperty(
            fc.array(happening, { maxLength: 60 }),
            merges,
            cases,
            async (happenings, merged, asked) => {
              await save(happenings as readonly Happening[], merged);
              for (const [part, metrics] of asked) {
                const query = { ...QUERY, ...part, from: at(0), to: at(20) };
                const expected = metrics.map((metric) =>
                  measureByHand(happenings as readonly Happening[], merged, query, metric),
                );
                const measured = await store.measure(query, metrics, PLAIN);
                expect(measured.map(({ arms }) => arms)).toEqual(expected);
              }
            },
          )
          .beforeEach(async () => {
            await store.close();
            remove();
            ({ store, remove } = await create());
            end = 0;
          }),
        { numRuns: 40 },
      );
    }, 120_000);

    /** The same from lists alone, one unit after another. */
    function measureByHand(
      happenings: readonly Happening[],
      merges: readonly (readonly [string, string])[],
      query: ExposureQuery,
      metric: Metric,
    ): readonly ArmMeasure[] {
      const into = new Map<string, string>();
      for (const [from, to] of merges) {
        for (const [earlier, survivor] of into) if (survivor === from) into.set(earlier, to);
        into.delete(to);
        into.set(from, to);
      }
      const follow = (id: string): string => into.get(id) ?? id;
      const units = new Map<string, Happening[]>();
      for (const one of happenings) {
        const unit = query.groupTypeIndex === null ? follow(one.person ?? "") : one.group;
        if (unit === undefined || one.minute < 0 || one.minute >= 20) continue;
        units.set(unit, [...(units.get(unit) ?? []), one]);
      }
      const is = ({ event: name, filters }: MeasuredEvent, one: Happening) =>
        (name === null || one.name === name) &&
        filters.every(({ key, value }) => one.properties?.[key] === value);
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
      const arms = new Map<string, { exposureMs: number; all: Happening[] }[]>();
      for (const all of units.values()) {
        const marked = all
          .filter((one) => variantOf(one) !== undefined)
          .toSorted((a, b) => a.minute - b.minute);
        const several = new Set(marked.map(variantOf)).size > 1;
        // The sort is stable: of calls at one time the one stored first.
        const [first] = marked;
        if (!first || (several && query.severalVariants === "exclude")) continue;
        const variant = variantOf(first) ?? "";
        arms.set(variant, [...(arms.get(variant) ?? []), { exposureMs: first.minute, all }]);
      }
      const windowMinutes = (metric.conversionWindowMs ?? Number.POSITIVE_INFINITY) / MINUTE;
      const valueByHand = (
        { events, measure: how }: { events: MeasuredEvent; measure: Measure },
        exposureMinute: number,
        all: readonly Happening[],
      ): number => {
        const counted = all.filter(
          (one) =>
            is(events, one) &&
            one.minute >= exposureMinute &&
            one.minute < exposureMinute + windowMinutes,
        );
        const numbers = counted.flatMap(({ properties = {} }) => {
          const { price } = properties;
          return price === null || price === "x" ? [] : [Number(price)];
        });
        switch (how.kind) {
          case "total":
            return counted.length;
          case "active":
            return Math.min(1, counted.length);
          case "unique-sessions":
            return new Set(counted.map(({ properties }) => properties?.$session_id)).size;
          case "sum":
            return sumOf(numbers);
          case "avg":
            return numbers.length === 0 ? 0 : sumOf(numbers) / numbers.length;
          case "min":
            return numbers.length === 0 ? 0 : Math.min(...numbers);
          case "max":
            return numbers.length === 0 ? 0 : Math.max(...numbers);
          case "unique-values": {
            const values = counted.map(({ properties }) => properties?.price ?? null);
            return new Set(values.filter((value) => value !== null).map(String)).size;
          }
        }
      };
      const close = (value: number) => expect.closeTo(value, 9) as unknown as number;
      const armOf = (variant: string): ArmMeasure => {
        const members = arms.get(variant) ?? [];
        const n = members.length;
        const events = (
          exposureMinute: number,
          all: readonly Happening[],
          steps: readonly ((one: Happening) => boolean)[],
        ) =>
          all
            .filter(({ minute }) => minute >= exposureMinute)
            .map((one) => ({
              at: one.minute * MINUTE,
              steps: steps.flatMap((matches, index) => (matches(one) ? [index] : [])),
            }))
            .filter(({ steps }) => steps.length > 0);
        switch (metric.kind) {
          case "mean": {
            const values = members.map((m) => valueByHand(metric.source, m.exposureMs, m.all));
            const sumSquares = close(sumOf(values.map((v) => v * v)));
            return {
              variant,
              sums: { n, sum: close(sumOf(values)), sumSquares },
              stepCounts: null,
            };
          }
          case "ratio": {
            const pairs = members.map((m) => ({
              y: valueByHand(metric.numerator, m.exposureMs, m.all),
              d: valueByHand(metric.denominator, m.exposureMs, m.all),
            }));
            const total = (of: (pair: { y: number; d: number }) => number) =>
              close(sumOf(pairs.map(of)));
            const denominator = {
              sum: total(({ d }) => d),
              sumSquares: total(({ d }) => d * d),
              withMain: total(({ y, d }) => y * d),
            };
            const sums = { n, sum: total(({ y }) => y), sumSquares: total(({ y }) => y * y) };
            return { variant, sums: { ...sums, denominator }, stepCounts: null };
          }
          case "quantile":
            throw new Error("quantiles are not counted by hand");
          case "funnel": {
            const reached = members.map((m) =>
              stepsReached(
                events(m.exposureMs, m.all, [
                  (one) => variantOf(one) === variant,
                  ...metric.steps.map((step) => (one: Happening) => is(step, one)),
                ]),
                metric,
              ),
            );
            const stepCounts = metric.steps.map((_, i) => reached.filter((r) => r > i).length);
            return { variant, sums: { n, sum: stepCounts.at(-1) ?? 0 }, stepCounts };
          }
          case "retention": {
            const outcomes = members.map((m) =>
              retentionOfUnit(
                events(m.exposureMs, m.all, [
                  (one) => is(metric.start, one),
                  (one) => is(metric.completion, one),
                ]),
                m.exposureMs * MINUTE,
                metric,
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
      return query.variants.map(armOf);
    }
  });
}

function personNumber(index: number): string {
  return `aaaaaaaa-0000-5000-8000-${String(index).padStart(12, "0")}`;
}

function sumOf(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0);
}
