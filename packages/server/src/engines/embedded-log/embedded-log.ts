import { stat } from "node:fs/promises";
import type { Worker } from "node:worker_threads";
import { cleanText } from "@hedgerow/core/events/clean-json";
import type { CapturedEvent, LoggedEvent, Passage } from "@hedgerow/core/events/event";
import { type EncodedEvent, encodeWithText } from "@hedgerow/core/events/event-codec";
import {
  beginsWith,
  decodeLogged,
  encodePassed,
  encodeReference,
  referenceIn,
  resolveReference,
} from "@hedgerow/core/events/logged-event-codec";
import Database from "libsql";
import {
  type EventLog,
  type LogLanes,
  LogUnavailable,
  type PassedEffects,
  type PassedEvent,
} from "../../events/event-log.ts";
import { openThread } from "../../platform/open-thread.ts";
import { createSlices } from "../../platform/slices.ts";
import type {
  EffectsOfPass,
  FromLogThread,
  LaneSegment,
  LogFileOptions,
  LogRetention,
  Segment,
  ToLogThread,
} from "./log-file.ts";
import { createLogLaneStates, type LaneInMemory } from "./log-lanes.ts";
import { createLogTail } from "./log-tail.ts";

export interface EmbeddedLogOptions {
  /**
   * Positions start above this one even when the file is new: pass the greatest position that any
   * consumer has stored, so that a lost log file never leads to positions that count as done.
   */
  readonly after?: number;
  /** Most bytes of events waiting for the disk before new ones are refused; 64 MiB unless given. */
  readonly maxQueuedBytes?: number;
  /**
   * How much of the newest events stays in memory for readers, in characters of their text; 16 Mi
   * unless given. What is not there is read from the file.
   */
  readonly tailChars?: number;
  /** Largest size of the log file; 64 GiB unless given. */
  readonly maxFileBytes?: number;
  /** How long released events stay; not at all unless given. A full disk lets go of them at once. */
  readonly retention?: LogRetention;
  /** Most characters of effects that are not forgotten; 32 Mi unless given. */
  readonly maxEffectChars?: number;
}

/**
 * A segment is read as a whole: small ones let readers take what they asked for. And texts beyond 128 KiB
 * cost twice as much to make and to send to a thread, since the engine keeps each of them in memory of
 * its own.
 */
const SEGMENT_CHARS = 96 * 1024;
/** One commit takes no more than this, so that no append waits behind a huge one for long. */
const GROUP_CHARS = 8 * 1024 * 1024;
/** One read ends after the segment with which it has this much. */
const READ_CHARS = 4 * 1024 * 1024;
const RETRY_AFTER_SECONDS = 1;
/** A lane takes no more once it has this part of the largest file, so that none takes the room of all. */
const LANES_OF_A_FILE = 4;
/** The same where of the disk little is left. */
const SHORT_LANE_CHARS = 64 * 1024 * 1024;
/** A refusal counts as lasting for so long. */
const REFUSING_MS = 10_000;
/** Searches go on for so long at most before requests get their turn. */
const TURN_MS = 5;

/** What is stored in one commit, or not at all. */
interface Append {
  readonly events: readonly CapturedEvent[];
  readonly encoded: readonly EncodedEvent[];
  /** What became of the events, where they come from a lane. */
  readonly passed?: readonly PassedEvent[];
  readonly toLane?: ToLane;
  /** The place up to which a lane has passed. */
  readonly pass?: {
    readonly lane: LaneInMemory;
    readonly upTo: number;
    /** Lines, where there are any. */
    readonly effects?: string;
  };
  readonly chars: number;
  readonly resolve: (stored: Stored) => void;
  readonly reject: (error: LogUnavailable) => void;
}

interface ToLane {
  readonly projectId: number;
  readonly events: readonly CapturedEvent[];
  readonly encoded: readonly EncodedEvent[];
}

interface Stored {
  readonly positions: readonly number[];
  readonly places: readonly number[];
}

