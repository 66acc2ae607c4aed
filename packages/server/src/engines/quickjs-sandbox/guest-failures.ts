import type { GuestFailure, ThreadOutcome } from "./sandbox-messages.ts";
import { MachineFault } from "./virtual-machine.ts";

export const STOPPED: GuestFailure = {
  reason: "it was stopped",
  isLimit: false,
  wantsRetry: false,
};
export const EXHAUSTED = limitOf("it rests, since it has exceeded its limits again and again");

/** The failure of what has exceeded a limit. */
export function limitOf(reason: string): GuestFailure {
  return { reason, isLimit: true, wantsRetry: false };
}

/** What became of an event that has failed. */
export function failedOutcome(reason: string, isLimit: boolean, cpuMs: number): ThreadOutcome {
  return { text: `!${JSON.stringify(reason)}`, isLimit, cpuMs };
}

/** Running out of memory or stack, which code inside of the sandbox sees as errors. */
export function isLimitReason(reason: string): boolean {
  return reason.startsWith("InternalError: ");
}

export function faultReason(fault: MachineFault, memoryMiB: number, limitMs: number): string {
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
export function faultOf(error: unknown): MachineFault {
  if (error instanceof MachineFault) return error;
  const message = error instanceof Error ? error.message : String(error);
  return new MachineFault("crash", message, { cause: error });
}
