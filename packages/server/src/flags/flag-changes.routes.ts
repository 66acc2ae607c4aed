import type { ServerResponse } from "node:http";
import { Type } from "typebox";
import { type ProjectsByToken, requireProject } from "../accounts/projects-by-token.ts";
import type { App } from "../http/app.ts";
import { corsHeadersOf } from "../http/cors.ts";
import { Refusal } from "../http/errors.ts";
import { queryText } from "../http/query-text.ts";
import type { CompiledFlags } from "./compiled-flags.ts";
import { type ChangeListener, type FlagChanges, MAX_LISTENERS } from "./flag-changes.ts";

/** How connections are kept. */
interface StreamTiming {
  /** A comment this often tells proxies and clients that the connection lives. */
  readonly heartbeatMs: number;
  /** What a client that does not read gets to end properly. */
  readonly partingMs: number;
}

const TIMING: StreamTiming = { heartbeatMs: 15_000, partingMs: 500 };
/** How soon a client comes again after its connection ended. */
const RETRY_MS = 2_000;
/** A client that lags behind by more than this is told of the newest change only. */
const MAX_BUFFERED_BYTES = 16 * 1024;

/**
 * `GET /flags/changes`: tells, as server-sent events, that a project's flags have changed, so that
 * clients ask for them anew instead of asking again and again. It tells nothing of the flags, so the
 * public project key opens it.
 */
export function flagChangeRoutes(
  app: App,
  {
    projects,
    compiledFlags,
    changes,
  }: {
    readonly projects: ProjectsByToken;
    readonly compiledFlags: Pick<CompiledFlags, "get">;
    readonly changes: Pick<FlagChanges, "join" | "close">;
  },
  timing: StreamTiming = TIMING,
): void {
  // An open answer would hold up the end of the server.
  app.addHook("preClose", (done) => {
    changes.close();
    done();
  });
  app.get(
    "/flags/changes",
    {
      exposeHeadRoute: false,
      schema: {
        tags: ["flags"],
        summary: "Follow changes of flags (server-sent events)",
        description:
          "`event: flags_changed` with `revision` says that flags have changed. A client that comes again with `Last-Event-ID` is told at once of what it missed.",
        querystring: Type.Object({
          token: Type.Optional(Type.String({ description: "The project key." })),
          api_key: Type.Optional(Type.String({ description: "The same." })),
          last_event_id: Type.Optional(
            Type.String({ description: "In place of the header `Last-Event-ID`." }),
          ),
        }),
      },
    },
    async (request, reply) => {
      const { query, headers } = request;
      const token = queryText(query, "token") || queryText(query, "api_key");
      if (!token) {
        throw new Refusal(
          "missing_api_key",
          "API key not provided. You can find your project API key in your PostHog project settings.",
        );
      }
      const project = await requireProject(projects, token);
      const { revision } = await compiledFlags.get(project.id);
      const response = reply.raw;
      const leave = changes.join(project.id, revision, listenerOf(response, timing));
      if (leave === "too-many") {
        throw new Refusal(
          "throttled",
          `A project's flags are followed by at most ${MAX_LISTENERS} clients at a time.`,
          { headers: { "retry-after": "30" } },
        );
      }
      reply.hijack();
      // Gone while its project was looked up: nothing would tell of that any more.
      if (response.destroyed) {
        leave();
        return;
      }
      const head: string[] = [
        ...["content-type", "text/event-stream; charset=utf-8"],
        ...["cache-control", "no-cache, no-transform"],
        // Proxies that gather answers would hold changes back.
        ...["x-accel-buffering", "no"],
        ...["connection", "close"],
        ...corsHeadersOf(headers),
      ];
      response.writeHead(200, head);
      const seen = headers["last-event-id"] ?? queryText(query, "last_event_id");
      const isBehind = seen !== undefined && seen !== "" && seen !== String(revision);
      // An id without data is remembered by the client, and no event.
      response.write(
        `retry: ${RETRY_MS}\n${isBehind ? changeText(revision) : `id: ${revision}\n\n`}`,
      );
      const heartbeat = setInterval(() => {
        if (response.writableLength < MAX_BUFFERED_BYTES) response.write(": alive\n\n");
        // Flags that nobody asks for would be let go, and then not be looked after.
        void Promise.resolve(compiledFlags.get(project.id)).catch(() => {});
      }, timing.heartbeatMs);
      response.once("close", () => {
        clearInterval(heartbeat);
        leave();
      });
    },
  );
}

function changeText(revision: number): string {
  return `id: ${revision}\nevent: flags_changed\ndata: {"revision":${revision}}\n\n`;
}

function listenerOf(response: ServerResponse, { partingMs }: StreamTiming): ChangeListener {
  let waiting: number | null = null;
  const tell = (revision: number) => {
    if (!response.writableEnded) response.write(changeText(revision));
  };
  return {
    changed(revision) {
      if (response.writableLength <= MAX_BUFFERED_BYTES) {
        tell(revision);
        return;
      }
      if (waiting === null) {
        response.once("drain", () => {
          if (waiting !== null) tell(waiting);
          waiting = null;
        });
      }
      waiting = revision;
    },
    end() {
      response.end();
      setTimeout(() => response.destroy(), partingMs).unref();
    },
  };
}
