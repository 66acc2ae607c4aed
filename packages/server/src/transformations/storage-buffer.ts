import { cleanText } from "@hedgerow/core/events/clean-json";
import type { Json } from "@hedgerow/core/json";
import type { HandedOver, OrderedValue } from "./event-effects.ts";
import {
  type ConfigRef,
  MAX_STORED_CHARS,
  MAX_STORED_KEYS,
  type StorageUsage,
  type StoredValue,
  type TransformationStorage,
} from "./transformation-records.ts";

/** Whoever sets values that may come to nothing: an event under way. */
export interface WriteOwner {
  /** Set once its values were released or undone; its code may still run. */
  ended?: "released" | "undone" | undefined;
}

/**
 * Storage of transformations that write often: values are written together, soon. What events set
 * gets there by way of the log; what is set outside of events waits for older values of its key.
 */
export interface StorageBuffer {
  get(config: ConfigRef, key: string): Promise<Json | undefined>;
  /**
   * Rejects when the config keeps too much already, or the key or value is too long. What is set by
   * the owner of a run's writes is seen by all at once, and held until it is sealed or undone.
   */
  set(config: ConfigRef, key: string, value: Json | undefined, owner?: WriteOwner): Promise<void>;
  /**
   * What owners have set by now, the last for each key: it is on its way to the log, from which it is
   * handed over.
   */
  seal(owners: readonly object[]): readonly OrderedValue[];
  /** What became of owners is durable. What they set after it was sealed is written soon, and no event's. */
  release(owners: readonly WriteOwner[]): void;
  /**
   * What owners have set, of one config or of all, comes to nothing, unless they were released. Where
   * it is all, so does whatever they set from now on.
   */
  undo(owners: readonly WriteOwner[], config?: ConfigRef): void;
  /** Hands over what the log has, then writes what else can be written. Never rejects. */
  flush(): Promise<void>;
}

const MAX_KEY_CHARS = 1_000;
/** As UTF-8: an index of Postgres takes 2,704 bytes, its other column included. */
const MAX_KEY_BYTES = 2_000;
const MAX_VALUE_CHARS = 1_000_000;
/** More that wait are written at once, and whoever brings them waits. */
const MAX_PENDING = 1_000;
const FLUSH_AFTER_MS = 200;
/** Characters of one config that may wait to be written. */
const MAX_WAITING_CHARS = 4 * MAX_STORED_CHARS;

/** What is set and not written yet. */
interface Write extends OrderedValue {
  readonly chars: number;
  /** The event that set it, until what became of that is durable. */
  owner: WriteOwner | undefined;
  /**
   * `held`: the event may come to nothing yet. `sealed`: it goes with the event by way of the log.
   * `direct`: it is written as soon as those before it are.
   */
  state: "held" | "sealed" | "direct";
}

