import { setTimeout as delay } from "node:timers/promises";
import { sampleEvent } from "../events/event-log.contract.ts";
import { temporaryPipeline } from "../events/pipeline.setup.ts";
import { transformationsPipeline } from "./at-work.setup.ts";

/**
 * A process for the crash test of what events store and ask for: it captures events that pass the
 * enabled transformations of a project, until it is killed. Says on standard output how many are
 * acknowledged. Arguments: folder and project; then, perhaps, a call after which it kills itself, and
 * the how-manieth.
 */
const [folder, project, killAfter, killAt] = process.argv.slice(2);
const projectId = Number(project);

/** Calls on the way of effects to where they belong. */
export type DeadlyCall = "pass" | "take" | "forgetEffects";

let calls = 0;

/** The call as it is, but for the one whose caller never hears of its end. */
function deadly<Args extends readonly unknown[], Result>(
  name: DeadlyCall,
  call: (...args: Args) => Result,
): (...args: Args) => Result {
  if (name !== killAfter) return call;
  const count = () => {
    calls++;
    if (calls >= Number(killAt)) process.kill(process.pid, "SIGKILL");
  };
  return (...args) => {
    const result = call(...args);
    if (result instanceof Promise) return result.finally(count) as Result;
    count();
    return result;
  };
}

const pipeline = temporaryPipeline(folder);
const { lanes } = (await pipeline.openStores()).log;
lanes.pass = deadly("pass", lanes.pass);
lanes.forgetEffects = deadly("forgetEffects", lanes.forgetEffects);
const run = await transformationsPipeline({
  pipeline,
  maxJobs: Number.MAX_SAFE_INTEGER,
  effectsOf: (effects) => ({ ...effects, take: deadly("take", effects.take) }),
});

for (let acknowledged = 0; ; acknowledged += 20) {
  const requests = [8, 6, 6].map((length) =>
    // Events of different persons wait for each other in the transformation alone.
    Array.from({ length }, (_, n) => sampleEvent({ projectId, distinctId: `person ${n}` })),
  );
  // What waits for long passes in one run, and in few commits.
  while ((lanes.waiting().get(projectId) ?? 0) > 300) await delay(5);
  await Promise.all(requests.map((events) => run.append(events)));
  process.stdout.write(`${acknowledged + 20}\n`);
}
