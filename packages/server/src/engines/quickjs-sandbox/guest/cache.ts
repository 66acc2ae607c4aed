import { type Json, now, parse, stringify } from "./intrinsics.ts";

interface CacheEntry {
  value: Json;
  expiresAt: number;
}

const cached = new Map<string, CacheEntry>();

function liveEntry(key: unknown): CacheEntry | undefined {
  const name = String(key);
  const entry = cached.get(name);
  if (entry === undefined || entry.expiresAt > now()) return entry;
  cached.delete(name);
  return undefined;
}

function listOf(key: unknown): string[] {
  const value = liveEntry(key)?.value;
  if (value !== undefined && !Array.isArray(value))
    throw new Error("The value in the cache is no list");
  return (value as string[] | undefined) ?? [];
}

function putCached(key: unknown, value: Json, ttlSeconds?: unknown): void {
  const seconds = Number(ttlSeconds ?? 0);
  const expiresAt = seconds > 0 ? now() + seconds * 1000 : Number.POSITIVE_INFINITY;
  cached.set(String(key), { value, expiresAt });
  if (cached.size % 1024 === 0) forgetExpired();
}

function forgetExpired(): void {
  const at = now();
  for (const [key, entry] of cached) if (entry.expiresAt <= at) cached.delete(key);
}

function putList(key: unknown, list: string[]): void {
  const entry = liveEntry(key);
  if (list.length === 0) cached.delete(String(key));
  else if (entry === undefined) putCached(key, list);
  else entry.value = list;
}

/** `meta.cache`: in memory, and gone with it. */
export const cache = {
  async set(key: string, value: unknown, ttl?: number, options?: { jsonSerialize?: boolean }) {
    const text = options?.jsonSerialize === false ? String(value) : stringify(value);
    if (text === undefined) cached.delete(String(key));
    else putCached(key, text, ttl);
  },
  async get(key: string, defaultValue?: unknown, options?: { jsonSerialize?: boolean }) {
    const value = liveEntry(key)?.value;
    if (value === undefined) return defaultValue;
    if (typeof value !== "string" || options?.jsonSerialize === false) return value;
    try {
      return parse(value);
    } catch {
      return value;
    }
  },
  async incr(key: string): Promise<number> {
    const entry = liveEntry(key);
    const count = Number(entry?.value ?? 0) + 1;
    if (!Number.isInteger(count)) throw new Error("The value in the cache is no integer");
    if (entry === undefined) putCached(key, String(count));
    else entry.value = String(count);
    return count;
  },
  async expire(key: string, ttlSeconds: number): Promise<boolean> {
    const entry = liveEntry(key);
    if (entry === undefined) return false;
    entry.expiresAt = now() + Number(ttlSeconds) * 1000;
    return true;
  },
  async del(key: string): Promise<void> {
    cached.delete(String(key));
  },
  async lpush(key: string, elements: unknown): Promise<number> {
    const added = (Array.isArray(elements) ? elements : [elements]).map((item) => String(item));
    const list = [...added.reverse(), ...listOf(key)];
    putList(key, list);
    return list.length;
  },
  async lrange(key: string, start: number, end: number): Promise<string[]> {
    const list = listOf(key);
    const last = end < 0 ? list.length + end : end;
    return list.slice(start < 0 ? Math.max(0, list.length + start) : start, last + 1);
  },
  async llen(key: string): Promise<number> {
    return listOf(key).length;
  },
  async lpop(key: string, count = 1): Promise<string[]> {
    const list = listOf(key);
    putList(key, list.slice(count));
    return list.slice(0, count);
  },
  async lrem(key: string, count: number, element: string): Promise<number> {
    const list = count < 0 ? listOf(key).reverse() : [...listOf(key)];
    let left = count === 0 ? list.length : Math.abs(count);
    const kept = list.filter((item) => {
      if (item !== element || left === 0) return true;
      left -= 1;
      return false;
    });
    const removed = list.length - kept.length;
    putList(key, count < 0 ? kept.reverse() : kept);
    return removed;
  },
};
