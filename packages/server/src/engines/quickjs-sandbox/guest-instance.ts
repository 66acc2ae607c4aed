import { encodeJson } from "@hedgerow/core/exact-json";
import type { Json } from "@hedgerow/core/json";
import type { SandboxLogLine } from "../../transformations/sandbox.ts";
import { AskBounds, type Asker, type Question } from "./ask-bounds.ts";
import { type AttendedTime, LOOK_MS } from "./attended-time.ts";
import { CpuMeter, nothingSpent, type Spending } from "./cpu-meter.ts";
import { ToldSets, tellChange } from "./event-changes.ts";
import { type ScannedLines, ShapeTable } from "./event-shapes.ts";
import { HostAllowance } from "./host-allowance.ts";
import type { HostAnswers } from "./host-answers.ts";
import { nestsDeeper } from "./read-depth.ts";
import {
  ADDED,
  BEAT,
  type FromThread,
  type GuestCause,
  type GuestFailure,
  type GuestSettings,
  NO_EVENT,
  SEPARATOR,
  type TextChange,
  type ThreadOutcome,
  type ToThread,
} from "./sandbox-messages.ts";
import type { ThreadCpu } from "./thread-cpu.ts";
import { SET, SET_ALIKE } from "./told-sets.ts";
import { MachineFault, type MachineHost, VirtualMachine } from "./virtual-machine.ts";

/** Events of one instance that wait for answers at the same time. */
const MAX_WAITING_EVENTS = 32;
const MAX_TIMERS = 256;
const MAX_DEPTH = 200;
/** An instance may waste so much time by exceeding its limits, and gets it back slowly. */
const WASTE_ALLOWED_MS = 400;
/** One native call that cannot be interrupted may cost more, but does not use up the allowance. */
const MAX_WASTE_AT_ONCE_MS = 300;
const WASTE_REGAINED_PER_MS = 0.02;
/** What starting anew costs beside the time that was exceeded. */
const RESTART_MS = 25;
/** A batch may lose its machine so often without getting on. */
const MAX_LOSSES = 3;
/** How outcomes begin that the guest may tell. */
const GUEST_OUTCOMES = "=-+~!";
const LEVELS = ["debug", "log", "info", "warn", "error"] as const;
const MAX_LINE_LENGTH = 8_000;
/** So many characters may be added to an event that has more than one may become. */
const MAX_ADDED_LENGTH = 25_000;
const FIRST_REST_MS = 1_000;
const LONGEST_REST_MS = 300_000;

/** What a thread gives to its instances. */
export interface GuestPlatform {
  readonly wasmModule: WebAssembly.Module;
  readonly core: string;
  readonly parts: Readonly<Record<string, string>>;
  readonly answers: HostAnswers;
  readonly beat: Int32Array<SharedArrayBuffer>;
  readonly threadCpu: ThreadCpu | null;
  /** The time that limits of waiting are in. */
  readonly attended: AttendedTime;
  /** Sends a message of so many characters, with others unless it is long. */
  send(message: FromThread, length?: number): void;
  /** The instance may have something to do. */
  wake(instance: GuestInstance): void;
  /** True when the turn of an instance has been long enough. */
  mustYield(): boolean;
  /** How long the turn may last yet. */
  msLeft(): number;
  fetch(argument: Json, settings: GuestSettings): Promise<Json>;
}

/** Questions whose effect is to be durable with an event. */
const OF_EVENTS: ReadonlySet<string> = new Set(["set", "delete", "job", "capture"]);

/** A piece of work whose cost is measured and limited by itself. */
interface Task extends Asker {
  readonly spending: Spending;
  readonly limitMs: number;
  readonly beat: number;
  readonly cause: GuestCause | null;
  /** What has ended and had set this going. */
  readonly origin: Task | null;
}

interface Asked extends Question {
  readonly task: Task;
}

interface Batch {
  readonly id: number;
  readonly text: string;
  /** The lines of the text, once they are looked through. */
  scanned: ScannedLines | null;
  /** True where it has to be known which event is under way. */
  isCareful: boolean;
  /** How often its machine was lost since one of its events was done, and how many were left then. */
  losses: number;
  leftAtLoss: number;
  /** False where the shapes of its events were too much for the machine. */
  hasShapes: boolean;
  readonly outcomes: (ThreadOutcome | undefined)[];
  /** Where to look for the next event. */
  next: number;
  left: number;
  /** Events begun and not done, with the time when they are given up. */
  readonly waiting: Map<number, { readonly task: Task; readonly until: number }>;
  /** Ids of persons by event, read once several events wait at a time. */
  persons: readonly string[] | null;
  isAccepted: boolean;
}

type TransformMessage = Extract<ToThread, { kind: "transform" }>;

/** Events that are run in one go: which one is under way, as far as is known, and what they spent. */
interface RunUnderWay {
  readonly batch: Batch;
  event: number;
  readonly spendings: Spending[];
}

interface Call {
  readonly id: number;
  readonly text: string;
  readonly task: Task;
  until: number;
  isBegun: boolean;
}

/**
 * One transformation of one config in its machine: what waits to be run there, what is under way,
 * and what it has cost. Lives in a thread of the sandbox.
 */
