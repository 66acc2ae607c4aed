import { cleanText } from "@hedgerow/core/events/clean-json";
import type { CapturedEvent, LoggedEvent } from "@hedgerow/core/events/event";
import {
  beginsWith,
  decodeLogged,
  referenceIn,
  resolveReference,
} from "@hedgerow/core/events/logged-event-codec";
import Database from "libsql";
import type { PassedEffects } from "../../events/event-log.ts";

/** One read ends after the segment with which it has this much. */
export const READ_CHARS = 4 * 1024 * 1024;

/** A text as it was written; of whatever stands in its place, what can be made of it. */
function textOf(lines: unknown): string {
  if (typeof lines === "string") return lines;
  return lines instanceof Uint8Array || lines instanceof ArrayBuffer
    ? new TextDecoder().decode(lines)
    : String(lines);
}

/** Index of the line that is an event, told by how lines begin. */
function lineOf(
  { projectId, uuid }: Pick<CapturedEvent, "projectId" | "uuid">,
  text: string,
): number | undefined {
  const head = JSON.stringify([projectId, uuid]).slice(0, -1);
  if (!text.includes(head)) return undefined;
  const index = text.split("\n").findIndex((line) => beginsWith(line, head));
  return index < 0 ? undefined : index;
}

/** How much of an unreadable line is kept. */
const MAX_SALVAGED_CHARS = 100_000;

/**
 * The entry of a line; of a damaged one, what is left, for whoever looks at it.
 * @param lineInLane what stands in the lane of a project at a place, to which a line may refer
 */
