import { createHash } from "node:crypto";
import { existsSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { fileURLToPath } from "node:url";
import { isJsonObject, type Json, ownValue } from "@hedgerow/core/json";
import {
  type CompileOutcome,
  DEFAULT_LIMITS,
  type InstanceSettings,
  type Program,
  type Sandbox,
  type SandboxLimits,
  type SourceFiles,
  type SourceProblem,
  type StartOutcome,
} from "../../transformations/sandbox.ts";
import { type Bundle, SourceBundler } from "./bundle-source.ts";
import { withOwnTraces } from "./engine-traces.ts";
import { loadGuestTexts } from "./guest-texts.ts";
import { SandboxInstance } from "./sandbox-instance.ts";
import type { FromThread } from "./sandbox-messages.ts";
import { SandboxThread, type ThreadResources } from "./sandbox-thread-handle.ts";

const DEFAULT_THREADS = 3;
const INSPECTOR_IDLE_MS = 10_000;
const SPARE_AFTER_MS = 500;
const SCHEDULED = ["runEveryMinute", "runEveryHour", "runEveryDay"];

interface Slot {
  thread: SandboxThread;
  readonly instances: Map<number, SandboxInstance>;
}

/**
 * Runs transformations on QuickJS in WebAssembly, in threads. Nothing is opened before the first
 * source comes. Each instance has a machine and a memory of its own; projects are spread over
 * threads, and share one only when there are more projects than threads.
 */
export class QuickJsSandbox implements Sandbox {
  readonly #maxThreads: number;
  readonly #privateNetworks: readonly string[];
  readonly #inspectionLimits: SandboxLimits;
  readonly #bundler = new SourceBundler();
  readonly #slots: Slot[] = [];
  #resources: Promise<ThreadResources> | null = null;
  #inspector: SandboxThread | null = null;
  #inspectorIdle: NodeJS.Timeout | undefined;
  #spare: NodeJS.Timeout | undefined;
  readonly #inspections = new Map<number, (isOk: boolean, text: string) => void>();
  #keys = 0;
  #isClosed = false;

  /**
   * @param options.privateNetworks those that are not public and that `fetch` may reach all the same
   * @param options.limits those of sources that are compiled
   */
  constructor(
    options: {
      threads?: number;
      privateNetworks?: readonly string[];
      limits?: SandboxLimits;
    } = {},
  ) {
    this.#maxThreads = options.threads ?? DEFAULT_THREADS;
    this.#privateNetworks = options.privateNetworks ?? [];
    this.#inspectionLimits = options.limits ?? DEFAULT_LIMITS;
  }

  async compile(files: SourceFiles): Promise<CompileOutcome> {
    const bundle = await this.#bundler.bundle(files);
    if (bundle.kind === "refused") return bundle;
    const { isOk, text } = await this.#inspect(bundle.code);
    // Code that tampers with how JSON is written has a hand in what is told of it.
    const told = readJson(text);
    if (!isOk) {
      const [message, trace] = Array.isArray(told) ? told.map(String) : [];
      const problem = placeOf(message ?? UNREADABLE, trace, bundle.locate);
      return { kind: "refused", problems: [problem] };
    }
    const program = programOf(bundle.code, told);
    if (program !== null) return { kind: "compiled", program };
    return { kind: "refused", problems: [{ file: "", line: 0, column: 0, message: UNREADABLE }] };
  }

  async start(settings: InstanceSettings): Promise<StartOutcome> {
    const resources = await this.#openResources();
    if (this.#isClosed) return { kind: "failed", reason: "the sandbox is closed", isLimit: false };
    const slot = this.#slotOf(settings.projectId, resources);
    this.#keys += 1;
    const instance = new SandboxInstance(
      this.#keys,
      settings,
      (message) => slot.thread.send(message),
      ({ key }) => slot.instances.delete(key),
    );
    slot.instances.set(instance.key, instance);
    return instance.start();
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    clearTimeout(this.#spare);
    this.#endInspections("the sandbox is closed");
    clearTimeout(this.#inspectorIdle);
    for (const { instances } of this.#slots) {
      for (const instance of instances.values()) instance.endWith("the sandbox is closed");
    }
    await Promise.all(this.#slots.map(({ thread }) => thread.close()));
    await this.#inspector?.close();
    await this.#bundler.close();
  }

  #openResources(): Promise<ThreadResources> {
    this.#resources ??= this.#readResources();
    this.#resources.catch(() => {
      this.#resources = null;
    });
    return this.#resources;
  }

  async #readResources(): Promise<ThreadResources> {
    const [bytes, guestTexts] = await Promise.all([readFile(enginePath()), loadGuestTexts()]);
    const wasmModule = await WebAssembly.compile(withOwnTraces(bytes));
    return { wasmModule, guestTexts, privateNetworks: this.#privateNetworks };
  }

  /** The thread of a project; a new one while there are few, else that with the fewest instances. */
  #slotOf(projectId: number, resources: ThreadResources): Slot {
    const own = this.#slots.find(({ instances }) =>
      [...instances.values()].some(({ settings }) => settings.projectId === projectId),
    );
    if (own !== undefined) return own;
    const unused =
      this.#slots.find(({ instances }) => instances.size === 0) ??
      (this.#slots.length < this.#maxThreads ? this.#openSlot(resources) : undefined);
    if (unused !== undefined) {
      // The next project does not wait for a thread to open.
      this.#openSpareLater(resources);
      return unused;
    }
    return this.#slots.reduce((least, slot) =>
      slot.instances.size < least.instances.size ? slot : least,
    );
  }

  #openSpareLater(resources: ThreadResources): void {
    clearTimeout(this.#spare);
    this.#spare = setTimeout(() => {
      const hasSpare = this.#slots.some(({ instances }) => instances.size === 0);
      if (!hasSpare && this.#slots.length < this.#maxThreads) this.#openSlot(resources);
    }, SPARE_AFTER_MS);
    this.#spare.unref();
  }

  #openSlot(resources: ThreadResources): Slot {
    const instances = new Map<number, SandboxInstance>();
    const open = (): SandboxThread =>
      new SandboxThread(resources, {
        onMessage: (message) => {
          if (message.kind !== "inspected") instances.get(message.instance)?.receive(message);
        },
        onLost: (lost) => {
          if (this.#isClosed) return;
          slot.thread = open();
          for (const instance of [...instances.values()]) {
            instance.moveTo((message) => slot.thread.send(message), lost);
          }
        },
      });
    const slot: Slot = { thread: open(), instances };
    this.#slots.push(slot);
    return slot;
  }

  /** Inspects in a thread of its own: an endless source delays nobody's events. */
  async #inspect(code: string): Promise<{ isOk: boolean; text: string }> {
    const resources = await this.#openResources();
    if (this.#isClosed) return { isOk: false, text: JSON.stringify(["the sandbox is closed"]) };
    clearTimeout(this.#inspectorIdle);
    this.#inspector ??= this.#openInspector(resources);
    const inspector = this.#inspector;
    this.#keys += 1;
    const id = this.#keys;
    return new Promise((resolve) => {
      this.#inspections.set(id, (isOk, text) => {
        this.#inspections.delete(id);
        if (this.#inspections.size === 0) this.#closeInspectorLater();
        resolve({ isOk, text });
      });
      inspector.send({ kind: "inspect", id, code, limits: this.#inspectionLimits });
    });
  }

  #openInspector(resources: ThreadResources): SandboxThread {
    return new SandboxThread(resources, {
      onMessage: (message: FromThread) => {
        if (message.kind === "inspected") {
          this.#inspections.get(message.id)?.(message.isOk, message.text);
        }
      },
      onLost: () => {
        this.#inspector = null;
        this.#endInspections("loading blocks the sandbox");
      },
    });
  }

  #endInspections(reason: string): void {
    for (const finish of [...this.#inspections.values()]) {
      finish(false, JSON.stringify([reason]));
    }
  }

  #closeInspectorLater(): void {
    this.#inspectorIdle = setTimeout(() => {
      void this.#inspector?.close();
      this.#inspector = null;
    }, INSPECTOR_IDLE_MS);
    this.#inspectorIdle.unref();
  }
}