export class GuestInstance {
  readonly key: number;
  readonly settings: GuestSettings;
  readonly #platform: GuestPlatform;
  readonly #meter: CpuMeter;
  #machine: VirtualMachine | null = null;
  /** Each machine has its number, so that answers to one do not reach the next. */
  #machineNumber = 0;
  #state: "starting" | "running" | "resting" | "stopped" = "starting";
  #restsUntil = 0;
  #restMs = FIRST_REST_MS;
  #restReason: GuestFailure | null = null;
  readonly #batches: Batch[] = [];
  #batch: Batch | null = null;
  /** The batch under way, or the last one: what nobody knows the beginning of hangs on that. */
  #latest: (Asker & { readonly cause: GuestCause }) | null = null;
  readonly #calls = new Map<number, Call>();
  /** Answers and timers that have come and are to be told. */
  #arrived: (() => void)[] = [];
  readonly #asks = new Map<number, Asked>();
  readonly #askBounds = new AskBounds();
  readonly #hostAllowance = new HostAllowance();
  readonly #timers = new Map<number, NodeJS.Timeout>();
  #endSetUp: ((failure: GuestFailure | null) => void) | null = null;
  #current: Task;
  /** What the machine was stopped for, until there is a new one. */
  #exceeded: GuestCause | null = null;
  #underRun: RunUnderWay | null = null;
  #shapes = new ShapeTable();
  /** How many shapes the machine knows. */
  #shapesGiven = 0;
  #wasteMs = 0;
  #wasteAt = performance.now();
  #log: SandboxLogLine[] = [];
  #loggedLines = 0;
  #unloggedLines = 0;
  #clock: NodeJS.Timeout | null = null;
  /** When `setupPlugin` is given up, while it runs. */
  #setUpUntil = Number.POSITIVE_INFINITY;

  constructor(key: number, settings: GuestSettings, platform: GuestPlatform) {
    this.key = key;
    this.settings = settings;
    this.#platform = platform;
    this.#meter = new CpuMeter(platform.threadCpu);
    this.#current = this.#taskOf(NO_EVENT.other, null);
  }

  get projectId(): number {
    return this.settings.projectId;
  }

  /** Loads and sets up; tells how that went. */
  async start(): Promise<void> {
    const failure = await this.#boot();
    this.#flushLog();
    this.#platform.send({ kind: "started", instance: this.key, failure });
    if (failure === null) this.#platform.wake(this);
    else this.#rest(failure);
  }

