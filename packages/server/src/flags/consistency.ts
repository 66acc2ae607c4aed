import { encodeJson, parseExactJson } from "@hedgerow/core/exact-json";
import { evaluateFlags } from "@hedgerow/core/flags/evaluate-flags";
import type { EvaluationRequest, StoredFacts } from "@hedgerow/core/flags/evaluation-request";
import type {
  CohortDefinition,
  FlagDefinition,
  ProjectDefinitions,
} from "@hedgerow/core/flags/flag";
import type { CompiledFlag, FlagSet } from "@hedgerow/core/flags/flag-set";
import { isJsonObject, type Json, type JsonObject, ownValue } from "@hedgerow/core/json";
import { createSlices } from "../platform/slices.ts";
import type { Audience, AudienceGroup } from "./audience.ts";
import type { CompiledFlags, FlagSnapshot } from "./compiled-flags.ts";
import type { VersionedDefinitions } from "./flag-store.ts";
import type { FeedOptions } from "./local-evaluation.ts";

/** What SDKs are sent, as far as they decide by it. */
export interface LocalFeed {
  readonly flags: readonly {
    readonly id: number;
    readonly key: string;
    readonly name: string;
    readonly active: boolean;
    readonly version: number;
    readonly filters: object;
    readonly ensure_experience_continuity: boolean;
    readonly bucketing_identifier: string;
  }[];
  readonly group_type_mapping: Readonly<Record<string, string>>;
  readonly cohorts: Readonly<Record<string, unknown>>;
}

/** A flag that has another value where SDKs evaluate it than where the server does. */
export interface FlagDifference {
  readonly key: string;
  /** Which definitions: with cohorts beside the flags, or restated without them. */
  readonly feed: "with_cohorts" | "without_cohorts";
  /** Both `null` where persons are not to be named. */
  readonly distinctId: string | null;
  readonly personId: string | null;
  readonly local: boolean | string;
  readonly server: boolean | string;
}

export interface ConsistencyReport {
  readonly flags: number;
  /** Flags that SDKs leave to the server for everyone: nothing is compared of them. */
  readonly leftToServer: number;
  readonly persons: number;
  /** True when comparing took too long: it ended before all persons that were asked for. */
  readonly isPartial: boolean;
  readonly compared: number;
  readonly differing: number;
  /** The first differences. */
  readonly differences: readonly FlagDifference[];
}

/**
 * Evaluates every flag that SDKs decide themselves for stored persons, the newest first: by what the
 * definitions feed says with everything known of the person sent along, and as a flag request
 * would. Both ought to agree for all; a report says whether they do.
 */
export type CheckConsistency = (
  projectId: number,
  options: { readonly maxPersons: number },
) => Promise<ConsistencyReport>;

const MAX_DIFFERENCES = 100;
/** Comparing for somebody who waits ends here. */
const MAX_COMPARE_MS = 10_000;
const FEEDS = [
  { feed: "with_cohorts", sendCohorts: true },
  { feed: "without_cohorts", sendCohorts: false },
] as const;

/** {@link CheckConsistency} over all that is stored. */
export function createCheckConsistency({
  audience,
  compiledFlags,
  compile,
  feedOf,
  clock,
  maxCompareMs = MAX_COMPARE_MS,
}: {
  audience: Audience;
  compiledFlags: Pick<CompiledFlags, "get">;
  compile: (definitions: ProjectDefinitions) => FlagSet;
  /** The definitions feed in its wire form. */
  feedOf: (projectId: number, definitions: VersionedDefinitions, options: FeedOptions) => LocalFeed;
  clock: () => Date;
  /** After so long a report tells of the persons compared by then. */
  maxCompareMs?: number;
}): CheckConsistency {
  return async (projectId, { maxPersons }) => {
    const snapshot = await compiledFlags.get(projectId);
    const locals = FEEDS.map(({ feed, sendCohorts }) => {
      const body = feedOf(projectId, snapshot.definitions, {
        sendCohorts,
        forOlderSdks: false,
      });
      // What arrives is JSON: nothing may hang on what it was made from.
      const received = parseExactJson(encodeJson(body)) as unknown as LocalFeed;
      const set = compile(definitionsOf(received, snapshot));
      return { feed, set, decidable: decidableOf(set, received) };
    });
    const groupsOf = await sampleGroups(projectId, snapshot);
    const now = clock();
    const differences: FlagDifference[] = [];
    const decided = new Set<string>();
    let differing = 0;
    let compared = 0;
    let persons = 0;
    let isPartial = false;
    const slices = createSlices();
    const endMs = performance.now() + maxCompareMs;

    people: for await (const run of audience.persons(projectId, { hashKeyOverrides: true })) {
      for (const { uuid, distinctId, facts } of run) {
        if (persons === maxPersons) break people;
        if (persons > 0 && performance.now() > endMs) {
          isPartial = true;
          break people;
        }
        const groups = groupsOf(persons);
        persons += 1;
        const names = Object.entries(groups);
        const keys = Object.fromEntries(names.map(([name, { key }]) => [name, key]));
        const properties = Object.fromEntries(
          names.map(([name, group]) => [name, group.properties]),
        );
        if (slices.isOver()) await slices.next();
        const server = valuesOf(snapshot.flagSet, {
          ...asking(now, distinctId, keys),
          stored: { person: facts, groups: properties },
        });
        for (const { feed, set, decidable } of locals) {
          if (slices.isOver()) await slices.next();
          const local = valuesOf(set, {
            ...asking(now, distinctId, keys),
            personProperties: facts.properties,
            groupProperties: properties,
          });
          for (const key of decidable) {
            const [here, there] = [local.get(key) ?? false, server.get(key) ?? false];
            decided.add(key);
            compared += 1;
            if (here === there) continue;
            differing += 1;
            if (differences.length === MAX_DIFFERENCES) continue;
            differences.push({ key, feed, distinctId, personId: uuid, local: here, server: there });
          }
        }
      }
    }
    const { length } = snapshot.definitions.flags;
    const leftToServer = snapshot.definitions.flags.filter(
      ({ key }) => !locals.some(({ decidable }) => decidable.includes(key)),
    ).length;
    return { flags: length, leftToServer, persons, isPartial, compared, differing, differences };
  };

  /** Tells the groups of the n-th person: the stored groups of each type, taken in turns. */
  async function sampleGroups(projectId: number, { definitions }: FlagSnapshot) {
    const samples: [string, readonly AudienceGroup[]][] = [];
    for (const { index, name } of definitions.groupTypes) {
      for await (const groups of audience.groups(projectId, index)) {
        samples.push([name, groups]);
        break;
      }
    }
    return (at: number): Readonly<Record<string, AudienceGroup>> =>
      Object.fromEntries(
        samples.flatMap(([name, groups]) => {
          const group = groups[at % groups.length];
          return group ? [[name, group] as const] : [];
        }),
      );
  }
}

