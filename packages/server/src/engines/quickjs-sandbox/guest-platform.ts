import type { Json } from "@hedgerow/core/json";
import type { AttendedTime } from "./attended-time.ts";
import type { HostAnswers } from "./host-answers.ts";
import type { FromThread, GuestSettings } from "./sandbox-messages.ts";
import type { ThreadCpu } from "./thread-cpu.ts";

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
  /** The instance of that key may have something to do. */
  wake(instance: number): void;
  /** True when the turn of an instance has been long enough. */
  mustYield(): boolean;
  /** How long the turn may last yet. */
  msLeft(): number;
  fetch(argument: Json, settings: GuestSettings): Promise<Json>;
}
