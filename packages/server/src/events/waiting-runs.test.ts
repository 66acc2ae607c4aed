import { describe, expect, it } from "vitest";
import { sampleEvent } from "./event-log.contract.ts";
import type { PreparedRun } from "./prepare-run.ts";
import { createWaitingRuns, type WaitingRun } from "./waiting-runs.ts";

/** A run of the positions after one, up to another, with letters that only it knows. */
function run(after: number, end: number, deadLetters: PreparedRun["deadLetters"] = []) {
  const rows = Array.from({ length: end - after }, (_, index) => ({
    position: after + 1 + index,
    event: sampleEvent(),
    personId: crypto.randomUUID(),
    groupKeys: [],
    changedBy: [],
  }));
  const hasOwnLetters = deadLetters.length > 0;
  return { after, rows, merges: [], drops: [], deadLetters, hasOwnLetters, end };
}

describe("WaitingRuns", () => {
  it("[PI-48] hands over everything that follows without a gap", () => {
    const waiting = createWaitingRuns();
    for (const one of [run(0, 2), run(2, 3), run(5, 6)]) waiting.add(one, 10);
    expect(waiting.take(0)).toMatchObject({
      end: 3,
      rows: [{ position: 1 }, { position: 2 }, { position: 3 }],
    });
    waiting.forget(3);
    expect(waiting.take(3)).toBeUndefined();
    expect(waiting.firstAfter()).toBe(5);
    expect(waiting.take(5)?.end).toBe(6);
    waiting.forget(6);
    expect(waiting.firstAfter()).toBeUndefined();
  });

  it("[PI-48] keeps no more than fits, by rows and by size", () => {
    const byRows = createWaitingRuns({ maxRows: 4, maxChars: 1000 });
    for (const after of [0, 2, 4]) byRows.add(run(after, after + 2), 1);
    expect(byRows.take(0)?.end).toBe(4);
    const bySize = createWaitingRuns({ maxRows: 100, maxChars: 1000 });
    for (const after of [0, 2, 4]) bySize.add(run(after, after + 2), 600);
    expect(bySize.take(0)?.end).toBe(4);
    bySize.forget(4);
    bySize.add(run(6, 8), 600);
    expect(bySize.take(6)?.end).toBe(8);
  });

  it("[PI-48] gives back the memory of packed rows: of what is stored, and of what finds no room", () => {
    const released: number[] = [];
    const pack = (one: WaitingRun): WaitingRun => ({
      ...one,
      rows: {
        length: one.rows.length,
        memoryBytes: 100,
        [Symbol.iterator]: () => one.rows[Symbol.iterator](),
        ofProjects: () => one.rows,
        release: () => released.push(one.end),
      },
    });
    const waiting = createWaitingRuns({ maxBytes: 200 });
    for (const after of [0, 2, 4]) waiting.add(pack(run(after, after + 2)), 1);
    expect(released).toEqual([6]);
    const taken = waiting.take(0);
    expect([...(taken?.rows ?? [])].map(({ position }) => position)).toEqual([1, 2, 3, 4]);
    expect(released).toEqual([6]);
    waiting.forget(2);
    expect(released).toEqual([6, 2]);
    waiting.forget(4);
    expect(released).toEqual([6, 2, 4]);
  });

  it("[PI-48] keeps no run for letters that the log has as well", () => {
    const waiting = createWaitingRuns({ maxRows: 1 });
    const letter = { position: 2, event: sampleEvent(), reason: "odd" };
    waiting.add(run(0, 1), 1);
    waiting.add({ ...run(1, 2, [letter]), hasOwnLetters: false }, 1);
    expect(waiting.take(0)).toMatchObject({ end: 1, deadLetters: [] });
  });

  it("[PI-48] keeps what only it knows: dead letters", () => {
    const waiting = createWaitingRuns({ maxRows: 1 });
    const letter = { position: 2, event: sampleEvent(), reason: "odd" };
    waiting.add(run(0, 1), 1);
    waiting.add(run(1, 2, [letter]), 1);
    waiting.add(run(2, 3), 1);
    expect(waiting.take(0)).toMatchObject({ end: 2, deadLetters: [letter] });
  });
});
