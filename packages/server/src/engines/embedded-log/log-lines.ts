import { setImmediate as nextTurn } from "node:timers/promises";
import type { CapturedEvent, Passage } from "@hedgerow/core/events/event";
import { type EncodedEvent, encodeWithText } from "@hedgerow/core/events/event-codec";
import { encodePassed, encodeReference } from "@hedgerow/core/events/logged-event-codec";
import type { PassedEvent } from "../../events/event-log.ts";
import type { LaneSegment, Segment } from "./log-messages.ts";

/**
 * A segment is read as a whole: small ones let readers take what they asked for. And texts beyond 128 KiB
 * cost twice as much to make and to send to a thread, since the engine keeps each of them in memory of
 * its own.
 */
const SEGMENT_CHARS = 96 * 1024;
/** Events are written as text up to so much before requests get theirs; each counts as some more: its own work. */
const TURN_CHARS = 512 * 1024;
const CHARS_PER_EVENT = 100;

/** Events as text: some at once, many in turns with requests, which then may come before them. */
export function encodeInTurns(
  events: readonly CapturedEvent[],
  encoded: EncodedEvent[] = [],
): readonly EncodedEvent[] | Promise<readonly EncodedEvent[]> {
  let chars = 0;
  while (encoded.length < events.length) {
    if (chars > TURN_CHARS) return nextTurn().then(() => encodeInTurns(events, encoded));
    const one = encodeWithText(events[encoded.length] as CapturedEvent);
    chars += one.line.length + CHARS_PER_EVENT;
    encoded.push(one);
  }
  return encoded;
}

/** What stands in the lane already is not written again (decision record 31). */
export function encodeAllPassed(events: readonly PassedEvent[]): readonly EncodedEvent[] {
  let last: Passage | undefined;
  let text = "";
  return events.map((passed) => {
    const { event, passage, place, added, propertiesText, mayHoldBigInt } = passed;
    if (passage !== last) {
      last = passage;
      text = JSON.stringify(last);
    }
    // Readers get the text along, of which the line then says nothing.
    if (place === undefined || propertiesText === undefined) {
      return encodePassed(event, passage, passed, text);
    }
    const line = encodeReference(event, place, added, text);
    return { line, propertiesText, mayHoldBigInt: mayHoldBigInt ?? true };
  });
}

/** What events take as lines. */
export function charsOf(encoded: readonly EncodedEvent[]): number {
  return encoded.reduce((sum, { line }) => sum + line.length, 0);
}

/** What goes to lanes, each lane's in segments of its own. */
export function laneSegmentsOf(
  appends: readonly { readonly projectId: number; readonly encoded: readonly EncodedEvent[] }[],
): LaneSegment[] {
  const byProject = new Map<number, (readonly EncodedEvent[])[]>();
  for (const { projectId, encoded } of appends) {
    const known = byProject.get(projectId);
    if (known) known.push(encoded);
    else byProject.set(projectId, [encoded]);
  }
  return [...byProject].flatMap(([projectId, groups]) =>
    segmentsOf(groups).map((segment) => ({ projectId, chars: segment.lines.length, ...segment })),
  );
}

/** Lines in segments that stay short unless a line alone is long. */
export function segmentsOf(groups: readonly (readonly EncodedEvent[])[]): Segment[] {
  const segments: Segment[] = [];
  let lines: string[] = [];
  let chars = 0;
  const finish = () => {
    if (lines.length > 0) segments.push({ count: lines.length, lines: lines.join("\n") });
    lines = [];
    chars = 0;
  };
  for (const encoded of groups) {
    for (const { line } of encoded) {
      if (chars > 0 && chars + line.length > SEGMENT_CHARS) finish();
      lines.push(line);
      chars += line.length;
    }
  }
  finish();
  return segments;
}
