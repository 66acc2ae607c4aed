import { numberedEvent } from "./numbered-events.setup.ts";
import { temporaryPipeline } from "./pipeline.setup.ts";

/**
 * A process that captures for the crash test until it is killed: events numbered from a given one
 * on, some of them twice. Says on standard output up to which number events are acknowledged.
 * Arguments: folder, project, first number.
 */
const [folder, project, first] = process.argv.slice(2);
const projectId = Number(project);
const run = await temporaryPipeline(folder).start({}, { storeEveryMs: 20 });

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
