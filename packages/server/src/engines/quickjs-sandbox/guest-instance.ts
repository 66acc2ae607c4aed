import type { Json } from "@hedgerow/core/json";
import { LOOK_MS } from "./attended-time.ts";
import { BatchLine } from "./batch-line.ts";
import type { BatchUnderWay, TransformMessage } from "./batch-under-way.ts";
import {
  EXHAUSTED,
  faultOf,
  faultReason,
  isLimitReason,
  limitOf,
  STOPPED,
} from "./guest-failures.ts";
import type { GuestPlatform } from "./guest-platform.ts";
import { HostAllowance } from "./host-allowance.ts";
import { errorText } from "./host-errors.ts";
import { InstanceLog } from "./instance-log.ts";
import { MeteredMachine, type Task } from "./metered-machine.ts";
import { OpenQuestions } from "./open-questions.ts";
import {
  type GuestCause,
  type GuestFailure,
  type GuestSettings,
  NO_EVENT,
} from "./sandbox-messages.ts";
import { MachineFault, type MachineHost, VirtualMachine } from "./virtual-machine.ts";
import { WasteAllowance } from "./waste-allowance.ts";

/** What starting anew costs beside the time that was exceeded. */
const RESTART_MS = 25;
const FIRST_REST_MS = 1_000;
const LONGEST_REST_MS = 300_000;

interface Call {
  readonly id: number;
  readonly text: string;
  readonly task: Task;
  until: number;
  isBegun: boolean;
}

/**
 * One transformation of one config in its machine: its life from start to stop, the turns that it is
 * given, and whom its machine reaches. Lives in a thread of the sandbox.
 */
export class GuestInstance {
  readonly key: number;
  readonly settings: GuestSettings;
  readonly #platform: GuestPlatform;
  readonly #machine: MeteredMachine;
  readonly #waste = new WasteAllowance();
  /** Each machine has its number: what is left of one reaches nobody. */
  #machineNumber = 0;
  #state: "starting" | "running" | "resting" | "stopped" = "starting";
  #restsUntil = 0;
  #restMs = FIRST_REST_MS;
  #restReason: GuestFailure | null = null;
  readonly #batches: BatchLine;
  readonly #calls = new Map<number, Call>();
  readonly #questions: OpenQuestions;
  readonly #hostAllowance = new HostAllowance();
  readonly #log: InstanceLog;
  #endSetUp: ((failure: GuestFailure | null) => void) | null = null;
  /** When `setupPlugin` is given up, while it runs. */
  #setUpUntil = Number.POSITIVE_INFINITY;
  #clock: NodeJS.Timeout | null = null;

