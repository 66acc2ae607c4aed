import { sampleEvent } from "./event-log.contract.ts";
import { temporaryPipeline } from "./pipeline.setup.ts";

/**
 * A process that captures for the crash test until it is killed: events numbered from a given one
 * on, some of them twice. Says on standard output up to which number events are acknowledged.
 * Arguments: folder, project, first number.
 */
const [folder, project, first] = process.argv.slice(2);
const projectId = Number(project);
const run = await temporaryPipeline(folder).start({}, { storeEveryMs: 20 });

const IDS = 7;

/** The event of a number; the same whenever it is asked for. */
function eventOf(number: number) {
  const digits = number.toString(16).padStart(12, "0");
  const isIdentification = number % 50 === 49;
  const distinctId = `user-${number % IDS}`;
  return sampleEvent({
    projectId,
    uuid: `00000000-0000-4000-8000-${digits}`,
    event: isIdentification ? "$identify" : "count",
    distinctId,
    timestamp: new Date(Date.UTC(2024, 0, 1) + number),
    properties: {
      number,
      $set: { last: number },
      ...(isIdentification && { $anon_distinct_id: `anon-${number}` }),
    },
  });
}

async function capture(from: number, to: number): Promise<void> {
  await run.append(Array.from({ length: to - from }, (_, index) => eventOf(from + index)));
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
