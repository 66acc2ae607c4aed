import type { EventBatch, EventStore } from "./event-store.ts";
import type { PreparationObserver } from "./prepare-run.ts";

/**
 * Inserts a batch of which some row fails again and again: cut in halves down to the row at fault,
 * which becomes a dead letter. Throws when the store takes nothing at all.
 */
export async function insertAroundFaults(
  events: Pick<EventStore, "insert">,
  batch: EventBatch,
  told: {
    readonly logger: { error(fields: object, message: string): void };
    readonly observer: Pick<PreparationObserver, "setAside">;
  },
): Promise<void> {
  try {
    await events.insert(batch);
  } catch (fault) {
    const [row] = batch.rows;
    if (!row) throw fault;
    if (batch.rows.length > 1) {
      for (const half of halves(batch)) await insertAroundFaults(events, half, told);
      return;
    }
    const { position, event } = row;
    const reason = `it could not be stored: ${fault instanceof Error ? fault.message : fault}`;
    // Succeeds wherever the store works: so it is not the store, it is the event.
    await events.insert({
      ...batch,
      rows: [],
      deadLetters: [...batch.deadLetters, { position, event, reason }],
    });
    const { uuid, projectId } = event;
    told.logger.error({ position, uuid, projectId, reason }, "an event was set aside");
    told.observer.setAside();
  }
}

function halves(batch: EventBatch): readonly EventBatch[] {
  const middle = batch.rows[Math.floor(batch.rows.length / 2) - 1]?.position ?? batch.end;
  const part = (belongs: (one: { position: number }) => boolean, end: number): EventBatch => ({
    rows: batch.rows.filter(belongs),
    merges: batch.merges.filter(belongs),
    deadLetters: batch.deadLetters.filter(belongs),
    end,
  });
  return [
    part(({ position }) => position <= middle, middle),
    part(({ position }) => position > middle, batch.end),
  ];
}
