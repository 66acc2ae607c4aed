import type { StoredPersonFacts } from "@hedgerow/core/flags/evaluation-request";
import type { JsonObject } from "@hedgerow/core/json";

/** A stored person as flags see them who meet them under the first of their distinct ids. */
export interface AudiencePerson {
  readonly uuid: string;
  /** The first in alphabetical order; empty for a person without any. */
  readonly distinctId: string;
  readonly facts: StoredPersonFacts;
}

export interface AudienceGroup {
  readonly key: string;
  readonly properties: JsonObject;
}

/** Everyone a project's flags may be about, to be gone through as a whole. */
export interface Audience {
  countPersons(projectId: number): Promise<number>;
  countGroups(projectId: number, typeIndex: number): Promise<number>;

  /**
   * All stored persons, newest first, in runs of which each takes some milliseconds. Hash keys of
   * experience continuity are read only where they are asked for.
   */
  persons(
    projectId: number,
    options: { readonly hashKeyOverrides: boolean },
  ): AsyncIterable<readonly AudiencePerson[]>;

  /** All stored groups of a type, newest first, in such runs. */
  groups(projectId: number, typeIndex: number): AsyncIterable<readonly AudienceGroup[]>;
}
