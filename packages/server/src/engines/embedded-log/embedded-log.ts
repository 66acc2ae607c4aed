import { stat } from "node:fs/promises";
import { setTimeout as delay } from "node:timers/promises";
import type { Worker } from "node:worker_threads";
import type { CapturedEvent } from "@hedgerow/core/events/event";
import { type EncodedEvent, encodeWithText } from "@hedgerow/core/events/event-codec";
import {
  type EventLog,
  type LogLanes,
  LogUnavailable,
  type PassedEvent,
} from "../../events/event-log.ts";
import { openThread } from "../../platform/open-thread.ts";
import { createSlices } from "../../platform/slices.ts";
import { createKeptEffects } from "./kept-effects.ts";
import { createLogLaneStates, type LaneInMemory } from "./log-lanes.ts";
import {
  charsOf,
  encodeAllPassed,
  encodeInTurns,
  laneSegmentsOf,
  segmentsOf,
} from "./log-lines.ts";
import type {
  EffectsOfPass,
  FromLogThread,
  LogFileOptions,
  LogRetention,
  ToLogThread,
} from "./log-messages.ts";
import { openLogReader, READ_CHARS } from "./log-reader.ts";
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

/** One commit takes no more than this, so that no append waits behind a huge one for long. */
const GROUP_CHARS = 8 * 1024 * 1024;
const RETRY_AFTER_SECONDS = 1;
/** A lane takes no more once it has this part of the largest file, so that none takes the room of all. */
const LANES_OF_A_FILE = 4;
/** The same where of the disk little is left. */
const SHORT_LANE_CHARS = 64 * 1024 * 1024;
/** A refusal counts as lasting for so long. */
const REFUSING_MS = 10_000;
/** Searches go on for so long at most before requests get their turn. */
const TURN_MS = 5;
/** The file is asked again so much later where it does not tell what was stored. */
const ASK_AGAIN_MS = 100;

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
  /** Whether a thread was lost, and it is not known yet what it has stored. */
  let isUnsure = false;
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
  const reader = openLogReader(path);
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
      const lose = (error: Error) => {
        if (isLost) return;
        isLost = true;
        thread = undefined;
        reject(error);
        if (writing.length > 0) void settleLost(error);
      };
      worker.on("error", lose);
      worker.on("exit", () => lose(new Error("the log thread ended")));
    });
  }

  /** What a lost thread was writing may or may not be stored: the file tells, once it can be read. */
  async function settleLost(error: Error): Promise<void> {
    isUnsure = true;
    let stored = isStored(writing);
    while (stored === undefined && !isClosed) {
      refusal = { reason: "the log cannot be read", atMs: performance.now() };
      await delay(ASK_AGAIN_MS, undefined, { ref: false });
      stored = isStored(writing);
    }
    isUnsure = false;
    if (stored) settle(end + writing.reduce((sum, one) => sum + one.events.length, 0));
    else refuse(error.message);
  }

  /** Whether the file has what is beyond the end, or beyond those of lanes. `undefined` where it cannot be read. */
  function isStored(group: readonly Append[]): boolean | undefined {
    let stored: ReturnType<typeof reader.state>;
    try {
      stored = reader.state();
    } catch {
      return undefined;
    }
    return group.some(({ events, toLane, pass }) => {
      if (events.length > 0) return stored.end > end;
      const lane = stored.lanes.get(toLane?.projectId ?? pass?.lane.projectId ?? 0);
      if (!lane) return false;
      return pass ? lane.passed >= pass.upTo : lane.end > laneStates.of(lane.projectId).end;
    });
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
      laneSegments: laneSegmentsOf(writing.flatMap(({ toLane }) => toLane ?? [])),
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
    if (isUnsure && !what.pass) return Promise.reject(unavailable("the log cannot be read"));
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
      const lane = laneStates.of(projectId);
      // It waits from now on, whenever its text is ready.
      lane.queued += events.length;
      let encoded: readonly EncodedEvent[];
      try {
        const written = encodeInTurns(events);
        encoded = written instanceof Promise ? await written : written;
      } finally {
        lane.queued -= events.length;
      }
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

    areEffectsMany: kept.areMany,

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
      const written = encodeInTurns(events);
      const encoded = written instanceof Promise ? await written : written;
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

/** The place before the first that any of these stands in; `undefined` where none does. */
function placeBefore(passed: readonly PassedEvent[] = []): number | undefined {
  const first = passed.find(({ place }) => place !== undefined)?.place;
  return first === undefined ? undefined : first - 1;
}

/** What the events that pass in a group leave. */
function effectsOf(group: readonly Append[]): readonly EffectsOfPass[] {
  let count = 0;
  return group.flatMap(({ events, pass }) => {
    count += events.length;
    return pass?.effects === undefined ? [] : [{ count, lines: pass.effects }];
  });
}
