import * as quickJs from "@jitl/quickjs-wasmfile-release-sync";
import {
  newQuickJSWASMModuleFromVariant,
  newVariant,
  type QuickJSContext,
  type QuickJSHandle,
  type QuickJSSyncVariant,
} from "quickjs-emscripten-core";
import { type EngineModule, withNativeTexts } from "./native-texts.ts";

const PAGE_BYTES = 65_536;
/** What the engine's module starts with, in pages. */
const INITIAL_PAGES = 256;
const SPARE_PAGES = 64;
const STACK_BYTES = 256 * 1024;

/** The code was stopped, or the machine broke: it must not be used any more. */
export class MachineFault extends Error {
  readonly kind: "cpu" | "memory" | "crash";

  constructor(kind: "cpu" | "memory" | "crash", message: string, options?: ErrorOptions) {
    super(message, options);
    this.kind = kind;
  }
}

/** Who answers what the code inside asks. */
export interface MachineHost {
  call(op: string, argument: string): string | undefined;
  begin(done: number, outcome: string): number;
  /** What an attached file holds; nothing when there is none of that key. */
  bytes?(key: string): Uint8Array | undefined;
  /** Asked every few hundred microseconds while code runs: whether it must end. */
  mustStop(): boolean;
}

/** A package of the older kind: what it exports may lie one level deeper. */
const VARIANT = ((quickJs.default as { default?: unknown }).default ??
  quickJs.default) as QuickJSSyncVariant;

/** What the guest can be asked to do, and whether it answers a text: to ask what it answers costs more. */
const GUEST_FUNCTIONS = {
  load: true,
  loaded: true,
  describe: true,
  setUp: false,
  accept: false,
  startRun: true,
  collect: true,
  work: false,
  invoke: false,
  settle: false,
  fire: false,
} as const;
type GuestFunction = keyof typeof GUEST_FUNCTIONS;
type Guest = Readonly<Record<GuestFunction, QuickJSHandle>>;

/** How many numbers the guest marks in its memory: the event under way, and since when. */
const MARKS = 2;

/** Numbers that the guest writes and the host reads where they lie in memory. */
function newMarks(
  context: QuickJSContext,
  engine: EngineModule | undefined,
  memory: WebAssembly.Memory,
): { readonly handle: QuickJSHandle; readonly at: number } {
  if (engine === undefined) throw new Error("the engine has not told its module");
  const { _malloc: allocate } = engine;
  let at = 0;
  engine._malloc = (bytes) => {
    at = allocate(bytes);
    return at;
  };
  const first = Float64Array.of(-1, 1 / 3);
  const handle = context.newArrayBuffer(first.buffer);
  engine._malloc = allocate;
  // Wherever the library puts it: what is read there later must be this.
  const there = at > 0 && at % 8 === 0 ? new Float64Array(memory.buffer, at, MARKS) : [];
  if (there[0] !== first[0] || there[1] !== first[1]) {
    throw new Error("the engine keeps arrays elsewhere than it says");
  }
  return { handle, at };
}

type GuestValue = string | number | Uint32Array;

function toHandle(context: QuickJSContext, value: GuestValue): QuickJSHandle {
  if (typeof value === "string") return context.newString(value);
  if (typeof value === "number") return context.newNumber(value);
  return context.newArrayBuffer(value.buffer as ArrayBuffer);
}

/**
 * One QuickJS in a WebAssembly memory of its own. It is never disposed of piece by piece, since an
 * engine that ran out of memory or was stopped half-way cannot be: it is let go as a whole.
 */
export class VirtualMachine {
  readonly #context: QuickJSContext;
  readonly #guest: Guest;
  readonly #memory: WebAssembly.Memory;
  /** Where the marks of the guest lie in its memory. */
  readonly #marksAt: number;
  #marks: Float64Array;
  #wasStopped = false;

  private constructor(
    context: QuickJSContext,
    guest: Guest,
    memory: WebAssembly.Memory,
    marksAt: number,
  ) {
    this.#context = context;
    this.#guest = guest;
    this.#memory = memory;
    this.#marksAt = marksAt;
    this.#marks = new Float64Array(memory.buffer, marksAt, MARKS);
  }

