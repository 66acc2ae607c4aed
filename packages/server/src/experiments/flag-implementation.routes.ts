import { Type } from "typebox";
import type { AccountStore } from "../accounts/account-store.ts";
import { usersById } from "../accounts/users-by-id.ts";
import type { App } from "../http/app.ts";
import { access, projectOf } from "../http/management-api.ts";
import { listAnswer, PageQuery, pageOf } from "../http/pagination.ts";
import { queryText } from "../http/query-text.ts";
import { eventNamesOf, ImplementationAnswer, wireExperiment } from "./experiments.schemas.ts";
import type { FlagImplementation } from "./flag-implementation.ts";

/** Whether code asks for the flags of experiments (decision 7). */
export function flagImplementationRoutes(
  app: App,
  {
    flagImplementation,
    accounts,
  }: {
    flagImplementation: FlagImplementation;
    accounts: Pick<AccountStore, "user">;
  },
): void {
  app.get(
    "/api/projects/:project_id/experiments/requires_flag_implementation",
    {
      ...access("experiment:read"),
      schema: {
        tags: ["experiments"],
        summary: "Tell whether code asks for flags, and which running experiments wait for theirs",
        querystring: Type.Object({
          ...PageQuery,
          events: Type.Optional(
            Type.String({ description: "JSON list of an insight's events: only these count." }),
          ),
        }),
        response: { 200: ImplementationAnswer },
      },
    },
    async (request) => {
      const { id: projectId } = projectOf(request);
      const page = pageOf(request);
      const waiting = await flagImplementation.waiting(projectId);
      const shown = waiting.slice(page.offset, page.offset + page.limit);
      const users = await usersById(
        accounts,
        shown.map(({ experiment }) => experiment.createdById),
      );
      return {
        result: await flagImplementation.isRequired(
          projectId,
          eventNamesOf(queryText(request.query, "events")),
        ),
        ...listAnswer(request, page, {
          count: waiting.length,
          results: shown.map((view) => wireExperiment(view, users)),
        }),
      };
    },
  );
}