export function createStorageBuffer({
  storage,
  handOver,
  reportFault,
}: {
  storage: TransformationStorage;
  /** Hands over the next of what the log has. */
  handOver: () => Promise<HandedOver>;
  reportFault: (error: unknown, context: string) => void;
}): StorageBuffer {
  /** By name, in the order in which they were set. */
  const waiting = new Map<string, readonly Write[]>();
  /** Names of which direct writes wait. */
  const direct = new Set<string>();
  const namesOf = new Map<object, Set<string>>();
  /** By config. */
  const waitingChars = new Map<number, number>();
  const usages = new Map<number, StorageUsage>();
  let order = 0;
  let timer: NodeJS.Timeout | undefined;
  let last: Promise<void> = Promise.resolve();
  let next: Promise<void> | undefined;

  const nameOf = ({ configId }: Pick<ConfigRef, "configId">, key: string) => `${configId} ${key}`;

  function flush(): Promise<void> {
    clearTimeout(timer);
    timer = undefined;
    next ??= last.then(async () => {
      next = undefined;
      // What is written directly may have to wait for what is handed over.
      await handOverAll();
      await writeDirect();
    });
    last = next;
    return last;
  }

  function flushSoon(): void {
    timer ??= setTimeout(() => void flush(), FLUSH_AFTER_MS).unref();
  }

  async function handOverAll(): Promise<void> {
    try {
      for (let isAll = false; !isAll; ) {
        const handed = await handOver();
        for (const { configId, key, order } of handed.values)
          settle(nameOf({ configId }, key), order);
        note(handed.usages);
        isAll = handed.isAll;
      }
    } catch (error) {
      reportFault(error, "effects of events could not be handed over, and are tried again");
    }
  }

  /** What was handed over has overwritten whatever was set before it. */
  function settle(name: string, handed: number): void {
    const writes = waiting.get(name) ?? [];
    const at = writes.findIndex(({ order, state }) => order === handed && state === "sealed");
    if (at < 0) return;
    keep(
      name,
      writes.filter(({ state }, index) => index > at || (index < at && state !== "direct")),
    );
  }

  async function writeDirect(): Promise<void> {
    const some = new Map<string, Write>();
    for (const name of direct) {
      // Those behind what an event has set wait until that is handed over, or comes to nothing.
      for (const write of waiting.get(name) ?? []) {
        if (write.state !== "direct") break;
        some.set(name, write);
      }
    }
    if (some.size === 0) return;
    try {
      note(await storage.write([...some.values()].map(plainValue)));
    } catch (error) {
      reportFault(error, "what transformations store could not be written");
      return;
    }
    for (const [name, { order }] of some) {
      const writes = waiting.get(name) ?? [];
      keep(
        name,
        writes.filter((write) => write.state !== "direct" || write.order > order),
      );
    }
  }

  function note(some: readonly StorageUsage[]): void {
    for (const usage of some) usages.set(usage.configId, usage);
  }

  function keep(name: string, writes: readonly Write[]): void {
    for (const { configId, chars } of waiting.get(name) ?? []) count(configId, -chars);
    for (const { configId, chars } of writes) count(configId, chars);
    if (writes.length > 0) waiting.set(name, writes);
    else waiting.delete(name);
    if (writes.some(({ state }) => state === "direct")) direct.add(name);
    else direct.delete(name);
  }

  function count(configId: number, chars: number): void {
    const sum = (waitingChars.get(configId) ?? 0) + chars;
    if (sum > 0) waitingChars.set(configId, sum);
    else waitingChars.delete(configId);
  }

  function namesOfAll(owners: readonly object[]): ReadonlySet<string> {
    const names = new Set<string>();
    // Most events store nothing.
    if (namesOf.size === 0) return names;
    for (const owner of owners) for (const name of namesOf.get(owner) ?? []) names.add(name);
    return names;
  }

  return {
    async get(config, key) {
      const cleaned = cleanText(key);
      const known = waiting.get(nameOf(config, cleaned))?.at(-1);
      return known ? known.value : storage.get(config, cleaned);
    },

    seal(owners) {
      const values: OrderedValue[] = [];
      const names = namesOfAll(owners);
      if (names.size === 0) return values;
      const sealed = new Set(owners);
      for (const name of names) {
        const writes = waiting.get(name) ?? [];
        const isOurs = ({ owner, state }: Write) =>
          state === "held" && owner !== undefined && sealed.has(owner);
        const at = writes.findLastIndex(isOurs);
        const write = writes[at];
        if (!write) continue;
        write.state = "sealed";
        // Earlier ones of events were overwritten, whosever they are.
        keep(
          name,
          writes.filter(({ state }, index) => index >= at || state !== "held"),
        );
        values.push({ ...plainValue(write), order: write.order });
      }
      return values;
    },

    release(owners) {
      for (const owner of owners) owner.ended = "released";
      const names = namesOfAll(owners);
      if (names.size === 0) return;
      const released = new Set(owners);
      for (const name of names) {
        const writes = waiting.get(name) ?? [];
        for (const write of writes) {
          if (write.owner === undefined || !released.has(write.owner)) continue;
          write.owner = undefined;
          if (write.state === "held") write.state = "direct";
        }
        keep(name, writes);
        flushSoon();
      }
      for (const owner of released) namesOf.delete(owner);
      if (direct.size >= MAX_PENDING) void flush();
    },

    undo(owners, config) {
      for (const owner of owners) {
        if (!config) owner.ended ??= "undone";
      }
      const names = namesOfAll(owners);
      if (names.size === 0) return;
      const undone = new Set(owners);
      for (const name of names) {
        const writes = waiting.get(name) ?? [];
        keep(
          name,
          writes.filter(
            ({ owner, configId }) =>
              owner === undefined ||
              !undone.has(owner) ||
              (config !== undefined && configId !== config.configId),
          ),
        );
      }
      for (const owner of undone) {
        const left = [...(namesOf.get(owner) ?? [])].filter((name) =>
          waiting.get(name)?.some((write) => write.owner === owner),
        );
        if (left.length > 0) namesOf.set(owner, new Set(left));
        else namesOf.delete(owner);
      }
    },

    async set({ projectId, configId }, given, value, setBy) {
      const key = cleanText(given);
      let chars = key.length;
      if (key.length > MAX_KEY_CHARS || Buffer.byteLength(key) > MAX_KEY_BYTES) {
        throw new Error("the key is too long to be stored");
      }
      if (value !== undefined) {
        chars += JSON.stringify(value, plainNumbers).length;
        if (chars - key.length > MAX_VALUE_CHARS) {
          throw new Error("the value is too large to be stored");
        }
        let usage = usages.get(configId);
        if (!usage) {
          usage = await storage.usage({ projectId, configId });
          usages.set(configId, usage);
        }
        const isFull = usage.keys >= MAX_STORED_KEYS || usage.chars >= MAX_STORED_CHARS;
        if (isFull || (waitingChars.get(configId) ?? 0) >= MAX_WAITING_CHARS) {
          throw new Error("the storage of this transformation is full");
        }
      }
      if (setBy?.ended === "undone") return;
      const owner = setBy?.ended === "released" ? undefined : setBy;
      const name = nameOf({ configId }, key);
      const state = owner ? "held" : "direct";
      // Of one event, as of all that is no event's, only the last counts.
      const others = (waiting.get(name) ?? []).filter(
        (write) => write.state !== state || write.owner !== owner,
      );
      order++;
      keep(name, [...others, { projectId, configId, key, value, chars, owner, state, order }]);
      if (owner) namesOf.set(owner, (namesOf.get(owner) ?? new Set()).add(name));
      else flushSoon();
      if (direct.size >= MAX_PENDING) await flush();
    },

    flush,
  };
}

function plainValue({ projectId, configId, key, value }: StoredValue): StoredValue {
  return { projectId, configId, key, value };
}

/** Large integers are as long as their digits. */
function plainNumbers(_name: string, value: unknown): unknown {
  return typeof value === "bigint" ? String(value) : value;
}