  static async create(options: {
    wasmModule: WebAssembly.Module;
    memoryMiB: number;
    core: string;
    host: MachineHost;
    /** Bytes that the host may give, beside the memory that the code may use. */
    givenBytes?: number;
  }): Promise<VirtualMachine> {
    const { wasmModule, memoryMiB, core, host, givenBytes = 0 } = options;
    const roomPages = Math.ceil((memoryMiB * 1024 * 1024 + givenBytes) / PAGE_BYTES);
    const maximum = INITIAL_PAGES + SPARE_PAGES + roomPages;
    const quiet = { print: () => {}, printErr: () => {} };
    const memory = new WebAssembly.Memory({ initial: INITIAL_PAGES, maximum });
    let engine: EngineModule | undefined;
    const module = await newQuickJSWASMModuleFromVariant(
      withNativeTexts(
        newVariant(VARIANT, {
          wasmModule,
          wasmMemory: memory,
          emscriptenModule: quiet as object,
        }),
        (loaded) => {
          engine = loaded;
        },
      ),
    );
    const runtime = module.newRuntime();
    runtime.setMemoryLimit(memoryMiB * 1024 * 1024);
    runtime.setMaxStackSize(STACK_BYTES);
    const context = runtime.newContext();
    let leftBytes = givenBytes;
    const bridge = context.newObject();
    const { undefined: nothing } = context;
    context
      .newFunction("call", (op, argument) => {
        const answer = host.call(context.getString(op), context.getString(argument));
        return answer === undefined ? nothing : context.newString(answer);
      })
      .consume((handle) => context.setProp(bridge, "call", handle));
    context
      .newFunction("begin", (done, outcome) => {
        const index = context.getNumber(done);
        const next = host.begin(index, index < 0 ? "" : context.getString(outcome));
        return context.newNumber(next);
      })
      .consume((handle) => context.setProp(bridge, "begin", handle));
    context
      .newFunction("bytes", (key) => {
        const bytes = host.bytes?.(context.getString(key)) ?? new Uint8Array();
        // The engine writes without looking whether there is room.
        if (bytes.byteLength > leftBytes) throw new RangeError("The attachment was already given");
        leftBytes -= bytes.byteLength;
        return context.newArrayBuffer(Uint8Array.from(bytes).buffer);
      })
      .consume((handle) => context.setProp(bridge, "bytes", handle));
    context
      .newFunction("text", (bytes, encoding) => {
        const held = context.getArrayBuffer(bytes);
        const text = Buffer.from(held.value).toString(
          context.getString(encoding) as BufferEncoding,
        );
        held.dispose();
        return context.newString(JSON.stringify(text));
      })
      .consume((handle) => context.setProp(bridge, "text", handle));
    const marks = newMarks(context, engine, memory);
    context.setProp(bridge, "marks", marks.handle);
    marks.handle.dispose();
    context.setProp(context.global, "__bridge", bridge);
    context.unwrapResult(context.evalCode(core, "sandbox.js")).dispose();
    const functions = context.getProp(context.global, "__guest");
    context.unwrapResult(context.evalCode("delete globalThis.__guest")).dispose();
    const guest = Object.fromEntries(
      Object.keys(GUEST_FUNCTIONS).map((name) => [name, context.getProp(functions, name)]),
    ) as Guest;
    functions.dispose();
    const machine = new VirtualMachine(context, guest, memory, marks.at);
    runtime.setInterruptHandler(() => {
      if (!host.mustStop()) return false;
      machine.#wasStopped = true;
      return true;
    });
    return machine;
  }

  /** Evaluates the program's function expression and runs it; the error with its stack, or nothing. */
  load(code: string): string {
    return this.#guarded(() => {
      const evaluated = this.#context.evalCode(code, "index.js", { type: "global", strict: false });
      if (evaluated.error) {
        const message = this.#messageOf(evaluated.error);
        this.#throwIfStopped(message);
        return JSON.stringify([message, ""]);
      }
      const error = this.#call("load", evaluated.value);
      this.#runJobs();
      return error === "" ? this.#call("loaded") : error;
    });
  }

  /** Runs a function of the guest, and all that it set going. */
  run(name: GuestFunction, ...values: readonly GuestValue[]): string {
    return this.#guarded(() => {
      const answer = this.#call(name, ...values.map((value) => toHandle(this.#context, value)));
      this.#runJobs();
      return answer;
    });
  }

  /**
   * Which event is under way in a run, or -1, and since when (milliseconds of the epoch). Read in the
   * memory, so at any time, without running anything.
   */
  get mark(): { readonly event: number; readonly sinceMs: number } {
    // Memory that has grown is another one.
    if (this.#marks.length === 0) {
      this.#marks = new Float64Array(this.#memory.buffer, this.#marksAt, 2);
    }
    const [event = -1, sinceMs = 0] = this.#marks;
    return { event, sinceMs };
  }

  /** What a run came to that a fault has ended, as far as that can still be told; nothing else may follow. */
  salvage(): string {
    try {
      this.#wasStopped = false;
      this.#context.runtime.removeInterruptHandler();
      this.#context.runtime.setMemoryLimit(-1);
      return this.#call("collect");
    } catch {
      return "";
    }
  }

  #call(name: GuestFunction, ...values: readonly QuickJSHandle[]): string {
    const context = this.#context;
    const result = context.callFunction(this.#guest[name], context.undefined, ...values);
    for (const value of values) value.dispose();
    if (result.error) {
      const message = this.#messageOf(result.error);
      this.#throwIfStopped(message);
      throw new MachineFault("crash", message);
    }
    const text = GUEST_FUNCTIONS[name] ? context.getString(result.value) : "";
    result.value.dispose();
    return text;
  }

  #runJobs(): void {
    const { runtime } = this.#context;
    while (runtime.hasPendingJob()) {
      const result = runtime.executePendingJobs();
      if (result.error) {
        const message = this.#messageOf(result.error);
        result.error.dispose();
        this.#throwIfStopped(message);
      }
      if (this.#wasStopped) this.#throwIfStopped("");
    }
  }

  #messageOf(error: QuickJSHandle): string {
    const context = this.#context;
    if (this.#wasStopped) return "interrupted";
    if (context.typeof(error) !== "object") return "an error that is none";
    const read = (name: string) => {
      const value = context.getProp(error, name);
      const text = context.typeof(value) === "string" ? context.getString(value) : "";
      value.dispose();
      return text;
    };
    return `${read("name")}: ${read("message")}`.slice(0, 4_000);
  }

  #throwIfStopped(message: string): void {
    if (this.#wasStopped) throw new MachineFault("cpu", "interrupted");
    if (message === "InternalError: out of memory") throw new MachineFault("memory", message);
  }

  /** Turns what breaks the engine itself into a fault. */
  #guarded(work: () => string): string {
    try {
      const text = work();
      if (this.#wasStopped) throw new MachineFault("cpu", "interrupted");
      return text;
    } catch (error) {
      if (error instanceof MachineFault) throw error;
      if (this.#wasStopped) throw new MachineFault("cpu", "interrupted");
      const message = error instanceof Error ? error.message : String(error);
      throw new MachineFault("crash", message, { cause: error });
    }
  }
}