  constructor(key: number, settings: GuestSettings, platform: GuestPlatform) {
    this.key = key;
    this.settings = settings;
    this.#platform = platform;
    this.#machine = new MeteredMachine(key, settings.limits.eventCpuMs, platform);
    this.#log = new InstanceLog(settings.limits.logLines);
    const batches = new BatchLine({
      settings,
      platform,
      machine: this.#machine,
      waste: this.#waste,
      onBegin: () => this.#log.open(),
      onEnd: (batch) => this.#endBatch(batch),
      wake: () => platform.wake(key),
    });
    this.#batches = batches;
    this.#questions = new OpenQuestions({
      key,
      settings,
      platform,
      machine: this.#machine,
      batches,
      isUnderWay: (cause) =>
        cause.event === null ? this.#calls.has(cause.id) : batches.isUnderWay(cause),
      isStarting: () => this.#endSetUp !== null,
      wake: () => platform.wake(key),
    });
  }

  get projectId(): number {
    return this.settings.projectId;
  }

  /** Loads and sets up; tells how that went. */
  async start(): Promise<void> {
    const failure = await this.#boot();
    this.#flushLog();
    this.#platform.send({ kind: "started", instance: this.key, failure });
    if (failure === null) this.#platform.wake(this.key);
    else this.#rest(failure);
  }

  transform(message: TransformMessage): void {
    this.#batches.add(message);
    this.#platform.wake(this.key);
  }

  /** What has not begun of a batch is left. */
  cut(id: number): void {
    this.#batches.cut(id);
  }

  call(id: number, text: string): void {
    const task = this.#machine.taskOf(NO_EVENT.call, { id, event: null });
    this.#calls.set(id, { id, text, task, until: Number.POSITIVE_INFINITY, isBegun: false });
    this.#platform.wake(this.key);
  }

  answer(ask: number, isOk: boolean, value: Json | undefined): void {
    this.#questions.answer(ask, isOk, value);
  }

  stop(): void {
    this.#state = "stopped";
    this.#dropMachine();
    if (this.#clock !== null) clearTimeout(this.#clock);
    this.#batches.clear();
    this.#calls.clear();
  }

  get hasWork(): boolean {
    if (this.#state === "resting") return !this.#batches.isEmpty || this.#calls.size > 0;
    if (this.#state !== "running") return false;
    if (this.#questions.hasArrived) return true;
    // Until it is set up, only answers for that are taken.
    if (this.#endSetUp !== null) return false;
    if (this.#batches.canBegin) return true;
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
    this.#batches.failAll(failure);
    for (const call of [...this.#calls.values()]) this.#endCall(call, failure);
  }

  #turnRunning(): void {
    this.#machine.wake();
    try {
      while (this.#questions.hasArrived && !this.#platform.mustYield()) this.#questions.tellNext();
      if (this.#endSetUp === null) {
        this.#beginCalls();
        this.#batches.work();
      }
    } catch (error) {
      this.#machine.settle();
      this.#handleFault(faultOf(error));
      return;
    } finally {
      this.#machine.rest();
    }
    this.#endHung();
    this.#watchClock();
  }

  #beginCalls(): void {
    for (const call of [...this.#calls.values()]) {
      if (call.isBegun) continue;
      call.isBegun = true;
      call.until = this.#attendedMs() + this.settings.limits.waitMs;
      this.#log.open();
      if (this.#waste.isExhausted) this.#endCall(call, EXHAUSTED);
      else this.#machine.enter(call.task, (machine) => machine.run("invoke", call.text));
    }
  }

  /** True where the machine may go on. */
  #endBatch(batch: BatchUnderWay): boolean {
    this.#flushLog();
    const { id } = batch;
    this.#platform.send({ kind: "transformed", instance: this.key, id, ...batch.tell() });
    // An engine that ran out of memory is not to be trusted, even where the error was caught.
    if (this.#state === "running" && batch.wasOutOfMemory) {
      this.#waste.use(RESTART_MS * 4);
      this.#restart();
    }
    return this.#state === "running";
  }

  #endCall(call: Call, failure: GuestFailure | null, text = "null"): void {
    if (!this.#calls.delete(call.id)) return;
    this.#flushLog();
    const { cpuMs } = call.task.spending;
    this.#platform.send({ kind: "called", instance: this.key, id: call.id, text, failure, cpuMs });
  }

  #endCallsBegun(failure: GuestFailure): void {
    for (const call of [...this.#calls.values()]) if (call.isBegun) this.#endCall(call, failure);
  }

  /** What waits although nothing is on its way any more would wait for ever. */
  #endHung(): void {
    if (!this.#questions.isEmpty) return;
    const failure = limitOf("it waits for a promise that never settles");
    this.#endSetUp?.({ ...failure, reason: `setupPlugin: ${failure.reason}` });
    this.#batches.giveUpAll(failure.reason);
    this.#endCallsBegun(failure);
  }

  /** Gives up what has waited too long, when its time comes. */
  #watchClock(): void {
    if (this.#clock !== null) return;
    const isWaiting = this.#batches.isWaiting || this.#calls.size > 0;
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
    this.#batches.giveUpAll(failure.reason, nowMs);
    for (const call of [...this.#calls.values()]) {
      if (call.until <= nowMs) this.#endCall(call, failure);
    }
    if (this.#setUpUntil <= nowMs) {
      this.#endSetUp?.(limitOf(`setupPlugin did not end within ${waitMs} ms`));
    }
  }

  #attendedMs(): number {
    return this.#platform.attended.read(performance.now());
  }

  async #boot(): Promise<GuestFailure | null> {
    const { limits, code, setup, attachments } = this.settings;
    const machine = this.#machine;
    this.#state = "starting";
    this.#machineNumber += 1;
    const { wasmModule, core } = this.#platform;
    const host = this.#hostOf(this.#machineNumber);
    const { memoryMiB, loadCpuMs: limitMs, waitMs } = limits;
    try {
      const givenBytes = [...attachments.values()].reduce((sum, file) => sum + file.byteLength, 0);
      const made = await VirtualMachine.create({ wasmModule, memoryMiB, core, host, givenBytes });
      if (this.#hasStopped()) return STOPPED;
      machine.use(made);
      machine.wake();
      const loadTask = { ...machine.taskOf(NO_EVENT.start, null), limitMs };
      const error = machine.enter(loadTask, (guest) => guest.load(code));
      if (error !== "") {
        const [reason] = JSON.parse(error) as [string];
        return { reason, isLimit: isLimitReason(reason), wantsRetry: false };
      }
      const ended = new Promise<GuestFailure | null>((resolve) => {
        this.#endSetUp = resolve;
      });
      const setUpTask = { ...machine.taskOf(NO_EVENT.start, null), limitMs };
      machine.enter(setUpTask, (guest) => guest.run("setUp", setup));
      machine.rest();
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
      machine.settle();
      this.#waste.use(machine.current.spending.cpuMs);
      return limitOf(faultReason(error, memoryMiB, limitMs));
    } finally {
      this.#setUpUntil = Number.POSITIVE_INFINITY;
      this.#endSetUp = null;
      machine.rest();
    }
  }

  #hasStopped(): boolean {
    return this.#state === "stopped";
  }

  /** Starts anew with fresh memory; what waits is run then. */
  #restart(): void {
    if (this.#hasStopped()) return;
    this.#dropMachine();
    const anew = this.#batches.beginAnew();
    if (anew !== null) this.#platform.send({ kind: "anew", instance: this.key, ...anew });
    this.#endCallsBegun(limitOf("it was ended by a limit that something beside it exceeded"));
    void this.#boot().then((notStarted) => {
      this.#flushLog();
      if (notStarted === null) this.#platform.wake(this.key);
      else this.#rest(notStarted);
    });
  }

  /** Does not run for a while: a start that fails is not tried again for every event. */
  #rest(failure: GuestFailure): void {
    if (this.#hasStopped()) return;
    this.#dropMachine();
    this.#state = "resting";
    this.#restReason = failure;
    this.#restsUntil = performance.now() + this.#restMs;
    this.#restMs = Math.min(LONGEST_REST_MS, this.#restMs * 2);
    this.#platform.wake(this.key);
  }

  #dropMachine(): void {
    this.#machine.drop();
    this.#machineNumber += 1;
    this.#batches.forgetShapes();
    this.#questions.drop();
    this.#endSetUp?.(STOPPED);
  }

  #handleFault(fault: MachineFault): void {
    const { cause, spending, limitMs } = this.#machine.current;
    const reason = faultReason(fault, this.settings.limits.memoryMiB, limitMs);
    this.#waste.use(spending.cpuMs + RESTART_MS);
    this.#log.say("error", `Stopped: ${reason}`);
    if (this.#endSetUp !== null) {
      this.#endSetUp(limitOf(reason));
      return;
    }
    if (cause !== null) this.#giveUp(cause, reason);
    if (this.#state === "running") this.#restart();
  }

  #giveUp(cause: GuestCause, reason: string): void {
    const call = cause.event === null ? this.#calls.get(cause.id) : undefined;
    if (call !== undefined) this.#endCall(call, limitOf(reason));
    else this.#batches.giveUp(cause, reason);
  }

  /** Whom a machine reaches, as long as it is the one at work. */
  #hostOf(number: number): MachineHost {
    const isCurrent = () => number === this.#machineNumber;
    return {
      begin: (done, outcome) => (isCurrent() ? this.#batches.begin(done, outcome) : -1),
      bytes: (key) => this.settings.attachments.get(key),
      mustStop: () => {
        this.#batches.lookAtMark();
        return this.#machine.mustStop() || !isCurrent();
      },
      call: (op, argument) => {
        if (!isCurrent()) return undefined;
        this.#batches.lookAtMark();
        try {
          return this.#answerCall(op, argument);
        } catch (error) {
          return errorText(error);
        }
      },
    };
  }

  #answerCall(op: string, argument: string): string | undefined {
    switch (op) {
      case "part": {
        const { parts } = this.#platform;
        return Object.hasOwn(parts, argument) ? parts[argument] : "";
      }
      case "log":
        return this.#log.take(argument);
      case "ask":
        this.#questions.ask(argument);
        return undefined;
      case "timer":
        this.#questions.setTimer(JSON.parse(argument) as [number, number | null]);
        return undefined;
      case "done":
        this.#takeDone(JSON.parse(argument) as [string, boolean, Json, boolean?]);
        return undefined;
      case "metric":
        this.#takeMetric(JSON.parse(argument) as Json);
        return undefined;
      default:
        return this.#answerOf(op, argument);
    }
  }

  /** What the platform computes costs whoever asks for it, and whoever has used up its time gets none. */
  #answerOf(op: string, argument: string): string {
    const machine = this.#machine;
    const { limitMs } = machine.current;
    if (machine.settle()) throw new RangeError(`it computed for longer than ${limitMs} ms`);
    // What the platform computes cannot be interrupted, and is no sign of a blocked thread.
    machine.showLife();
    const charge = this.#hostAllowance.chargeFor(machine.current);
    const answer = this.#platform.answers.answer(op, JSON.parse(argument), charge);
    machine.settle();
    return JSON.stringify(answer);
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
    const cause = this.#machine.current.cause ?? this.#batches.oldestWaiting;
    this.#platform.send({ kind: "metric", instance: this.key, cause, name, operation, value });
  }

  #flushLog(): void {
    for (const message of this.#questions.takeRefusals()) this.#log.say("warn", message);
    const lines = this.#log.takeLines();
    if (lines.length > 0) this.#platform.send({ kind: "log", instance: this.key, lines });
  }
}
