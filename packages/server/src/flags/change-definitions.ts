import { Refusal } from "../http/errors.ts";
import type { CompiledFlags, FlagSnapshot } from "./compiled-flags.ts";

/**
 * Changes what a project's flags depend on. `decide` is given the newest definitions, decides on
 * them and saves with `ifRevision: snapshot.revision`; when the store answers `stale` it is called
 * again with newer ones. The change is live when the promise resolves.
 */
export type ChangeDefinitions = <Outcome>(
  projectId: number,
  decide: (snapshot: FlagSnapshot) => Promise<Outcome | "stale">,
) => Promise<Outcome>;

/** Attempts against writers in other processes; writers in this one take turns. */
const MAX_ATTEMPTS = 10;

/**
 * A {@link ChangeDefinitions} that runs the changes of one project one after another. A change that
 * is stored succeeds even when it cannot be read back at once: the fault is reported, and whoever
 * watches revisions takes the change in as soon as it can be read.
 */
export function createChangeDefinitions({
  compiledFlags,
  reportFault,
}: {
  compiledFlags: Pick<CompiledFlags, "refresh">;
  reportFault: (error: unknown, context: string) => void;
}): ChangeDefinitions {
  const lastChanges = new Map<number, Promise<unknown>>();

  return async (projectId, decide) => {
    const attempt = async () => {
      let snapshot = await compiledFlags.refresh(projectId);
      for (let attempts = 0; attempts < MAX_ATTEMPTS; attempts++) {
        const outcome = await decide(snapshot);
        if (outcome === "stale") {
          snapshot = await compiledFlags.refresh(projectId);
          continue;
        }
        await compiledFlags
          .refresh(projectId)
          .catch((error: unknown) =>
            reportFault(error, `a change of project ${projectId} could not be read back`),
          );
        return outcome;
      }
      throw new Refusal("conflict", "The project is being changed by others. Please try again.");
    };
    const change = (lastChanges.get(projectId) ?? Promise.resolve()).then(attempt);
    const settled = change.catch(() => undefined);
    lastChanges.set(projectId, settled);
    try {
      return await change;
    } finally {
      if (lastChanges.get(projectId) === settled) lastChanges.delete(projectId);
    }
  };
}