  transform({ id, lines: text, count, skipped, isCareful }: TransformMessage): void {
    const outcomes: (ThreadOutcome | undefined)[] = Array.from({ length: count });
    for (const index of skipped) outcomes[index] = failed("it was skipped", true, 0);
    this.#batches.push({
      id,
      text,
      scanned: null,
      isCareful,
      losses: 0,
      leftAtLoss: count,
      hasShapes: true,
      outcomes,
      next: 0,
      left: count - skipped.length,
      waiting: new Map(),
      persons: null,
      isAccepted: false,
    });
    this.#platform.wake(this);
  }

  /** What has not begun of a batch is left. */
  cut(id: number): void {
    const batch =
      this.#batch?.id === id ? this.#batch : this.#batches.find((waiting) => waiting.id === id);
    if (batch === undefined) return;
    for (let index = 0; index < batch.outcomes.length; index += 1) {
      if (batch.outcomes[index] !== undefined || batch.waiting.has(index)) continue;
      batch.outcomes[index] = NOT_RUN;
      batch.left -= 1;
    }
    if (batch.left === 0 && this.#batch === batch) this.#endBatch(batch);
    else this.#platform.wake(this);
  }

  call(id: number, text: string): void {
    const task = this.#taskOf(NO_EVENT.call, { id, event: null });
    this.#calls.set(id, { id, text, task, until: Number.POSITIVE_INFINITY, isBegun: false });
    this.#platform.wake(this);
  }

  answer(ask: number, isOk: boolean, value: Json | undefined): void {
    this.#settle(this.#machineNumber, ask, isOk, value);
  }

  stop(): void {
    this.#state = "stopped";
    this.#dropMachine();
    if (this.#clock !== null) clearTimeout(this.#clock);
    this.#batches.length = 0;
    this.#batch = null;
    this.#calls.clear();
  }

  get hasWork(): boolean {
    if (this.#state === "resting") {
      return this.#batches.length > 0 || this.#batch !== null || this.#calls.size > 0;
    }
    if (this.#state !== "running") return false;
    if (this.#arrived.length > 0) return true;
    // Until it is set up, only answers for that are taken.
    if (this.#endSetUp !== null) return false;
    if (this.#batch === null ? this.#batches.length > 0 : this.#canBegin(this.#batch)) return true;
    for (const call of this.#calls.values()) if (!call.isBegun) return true;
    return false;
  }

  /** One turn: as much as may be done before others have theirs. */
  turn(): void {
    if (this.#state === "resting") this.#turnResting();
    else if (this.#state === "running") this.#turnRunning();
    this.#flushLog();
  }

  #turnResting(): void {
    if (performance.now() >= this.#restsUntil) {
      this.#restart();
      return;
    }
    const failure = this.#restReason ?? EXHAUSTED;
    for (;;) {
      this.#batch ??= this.#batches.shift() ?? null;
      const batch = this.#batch;
      if (batch === null) break;
      this.#batch = null;
      for (let index = 0; index < batch.outcomes.length; index += 1) {
        batch.outcomes[index] ??= failed(failure.reason, failure.isLimit, 0);
      }
      this.#sendOutcomes(batch);
    }
    for (const call of [...this.#calls.values()]) this.#endCall(call, failure);
  }

  #turnRunning(): void {
    this.#meter.wake();
    try {
      while (this.#arrived.length > 0 && !this.#platform.mustYield()) this.#arrived.shift()?.();
      if (this.#endSetUp === null) {
        this.#beginCalls();
        this.#workOnBatches();
      }
    } catch (error) {
      this.#meter.settle();
      this.#handleFault(faultOf(error));
      return;
    } finally {
      this.#meter.rest();
      this.#leave();
    }
    this.#endHung();
    this.#watchClock();
  }

  #beginCalls(): void {
    for (const call of [...this.#calls.values()]) {
      if (call.isBegun) continue;
      call.isBegun = true;
      call.until = this.#attendedMs() + this.settings.limits.waitMs;
      this.#loggedLines = 0;
      if (this.#isExhausted()) this.#endCall(call, EXHAUSTED);
      else this.#enter(call.task, (machine) => machine.run("invoke", call.text));
    }
  }

  #workOnBatches(): void {
    for (;;) {
      this.#batch ??= this.#batches.shift() ?? null;
      const batch = this.#batch;
      if (batch === null) return;
      if (!batch.isAccepted) {
        batch.isAccepted = true;
        const events = batch.outcomes.length;
        if (this.#latest?.cause.id !== batch.id) {
          this.#latest = { events, cause: { id: batch.id, event: null } };
        }
        this.#loggedLines = 0;
        if (this.#isExhausted()) this.#failAll(batch, EXHAUSTED.reason);
        else if (batch.left > 0) this.#accept(batch);
      }
      while (this.#canBegin(batch)) {
        if (this.#isExhausted()) this.#failAll(batch, EXHAUSTED.reason);
        else if (this.#canRun(batch)) this.#run(batch);
        else {
          const task = this.#taskOf(NO_EVENT.other, null);
          this.#enter(task, (machine) => machine.run("work"));
        }
        if (this.#platform.mustYield()) break;
      }
      if (batch.left > 0 || this.#batch !== batch) return;
      this.#endBatch(batch);
      if (this.#state !== "running" || this.#platform.mustYield()) return;
    }
  }

  /** Gives the guest a batch, and the shapes that it does not know. */
  #accept(batch: Batch): void {
    if (this.#shapes.isFull) {
      this.#shapes = new ShapeTable();
      this.#shapesGiven = 0;
    }
    if (batch.scanned?.shapes !== this.#shapes) batch.scanned = this.#shapes.scan(batch.text);
    const { texts, numbers } = batch.scanned;
    const added = batch.hasShapes ? this.#shapes.someFrom(this.#shapesGiven) : [];
    const told = added.map(({ keys, lengths }) => [keys, lengths]);
    const shapes = JSON.stringify([this.#shapesGiven + 1, ...told]);
    this.#shapesGiven += added.length;
    const task = this.#taskOf(NO_EVENT.other, null);
    try {
      this.#enter(task, (machine) => machine.run("accept", ...texts, numbers, shapes));
    } catch (error) {
      // Events whose shapes are not known are read as a whole.
      batch.hasShapes = false;
      throw error;
    }
  }

  /** Whether all that is left of a batch can be run in one go. */
  #canRun(batch: Batch): boolean {
    const { outcomes, waiting, isCareful } = batch;
    if (isCareful || waiting.size > 0) return false;
    const next = this.#nextOf(batch);
    if (next < 0) return false;
    for (let index = next; index < outcomes.length; index += 1) {
      if (outcomes[index] !== undefined) return false;
    }
    return true;
  }

  /**
   * Runs events one after the other within one call, until the turn is over or one of them waits. Who
   * is under way is seen by a mark in the guest's memory, when the engine is interrupted.
   */
  #run(batch: Batch): void {
    const from = batch.next;
    const { left } = batch;
    const task = this.#taskOf(NO_EVENT.run, null);
    const run = { batch, event: -1, spendings: [task.spending] };
    this.#underRun = run;
    const untilMs = Date.now() + this.#platform.msLeft();
    try {
      let text = this.#enter(task, (machine) => machine.run("startRun", from, untilMs));
      this.#lookAtMark();
      this.#meter.settle();
      this.#underRun = null;
      const last = this.#current;
      if (text === "") {
        const other = this.#taskOf(NO_EVENT.other, null);
        text = this.#enter(other, (machine) => machine.run("collect"));
      }
      this.#takeRun(run, from, text);
      const { event } = run;
      if (event >= 0 && batch.outcomes[event] === undefined) this.#await(batch, event, last);
      // The next run would tell as little, and the one after it.
      else if (batch.left === left) this.#failAll(batch, "it does not tell what became of them");
    } catch (error) {
      if (this.#underRun === null) {
        // It was no event but all of them together: each by itself may go well.
        batch.isCareful = true;
        throw error;
      }
      this.#lookAtMark();
      this.#meter.settle();
      this.#underRun = null;
      this.#takeRun(run, from, this.#machine?.salvage() ?? "");
      const { event } = run;
      if (event >= 0 && batch.outcomes[event] === undefined) {
        this.#await(batch, event, this.#current);
      }
      throw error;
    }
  }

  #await(batch: Batch, index: number, task: Task): void {
    const until = this.#attendedMs() + this.settings.limits.waitMs;
    batch.waiting.set(index, { task, until });
  }

  /** Finds out which event of a run is under way; what is spent from then on is its own. */
  #lookAtMark(nowMs = performance.now()): void {
    const run = this.#underRun;
    if (run === null || this.#machine === null) return;
    const { event, sinceMs } = this.#machine.mark;
    if (event === run.event) return;
    const isEvent = event >= 0 && event < run.batch.outcomes.length;
    run.event = isEvent ? event : -1;
    const task = this.#taskOf(NO_EVENT.run, isEvent ? { id: run.batch.id, event } : null);
    run.spendings.push(task.spending);
    this.#switchTo(task, Math.min(nowMs, sinceMs - performance.timeOrigin));
  }

  /** Takes what a run came to: what was spent is that of its events, the long ones by their time. */
  #takeRun({ batch, spendings }: RunUnderWay, from: number, text: string): void {
    const [head = "", setsText = "", ...texts] = text.split(SEPARATOR);
    if (texts.length === 0) return;
    const sets = new ToldSets(setsText);
    const longs = readNumbers(head);
    const allMs = spendings.reduce((sum, { cpuMs }) => sum + Math.max(0, cpuMs), 0);
    const longMs = new Map<number, number>();
    let sumMs = 0;
    for (let at = 0; at + 1 < longs.length; at += 2) {
      const ms = Number(longs[at + 1]);
      longMs.set(Number(longs[at]), ms);
      sumMs += ms;
    }
    const share = sumMs > allMs ? allMs / sumMs : 1;
    const others = texts.length - longMs.size;
    const otherMs = others > 0 ? (allMs - sumMs * share) / others : 0;
    for (const [at, outcome] of texts.entries()) {
      const index = from + at;
      if (index >= batch.outcomes.length || batch.outcomes[index] !== undefined) break;
      const ms = longMs.get(index);
      const cpuMs = ms ? ms * share : otherMs;
      batch.outcomes[index] =
        outcome === SET || outcome === SET_ALIKE
          ? this.#judgeSets(batch, index, sets, outcome, cpuMs)
          : this.#judge(batch, index, outcome, cpuMs);
      batch.left -= 1;
    }
  }

  #canBegin(batch: Batch): boolean {
    if (batch.left > 0 && !batch.isAccepted) return true;
    if (batch.left === 0) return !batch.isAccepted;
    return batch.waiting.size < MAX_WAITING_EVENTS && this.#nextOf(batch) >= 0;
  }

  /** The next event that may begin: events of one person wait for each other. */
  #nextOf(batch: Batch): number {
    const { outcomes, waiting } = batch;
    while (
      batch.next < outcomes.length &&
      (outcomes[batch.next] !== undefined || waiting.has(batch.next))
    ) {
      batch.next += 1;
    }
    if (waiting.size === 0) return batch.next < outcomes.length ? batch.next : -1;
    batch.persons ??= batch.text.split("\n").map(readPerson);
    const { persons } = batch;
    const busy = new Set([...waiting.keys()].map((index) => persons[index]));
    for (let index = batch.next; index < outcomes.length; index += 1) {
      if (outcomes[index] !== undefined || waiting.has(index)) continue;
      const person = persons[index];
      if (!busy.has(person)) return index;
    }
    return -1;
  }

  /** Called by the guest for its next event. */
  #begin(done: number, outcome: string): number {
    const nowMs = performance.now();
    this.#meter.settle(nowMs);
    const batch = this.#batch;
    if (batch === null) return -1;
    if (done >= 0) this.#conclude(batch, done, outcome);
    // The rest is run in one go.
    if (done >= 0 && this.#canRun(batch)) return this.#endLane(nowMs);
    if (this.#platform.mustYield() || batch.waiting.size >= MAX_WAITING_EVENTS) {
      return this.#endLane(nowMs);
    }
    if (this.#isExhausted()) {
      this.#failAll(batch, EXHAUSTED.reason);
      return this.#endLane(nowMs);
    }
    const index = this.#nextOf(batch);
    if (index < 0) return this.#endLane(nowMs);
    const task = this.#taskOf(index, { id: batch.id, event: index });
    batch.waiting.set(index, {
      task,
      until: this.#attendedMs(nowMs) + this.settings.limits.waitMs,
    });
    this.#switchTo(task, nowMs);
    return index;
  }

  #endLane(nowMs: number): -1 {
    this.#switchTo(this.#taskOf(NO_EVENT.other, null), nowMs);
    return -1;
  }

  #conclude(batch: Batch, index: number, text: string): void {
    const waiting = batch.waiting.get(index);
    if (waiting === undefined) return;
    batch.waiting.delete(index);
    batch.left -= 1;
    batch.outcomes[index] = this.#judge(batch, index, text, waiting.task.spending.cpuMs);
  }

  #judgeSets(
    batch: Batch,
    index: number,
    sets: ToldSets,
    kind: typeof SET | typeof SET_ALIKE,
    cpuMs: number,
  ): ThreadOutcome {
    const { outputLength } = this.settings.limits;
    try {
      const text = sets.next(kind);
      if (text.length <= outputLength && batch.scanned !== null) {
        const told = sets.tell(text, batch.scanned, index);
        return (
          this.#tooLong(told, batch.scanned, index, cpuMs) ?? { text: told, isLimit: false, cpuMs }
        );
      }
      return this.#judge(batch, index, text, cpuMs);
    } catch {
      return failed(UNREADABLE, true, cpuMs);
    }
  }

  #judge({ id, scanned }: Batch, index: number, text: string, cpuMs: number): ThreadOutcome {
    const { outputLength } = this.settings.limits;
    if (text.length > outputLength) {
      return failed(`the event became larger than ${outputLength} characters`, true, cpuMs);
    }
    if (!GUEST_OUTCOMES.includes(text.slice(0, 1) || " ")) {
      return failed(UNREADABLE, true, cpuMs);
    }
    const isChanged = text.startsWith("+") || text.startsWith("~");
    if (isChanged && nestsDeeper(text, MAX_DEPTH)) {
      return failed(`the event became nested deeper than ${MAX_DEPTH}`, true, cpuMs);
    }
    // What is interrupted fails with whatever the engine then comes upon.
    const exceeded = this.#exceeded;
    if (text.startsWith("!") && exceeded?.id === id && exceeded.event === index) {
      return failed(
        `it computed for longer than ${this.settings.limits.eventCpuMs} ms`,
        true,
        cpuMs,
      );
    }
    const isLimit = text.startsWith('!"InternalError: ');
    if (!isChanged || scanned === null) return { text, isLimit, cpuMs };
    let told: string;
    try {
      told = tellChange(text, scanned, index);
    } catch {
      return failed(UNREADABLE, true, cpuMs);
    }
    return this.#tooLong(told, scanned, index, cpuMs) ?? { text: told, isLimit, cpuMs };
  }

  /** A failure where an event has become too long, and not only because it was so before. */
  #tooLong(
    told: string,
    { lines }: ScannedLines,
    index: number,
    cpuMs: number,
  ): ThreadOutcome | undefined {
    const { eventLength } = this.settings.limits;
    const before = lines[index]?.length ?? 0;
    if (told.length + before <= eventLength) return undefined;
    const length = lengthAfter(told, before);
    if (length <= Math.max(eventLength, before + MAX_ADDED_LENGTH)) return undefined;
    return failed(`the event became larger than ${eventLength} characters`, true, cpuMs);
  }

  #failAll(batch: Batch, reason: string): void {
    for (let index = 0; index < batch.outcomes.length; index += 1) {
      if (batch.outcomes[index] !== undefined || batch.waiting.has(index)) continue;
      batch.outcomes[index] = failed(reason, true, 0);
      batch.left -= 1;
    }
  }

  #endBatch(batch: Batch): void {
    this.#batch = null;
    this.#sendOutcomes(batch);
    // An engine that ran out of memory is not to be trusted, even where the error was caught.
    if (batch.outcomes.some((outcome) => outcome?.text.startsWith(OUT_OF_MEMORY))) {
      this.#waste(RESTART_MS * 4);
      this.#restart();
    }
  }

  #sendOutcomes({ id, outcomes }: Batch): void {
    const texts: string[] = [];
    const cpuMs = new Float64Array(outcomes.length);
    const limits: number[] = [];
    for (let index = 0; index < outcomes.length; index += 1) {
      const outcome = outcomes[index] ?? failed("it was not run", false, 0);
      texts.push(outcome.text);
      cpuMs[index] = outcome.cpuMs;
      if (outcome.isLimit) limits.push(index);
    }
    this.#flushLog();
    const told = { texts: texts.join(SEPARATOR), cpuMs, limits };
    this.#platform.send({ kind: "transformed", instance: this.key, id, ...told });
  }

  #endCall(call: Call, failure: GuestFailure | null, text = "null"): void {
    if (!this.#calls.delete(call.id)) return;
    this.#flushLog();
    const { cpuMs } = call.task.spending;
    this.#platform.send({ kind: "called", instance: this.key, id: call.id, text, failure, cpuMs });
  }

  /** What waits although nothing is on its way any more would wait for ever. */
  #endHung(): void {
    if (this.#asks.size > 0 || this.#timers.size > 0 || this.#arrived.length > 0) return;
    const failure = limitOf("it waits for a promise that never settles");
    this.#endSetUp?.({ ...failure, reason: `setupPlugin: ${failure.reason}` });
    const batch = this.#batch;
    for (const index of [...(batch?.waiting.keys() ?? [])]) {
      if (batch !== null) this.#giveUp(batch, index, failure.reason);
    }
    for (const call of [...this.#calls.values()]) if (call.isBegun) this.#endCall(call, failure);
  }

  #giveUp(batch: Batch, index: number, reason: string): void {
    const waiting = batch.waiting.get(index);
    if (waiting === undefined) return;
    batch.waiting.delete(index);
    batch.left -= 1;
    batch.outcomes[index] = failed(reason, true, waiting.task.spending.cpuMs);
    if (batch.left === 0 && this.#batch === batch) this.#endBatch(batch);
    else this.#platform.wake(this);
  }

  /** Gives up what has waited too long, when its time comes. */
  #watchClock(): void {
    if (this.#clock !== null) return;
    const isWaiting = (this.#batch?.waiting.size ?? 0) > 0 || this.#calls.size > 0;
    if (!isWaiting && this.#setUpUntil === Number.POSITIVE_INFINITY) return;
    this.#clock = setTimeout(() => {
      this.#clock = null;
      this.#endLate();
      this.#watchClock();
    }, LOOK_MS);
  }

  #endLate(): void {
    const nowMs = this.#attendedMs();
    const { waitMs } = this.settings.limits;
    const failure = limitOf(`it did not end within ${waitMs} ms`);
    const batch = this.#batch;
    for (const [index, { until }] of [...(batch?.waiting ?? [])]) {
      if (batch !== null && until <= nowMs) this.#giveUp(batch, index, failure.reason);
    }
    for (const call of [...this.#calls.values()])
      if (call.until <= nowMs) this.#endCall(call, failure);
    if (this.#setUpUntil <= nowMs) {
      this.#endSetUp?.(limitOf(`setupPlugin did not end within ${waitMs} ms`));
    }
  }

  #attendedMs(nowMs = performance.now()): number {
    return this.#platform.attended.read(nowMs);
  }

  async #boot(): Promise<GuestFailure | null> {
    const { limits, code, setup, attachments } = this.settings;
    this.#state = "starting";
    this.#machineNumber += 1;
    const { wasmModule, core } = this.#platform;
    const host = this.#hostOf(this.#machineNumber);
    const { memoryMiB, loadCpuMs, waitMs } = limits;
    try {
      const givenBytes = [...attachments.values()].reduce((sum, file) => sum + file.byteLength, 0);
      const machine = await VirtualMachine.create({
        wasmModule,
        memoryMiB,
        core,
        host,
        givenBytes,
      });
      if (this.#hasStopped()) return STOPPED;
      this.#machine = machine;
      this.#meter.wake();
      const loadTask = { ...this.#taskOf(NO_EVENT.start, null), limitMs: loadCpuMs };
      const error = this.#enter(loadTask, () => machine.load(code));
      if (error !== "") {
        const [reason] = JSON.parse(error) as [string];
        return { reason, isLimit: isLimitReason(reason), wantsRetry: false };
      }
      const ended = new Promise<GuestFailure | null>((resolve) => {
        this.#endSetUp = resolve;
      });
      const setUpTask = { ...this.#taskOf(NO_EVENT.start, null), limitMs: loadCpuMs };
      this.#enter(setUpTask, () => machine.run("setUp", setup));
      this.#leave();
      this.#meter.rest();
      this.#state = "running";
      this.#endHung();
      this.#setUpUntil = this.#attendedMs() + waitMs;
      this.#watchClock();
      const failure = await ended;
      if (this.#hasStopped()) return STOPPED;
      if (failure === null) this.#restMs = FIRST_REST_MS;
      return failure;
    } catch (error) {
      if (!(error instanceof MachineFault)) {
        return { reason: "the sandbox could not start it", isLimit: false, wantsRetry: false };
      }
      this.#meter.settle();
      this.#waste(this.#current.spending.cpuMs);
      return limitOf(faultReason(error, memoryMiB, loadCpuMs));
    } finally {
      this.#setUpUntil = Number.POSITIVE_INFINITY;
      this.#endSetUp = null;
      this.#leave();
      this.#meter.rest();
    }
  }

  #hasStopped(): boolean {
    return this.#state === "stopped";
  }

  /** Starts anew with fresh memory; what waits is run then. */
  #restart(): void {
    if (this.#hasStopped()) return;
    this.#dropMachine();
    const batch = this.#batch;
    if (batch !== null) {
      // What was waiting has lost its memory: it is begun again.
      const events = [...batch.waiting.keys()];
      this.#platform.send({ kind: "anew", instance: this.key, id: batch.id, events });
      batch.waiting.clear();
      batch.next = 0;
      batch.isAccepted = false;
      this.#boundLosses(batch);
    }
    const failure = limitOf("it was ended by a limit that something beside it exceeded");
    for (const call of [...this.#calls.values()]) if (call.isBegun) this.#endCall(call, failure);
    void this.#boot().then((notStarted) => {
      this.#flushLog();
      if (notStarted === null) this.#platform.wake(this);
      else this.#rest(notStarted);
    });
  }

  /**
   * A batch that loses its machine again and again and gets nowhere is run event by event; then one of
   * its events fails each time, whoever is to blame, so that it comes to an end.
   */
  #boundLosses(batch: Batch): void {
    batch.losses = batch.left < batch.leftAtLoss ? 0 : batch.losses + 1;
    if (batch.losses > 0) batch.isCareful = true;
    const next = this.#nextOf(batch);
    if (batch.losses >= MAX_LOSSES && next >= 0) {
      batch.outcomes[next] = failed("its machine was lost again and again", true, 0);
      batch.left -= 1;
      batch.losses -= 1;
    }
    batch.leftAtLoss = batch.left;
  }

  /** Does not run for a while: a start that fails is not tried again for every event. */
  #rest(failure: GuestFailure): void {
    if (this.#hasStopped()) return;
    this.#dropMachine();
    this.#state = "resting";
    this.#restReason = failure;
    this.#restsUntil = performance.now() + this.#restMs;
    this.#restMs = Math.min(LONGEST_REST_MS, this.#restMs * 2);
    this.#platform.wake(this);
  }

  #dropMachine(): void {
    this.#machine = null;
    this.#exceeded = null;
    this.#machineNumber += 1;
    // What the next one is told is told piece by piece again.
    this.#shapes = new ShapeTable();
    this.#shapesGiven = 0;
    this.#asks.clear();
    this.#askBounds.endAll();
    this.#arrived = [];
    for (const timer of this.#timers.values()) clearTimeout(timer);
    this.#timers.clear();
    this.#endSetUp?.(STOPPED);
  }

  #handleFault(fault: MachineFault): void {
    const { cause, spending, limitMs } = this.#current;
    const reason = faultReason(fault, this.settings.limits.memoryMiB, limitMs);
    this.#waste(spending.cpuMs + RESTART_MS);
    this.#log.push({
      at: new Date(),
      source: "system",
      level: "error",
      message: `Stopped: ${reason}`,
    });
    if (this.#endSetUp !== null) {
      this.#endSetUp(limitOf(reason));
      return;
    }
    if (cause !== null && cause.event === null) {
      const call = this.#calls.get(cause.id);
      if (call !== undefined) this.#endCall(call, limitOf(reason));
    } else if (cause?.event !== undefined && cause.event !== null && this.#batch?.id === cause.id) {
      this.#giveUp(this.#batch, cause.event, reason);
    }
    if (this.#state === "running") this.#restart();
  }

  #enter(task: Task, work: (machine: VirtualMachine) => string): string {
    const machine = this.#machine;
    if (machine === null) return "";
    Atomics.store(this.#platform.beat, BEAT.instance, this.key);
    this.#switchTo(task, performance.now());
    return work(machine);
  }

  #leave(): void {
    Atomics.store(this.#platform.beat, BEAT.instance, 0);
  }

  #switchTo(task: Task, nowMs: number): void {
    const { beat } = this.#platform;
    Atomics.store(beat, BEAT.event, task.beat);
    Atomics.add(beat, BEAT.count, 1);
    this.#current = task;
    this.#meter.switchTo(task.spending, task.limitMs, nowMs);
  }

  #taskOf(beat: number, cause: GuestCause | null, origin: Task | null = null): Task {
    const limitMs = this.settings.limits.eventCpuMs;
    const events = cause === null || cause.event === null ? 0 : 1;
    return { spending: nothingSpent(), limitMs, beat, cause, origin, events };
  }

  #waste(costMs: number): void {
    const nowMs = performance.now();
    const regainedMs = (nowMs - this.#wasteAt) * WASTE_REGAINED_PER_MS;
    this.#wasteMs =
      Math.max(0, this.#wasteMs - regainedMs) + Math.min(costMs, MAX_WASTE_AT_ONCE_MS);
    this.#wasteAt = nowMs;
  }

  #isExhausted(): boolean {
    if (this.#wasteMs < WASTE_ALLOWED_MS) return false;
    this.#waste(0);
    return this.#wasteMs >= WASTE_ALLOWED_MS;
  }

  #hostOf(number: number): MachineHost {
    const isCurrent = () => number === this.#machineNumber;
    return {
      begin: (done, outcome) => (isCurrent() ? this.#begin(done, outcome) : -1),
      bytes: (key) => this.settings.attachments.get(key),
      mustStop: () => {
        Atomics.add(this.#platform.beat, BEAT.count, 1);
        this.#lookAtMark();
        const isExceeded = this.#meter.settle();
        if (isExceeded) this.#exceeded ??= this.#current.cause;
        return isExceeded || !isCurrent();
      },
      call: (op, argument) => {
        if (!isCurrent()) return undefined;
        this.#lookAtMark();
        try {
          return this.#answerCall(number, op, argument);
        } catch (error) {
          const { name, message } = error as Error;
          return `!${name}: ${message}`;
        }
      },
    };
  }

  #answerCall(number: number, op: string, argument: string): string | undefined {
    switch (op) {
      case "part":
        return Object.hasOwn(this.#platform.parts, argument) ? this.#platform.parts[argument] : "";
      case "log":
        return this.#takeLine(argument);
      case "ask":
        return this.#takeAsk(number, argument);
      case "timer":
        this.#takeTimer(number, JSON.parse(argument) as [number, number | null]);
        return undefined;
      case "done":
        this.#takeDone(JSON.parse(argument) as [string, boolean, Json, boolean?]);
        return undefined;
      case "metric": {
        this.#takeMetric(JSON.parse(argument) as Json);
        return undefined;
      }
      default:
        return this.#answerOf(op, argument);
    }
  }

  /** What the platform computes costs whoever asks for it, and whoever has used up its time gets none. */
  #answerOf(op: string, argument: string): string {
    const { limitMs } = this.#current;
    if (this.#meter.settle()) throw new RangeError(`it computed for longer than ${limitMs} ms`);
    // What the platform computes cannot be interrupted, and is no sign of a blocked thread.
    Atomics.add(this.#platform.beat, BEAT.count, 1);
    const charge = this.#hostAllowance.chargeFor(this.#current);
    const answer = this.#platform.answers.answer(op, JSON.parse(argument), charge);
    this.#meter.settle();
    return JSON.stringify(answer);
  }

  #takeAsk(number: number, text: string): string | undefined {
    const tooDeep = this.#askBounds.refuseDeep(text);
    if (tooDeep !== undefined) return `!Error: ${tooDeep}`;
    const [ask, op, argument] = JSON.parse(text) as [number, string, Json];
    const { length } = text;
    const task = this.#current;
    const cause = task.cause ?? (OF_EVENTS.has(op) ? this.#oldestWaiting() : null);
    const asker = task.cause !== null ? task : (task.origin ?? this.#latest ?? task);
    const refusal = this.#askBounds.begin({ asker, length }, op);
    if (refusal !== undefined) return `!Error: ${refusal}`;
    this.#asks.set(ask, { task, asker, length });
    if (op !== "fetch") {
      const origin = task.cause === null ? asker.cause : null;
      this.#platform.send(
        { kind: "ask", instance: this.key, ask, op, argument, cause, origin },
        length,
      );
      return undefined;
    }
    this.#platform.fetch(argument, this.settings).then(
      (answer) => this.#settle(number, ask, true, answer),
      (error: unknown) => this.#settle(number, ask, false, (error as Error).message),
    );
    return undefined;
  }

  /**
   * The event that waits longest: what is asked for when it is not known whose code runs (another event
   * has just ended, and what waited for it goes on) is durable no later than the event that it is of.
   */
  #oldestWaiting(): GuestCause | null {
    const batch = this.#batch;
    if (batch === null) return null;
    const [event] = batch.waiting.keys();
    return event === undefined ? null : { id: batch.id, event };
  }

  #settle(number: number, ask: number, isOk: boolean, value: Json | undefined): void {
    if (number !== this.#machineNumber || !this.#asks.has(ask)) return;
    const text = encodeJson([ask, isOk, value ?? null]);
    this.#arrived.push(() => {
      const asked = this.#asks.get(ask);
      if (asked === undefined) return;
      this.#asks.delete(ask);
      this.#askBounds.end(asked);
      this.#enter(this.#stillOf(asked.task), (machine) => machine.run("settle", text));
    });
    this.#platform.wake(this);
  }

  #takeTimer(number: number, [id, delayMs]: [number, number | null]): void {
    clearTimeout(this.#timers.get(id));
    this.#timers.delete(id);
    if (delayMs === null) return;
    if (this.#timers.size >= MAX_TIMERS) throw new Error("too many timers are set");
    const task = this.#current;
    const fire = () => {
      if (number !== this.#machineNumber) return;
      this.#arrived.push(() => {
        this.#timers.delete(id);
        this.#enter(this.#stillOf(task), (machine) => machine.run("fire", id));
      });
      this.#platform.wake(this);
    };
    this.#timers.set(id, setTimeout(fire, delayMs));
  }

  /** The work that something was begun for, or one of its own when that has ended. */
  #stillOf(task: Task): Task {
    const { cause } = task;
    const isUnderWay =
      cause !== null &&
      (cause.event === null
        ? this.#calls.has(cause.id)
        : this.#batch?.id === cause.id && this.#batch.waiting.has(cause.event));
    if (isUnderWay || task.beat === NO_EVENT.start) return task;
    const origin = cause === null ? task.origin : task;
    return this.#taskOf(NO_EVENT.other, null, origin);
  }

  #takeDone([name, isOk, value, wantsRetry]: [string, boolean, Json, boolean?]): void {
    const reason = String(value);
    const failure = isOk
      ? null
      : { reason, isLimit: isLimitReason(reason), wantsRetry: wantsRetry === true };
    if (name === "setUp") {
      this.#endSetUp?.(failure);
      return;
    }
    const call = this.#calls.get(Number(name.slice("call ".length)));
    if (call === undefined) return;
    const text = JSON.stringify(value ?? null);
    const { outputLength } = this.settings.limits;
    if (failure !== null || text.length <= outputLength) this.#endCall(call, failure, text);
    else this.#endCall(call, limitOf(`the answer is larger than ${outputLength} characters`));
  }

  /** Only what it may say: the text comes from where code may have a hand in how it is written. */
  #takeMetric(told: Json): void {
    const [name, operation, value] = Array.isArray(told) ? told : [];
    if (typeof name !== "string" || typeof value !== "number") return;
    if (operation !== "sum" && operation !== "max" && operation !== "min") return;
    this.#platform.send({ kind: "metric", instance: this.key, name, operation, value });
  }

  #takeLine(argument: string): string | undefined {
    const { logLines } = this.settings.limits;
    if (argument === "" || this.#loggedLines >= logLines) {
      this.#unloggedLines += 1;
      return "full";
    }
    this.#loggedLines += 1;
    const told = JSON.parse(argument) as Json;
    const [level, message] = Array.isArray(told) ? told : [];
    this.#log.push({
      at: new Date(),
      source: "console",
      level: LEVELS.find((known) => known === level) ?? "log",
      message: String(typeof message === "string" ? message : JSON.stringify(message)).slice(
        0,
        MAX_LINE_LENGTH,
      ),
    });
    return this.#loggedLines >= logLines ? "full" : undefined;
  }

  #flushLog(): void {
    if (this.#unloggedLines > 0) {
      const message = `${this.#unloggedLines} more lines were not kept`;
      this.#log.push({ at: new Date(), source: "system", level: "warn", message });
      this.#unloggedLines = 0;
    }
    for (const message of this.#askBounds.takeRefusals()) {
      this.#log.push({ at: new Date(), source: "system", level: "warn", message });
    }
    if (this.#log.length === 0) return;
    this.#platform.send({ kind: "log", instance: this.key, lines: this.#log });
    this.#log = [];
  }
}

