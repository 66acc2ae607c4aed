import { evaluateFlags } from "@hedgerow/core/flags/evaluate-flags";
import type { EvaluationRequest, StoredFacts } from "@hedgerow/core/flags/evaluation-request";
import { explainFlag, type FlagExplanation } from "@hedgerow/core/flags/explain-flag";
import { explainInWords } from "@hedgerow/core/flags/explain-text";
import type { FlagEvaluation, ProjectDefinitions } from "@hedgerow/core/flags/flag";
import { hideStoredValues } from "@hedgerow/core/flags/hide-stored-values";
import type { JsonObject } from "@hedgerow/core/json";
import type { PendingPersons } from "../events/pending-persons.ts";
import { Refusal } from "../http/errors.ts";
import type { GeoIp } from "../persons/geo-ip.ts";
import type { PersonStore } from "../persons/person-store.ts";
import type { CompiledFlags } from "./compiled-flags.ts";
import { flagsForGroups } from "./flags-for-groups.ts";

/** For whom a flag is explained; what is given here wins over what is stored. */
export interface ExplainedPerson
  extends Pick<
    EvaluationRequest,
    "distinctId" | "deviceId" | "anonDistinctId" | "groups" | "personProperties" | "groupProperties"
  > {
  /** The address whose place counts; `null` for none. */
  readonly ip: string | null;
}

/** The values of all live flags for a person, switched-off ones left out. */
export type EvaluateAll = (
  projectId: number,
  person: ExplainedPerson,
) => Promise<ReadonlyMap<string, FlagEvaluation>>;

/** Explains the flag of an id, or else of a key; throws `not_found` for a flag that is unknown or deleted. */
export type Explain = (
  projectId: number,
  idOrKey: string,
  person: ExplainedPerson,
  /** What the reader of the explanation may see of what is stored. */
  may: { readonly persons: boolean; readonly groups: boolean },
) => Promise<{ explanation: FlagExplanation; inWords: string }>;

/**
 * {@link Explain} and {@link EvaluateAll} over the stores that flag requests read. Unlike a flag request it stores nothing:
 * an anonymous id counts as hash key for this explanation only. A store that cannot be read shows as
 * values that are unavailable.
 */
export function createExplain({
  compiledFlags,
  persons,
  pendingPersons,
  geoIp,
  clock,
  reportFault,
}: {
  compiledFlags: Pick<CompiledFlags, "get" | "refresh">;
  persons: Pick<PersonStore, "factsFor">;
  pendingPersons: Pick<PendingPersons, "settled">;
  geoIp: GeoIp;
  clock: () => Date;
  reportFault: (error: unknown, context: string) => void;
}): { explain: Explain; evaluateAll: EvaluateAll } {
  const deps = { compiledFlags, pendingPersons };
  const factsOf = async (
    projectId: number,
    person: ExplainedPerson,
    groupTypes: ProjectDefinitions["groupTypes"],
  ): Promise<StoredFacts> => {
    const { distinctId, anonDistinctId, groups } = person;
    // Of others nothing is stored, and each is looked for.
    const known = groupTypes.flatMap(({ name }) =>
      Object.hasOwn(groups, name) ? [[name, groups[name] ?? ""] as const] : [],
    );
    try {
      const distinctIds = anonDistinctId === null ? [distinctId] : [distinctId, anonDistinctId];
      await pendingPersons.settled(projectId, { distinctIds, groups });
      return await persons.factsFor({
        projectId,
        distinctId,
        anonDistinctId,
        person: true,
        staticCohorts: true,
        hashKeyOverrides: true,
        groups: Object.fromEntries(known),
      });
    } catch (error) {
      reportFault(error, "stored facts for the explanation of a flag could not be read");
      return { person: "unavailable", groups: "unavailable" };
    }
  };
  const placeOf = async (ip: string | null): Promise<JsonObject> =>
    ip === null ? {} : await geoIp.lookup(ip);

  const requestOf = async (
    projectId: number,
    person: ExplainedPerson,
    { groupTypes }: Pick<ProjectDefinitions, "groupTypes">,
  ): Promise<EvaluationRequest> => {
    const { ip, ...sent } = person;
    return {
      ...sent,
      now: clock(),
      geoProperties: await placeOf(ip),
      stored: await factsOf(projectId, person, groupTypes),
      selection: { keys: null, contexts: null, runtime: null, onlySurveyFlags: false },
    };
  };

  return {
    async explain(projectId, idOrKey, person, may) {
      const { flagSet, definitions } = await flagsForGroups(deps, projectId, person.groups);
      const definition =
        definitions.flags.find(({ id }) => String(id) === idOrKey) ??
        definitions.flags.find(({ key }) => key === idOrKey);
      if (!definition) throw new Refusal("not_found", "Not found.");
      const request = await requestOf(projectId, person, definitions);
      const explained = explainFlag(definition, { set: flagSet, definitions, request });
      const explanation = hideStoredValues(explained, { ...may, identifiers: sentIds(person) });
      return { explanation, inWords: explainInWords(explanation, person.distinctId) };
    },

    async evaluateAll(projectId, person) {
      const { flagSet, definitions } = await flagsForGroups(deps, projectId, person.groups);
      const request = await requestOf(projectId, person, definitions);
      // A request comes from one runtime; together they get every flag.
      const evaluations = (["client", "server"] as const).flatMap((runtime) => {
        const selection = { ...request.selection, runtime };
        return evaluateFlags(flagSet, { ...request, selection }).evaluations;
      });
      return new Map(evaluations.map((evaluation) => [evaluation.flag.key, evaluation]));
    },
  };
}

function sentIds({
  distinctId,
  deviceId,
  anonDistinctId,
  groups,
}: ExplainedPerson): ReadonlySet<string> {
  return new Set([distinctId, deviceId ?? "", anonDistinctId ?? "", ...Object.values(groups)]);
}
