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
  /**
   * Rejects when the config keeps too much already, or the key or value is too long. What is set by
   * the owner of a run's writes is seen by all at once, and held until it is released or undone.
   */
  set(config: ConfigRef, key: string, value: Json | undefined, owner?: object): Promise<void>;
  /** What owners have set is written soon. */
  release(owners: Iterable<object>): void;
  /** What owners have set, of one config or of all, comes to nothing. */
  undo(owners: Iterable<object>, config?: ConfigRef): void;
  flush(): Promise<void>;
}

const MAX_KEY_CHARS = 1_000;
const MAX_VALUE_CHARS = 1_000_000;
/** More that wait are written at once, and whoever brings them waits. */
const MAX_PENDING = 1_000;
const FLUSH_AFTER_MS = 200;
/** Characters that one config may have held. */
const MAX_HELD_CHARS = 4 * MAX_STORED_CHARS;

/** What is set but may come to nothing yet. */
interface HeldWrite extends StoredValue {
  readonly owner: object;
  readonly chars: number;
}

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
  /** By name, oldest first. */
  const held = new Map<string, readonly HeldWrite[]>();
  const namesOf = new Map<object, Set<string>>();
  /** By config. */
  const heldChars = new Map<number, number>();
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

  function keep(name: string, before: readonly HeldWrite[], writes: readonly HeldWrite[]): void {
    for (const [some, sign] of [[before, -1] as const, [writes, 1] as const]) {
      for (const { configId, chars } of some) {
        const sum = (heldChars.get(configId) ?? 0) + sign * chars;
        if (sum > 0) heldChars.set(configId, sum);
        else heldChars.delete(configId);
      }
    }
    if (writes.length > 0) held.set(name, writes);
    else held.delete(name);
  }

  function writeSoon(name: string, value: StoredValue): void {
    pending.set(name, value);
    timer ??= setTimeout(() => void flush(), FLUSH_AFTER_MS).unref();
  }

  return {
    async get(config, key) {
      const name = keyOf(config, key);
      const known = held.get(name)?.at(-1) ?? pending.get(name) ?? writing.get(name);
      return known ? known.value : storage.get(config, key);
    },

    release(owners) {
      const released = new Set(owners);
      const names = new Set([...released].flatMap((owner) => [...(namesOf.get(owner) ?? [])]));
      for (const owner of released) namesOf.delete(owner);
      for (const name of names) {
        const writes = held.get(name) ?? [];
        const last = writes.findLastIndex(({ owner }) => released.has(owner));
        const write = writes[last];
        if (!write) continue;
        const { projectId, configId, key, value } = write;
        writeSoon(name, { projectId, configId, key, value });
        // Earlier ones were overwritten, whosever they are.
        keep(name, writes, writes.slice(last + 1));
      }
      if (pending.size >= MAX_PENDING) void flush();
    },

    undo(owners, config) {
      const undone = new Set(owners);
      for (const owner of undone) {
        for (const name of namesOf.get(owner) ?? []) {
          const writes = held.get(name) ?? [];
          const left = writes.filter(
            (write) => write.owner !== owner || (config && write.configId !== config.configId),
          );
          keep(name, writes, left);
        }
        if (!config) namesOf.delete(owner);
      }
    },

    async set(config, key, value, owner) {
      let chars = key.length;
      if (key.length > MAX_KEY_CHARS) throw new Error("the key is too long to be stored");
      if (value !== undefined) {
        chars += JSON.stringify(value, plainNumbers).length;
        if (chars - key.length > MAX_VALUE_CHARS) {
          throw new Error("the value is too large to be stored");
        }
        let usage = usages.get(config.configId);
        if (!usage) {
          usage = await storage.usage(config);
          usages.set(config.configId, usage);
        }
        const isFull = usage.keys >= MAX_STORED_KEYS || usage.chars >= MAX_STORED_CHARS;
        if (isFull || (owner && (heldChars.get(config.configId) ?? 0) >= MAX_HELD_CHARS)) {
          throw new Error("the storage of this transformation is full");
        }
      }
      const { projectId, configId } = config;
      const name = keyOf(config, key);
      const before = held.get(name) ?? [];
      if (owner) {
        const others = before.filter((write) => write.owner !== owner);
        const write = { projectId, configId, key, value, owner, chars };
        keep(name, before, [...others, write]);
        const names = namesOf.get(owner) ?? new Set();
        namesOf.set(owner, names.add(name));
      } else {
        // It is the last of them.
        keep(name, before, []);
        writeSoon(name, { projectId, configId, key, value });
      }
      if (pending.size >= MAX_PENDING) await flush();
    },

    flush,
  };
}

/** Large integers are as long as their digits. */
function plainNumbers(_name: string, value: unknown): unknown {
  return typeof value === "bigint" ? String(value) : value;
}
