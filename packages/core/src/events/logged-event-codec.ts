import type { CapturedEvent, LoggedEvent, Passage } from "./event.ts";
import { decodeEvent, type EncodedEvent, encodeWithText, propertiesTextOf } from "./event-codec.ts";

/** Begins the line of an event that is through its project's transformations. */
const PASSED_MARK = "+";
/** Stands before what became of it: JSON has it only as an escape. */
const SEPARATOR = "\t";

/**
 * An event with what became of it, as a line without line breaks.
 * @param propertiesText the text of its own properties, where it is at hand
 * @param added what stands behind those
 */
export function encodePassed(
  event: CapturedEvent,
  passage: Passage,
  { propertiesText, added }: Pick<LoggedEvent, "propertiesText" | "added"> = {},
): EncodedEvent {
  const encoded = encodeWithText(event, propertiesText, added);
  const line = `${PASSED_MARK}${encoded.line}${SEPARATOR}${JSON.stringify(passage)}`;
  return { line, propertiesText: encoded.propertiesText };
}

/** Reads back the line of any entry. Throws a `SyntaxError` for anything else. */
export function decodeLogged(line: string): Omit<LoggedEvent, "position"> {
  if (!line.startsWith(PASSED_MARK)) return withText(line);
  const end = line.lastIndexOf(SEPARATOR);
  if (end < 0) throw new SyntaxError("not an encoded event");
  const passage = JSON.parse(line.slice(end + 1)) as Passage;
  return { ...withText(line.slice(PASSED_MARK.length, end)), passage };
}

function withText(line: string): Omit<LoggedEvent, "position"> {
  const event = decodeEvent(line);
  const propertiesText = propertiesTextOf(line, event);
  return { event, ...(propertiesText !== undefined && { propertiesText }) };
}

/** Whether a line is the entry of an event whose line begins with a head, by its marks alone. */
export function beginsWith(line: string, head: string): boolean {
  const marks = /^\+?!?/.exec(line)?.[0].length ?? 0;
  return line.startsWith(head, marks);
}
