import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { sampleEvent } from "./event-log.contract.ts";
import {
  type AskedIds,
  createPendingPersons,
  type PendingPersonsOptions,
} from "./pending-persons.ts";

const entry = (position: number, fields: Parameters<typeof sampleEvent>[0] = {}) => ({
  position,
  event: sampleEvent(fields),
});

/** Pending persons over a store in which the given ids belong together. */
function pendingOver(
  persons: readonly (readonly string[])[] = [],
  options: Partial<PendingPersonsOptions> = {},
) {
  const asked: string[] = [];
  const pending = createPendingPersons({
    distinctIdsOf: async (_projectId, id) => {
      asked.push(id);
      return persons.find((ids) => ids.includes(id)) ?? [];
    },
    maxWaitMs: 60_000,
    ...options,
  });
  return { pending, asked };
}

const identify = (anonymous: string, distinctId: string) => ({
  event: "$identify",
  distinctId,
  properties: { $anon_distinct_id: anonymous },
});

async function isSettled(promise: Promise<void> | undefined): Promise<boolean> {
  let isDone = promise === undefined;
  void promise?.then(() => {
    isDone = true;
  });
  // Look-ups of the store take a few turns.
  for (let turn = 0; turn < 20; turn++) await new Promise((resolve) => setImmediate(resolve));
  return isDone;
}

