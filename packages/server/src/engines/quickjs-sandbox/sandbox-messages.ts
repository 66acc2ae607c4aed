import type { Json, JsonObject } from "@hedgerow/core/json";
import type { SandboxLimits, SandboxLogLine } from "../../transformations/sandbox.ts";
import type { GuestTexts } from "./guest-texts.ts";

/** What a thread is told of a config: all that it takes to run it there. */
export interface GuestSettings {
  readonly projectId: number;
  readonly code: string;
  /** JSON of `{config, attachments}` as the guest reads it, without what the files hold. */
  readonly setup: string;
  /** What the attached files hold, by their keys: given when it is read. */
  readonly attachments: ReadonlyMap<string, Uint8Array>;
  readonly allowedHosts: readonly string[];
  readonly limits: SandboxLimits;
}

/** Places in the numbers by which a thread shows what it does, readable while it is blocked. */
export const BEAT = {
  /** Whose code is at work; 0 for nobody's. */
  instance: 0,
  /** Which event of its batch, or one of {@link NO_EVENT}. */
  event: 1,
  /** Grows while code runs that can be interrupted. */
  count: 2,
  /** Grows while the main thread has its turns. */
  looks: 3,
  /** The number the kernel gave to the thread; 0 where it tells none. */
  thread: 4,
} as const;

/** Bytes of these numbers. */
export const BEAT_BYTES = 5 * Int32Array.BYTES_PER_ELEMENT;

/** What is at work where no event is. */
export const NO_EVENT = { start: -1, call: -2, other: -3, run: -4 } as const;

/** Stands between texts that cross as one; no JSON has it. */
export const SEPARATOR = "\u001e";

/** What a thread is opened with. */
export interface ThreadData {
  readonly wasmModule: WebAssembly.Module;
  readonly guestTexts: GuestTexts;
  readonly privateNetworks: readonly string[];
  readonly beat: Int32Array<SharedArrayBuffer>;
}

export type ToThread =
  | { readonly kind: "start"; readonly instance: number; readonly settings: GuestSettings }
  | {
      readonly kind: "transform";
      readonly instance: number;
      readonly id: number;
      /** One event per line. */
      readonly lines: string;
      readonly count: number;
      /** Events that must not be run again. */
      readonly skipped: readonly number[];
      /** Told of every event when it begins, so that it is known which one blocks the thread. */
      readonly isCareful: boolean;
    }
  /** No event of a batch begins any more. */
  | { readonly kind: "cut"; readonly instance: number; readonly id: number }
  | {
      readonly kind: "call";
      readonly instance: number;
      readonly id: number;
      /** JSON of the call, with its id. */
      readonly call: string;
    }
  | {
      readonly kind: "answer";
      readonly instance: number;
      readonly ask: number;
      readonly isOk: boolean;
      readonly value: Json | undefined;
    }
  | { readonly kind: "stop"; readonly instance: number }
  | {
      readonly kind: "inspect";
      readonly id: number;
      readonly code: string;
      readonly limits: SandboxLimits;
    };

/**
 * What became of an event: `=` unchanged, `-` dropped, `+` and JSON of what it became, `~` and JSON of
 * a {@link TextChange} with the JSON of its properties after it in a line of its own (nothing where
 * that is not known, {@link ADDED} where they are those from before and the ones set behind them), `!` and JSON of the reason why it failed, `?` not begun.
 */
export interface ThreadOutcome {
  readonly text: string;
  readonly isLimit: boolean;
  readonly cpuMs: number;
}

/** Stands for the text of properties that are those from before, with nothing but more behind them. */
export const ADDED = "+";

/** How an event differs from the one that was given; what is absent does not differ. */
export interface TextChange {
  /** Fields beside the properties, as they are now. */
  readonly e?: JsonObject;
  /** Fields that are there no more. */
  readonly f?: readonly string[];
  /** Properties as they are now, and those that are there no more. */
  readonly p?: JsonObject;
  readonly q?: readonly string[];
  /** All properties, where they are not told one by one; an object unless the answer is wrong. */
  readonly w?: Json;
}

export interface GuestFailure {
  readonly reason: string;
  readonly isLimit: boolean;
  /** It threw a `RetryError`: it may go well later. */
  readonly wantsRetry: boolean;
}

/** What asked for something: an event of a batch, or a call. */
export interface GuestCause {
  readonly id: number;
  readonly event: number | null;
}

export type FromThread =
  | { readonly kind: "started"; readonly instance: number; readonly failure: GuestFailure | null }
  | {
      readonly kind: "transformed";
      readonly instance: number;
      readonly id: number;
      /** Texts of {@link ThreadOutcome}s, one behind the other. */
      readonly texts: string;
      readonly cpuMs: Float64Array;
      /** Events that exceeded a limit. */
      readonly limits: readonly number[];
    }
  | {
      readonly kind: "called";
      readonly instance: number;
      readonly id: number;
      /** JSON of the answer. */
      readonly text: string;
      readonly failure: GuestFailure | null;
      readonly cpuMs: number;
    }
  | {
      readonly kind: "ask";
      readonly instance: number;
      readonly ask: number;
      readonly op: string;
      readonly argument: Json;
      readonly cause: GuestCause | null;
      /**
       * Where it is not known whose code runs: what had begun that, which has ended; or the batch under
       * way or the last one, with no event. The cause is then the event that is likely to, if there is one.
       */
      readonly origin: GuestCause | null;
    }
  | {
      readonly kind: "metric";
      readonly instance: number;
      /** The event or call that counts; where it is not known, the event that has waited longest. */
      readonly cause: GuestCause | null;
      readonly name: string;
      readonly operation: "sum" | "max" | "min";
      readonly value: number;
    }
  | {
      /** Events of a batch that had begun have lost their memory, and are begun again. */
      readonly kind: "anew";
      readonly instance: number;
      readonly id: number;
      readonly events: readonly number[];
    }
  | { readonly kind: "log"; readonly instance: number; readonly lines: readonly SandboxLogLine[] }
  | {
      readonly kind: "inspected";
      readonly id: number;
      readonly isOk: boolean;
      readonly text: string;
    };
