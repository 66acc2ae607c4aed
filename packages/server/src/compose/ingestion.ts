import { openEmbeddedLog } from "../engines/embedded-log/embedded-log.ts";
import { createPersonRecords } from "../engines/sql/person-records.ts";
import { createSightingStore } from "../engines/sql/sighting-store.ts";
import { createTransformationEffects } from "../engines/sql/transformation-records.ts";
import { startDefinitionRecorder } from "../event-definitions/definition-recorder.ts";
import { createAppendCaptured } from "../events/append-captured.ts";
import { appliedNow } from "../events/applied-now.ts";
import { journalPreparations, tellPreparations } from "../events/ingestion-journal.ts";
import {
  countPreparations,
  showLanes,
  showLogBytes,
  showPositions,
} from "../events/ingestion-metrics.ts";
import { type Lanes, startLanes } from "../events/lanes.ts";
import { createPendingLanes } from "../events/pending-lanes.ts";
import { createPendingPersons } from "../events/pending-persons.ts";
import { reachNow } from "../events/reach-now.ts";
import { startWorker } from "../events/worker.ts";
import { startLastCalls } from "../flags/last-calls.ts";
import { followChanges } from "../persons/follow-changes.ts";
import type { Base } from "./base.ts";
import type { FlagParts } from "./flag-parts.ts";
import type { Foundations } from "./foundations.ts";
import { keepJournals } from "./journal.ts";
import { composeTransformations } from "./transformation-parts.ts";

export type Ingestion = Awaited<ReturnType<typeof composeIngestion>>;

/** How long a calculation of cohorts waits for captured events. */
const MAX_CATCHING_UP_MS = 5_000;
/** How long whoever asks for persons waits for the transformations of their project. */
const MAX_LANE_WAIT_MS = 2_000;

/** What brings events from the log through transformations and persons to their store. */
export async function composeIngestion(base: Base, foundations: Foundations, flagParts: FlagParts) {
  const { config, logger, metrics, clock, newUuid, reportFault, onClose } = base;
  const { paths, database, events, geoIp } = foundations;
  const { flagStore, compiledFlags, persons } = flagParts;
  const journal = keepJournals(base, foundations);
  const { warnings } = journal;
  const effects = createTransformationEffects(database);
  const log = await openEmbeddedLog(paths.eventLog, {
    after: Math.max(await persons.position(), await events.position(), await effects.position()),
    retention: {
      maxBytes: config.logRetentionMb * 1024 * 1024,
      maxAgeMs: config.logRetentionHours * 3_600_000,
    },
  });
  onClose(() => log.close());
  const { distinctIdsOf } = persons;
  const pendingPersons = createPendingLanes({
    log: createPendingPersons({ distinctIdsOf }),
    createForLane: () => createPendingPersons({ distinctIdsOf, waitsForUnknown: false }),
  });
  let lanes: Lanes | undefined;
  const append = createAppendCaptured({
    log,
    pendingPersons,
    isAtWork: (projectId) => transformationsAtWork.isAtWork(projectId),
    onLane: (projectId) => lanes?.wake(projectId),
  });
  const definitionRecorder = await startDefinitionRecorder({
    sightings: createSightingStore(database, { newUuid }),
    events,
    persons,
    warnings,
    clock,
    reportFault,
  });
  onClose(() => definitionRecorder.close());
  const lastCalls = startLastCalls({
    flagStore,
    flagCalls: events,
    compiledFlags,
    clock,
    reportFault,
  });
  onClose(() => lastCalls.close());
  const transformationParts = await composeTransformations(base, foundations, {
    ...{ persons, log, append, warnings, effects },
  });
  const { transformationsAtWork } = transformationParts;
  const worker = await startWorker({
    log,
    persons,
    events,
    geoIp,
    pendingPersons,
    logger,
    observer: tellPreparations(countPreparations(metrics), journalPreparations(warnings)),
    onPrepared: (rows) => {
      definitionRecorder.note(rows);
      lastCalls.note(rows);
    },
    onStored: (rows) => {
      journal.liveEvents.publish(rows);
      transformationsAtWork.note(rows);
    },
  });
  onClose(() => worker.close());
  lanes = startLanes({
    ...{ log, geoIp, pendingPersons, logger },
    steps: [transformationsAtWork.step],
  });
  onClose(() => lanes?.close());
  showPositions(metrics, async () => {
    const { persons, store } = worker.progress();
    return { captured: await log.end(), persons, stored: store };
  });
  showLanes(metrics, log.lanes.waiting);
  showLogBytes(metrics, log.bytes);
  const personRecords = createPersonRecords(database, persons);
  const personFollower = followChanges({ records: personRecords, events, reportFault });
  onClose(() => personFollower.close());
  return {
    ...journal,
    ...transformationParts,
    ...{ log, pendingPersons, append, definitionRecorder, personRecords, personFollower },
    /** Whether what a project captured by now is applied to its persons, after a while of waiting. */
    caughtUp: (projectId: number) =>
      appliedNow({ pendingPersons, log }, projectId, MAX_LANE_WAIT_MS),
    /** Whether it is stored. */
    isStored: (projectId: number) => reachNow({ events, log }, projectId, MAX_CATCHING_UP_MS),
  };
}