const OUT_OF_MEMORY = '!"InternalError: out of memory';
const UNREADABLE = "it answered what cannot be read";
const NOT_RUN: ThreadOutcome = { text: "?", isLimit: false, cpuMs: 0 };
const STOPPED: GuestFailure = { reason: "it was stopped", isLimit: false, wantsRetry: false };
const EXHAUSTED = limitOf("it rests, since it has exceeded its limits again and again");

/** How long an event is, about, with what is told of it. */
function lengthAfter(told: string, before: number): number {
  if (told === "=") return 0;
  if (told.endsWith(`\n${ADDED}`)) return before + told.length;
  // All properties stand behind the change, where they are known.
  const end = told.startsWith("~") ? told.indexOf("\n") : told.length - 1;
  const properties = told.length - end - 1;
  if (properties === 0) return told.length;
  const { e: fields = {} } = JSON.parse(told.slice(1, end)) as TextChange;
  return properties + JSON.stringify(fields).length;
}

function limitOf(reason: string): GuestFailure {
  return { reason, isLimit: true, wantsRetry: false };
}

function failed(reason: string, isLimit: boolean, cpuMs: number): ThreadOutcome {
  return { text: `!${JSON.stringify(reason)}`, isLimit, cpuMs };
}

/** Running out of memory or stack, which code inside of the sandbox sees as errors. */
function isLimitReason(reason: string): boolean {
  return reason.startsWith("InternalError: ");
}

function faultReason(fault: MachineFault, memoryMiB: number, limitMs: number): string {
  switch (fault.kind) {
    case "cpu":
      return `it computed for longer than ${limitMs} ms`;
    case "memory":
      return `it used more than ${memoryMiB} MiB of memory`;
    case "crash":
      return `it broke its machine (${fault.message.slice(0, 200)})`;
  }
}

/** Whatever goes wrong at work for an instance ends its machine, and nobody else's. */
function faultOf(error: unknown): MachineFault {
  if (error instanceof MachineFault) return error;
  const message = error instanceof Error ? error.message : String(error);
  return new MachineFault("crash", message, { cause: error });
}

function readNumbers(text: string): readonly number[] {
  const read = JSON.parse(text) as Json;
  return Array.isArray(read) ? read.map(Number) : [];
}

function readPerson(line: string): string {
  const { distinct_id: id } = JSON.parse(line) as { distinct_id?: unknown };
  return String(id);
}
