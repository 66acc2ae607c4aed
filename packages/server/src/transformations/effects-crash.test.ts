import { describe, expect, it } from "vitest";
import { decodeJson } from "../engines/sql/codec.ts";
import { temporaryPipeline } from "../events/pipeline.setup.ts";
import { runUntilKilled } from "../events/run-until-killed.setup.ts";
import { transformationsPipeline } from "./at-work.setup.ts";
import type { DeadlyCall } from "./effects-process.setup.ts";

/** More of them take minutes: set the variable to 20 before a release. */
const ROUNDS = Number(process.env.HEDGEROW_CRASH_ROUNDS ?? 3);

/** How a process dies: some time after its first acknowledgement, or after a call by itself. */
type Death = { readonly afterMs: number } | readonly [after: DeadlyCall, at: number];

/** Numbers its events by a counter in its storage, in turns, asks for a job for each, counts and captures another. */
const NUMBERS = `export const jobs = { later() {} };
  export const metrics = { numbered: "sum" };
  let turn = Promise.resolve();
  export function processEvent(event, meta) {
    if (event.event === "numbered") return event;
    const mine = turn.then(async () => {
      const n = (await meta.storage.get("n", 0)) + 1;
      await meta.storage.set("n", n);
      if (n % 2 === 0) await meta.storage.set("even", n);
      else await meta.storage.del("even");
      await meta.jobs.later({ n, uuid: event.uuid }).runIn(50, "weeks");
      meta.metrics.numbered.increment(1);
      event.properties.n = n;
      posthog.capture("numbered", { of: n });
      return n % 13 === 0 ? null : event;
    });
    turn = mine.catch(() => {});
    return mine;
  }`;

/** Fails with every seventh numbered event. */
const FAILS = `export function processEvent(event) {
    if (event.properties.n % 7 === 0) throw new Error("it is the seventh");
    return event;
  }`;
const LAST = "export function processEvent(event) { return event }";

/** Answers how many events were acknowledged. */
async function captureUntilKilled(
  folder: string,
  projectId: number,
  death: Death,
): Promise<number> {
  const script = new URL("./effects-process.setup.ts", import.meta.url);
  const own = "afterMs" in death ? [] : death.map(String);
  const afterMs = "afterMs" in death ? death.afterMs : undefined;
  return runUntilKilled(script, [folder, String(projectId), ...own], afterMs);
}

/** Lets one process after the other die in its own way, and looks at what is stored then. */
async function expectExactlyTogether(deaths: readonly Death[]): Promise<void> {
  const first = temporaryPipeline();
  const { folder } = first;
  const before = await transformationsPipeline({ pipeline: first });
  const projectId = await before.newProject();
  const config = await before.enable(projectId, "Numbers", NUMBERS, { order: 1 });
  const fails = await before.enable(projectId, "Fails", FAILS, { order: 2 });
  const last = await before.enable(projectId, "Last", LAST, { order: 3 });
  await before.stop();
  await first.closeStores();

  let acknowledged = 0;
  for (const death of deaths) acknowledged += await captureUntilKilled(folder, projectId, death);

  const pipeline = temporaryPipeline(folder);
  const run = await transformationsPipeline({ pipeline, maxJobs: Number.MAX_SAFE_INTEGER });
  await run.settle();
  await run.work.flush();
  const { database } = await pipeline.openStores();
  const rows = await database.reads.selectFrom("transformation_jobs").select("payload").execute();
  const jobs = rows.map(({ payload }) => decodeJson<{ n: number; uuid: string }>(payload));
  // Each event that has left its lane has a number of its own, and one job with it.
  const numbers = jobs.map(({ n }) => n).toSorted((a, b) => a - b);
  expect(new Set(numbers).size).toBe(numbers.length);
  expect(numbers.length).toBeGreaterThanOrEqual(acknowledged);
  const numberOf = new Map(jobs.map(({ n, uuid }) => [uuid, n]));
  expect(numberOf.size).toBe(numbers.length);
  const ref = { projectId, configId: config.id };
  expect(await run.storage.get(ref, "n")).toBe(numbers.at(-1));
  const even = (numbers.at(-1) ?? 0) % 2 === 0 ? numbers.at(-1) : undefined;
  expect(await run.storage.get(ref, "even")).toBe(even);
  let stored = 0;
  const captured: unknown[] = [];
  for (let offset = 0; ; offset += 1_000) {
    const query = { projectId, limit: 1_000, offset, order: "oldest-first" } as const;
    const { events, hasMore } = await run.events.events(query);
    for (const { uuid, event, properties } of events) {
      if (event === "numbered") {
        captured.push(properties.of);
        continue;
      }
      stored++;
      expect(properties.n).toBe(numberOf.get(uuid));
      expect(properties.n).not.toBe(undefined);
    }
    if (!hasMore) break;
  }
  expect(stored).toBe(numbers.filter((n) => n % 13 !== 0).length);
  expect(captured.map(Number).toSorted((a, b) => a - b)).toEqual(numbers);
  // Each event counts once in each that it was given to, and so does how long it took.
  const passed = 2 * numbers.length;
  const dropped = numbers.length - stored;
  const failed = numbers.filter((n) => n % 13 !== 0 && n % 7 === 0).length;
  const left = passed - dropped;
  const countsOf = async ({ id }: { id: number }) => ({
    ...(await run.counts(projectId, id)),
    ...(await run.alsoCounted(projectId, id)),
  });
  expect(await countsOf(config)).toEqual({
    ...{ eventsIn: passed, eventsOut: left, dropped, failed: 0 },
    ...{ durations: passed, own: { numbered: numbers.length } },
  });
  const onTheirWay = { eventsIn: left, eventsOut: left, dropped: 0, durations: left, own: {} };
  expect(await countsOf(fails)).toEqual({ ...onTheirWay, failed });
  expect(await countsOf(last)).toEqual({ ...onTheirWay, failed: 0 });
  expect(run.faults).toEqual([]);
  await run.close();
}

describe("a process killed while transformations store and ask for jobs", () => {
  it(
    "[TP-54] [TP-66] has stored, asked for and counted exactly what the events have that left their lane, at random moments",
    () =>
      expectExactlyTogether(
        Array.from({ length: ROUNDS }, () => ({ afterMs: 20 + Math.random() * 1_000 })),
      ),
    60_000 + ROUNDS * 20_000,
  );

  it(
    "[TP-54] [TP-66] has so when nobody heard of a commit, in the log or in the store",
    () =>
      expectExactlyTogether([
        ["pass", 2],
        ["take", 2],
        ["forgetEffects", 3],
      ]),
    180_000,
  );
});
