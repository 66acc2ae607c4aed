import type { Json } from "@hedgerow/core/json";
import {
  type ConfigRef,
  MAX_STORED_CHARS,
  MAX_STORED_KEYS,
  type StorageUsage,
  type StoredValue,
  type TransformationStorage,
} from "./transformation-records.ts";

/** Storage of transformations that write often: values are written together, soon. */
export interface StorageBuffer {
  get(config: ConfigRef, key: string): Promise<Json | undefined>;
  /** Rejects when the config keeps too much already, or the key or value is too long. */
  set(config: ConfigRef, key: string, value: Json | undefined): Promise<void>;
  flush(): Promise<void>;
}

const MAX_KEY_CHARS = 1_000;
const MAX_VALUE_CHARS = 1_000_000;
/** More that wait are written at once, and whoever brings them waits. */
const MAX_PENDING = 1_000;
const FLUSH_AFTER_MS = 200;

export function createStorageBuffer({
  storage,
  reportFault,
}: {
  storage: TransformationStorage;
  reportFault: (error: unknown, context: string) => void;
}): StorageBuffer {
  const pending = new Map<string, StoredValue>();
  /** What is being written: it is read from here until it is. */
  let writing = new Map<string, StoredValue>();
  const usages = new Map<number, StorageUsage>();
  let timer: NodeJS.Timeout | undefined;
  let last: Promise<void> = Promise.resolve();

  const keyOf = ({ configId }: ConfigRef, key: string) => `${configId} ${key}`;

  function flush(): Promise<void> {
    clearTimeout(timer);
    timer = undefined;
    last = last.then(async () => {
      if (pending.size === 0) return;
      writing = new Map(pending);
      pending.clear();
      try {
        for (const usage of await storage.write([...writing.values()])) {
          usages.set(usage.configId, usage);
        }
      } catch (error) {
        reportFault(error, "what transformations store could not be written");
        for (const [key, value] of writing) if (!pending.has(key)) pending.set(key, value);
      } finally {
        writing = new Map();
      }
    });
    return last;
  }

  return {
    async get(config, key) {
      const name = keyOf(config, key);
      const held = pending.get(name) ?? writing.get(name);
      return held ? held.value : storage.get(config, key);
    },

    async set(config, key, value) {
      if (key.length > MAX_KEY_CHARS) throw new Error("the key is too long to be stored");
      if (value !== undefined) {
        if (JSON.stringify(value, plainNumbers).length > MAX_VALUE_CHARS) {
          throw new Error("the value is too large to be stored");
        }
        let usage = usages.get(config.configId);
        if (!usage) {
          usage = await storage.usage(config);
          usages.set(config.configId, usage);
        }
        if (usage.keys >= MAX_STORED_KEYS || usage.chars >= MAX_STORED_CHARS) {
          throw new Error("the storage of this transformation is full");
        }
      }
      const { projectId, configId } = config;
      pending.set(keyOf(config, key), { projectId, configId, key, value });
      if (pending.size >= MAX_PENDING) await flush();
      else timer ??= setTimeout(() => void flush(), FLUSH_AFTER_MS).unref();
    },

    flush,
  };
}

/** Large integers are as long as their digits. */
function plainNumbers(_name: string, value: unknown): unknown {
  return typeof value === "bigint" ? String(value) : value;
}
