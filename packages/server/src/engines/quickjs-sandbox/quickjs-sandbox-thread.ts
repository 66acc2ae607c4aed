import { parentPort, workerData } from "node:worker_threads";
import { networks } from "../../platform/network-address.ts";
import { AttendedTime } from "./attended-time.ts";
import { CpuMeter, nothingSpent } from "./cpu-meter.ts";
import { fetchGranted } from "./granted-fetch.ts";
import { GuestInstance } from "./guest-instance.ts";
import type { GuestPlatform } from "./guest-platform.ts";
import { HostAllowance } from "./host-allowance.ts";
import { HostAnswers } from "./host-answers.ts";
import { errorText } from "./host-errors.ts";
import { BEAT, type FromThread, type ThreadData, type ToThread } from "./sandbox-messages.ts";
import { openOwnCpu, ownThreadNumber } from "./thread-cpu.ts";
import { MachineFault, VirtualMachine } from "./virtual-machine.ts";

/** How long an instance may have the thread while others wait for it. */
const TURN_MS = 8;
/** And how long otherwise, so that it hears what it is told. */
const LONG_TURN_MS = 100;
/** Messages go out at once when they have so many characters together. */
const MAX_OUTBOX_LENGTH = 1_000_000;
/** Whose code is at work while a source is inspected: a number that no instance has. */
const INSPECTION = -1;

const { wasmModule, guestTexts, beat, privateNetworks } = workerData as ThreadData;
const isNetworkOpen = networks(privateNetworks);
const port = parentPort;
if (port === null) throw new Error("runs as a thread only");

useUniversalTime();
Atomics.store(beat, BEAT.thread, ownThreadNumber());
const threadCpu = openOwnCpu();

const instances = new Map<number, GuestInstance>();
const ready = new Set<GuestInstance>();
/** Time that each project has had of late: who had least is next. */
const usedMs = new Map<number, number>();
let outbox: FromThread[] = [];
let outboxLength = 0;
let turnEndsAt = 0;
let isTurnPlanned = false;

const platform: GuestPlatform = {
  wasmModule,
  core: guestTexts.core,
  parts: guestTexts.parts,
  answers: new HostAnswers(),
  beat,
  threadCpu,
  attended: new AttendedTime(() => Atomics.load(beat, BEAT.looks), performance.now()),
  send(message, length = 0) {
    outbox.push(message);
    outboxLength += length;
    if (outboxLength > MAX_OUTBOX_LENGTH) sendOutbox();
    // Beside a turn nobody else would send it.
    if (!isTurnPlanned) planTurn();
  },
  wake(key) {
    const instance = instances.get(key);
    if (instance?.hasWork) {
      ready.add(instance);
      if (!isTurnPlanned) planTurn();
    }
  },
  mustYield: () => performance.now() > turnEndsAt,
  msLeft: () => turnEndsAt - performance.now(),
  fetch: (argument, settings) => fetchGranted(argument, settings, isNetworkOpen),
};

port.on("message", (message: ToThread) => {
  switch (message.kind) {
    case "start": {
      const instance = new GuestInstance(message.instance, message.settings, platform);
      instances.set(message.instance, instance);
      void instance.start();
      break;
    }
    case "transform":
      instances.get(message.instance)?.transform(message);
      break;
    case "cut":
      instances.get(message.instance)?.cut(message.id);
      break;
    case "call":
      instances.get(message.instance)?.call(message.id, message.call);
      break;
    case "answer":
      instances.get(message.instance)?.answer(message.ask, message.isOk, message.value);
      break;
    case "stop":
      stop(message.instance);
      break;
    case "inspect":
      void inspect(message);
      break;
  }
});

function stop(key: number): void {
  const instance = instances.get(key);
  if (instance === undefined) return;
  instances.delete(key);
  ready.delete(instance);
  instance.stop();
  const { projectId } = instance;
  if (![...instances.values()].some((other) => other.projectId === projectId))
    usedMs.delete(projectId);
}

