import { randomUUID } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { CapturedEvent } from "@hedgerow/core/events/event";
import type { InjectOptions } from "fastify";
import { pino } from "pino";
import { Registry } from "prom-client";
import { v7 } from "uuid";
import { createProjectsByToken } from "../accounts/projects-by-token.ts";
import { openDuckDbEvents } from "../engines/duckdb-events/duckdb-events.ts";
import { openEmbeddedLog } from "../engines/embedded-log/embedded-log.ts";
import { createAccountStore } from "../engines/sql/account-store.ts";
import { openTemporarySqlite } from "../engines/sql/sql-engines.contract.ts";
import { createApp } from "../http/app.ts";
import { createBodyOpener } from "../http/body-opener.ts";
import { createLargeBodies } from "../http/large-bodies.ts";
import { publicApi } from "../http/public-api.ts";
import { createAppendCaptured } from "./append-captured.ts";
import { captureRoutes } from "./capture.routes.ts";
import { createCaptureBodies } from "./capture-bodies.ts";
import { captureV1Routes } from "./capture-v1.routes.ts";
import { countCaptures } from "./ingestion-metrics.ts";
import { createPendingLanes } from "./pending-lanes.ts";
import { createPendingPersons } from "./pending-persons.ts";
import { createRecentEvents } from "./recent-events.ts";

export const TOKEN = "phc_capture_test";
/** Key of a project that anonymizes addresses. */
export const ANONYMOUS_TOKEN = "phc_capture_anonymous";
/** The time at which every request arrives. */
export const ARRIVAL = new Date("2026-01-15T12:00:00.000Z");
/** A trusted proxy. */
export const PROXY = "10.0.0.1";

/** The capture routes over HTTP on real stores, and what they put into the log. */
export async function openCaptureApi(options: { maxLogBytes?: number } = {}) {
  const folder = mkdtempSync(join(tmpdir(), "hedgerow-capture-"));
  const database = await openTemporarySqlite();
  const accounts = createAccountStore(database);
  const { id: organizationId } = await accounts.createOrganization(
    { id: randomUUID(), name: "O", slug: "o" },
    ARRIVAL,
  );
  for (const apiToken of [TOKEN, ANONYMOUS_TOKEN]) {
    const project = await accounts.createProject(
      {
        uuid: randomUUID(),
        organizationId,
        name: "P",
        apiToken,
        secretApiToken: `phs_${apiToken}`,
        timeZone: "UTC",
      },
      ARRIVAL,
    );
    if (typeof project === "string") throw new Error(project);
    if (apiToken === ANONYMOUS_TOKEN) {
      await accounts.updateProject(project.id, { anonymizeIps: true }, ARRIVAL);
    }
  }
  const log = await openEmbeddedLog(
    join(folder, "log.sqlite"),
    options.maxLogBytes === undefined ? {} : { maxFileBytes: options.maxLogBytes },
  );
  const createPending = () => createPendingPersons({ distinctIdsOf: async (_project, id) => [id] });
  const pendingPersons = createPendingLanes({ log: createPending(), createForLane: createPending });
  const metrics = new Registry();
  const app = createApp({ logger: pino({ level: "silent" }) });
  const events = await openDuckDbEvents(join(folder, "events.duckdb"));
  const opener = createBodyOpener();
  let recent = createRecentEvents();
  const deps = {
    projects: createProjectsByToken({ accounts, now: Date.now }),
    append: createAppendCaptured({
      ...{ log, pendingPersons, isAtWork: () => false, onLane() {} },
    }),
    events,
    get recent() {
      return recent;
    },
    trustedProxies: [PROXY],
    bodies: createCaptureBodies(createLargeBodies({ opener })),
    clock: () => ARRIVAL,
    newUuid: v7,
    observer: countCaptures(metrics),
  };
  publicApi(app, (open) => {
    captureRoutes(open, deps);
    captureV1Routes(open, deps);
  });
  await app.ready();
  let read = 0;

  return {
    app,
    log,
    pendingPersons,
    metrics,
    /** A request; the answer's body is parsed where there is one. */
    async send(request: InjectOptions) {
      const { statusCode, headers, payload } = await app.inject(request);
      // biome-ignore lint/suspicious/noExplicitAny: tests look into answers of every shape
      const body: any = payload === "" ? undefined : JSON.parse(payload);
      return { status: statusCode, headers, body };
    },
    /** The events captured since the last call, in order. */
    async captured(): Promise<readonly CapturedEvent[]> {
      const events: CapturedEvent[] = [];
      while (read < (await log.end())) {
        const { entries, end } = await log.read(read, 10_000, new AbortController().signal);
        events.push(...entries.map(({ event }) => event));
        read = end;
      }
      return events;
    },
    /** Stores all that the log has and forgets the rest, as a restart would. */
    async restart() {
      const { entries, end } = await log.read(await events.position(), 10_000, AbortSignal.any([]));
      const rows = entries.map(({ position, event }) => {
        return { position, event, personId: randomUUID(), groupKeys: [], changedBy: [] };
      });
      await events.insert({ rows, merges: [], drops: [], deadLetters: [], end });
      recent = createRecentEvents();
    },
    async close() {
      await app.close();
      await opener.close();
      await events.close();
      await log.close();
      await database.close();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
