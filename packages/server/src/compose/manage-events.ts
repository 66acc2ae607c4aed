import { createEventDefinitionStore } from "../engines/sql/event-definition-store.ts";
import { createPropertyDefinitionStore } from "../engines/sql/property-definition-store.ts";
import { eventDefinitionRoutes } from "../event-definitions/event-definitions.routes.ts";
import { createEventDefinitions } from "../event-definitions/event-definitions.ts";
import { cohortsUsingEvent, flagsUsingEvent } from "../event-definitions/event-uses.ts";
import { propertyDefinitionRoutes } from "../event-definitions/property-definitions.routes.ts";
import { createPropertyDefinitions } from "../event-definitions/property-definitions.ts";
import { deadLetterRoutes } from "../events/dead-letters.routes.ts";
import { createDeadLetters } from "../events/dead-letters.ts";
import { eventRoutes } from "../events/events.routes.ts";
import { ingestionWarningRoutes } from "../events/ingestion-warnings.routes.ts";
import { liveEventRoutes } from "../events/live-events.routes.ts";
import { propertyValuesRoutes } from "../events/property-values.routes.ts";
import { createPropertyValues } from "../events/property-values.ts";
import { receiptRoutes } from "../events/receipts.routes.ts";
import { experimentsUsingEvent } from "../experiments/experiments-using-event.ts";
import type { App } from "../http/app.ts";
import type { ManagedFlags } from "./manage-flags.ts";
import type { Parts } from "./parts.ts";

/** Events as they are stored, defined, refused and told of. */
export function manageEvents(
  management: App,
  parts: Parts,
  { experimentStore }: ManagedFlags,
): void {
  const { database, clock, newUuid, accounts, backtracking, events, log, personRecords } = parts;
  const { append, definitionRecorder, compiledFlags, refusals, liveEvents } = parts;
  const { warningStore, warnings } = parts;
  eventRoutes(management, { events, log, persons: personRecords, clock, backtracking });
  eventDefinitionRoutes(management, {
    definitions: createEventDefinitions({
      store: createEventDefinitionStore(database, { newUuid }),
      recorder: definitionRecorder,
      accounts,
      events,
      definitionsOf: async (projectId) => (await compiledFlags.get(projectId)).definitions,
      uses: [cohortsUsingEvent, flagsUsingEvent, experimentsUsingEvent(experimentStore)],
      clock,
    }),
    accounts,
  });
  propertyDefinitionRoutes(management, {
    definitions: createPropertyDefinitions({
      store: createPropertyDefinitionStore(database),
      recorder: definitionRecorder,
      clock,
    }),
    accounts,
  });
  propertyValuesRoutes(management, createPropertyValues({ events, log, clock }));
  deadLetterRoutes(management, createDeadLetters({ events, log, append }));
  receiptRoutes(management, { events, log, refusals });
  ingestionWarningRoutes(management, { store: warningStore, warnings });
  liveEventRoutes(management, liveEvents);
}
