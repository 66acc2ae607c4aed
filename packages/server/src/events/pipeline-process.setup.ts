import { numberedEvent, transformNumbered } from "./numbered-events.setup.ts";
import { type Around, temporaryPipeline } from "./pipeline.setup.ts";

/**
 * A process that captures for the crash test until it is killed: events numbered from a given one
 * on, some of them twice. Says on standard output up to which number events are acknowledged.
 * Arguments: folder, project, first number, and `lanes` where the events pass a step in their lane;
 * then, perhaps, a call after which it kills itself, and the how-manieth.
 */
const [folder, project, first, mode, killAfter, killAt] = process.argv.slice(2);
const projectId = Number(project);

/** Calls of the worker that change something, by where they stand on an event's way. */
export type DeadlyCall = "pass" | "applyEvents" | "insert" | "release";

let calls = 0;

/** The call as it is, but for the one whose caller never hears of its end. */
function deadly<Args extends readonly unknown[], Result>(
  name: DeadlyCall,
  call: (...args: Args) => Promise<Result>,
): (...args: Args) => Promise<Result> {
  if (name !== killAfter) return call;
  return async (...args) => {
    const result = await call(...args);
    calls++;
    if (calls >= Number(killAt)) process.kill(process.pid, "SIGKILL");
    return result;
  };
}

const around: Around = {
  persons: (real) => ({ ...real, applyEvents: deadly("applyEvents", real.applyEvents) }),
  events: (real) => ({ ...real, insert: deadly("insert", real.insert) }),
  log: (real) => ({ ...real, release: deadly("release", real.release) }),
};
const pipeline = temporaryPipeline(folder);
const { lanes } = (await pipeline.openStores()).log;
lanes.pass = deadly("pass", lanes.pass);
const steps = mode === "lanes" ? [transformNumbered] : [];
const run = await pipeline.start({ ...around, steps }, { storeEveryMs: 20 });

async function capture(from: number, to: number): Promise<void> {
  await run.append(
    Array.from({ length: to - from }, (_, index) => numberedEvent(projectId, from + index)),
  );
}

for (let number = Number(first); ; number += 20) {
  // Three requests under way at a time, in order; the last one repeats events of the first.
  const ends = [number + 8, number + 14, number + 20] as const;
  await Promise.all([
    capture(number, ends[0]),
    capture(ends[0], ends[1]),
    capture(ends[1], ends[2]),
    capture(number, number + 2),
  ]);
  process.stdout.write(`${ends[2]}\n`);
}
