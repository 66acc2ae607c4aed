import type { CapturedEvent, LoggedEvent, Passage } from "./event.ts";
import {
  decodeEvent,
  type EncodedEvent,
  encodeWithText,
  mayLineHoldBigInt,
  propertiesTextOf,
} from "./event-codec.ts";

/** Begins the line of an event that is through its project's transformations. */
const PASSED_MARK = "+";
/** Stands before what became of it: JSON has it only as an escape. */
const SEPARATOR = "\t";

/**
 * An event with what became of it, as a line without line breaks.
 * @param known the text of its own properties, where it is at hand, and what stands behind those
 * @param passageText JSON of the passage, which many events have in common
 */
export function encodePassed(
  event: CapturedEvent,
  passage: Passage,
  known: Pick<LoggedEvent, "propertiesText" | "mayHoldBigInt" | "added"> = {},
  passageText = JSON.stringify(passage),
): EncodedEvent {
  const { line, propertiesText, mayHoldBigInt } = encodeWithText(event, known, known.added);
  return {
    line: `${PASSED_MARK}${line}${SEPARATOR}${passageText}`,
    propertiesText,
    mayHoldBigInt,
  };
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
  const mayHoldBigInt = mayLineHoldBigInt(line);
  return { event, mayHoldBigInt, ...(propertiesText !== undefined && { propertiesText }) };
}

/** Whether a line is the entry of an event whose line begins with a head, by its marks alone. */
export function beginsWith(line: string, head: string): boolean {
  const marks = /^\+?!?/.exec(line)?.[0].length ?? 0;
  return line.startsWith(head, marks);
}
