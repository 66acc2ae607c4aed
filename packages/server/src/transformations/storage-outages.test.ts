import { afterEach, beforeEach, expect, it } from "vitest";
import { sampleEvent } from "../events/event-log.contract.ts";
import { StoreUnavailable } from "../platform/store-unavailable.ts";
import { transformationsPipeline } from "./at-work.setup.ts";

let run: Awaited<ReturnType<typeof transformationsPipeline>>;
let projectId: number;
const outage = { isOn: false, refused: 0 };

beforeEach(async () => {
  outage.isOn = false;
  const answer = <Result>(asked: () => Promise<Result>): Promise<Result> => {
    if (!outage.isOn) return asked();
    outage.refused++;
    return Promise.reject(new StoreUnavailable("the metadata database is out of order"));
  };
  run = await transformationsPipeline({
    storageOf: (storage) => ({
      ...storage,
      get: (config, key) => answer(() => storage.get(config, key)),
      usage: (config) => answer(() => storage.usage(config)),
    }),
  });
  projectId = await run.newProject();
});
afterEach(() => run.close());

const MARKS = `export function processEvent(event) {
  event.properties.marks = (event.properties.marks ?? 0) + 1;
  return event;
}`;
/** Numbers events in turns, and says of each whether it has seen it before. */
const numbers = (asking: string) => `
  let turn = Promise.resolve();
  export function processEvent(event, { storage }) {
    if (event.event !== "counted") return event;
    const mine = turn.then(async () => {
      posthog.capture("beside", { of: event.uuid });
      let seen = false;
      ${asking}
      const n = (await storage.get("n", 0)) + 1;
      await storage.set("n", n);
      await storage.set(event.uuid, true);
      return { ...event, properties: { ...event.properties, n, seen } };
    });
    turn = mine.catch(() => {});
    return mine;
  }`;

/** Captures events of several persons, some dozens. */
const capture = () =>
  run.append(
    Array.from({ length: 60 }, (_, n) =>
      sampleEvent({ projectId, event: "counted", distinctId: `person ${n % 5}`, properties: {} }),
    ),
  );

const refusedMore = (more: number) => {
  const before = outage.refused;
  return expect.poll(() => outage.refused, { timeout: 30_000 }).toBeGreaterThan(before + more);
};

it.each([
  ["fails without it", "seen = await storage.get(event.uuid, false);"],
  ["makes do without it", "seen = await storage.get(event.uuid, false).catch(() => 'unknown');"],
])(
  "[TP-70] events wait while what is stored cannot be read, for a transformation that %s",
  async (_how, asking) => {
    const marks = await run.enable(projectId, "Marks", MARKS);
    const config = await run.enable(projectId, "Numbers", numbers(asking));
    await capture();
    await run.settle();
    outage.isOn = true;
    await capture();
    await refusedMore(60);
    expect(run.observed.failed).toBe(0);
    outage.isOn = false;
    await capture();
    await run.settle();

    const stored = await run.stored(projectId);
    const own = stored.filter(({ event }) => event === "counted");
    expect(own.map(({ properties }) => properties.n)).toEqual(own.map((_, index) => index + 1));
    expect(own).toHaveLength(180);
    for (const { properties } of own) {
      expect(properties).toMatchObject({ marks: 1, seen: false });
      expect(properties.$plugins_succeeded).toEqual([marks.label, config.label]);
    }
    const beside = stored.filter(({ event }) => event === "beside");
    expect(new Set(beside.map(({ properties }) => properties.of)).size).toBe(beside.length);
    expect(run.observed).toMatchObject({ failed: 0, disabled: 0 });
  },
);

it("[TP-70] events wait for a transformation that cannot start while what is stored cannot be read", async () => {
  outage.isOn = true;
  await run.enable(
    projectId,
    "Reads",
    `export async function setupPlugin({ storage, global }) { global.past = await storage.get("past", 0) }
    export function processEvent(event, { global }) {
      event.properties.past = global.past;
      return event;
    }`,
  );
  await capture();
  await refusedMore(4);
  expect(run.observed.disabled).toBe(0);
  outage.isOn = false;
  await run.settle();
  const stored = await run.stored(projectId);
  expect(stored).toHaveLength(60);
  for (const { properties } of stored) expect(properties.past).toBe(0);
  expect(run.observed).toMatchObject({ failed: 0, disabled: 0 });
});
