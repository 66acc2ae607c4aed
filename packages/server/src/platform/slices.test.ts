import { expect, test } from "vitest";
import { createSlices, filterInSlices } from "./slices.ts";

test("lets timers and sockets have their turn once a slice is over, and only then", async () => {
  let nowMs = 0;
  let turns = 0;
  let isDone = false;
  const count = () => {
    turns += 1;
    if (!isDone) setImmediate(count);
  };
  setImmediate(count);
  const turnOf: number[] = [];
  const even = await filterInSlices(
    [1, 2, 3, 4, 5, 6],
    (item) => {
      nowMs += 5;
      turnOf.push(turns);
      return item % 2 === 0;
    },
    createSlices(10, () => nowMs),
  );
  isDone = true;
  expect(even).toEqual([2, 4, 6]);
  const [first = 0, second, third = 0, fourth, fifth = 0, sixth] = turnOf;
  expect([second, fourth, sixth]).toEqual([first, third, fifth]);
  expect(third).toBeGreaterThan(first);
  expect(fifth).toBeGreaterThan(third);
});
