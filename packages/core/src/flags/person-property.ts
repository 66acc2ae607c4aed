import { initialName, TRACKED_PROPERTIES } from "../persons/tracked-properties.ts";

/** A person or group property as compiled filters name it. */
export interface PropertyName {
  readonly text: string;
  /** True for names every object inherits (`constructor`): only an own-key look-up is right. */
  readonly isInherited: boolean;
  /** True for what an address look-up may tell (flag-evaluation 6.3). */
  readonly isPlace: boolean;
  /** The property whose value stands in when this `$initial_…` one is missing (6.2). */
  readonly standIn: PropertyName | null;
}

/** What stands in for an `$initial_…` property (flag-evaluation 6.2). */
const STAND_INS: ReadonlyMap<string, string> = new Map(
  TRACKED_PROPERTIES.map((name) => [initialName(name), name]),
);

/** Prepares a property name for look-ups in the person map. */
export function personProperty(text: string): PropertyName {
  const standIn = STAND_INS.get(text);
  return { ...groupProperty(text), standIn: standIn === undefined ? null : groupProperty(standIn) };
}

/** Prepares a property name for look-ups in a group map, where nothing stands in. */
export function groupProperty(text: string): PropertyName {
  return { text, isInherited: text in {}, isPlace: text.startsWith("$geoip_"), standIn: null };
}
