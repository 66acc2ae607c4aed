import { evaluateFlags } from "@hedgerow/core/flags/evaluate-flags";
import type { EvaluationRequest, StoredFacts } from "@hedgerow/core/flags/evaluation-request";
import type { FlagEvaluation } from "@hedgerow/core/flags/flag";
import type { FlagSet, SelectedFlags } from "@hedgerow/core/flags/flag-set";
import {
  continuityKeysToStore,
  type Requirements,
  requirementsOf,
  type StoredRequirements,
} from "@hedgerow/core/flags/requirements";
import { selectFlags } from "@hedgerow/core/flags/select-flags";
import type { JsonObject } from "@hedgerow/core/json";
import type { FastifyRequest } from "fastify";
import type { Project } from "../accounts/account-store.ts";
import type { PendingPersons } from "../events/pending-persons.ts";
import { geoAddressOf } from "../http/client-address.ts";
import type { GeoIp } from "../persons/geo-ip.ts";
import type { FactsQuery, PersonStore } from "../persons/person-store.ts";
import type { CompiledFlags } from "./compiled-flags.ts";
import { detectRuntime } from "./detect-runtime.ts";
import type { FlagAnswer } from "./flag-answer.ts";
import type { FlagRequest, Identity } from "./flag-request.ts";
import { flagsForGroups } from "./flags-for-groups.ts";

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
  /** Told of every answer; absent where nobody counts. */
  readonly onDecided?: (
    projectId: number,
    evaluations: readonly FlagEvaluation[],
    now: Date,
  ) => void;
}

export interface DecideInput {
  readonly project: Project;
  readonly request: FlagRequest;
  /** Who asks: where the request comes from in the world, and on what, is read off it if need be. */
  readonly caller: Pick<FastifyRequest, "headers" | "ip">;
  readonly onlySurveyFlags: boolean;
}

/** A request on its way: what is looked up is filled in, and decides what else has to be. */
type OpenRequest = { -readonly [Field in keyof EvaluationRequest]: EvaluationRequest[Field] };

const NO_FACTS: StoredFacts = Object.freeze({ person: null, groups: Object.freeze({}) });
const NO_PROPERTIES: JsonObject = Object.freeze({});

/**
 * Evaluates a project's flags for one request. Reads stored facts only where some asked-for flag
 * needs what the request does not carry, and waits for captured events of the same ids that are not
 * applied yet. A store that fails costs only the flags that need it: never throws for that. Where
 * nothing is read, no promise is made.
 */
export function decide(deps: DecideDeps, input: DecideInput): FlagAnswer | Promise<FlagAnswer> {
  const { identity } = input.request;
  if (identity === null) {
    const nothing = { evaluations: [], errorsWhileComputing: false };
    return { ...nothing, requestId: deps.newUuid(), evaluatedAt: deps.clock() };
  }
  const found = flagsForGroups(deps, input.project.id, identity.groups);
  return found instanceof Promise
    ? found.then(({ flagSet }) => decideWith(deps, input, { identity, flagSet }))
    : decideWith(deps, input, { identity, flagSet: found.flagSet });
}

function decideWith(
  deps: DecideDeps,
  input: DecideInput,
  { identity, flagSet }: { identity: Identity; flagSet: FlagSet },
): FlagAnswer | Promise<FlagAnswer> {
  const { request: asked, caller } = input;
  const request: OpenRequest = {
    now: deps.clock(),
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
      // Read off the headers only where it matters.
      runtime: flagSet.limits.runtime ? (asked.runtime ?? detectRuntime(caller.headers)) : null,
      onlySurveyFlags: input.onlySurveyFlags,
    },
  };
  const selected = selectFlags(flagSet, request.selection);
  const needs = requirementsOf(flagSet, request, selected);
  const evaluate = () => evaluateFor(deps, input.project.id, { flagSet, request, selected });
  if (needs.geo) return lookUp(deps, input, { flagSet, request, selected, needs }).then(evaluate);
  if (!needs.stored) return evaluate();
  const stored = readFacts(deps, input.project.id, { request, flagSet, needs: needs.stored });
  if (stored instanceof Promise) {
    return stored.then((facts) => {
      request.stored = facts;
      return evaluate();
    });
  }
  request.stored = stored;
  return evaluate();
}

/** What one evaluation is made of. */
interface Asked {
  readonly flagSet: FlagSet;
  readonly request: OpenRequest;
  readonly selected: SelectedFlags;
}

function evaluateFor(
  deps: DecideDeps,
  projectId: number,
  { flagSet, request, selected }: Asked,
): FlagAnswer {
  const { evaluations, errorsWhileComputing, faults } = evaluateFlags(flagSet, request, selected);
  for (const { key, error } of faults) {
    deps.reportFault(error, `flag ${key} of project ${projectId} could not be evaluated`);
  }
  deps.onDecided?.(projectId, evaluations, request.now);
  return {
    evaluations,
    errorsWhileComputing,
    requestId: deps.newUuid(),
    evaluatedAt: request.now,
  };
}

/** Fills in what the flags need and the request does not carry: the place first, then stored facts. */
async function lookUp(
  deps: DecideDeps,
  { project, request: asked, caller }: DecideInput,
  { flagSet, request, selected, needs }: Asked & { readonly needs: Requirements },
): Promise<void> {
  let { stored } = needs;
  const address = needs.geo && !asked.geoipDisabled ? geoAddressOf(caller) : null;
  if (address !== null) {
    const place = deps.geoIp.lookup(address);
    request.geoProperties = place instanceof Promise ? await place : place;
    stored = requirementsOf(flagSet, request, selected).stored;
  }
  if (stored)
    request.stored = await readFacts(deps, project.id, { request, flagSet, needs: stored });
}

const UNAVAILABLE: StoredFacts = Object.freeze({ person: "unavailable", groups: "unavailable" });

function readFacts(
  deps: DecideDeps,
  projectId: number,
  {
    request,
    flagSet,
    needs,
  }: { request: EvaluationRequest; flagSet: FlagSet; needs: StoredRequirements },
): StoredFacts | Promise<StoredFacts> {
  const { distinctId, anonDistinctId } = request;
  const { person, staticCohorts, hashKeyOverrides, groups } = needs;
  const query = { projectId, distinctId, anonDistinctId, ...needs };
  const unavailable = (error: unknown): StoredFacts => {
    deps.reportFault(error, "stored facts of a flag request could not be read");
    return UNAVAILABLE;
  };
  const complete = (facts: StoredFacts): StoredFacts | Promise<StoredFacts> => {
    if (!hashKeyOverrides || anonDistinctId === null) return facts;
    const known = overridesOf(facts);
    if (known === "unavailable") return facts;
    const lacking = continuityKeysToStore(flagSet, request, known);
    if (lacking.length === 0) return facts;
    return keepAnonymousHash(deps, { query: { ...query, anonDistinctId }, lacking, facts });
  };
  try {
    const ids = anonDistinctId === null ? [distinctId] : [distinctId, anonDistinctId];
    const settled = deps.pendingPersons.settled(projectId, {
      distinctIds: person || staticCohorts || hashKeyOverrides ? ids : [],
      groups,
    });
    const found = settled
      ? settled.then(() => deps.persons.factsFor(query))
      : deps.persons.factsFor(query);
    return found instanceof Promise ? found.then(complete).catch(unavailable) : complete(found);
  } catch (error) {
    return unavailable(error);
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
