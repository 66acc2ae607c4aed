import { StoreUnavailable } from "../platform/store-unavailable.ts";
import type { EventBatch, EventRow, EventRows, EventStore } from "./event-store.ts";
import type { PreparationObserver } from "./prepare-run.ts";

export interface StoringDeps {
  readonly events: Pick<EventStore, "insert">;
  readonly logger: { error(fields: object, message: string): void };
  readonly observer: Pick<PreparationObserver, "setAside">;
}

/**
 * Inserts a batch of which some row fails again and again: cut in halves down to the row at fault
 * (it fails before and after the store is seen to work), which becomes a dead letter. Throws when
 * the store takes nothing, and where it says itself that it is out of order. Resolves with the rows that are stored.
 * @param after the position the store has reached
 */
export async function insertAroundFaults(
  deps: StoringDeps,
  after: number,
  batch: EventBatch,
): Promise<EventRows> {
  const { events } = deps;
  try {
    await events.insert(batch);
    return batch.rows;
  } catch (fault) {
    if (batch.rows.length === 0 || fault instanceof StoreUnavailable) throw fault;
  }
  if (batch.rows.length > 1) {
    const [before, rest] = halves({ ...batch, rows: [...batch.rows] });
    const stored = await insertAroundFaults(deps, after, before);
    return [...stored, ...(await insertAroundFaults(deps, before.end, rest))];
  }
  await events.insert({ rows: [], merges: [], drops: [], deadLetters: [], end: after });
  try {
    await events.insert(batch);
    return batch.rows;
  } catch (fault) {
    if (fault instanceof StoreUnavailable) throw fault;
    await insertWithoutRow(deps, batch, fault);
    return [];
  }
}

async function insertWithoutRow(
  { events, logger, observer }: StoringDeps,
  batch: EventBatch,
  fault: unknown,
): Promise<void> {
  const reason = `it could not be stored: ${fault instanceof Error ? fault.message : fault}`;
  const letters = [...batch.rows].map(({ position, event }) => ({ position, event, reason }));
  await events.insert({ ...batch, rows: [], deadLetters: [...batch.deadLetters, ...letters] });
  for (const { position, event } of letters) {
    const { uuid, projectId } = event;
    logger.error({ position, uuid, projectId, reason }, "an event was set aside");
    observer.setAside();
  }
}

function halves(
  batch: EventBatch & { readonly rows: readonly EventRow[] },
): readonly [EventBatch, EventBatch] {
  const middle = batch.rows[Math.floor(batch.rows.length / 2) - 1]?.position ?? batch.end;
  const part = (belongs: (one: { position: number }) => boolean, end: number): EventBatch => ({
    rows: batch.rows.filter(belongs),
    merges: batch.merges.filter(belongs),
    drops: batch.drops.filter(belongs),
    deadLetters: batch.deadLetters.filter(belongs),
    end,
  });
  return [
    part(({ position }) => position <= middle, middle),
    part(({ position }) => position > middle, batch.end),
  ];
}
