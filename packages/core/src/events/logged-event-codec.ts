import { holdsBigInt } from "../exact-json.ts";
import { isJsonObject } from "../json.ts";
import type { AddedProperties, CapturedEvent, LoggedEvent, Passage } from "./event.ts";
import {
  decodeEvent,
  type EncodedEvent,
  EXACT_MARK,
  encodeWithText,
  extendLine,
  mayLineHoldBigInt,
  propertiesTextOf,
} from "./event-codec.ts";
import { isTidyUuid } from "./tidy-uuid.ts";

/** Begins the line of an event that is through its project's transformations. */
const PASSED_MARK = "+";
/** Begins a line that says of such an event what was added to it, and where its own line stands. */
const REFERENCE_MARK = "=";
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

/**
 * A short line for an event that came through as it stands in its project's lane, but for what was added
 * to it: it names the place there. {@link resolveReference} makes the whole line of the two.
 * @param passageText JSON of what became of it
 */
export function encodeReference(
  { projectId, uuid }: CapturedEvent,
  place: number,
  added: AddedProperties | undefined,
  passageText: string,
): string {
  const mark = added !== undefined && holdsBigInt(added.properties) ? EXACT_MARK : "";
  const text = added?.text ?? "{}";
  return `${REFERENCE_MARK}${mark}[${projectId},"${uuid}",${place}]${text}${SEPARATOR}${passageText}`;
}

/** The place of the line that a line refers to, in the lane of a project; `undefined` where it refers to none. */
export function referenceIn(
  line: string,
): { readonly projectId: number; readonly place: number } | undefined {
  if (!line.startsWith(REFERENCE_MARK)) return undefined;
  const [, projectId, place] = /^=!?\[(\d+),"[^"]*",(\d+)\]/.exec(line) ?? [];
  if (place === undefined) throw new SyntaxError("not a reference to an event");
  return { projectId: Number(projectId), place: Number(place) };
}

/**
 * The whole line of an event, from one that refers to a lane and the line that stands there. Throws a
 * `SyntaxError` where it is another event that stands there.
 */
export function resolveReference(line: string, laneLine: string): string {
  const from = line.indexOf("]") + 1;
  const to = line.lastIndexOf(SEPARATOR);
  if (from === 0 || to < from) throw new SyntaxError("not a reference to an event");
  const head = line.slice(line.indexOf("["), line.lastIndexOf(",", from) + 1);
  if (!beginsWith(laneLine, head)) throw new SyntaxError("another event stands in its place");
  const isExact = line.startsWith(EXACT_MARK, REFERENCE_MARK.length);
  const whole = extendLine(laneLine, line.slice(from, to), isExact);
  return `${PASSED_MARK}${whole}${line.slice(to)}`;
}

/** Reads back the line of any entry, but for those that refer to another. Throws a `SyntaxError` for anything else. */
export function decodeLogged(line: string): Omit<LoggedEvent, "position"> {
  if (!line.startsWith(PASSED_MARK)) return withText(line);
  const end = line.lastIndexOf(SEPARATOR);
  if (end < 0) throw new SyntaxError("not an encoded event");
  const passage: unknown = JSON.parse(line.slice(end + 1));
  if (!isPassage(passage)) throw new SyntaxError("what became of it is unclear");
  return { ...withText(line.slice(PASSED_MARK.length, end)), passage };
}

function isPassage(value: unknown): value is Passage {
  if (!isJsonObject(value)) return false;
  const { kind, changedBy, renamedFrom, renamedBy = [], by, reason } = value;
  switch (kind) {
    case "kept":
      if (!areNames(changedBy) || !areNames(renamedBy)) return false;
      if (renamedFrom === undefined) return true;
      return typeof renamedFrom === "string" && isTidyUuid(renamedFrom);
    case "dropped":
      return typeof by === "string" && typeof reason === "string";
    case "set-aside":
      return typeof reason === "string";
    default:
      return false;
  }
}

function areNames(value: unknown): boolean {
  return Array.isArray(value) && value.every((one) => typeof one === "string");
}

function withText(line: string): Omit<LoggedEvent, "position"> {
  const event = decodeEvent(line);
  const propertiesText = propertiesTextOf(line, event);
  const mayHoldBigInt = mayLineHoldBigInt(line);
  return { event, mayHoldBigInt, ...(propertiesText !== undefined && { propertiesText }) };
}

/** Whether a line is the entry of an event whose line begins with a head, by its marks alone. */
export function beginsWith(line: string, head: string): boolean {
  const marks = /^[+=]?!?/.exec(line)?.[0].length ?? 0;
  return line.startsWith(head, marks);
}
