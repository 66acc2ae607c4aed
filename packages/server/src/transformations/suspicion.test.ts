import { expect, it } from "vitest";
import { createSuspicion } from "./suspicion.ts";

it("[TP-26] falls on what exceeds limits ten times within a minute, whatever goes well in between", () => {
  const clock = { ms: 0 };
  const suspicion = createSuspicion(() => clock.ms);
  for (let time = 0; time < 30; time++) {
    clock.ms += 7_000;
    expect(suspicion.note("exceeded-limit", `time ${time}`)).toBeUndefined();
    suspicion.note("fine");
  }
  let told: string | undefined;
  for (let time = 0; time < 9 && told === undefined; time++) {
    clock.ms += 100;
    told = suspicion.note("exceeded-limit", "later");
  }
  expect(told).toContain("10 times within a minute. The first time: time ");
});

it("[TP-26] falls on what fails a hundred times in a row, and forgets failures with a success", () => {
  const suspicion = createSuspicion(() => 0);
  const fail = (times: number) =>
    Array.from({ length: times }, () => suspicion.note("failed", "no")).at(-1);
  expect(fail(99)).toBeUndefined();
  suspicion.note("fine");
  expect(fail(99)).toBeUndefined();
  expect(fail(1)).toBe("It failed 100 times in a row. The last time: no");
});

it("[TP-56] falls on what costs others much of the time, and on nothing that is quick or rare", () => {
  const clock = { ms: 0 };
  const suspicion = createSuspicion(() => clock.ms);
  const spend = (cpuMs: number, times: number, everyMs: number) => {
    let told: string | undefined;
    for (let time = 0; time < times && told === undefined; time++) {
      clock.ms += everyMs;
      told = suspicion.noteCost(cpuMs, everyMs);
    }
    return told;
  };
  expect(spend(10, 10_000, 10)).toBeUndefined();
  expect(spend(90, 10_000, 2_000)).toBeUndefined();
  expect(spend(90, 30, 90)).toBeUndefined();
  expect(spend(90, 100, 90)).toContain("90 ms");
  // With a busy processor it computes for less of the time, and holds up others all the same.
  clock.ms += 60_000;
  expect(spend(5, 1_000, 90)).toBeUndefined();
  expect(spend(30, 100, 90)).toContain("30 ms");
});