/**
 * The log as one SQLite file. Appends that arrive while a commit is on its way to the disk share the
 * next one (group commit), in a thread of its own.
 */
export async function openEmbeddedLog(
  path: string,
  options: EmbeddedLogOptions = {},
): Promise<EventLog> {
  const maxQueuedChars = options.maxQueuedBytes ?? 64 * 1024 * 1024;
  const maxFileBytes = options.maxFileBytes ?? 64 * 1024 ** 3;
  const fileOptions = (after: number): LogFileOptions => ({
    path,
    after,
    maxBytes: maxFileBytes,
    retention: options.retention ?? { maxBytes: 0, maxAgeMs: 0 },
  });

  let waiting: Append[] = [];
  let writing: readonly Append[] = [];
  let queuedChars = 0;
  let end = 0;
  let isClosed = false;
  /** Whether of the disk little is left. */
  let isShort = false;
  let refusal: { readonly reason: string; readonly atMs: number } | undefined;
  const wakeReaders = new Set<() => void>();
  const tailChars = options.tailChars ?? 16 * 1024 * 1024;
  const tail = createLogTail(() => tailChars);
  const laneStates = createLogLaneStates(tailChars);
  const kept = createKeptEffects(options.maxEffectChars ?? 32 * 1024 * 1024);

  // One at a time: a new one is started after the one before was lost.
  let thread: Promise<Worker> | undefined = startThread(options.after ?? 0);
  await thread;
  const reader = openReader(path);
  for (const { position, chars } of reader.effectSizes()) kept.find(position, chars);

  function startThread(after: number): Promise<Worker> {
    const worker = openThread(new URL("./log-thread.ts", import.meta.url), fileOptions(after));
    return new Promise((resolve, reject) => {
      worker.on("message", (message: FromLogThread) => {
        if (message.kind === "opened") {
          laneStates.load(message.lanes);
          moveTo(message.end);
          resolve(worker);
        } else if (message.kind === "appended") {
          isShort = message.isShort;
          settle(message.end);
        } else if (message.kind === "refused") refuse(message.reason);
      });
      let isLost = false;
      /** What the thread was writing may or may not be stored: the file tells. */
      const lose = (error: Error) => {
        if (isLost) return;
        isLost = true;
        thread = undefined;
        reject(error);
        if (writing.length === 0) return;
        if (isStored(writing))
          settle(end + writing.reduce((sum, one) => sum + one.events.length, 0));
        else refuse(error.message);
      };
      worker.on("error", lose);
      worker.on("exit", () => lose(new Error("the log thread ended")));
    });
  }

  /** Whether the file has what is beyond the end, or beyond those of lanes. `false` where it cannot be read. */
  function isStored(group: readonly Append[]): boolean {
    try {
      const stored = reader.state();
      return group.some(({ events, toLane, pass }) => {
        if (events.length > 0) return stored.end > end;
        const lane = stored.lanes.get(toLane?.projectId ?? pass?.lane.projectId ?? 0);
        if (!lane) return false;
        return pass ? lane.passed >= pass.upTo : lane.end > laneStates.of(lane.projectId).end;
      });
    } catch {
      return false;
    }
  }

  function moveTo(position: number): void {
    if (position === end) return;
    end = position;
    for (const wake of wakeReaders) wake();
  }

  function settle(last: number): void {
    const group = writing;
    writing = [];
    refusal = undefined;
    let position = end;
    const answers = group.map(({ events, encoded, passed, toLane, pass }): Stored => {
      const positions = events.map((event, index) => {
        const { line, propertiesText } = encoded[index] as EncodedEvent;
        const became = passed?.[index];
        position++;
        const entry = became
          ? { position, event, propertiesText, added: became.added, passage: became.passage }
          : { position, event, propertiesText };
        tail.add(entry, Math.max(line.length, propertiesText.length));
        return position;
      });
      const places = toLane ? addToLane(toLane) : [];
      pass?.lane.pass(pass.upTo);
      if (pass?.effects !== undefined) kept.add(position, pass.effects.length);
      return { positions, places };
    });
    // The next group is on its way to the disk while this one is answered.
    writeNext();
    moveTo(last);
    for (const [index, { chars, resolve }] of group.entries()) {
      queuedChars -= chars;
      resolve(answers[index] ?? { positions: [], places: [] });
    }
  }

  function addToLane({ projectId, events, encoded }: ToLane): readonly number[] {
    const lane = laneStates.of(projectId);
    lane.queued -= events.length;
    return events.map((event, index) => {
      const { line, propertiesText, mayHoldBigInt } = encoded[index] as EncodedEvent;
      return lane.add({ event, propertiesText, mayHoldBigInt }, line.length);
    });
  }

  function refuse(reason: string): void {
    const group = writing;
    writing = [];
    refusal = { reason, atMs: performance.now() };
    for (const { chars, toLane, pass, reject } of group) {
      queuedChars -= chars;
      kept.giveUp(pass?.effects?.length ?? 0);
      if (toLane) laneStates.of(toLane.projectId).queued -= toLane.events.length;
      reject(unavailable(`events cannot be stored: ${reason}`));
    }
    writeNext();
  }

  function writeNext(): void {
    if (writing.length > 0 || waiting.length === 0) return;
    writing = takeNext();
    const message: ToLogThread = {
      kind: "append",
      segments: segmentsOf(writing.map(({ encoded }) => encoded)),
      laneSegments: laneSegmentsOf(writing),
      passes: writing.flatMap(({ pass, passed }) => {
        if (!pass) return [];
        const { lane, upTo } = pass;
        return [{ projectId: lane.projectId, upTo, refersAfter: placeBefore(passed) }];
      }),
      effects: effectsOf(writing),
    };
    thread ??= startThread(end);
    thread.then(
      (worker) => send(worker, message),
      // A thread that is lost refuses what it was to write.
      () => {},
    );
  }

  function takeNext(): readonly Append[] {
    // What passes makes room by itself: where the disk takes nothing else, it goes first.
    const passing = refusal ? waiting.findIndex(({ pass }) => pass) : -1;
    if (passing >= 0) return waiting.splice(passing, 1);
    // What is new does not share a commit with what passes: there is room that only the latter may take.
    const isPassing = waiting[0]?.pass !== undefined;
    const taken = new Set<Append>();
    let chars = 0;
    for (const append of waiting) {
      if ((append.pass !== undefined) !== isPassing) continue;
      if (taken.size > 0 && chars + append.chars > GROUP_CHARS) break;
      chars += append.chars;
      taken.add(append);
    }
    waiting = waiting.filter((append) => !taken.has(append));
    return [...taken];
  }

  function enqueue(what: Omit<Append, "chars" | "resolve" | "reject">): Promise<Stored> {
    if (isClosed) return Promise.reject(unavailable("the log is closed"));
    const effectChars = what.pass?.effects?.length ?? 0;
    const chars = charsOf(what.encoded) + charsOf(what.toLane?.encoded ?? []) + effectChars;
    // What passes is not new: it waits already.
    if (!what.pass && queuedChars > 0 && queuedChars + chars > maxQueuedChars) {
      return Promise.reject(unavailable("the disk cannot keep up with the events"));
    }
    if (!kept.begin(effectChars)) {
      return Promise.reject(unavailable("what transformations have stored waits for its store"));
    }
    queuedChars += chars;
    if (what.toLane) laneStates.of(what.toLane.projectId).queued += what.toLane.events.length;
    return new Promise((resolve, reject) => {
      waiting.push({ ...what, chars, resolve, reject });
      writeNext();
    });
  }

  const lanes: LogLanes = {
    isWaiting: (projectId) => laneStates.get(projectId)?.isWaiting() ?? false,

    waiting() {
      const counts = new Map<number, number>();
      for (const { projectId, passed, end } of laneStates.all()) {
        if (end > passed) counts.set(projectId, end - passed);
      }
      return counts;
    },

    begin: (projectId) => laneStates.get(projectId)?.passed ?? 0,

    end: (projectId) => laneStates.get(projectId)?.end ?? 0,

    async append(projectId, events) {
      if (events.length === 0) return [];
      const most = isShort ? SHORT_LANE_CHARS : maxFileBytes / LANES_OF_A_FILE;
      if ((laneStates.get(projectId)?.chars ?? 0) > most) {
        throw unavailable("too many events of this project wait for its transformations");
      }
      const encoded = events.map((event) => encodeWithText(event));
      const stored = await enqueue({
        events: [],
        encoded: [],
        toLane: { projectId, events, encoded },
      });
      return stored.places;
    },

    read(projectId, after, limit) {
      const lane = laneStates.get(projectId);
      const from = Math.max(after, lane?.passed ?? 0);
      if (!lane || lane.end <= from) return { entries: [], end: after, chars: 0 };
      const known = lane.end;
      const { entries, chars } =
        lane.tail.read(from, { limit, maxChars: READ_CHARS }) ??
        reader.readLane(projectId, from, limit);
      return { entries, end: entries.at(-1)?.position ?? known, chars };
    },

    pass(projectId, { upTo, events, captured, effects = [] }) {
      return enqueue({
        events: events.map(({ event }) => event),
        encoded: encodeAllPassed(events),
        passed: events,
        ...(captured.length > 0 && {
          toLane: {
            projectId,
            events: captured,
            encoded: captured.map((event) => encodeWithText(event)),
          },
        }),
        pass: {
          ...{ lane: laneStates.of(projectId), upTo },
          ...(events.length > 0 && effects.length > 0 && { effects: effects.join("\n") }),
        },
      });
    },

    effects: (after) => reader.effects(Math.max(after, kept.forgotten())),

    forgetEffects(upTo) {
      kept.forget(upTo);
      thread?.then(
        (worker) => send(worker, { kind: "forget-effects", upTo }),
        // They are forgotten with later ones.
        () => {},
      );
    },

    passed: (projectId, maxWaitMs) => laneStates.get(projectId)?.untilPassed(maxWaitMs),

    async holds(event) {
      const passed = laneStates.get(event.projectId)?.passed ?? 0;
      return (await search(reader.searchLane(event, passed))) !== undefined;
    },
  };

  /** The first that a search finds, which goes on in turns with requests. */
  async function search(found: Iterable<number | undefined>): Promise<number | undefined> {
    const slices = createSlices(TURN_MS);
    for (const one of found) {
      if (one !== undefined) return one;
      if (slices.isOver()) await slices.next();
    }
    return undefined;
  }

  return {
    lanes,

    async append(events) {
      if (events.length === 0) return [];
      const encoded = events.map((event) => encodeWithText(event));
      return (await enqueue({ events, encoded })).positions;
    },

    async read(after, limit, signal) {
      while (end <= after && !signal.aborted) {
        await new Promise<void>((resolve) => {
          const wake = () => {
            wakeReaders.delete(wake);
            signal.removeEventListener("abort", wake);
            resolve();
          };
          wakeReaders.add(wake);
          signal.addEventListener("abort", wake);
        });
      }
      if (signal.aborted) return { entries: [], end: after, chars: 0 };
      const known = end;
      // Whoever reads on keeps what it has: in memory the rest would only grow old.
      tail.forget(after);
      const { entries, chars } =
        tail.read(after, { limit, maxChars: READ_CHARS }) ?? reader.read(after, limit);
      return { entries, end: entries.at(-1)?.position ?? known, chars };
    },

    find: (event, after) => search(reader.search(event, after)),

    refusing() {
      const isRecent = refusal && performance.now() - refusal.atMs < REFUSING_MS;
      return isRecent ? refusal?.reason : undefined;
    },

    async end() {
      return end;
    },

    async bytes() {
      const sizes = await Promise.all([path, `${path}-wal`].map(sizeOf));
      return sizes.reduce((sum, size) => sum + size, 0);
    },

    async release(upTo) {
      tail.forget(upTo);
      const worker = await thread?.catch(() => undefined);
      if (worker) send(worker, { kind: "release", upTo });
    },

    async close() {
      if (isClosed) return;
      isClosed = true;
      while (waiting.length > 0 || writing.length > 0) {
        await new Promise<void>((resolve) => setImmediate(resolve));
      }
      const worker = await thread?.catch(() => undefined);
      if (worker) {
        const exited = new Promise((resolve) => worker.once("exit", resolve));
        send(worker, { kind: "close" });
        await exited;
      }
      reader.close();
    },
  };
}

