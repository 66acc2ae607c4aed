import { compileFlags } from "@hedgerow/core/flags/compile-flags";
import type { ProjectDefinitions } from "@hedgerow/core/flags/flag";
import type { FlagSet } from "@hedgerow/core/flags/flag-set";
import { createDecisionCounts } from "../engines/sql/decision-counts.ts";
import { createFlagStore } from "../engines/sql/flag-store.ts";
import { createPersonStore } from "../engines/sql/person-store.ts";
import { createChangeDefinitions } from "../flags/change-definitions.ts";
import { createCompiledFlags, watchRevisions } from "../flags/compiled-flags.ts";
import { startDecisionCounter } from "../flags/count-decisions.ts";
import { createFlagChanges } from "../flags/flag-changes.ts";
import type { Base } from "./base.ts";
import type { Foundations } from "./foundations.ts";

export type FlagParts = ReturnType<typeof composeFlags>;

/** Flags, which are compiled when they change, and the persons whom they are asked for. */
export function composeFlags(
  { config, reportFault, onClose }: Base,
  { database, compilePattern }: Foundations,
) {
  const flagStore = createFlagStore(database);
  const compile = (definitions: ProjectDefinitions, earlier: FlagSet | undefined) =>
    compileFlags(definitions, { compilePattern }, earlier);
  const flagChanges = createFlagChanges();
  const compiledFlags = createCompiledFlags({
    flagStore,
    compile,
    reportFault,
    onLoaded: flagChanges.publish,
  });
  onClose(watchRevisions(compiledFlags));
  const changeDefinitions = createChangeDefinitions({ compiledFlags, reportFault });
  const refreshFlags = (projectId: number) =>
    compiledFlags.refresh(projectId).then(
      () => undefined,
      (error: unknown) => reportFault(error, `flags of project ${projectId} could not be read`),
    );
  const persons = createPersonStore(database, {
    continuityFlagKeys: async (projectId) =>
      (await compiledFlags.get(projectId)).flagSet.continuityKeys,
    onGroupTypeAdded: refreshFlags,
    reportFault,
  });
  const decisionCounts = createDecisionCounts(database);
  const decisionCounter =
    config.countFlagRequests > 0
      ? startDecisionCounter({
          counts: decisionCounts,
          percent: config.countFlagRequests,
          random: Math.random,
          reportFault,
        })
      : undefined;
  onClose(() => decisionCounter?.close());
  return {
    ...{ flagStore, compile, flagChanges, compiledFlags, changeDefinitions, refreshFlags },
    ...{ persons, decisionCounts, decisionCounter },
  };
}
