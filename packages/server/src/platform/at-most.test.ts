import { expect, test } from "vitest";
import { atMost } from "./at-most.ts";

test("waits for work that ends, and fails as it fails", async () => {
  let isDone = false;
  const work = new Promise<void>((resolve) => setImmediate(resolve)).then(() => {
    isDone = true;
  });
  await atMost(60_000, work);
  expect(isDone).toBe(true);
  await expect(atMost(60_000, Promise.reject(new Error("broken")))).rejects.toThrow("broken");
});

test("does not wait for longer than it is told", async () => {
  let isDone = false;
  let end = () => {};
  const work = new Promise<void>((resolve) => {
    end = resolve;
  }).then(() => {
    isDone = true;
  });
  await atMost(5, work);
  expect(isDone).toBe(false);
  end();
  await work;
});
