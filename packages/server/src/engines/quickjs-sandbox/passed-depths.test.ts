import { expect, it } from "vitest";
import { PassedDepths } from "./passed-depths.ts";

const at = (...depths: readonly number[]) => depths.map((hops) => ({ hops }));

it("tells how deep an event, and the deepest of a batch, was captured", () => {
  const passed = new PassedDepths();
  passed.note(1, at(0, 2, 1));
  passed.note(2, at(0, 0));
  expect([0, 1, 2].map((event) => passed.of({ id: 1, event }))).toEqual([0, 2, 1]);
  expect(passed.of({ id: 1, event: null })).toBe(2);
  expect(passed.of({ id: 2, event: null })).toBe(0);
  expect(passed.of({ id: 1, event: 9 })).toBe(0);
});

it("takes what it has forgotten for the deepest of that, so that nothing goes on for ever", () => {
  const passed = new PassedDepths();
  passed.note(1, at(3));
  for (let id = 2; id < 1_100; id++) passed.note(id, at(1));
  expect(passed.of({ id: 1, event: 0 })).toBe(3);
  expect(passed.of({ id: 50, event: null })).toBe(3);
  expect(passed.of({ id: 1_099, event: 0 })).toBe(1);
});
