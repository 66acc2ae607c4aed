import { createPersonRecords } from "../engines/sql/person-records.ts";
import { sampleEvent } from "../events/event-log.contract.ts";
import { temporaryPipeline } from "../events/pipeline.setup.ts";
import { followChanges } from "./follow-changes.ts";

/**
 * A process that captures events, deletes one person with events, the events of another, and splits
 * a third, and kills itself while these changes are carried out on events.
 * Arguments: folder, project, what it does last, and the how manieth time.
 */
const [folder, project, last, times] = process.argv.slice(2);
const projectId = Number(project);
const pipeline = temporaryPipeline(folder);
const run = await pipeline.start();
const records = createPersonRecords(run.database, run.persons);

const capture = async (name: string, ...distinctIds: readonly string[]) => {
  await run.append(
    distinctIds.map((distinctId) => sampleEvent({ projectId, event: name, distinctId })),
  );
  await run.settle();
};
const uuidOf = async (distinctId: string): Promise<string> => {
  const person = await records.person(projectId, { distinctId });
  if (!person) throw new Error(`nobody has ${distinctId}`);
  return person.uuid;
};

let calls = 0;
function dying<Arguments extends unknown[], Result>(
  name: string,
  call: (...given: Arguments) => Promise<Result>,
): (...given: Arguments) => Promise<Result> {
  return async (...given) => {
    const result = await call(...given);
    if (name === last && ++calls === Number(times)) process.kill(process.pid, "SIGKILL");
    return result;
  };
}

await capture("before", "gone", "kept", "ann", "bob", "other");
await run.append([
  sampleEvent({
    projectId,
    event: "$merge_dangerously",
    distinctId: "ann",
    properties: { alias: "bob" },
  }),
]);
await run.settle();
const now = new Date();
await records.deletePersons(projectId, [await uuidOf("gone")], { withEvents: true, now });
await records.deleteEvents(projectId, [await uuidOf("kept")]);
await records.split(projectId, await uuidOf("ann"), { mainDistinctId: "ann", now });
await capture("after", "gone", "kept", "ann", "bob");
const follower = followChanges({
  records: {
    eventChanges: records.eventChanges,
    removeEventChange: dying("removeEventChange", records.removeEventChange),
  },
  events: {
    reached: run.events.reached,
    deleteEventsOf: dying("deleteEventsOf", run.events.deleteEventsOf),
    reassign: dying("reassign", run.events.reassign),
  },
  reportFault: (error) => {
    throw error;
  },
});
await follower.follow();
throw new Error("the process should have died");
