import { describe, expect, it } from "vitest";
import {
  isDropped,
  isEchoed,
  modelPersons,
  numberedEvent,
  transformNumbered,
  USERS,
} from "./numbered-events.setup.ts";
import { temporaryPipeline } from "./pipeline.setup.ts";
import type { DeadlyCall } from "./pipeline-process.setup.ts";
import { runUntilKilled } from "./run-until-killed.setup.ts";

/** More of them take minutes: set the variable to 20 before a release. */
const ROUNDS = Number(process.env.HEDGEROW_CRASH_ROUNDS ?? 5);

/** Each round starts a process, which may take half a minute where a machine has much else to do. */
const SLOW_MS = 180_000 + ROUNDS * 60_000;

/** A call of the worker after which its process dies before anybody hears of it. */
type Death = readonly [after: DeadlyCall, at: number];

/** Whether the events pass a step in the lane of their project. */
type Mode = "plain" | "lanes";

/** Runs the capturing process until it is killed, answers up to which number it acknowledged. */
async function captureUntilKilled(given: {
  folder: string;
  projectId: number;
  first: number;
  mode: Mode;
  /** Some time after its first acknowledgement, or by itself. */
  death: { afterMs: number } | Death;
}): Promise<number> {
  const { death } = given;
  const script = new URL("./pipeline-process.setup.ts", import.meta.url);
  const own = "afterMs" in death ? [] : death.map(String);
  const args = [given.folder, String(given.projectId), String(given.first), given.mode, ...own];
  const afterMs = "afterMs" in death ? death.afterMs : undefined;
  return Math.max(given.first, await runUntilKilled(script, args, afterMs));
}

/** Captures in one process after the other, each killed in its own way, and looks at what is stored. */
async function expectEachOnce(
  deaths: readonly ({ afterMs: number } | Death)[],
  mode: Mode = "plain",
): Promise<void> {
  const pipeline = temporaryPipeline();
  const { folder } = pipeline;
  const stores = await pipeline.openStores();
  const projectId = await stores.newProject();
  await pipeline.closeStores();

  const acknowledged: number[] = [];
  let first = 0;
  for (const death of deaths) {
    const upTo = await captureUntilKilled({ folder, projectId, first, mode, death });
    for (let number = first; number < upTo; number++) acknowledged.push(number);
    // Events of the last, unanswered requests may be there too: others take their numbers up.
    first = upTo + 1000;
  }
  expect(acknowledged.length).toBeGreaterThan(0);

  const run = await pipeline.start(mode === "lanes" ? { steps: [transformNumbered] } : {});
  await run.settle();
  const stored: number[] = [];
  const echoes: number[] = [];
  for (let offset = 0; ; offset += 1000) {
    const query = { projectId, limit: 1000, offset, order: "oldest-first" } as const;
    const { events, hasMore } = await run.events.events(query);
    for (const { properties, personId } of events) {
      if (typeof properties.echoOf === "number") {
        echoes.push(properties.echoOf);
        continue;
      }
      stored.push(properties.number as number);
      expect(properties.passed ?? false).toBe(mode === "lanes");
      expect(personId).toMatch(/^[0-9a-f-]{36}$/);
    }
    if (!hasMore) break;
  }
  expect(new Set(stored).size).toBe(stored.length);
  const missing = new Set(acknowledged);
  if (mode === "lanes") {
    expect(echoes.toSorted((a, b) => a - b)).toEqual(
      stored.filter(isEchoed).toSorted((a, b) => a - b),
    );
    for (const number of acknowledged.filter(isDropped)) {
      const { uuid } = numberedEvent(projectId, number);
      expect(await run.events.receipt(projectId, uuid)).toMatchObject({
        outcome: "dropped",
        by: "transform",
      });
      missing.delete(number);
    }
    expect(stored.filter(isDropped)).toEqual([]);
  }
  for (const number of stored) missing.delete(number);
  expect([...missing]).toEqual([]);
  expect(await run.events.deadLetters({ limit: 10 })).toEqual([]);

  const model = modelPersons(stored);
  expect(model.size).toBeGreaterThan(USERS);
  for (let user = 0; user < USERS; user++) {
    const expected = model.get(`user-${user}`);
    const person = await run.persons.personByDistinctId(projectId, `user-${user}`);
    expect(person?.properties).toEqual(expected?.properties);
    expect(person?.distinctIds.toSorted()).toEqual(expected?.distinctIds.toSorted());
    const history: unknown[] = [];
    for (let isMore = true; isMore; ) {
      const page = await run.events.events({
        projectId,
        personId: person?.uuid ?? "",
        limit: 1000,
        offset: history.length,
        order: "oldest-first",
      });
      history.push(...page.events.map(({ properties }) => properties.number));
      isMore = page.hasMore;
    }
    expect(history).toEqual(expected?.numbers.toSorted((a, b) => a - b));
  }
  await pipeline.remove();
}

describe("a process killed at random moments under load", () => {
  it(
    "[PI-50] has stored every acknowledged event exactly once, in order, with its persons",
    () =>
      expectEachOnce(Array.from({ length: ROUNDS }, () => ({ afterMs: 20 + Math.random() * 700 }))),
    SLOW_MS,
  );
});

describe("a process killed at random moments while events pass in lanes", () => {
  it(
    "[PI-50] has stored or dropped every acknowledged event exactly once, in order, with its persons and with what was captured beside it",
    () =>
      expectEachOnce(
        Array.from({ length: ROUNDS }, () => ({ afterMs: 20 + Math.random() * 700 })),
        "lanes",
      ),
    SLOW_MS,
  );

  it(
    "[PI-81] also where nobody heard that a lane has passed",
    () =>
      expectEachOnce(
        [
          ["pass", 1],
          ["pass", 4],
        ],
        "lanes",
      ),
    SLOW_MS,
  );
});

describe("a process killed between two steps of its worker", () => {
  it.each<[string, readonly Death[]]>([
    [
      "the change of persons and the storing of events",
      [
        ["applyEvents", 1],
        ["applyEvents", 6],
      ],
    ],
    [
      "the storing of events and hearing of it",
      [
        ["insert", 1],
        ["insert", 6],
      ],
    ],
    [
      "the release of what is stored and what follows",
      [
        ["release", 1],
        ["release", 2],
      ],
    ],
  ])(
    "[PI-50] namely %s, has stored each event once, in order, with its persons",
    async (_between, deaths) => {
      await expectEachOnce(deaths);
    },
    SLOW_MS,
  );
});
