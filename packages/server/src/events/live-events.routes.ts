import type { ServerResponse } from "node:http";
import { encodeJson } from "@hedgerow/core/exact-json";
import { Type } from "typebox";
import type { App } from "../http/app.ts";
import { answersAlso } from "../http/check-accept.ts";
import { Refusal } from "../http/errors.ts";
import { access, projectOf } from "../http/management-api.ts";
import { presentFields } from "../http/present-fields.ts";
import { queryText } from "../http/query-text.ts";
import { wireInstant } from "../http/wire-instant.ts";
import type { EventRow } from "./event-store.ts";
import { type LiveEvents, type LiveReader, MAX_READERS } from "./live-events.ts";

export interface LiveTiming {
  /** A comment this often tells proxies and readers that the connection lives. */
  readonly heartbeatMs: number;
  /** What a reader that does not read gets to end properly. */
  readonly partingMs: number;
}

const TIMING: LiveTiming = { heartbeatMs: 15_000, partingMs: 500 };

/** A reader that lags behind by more than this misses events, and is told how many. */
const MAX_BUFFERED_BYTES = 1024 * 1024;

/** Events as they are stored, as server-sent events: for looking at an integration at work. */
export function liveEventRoutes(
  app: App,
  live: Pick<LiveEvents, "join" | "close">,
  timing: LiveTiming = TIMING,
): void {
  // An open answer would hold up the end of the server.
  app.addHook("preClose", (done) => {
    live.close();
    done();
  });
  app.get(
    "/api/projects/:project_id/live_events",
    {
      config: { ...access("query:read").config, ...answersAlso("text/event-stream") },
      exposeHeadRoute: false,
      schema: {
        tags: ["events"],
        summary: "Follow events as they are stored (server-sent events)",
        description:
          "Each message is an event as JSON. `event: dropped` tells how many a slow reader missed.",
        querystring: Type.Object({
          event: Type.Optional(Type.String({ description: "Only events of this name." })),
          distinct_id: Type.Optional(Type.String({ description: "Only events of this id." })),
        }),
      },
    },
    async (request, reply) => {
      const text = (name: string) => queryText(request.query, name) || undefined;
      const filter = presentFields({
        projectId: projectOf(request).id,
        event: text("event"),
        distinctId: text("distinct_id"),
      });
      const response = reply.raw;
      const reader = readerOf(response, timing);
      const leave = live.join(filter, reader);
      if (leave === "too-many") {
        throw new Refusal(
          "throttled",
          `A project's events are followed by at most ${MAX_READERS} readers at a time.`,
          { headers: { "retry-after": "5" } },
        );
      }
      reply.hijack();
      response.writeHead(200, {
        "content-type": "text/event-stream; charset=utf-8",
        "cache-control": "no-cache, no-transform",
        // Proxies that gather answers would hold events back.
        "x-accel-buffering": "no",
        connection: "close",
      });
      response.write(": connected\n\n");
      const heartbeat = setInterval(() => {
        if (response.writableLength < MAX_BUFFERED_BYTES) response.write(": alive\n\n");
      }, timing.heartbeatMs);
      response.once("close", () => {
        clearInterval(heartbeat);
        leave();
      });
    },
  );
}

function readerOf(response: ServerResponse, { partingMs }: LiveTiming): LiveReader {
  let missed = 0;
  const tellMissed = () => {
    if (missed === 0 || response.writableEnded) return;
    response.write(`event: dropped\ndata: {"count":${missed}}\n\n`);
    missed = 0;
  };
  return {
    take(row) {
      if (response.writableEnded) return;
      if (response.writableLength > MAX_BUFFERED_BYTES) {
        if (missed === 0) response.once("drain", tellMissed);
        missed++;
        return;
      }
      tellMissed();
      response.write(`id: ${row.position}\ndata: ${encodeJson(wireLiveEvent(row))}\n\n`);
    },
    end() {
      tellMissed();
      response.end();
      setTimeout(() => response.destroy(), partingMs).unref();
    },
  };
}

function wireLiveEvent({ event, personId, changedBy }: EventRow) {
  return {
    uuid: event.uuid,
    event: event.event,
    distinct_id: event.distinctId,
    person_id: personId,
    properties: event.properties,
    timestamp: wireInstant(event.timestamp),
    received_at: wireInstant(event.receivedAt),
    changed_by: changedBy,
  };
}
