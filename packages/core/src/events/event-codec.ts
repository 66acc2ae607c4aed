import { encodeJson, holdsBigInt, parseExactJson } from "../exact-json.ts";
import { extendJsonText } from "../extend-json.ts";
import { isJsonObject, type Json } from "../json.ts";
import type { AddedProperties, CapturedEvent, LoggedEvent } from "./event.ts";
import { isTidyUuid } from "./tidy-uuid.ts";

/** Begins a line with integers beyond a `number`: all other lines are read without looking for them. */
export const EXACT_MARK = "!";

/** An event as a line, and the JSON text of its own properties that is part of it. */
export interface EncodedEvent {
  readonly line: string;
  readonly propertiesText: string;
  /** Whether these may hold integers beyond a `number`. */
  readonly mayHoldBigInt: boolean;
}

/** One event as a line of JSON, without line breaks: what logs and queues carry. */
export function encodeEvent(event: CapturedEvent): string {
  return encodeWithText(event).line;
}

/**
 * The same, with the text of the event's own properties for whoever comes after. Whoever has that text
 * already, as `encodeJson` writes it, may give it, and whether it is known to hold no `bigint`.
 * @param added what stands behind the event's own properties, in the line too
 */
export function encodeWithText(
  event: CapturedEvent,
  known?: Pick<LoggedEvent, "propertiesText" | "mayHoldBigInt">,
  added?: AddedProperties,
): EncodedEvent {
  let propertiesText = known?.propertiesText;
  let mayHoldBigInt = known?.mayHoldBigInt ?? true;
  if (propertiesText === undefined) {
    try {
      propertiesText = inOnePiece(JSON.stringify(event.properties));
      mayHoldBigInt = false;
    } catch (error) {
      if (!holdsBigInt(event.properties)) throw error;
      propertiesText = encodeJson(event.properties);
      mayHoldBigInt = true;
    }
  } else if (mayHoldBigInt) mayHoldBigInt = holdsBigInt(event.properties);
  const isExact = mayHoldBigInt || (added !== undefined && holdsBigInt(added.properties));
  const text = added === undefined ? propertiesText : extendJsonText(propertiesText, added.text);
  const line = `${isExact ? EXACT_MARK : ""}${encodeHead(event)}${text}]`;
  return { line, propertiesText, mayHoldBigInt };
}

const OPENING_BRACE = 0x7b;

/**
 * The engine writes JSON in pieces, and puts them together when somebody reads a character. Whoever
 * reads the text at last would pay more for it: it is old by then, as collectors of garbage see it.
 */
function inOnePiece(object: string): string {
  if (object.charCodeAt(0) !== OPENING_BRACE) throw new Error("not an object");
  return object;
}

/** A line up to the properties. */
function encodeHead(event: CapturedEvent): string {
  const { projectId, uuid, timestamp, clientTimestamp, receivedAt } = event;
  // There is nothing to escape in a uuid.
  const names = `"${uuid}",${JSON.stringify(event.event)},${JSON.stringify(event.distinctId)}`;
  const clientMs = clientTimestamp?.getTime() ?? null;
  return `[${projectId},${names},${timestamp.getTime()},${clientMs},${receivedAt.getTime()},`;
}

/**
 * The line of an event with more properties behind its own, of which none have the same name.
 * @param added their JSON text
 * @param mayHoldBigInt whether that may hold integers beyond a `number`
 */
export function extendLine(line: string, added: string, mayHoldBigInt: boolean): string {
  if (added.length === 2) return line;
  const mark = mayHoldBigInt && !line.startsWith(EXACT_MARK) ? EXACT_MARK : "";
  const isFirst = line.endsWith("{}]");
  return `${mark}${line.slice(0, -2)}${isFirst ? "" : ","}${added.slice(1)}]`;
}

/** The text of the properties in the line of an event; `undefined` where the line is written otherwise. */
export function propertiesTextOf(line: string, event: CapturedEvent): string | undefined {
  const mark = line.startsWith(EXACT_MARK) ? EXACT_MARK : "";
  const head = mark + encodeHead(event);
  return line.startsWith(head) ? line.slice(head.length, -1) : undefined;
}

/** Whether the properties in a line may hold integers beyond a `number`. */
export function mayLineHoldBigInt(line: string): boolean {
  return line.startsWith(EXACT_MARK);
}

/**
 * Reads back what {@link encodeEvent} wrote. Throws a `SyntaxError` for anything else, also where a line
 * was damaged and is still JSON: nobody behind looks once more at what an event consists of.
 */
export function decodeEvent(line: string): CapturedEvent {
  const fields = (
    line.startsWith(EXACT_MARK) ? parseExactJson(line.slice(EXACT_MARK.length)) : JSON.parse(line)
  ) as readonly Json[];
  if (!Array.isArray(fields) || fields.length !== 8) throw new SyntaxError("not an encoded event");
  const [projectId, uuid, event, distinctId, timestamp, clientTimestamp, receivedAt, properties] =
    fields;
  if (!isProjectId(projectId)) throw new SyntaxError("its project is none");
  if (typeof uuid !== "string" || !isTidyUuid(uuid)) throw new SyntaxError("its uuid is none");
  if (typeof event !== "string") throw new SyntaxError("its name is none");
  if (typeof distinctId !== "string") throw new SyntaxError("its distinct id is none");
  if (!isInstant(timestamp) || !isInstant(receivedAt)) throw new SyntaxError("its time is none");
  if (clientTimestamp !== null && !isInstant(clientTimestamp)) {
    throw new SyntaxError("its client's time is none");
  }
  if (!isJsonObject(properties)) throw new SyntaxError("its properties are none");
  return {
    uuid,
    projectId,
    event,
    distinctId,
    properties,
    timestamp: new Date(timestamp),
    clientTimestamp: clientTimestamp === null ? null : new Date(clientTimestamp),
    receivedAt: new Date(receivedAt),
  };
}

const MAX_PROJECT_ID = 2 ** 31 - 1;
/** Of a `Date`. */
const MAX_INSTANT_MS = 8.64e15;

function isProjectId(value: unknown): value is number {
  return Number.isInteger(value) && (value as number) >= 0 && (value as number) <= MAX_PROJECT_ID;
}

function isInstant(value: unknown): value is number {
  return Number.isInteger(value) && Math.abs(value as number) <= MAX_INSTANT_MS;
}
