import type { JsonObject } from "../json.ts";

/** An event as captured: complete, validated, with its time settled; what the log carries. */
export interface CapturedEvent {
  /** UUID, lower case; unique per project: the first one captured wins. */
  readonly uuid: string;
  readonly projectId: number;
  readonly event: string;
  readonly distinctId: string;
  /** All properties, `$set`, `$set_once`, `$unset` and `$ip` included, as the client sent them. */
  readonly properties: JsonObject;
  /** When it happened, after clock correction. */
  readonly timestamp: Date;
  /** What the client's clock said, where it said anything; `null` otherwise. */
  readonly clientTimestamp: Date | null;
  readonly receivedAt: Date;
}

/**
 * Properties that an event has got on its way. They stay apart from its own, none of which they are,
 * because many events get the same: joining the two for each costs more than anything else on the way.
 */
export interface AddedProperties {
  readonly properties: JsonObject;
  /** Their JSON text. */
  readonly text: string;
}

/** A log entry: an event and its position. Positions only grow; they may have gaps. */
export interface LoggedEvent {
  readonly position: number;
  readonly event: CapturedEvent;
  /** JSON text of the event's own properties, where it is at hand. */
  readonly propertiesText?: string | undefined;
  /** `false` where it is known that they hold no `bigint`. */
  readonly mayHoldBigInt?: boolean | undefined;
  /** What was added to its properties on the way; `wholeEntry` joins the two. */
  readonly added?: AddedProperties | undefined;
  /** Why the entry cannot be read, where it cannot; its event is then what is left of it. */
  readonly fault?: string;
  /** What became of the event in its project's transformations, where it is through them. */
  readonly passage?: Passage;
}

/** What transformations made of an event. */
export type Passage =
  | {
      readonly kind: "kept";
      /** Who changed it, in order. */
      readonly changedBy: readonly string[];
      /** Its uuid before, where that was replaced. */
      readonly renamedFrom?: string;
      /** And who replaced it, in order, where that is known. */
      readonly renamedBy?: readonly string[];
    }
  | { readonly kind: "dropped"; readonly by: string; readonly reason: string }
  | { readonly kind: "set-aside"; readonly reason: string };
