import { isJsonObject, type JsonObject } from "@hedgerow/core/json";
import { eventAfter } from "@hedgerow/core/transformations/plugin-event";
import { afterAll, describe, expect, it } from "vitest";
import type { Instance } from "../../transformations/sandbox.ts";
import { QuickJsSandbox } from "./quickjs-sandbox.ts";
import { recordHost, startSource } from "./sandbox.setup.ts";

const sandbox = new QuickJsSandbox();
afterAll(() => sandbox.close());

/** Does some of many things, chosen by the event's number, and notes what it saw. */
const DEEDS = `
const kept = [];
const keys = ["a", "b", "list", "deep", "added", "toString", "constructor", "7", "ü", "none"];
const values = () => ["x", 1, null, true, { k: [1] }, [2], 1e21, -0.5, "\\u2028\\"\\\\", undefined];
const deeds = [
  (p, k) => p[k],
  (p, k, v) => { p[k] = v },
  (p, k) => delete p[k],
  (p, k) => [k in p, Object.hasOwn(p, k), p.hasOwnProperty?.("a")],
  (p) => Object.keys(p),
  (p) => { const all = []; for (const key in p) all.push(key); return all },
  (p) => JSON.stringify(p),
  (p, k, v) => Object.assign(p, { [k]: v, more: 1 }) === p,
  (p) => { p.deep?.list?.push?.("more"); return p.deep },
  (p) => { if (Array.isArray(p.list)) p.list.length = 0 },
  (p, k) => Object.getOwnPropertyDescriptor(p, k),
  (p, k, v) => Reflect.defineProperty(p, k, { value: v, enumerable: true, configurable: true, writable: true }),
  (p) => [Array.isArray(p), Object.prototype.toString.call(p), Object.getPrototypeOf(p) === Object.prototype, p instanceof Object],
  (p) => ({ ...p }),
  (p) => { const { a, ...rest } = p; return rest },
  (p) => structuredClone(p),
  (p) => Object.entries(p).length,
  (p, k, v) => { const child = Object.create(p); child[k] = v; return [Object.keys(child), child.a] },
  (p) => p === p && p.deep === p.deep,
  (p) => { Object.freeze(p); "use strict"; return Object.isFrozen(p) },
  (p) => String(p) + typeof p.valueOf(),
  (p, k) => { try { return p[k].k.length } catch (error) { return String(error) } },
];
export async function processEvent(event) {
  let state = Number(event.distinct_id);
  const next = (count) => { state = (state * 1103515245 + 12345) % 2147483648; return (state >> 8) % count };
  const seen = [];
  const times = next(14);
  for (let time = 0; time < times; time += 1) {
    const deed = deeds[next(deeds.length)], key = keys[next(keys.length)], value = values()[next(10)];
    try { seen.push(deed(event.properties, key, value) ?? null) } catch (error) { seen.push(String(error)) }
  }
  if (next(3) === 0) await null;
  console.log(JSON.stringify(seen));
  kept.push(event.properties);
  if (kept.length > 40) console.log(JSON.stringify(kept.shift()));
  switch (next(8)) {
    case 0: return { ...event };
    case 1: return { ...event, properties: { ...event.properties, copied: 1 } };
    case 2: event.event = "renamed"; return event;
    case 3: event.properties = { other: event.properties.a }; return event;
    case 4: return { event: event.event, distinct_id: "d", properties: event.properties };
    case 5: delete event.ip; event.properties.last = 1; return event;
    default: return event;
  }
}`;

/** The same in each way to answer. */
const WAYS = {
  promises: DEEDS,
  "the event at once": DEEDS.replace("export async", "export").replace("await null", "null"),
  "what is like a promise": `${DEEDS.replace("export async function processEvent", "async function work")}
export const processEvent = (event) => {
  const worked = work(event);
  return { then: (tell, fail) => worked.then(tell, fail) };
};`,
};

const properties = {
  a: "text",
  b: 12.5,
  list: [1, { two: 2 }],
  deep: { list: ["x"], "": null },
  ü: "ß \u0000 \ud83d\ude00",
  flag: false,
};
const events = Array.from({ length: 400 }, (_, number): JsonObject => {
  const event = { uuid: "u", event: "e", distinct_id: String(number), team_id: 1, ip: null };
  return { ...event, properties: number % 5 === 0 ? {} : properties };
});

/** What becomes of all events, and what was logged meanwhile. */
async function passAll(instance: Instance, lines: readonly string[], logged: readonly object[]) {
  const outcomes = await instance.pass(
    lines.map((line, index) => ({ event: events[index] ?? {}, line, hops: 0 })),
  );
  const after = outcomes.map((outcome, index) => {
    if (outcome.kind !== "keep") return outcome.kind === "failed" ? outcome.reason : outcome.kind;
    if (outcome.change === undefined) return events[index];
    return eventAfter(events[index] ?? {}, outcome.change);
  });
  return { after, logged: logged.map((line) => ("message" in line ? line.message : "")) };
}

describe("lazy events in the engine", () => {
  it.each(Object.entries(WAYS))(
    "[TS-30] see and leave the same as whole events, answering %s",
    async (_, source) => {
      const limits = {
        ...{ loadCpuMs: 5_000, eventCpuMs: 5_000, waitMs: 10_000, memoryMiB: 32 },
        ...{ outputLength: 1e6, eventLength: 1e6, logLines: 1e5, fetchBytes: 1, fetchMs: 1 },
      };
      const [lazily, plainly] = [recordHost(), recordHost()];
      const instances = await Promise.all(
        [lazily, plainly].map(({ host }) => startSource(sandbox, source, { host, limits })),
      );
      const [lazy, plain] = instances;
      if (!lazy || !plain) throw new Error("they did not start");
      const lines = events.map((event) => JSON.stringify(event));
      // What is written with a space is not looked through.
      const spaced = lines.map((line) => `{ ${line.slice(1)}`);
      for (let round = 0; round < 2; round += 1) {
        lazily.lines.length = 0;
        plainly.lines.length = 0;
        const [one, other] = await Promise.all([
          passAll(lazy, lines, lazily.lines),
          passAll(plain, spaced, plainly.lines),
        ]);
        expect(one.logged.length).toBeGreaterThan(events.length);
        expect(one.logged).toEqual(other.logged);
        expect(one.after).toEqual(other.after);
        const texts = ({ after }: typeof one) =>
          after.map((event) => (isJsonObject(event) ? JSON.stringify(event["properties"]) : ""));
        expect(texts(one)).toEqual(texts(other));
      }
      for (const instance of instances) await instance.stop();
    },
  );
});