describe("PendingPersons", () => {
  it("[PI-10] makes only requests about ids with events on their way wait", async () => {
    const { pending } = pendingOver();
    expect(pending.settled(1, { distinctIds: ["a"] })).toBeUndefined();
    pending.add([entry(1, { distinctId: "a" })]);
    expect(await isSettled(pending.settled(1, { distinctIds: ["b"] }))).toBe(true);
    expect(pending.settled(2, { distinctIds: ["a"] })).toBeUndefined();
    const waiting = pending.settled(1, { distinctIds: ["b", "a"] });
    expect(waiting).toBeInstanceOf(Promise);
    expect(await isSettled(waiting)).toBe(false);
    pending.applied(1);
    await waiting;
    expect(pending.settled(1, { distinctIds: ["a"] })).toBeUndefined();
  });

  it("[PI-10] waits for the last event of an id", async () => {
    const { pending } = pendingOver();
    pending.add([entry(1, { distinctId: "a" }), entry(3, { distinctId: "a" })]);
    const waiting = pending.settled(1, { distinctIds: ["a"] });
    pending.applied(2);
    expect(await isSettled(waiting)).toBe(false);
    expect(await isSettled(pending.settled(1, { distinctIds: ["a"] }))).toBe(false);
    pending.applied(3);
    await waiting;
  });

  it("[PI-10] knows both ids of an identification and the group of a $groupidentify", async () => {
    const { pending } = pendingOver();
    pending.add([
      entry(1, identify("anon", "a")),
      entry(2, {
        event: "$groupidentify",
        distinctId: "$company_acme",
        properties: { $group_type: "company", $group_key: "acme", $group_set: { size: 1 } },
      }),
    ]);
    const isSettledFor = (asked: AskedIds) => isSettled(pending.settled(1, asked));
    expect(await isSettledFor({ distinctIds: ["anon"] })).toBe(false);
    expect(await isSettledFor({ distinctIds: ["x"], groups: { company: "acme" } })).toBe(false);
    expect(await isSettledFor({ distinctIds: ["x"], groups: { company: "b" } })).toBe(true);
  });

  it("[PI-10] lets nobody wait for personless events or for what was applied before it was noted", () => {
    const { pending } = pendingOver();
    pending.applied(5);
    pending.add([
      entry(5, { distinctId: "a" }),
      entry(6, { distinctId: "b", properties: { $process_person_profile: false } }),
    ]);
    expect(pending.settled(1, { distinctIds: ["a", "b"] })).toBeUndefined();
  });

  it("[PI-10] makes everybody wait for what a start found unapplied", async () => {
    const { pending } = pendingOver();
    pending.catchUpTo(10);
    const waiting = pending.settled(1, { distinctIds: ["anybody"] });
    pending.applied(9);
    expect(await isSettled(waiting)).toBe(false);
    pending.applied(10);
    await waiting;
    expect(pending.settled(1, { distinctIds: ["anybody"] })).toBeUndefined();
  });

  it("[PI-10] lets nobody wait for ever", async () => {
    const { pending } = pendingOver([], { maxWaitMs: 5 });
    pending.add([entry(1, { distinctId: "a" })]);
    await pending.settled(1, { distinctIds: ["a"] });
    expect(pending.settled(1, { distinctIds: ["a"] })).toBeInstanceOf(Promise);
  });

  it("[PI-10] knows the other ids of a person, from the store", async () => {
    const { pending } = pendingOver([["a", "d"]]);
    pending.add([entry(1, { distinctId: "a" })]);
    const waiting = pending.settled(1, { distinctIds: ["d"] });
    expect(await isSettled(waiting)).toBe(false);
    expect(await isSettled(pending.settled(1, { distinctIds: ["e"] }))).toBe(true);
    pending.applied(1);
    await waiting;
  });

  it("[PI-10] knows the ids that events on their way make one person, however far round", async () => {
    const { pending } = pendingOver([
      ["a", "b"],
      ["c", "d"],
    ]);
    pending.add([
      entry(1, identify("e", "d")),
      entry(2, identify("b", "c")),
      entry(3, { distinctId: "other" }),
      entry(4, { distinctId: "e" }),
      entry(5, { distinctId: "other" }),
    ]);
    const waiting = pending.settled(1, { distinctIds: ["a"] });
    expect(await isSettled(waiting)).toBe(false);
    pending.applied(3);
    expect(await isSettled(waiting)).toBe(false);
    pending.applied(4);
    await waiting;
  });

  it("[PI-10] forgets links once they are applied: the store knows them then", async () => {
    const { pending } = pendingOver();
    pending.add([entry(1, identify("a", "b")), entry(2, identify("a", "c"))]);
    pending.applied(1);
    pending.add([entry(3, { distinctId: "b" })]);
    const waiting = pending.settled(1, { distinctIds: ["c"] });
    pending.applied(2);
    await waiting;
  });

  it("[PI-10] misses no change while persons become one during the look-up", async () => {
    const persons = [["d", "e"], ["x"]];
    let answer = () => {};
    const { pending } = pendingOver([], {
      distinctIdsOf: async (_projectId, id) => {
        const found = persons.find((ids) => ids.includes(id)) ?? [];
        await new Promise<void>((resolve) => {
          answer = resolve;
        });
        return found;
      },
    });
    pending.add([entry(1, identify("x", "e")), entry(2, { distinctId: "x" })]);
    const waiting = pending.settled(1, { distinctIds: ["d"] });
    persons.splice(0, 2, ["d", "e", "x"]);
    pending.applied(1);
    answer();
    await isSettled(waiting);
    answer();
    expect(await isSettled(waiting)).toBe(false);
    pending.applied(2);
    await waiting;
  });

  it("[PI-10] asks the store only while something is pending in the project", async () => {
    const { pending, asked } = pendingOver([["a", "d"]]);
    pending.add([entry(1, { distinctId: "a" })]);
    expect(pending.settled(2, { distinctIds: ["d"] })).toBeUndefined();
    pending.applied(1);
    expect(pending.settled(1, { distinctIds: ["d"] })).toBeUndefined();
    expect(asked).toEqual([]);
  });

  it("[PI-10] waits for everything captured before it where a person has too many ids to look at", async () => {
    const { pending } = pendingOver([], { distinctIdsOf: async () => "too-many" });
    pending.add([entry(1, { distinctId: "a" }), entry(2, { distinctId: "b" })]);
    const waiting = pending.settled(1, { distinctIds: ["d"] });
    pending.add([entry(3, { distinctId: "c" })]);
    pending.applied(1);
    expect(await isSettled(waiting)).toBe(false);
    pending.applied(2);
    await waiting;

    const chain = pendingOver();
    chain.pending.add(
      Array.from({ length: 1000 }, (_, at) => entry(at + 1, identify(`id-${at}`, `id-${at + 1}`))),
    );
    const linked = chain.pending.settled(1, { distinctIds: ["id-0"] });
    expect(await isSettled(linked)).toBe(false);
    expect(chain.asked.length).toBeLessThan(100);
    chain.pending.applied(1000);
    await linked;
  });

  it("[PI-10] waits for exactly what is pending, whatever was noted and applied in between", async () => {
    const ids = ["a", "b", "c"];
    const id = fc.constantFrom(...ids);
    const step = fc.oneof(
      fc.record({ kind: fc.constant("event"), id, other: fc.constant(null) } as const),
      fc.record({ kind: fc.constant("event"), id, other: id } as const),
      fc.record({
        kind: fc.constant("applied"),
        share: fc.double({ min: 0, max: 1, noNaN: true }),
      } as const),
    );
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 25 }), id, async (steps, asked) => {
        const noted: { position: number; ids: readonly string[] }[] = [];
        let done = 0;
        const personOf = (id: string, upTo: number) => {
          const person = new Set([id]);
          for (const _ of ids) {
            for (const { ids } of noted.slice(0, upTo)) {
              if (ids.some((one) => person.has(one))) for (const one of ids) person.add(one);
            }
          }
          return person;
        };
        // The store knows what is applied.
        const distinctIdsOf = async (_projectId: number, id: string) => [...personOf(id, done)];
        const { pending } = pendingOver([], { distinctIdsOf });
        const apply = (upTo: number) => {
          done = upTo;
          pending.applied(done);
        };
        for (const one of steps) {
          if (one.kind === "applied") {
            apply(done + Math.floor(one.share * (noted.length - done)));
          } else {
            const position = noted.length + 1;
            const isLink = one.other !== null && one.other !== one.id;
            const fields = isLink ? identify(one.other, one.id) : { distinctId: one.id };
            pending.add([entry(position, fields)]);
            noted.push({ position, ids: isLink ? [one.id, one.other] : [one.id] });
          }
        }
        const person = personOf(asked, noted.length);
        const last = noted.findLast((one) => one.ids.some((id) => person.has(id)))?.position ?? 0;
        const waiting = pending.settled(1, { distinctIds: [asked] });
        if (last > done) {
          apply(last - 1);
          expect(await isSettled(waiting)).toBe(false);
          apply(last);
        }
        expect(await isSettled(waiting)).toBe(true);
      }),
      { numRuns: 60 },
    );
  });

  it("[PI-54] lets captures wait while changes are far behind, for a short while", async () => {
    const { pending } = pendingOver([], { maxLag: 2, maxKeepUpMs: 60_000 });
    expect(pending.keptUp(2)).toBeUndefined();
    const waiting = pending.keptUp(3);
    expect(await isSettled(waiting)).toBe(false);
    pending.applied(1);
    await waiting;
    const hurried = pendingOver([], { maxLag: 2, maxKeepUpMs: 30 }).pending;
    const startedAt = performance.now();
    await hurried.keptUp(10);
    expect(performance.now() - startedAt).toBeGreaterThan(25);
  });

  it("[PI-55] stays small while changes are not applied: then everybody waits for what is pending", async () => {
    const { pending } = pendingOver([], { maxNoted: 3 });
    pending.add([1, 2, 3, 4].map((position) => entry(position, { distinctId: `u${position}` })));
    const somebody = pending.settled(1, { distinctIds: ["somebody else"] });
    expect(await isSettled(somebody)).toBe(false);
    pending.add([entry(5, { distinctId: "u5" })]);
    pending.applied(4);
    await somebody;
    expect(await isSettled(pending.settled(1, { distinctIds: ["u1"] }))).toBe(true);
    expect(await isSettled(pending.settled(1, { distinctIds: ["u5"] }))).toBe(false);
    pending.applied(5);
    expect(pending.settled(1, { distinctIds: ["u5"] })).toBeUndefined();
  });
});
