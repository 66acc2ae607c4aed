import type { FastifyRequest } from "fastify";
import { Type } from "typebox";
import type { App } from "../http/app.ts";
import { access, projectOf } from "../http/management-api.ts";
import { OpenListOf, PageQuery, pageOf } from "../http/pagination.ts";
import { queryText } from "../http/query-text.ts";
import {
  chosenLetters,
  DeadLetter,
  ReplayAnswer,
  ReplayBody,
  wireLetter,
  wireReplay,
} from "./dead-letters.schemas.ts";
import type { DeadLetters } from "./dead-letters.ts";

const DEAD_LETTERS = "/api/projects/:project_id/dead_letters";
const tags = ["events"];

/** Events of a project that could not be processed: list them, and capture them once more. */
export function deadLetterRoutes(app: App, deadLetters: DeadLetters): void {
  app.get(
    DEAD_LETTERS,
    {
      ...access("query:read"),
      schema: {
        tags,
        summary: "List events that could not be processed, oldest first",
        querystring: Type.Object({
          limit: PageQuery.limit,
          after: Type.Optional(Type.String({ description: "Id after which the list begins." })),
        }),
        response: { 200: OpenListOf(DeadLetter) },
      },
    },
    async (request) => {
      const { limit } = pageOf(request);
      const after = queryText(request.query, "after") ?? "";
      const letters = await deadLetters.list({
        projectId: projectOf(request).id,
        after: /^\d{1,15}$/.test(after) ? Number(after) : 0,
        limit: limit + 1,
      });
      const shown = letters.slice(0, limit);
      const last = letters.length > limit ? shown.at(-1) : undefined;
      return {
        count: null,
        next: last ? linkAfter(request, limit, last.position) : null,
        previous: null,
        results: shown.map(wireLetter),
      };
    },
  );

  app.post(
    `${DEAD_LETTERS}/replay`,
    {
      ...access("project:write"),
      schema: {
        tags,
        summary: "Capture events that could not be processed once more",
        description: "Those that fail again become dead letters again, under new ids.",
        body: ReplayBody,
        response: { 200: ReplayAnswer },
      },
    },
    async (request) => {
      const chosen = chosenLetters(request.body);
      return wireReplay(await deadLetters.replay(chosen, projectOf(request).id));
    },
  );
}

function linkAfter(request: FastifyRequest, limit: number, position: number): string {
  const path = new URL(request.originalUrl, "http://localhost").pathname;
  return `${request.protocol}://${request.host}${path}?after=${position}&limit=${limit}`;
}
