import { encodeJson, holdsBigInt, parseExactJson } from "../exact-json.ts";
import type { Json, JsonObject } from "../json.ts";
import type { CapturedEvent } from "./event.ts";

/** Begins a line with integers beyond a `number`: all other lines are read without looking for them. */
const EXACT_MARK = "!";

/** One event as a line of JSON, without line breaks: what logs and queues carry. */
export function encodeEvent(event: CapturedEvent): string {
  const head = JSON.stringify([
    event.projectId,
    event.uuid,
    event.event,
    event.distinctId,
    event.timestamp.getTime(),
    event.clientTimestamp?.getTime() ?? null,
    event.receivedAt.getTime(),
  ]);
  let properties: string;
  let mark = "";
  try {
    properties = JSON.stringify(event.properties);
  } catch (error) {
    if (!holdsBigInt(event.properties)) throw error;
    properties = encodeJson(event.properties);
    mark = EXACT_MARK;
  }
  return `${mark}${head.slice(0, -1)},${properties}]`;
}

/** Reads back what {@link encodeEvent} wrote. Throws a `SyntaxError` for anything else. */
export function decodeEvent(line: string): CapturedEvent {
  const fields = (
    line.startsWith(EXACT_MARK) ? parseExactJson(line.slice(EXACT_MARK.length)) : JSON.parse(line)
  ) as readonly Json[];
  if (!Array.isArray(fields) || fields.length !== 8) throw new SyntaxError("not an encoded event");
  const [projectId, uuid, event, distinctId, timestamp, clientTimestamp, receivedAt, properties] =
    fields as [number, string, string, string, number, number | null, number, JsonObject];
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
