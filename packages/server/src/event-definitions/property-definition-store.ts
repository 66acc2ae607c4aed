import type { PropertyType } from "@hedgerow/core/events/property-type";
import { CAMPAIGN_PARAMETERS } from "@hedgerow/core/persons/tracked-properties";
import type { Definition, DefinitionWrite } from "./event-definition-store.ts";
import type { PropertySubject } from "./sighting-store.ts";

/** Properties of SDKs whose names do not begin with `$`: where visitors came from. */
export const OFFICIAL_PROPERTY_NAMES: readonly string[] = [
  ...CAMPAIGN_PARAMETERS,
  "distinct_id",
  "token",
];

/** A property that events carried. */
export interface PropertyDefinition extends Definition {
  readonly subject: PropertySubject;
  /** `null` until a value with a type comes. */
  readonly type: PropertyType | null;
  readonly isNumerical: boolean;
}

/** The fields that users decide. */
export type PropertyDefinitionFields = Pick<
  PropertyDefinition,
  | "description"
  | "tags"
  | "type"
  | "isNumerical"
  | "verified"
  | "verifiedAt"
  | "verifiedById"
  | "hidden"
>;

/** A property of a list, with whether one of the events asked about carries it. */
export interface ListedProperty {
  readonly definition: PropertyDefinition;
  /** `null` where no events were asked about. */
  readonly isSeenOnEvents: boolean | null;
}

export interface PropertyDefinitionQuery {
  readonly subject: PropertySubject;
  /** Words that the name has to contain, whatever their case. */
  readonly words: readonly string[];
  /** Only these; `null` for all. */
  readonly names: readonly string[] | null;
  readonly excludedNames: readonly string[];
  /** Events to ask about. */
  readonly eventNames: readonly string[] | null;
  /** Leaves out what none of `eventNames` carries. */
  readonly onlySeenOnEvents: boolean;
  /** Properties that carry the values of flags: only those, or all others. */
  readonly isFlagValue: boolean | null;
  readonly isNumerical: boolean | null;
  /** Leaves out what SDKs send by themselves. */
  readonly excludeOfficial: boolean;
  readonly excludeHidden: boolean;
  readonly verified: boolean | null;
  /** Any of these; `null` for no such condition. */
  readonly tags: readonly string[] | null;
  readonly limit: number;
  readonly offset: number;
}

/** Property definitions as users handle them. Events make them: see `SightingStore`. */
export interface PropertyDefinitionStore {
  /** `undefined` when the project has no such definition. */
  update(
    projectId: number,
    id: string,
    change: Partial<PropertyDefinitionFields>,
    write: DefinitionWrite<PropertyDefinition>,
  ): Promise<PropertyDefinition | undefined>;

  /** False when there is no such definition. */
  delete(
    projectId: number,
    id: string,
    write: DefinitionWrite<PropertyDefinition>,
  ): Promise<boolean>;

  definition(projectId: number, id: string): Promise<PropertyDefinition | undefined>;

  /** Those on the events asked about first, then by name. */
  list(
    projectId: number,
    query: PropertyDefinitionQuery,
  ): Promise<{ count: number; properties: readonly ListedProperty[] }>;
}
