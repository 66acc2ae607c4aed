import type { PropertyType } from "@hedgerow/core/events/property-type";

/** Most definitions that a project may have of each kind, and most pairs of an event and a property. */
export const MAX_EVENT_DEFINITIONS = 10_000;
export const MAX_PROPERTY_DEFINITIONS = 10_000;
export const MAX_EVENT_PROPERTIES = 200_000;
/** Longest name of an event or property that gets a definition, in UTF-16 units. */
export const MAX_DEFINITION_NAME_LENGTH = 200;

/** Whom a property describes. Group properties are told apart by the index of their group type. */
export type PropertySubject =
  | { readonly kind: "event" }
  | { readonly kind: "person" }
  | { readonly kind: "group"; readonly groupTypeIndex: number };

export interface EventSighting {
  readonly name: string;
  readonly firstSeenAt: Date;
  readonly lastSeenAt: Date;
}

export interface PropertySighting {
  readonly subject: PropertySubject;
  readonly name: string;
  /** `null` where no value seen had a type. */
  readonly type: PropertyType | null;
  readonly seenAt: Date;
}

/** What was seen in a project's events since the last time. No name stands twice. */
export interface Sightings {
  readonly projectId: number;
  readonly events: readonly EventSighting[];
  readonly properties: readonly PropertySighting[];
  /** Event properties by the name of the event they came with. */
  readonly pairs: ReadonlyMap<string, ReadonlySet<string>>;
}

/** How much was left out because the project has as many as it may. */
export interface RefusedSightings {
  readonly events: number;
  readonly properties: number;
  readonly pairs: number;
}

/** Where definitions are made from what events show. */
export interface SightingStore {
  /**
   * Makes the definitions that are missing, moves `lastSeenAt` of the others on, and gives a type to
   * properties that have none. May be repeated, and may be cut short by a fault: what is recorded
   * then stays. Sightings of a project that does not exist are left out.
   */
  record(sightings: Sightings): Promise<RefusedSightings>;

  /** Log position up to which stored events have been recorded; 0 at first. */
  position(): Promise<number>;

  /** Moves the position on; never back. */
  moveTo(position: number): Promise<void>;
}
