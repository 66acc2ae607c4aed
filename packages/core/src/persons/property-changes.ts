import type { Json } from "../json.ts";
import {
  type AutomaticName,
  type AutomaticProperties,
  NOTHING_AUTOMATIC,
} from "./automatic-properties.ts";
import { boundOf } from "./property-entry.ts";

/** What an event asks to be done with properties; applied in this order: once, set, unset. */
export interface PropertyChanges {
  /** Set before the others, under both of their names; what is asked for by name counts instead. */
  readonly automatic?: AutomaticProperties;
  readonly setOnce: ReadonlyMap<string, Json>;
  readonly set: ReadonlyMap<string, Json>;
  readonly unset: readonly string[];
}

/** False where applying changes makes no difference to anything. */
export function asksForAnything({ automatic, set, setOnce, unset }: PropertyChanges): boolean {
  return set.size > 0 || setOnce.size > 0 || unset.length > 0 || (automatic?.names.length ?? 0) > 0;
}

/** Whether changes ask by name for what an event says by itself: for a first value, or a latest one. */
export function asksForAny(
  names: readonly AutomaticName[],
  { set, setOnce }: PropertyChanges,
): boolean {
  for (const { name, initial } of names) {
    if (set.size > 0 && set.has(name)) return true;
    if (setOnce.size > 0 && setOnce.has(initial)) return true;
  }
  return false;
}

/** An upper bound of what the changes may add to the JSON text. */
export function growthOf({ automatic = NOTHING_AUTOMATIC, setOnce, set }: PropertyChanges): number {
  const { names, values } = automatic;
  let growth = 0;
  for (let at = 0; at < names.length; at++) {
    const { name, initial } = names[at] as AutomaticName;
    growth += boundOf(name) + boundOf(initial) + 2 * boundOf(values[at] as Json);
  }
  if (setOnce.size > 0) {
    for (const [name, value] of setOnce) growth += boundOf(name) + boundOf(value);
  }
  if (set.size > 0) {
    for (const [name, value] of set) growth += boundOf(name) + boundOf(value);
  }
  return growth;
}
