import { describe, expect, it } from "vitest";
import { sampleEvent } from "../event-log.contract.ts";
import { runSteps, type Step, type StepsRun } from "./step.ts";

const entries = ["a", "b", "bad"].map((event, index) => ({
  position: index + 1,
  event: sampleEvent({ event }),
}));

/** A run that gathers whom it has to tell. */
function gathering(limitMs?: number) {
  const durable: (() => void)[] = [];
  const undone: (() => void)[] = [];
  const run: StepsRun = {
    whenDurable: (tell) => durable.push(tell),
    whenUndone: (tell) => undone.push(tell),
    ...(limitMs !== undefined && { limitMs }),
  };
  return { run, durable, undone };
}

describe("steps", () => {
  it("[PI-72] tell of an event once that it is durable, though its step failed with many at once", async () => {
    const told: string[] = [];
    const failing: Step = {
      name: "failing",
      run(given, { whenDurable, whenUndone }) {
        const names = given.map(({ event }) => event.event).join();
        whenDurable(() => told.push(`durable ${names}`));
        whenUndone?.(() => told.push(`undone ${names}`));
        if (names.includes("bad")) throw new Error("bad");
        return given.map(({ event }) => ({ kind: "keep", event }));
      },
    };
    const { run, durable, undone } = gathering();
    const outcomes = await runSteps([failing], entries, run);
    expect(outcomes.map(({ kind }) => kind)).toEqual(["keep", "keep", "dead-letter"]);
    expect(told).toEqual(["undone a,b,bad", "undone bad"]);
    for (const tell of durable) tell();
    expect(told.slice(2)).toEqual(["durable a", "durable b"]);
    // Had the run come to nothing, only these would have been left to undo.
    for (const tell of undone) tell();
    expect(told.slice(4)).toEqual(["undone a", "undone b"]);
  });

  it("[PI-72] leave events where an attempt does that succeeds", async () => {
    const leaving: Step = {
      name: "leaving",
      run(given, occasion) {
        occasion.leaving?.from(given.length === 3 ? 1 : 2);
        if (given.length === 3) throw new Error("after all");
        return given.map(({ event }) => ({ kind: "keep", event }));
      },
    };
    const left: number[] = [];
    const isOver = AbortSignal.any([]);
    const { run } = gathering();
    const from = (position: number) => left.push(position);
    await runSteps([leaving], entries, { ...run, leaving: { isOver, from } });
    expect(left).toEqual([2, 2, 2]);
  });

  it("[PI-72] undo what a step does after its time, as soon as it tells", async () => {
    const told: string[] = [];
    let goOn = () => {};
    const hasTold = new Promise<void>((resolve) => {
      const late: Step = {
        name: "late",
        async run(given, { whenDurable, whenUndone }) {
          if (given.length === 1) return given.map(({ event }) => ({ kind: "keep", event }));
          await new Promise<void>((wait) => {
            goOn = wait;
          });
          whenDurable(() => told.push("durable"));
          whenUndone?.(() => told.push("undone"));
          resolve();
          return [];
        },
      };
      const { run, durable } = gathering(1);
      void runSteps([late], entries, run).then((outcomes) => {
        told.push(...outcomes.map(({ kind }) => kind));
        goOn();
        for (const tell of durable) tell();
      });
    });
    await hasTold;
    expect(told).toEqual(["keep", "keep", "keep", "undone"]);
  });
});
