import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { JsonObject } from "@hedgerow/core/json";
import { openDuckDbEvents } from "../engines/duckdb-events/duckdb-events.ts";
import { type EmbeddedLogOptions, openEmbeddedLog } from "../engines/embedded-log/embedded-log.ts";
import { plainPersonStore } from "../engines/sql/plain-person-store.setup.ts";
import { projectsAndUsers } from "../engines/sql/projects-and-users.setup.ts";
import { openSqlite } from "../engines/sql/sqlite.ts";
import { createTransformationEffects } from "../engines/sql/transformation-records.ts";
import { createAppendCaptured } from "./append-captured.ts";
import { type Lanes, startLanes } from "./lanes.ts";
import { createPendingLanes } from "./pending-lanes.ts";
import { createPendingPersons } from "./pending-persons.ts";
import type { Step } from "./steps/step.ts";
import { startWorker, type Worker, type WorkerDeps } from "./worker.ts";

/** What a test may put in the place of a part, around the real one. */
export type Around = Partial<{
  [Part in keyof WorkerDeps]: (real: WorkerDeps[Part]) => WorkerDeps[Part];
}> & {
  /** Steps that events of these projects take, of all projects unless told otherwise. */
  readonly steps?: readonly Step[];
  readonly isAtWork?: (projectId: number) => boolean;
  /** Longest wait of a request for person changes; longer than any machine takes unless given. */
  readonly maxWaitMs?: number;
};

/** What is waited for comes in seconds, unless a machine has much else to do. */
const PATIENCE_MS = 100_000;

/** Places that no address has; for tests that look at other things. */
export const NOWHERE = { lookup: (): JsonObject => ({}) };

/**
 * Everything from the log to the stores on real engines in a folder, for tests. The stores are
 * opened by whatever needs them first, and stay open until `closeStores`: after that, the next to
 * open them finds what was stored.
 */
export function temporaryPipeline(
  folder = mkdtempSync(join(tmpdir(), "hedgerow-pipeline-")),
  logOptions: Pick<EmbeddedLogOptions, "maxEffectChars"> = {},
) {
  let opened: ReturnType<typeof openAll> | undefined;
  let worker: Worker | undefined;
  let lanes: Lanes | undefined;

  async function openAll() {
    const database = await openSqlite(join(folder, "metadata.sqlite"));
    const persons = plainPersonStore(database);
    const events = await openDuckDbEvents(join(folder, "events.duckdb"));
    const log = await openEmbeddedLog(join(folder, "log.sqlite"), {
      ...logOptions,
      after: Math.max(
        await persons.position(),
        await events.position(),
        await createTransformationEffects(database).position(),
      ),
    });
    const newProject = async () => (await projectsAndUsers(database)).newProject();
    return { database, persons, events, log, newProject };
  }

  function openStores() {
    opened ??= openAll();
    return opened;
  }

  async function stopWorker(): Promise<void> {
    await lanes?.close();
    lanes = undefined;
    await worker?.close();
    worker = undefined;
  }

  async function closeStores(): Promise<void> {
    await stopWorker();
    if (!opened) return;
    const { database, events, log } = await opened;
    opened = undefined;
    await log.close();
    await events.close();
    await database.close();
  }

  async function start(around: Around = {}, timing: WorkerDeps["timing"] = {}) {
    const stores = await openStores();
    const logged: string[] = [];
    const { distinctIdsOf } = stores.persons;
    const { steps = [], isAtWork = () => steps.length > 0, maxWaitMs = 60_000 } = around;
    const waits = { distinctIdsOf, maxWaitMs };
    const pendingPersons = createPendingLanes({
      log: createPendingPersons(waits),
      createForLane: () => createPendingPersons({ ...waits, waitsForUnknown: false }),
      maxWaitMs,
    });
    const counts = { dropped: 0, setAside: 0, warnings: [] as string[] };
    const real: WorkerDeps = {
      ...stores,
      geoIp: NOWHERE,
      pendingPersons,
      logger: { error: (_fields, message) => logged.push(message) },
      observer: {
        dropped: (count) => {
          counts.dropped += count;
        },
        setAside: () => counts.setAside++,
        warned: (warning) => counts.warnings.push(warning),
      },
      timing: { storeEveryMs: 5, retryMs: 1, longestRetryMs: 10, ...timing },
    };
    const deps: WorkerDeps = {
      ...real,
      ...(around.persons && { persons: around.persons(real.persons) }),
      ...(around.events && { events: around.events(real.events) }),
      ...(around.log && { log: around.log(real.log) }),
      ...(around.geoIp && { geoIp: around.geoIp(real.geoIp) }),
      ...(around.onPrepared && {
        onPrepared: around.onPrepared(real.onPrepared) ?? (() => {}),
      }),
      ...(around.onStored && { onStored: around.onStored(real.onStored) ?? (() => {}) }),
    };
    worker = await startWorker(deps);
    lanes = startLanes({
      ...{ log: stores.log, geoIp: deps.geoIp, steps, pendingPersons, logger: real.logger },
      timing: { retryMs: 1, longestRetryMs: 10 },
    });
    const append = createAppendCaptured({
      ...{ log: stores.log, pendingPersons, isAtWork },
      onLane: (projectId) => lanes?.wake(projectId),
    });
    return {
      ...stores,
      pendingPersons,
      logged,
      counts,
      append,
      /** Waits until everything appended so far is stored. */
      async settle() {
        const { lanes: held } = stores.log;
        for (const [projectId] of held.waiting()) {
          // What was captured meanwhile stands there too.
          while ((await held.passed(projectId, PATIENCE_MS)) === true);
          if (held.waiting().has(projectId)) throw new Error("a lane did not get to its end");
        }
        if (!(await stores.events.reached(await stores.log.end(), PATIENCE_MS))) {
          throw new Error("the pipeline did not get to the end");
        }
      },
    };
  }

  return {
    folder,
    openStores,
    start,
    stopWorker,
    closeStores,
    async remove() {
      await closeStores();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
