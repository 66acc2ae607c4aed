import { batchNumber, batchPlaces, batchTexts, numbers, shapes, takeBatch } from "./batch.ts";
import { bridge } from "./bridge.ts";
import { transformEvent } from "./calls.ts";
import { openLog } from "./console.ts";
import { describeThrown } from "./errors.ts";
import { guardChanges, meta, restoreSettings } from "./guard-meta.ts";
import {
  apply,
  type Exports,
  isArray,
  join,
  newList,
  now,
  parse,
  promiseThen,
  stringify,
} from "./intrinsics.ts";
import {
  endPlainly,
  isInnerSettled,
  isNoPromise,
  type LazyObject,
  type LazyShape,
  lazyEvent,
  release,
  SELF,
  startSets,
  takeSets,
} from "./lazy-event.ts";
import { show } from "./load-part.ts";
import { letGo } from "./weak-refs.ts";
import { writeAnswer, writeWhole } from "./write-answer.ts";

/** So many events in a row whose properties were listed or copied make the next ones plain. */
const MANY_SETTLED = 16;
/** Then so many are given as plain objects, which cost less where all of them is read. */
const PLAIN_EVENTS = 2_000;
let settledInRow = 0;
let plainLeft = 0;

/** Takes a batch, of which nothing is run yet. */
export function accept(plain: string, other: string, places: ArrayBuffer, newShapes: string): void {
  leaveRun();
  told = "";
  openLog();
  guardChanges();
  takeBatch(plain, other, places, newShapes);
}

/** Works on single events, as the host gives them, until it asks for a pause. */
export function work(done = -1, outcomeOfDone = ""): void {
  leaveRun();
  const number = batchNumber;
  let last = done;
  let outcome = outcomeOfDone;
  for (;;) {
    const index = bridge.begin(last, outcome);
    if (index < 0) return;
    last = index;
    const ended = begin(index, (text) => {
      if (number === batchNumber) work(index, text);
    });
    if (ended === undefined) return;
    outcome = ended;
  }
}

/**
 * Gives an event to the transformation: what became of it, or nothing where that is told later.
 * @param tell null where it is an event of a run
 */
function begin(index: number, tell: ((outcome: string) => void) | null): string | undefined {
  /** The text of its line, or the lazy object where its keys are known. */
  let as: LazyObject | string = "";
  if (restoreSettings !== null) restoreSettings();
  try {
    const place = numbers[index] as number;
    const text = batchTexts[numbers[place] as number] as string;
    const line = text.substring(numbers[place + 1] as number, numbers[place + 2] as number);
    let shape: LazyShape | undefined;
    if (plainLeft > 0) plainLeft -= 1;
    else shape = shapes[numbers[place + 3] as number];
    let event: unknown;
    if (shape === undefined) {
      event = parse(line);
      as = line;
    } else {
      const innerShape = shapes[numbers[place + 4] as number];
      as = lazyEvent(shape, line, batchPlaces, place + 5, innerShape ?? null);
      event = as[SELF];
    }
    const answer = transformEvent === undefined ? event : transformEvent(event, meta);
    if (typeof as !== "string") {
      if (tell === null) {
        const told = endPlainly(answer, as);
        if (told !== "") {
          settledInRow = 0;
          return told;
        }
      }
      if (isNoPromise(answer, as)) return conclude(answer, as);
    }
    if (typeof answer !== "object" || answer === null) return conclude(answer, as);
    const { then } = answer as PromiseLike<unknown>;
    if (typeof then !== "function") return conclude(answer, as);
    if (tell === null && then === promiseThen) {
      awaited = answer as Promise<unknown>;
      awaitedAs = as;
    } else tellLater(answer as PromiseLike<unknown>, as, tell ?? tellRun(index));
    return undefined;
  } catch (error) {
    return end(as, failed(error));
  }
}

/**
 * A run of events one after the other, of which the host is told once: as long as none waits for
 * anything but itself. `marks` show the host, which reads them in memory, which event is under way
 * and since when.
 */
const marks = new Float64Array(bridge.marks);
/** Longer than this, the time of an event is told by itself. */
const LONG_MS = 2;
let isRun = false;
let runCount = 0;
let outcomes = newList<string>();
let longs = newList<number>();
/** What the last run came to, until it is asked for again or the next one begins. */
let told = "";
/** Characters of outcomes after which a run ends, so that they do not fill the memory. */
const MAX_RUN_LENGTH = 700_000;
let outcomesLength = 0;
/** What the event under way waits for, and how it was given. */
let awaited: Promise<unknown> | null = null;
let awaitedAs: LazyObject | string = "";
let under = -1;
let sinceMs = 0;
let untilMs = 0;

/**
 * Begins a run at an event; it ends with the batch, when the time is up, or when it comes to much.
 * Answers what {@link collect} does, or `""` where an event of it waits.
 */
export function startRun(from: number, until: number): string {
  isRun = true;
  told = "";
  runCount += 1;
  outcomes = newList();
  longs = newList();
  startSets();
  outcomesLength = 0;
  sinceMs = now();
  untilMs = until;
  goOn(from, from);
  if (under >= 0) return "";
  // Kept, since what the events have left to be done may end the machine before this arrives.
  told = collect();
  return told;
}