function planTurn(): void {
  isTurnPlanned = true;
  setImmediate(takeTurn);
}

function takeTurn(): void {
  isTurnPlanned = false;
  const instance = chooseNext();
  if (instance !== undefined) {
    ready.delete(instance);
    const startedAt = performance.now();
    turnEndsAt = startedAt + (ready.size > 0 ? TURN_MS : LONG_TURN_MS);
    instance.turn();
    const used = (usedMs.get(instance.projectId) ?? 0) + performance.now() - startedAt;
    usedMs.set(instance.projectId, used);
    if (instance.hasWork) ready.add(instance);
  }
  if (outbox.length > 0) sendOutbox();
  if (ready.size > 0 && !isTurnPlanned) planTurn();
}

function sendOutbox(): void {
  port?.postMessage(outbox);
  outbox = [];
  outboxLength = 0;
}

/** The instance that waits whose project had least; projects that come anew do not catch up. */
function chooseNext(): GuestInstance | undefined {
  let chosen: GuestInstance | undefined;
  let least = Number.POSITIVE_INFINITY;
  for (const instance of ready) {
    const used = usedMs.get(instance.projectId) ?? 0;
    if (used >= least) continue;
    chosen = instance;
    least = used;
  }
  if (ready.size === 1) usedMs.clear();
  return chosen;
}

/** Loads a program once, with nothing around it, to see what it offers. */
async function inspect({
  id,
  code,
  limits,
}: Extract<ToThread, { kind: "inspect" }>): Promise<void> {
  const meter = new CpuMeter(threadCpu);
  const answers = new HostAnswers();
  const charge = new HostAllowance().chargeFor({ limitMs: limits.loadCpuMs });
  const reply = (isOk: boolean, text: string) => {
    meter.rest();
    Atomics.store(beat, BEAT.instance, 0);
    platform.send({ kind: "inspected", id, isOk, text });
  };
  try {
    const machine = await VirtualMachine.create({
      wasmModule,
      memoryMiB: limits.memoryMiB,
      core: guestTexts.core,
      host: {
        begin: () => -1,
        mustStop: () => {
          Atomics.add(beat, BEAT.count, 1);
          return meter.settle();
        },
        call(op, argument) {
          if (op === "part") return guestTexts.parts[argument];
          if (op === "log" || op === "timer" || op === "metric" || op === "done") return undefined;
          if (op === "ask") return "!Error: not available while loading";
          try {
            if (meter.settle()) throw new RangeError("loading takes too long");
            return JSON.stringify(answers.answer(op, JSON.parse(argument), charge));
          } catch (error) {
            return errorText(error);
          }
        },
      },
    });
    Atomics.store(beat, BEAT.instance, INSPECTION);
    meter.wake();
    meter.switchTo(nothingSpent(), limits.loadCpuMs);
    const error = machine.load(code);
    if (error === "") reply(true, machine.run("describe"));
    else reply(false, error);
  } catch (error) {
    if (!(error instanceof MachineFault)) throw error;
    const reasons = {
      cpu: `loading takes longer than ${limits.loadCpuMs} ms`,
      memory: `loading takes more than ${limits.memoryMiB} MiB of memory`,
      crash: `loading breaks its machine (${error.message.slice(0, 200)})`,
    };
    reply(false, JSON.stringify([reasons[error.kind]]));
  }
}

/**
 * Local time in this thread is universal time: the engine asks the platform for it, and the zone of
 * the machine is nobody's business.
 */
function useUniversalTime(): void {
  const { prototype } = Date;
  const parts = [
    "FullYear",
    "Month",
    "Date",
    "Day",
    "Hours",
    "Minutes",
    "Seconds",
    "Milliseconds",
  ] as const;
  for (const part of parts) {
    Object.defineProperty(prototype, `get${part}`, { value: prototype[`getUTC${part}`] });
  }
  Object.defineProperty(prototype, "getTimezoneOffset", { value: () => 0 });
}
