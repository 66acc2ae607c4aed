import type { ActivityDraft } from "../activity/activity-log.ts";

/** Events of SDKs whose names, unlike those of all others, do not begin with `$`. */
export const OFFICIAL_EVENT_NAMES: readonly string[] = [
  "Application Backgrounded",
  "Application Became Active",
  "Application Installed",
  "Application Opened",
  "Application Updated",
  "Deep Link Opened",
];

/** What definitions of events and of properties have in common. */
export interface Definition {
  /** UUID. */
  readonly id: string;
  readonly projectId: number;
  readonly name: string;
  readonly description: string | null;
  readonly createdAt: Date;
  /** Of the last change by a user. */
  readonly updatedAt: Date | null;
  /** User ids; `null` where there is none, or none any more. */
  readonly updatedById: number | null;
  readonly verified: boolean;
  readonly verifiedAt: Date | null;
  readonly verifiedById: number | null;
  readonly hidden: boolean;
  readonly tags: readonly string[];
}

/** An event that a project has sent, or has declared that it will. */
export interface EventDefinition extends Definition {
  /** A user id, as in {@link Definition}. */
  readonly ownerId: number | null;
  /** `null` for a declared event that has not come yet. Some minutes coarse. */
  readonly lastSeenAt: Date | null;
  readonly defaultColumns: readonly string[];
  readonly postToSlack: boolean;
}

/** The fields that users decide. */
export type EventDefinitionFields = Pick<
  EventDefinition,
  | "description"
  | "ownerId"
  | "verified"
  | "verifiedAt"
  | "verifiedById"
  | "hidden"
  | "tags"
  | "defaultColumns"
  | "postToSlack"
>;

/** Who changes something, and when. */
export interface DefinitionWrite<Definition> {
  readonly authorId: number;
  readonly now: Date;
  /**
   * Tells the activity of a change from the record before it (`null` for a new one) and after it
   * (`null` for one that is deleted). The store keeps it in the transaction of the change; `null`
   * keeps none.
   */
  readonly describe?: (before: Definition | null, after: Definition | null) => ActivityDraft | null;
}

export interface EventDefinitionOrder {
  readonly by: "name" | "createdAt" | "lastSeenAt" | "lastSeenDay";
  readonly descending: boolean;
}

export interface EventDefinitionQuery {
  /** Words that the name has to contain, whatever their case. */
  readonly words: readonly string[];
  /** `official`: names given by SDKs; `custom`: all others. */
  readonly origin: "official" | "custom" | null;
  readonly excludeHidden: boolean;
  readonly verified: boolean | null;
  /** Any of these; `null` for no such condition. */
  readonly tags: readonly string[] | null;
  readonly excludedNames: readonly string[];
  /** The first decides, the next among equals; unknown instants come last. */
  readonly order: readonly EventDefinitionOrder[];
  readonly limit: number;
  readonly offset: number;
}

/** Event definitions as users handle them. Events make them by themselves: see `SightingStore`. */
export interface EventDefinitionStore {
  /** A definition before its first event, with a new id. */
  declare(
    projectId: number,
    name: string,
    fields: EventDefinitionFields,
    write: DefinitionWrite<EventDefinition>,
  ): Promise<EventDefinition | "duplicate-name" | "limit-reached">;

  /** `undefined` when the project has no such definition. */
  update(
    projectId: number,
    id: string,
    change: Partial<EventDefinitionFields>,
    write: DefinitionWrite<EventDefinition>,
  ): Promise<EventDefinition | undefined>;

  /** Forgets an event and the properties it came with; false when there is no such definition. */
  delete(projectId: number, id: string, write: DefinitionWrite<EventDefinition>): Promise<boolean>;

  definition(projectId: number, id: string): Promise<EventDefinition | undefined>;
  definitionByName(projectId: number, name: string): Promise<EventDefinition | undefined>;

  /** Equals of the order come by name. */
  list(
    projectId: number,
    query: EventDefinitionQuery,
  ): Promise<{ count: number; definitions: readonly EventDefinition[] }>;
}