const UNREADABLE =
  "what it offers cannot be read: it changes what all objects or lists have in common (Object.prototype, Array.prototype, JSON) in a way that nothing can be read any more";

function readJson(text: string): Json {
  try {
    return JSON.parse(text) as Json;
  } catch {
    return null;
  }
}

function areTexts(values: Json | undefined): values is string[] {
  return Array.isArray(values) && values.every((value) => typeof value === "string");
}

function programOf(code: string, told: Json): Program | null {
  if (!isJsonObject(told)) return null;
  const methods = ownValue(told, "methods");
  const jobs = ownValue(told, "jobs");
  const kinds = ownValue(told, "metrics");
  if (!areTexts(methods) || !areTexts(jobs) || !isJsonObject(kinds)) return null;
  const metrics = Object.fromEntries(
    Object.entries(kinds).map(([name, kind]) => [name, String(kind)]),
  );
  return {
    code,
    digest: createHash("sha256").update(code).digest("hex"),
    methods,
    jobs,
    scheduledTasks: SCHEDULED.filter((name) => methods.includes(name)),
    metrics,
  };
}

/**
 * Where an error was thrown while loading, in the files of the source.
 * @param trace nothing for what was no error, absent where nothing was thrown
 */
function placeOf(
  message: string,
  trace: string | undefined,
  locate: (Bundle & { kind: "bundled" })["locate"],
): SourceProblem {
  const [found, line, column = 1] = /index\.js:(\d+)(?::(\d+))?/.exec(trace ?? "") ?? [];
  const place = found === undefined ? undefined : locate(Number(line), Number(column));
  if (place !== undefined) return { ...place, message };
  const thrown =
    trace === "" ? `${message} (thrown while loading; only an Error tells where)` : message;
  return { file: "", line: 0, column: 0, message: thrown };
}

/**
 * The engine that the bundle comes with (`scripts/optimize-engine.mjs`), for the bundle itself, for what
 * was only compiled and for the sources, so that tests run what is shipped; else that of the package.
 */
function enginePath(): string {
  const optimized = [
    "./engine.wasm",
    "../../bundle/engine.wasm",
    "../../../dist/bundle/engine.wasm",
  ]
    .map((path) => fileURLToPath(new URL(path, import.meta.url)))
    .find(existsSync);
  const { resolve } = createRequire(import.meta.url);
  return optimized ?? resolve("@jitl/quickjs-wasmfile-release-sync/wasm");
}
