import { Refusal } from "../http/errors.ts";
import type { ListedPerson, PersonRecords } from "../persons/person-records.ts";
import {
  type EventPage,
  type EventQuery,
  type EventStore,
  QueryTooLong,
  type StoredEvent,
} from "./event-store.ts";
import { type ReachNowDeps, reachNow } from "./reach-now.ts";

/** An event together with whom it belongs to now; `null` for ids without a stored person. */
export interface EventOfPerson {
  readonly event: StoredEvent;
  readonly person: ListedPerson | null;
}

export interface FoundEvents {
  readonly found: readonly EventOfPerson[];
  readonly hasMore: boolean;
  /** How many events match in all; `null` when only reading all of them could tell. */
  readonly count: number | null;
}

/** Reading stored events. Every event acknowledged before a call is seen by it. */
export interface Events {
  /** Refuses a query that has to look at too many events. */
  find(query: EventQuery): Promise<FoundEvents>;
  /** Refuses an unknown uuid (404). */
  event(projectId: number, uuid: string): Promise<EventOfPerson>;
}

/** Reads answer with what is there after this long, should storing lag behind. */
const MAX_WAIT_MS = 2000;

/** {@link Events} over the store; the log tells what reads have to wait for. */
export function createEvents({
  events,
  log,
  persons,
}: {
  events: Pick<EventStore, "events" | "count" | "reached">;
  log: ReachNowDeps["log"];
  persons: Pick<PersonRecords, "byUuids">;
}): Events {
  async function pageOf(query: EventQuery): Promise<EventPage> {
    try {
      return await events.events(query);
    } catch (error) {
      if (!(error instanceof QueryTooLong)) throw error;
      throw new Refusal(
        "invalid_input",
        "The search takes too long. Narrow it by event, distinct_id, after or before.",
        { attr: query.properties ? "properties" : null },
      );
    }
  }

  async function count(query: EventQuery, page: EventPage): Promise<number | null> {
    const last = query.offset + page.events.length;
    if (!page.hasMore && (page.events.length > 0 || query.offset === 0)) return last;
    return query.properties ? null : events.count(query);
  }

  async function find(query: EventQuery): Promise<FoundEvents> {
    await reachNow({ events, log }, query.projectId, MAX_WAIT_MS);
    const page = await pageOf(query);
    const uuids = new Set(page.events.map(({ personId }) => personId));
    const personOf = await persons.byUuids(query.projectId, [...uuids]);
    const found = page.events.map((event) => ({
      event,
      person: personOf.get(event.personId) ?? null,
    }));
    return { found, hasMore: page.hasMore, count: await count(query, page) };
  }

  return {
    find,
    async event(projectId, uuid) {
      const { found } = await find({
        projectId,
        uuid,
        limit: 1,
        offset: 0,
        order: "newest-first",
      });
      const [only] = found;
      if (!only) throw new Refusal("not_found", "Not found.");
      return only;
    },
  };
}
