import { evaluateFlags } from "@hedgerow/core/flags/evaluate-flags";
import { continuityKeysToStore, requirementsOf } from "@hedgerow/core/flags/requirements";
import type { EvaluationRequest, FlagSelection, StoredFacts } from "@hedgerow/core/flags/evaluation-request";
import type { JsonObject } from "@hedgerow/core/json";
import type { Project } from "../accounts/account-store.ts";
import type { PendingPersons } from "../events/pending-persons.ts";
import type { GeoIp } from "../persons/geo-ip.ts";
import type { PersonStore } from "../persons/person-store.ts";
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
    return { evaluations: [], errorsWhileComputing: false, requestId: deps.newUuid(), evaluatedAt: now };
  }
  const found = deps.compiledFlags.get(input.project.id);
  const { flagSet } = found instanceof Promise ? await found : found;
  const { flagKeys, contexts, ...person } = identity;
  const unread: EvaluationRequest = {
    ...person,
    now,
    geoProperties: NO_PROPERTIES,
    stored: NO_FACTS,
    selection: { keys: flagKeys, contexts, runtime: input.runtime, onlySurveyFlags: input.onlySurveyFlags },
  };
  const needs = requirementsOf(flagSet, unread);
  const request: EvaluationRequest = {
    ...unread,
    geoProperties:
      needs.geo && input.address !== null && !input.request.geoipDisabled
        ? deps.geoIp.lookup(input.address)
        : NO_PROPERTIES,
    stored: needs.stored ? await readFacts(deps, input.project, unread, needs.stored) : NO_FACTS,
  };
  const { evaluations, errorsWhileComputing } = evaluateFlags(flagSet, request);
  return { evaluations, errorsWhileComputing, requestId: deps.newUuid(), evaluatedAt: now };
}
