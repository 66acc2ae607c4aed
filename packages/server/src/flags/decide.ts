import { evaluateFlags } from "@hedgerow/core/flags/evaluate-flags";
import type {
  EvaluationRequest,
  FlagSelection,
  StoredFacts,
} from "@hedgerow/core/flags/evaluation-request";
import type { FlagSet } from "@hedgerow/core/flags/flag-set";
import {
  continuityKeysToStore,
  requirementsOf,
  type StoredRequirements,
} from "@hedgerow/core/flags/requirements";
import type { JsonObject } from "@hedgerow/core/json";
import type { Project } from "../accounts/account-store.ts";
import type { PendingPersons } from "../events/pending-persons.ts";
import type { GeoIp } from "../persons/geo-ip.ts";
import type { FactsQuery, PersonStore } from "../persons/person-store.ts";
import type { CompiledFlags } from "./compiled-flags.ts";
import type { FlagRequest } from "./decide-request.ts";
import type { FlagAnswer } from "./flag-answer.ts";

/** What deciding reads. */
export interface DecideDeps {
  readonly compiledFlags: CompiledFlags;
  readonly persons: PersonStore;
  readonly pendingPersons: PendingPersons;
  readonly geoIp: GeoIp;
  readonly clock: () => Date;
  readonly newUuid: () => string;
  /** Told once per failed read, with the fault. */
  readonly reportFault: (error: unknown, context: string) => void;
}

export interface DecideInput {
  readonly project: Project;
  readonly request: FlagRequest;
  /** The address whose place overrides stored `$geoip_*` properties; `null` when unknown. */
  readonly address: string | null;
  readonly runtime: FlagSelection["runtime"];
  readonly onlySurveyFlags: boolean;
}

const NO_FACTS: StoredFacts = Object.freeze({ person: null, groups: Object.freeze({}) });
const NO_PROPERTIES: JsonObject = Object.freeze({});

/**
 * Evaluates a project's flags for one request. Reads stored facts only where some asked-for flag
 * needs what the request does not carry, and waits for captured events of the same ids that are not
 * applied yet. A store that fails costs only the flags that need it: never throws for that.
 */
export async function decide(deps: DecideDeps, input: DecideInput): Promise<FlagAnswer> {
  const now = deps.clock();
  const { identity } = input.request;
  if (identity === null) {
    return {
      evaluations: [],
      errorsWhileComputing: false,
      requestId: deps.newUuid(),
      evaluatedAt: now,
    };
  }
  const found = deps.compiledFlags.get(input.project.id);
  const { flagSet } = found instanceof Promise ? await found : found;
  // Filled in step by step: what is looked up decides what else has to be.
  const request: { -readonly [Field in keyof EvaluationRequest]: EvaluationRequest[Field] } = {
    now,
    distinctId: identity.distinctId,
    deviceId: identity.deviceId,
    anonDistinctId: identity.anonDistinctId,
    groups: identity.groups,
    personProperties: identity.personProperties,
    groupProperties: identity.groupProperties,
    geoProperties: NO_PROPERTIES,
    stored: NO_FACTS,
    selection: {
      keys: identity.flagKeys,
      contexts: identity.contexts,
      runtime: input.runtime,
      onlySurveyFlags: input.onlySurveyFlags,
    },
  };
  let needs = requirementsOf(flagSet, request);
  if (needs.geo && input.address !== null && !input.request.geoipDisabled) {
    const place = deps.geoIp.lookup(input.address);
    request.geoProperties = place instanceof Promise ? await place : place;
    needs = requirementsOf(flagSet, request);
  }
  if (needs.stored) {
    request.stored = await readFacts(deps, input.project.id, {
      request,
      flagSet,
      needs: needs.stored,
    });
  }
  const { evaluations, errorsWhileComputing, faults } = evaluateFlags(flagSet, request);
  for (const { key, error } of faults) {
    const context = `flag ${key} of project ${input.project.id} could not be evaluated`;
    deps.reportFault(error, context);
  }
  return { evaluations, errorsWhileComputing, requestId: deps.newUuid(), evaluatedAt: now };
}

const UNAVAILABLE: StoredFacts = Object.freeze({ person: "unavailable", groups: "unavailable" });

async function readFacts(
  deps: DecideDeps,
  projectId: number,
  {
    request,
    flagSet,
    needs,
  }: { request: EvaluationRequest; flagSet: FlagSet; needs: StoredRequirements },
): Promise<StoredFacts> {
  const { distinctId, anonDistinctId } = request;
  try {
    const asksForPerson = needs.person || needs.staticCohorts || needs.hashKeyOverrides;
    const ids = anonDistinctId === null ? [distinctId] : [distinctId, anonDistinctId];
    const settled = deps.pendingPersons.settled(projectId, {
      distinctIds: asksForPerson ? ids : [],
      groups: needs.groups,
    });
    if (settled) await settled;
    const query = { projectId, distinctId, anonDistinctId, ...needs };
    const facts = await deps.persons.factsFor(query);
    if (!needs.hashKeyOverrides || anonDistinctId === null) return facts;
    const known = overridesOf(facts);
    if (known === "unavailable") return facts;
    const lacking = continuityKeysToStore(flagSet, request, known);
    if (lacking.length === 0) return facts;
    return await keepAnonymousHash(deps, { query: { ...query, anonDistinctId }, lacking, facts });
  } catch (error) {
    deps.reportFault(error, "stored facts of a flag request could not be read");
    return UNAVAILABLE;
  }
}

/** Stores the anonymous id as hash key where there is none, then reads what holds (flag-evaluation 16.3). */
async function keepAnonymousHash(
  deps: DecideDeps,
  {
    query,
    lacking,
    facts,
  }: {
    query: FactsQuery & { readonly anonDistinctId: string };
    lacking: readonly string[];
    facts: StoredFacts;
  },
): Promise<StoredFacts> {
  try {
    await deps.persons.storeHashKeyOverrides(query.projectId, query, lacking);
    return await deps.persons.factsFor(query);
  } catch (error) {
    deps.reportFault(error, "hash keys of a flag request could not be stored");
    return { ...facts, anonymousHashKeyOverrides: "unavailable" };
  }
}

/** The overrides of each person there is, of either id. */
function overridesOf({
  person,
  anonymousHashKeyOverrides: anonymous,
}: StoredFacts): readonly ReadonlyMap<string, string>[] | "unavailable" {
  const own = person === "unavailable" ? person : person?.hashKeyOverrides;
  if (own === "unavailable" || anonymous === "unavailable") return "unavailable";
  return [own, anonymous].filter((overrides) => overrides !== undefined);
}
