import { expect, test } from "vitest";
import { createGate, createGates } from "./gate.ts";

test("a gate lets some in, keeps some waiting in their order, and turns the rest away", async () => {
  const gate = createGate({ maxRunning: 2, maxWaiting: 1 });
  const ends: (() => void)[] = [];
  const begun: number[] = [];
  const work = (number: number) =>
    gate.through(async () => {
      begun.push(number);
      await new Promise<void>((end) => ends.push(end));
      return number;
    });
  const results = [work(1), work(2), work(3)];
  expect(await work(4)).toBe("full");
  expect(begun).toEqual([1, 2]);
  ends[1]?.();
  expect(await results[1]).toBe(2);
  expect(begun).toEqual([1, 2, 3]);
  for (const end of ends) end();
  expect(await Promise.all(results)).toEqual([1, 2, 3]);
});

test("work that fails leaves its place", async () => {
  const gate = createGate({ maxRunning: 1, maxWaiting: 5 });
  const fail = () => gate.through(() => Promise.reject(new Error("no")));
  await expect(Promise.all([fail(), fail()])).rejects.toThrow("no");
  expect(await gate.through(async () => 1)).toBe(1);
});

test("work on one thing waits for other work on it alone", async () => {
  const gates = createGates({ maxRunning: 1, maxWaiting: 1 });
  const seen: string[] = [];
  let finish = () => {};
  const first = gates.through(1, () => new Promise<void>((resolve) => (finish = resolve)));
  const second = gates.through(1, async () => void seen.push("second"));
  expect(await gates.through(1, async () => {})).toBe("full");
  await gates.through(2, async () => void seen.push("other"));
  finish();
  await Promise.all([first, second]);
  expect(seen).toEqual(["other", "second"]);
  await gates.through(1, async () => void seen.push("again"));
  expect(seen.at(-1)).toBe("again");
});
