import type { CapturedEvent } from "@hedgerow/core/events/event";
import fc from "fast-check";
import { afterAll, beforeAll, expect, test } from "vitest";
import { createPersonRecords } from "../engines/sql/person-records.ts";
import { sampleEvent } from "../events/event-log.contract.ts";
import type { StoredEvent } from "../events/event-store.ts";
import { temporaryPipeline } from "../events/pipeline.setup.ts";
import { type ChangeFollower, followChanges } from "./follow-changes.ts";
import type { PersonRecords } from "./person-records.ts";

let pipeline: ReturnType<typeof temporaryPipeline>;
let run: Awaited<ReturnType<typeof pipeline.start>>;
let records: PersonRecords;
let follower: ChangeFollower;

beforeAll(async () => {
  pipeline = temporaryPipeline();
  run = await pipeline.start();
  records = createPersonRecords(run.database, run.persons);
  follower = followChanges({
    records,
    events: run.events,
    reportFault: (error) => {
      throw error;
    },
    timing: { maxWaitMs: 60_000 },
  });
});
afterAll(async () => {
  await follower.close();
  await pipeline.remove();
});

test("[PR-16] any aliases, merges, splits and deletions leave every event with whom a model says", async () => {
  await fc.assert(
    fc.asyncProperty(someSteps, async (steps) => {
      const projectId = await run.newProject();
      const model = new ModelHistories();
      for (const step of steps) {
        if ("event" in step) {
          const event = sampleEvent({ projectId, ...eventOf(step) });
          model.capture(event.uuid, step);
          await run.append([event]);
          continue;
        }
        // Events before it count, whether they are stored yet or not.
        await run.pendingPersons.caughtUp(await run.log.end());
        await byHand(projectId, step);
        if (step.waits) await follower.follow();
        model.byHand(step);
      }
      await run.settle();
      await follower.follow();
      expect(await records.eventChanges(1)).toEqual([]);

      const stored = await allEvents(projectId);
      expect(stored.map(({ uuid }) => uuid).toSorted()).toEqual(model.eventUuids.toSorted());
      const personOf = new Map(stored.map(({ uuid, personId }) => [uuid, personId]));
      const persons = await records.byDistinctIds(projectId, IDS);
      for (const { owner, uuid } of model.events) {
        for (const other of model.events) {
          const isTheSame = personOf.get(uuid) === personOf.get(other.uuid);
          expect(isTheSame).toBe(owner === other.owner);
        }
        const [id] = owner.ids;
        if (id !== undefined) expect(personOf.get(uuid)).toBe(persons.get(id)?.uuid);
        else
          expect([...persons.values()].map((person) => person.uuid)).not.toContain(
            personOf.get(uuid),
          );
      }
      expect([...persons].map(([id, { distinctIds }]) => [id, distinctIds])).toEqual(
        IDS.flatMap((id) => {
          const owner = model.ownerOf(id);
          return owner ? [[id, [...owner.ids].sort()]] : [];
        }).sort(),
      );
    }),
    { numRuns: 40 },
  );
});

const IDS = ["a", "b", "c", "d", "e"];

interface Capture {
  readonly event: "clicked" | "personless" | "$identify" | "$create_alias" | "$merge_dangerously";
  readonly id: string;
  readonly other: string;
}
interface ByHand {
  readonly what: "split" | "delete" | "delete with events" | "delete events";
  readonly id: string;
  /** Whether what follows waits until it is carried out. */
  readonly waits: boolean;
}

const someSteps: fc.Arbitrary<(Capture | ByHand)[]> = fc.array(
  fc.oneof(
    {
      weight: 4,
      arbitrary: fc.record<Capture>({
        event: fc.constantFrom(
          "clicked",
          "clicked",
          "personless",
          "$identify",
          "$create_alias",
          "$merge_dangerously",
        ),
        id: fc.constantFrom(...IDS),
        other: fc.constantFrom(...IDS),
      }),
    },
    {
      weight: 1,
      arbitrary: fc.record<ByHand>({
        what: fc.constantFrom("split", "split", "delete", "delete with events", "delete events"),
        id: fc.constantFrom(...IDS),
        waits: fc.boolean(),
      }),
    },
  ),
  { minLength: 8, maxLength: 30 },
);

