import { expect, it } from "vitest";
import { sampleEvent } from "../../events/event-log.contract.ts";
import { createLogLaneStates } from "./log-lanes.ts";

const ALL = { limit: 100, maxChars: 1000 };

it("[PI-53] the newest entries of all lanes share one bound, also of those that were there first", () => {
  const states = createLogLaneStates(100);
  const keptIn = (projectId: number) => {
    const { end, tail } = states.of(projectId);
    let kept = 0;
    while (kept < end && tail.read(end - kept - 1, ALL)) kept++;
    return kept;
  };
  for (let count = 0; count < 10; count++) states.of(1).add({ event: sampleEvent() }, 10);
  expect(keptIn(1)).toBe(10);
  states.of(2).add({ event: sampleEvent() }, 10);
  expect(keptIn(1)).toBe(5);
  states.load([{ projectId: 3, passed: 4, end: 9, chars: 50 }]);
  for (const projectId of [4, 5]) states.of(projectId).add({ event: sampleEvent() }, 10);
  expect([1, 2, 4, 5].map(keptIn)).toEqual([2, 1, 1, 1]);
  for (const projectId of [2, 3, 4, 5]) states.of(projectId).pass(states.of(projectId).end);
  for (let count = 0; count < 10; count++) states.of(1).add({ event: sampleEvent() }, 10);
  expect(keptIn(1)).toBe(10);
});
