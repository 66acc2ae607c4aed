import type { EventStore } from "../events/event-store.ts";
import type { FlagCalls } from "../flags/flag-calls.ts";
import type { ExperimentView } from "./experiment-view.ts";
import type { Experiments } from "./experiments.ts";

/** How far back events are looked at. */
const DAYS = 7;
/** How many of the newest events are looked at for any flag at all. */
const SAMPLE = 1000;
/** How many experiments are read at a time. */
const CHUNK = 200;

/** Whether the code of a team's product asks for the flags of its experiments (decision 7). */
export interface FlagImplementation {
  /**
   * True unless one of the newest events of the last seven days, of the named kinds if any are named,
   * carries the value of some flag.
   */
  isRequired(projectId: number, events: readonly string[]): Promise<boolean>;
  /** Running experiments whose flag no event of the last seven days has carried. */
  waiting(projectId: number): Promise<readonly ExperimentView[]>;
}

/** {@link FlagImplementation} from stored events. */
export function createFlagImplementation({
  experiments,
  flagCalls,
  events,
  clock,
}: {
  experiments: Pick<Experiments, "list">;
  flagCalls: Pick<FlagCalls, "callsByDay">;
  events: Pick<EventStore, "events">;
  clock: () => Date;
}): FlagImplementation {
  const weekAgo = () => new Date(clock().getTime() - DAYS * 86_400_000);

  const isCarried = async (projectId: number, flagKey: string): Promise<boolean> => {
    const from = weekAgo();
    const to = new Date(clock().getTime() + 86_400_000);
    const calls = await flagCalls.callsByDay({ projectId, flagKey, from, to });
    if (calls.length > 0) return true;
    const name = `$feature/${flagKey}`;
    const { events: found } = await events.events({
      projectId,
      after: from,
      properties: {
        requiredNames: [name],
        matches: (properties) => Object.hasOwn(properties, name),
      },
      limit: 1,
      offset: 0,
      order: "newest-first",
    });
    return found.length > 0;
  };

  return {
    async isRequired(projectId, names) {
      for (const event of names.length === 0 ? [undefined] : names) {
        const { events: found } = await events.events({
          projectId,
          ...(event !== undefined && { event }),
          after: weekAgo(),
          limit: SAMPLE,
          offset: 0,
          order: "newest-first",
        });
        const carries = found.some(({ properties }) =>
          Object.keys(properties).some((key) => key.startsWith("$feature/")),
        );
        if (carries) return false;
      }
      return true;
    },

    async waiting(projectId) {
      const waiting: ExperimentView[] = [];
      for (let offset = 0; ; offset += CHUNK) {
        const { experiments: running } = await experiments.list(projectId, {
          stage: "launched",
          archived: null,
          search: null,
          createdById: null,
          flagId: null,
          order: { by: "createdAt", descending: true },
          limit: CHUNK,
          offset,
        });
        for (const view of running)
          if (!(await isCarried(projectId, view.flag.key))) waiting.push(view);
        if (running.length < CHUNK) return waiting;
      }
    },
  };
}
