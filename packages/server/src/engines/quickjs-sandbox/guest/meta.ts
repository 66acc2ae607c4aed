import { ask, bridge, call } from "./bridge.ts";
import { cache } from "./cache.ts";
import { console } from "./console.ts";
import { defineLater } from "./define-later.ts";
import { ownMembers } from "./exports.ts";
import { type AnyFunction, apply, type Json, now, scope } from "./intrinsics.ts";
import { part } from "./load-part.ts";
import { posthog } from "./posthog.ts";

/** What the host gives a transformation. */
export interface Setup {
  readonly config: Record<string, Json>;
  readonly attachments: Record<string, { contentType: string; fileName: string }>;
  readonly siteUrl?: string;
}

/** All that `meta` holds. */
export function makeMeta({ config, attachments }: Setup): Record<string, unknown> {
  const files: Record<string, unknown> = {};
  for (const [key, file] of Object.entries(attachments)) {
    const described = { content_type: file.contentType, file_name: file.fileName };
    files[key] = described;
    const read = () => {
      const { Buffer } = part("buffer") as { Buffer: { from(bytes: ArrayBuffer): unknown } };
      return Buffer.from(bridge.bytes(key));
    };
    defineLater(described, "contents", read, true);
  }
  const jobs: Record<string, unknown> = {};
  for (const name of Object.keys(ownMembers("jobs"))) jobs[name] = job(name);
  const metrics: Record<string, unknown> = {};
  for (const [name, kind] of Object.entries(ownMembers("metrics")))
    metrics[name] = metric(name, kind);
  return {
    config,
    attachments: files,
    global: {},
    cache,
    storage,
    geoip: { locate: (address: unknown) => watched(ask("locate", [String(address)])) },
    jobs,
    metrics,
    utils,
    posthog,
    // Those that PostHog took into its own sources are given these.
    logger: console,
    fetch: (...values: unknown[]) => apply(scope["fetch"] as AnyFunction, undefined, values),
  };
}

/** Rejections of what nobody awaits are logged and end there. */
function watched<T>(promise: Promise<T>): Promise<T> {
  promise.catch(() => {});
  return promise;
}

/** Whatever the host says once it has done something, it is no answer. */
function done(asked: Promise<unknown>): Promise<void> {
  return watched(asked.then(() => {}));
}

const storage = {
  set: (key: unknown, value: unknown) =>
    value === undefined ? storage.del(key) : done(ask("set", [String(key), value])),
  get: (key: unknown, defaultValue?: unknown) =>
    watched(
      ask("get", [String(key)]).then((found) => {
        const list = found as Json[];
        return list.length === 0 ? defaultValue : list[0];
      }),
    ),
  del: (key: unknown): Promise<void> => done(ask("delete", [String(key)])),
};

const cursors = new Map<string, number>();
const utils = {
  cursor: {
    async init(key: string, initialValue = 0): Promise<void> {
      cursors.set(String(key), Number(initialValue));
    },
    async increment(key: string, incrementBy = 1): Promise<number> {
      const value = (cursors.get(String(key)) ?? 0) + Number(incrementBy);
      cursors.set(String(key), value);
      return value;
    },
  },
};

const SECOND = 1000;
const UNITS: Record<string, number> = {
  millisecond: 1,
  second: SECOND,
  minute: 60 * SECOND,
  hour: 3600 * SECOND,
  day: 86_400 * SECOND,
  week: 7 * 86_400 * SECOND,
  month: 30 * 86_400 * SECOND,
  quarter: 91 * 86_400 * SECOND,
  year: 365 * 86_400 * SECOND,
};

function job(name: string) {
  return (payload?: unknown) => {
    const enqueue = (at: number) => {
      if (!Number.isFinite(at)) return Promise.reject(new TypeError("The job has no valid time"));
      return watched(ask("job", [name, payload ?? null, at]));
    };
    return {
      runNow: () => enqueue(now()),
      runIn: (duration: number, unit: string) => {
        const unitMs = UNITS[String(unit).toLowerCase().replace(/s$/, "")];
        if (unitMs === undefined) throw new Error(`"${unit}" is no unit of time`);
        return enqueue(now() + Number(duration) * unitMs);
      },
      runAt: (date: Date | string | number) => enqueue(new Date(date).getTime()),
    };
  };
}

function metric(name: string, declared: unknown) {
  const count = (kind: string) => async (value?: number) => {
    const amount = value === undefined ? 1 : Number(value);
    if (Number.isFinite(amount)) call("metric", [name, kind, amount]);
  };
  const kind = String(declared).toLowerCase();
  const controls = { increment: count("sum"), max: count("max"), min: count("min") };
  if (kind === "sum") return { increment: controls.increment };
  if (kind === "max") return { max: controls.max };
  return kind === "min" ? { min: controls.min } : controls;
}
