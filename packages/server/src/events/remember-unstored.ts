import type { EventLog, LogBatch } from "./event-log.ts";
import type { EventStore } from "./event-store.ts";
import { MOST_RECENT, type RecentEvents } from "./recent-events.ts";

/** Read at a time, so that others have their turn. */
const AT_A_TIME = 500;

/**
 * Has a new process remember the events that are durable and not stored: until they are, nothing else
 * tells a repetition of one from a new event. To be awaited before anything is captured. Of a backlog
 * beyond what is ever remembered, the newest, as many of the log as of each lane.
 */
export async function rememberUnstored({
  log,
  events,
  recent,
}: {
  readonly log: Pick<EventLog, "read" | "end" | "lanes">;
  readonly events: Pick<EventStore, "position">;
  readonly recent: RecentEvents;
}): Promise<void> {
  const { lanes } = log;
  const always = new AbortController().signal;
  const projectIds = [...lanes.waiting().keys()];
  const most = Math.ceil(MOST_RECENT / (1 + projectIds.length));
  const newestOf = (begin: number, end: number) => ({ after: Math.max(begin, end - most), end });
  const stretch = newestOf(await events.position(), await log.end());
  await rememberAll(stretch, recent, (after) => log.read(after, AT_A_TIME, always));
  for (const projectId of projectIds) {
    const waiting = newestOf(lanes.begin(projectId), lanes.end(projectId));
    await rememberAll(waiting, recent, async (after) => lanes.read(projectId, after, AT_A_TIME));
  }
}

async function rememberAll(
  { after: begin, end }: { readonly after: number; readonly end: number },
  recent: RecentEvents,
  read: (after: number) => Promise<LogBatch>,
): Promise<void> {
  let after = begin;
  while (after < end) {
    const batch = await read(after);
    for (const { event, fault, passage } of batch.entries) {
      if (fault !== undefined) continue;
      const uuid = passage?.kind === "kept" ? (passage.renamedFrom ?? event.uuid) : event.uuid;
      recent.add(event.projectId, { ...event, uuid });
    }
    // What the log has lost is nowhere to be read.
    if (batch.end <= after) return;
    after = batch.end;
  }
}
