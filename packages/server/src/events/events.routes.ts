import type { BacktrackingPatterns } from "@hedgerow/core/flags/pattern";
import type { App } from "../http/app.ts";
import { access, projectOf } from "../http/management-api.ts";
import { OpenListOf, openListAnswer, pageOf } from "../http/pagination.ts";
import type { PersonRecords } from "../persons/person-records.ts";
import type { EventStore } from "./event-store.ts";
import {
  Event,
  EventListParameters,
  eventQueryOf,
  pathUuidOf,
  wireEvent,
} from "./events.schemas.ts";
import { createEvents } from "./events.ts";
import type { ReachNowDeps } from "./reach-now.ts";

const EVENTS = "/api/projects/:project_id/events";
const tags = ["events"];

/** Stored events: list and single one. What capture has acknowledged is there. */
export function eventRoutes(
  app: App,
  {
    clock,
    backtracking,
    ...stores
  }: {
    events: Pick<EventStore, "events" | "count" | "reached">;
    log: ReachNowDeps["log"];
    persons: Pick<PersonRecords, "byUuids">;
    clock: () => Date;
    backtracking: BacktrackingPatterns;
  },
): void {
  const events = createEvents(stores);

  app.get(
    EVENTS,
    {
      ...access("query:read"),
      schema: {
        tags,
        summary: "List events, newest first",
        querystring: EventListParameters,
        response: { 200: OpenListOf(Event) },
      },
    },
    async (request) => {
      const page = pageOf(request);
      const project = projectOf(request);
      const tools = { now: clock(), timeZone: project.timeZone, backtracking };
      const query = eventQueryOf(request.query, { projectId: project.id, page, tools });
      const { found, ...rest } = await events.find(query);
      return openListAnswer(request, page, { ...rest, results: found.map(wireEvent) });
    },
  );

  app.get(
    `${EVENTS}/:uuid`,
    {
      ...access("query:read"),
      schema: { tags, summary: "Read an event", response: { 200: Event } },
    },
    async (request) =>
      wireEvent(await events.event(projectOf(request).id, pathUuidOf(request.params))),
  );
}
