import type { JsonObject } from "../json.ts";
import type { PatternBudget } from "./pattern.ts";

/** Which flags a request asks for (flag-evaluation 12). */
export interface FlagSelection {
  /** Only these keys and their dependencies; `null` for all. */
  readonly keys: readonly string[] | null;
  /** `null` when the request named none: flags with contexts are then evaluated too. */
  readonly contexts: readonly string[] | null;
  /** The runtime read off the request; `null` when it cannot be told: only `all` flags then. */
  readonly runtime: "client" | "server" | null;
  readonly onlySurveyFlags: boolean;
}

/**
 * Who is asking and with what. Everything evaluation reads: there is no look-up behind it.
 * Group names are group type names (`company`), not indexes.
 */
export interface EvaluationRequest {
  readonly now: Date;
  readonly distinctId: string;
  readonly deviceId: string | null;
  /** `$anon_distinct_id`: the id before identification, for experience continuity. */
  readonly anonDistinctId: string | null;
  /** Group keys by group type name. */
  readonly groups: Readonly<Record<string, string>>;
  /** Properties sent with the request; they win over stored ones. */
  readonly personProperties: JsonObject;
  readonly groupProperties: Readonly<Record<string, JsonObject>>;
  /** `$geoip_*` looked up from the request's address: below sent, above stored. */
  readonly geoProperties: JsonObject;
  readonly stored: StoredFacts;
  readonly selection: FlagSelection;
  /** A fresh budget to take from, for callers who want to know what was taken. */
  readonly patternBudget?: PatternBudget;
}

/** What the stores know of the person and groups of a request. */
export interface StoredFacts {
  /** `null`: no such person; `"unavailable"`: the store could not be read (flags needing it fail). */
  readonly person: StoredPersonFacts | null | "unavailable";
  /** By group type name; a missing entry means no stored properties. */
  readonly groups: Readonly<Record<string, JsonObject>> | "unavailable";
  /**
   * Hash key overrides of the person of `anonDistinctId`, where that is not `person`; absent where
   * there is no such person. They count after those of `person` (flag-evaluation 16.4).
   */
  readonly anonymousHashKeyOverrides?: HashKeyOverrides;
}

/** Experience continuity: flag key to stored hash key; `"unavailable"` if they could not be read. */
export type HashKeyOverrides = ReadonlyMap<string, string> | "unavailable";

/** The stored half of a person. */
export interface StoredPersonFacts {
  readonly properties: JsonObject;
  readonly createdAt: Date;
  /** Ids of the static cohorts the person is in. */
  readonly staticCohortIds: ReadonlySet<number>;
  readonly hashKeyOverrides: HashKeyOverrides;
}