function readLine(
  position: number,
  line: string,
  lineInLane: (projectId: number, place: number) => string,
): LoggedEvent {
  let text = line;
  try {
    const reference = referenceIn(line);
    if (!reference) return { position, ...decodeLogged(line) };
    const inLane = lineInLane(reference.projectId, reference.place);
    const whole = resolveReference(line, inLane);
    text = `${line}\n${inLane}`;
    return { position, ...decodeLogged(whole) };
  } catch (error) {
    const head = /^[+=]?!?\[(\d{1,9}),"([\da-f]{8}(?:-[\da-f]{4}){3}-[\da-f]{12})"/.exec(line);
    const digits = position.toString(16).padStart(12, "0");
    return {
      position,
      fault: `it cannot be read from the log: ${error instanceof Error ? error.message : error}`,
      event: {
        uuid: head?.[2] ?? `00000000-0000-8000-8000-${digits}`,
        projectId: Number(head?.[1] ?? 0),
        event: "$unreadable",
        distinctId: "$unreadable",
        properties: { text: cleanText(text.slice(0, MAX_SALVAGED_CHARS)) },
        timestamp: new Date(0),
        clientTimestamp: null,
        receivedAt: new Date(0),
      },
    };
  }
}

/** Reads a log's file, beside the thread that writes it. */
export function openLogReader(path: string) {
  const database = new Database(path, { readonly: true });
  database.exec("pragma busy_timeout = 5000");
  const next = database.prepare(
    "select last, count, lines from segments where last > ? order by last limit 1",
  );
  const nextOfLane = database.prepare(
    "select last, count, lines from lane_segments where project_id = ? and last > ? order by last limit 1",
  );
  const nextEffects = database.prepare(
    "select position, lines from lane_effects where position > ? order by position limit 1",
  );
  type StoredLines = { readonly last: number; readonly count: number; readonly lines: unknown };
  const ofLog = (after: number) => next.all(after)[0] as StoredLines | undefined;
  const ofLane = (projectId: number) => (after: number) =>
    nextOfLane.all(projectId, after)[0] as StoredLines | undefined;

  /** Lines of lanes, of which those that follow one another stand together. */
  function createLaneLines() {
    let of = 0;
    let first = 0;
    let lines: readonly string[] = [];
    return (projectId: number, place: number): string => {
      if (projectId !== of || place < first || place >= first + lines.length) {
        const segment = ofLane(projectId)(place - 1);
        lines = segment ? textOf(segment.lines).split("\n") : [];
        first = segment ? segment.last - segment.count + 1 : 0;
        of = projectId;
      }
      const line = place < first ? undefined : lines[place - first];
      if (line === undefined) throw new Error("what stood in its lane is gone");
      return line;
    };
  }

  /** What the writer lets go of meanwhile is there for the reader until it is through. */
  function read(
    segmentAfter: (position: number) => StoredLines | undefined,
    after: number,
    limit: number,
  ): { entries: readonly LoggedEvent[]; chars: number } {
    database.exec("begin");
    try {
      return readAll(segmentAfter, after, limit);
    } finally {
      database.exec("commit");
    }
  }

  function readAll(
    segmentAfter: (position: number) => StoredLines | undefined,
    after: number,
    limit: number,
  ): { entries: readonly LoggedEvent[]; chars: number } {
    const lineInLane = createLaneLines();
    const entries: LoggedEvent[] = [];
    let chars = 0;
    let position = after;
    while (entries.length < limit && chars < READ_CHARS) {
      const segment = segmentAfter(position);
      if (!segment) break;
      const first = segment.last - segment.count + 1;
      const lines = textOf(segment.lines).split("\n");
      const from = Math.max(position + 1 - first, 0);
      // By the count, not by the lines: a damaged text may have lost some.
      const to = Math.min(segment.count, from + limit - entries.length);
      for (let index = from; index < to; index++) {
        const line = lines[index] ?? "";
        const entry = readLine(first + index, line, lineInLane);
        chars += Math.max(line.length, entry.propertiesText?.length ?? 0);
        entries.push(entry);
      }
      position = first + to - 1;
    }
    return { entries, chars };
  }

  /** Goes through the segments after a position; gives what each of them has of the event. */
  function* search(
    segmentAfter: (position: number) => StoredLines | undefined,
    event: Pick<CapturedEvent, "projectId" | "uuid">,
    after: number,
  ) {
    for (let position = after; ; ) {
      const segment = segmentAfter(position);
      if (!segment) return;
      const first = segment.last - segment.count + 1;
      const line = lineOf(event, textOf(segment.lines));
      yield line !== undefined && first + line > after ? first + line : undefined;
      position = segment.last;
    }
  }

  return {
    state() {
      const [row] = database.prepare("select end from progress").all() as { end: number }[];
      const lanes = database.prepare("select project_id, passed, end from lanes").all();
      return {
        end: row?.end ?? 0,
        lanes: new Map(
          (lanes as { project_id: number; passed: number; end: number }[]).map(
            ({ project_id: projectId, passed, end }) => [projectId, { projectId, passed, end }],
          ),
        ),
      };
    },
    effectSizes() {
      const query = "select position, length(lines) as chars from lane_effects order by position";
      return database.prepare(query).all() as { position: number; chars: number }[];
    },
    effects(after: number): readonly PassedEffects[] {
      const found: PassedEffects[] = [];
      let position = after;
      for (let chars = 0; chars < READ_CHARS; ) {
        const [next] = nextEffects.all(position) as { position: number; lines: unknown }[];
        if (!next) break;
        const text = textOf(next.lines);
        position = next.position;
        chars += text.length;
        found.push({ position, lines: text.split("\n") });
      }
      return found;
    },
    read: (after: number, limit: number) => read(ofLog, after, limit),
    readLane: (projectId: number, after: number, limit: number) =>
      read(ofLane(projectId), after, limit),
    search: (event: Pick<CapturedEvent, "projectId" | "uuid">, after: number) =>
      search(ofLog, event, after),
    searchLane: (event: Pick<CapturedEvent, "projectId" | "uuid">, after: number) =>
      search(ofLane(event.projectId), event, after),
    close(): void {
      database.close();
    },
  };
}
