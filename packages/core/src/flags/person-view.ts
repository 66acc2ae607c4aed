import { type Json, type JsonObject, ownValue } from "../json.ts";
import type { StoredPersonFacts } from "./evaluation-request.ts";
import type { MatchContext } from "./match-property.ts";
import { createPatternBudget, type PatternBudget } from "./pattern.ts";
import type { PropertyName } from "./person-property.ts";

/** Stands for a stored fact that could not be read. */
export const UNAVAILABLE: unique symbol = Symbol("unavailable");

/** What a view of a person is made of; an evaluation request has it all. */
export interface PersonSources {
  readonly now: Date;
  readonly distinctId: string;
  readonly personProperties: JsonObject;
  readonly geoProperties: JsonObject;
  readonly stored: { readonly person: StoredPersonFacts | null | "unavailable" };
  readonly patternBudget?: PatternBudget;
}

/**
 * One person as filters see them: properties sent with the request, then those looked up from its
 * address, then stored ones, then `$initial_…` stand-ins (flag-evaluation 6.1 to 6.3). Nothing is
 * merged: a look-up walks the sources.
 */
export class PersonView implements MatchContext {
  // Declared fields and `private` instead of `#`: a view is made per request, and the latter cost
  // more to set up and to reach than all the rest of an evaluation does.
  declare readonly nowMs: number;
  declare readonly distinctId: string;
  declare readonly person: StoredPersonFacts | null | "unavailable";
  declare private readonly sent: JsonObject;
  declare private readonly geo: JsonObject;
  declare private readonly properties: JsonObject | null;
  declare private budget: PatternBudget | null;
  declare private memberships: Map<number, boolean | typeof UNAVAILABLE> | null;

  constructor(sources: PersonSources) {
    const { person } = sources.stored;
    this.nowMs = sources.now.getTime();
    this.distinctId = sources.distinctId;
    this.person = person;
    this.sent = sources.personProperties;
    this.geo = sources.geoProperties;
    this.properties = person === null || person === "unavailable" ? null : person.properties;
    this.budget = sources.patternBudget ?? null;
    this.memberships = null;
  }

  get patternBudget(): PatternBudget {
    this.budget ??= createPatternBudget();
    return this.budget;
  }

  /** The property's value, `undefined` where the person has none. */
  value(property: PropertyName): Json | undefined | typeof UNAVAILABLE {
    const value = this.ownOrStored(property);
    return value === undefined && property.standIn !== null
      ? this.ownOrStored(property.standIn)
      : value;
  }

  private ownOrStored(property: PropertyName): Json | undefined | typeof UNAVAILABLE {
    const sent = read(this.sent, property);
    if (sent !== undefined && sent !== null) return sent;
    // A property sent as null is filled from the address, but not from the store (6.3).
    const geo = read(this.geo, property);
    if (geo !== undefined) return geo;
    if (sent === null) return null;
    if (property.text === "distinct_id") return this.distinctId;
    if (this.person === "unavailable") return UNAVAILABLE;
    return this.properties === null ? undefined : read(this.properties, property);
  }

  /** When the person was first seen, as text dates are written; `undefined` for no person. */
  createdAt(): string | undefined | typeof UNAVAILABLE {
    if (this.person === "unavailable") return UNAVAILABLE;
    return this.person === null ? undefined : this.person.createdAt.toISOString();
  }

  isInStaticCohort(id: number): boolean | typeof UNAVAILABLE {
    if (this.person === "unavailable") return UNAVAILABLE;
    return this.person?.staticCohortIds.has(id) ?? false;
  }

  /** A cohort's result found earlier in this evaluation. */
  membership(id: number): boolean | typeof UNAVAILABLE | undefined {
    return this.memberships?.get(id);
  }

  rememberMembership(id: number, result: boolean | typeof UNAVAILABLE): void {
    this.memberships ??= new Map();
    this.memberships.set(id, result);
  }
}

/** An own property's value; JSON has no `undefined`, so a plain read tells presence. */
export function read(object: JsonObject, property: PropertyName): Json | undefined {
  return property.isInherited ? ownValue(object, property.text) : object[property.text];
}
