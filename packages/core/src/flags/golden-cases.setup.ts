import type { Json, JsonObject } from "../json.ts";
import type { EvaluationRequest } from "./evaluation-request.ts";
import type { CohortDefinition, FlagDefinition, ProjectDefinitions } from "./flag.ts";
import type { BacktrackingPatterns } from "./pattern.ts";

/** Enough of a backtracking engine for golden cases, none of which is evil. */
export const TRUSTING_PATTERNS: BacktrackingPatterns = {
  compile(source, flags) {
    try {
      const pattern = new RegExp(source, flags);
      return { test: (subject) => pattern.test(subject) };
    } catch {
      return null;
    }
  },
};

export function flagDefinition(
  flag: Partial<FlagDefinition> & { readonly key: string },
): FlagDefinition {
  return {
    id: 1,
    name: "",
    active: true,
    version: 1,
    filters: {},
    ensureExperienceContinuity: false,
    bucketingIdentifier: "distinct_id",
    evaluationRuntime: "all",
    evaluationContexts: [],
    hasExperiment: false,
    isSurveyFlag: false,
    ...flag,
  };
}

export function projectOf(
  flags: readonly FlagDefinition[],
  rest: Partial<ProjectDefinitions> = {},
): ProjectDefinitions {
  return { flags, cohorts: [], groupTypes: [], timeZone: "UTC", ...rest };
}

export function dynamicCohort(id: number, properties: Json): CohortDefinition {
  return { id, name: `cohort ${id}`, isStatic: false, filters: { properties } };
}

export function staticCohort(id: number): CohortDefinition {
  return { id, name: `cohort ${id}`, isStatic: true, filters: {} };
}

export function evaluationRequest(request: Partial<EvaluationRequest> = {}): EvaluationRequest {
  return {
    now: new Date("2025-06-01T12:00:00Z"),
    distinctId: "user-1",
    deviceId: null,
    anonDistinctId: null,
    groups: {},
    personProperties: {},
    groupProperties: {},
    geoProperties: {},
    stored: { person: null, groups: {} },
    selection: { keys: null, contexts: null, runtime: null, onlySurveyFlags: false },
    ...request,
  };
}

/** A stored person with these properties and nothing else. */
export function storedPerson(
  properties: JsonObject,
  rest: {
    staticCohortIds?: readonly number[];
    hashKeyOverrides?: Readonly<Record<string, string>>;
  } = {},
): EvaluationRequest["stored"] {
  return {
    person: {
      properties,
      createdAt: new Date("2024-01-01T00:00:00Z"),
      staticCohortIds: new Set(rest.staticCohortIds ?? []),
      hashKeyOverrides: new Map(Object.entries(rest.hashKeyOverrides ?? {})),
    },
    groups: {},
  };
}

/** A case of flags.json, mode server. */
export interface GoldenFlagCase {
  readonly id: string;
  readonly mode: "server" | "local";
  readonly definitions: {
    readonly flags: readonly {
      readonly id: number;
      readonly key: string;
      readonly active: boolean;
      readonly filters: JsonObject;
      readonly version?: number;
      readonly ensure_experience_continuity?: boolean;
      readonly bucketing_identifier?: "distinct_id" | "device_id" | null;
    }[];
    readonly group_type_mapping?: Readonly<Record<string, string>>;
    readonly cohorts?: Readonly<
      Record<string, { readonly is_static: boolean; readonly filters?: JsonObject }>
    >;
  };
  readonly request: {
    readonly distinct_id: string;
    readonly device_id?: string;
    readonly anon_distinct_id?: string;
    readonly groups?: Readonly<Record<string, Json>>;
    readonly person_properties?: JsonObject;
    readonly group_properties?: Readonly<Record<string, JsonObject>>;
    readonly stored?: {
      readonly person_properties?: JsonObject;
      readonly group_properties?: Readonly<Record<string, JsonObject>>;
      readonly static_cohort_membership?: Readonly<Record<string, boolean>>;
      readonly hash_key_overrides?: Readonly<Record<string, string>>;
    };
  };
  readonly expected: {
    readonly flags: Readonly<
      Record<
        string,
        {
          readonly value: boolean | string;
          readonly payload?: Json;
          readonly reason?: { readonly code?: string; readonly condition_index?: number | null };
        }
      >
    >;
    readonly errorsWhileComputingFlags: boolean;
    readonly omitted?: readonly string[];
  };
}

export function definitionsOf(golden: GoldenFlagCase): ProjectDefinitions {
  const { flags, group_type_mapping, cohorts } = golden.definitions;
  return projectOf(
    flags.map((flag) =>
      flagDefinition({
        id: flag.id,
        key: flag.key,
        active: flag.active,
        filters: flag.filters,
        version: flag.version ?? 1,
        ensureExperienceContinuity: flag.ensure_experience_continuity ?? false,
        bucketingIdentifier: flag.bucketing_identifier ?? "distinct_id",
      }),
    ),
    {
      cohorts: Object.entries(cohorts ?? {}).map(([id, cohort]) => ({
        id: Number(id),
        name: `cohort ${id}`,
        isStatic: cohort.is_static,
        filters: cohort.filters ?? {},
      })),
      groupTypes: Object.entries(group_type_mapping ?? {}).map(([index, name]) => ({
        index: Number(index),
        name,
      })),
    },
  );
}

export function requestOf(golden: GoldenFlagCase): EvaluationRequest {
  const { request } = golden;
  const { stored } = request;
  const members = Object.entries(stored?.static_cohort_membership ?? {}).filter(([, is]) => is);
  return evaluationRequest({
    distinctId: request.distinct_id,
    deviceId: request.device_id ?? null,
    anonDistinctId: request.anon_distinct_id ?? null,
    groups: Object.fromEntries(
      Object.entries(request.groups ?? {}).map(([type, key]) => [type, String(key)]),
    ),
    personProperties: request.person_properties ?? {},
    groupProperties: request.group_properties ?? {},
    stored:
      stored === undefined
        ? { person: null, groups: {} }
        : {
            ...storedPerson(stored.person_properties ?? {}, {
              staticCohortIds: members.map(([id]) => Number(id)),
              hashKeyOverrides: stored.hash_key_overrides ?? {},
            }),
            groups: stored.group_properties ?? {},
          },
  });
}