const NOTHING_STORED: StoredFacts = { person: null, groups: {} };

function asking(
  now: Date,
  distinctId: string,
  groups: Readonly<Record<string, string>>,
): Omit<EvaluationRequest, "selection"> {
  return {
    now,
    distinctId,
    deviceId: null,
    anonDistinctId: null,
    groups,
    personProperties: {},
    groupProperties: {},
    geoProperties: {},
    stored: NOTHING_STORED,
  };
}

/** The value of every flag, whatever runtime it is for. */
function valuesOf(set: FlagSet, request: Omit<EvaluationRequest, "selection">) {
  const values = new Map<string, boolean | string>();
  for (const runtime of ["client", "server"] as const) {
    const selection = { keys: null, contexts: null, runtime, onlySurveyFlags: false };
    for (const { flag, value } of evaluateFlags(set, { ...request, selection }).evaluations) {
      values.set(flag.key, value);
    }
  }
  return values;
}

/** A project as an SDK has it: by what the feed tells, and by nothing else. */
function definitionsOf(feed: LocalFeed, { definitions }: FlagSnapshot): ProjectDefinitions {
  return {
    timeZone: definitions.timeZone,
    groupTypes: Object.entries(feed.group_type_mapping).map(([index, name]) => ({
      index: Number(index),
      name,
    })),
    flags: feed.flags.map(
      (flag): FlagDefinition => ({
        id: flag.id,
        key: flag.key,
        name: flag.name,
        active: flag.active,
        version: flag.version,
        filters: flag.filters as JsonObject,
        ensureExperienceContinuity: flag.ensure_experience_continuity,
        bucketingIdentifier:
          flag.bucketing_identifier === "device_id" ? "device_id" : "distinct_id",
        evaluationRuntime: "all",
        evaluationContexts: [],
        hasExperiment: false,
        isSurveyFlag: false,
      }),
    ),
    cohorts: Object.entries(feed.cohorts).flatMap(([id, rule]): CohortDefinition[] =>
      isJsonObject(rule)
        ? [
            {
              id: Number(id),
              name: "",
              isStatic: false,
              filters: { properties: asServersReadIt(rule) },
            },
          ]
        : [],
    ),
  };
}

/**
 * A rule of the feed in the server's words. SDKs heed the negation of a nested cohort everywhere, the
 * server does not in an OR group (flag-evaluation 10.5): it says `not_in`.
 */
function asServersReadIt(rule: JsonObject): JsonObject {
  const values = ownValue(rule, "values");
  if (Array.isArray(values)) {
    const read = (values as readonly Json[]).map((value) =>
      isJsonObject(value) ? asServersReadIt(value) : value,
    );
    return { ...rule, values: read };
  }
  if (ownValue(rule, "type") !== "cohort") return rule;
  const { negation, ...others } = rule;
  return { ...others, operator: negation === true ? "not_in" : "in" };
}

/** Keys of the flags that an SDK decides by itself, given every property of a person. */
function decidableOf(set: FlagSet, feed: LocalFeed): readonly string[] {
  const left = new Set(
    feed.flags.filter((flag) => flag.ensure_experience_continuity).map(({ key }) => key),
  );
  const decided = new Map<CompiledFlag, boolean>();
  // Dependencies come before those that depend on them.
  for (const flag of set.flags) {
    const dependencies = set.dependencies.ofFlags.get(flag);
    const isDecided =
      flag.failure === null &&
      !left.has(flag.definition.key) &&
      !flag.needs.createdAt &&
      !flag.needs.staticCohorts &&
      !flag.isDeviceBucketed &&
      !namesUnknownCohort(flag) &&
      !(dependencies?.isMissingOne ?? false) &&
      (dependencies?.flags ?? []).every((needed) => decided.get(needed) ?? false);
    decided.set(flag, isDecided);
  }
  const off = feed.flags.filter(({ active }) => !active).map(({ key }) => key);
  return [...off, ...[...decided].filter(([, is]) => is).map(([flag]) => flag.definition.key)];
}

function namesUnknownCohort({ conditions }: CompiledFlag): boolean {
  return conditions.some(({ filters }) =>
    filters.some(
      (filter) =>
        filter.kind === "cohort" && (filter.cohort === null || filter.cohort.failure !== null),
    ),
  );
}
