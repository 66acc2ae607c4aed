import type { FlagEvaluation } from "@hedgerow/core/flags/flag";
import { expect, test } from "vitest";
import { startDecisionCounter } from "./count-decisions.ts";
import type { DecisionCount } from "./decision-counts.ts";

const now = new Date("2026-03-01T23:59:59Z");
const answer = (key: string, value: boolean | string, failed = false) =>
  ({ flag: { key }, value, failed }) as FlagEvaluation;

function counting(percent: number, draws: number[]) {
  const added: [number, readonly DecisionCount[]][] = [];
  const faults: string[] = [];
  let isDown = false;
  const counter = startDecisionCounter({
    counts: {
      add: async (projectId, counts) => {
        if (isDown) throw new Error("down");
        added.push([projectId, counts]);
      },
    },
    percent,
    random: () => draws.shift() ?? 0,
    reportFault: (_, context) => faults.push(context),
  });
  const setDown = (down: boolean) => {
    isDown = down;
  };
  return { counter, added, faults, setDown };
}

test("[FU-3] counts the drawn share of requests, each for the others as well, and no failed flag", async () => {
  const { counter, added } = counting(25, [0.2, 0.25, 0.9, 0.1]);
  for (let request = 0; request < 4; request += 1) {
    counter.note(1, [answer("a", "blue"), answer("b", false), answer("c", false, true)], now);
  }
  await counter.close();
  const count = { day: "2026-03-01", times: 8 };
  expect(added).toEqual([
    [
      1,
      [
        { ...count, flagKey: "a", value: "blue" },
        { ...count, flagKey: "b", value: "false" },
      ],
    ],
  ]);
});

test("[FU-3] keeps what could not be written for the next time", async () => {
  const { counter, added, faults, setDown } = counting(100, []);
  setDown(true);
  counter.note(1, [answer("a", true)], now);
  await counter.flush();
  expect(faults).toHaveLength(1);
  setDown(false);
  counter.note(1, [answer("a", true)], now);
  await counter.close();
  expect(added).toEqual([[1, [{ flagKey: "a", day: "2026-03-01", value: "true", times: 2 }]]]);
});