function eventOf({
  event,
  id,
  other,
}: Capture): Pick<CapturedEvent, "event" | "distinctId" | "properties"> {
  switch (event) {
    case "clicked":
      return { event, distinctId: id, properties: {} };
    case "personless":
      return { event, distinctId: id, properties: { $process_person_profile: false } };
    case "$identify":
      return { event, distinctId: id, properties: { $anon_distinct_id: other } };
    default:
      return { event, distinctId: id, properties: { alias: other } };
  }
}

async function byHand(projectId: number, { what, id }: ByHand): Promise<void> {
  const person = await records.person(projectId, { distinctId: id });
  if (!person) return;
  const now = new Date("2026-06-01T00:00:00Z");
  switch (what) {
    case "split":
      await records.split(projectId, person.uuid, { mainDistinctId: id, now });
      return;
    case "delete events":
      await records.deleteEvents(projectId, [person.uuid]);
      // Carried out before the person can become part of another.
      return follower.follow();
    default:
      await run.settle();
      await records.deletePersons(projectId, [person.uuid], {
        withEvents: what === "delete with events",
        now,
      });
  }
}

async function allEvents(projectId: number): Promise<readonly StoredEvent[]> {
  const query = { projectId, limit: 1000, offset: 0, order: "oldest-first" } as const;
  return (await run.events.events(query)).events;
}

interface Owner {
  readonly ids: Set<string>;
  isIdentified: boolean;
}

/** Who has which ids and events, changed by one step at a time. */
class ModelHistories {
  #people: Owner[] = [];
  /** Who an id without a person would be: personless events are theirs. */
  #ghosts = new Map<string, Owner>();
  events: { readonly uuid: string; readonly id: string; owner: Owner }[] = [];

  get eventUuids(): string[] {
    return this.events.map(({ uuid }) => uuid);
  }

  ownerOf(id: string): Owner | undefined {
    return this.#people.find(({ ids }) => ids.has(id));
  }

  capture(uuid: string, { event, id, other }: Capture): void {
    if (event === "personless") {
      this.events.push({ uuid, id, owner: this.ownerOf(id) ?? this.#ghost(id) });
      return;
    }
    if (event !== "clicked" && id !== other) this.#link(id, other, event === "$merge_dangerously");
    this.events.push({ uuid, id, owner: this.ownerOf(id) ?? this.#create(id) });
  }

  byHand({ what, id }: ByHand): void {
    const person = this.ownerOf(id);
    if (!person) return;
    switch (what) {
      case "split":
        for (const other of [...person.ids]) {
          if (other === id) continue;
          person.ids.delete(other);
          const owner = { ids: new Set([other]), isIdentified: false };
          this.#people.push(owner);
          for (const event of this.events) if (event.id === other) event.owner = owner;
        }
        return;
      case "delete with events":
      case "delete events":
        this.events = this.events.filter(({ owner }) => owner !== person);
        if (what === "delete events") return;
        break;
      case "delete":
        break;
    }
    this.#people = this.#people.filter((one) => one !== person);
    person.ids.clear();
  }

  #ghost(id: string): Owner {
    const ghost = this.#ghosts.get(id) ?? { ids: new Set(), isIdentified: false };
    this.#ghosts.set(id, ghost);
    return ghost;
  }

  #create(id: string): Owner {
    const person = this.#ghosts.get(id) ?? { ids: new Set(), isIdentified: false };
    this.#ghosts.delete(id);
    person.ids.add(id);
    this.#people.push(person);
    return person;
  }

  #link(id: string, other: string, evenIfIdentified: boolean): void {
    const [mine, theirs] = [this.ownerOf(id), this.ownerOf(other)];
    if (mine && mine === theirs) return;
    if (mine && theirs?.isIdentified && !evenIfIdentified) return;
    const survivor = mine ?? theirs ?? this.#create(id);
    if (mine && theirs) this.#absorb(survivor, theirs);
    else {
      const added = theirs ? id : other;
      survivor.ids.add(added);
      const ghost = this.#ghosts.get(added);
      if (ghost) this.#absorb(survivor, ghost);
      this.#ghosts.delete(added);
    }
    survivor.isIdentified = true;
  }

  #absorb(survivor: Owner, other: Owner): void {
    this.#people = this.#people.filter((person) => person !== other);
    for (const id of other.ids) survivor.ids.add(id);
    for (const event of this.events) if (event.owner === other) event.owner = survivor;
  }
}