function goOn(from: number, first: number): void {
  const waiting = runOn(from, first);
  if (waiting >= 0) goOnWaiting(waiting);
}

/** `first` begins whatever the time is, so that each run comes on. Answers the event that waits, or -1. */
function runOn(from: number, first: number): number {
  // The numbers of the first event begin behind the places of all.
  const count = numbers[0] ?? 0;
  for (let index = from; index < count; index += 1) {
    if (outcomesLength >= MAX_RUN_LENGTH || (index > first && sinceMs >= untilMs)) break;
    under = index;
    marks[0] = index;
    marks[1] = sinceMs;
    const ended = begin(index, null);
    if (ended === undefined) return awaited === null ? -1 : index;
    // As `note` does, without calling it.
    under = -1;
    outcomes[outcomes.length] = ended;
    outcomesLength += ended.length;
    const at = now();
    if (at - sinceMs >= LONG_MS) noteLong(index, at - sinceMs);
    sinceMs = at;
  }
  marks[0] = -1;
  return -1;
}

function tellLater(
  answer: PromiseLike<unknown>,
  as: LazyObject | string,
  tell: (outcome: string) => void,
): void {
  answer.then(
    (value) => tell(conclude(value, as)),
    (error) => tell(end(as, failed(error))),
  );
}

/** Takes what becomes of an event of the run that waits: as part of it, as long as nothing else came. */
function tellRun(index: number): (outcome: string) => void {
  const batch = batchNumber;
  const number = runCount;
  return (outcome) => {
    if (batch !== batchNumber) return;
    if (!isRun || number !== runCount) work(index, outcome);
    else if (under === index) {
      note(outcome);
      goOn(index + 1, index);
    }
  };
}

/** Goes on with a run while its events answer promises: in one function, which costs less than one for each. */
async function goOnWaiting(waiting: number): Promise<void> {
  const batch = batchNumber;
  const number = runCount;
  for (let index = waiting; index >= 0; index = runOn(index + 1, index)) {
    const as = awaitedAs;
    let outcome = "";
    try {
      const promise = awaited;
      awaited = null;
      const value = await promise;
      if (typeof as !== "string" && isRun && number === runCount) {
        outcome = endPlainly(value, as);
      }
      if (outcome === "") outcome = conclude(value, as);
      else settledInRow = 0;
    } catch (error) {
      outcome = end(as, failed(error));
    }
    if (batch !== batchNumber) return;
    if (!isRun || number !== runCount) {
      work(index, outcome);
      return;
    }
    note(outcome);
  }
}

function note(outcome: string): void {
  const index = under;
  under = -1;
  outcomes[outcomes.length] = outcome;
  outcomesLength += outcome.length;
  const at = now();
  if (at - sinceMs >= LONG_MS) noteLong(index, at - sinceMs);
  sinceMs = at;
}

function noteLong(index: number, tookMs: number): void {
  longs[longs.length] = index;
  longs[longs.length] = tookMs;
}

/** Whatever settles from now on is told one by one. */
export function leaveRun(): void {
  isRun = false;
  letGo();
}

/**
 * What became of a run: `[event, milliseconds, …]` of those that took long, what was set as JSON, then
 * an outcome each.
 * Also asked for when the run was stopped: nothing of it may run code of the transformation.
 */
export function collect(): string {
  leaveRun();
  if (told !== "") return told;
  const texts = outcomes;
  outcomes = newList();
  under = -1;
  let head = "[";
  for (let at = 0; at < longs.length; at += 1) head += at === 0 ? longs[at] : `,${longs[at]}`;
  head += "]";
  if (texts.length === 0) return head;
  return `${head}\u001e${takeSets()}\u001e${apply(join, texts, ["\u001e"])}`;
}

/** What became of an event: `=` unchanged, `-` dropped, `+` and `~` changed into what follows, `!` failed. */
function conclude(answer: unknown, as: LazyObject | string): string {
  if (!answer) return end(as, "-");
  if (typeof answer !== "object" || isArray(answer)) {
    const shown = show(answer, 1).slice(0, 200);
    return end(as, `!${stringify(`TypeError: processEvent answered no event but ${shown}`)}`);
  }
  try {
    if (typeof as !== "string") return end(as, writeAnswer(answer as Exports, as));
    const text = writeWhole(answer as Exports);
    return text === as ? "=" : `+${text}`;
  } catch (error) {
    return end(as, failed(error));
  }
}

function end(as: LazyObject | string, outcome: string): string {
  if (typeof as === "string") return outcome;
  release(as);
  if (!isInnerSettled(as)) settledInRow = 0;
  else {
    settledInRow += 1;
    if (settledInRow >= MANY_SETTLED) {
      settledInRow = 0;
      plainLeft = PLAIN_EVENTS;
    }
  }
  return outcome;
}

function failed(error: unknown): string {
  return `!${stringify(describeThrown(error).slice(0, 4_000).toWellFormed())}`;
}