/** Bytes of a file; 0 where it is missing. */
async function sizeOf(file: string): Promise<number> {
  try {
    return (await stat(file)).size;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return 0;
    throw error;
  }
}

function send(worker: Worker, message: ToLogThread): void {
  worker.postMessage(message);
}

function unavailable(message: string): LogUnavailable {
  return new LogUnavailable(message, { retryAfterSeconds: RETRY_AFTER_SECONDS });
}

/** What stands in the lane already is not written again (decision record 31). */
function encodeAllPassed(events: readonly PassedEvent[]): readonly EncodedEvent[] {
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

/** The place before the first that any of these stands in; `undefined` where none does. */
function placeBefore(passed: readonly PassedEvent[] = []): number | undefined {
  const first = passed.find(({ place }) => place !== undefined)?.place;
  return first === undefined ? undefined : first - 1;
}

function charsOf(encoded: readonly EncodedEvent[]): number {
  return encoded.reduce((sum, { line }) => sum + line.length, 0);
}

/** What is kept of effects until they are forgotten, so that it stays within a bound. */
function createKeptEffects(maxChars: number) {
  /** By position, oldest first. */
  const sizes = new Map<number, number>();
  let chars = 0;
  let forgotten = 0;
  return {
    /** Some begin their way to the disk: `false` where there are too many with them. */
    begin(some: number): boolean {
      if (some > 0 && chars > 0 && chars + some > maxChars) return false;
      chars += some;
      return true;
    },
    /** They did not get there. */
    giveUp(some: number): void {
      chars -= some;
    },
    /** They are there. */
    add(position: number, some: number): void {
      // Readers may have seen them before this thread heard of them.
      if (position <= forgotten) chars -= some;
      else sizes.set(position, some);
    },
    /** A start finds them. */
    find(position: number, some: number): void {
      chars += some;
      sizes.set(position, some);
    },
    forget(upTo: number): void {
      forgotten = Math.max(forgotten, upTo);
      for (const [position, some] of sizes) {
        if (position > upTo) return;
        sizes.delete(position);
        chars -= some;
      }
    },
    forgotten: () => forgotten,
  };
}

/** What the events that pass in a group leave. */
function effectsOf(group: readonly Append[]): readonly EffectsOfPass[] {
  let count = 0;
  return group.flatMap(({ events, pass }) => {
    count += events.length;
    return pass?.effects === undefined ? [] : [{ count, lines: pass.effects }];
  });
}

/** What goes to lanes, each lane's in segments of its own. */
function laneSegmentsOf(appends: readonly Append[]): LaneSegment[] {
  const byProject = new Map<number, (readonly EncodedEvent[])[]>();
  for (const { toLane } of appends) {
    if (!toLane) continue;
    const known = byProject.get(toLane.projectId);
    if (known) known.push(toLane.encoded);
    else byProject.set(toLane.projectId, [toLane.encoded]);
  }
  return [...byProject].flatMap(([projectId, groups]) =>
    segmentsOf(groups).map((segment) => ({ projectId, chars: segment.lines.length, ...segment })),
  );
}

/** Lines in segments that stay short unless a line alone is long. */
function segmentsOf(groups: readonly (readonly EncodedEvent[])[]): Segment[] {
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

function openReader(path: string) {
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
    close: () => database.close(),
  };
}
