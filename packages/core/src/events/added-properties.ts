import { extendJson, extendJsonText } from "../extend-json.ts";
import type { AddedProperties, LoggedEvent } from "./event.ts";

/** Some properties and others behind them, of which none have the same name. */
export function addedToo(
  some: AddedProperties | undefined,
  more: AddedProperties,
): AddedProperties {
  if (some === undefined) return more;
  return {
    properties: { ...some.properties, ...more.properties },
    text: extendJsonText(some.text, more.text),
  };
}

/**
 * An entry of the log, or a row for the store, whose event has all of its properties itself, those that
 * were added included.
 */
export function wholeEntry<Entry extends Pick<LoggedEvent, "event" | "propertiesText" | "added">>(
  entry: Entry,
): Entry {
  const { event, propertiesText, added } = entry;
  if (added === undefined) return entry;
  return {
    ...entry,
    event: { ...event, properties: extendJson(event.properties, added.properties) },
    propertiesText:
      propertiesText === undefined ? undefined : extendJsonText(propertiesText, added.text),
    added: undefined,
  };
}
