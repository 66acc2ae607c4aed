import { wholeEntry } from "@hedgerow/core/events/added-properties";
import type { CapturedEvent } from "@hedgerow/core/events/event";
import { encodeJson } from "@hedgerow/core/exact-json";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { EventLog, PassedEvent } from "./event-log.ts";

/** An event for tests; everything has a default. */
export function sampleEvent(fields: Partial<CapturedEvent> = {}): CapturedEvent {
  return {
    uuid: crypto.randomUUID(),
    projectId: 1,
    event: "$pageview",
    distinctId: "user-1",
    properties: {
      $current_url: "https://example.com/",
      nested: { list: [1, null, "ß🦔\n\u2028"] },
    },
    timestamp: new Date("2024-02-29T23:59:59.999Z"),
    clientTimestamp: null,
    receivedAt: new Date("2024-03-01T00:00:01.000Z"),
    ...fields,
  };
}

/** A log that can be closed and opened again with what it stored. */
export interface ReopenableLog {
  readonly open: () => Promise<EventLog>;
  readonly remove: () => Promise<void>;
}

const NEVER = new AbortController().signal;

/** What every {@link EventLog} must do. */
export function describeEventLog(title: string, create: () => Promise<ReopenableLog>): void {
  describe(title, () => {
    let place: ReopenableLog;
    let log: EventLog;
    beforeEach(async () => {
      place = await create();
      log = await place.open();
    });
    afterEach(async () => {
      await log.close();
      await place.remove();
    });

    async function readAll(after: number): Promise<readonly string[]> {
      const { entries } = await log.read(after, 10_000, NEVER);
      return entries.map(({ event }) => event.uuid);
    }

    it("[PI-1] gives back what was appended, whole and in order", async () => {
      const events = [
        sampleEvent({
          clientTimestamp: new Date(5),
          properties: JSON.parse('{"__proto__":{"a":1}}'),
        }),
        sampleEvent({ projectId: 2, event: "b\nc", distinctId: "\u2028" }),
      ];
      const positions = await log.append(events);
      const { entries, end } = await log.read(0, 10, NEVER);
      expect(entries).toMatchObject(
        events.map((event, index) => ({ position: positions[index], event })),
      );
      expect(Object.keys(entries[0]?.event.properties ?? {})).toEqual(["__proto__"]);
      expect(end).toBe(positions[1]);
      expect(await log.end()).toBe(positions[1]);
    });

    it("[PI-1] gives the text of properties along only where it is theirs, also after a restart", async () => {
      const large = { id: 12345678901234567890n, name: "\u00df\ud83e\udd94" };
      await log.append([sampleEvent(), sampleEvent({ properties: large })]);
      const early = await log.read(0, 10, NEVER);
      await log.close();
      log = await place.open();
      for (const { entries } of [early, await log.read(0, 10, NEVER)]) {
        for (const { event, propertiesText } of entries) {
          expect([undefined, encodeJson(event.properties)]).toContain(propertiesText);
        }
      }
    });

    it("[PI-1] has an empty log end at 0 and an empty append change nothing", async () => {
      expect(await log.append([])).toEqual([]);
      expect(await log.end()).toBe(0);
    });

    it("[PI-2] keeps the order of appends that were started together, with growing positions", async () => {
      const batches = Array.from({ length: 200 }, (_, batch) =>
        Array.from({ length: 1 + (batch % 3) }, () => sampleEvent({ distinctId: `user-${batch}` })),
      );
      const positions = await Promise.all(batches.map((batch) => log.append(batch)));
      const flat = positions.flat();
      expect(flat).toEqual(flat.toSorted((a, b) => a - b));
      expect(new Set(flat).size).toBe(flat.length);
      expect(await readAll(0)).toEqual(batches.flat().map(({ uuid }) => uuid));
    });

    it("[PI-2] reads on from any position, as many as asked for", async () => {
      const events = Array.from({ length: 25 }, () => sampleEvent());
      await log.append(events.slice(0, 10));
      await log.append(events.slice(10));
      const read: string[] = [];
      let position = 0;
      while (read.length < events.length) {
        const { entries, end } = await log.read(position, 4, NEVER);
        expect(entries.length).toBeGreaterThan(0);
        expect(entries.length).toBeLessThanOrEqual(4);
        expect(entries.at(-1)?.position).toBe(end);
        read.push(...entries.map(({ event }) => event.uuid));
        position = end;
      }
      expect(read).toEqual(events.map(({ uuid }) => uuid));
    });

    it("[PI-70] finds events by project and uuid after a position", async () => {
      const events = Array.from({ length: 30 }, (_, index) =>
        sampleEvent({ projectId: index % 2, properties: { n: index === 4 ? 2n ** 60n : index } }),
      );
      const [, , third, , fifth] = events;
      const decoy = sampleEvent({
        properties: { list: [0, third?.uuid ?? "", "x"], text: fifth?.uuid ?? "" },
      });
      await log.append([decoy]);
      await log.append(events.slice(0, 10));
      await log.append(events.slice(10));
      for (const [index, { projectId, uuid }] of events.entries()) {
        const position = index + 2;
        expect(await log.find({ projectId, uuid }, 0)).toBe(position);
        expect(await log.find({ projectId, uuid }, position - 1)).toBe(position);
        expect(await log.find({ projectId, uuid }, position)).toBeUndefined();
        expect(await log.find({ projectId: projectId + 1, uuid }, 0)).toBeUndefined();
      }
      expect(await log.find({ projectId: 1, uuid: crypto.randomUUID() }, 0)).toBeUndefined();
    });

    it("[PI-3] lets a reader wait for the next event", async () => {
      const waiting = log.read(0, 10, NEVER);
      const event = sampleEvent();
      await log.append([event]);
      expect((await waiting).entries.map((entry) => entry.event)).toEqual([event]);
    });

    it("[PI-3] ends a wait when the reader gives up", async () => {
      const giveUp = new AbortController();
      const waiting = log.read(0, 10, giveUp.signal);
      giveUp.abort();
      expect(await waiting).toEqual({ entries: [], end: 0, chars: 0 });
    });

    it("[PI-4] keeps everything over a restart and counts on from there", async () => {
      const events = [sampleEvent(), sampleEvent()];
      const before = await log.append(events);
      await log.close();
      log = await place.open();
      expect(await log.end()).toBe(before[1]);
      expect(await readAll(0)).toEqual(events.map(({ uuid }) => uuid));
      const [next] = await log.append([sampleEvent()]);
      expect(next).toBeGreaterThan(before[1] ?? Number.NaN);
    });

    it("[PI-4] stores what was appended before it is closed", async () => {
      const events = Array.from({ length: 500 }, () => sampleEvent());
      const appended = Promise.all(events.map((event) => log.append([event])));
      await log.close();
      await appended;
      log = await place.open();
      expect((await readAll(0)).length).toBe(500);
    });

    it("[PI-5] may forget what was released, and nothing else, and never reuses a position", async () => {
      const [first, second] = await log.append([sampleEvent(), sampleEvent()]);
      const kept = sampleEvent();
      const [third] = await log.append([kept]);
      await log.release(second ?? 0);
      expect(await readAll(second ?? 0)).toEqual([kept.uuid]);
      await log.release(third ?? 0);
      await log.close();
      log = await place.open();
      expect(await log.end()).toBe(third);
      const [fourth] = await log.append([sampleEvent()]);
      expect(fourth).toBeGreaterThan(third ?? first ?? Number.NaN);
    });

    const passedOn = (event: CapturedEvent): PassedEvent => ({
      event,
      passage: { kind: "kept", changedBy: [] },
    });

    it("[PI-80] keeps the lanes of projects apart from its entries, and each from the others", async () => {
      const raw = [sampleEvent(), sampleEvent({ properties: { large: 2n ** 70n } })];
      const other = sampleEvent({ projectId: 2 });
      const ordinary = sampleEvent({ projectId: 3 });
      expect(await log.lanes.append(1, raw)).toEqual([1, 2]);
      expect(await log.lanes.append(2, [other])).toEqual([1]);
      const [position] = await log.append([ordinary]);
      expect(await readAll(0)).toEqual([ordinary.uuid]);
      expect(await log.end()).toBe(position);
      expect(log.lanes.waiting()).toEqual(
        new Map([
          [1, 2],
          [2, 1],
        ]),
      );
      expect([1, 2, 3].map(log.lanes.isWaiting)).toEqual([true, true, false]);
      const { entries, end } = log.lanes.read(1, 0, 10);
      expect(entries.map(({ position: place, event }) => [place, event])).toEqual([
        [1, raw[0]],
        [2, raw[1]],
      ]);
      expect(end).toBe(2);
      expect(log.lanes.read(1, 1, 10).entries.map(({ event }) => event.uuid)).toEqual([
        raw[1]?.uuid,
      ]);
      expect(log.lanes.read(1, 2, 10)).toEqual({ entries: [], end: 2, chars: 0 });
      expect(log.lanes.read(3, 0, 10).entries).toEqual([]);
    });

    it("[PI-80] has a lane wait from the moment of an append on", async () => {
      const appended = log.lanes.append(1, [sampleEvent()]);
      expect(log.lanes.isWaiting(1)).toBe(true);
      await appended;
      expect(log.lanes.isWaiting(1)).toBe(true);
    });

    it("[PI-81] turns the beginning of a lane into entries in one commit, with all that became of it", async () => {
      const raw = Array.from({ length: 6 }, (_, n) => sampleEvent({ properties: { n } }));
      await log.lanes.append(1, raw);
      const [kept, dropped, renamed, bad] = raw as [CapturedEvent, ...CapturedEvent[]] &
        Record<1 | 2 | 3, CapturedEvent>;
      const text = '{"n":12345678901234567890,"a":"\u2028\\n"}';
      const properties = { n: 12345678901234567890n, a: "\u2028\n" };
      const events: readonly PassedEvent[] = [
        {
          event: { ...kept, properties },
          passage: { kind: "kept", changedBy: ["A (1) v1"] },
          propertiesText: text,
        },
        {
          event: { ...dropped, properties: {} },
          passage: { kind: "dropped", by: "B\t(2)", reason: "no\n" },
        },
        {
          event: { ...renamed, uuid: crypto.randomUUID() },
          passage: { kind: "kept", changedBy: [], renamedFrom: renamed.uuid },
          added: {
            properties: { $geoip_city_name: "Köln", large: 12345678901234567890n },
            text: '{"$geoip_city_name":"Köln","large":12345678901234567890}',
          },
        },
        { event: bad, passage: { kind: "set-aside", reason: "bad" } },
      ];
      const captured = sampleEvent({ event: "captured" });
      const passed = await log.lanes.pass(1, { upTo: 4, events, captured: [captured] });
      expect(passed.places).toEqual([7]);
      for (const isReopened of [false, true]) {
        if (isReopened) {
          await log.close();
          log = await place.open();
        }
        const { entries } = await log.read(0, 10, NEVER);
        expect(entries.map(wholeEntry)).toMatchObject(
          events.map(({ event, passage, added }, index) => ({
            position: passed.positions[index],
            event: { ...event, properties: { ...event.properties, ...added?.properties } },
            passage,
          })),
        );
        expect(entries[0]?.propertiesText).toBe(text);
        const waiting = log.lanes.read(1, 4, 10).entries;
        expect(waiting.map(({ position, event }) => [position, event.uuid])).toEqual([
          [5, raw[4]?.uuid],
          [6, raw[5]?.uuid],
          [7, captured.uuid],
        ]);
        expect(log.lanes.waiting()).toEqual(new Map([[1, 3]]));
        expect(log.lanes.end(1)).toBe(7);
      }
      await log.lanes.pass(1, {
        ...{ upTo: 7, captured: [] },
        events: [raw[4], raw[5], captured].flatMap((one) => (one ? passedOn(one) : [])),
      });
      expect(log.lanes.isWaiting(1)).toBe(false);
      expect(await log.lanes.append(1, [sampleEvent()])).toEqual([8]);
      await log.close();
      log = await place.open();
      expect(log.lanes.read(1, 7, 10).entries).toHaveLength(1);
    });

    /** An event that passes as it stands in its lane, but for what is added. */
    const passedAsItStands = (event: CapturedEvent, place: number): PassedEvent => {
      const properties = place % 2 === 0 ? {} : { added: place === 3 ? 2n ** 70n : `n${place}` };
      return {
        ...passedOn(event),
        ...{ place, propertiesText: encodeJson(event.properties) },
        added: { properties, text: encodeJson(properties) },
      };
    };

    it("[PI-88] gives events whole that pass as they stand in their lanes, until they are released", async () => {
      const raw = Array.from({ length: 8 }, (_, n) =>
        sampleEvent({ properties: n === 4 ? {} : { n, large: n === 5 ? 2n ** 65n : "ß\n" } }),
      );
      const others = Array.from({ length: 3 }, () => sampleEvent({ projectId: 2 }));
      for (const some of [raw.slice(0, 3), raw.slice(3)]) await log.lanes.append(1, some);
      await log.lanes.append(2, others);
      const asTheyStand = raw.map((event, index) => passedAsItStands(event, index + 1));
      const changed = passedOn({ ...sampleEvent(), uuid: raw[6]?.uuid ?? "" });
      const events = [...asTheyStand.slice(0, 6), changed, ...asTheyStand.slice(7)];
      const ofOthers = others.map((event, index) => passedAsItStands(event, index + 1));
      // Some share a commit, and a commit takes a part of what was appended in one.
      const passes = [
        log.lanes.pass(1, { upTo: 2, events: events.slice(0, 2), captured: [] }),
        log.lanes.pass(2, { upTo: 3, events: ofOthers, captured: [] }),
        log.lanes.pass(1, { upTo: 4, events: events.slice(2, 4), captured: [] }),
        log.lanes.pass(1, { upTo: 7, events: events.slice(4, 7), captured: [] }),
      ];
      const positions = (await Promise.all(passes)).flatMap((one) => one.positions);
      const last = await log.lanes.pass(1, { upTo: 8, events: events.slice(7), captured: [] });
      positions.push(...last.positions);
      const passed = [...events.slice(0, 2), ...ofOthers, ...events.slice(2)];
      const reopen = async () => {
        await log.close();
        log = await place.open();
      };
      const look = async (from: number) => {
        const all = await log.read(positions[from] ?? 0, 100, NEVER);
        const entries = all.entries.filter(({ event }) => event.projectId < 3);
        const expected = passed.slice(from + 1).map((one, index) => ({
          position: positions[from + 1 + index],
          event: wholeEntry(one).event,
          passage: one.passage,
        }));
        expect(entries.map(wholeEntry)).toMatchObject(expected);
        for (const { event, propertiesText } of entries.map(wholeEntry)) {
          expect([undefined, encodeJson(event.properties)]).toContain(propertiesText);
        }
      };
      await look(-1);
      await reopen();
      await look(-1);
      expect(log.lanes.waiting()).toEqual(new Map());
      for (const { event } of passed) {
        const position = positions[passed.findIndex((one) => one.event === event)];
        expect(await log.find(event, 0)).toBe(position);
        expect(await log.lanes.holds(event)).toBe(false);
      }
      for (const released of [2, 5, 8]) {
        await log.release(positions[released] ?? 0);
        // What is released may be gone with the next append; what is not has to be there.
        await log.append([sampleEvent({ projectId: 3 })]);
        await reopen();
        await look(released);
      }
    });

    it("[PI-88] reads on in what passed, and takes more into lanes, while some of it is released", async () => {
      const taken: string[] = [];
      let read = 0;
      for (let round = 0; round < 12; round++) {
        const raw = Array.from({ length: 40 }, (_, n) => sampleEvent({ properties: { round, n } }));
        const places = await log.lanes.append(1, raw);
        const run = raw.map((event, index) =>
          (round + index) % 9 === 0
            ? passedOn(event)
            : passedAsItStands(event, places[index] ?? Number.NaN),
        );
        for (const [from, to] of [
          [0, 15],
          [15, 40],
        ] as const) {
          const upTo = places[to - 1] ?? 0;
          await log.lanes.pass(1, { upTo, events: run.slice(from, to), captured: [] });
        }
        if (round % 3 === 2) {
          await log.close();
          log = await place.open();
        }
        // The reader lags behind, and keeps up in the end.
        while (read < (await log.end()) - (round === 11 ? 0 : 60)) {
          const { entries, end } = await log.read(read, 25, NEVER);
          expect(entries.filter(({ fault }) => fault)).toEqual([]);
          taken.push(
            ...entries.map(({ event }) => `${event.properties.round}.${event.properties.n}`),
          );
          read = end;
          await log.release(read);
        }
      }
      const all = Array.from({ length: 12 * 40 }, (_, n) => `${Math.floor(n / 40)}.${n % 40}`);
      expect(taken).toEqual(all);
    });

    it("[TP-68] keeps what passed events leave for other stores, of all lanes in one order, until it is forgotten", async () => {
      const effectsAfter = (position: number) => log.lanes.effects(position);
      const pass = async (projectId: number, upTo: number, effects: readonly string[]) => {
        const { positions } = await log.lanes.pass(projectId, {
          ...{ upTo, captured: [], effects },
          events: Array.from({ length: 2 }, () => passedOn(sampleEvent({ projectId }))),
        });
        return positions.at(-1) ?? 0;
      };
      for (const projectId of [1, 2]) {
        await log.lanes.append(
          projectId,
          Array.from({ length: 8 }, () => sampleEvent({ projectId })),
        );
      }
      expect(effectsAfter(0)).toEqual([]);
      const given = ['{"a":"\u2028ß🦔"}', "second"];
      const [first, without, other] = await Promise.all([
        pass(1, 2, given),
        pass(1, 4, []),
        pass(2, 2, ["other"]),
      ]);
      const all = [
        { position: first, lines: given },
        { position: other, lines: ["other"] },
      ];
      for (const isReopened of [false, true]) {
        if (isReopened) {
          await log.close();
          log = await place.open();
        }
        expect(effectsAfter(0)).toEqual(all);
        expect(effectsAfter(without)).toEqual(all.slice(1));
        expect(effectsAfter(other)).toEqual([]);
      }
      await log.release(other);
      expect(effectsAfter(0)).toEqual(all);
      log.lanes.forgetEffects(first);
      expect(effectsAfter(0)).toEqual(all.slice(1));
      const last = await pass(2, 4, ["last"]);
      log.lanes.forgetEffects(other);
      await log.close();
      log = await place.open();
      expect(effectsAfter(0)).toEqual([{ position: last, lines: ["last"] }]);
    });

    it("[TP-68] gives many effects in portions", async () => {
      const long = "x".repeat(1_500_000);
      const events = Array.from({ length: 6 }, () => sampleEvent());
      await log.lanes.append(1, events);
      for (const [index, event] of events.entries()) {
        await log.lanes.pass(1, {
          ...{ upTo: index + 1, captured: [], effects: [long] },
          events: [passedOn(event)],
        });
      }
      const found: number[] = [];
      let portions = 0;
      for (;;) {
        const some = log.lanes.effects(found.at(-1) ?? 0);
        if (some.length === 0) break;
        found.push(...some.map(({ position }) => position));
        portions++;
      }
      expect(found).toHaveLength(6);
      expect(portions).toBeGreaterThan(1);
    });

    it("[PI-81] never forgets what waits in a lane, whatever is released", async () => {
      await log.lanes.append(1, [sampleEvent()]);
      const [position] = await log.append([sampleEvent()]);
      await log.release(position ?? 0);
      await log.close();
      log = await place.open();
      await log.append([sampleEvent()]);
      expect(log.lanes.read(1, 0, 10).entries).toHaveLength(1);
    });

    it("[PI-81] tells when what a lane holds has passed, for a while only", async () => {
      const events = [sampleEvent(), sampleEvent()];
      expect(log.lanes.passed(1, 10_000)).toBeUndefined();
      await log.lanes.append(1, events);
      expect(await log.lanes.passed(1, 1)).toBe(false);
      const passed = log.lanes.passed(1, 60_000);
      const later = sampleEvent();
      await log.lanes.append(1, [later]);
      await log.lanes.pass(1, { upTo: 2, events: events.map(passedOn), captured: [] });
      expect(await passed).toBe(true);
      expect(log.lanes.passed(2, 10_000)).toBeUndefined();
      await log.lanes.pass(1, { upTo: 3, events: [passedOn(later)], captured: [] });
      expect(log.lanes.passed(1, 10_000)).toBeUndefined();
    });

    it("[PI-70] finds events in lanes, also what follows in a lane that has begun to pass", async () => {
      const events = Array.from({ length: 3 }, () => sampleEvent());
      await log.lanes.append(1, events);
      const [first] = events as [CapturedEvent];
      const { positions } = await log.lanes.pass(1, {
        ...{ upTo: 1, captured: [] },
        events: [passedOn(first)],
      });
      expect(await log.lanes.holds(events[2] ?? first)).toBe(true);
      expect(await log.lanes.holds({ ...first, projectId: 2 })).toBe(false);
      expect(await log.lanes.holds(sampleEvent())).toBe(false);
      expect(await log.find(first, 0)).toBe(positions[0]);
    });

    it("[PI-1] takes long events and large batches", async () => {
      const long = sampleEvent({ properties: { text: "x".repeat(2_000_000) } });
      const many = Array.from({ length: 3000 }, (_, index) =>
        sampleEvent({ properties: { index, text: "y".repeat(500) } }),
      );
      await log.append([long]);
      await log.append(many);
      expect(await readAll(0)).toEqual([long, ...many].map(({ uuid }) => uuid));
    });
  });
}
