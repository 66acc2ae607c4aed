import { createIngestionWarningStore } from "../engines/sql/ingestion-warning-store.ts";
import { createRefusalStore } from "../engines/sql/refusal-store.ts";
import { keepJournal } from "../events/ingestion-journal.ts";
import { createIngestionWarnings } from "../events/ingestion-warnings.ts";
import { createLiveEvents } from "../events/live-events.ts";
import { createRefusals } from "../events/refusals.ts";
import type { Base } from "./base.ts";
import type { Foundations } from "./foundations.ts";

/** What is told of events that were not taken as they came, and of those that were just stored. */
export function keepJournals(
  { config, clock, reportFault, onClose }: Base,
  { database }: Pick<Foundations, "database">,
) {
  const warningStore = createIngestionWarningStore(database);
  const refusalStore = createRefusalStore(database);
  const warnings = createIngestionWarnings({ store: warningStore, clock, reportFault });
  const refusals = createRefusals({ store: refusalStore, clock, reportFault });
  const liveEvents = createLiveEvents();
  onClose(
    keepJournal(
      { warnings, refusals },
      {
        prune: async () => {
          const before = new Date(Date.now() - config.receiptDays * 86_400_000);
          try {
            await refusalStore.prune(before, MAX_REFUSALS);
            await warningStore.prune(before);
          } catch (error) {
            reportFault(error, "old receipts could not be removed");
          }
        },
      },
    ),
  );
  return { warningStore, warnings, refusals, liveEvents };
}

/** Receipts of refused events that a project keeps. */
const MAX_REFUSALS = 100_000;
